"""scrapy_neardup/engines/topsig.py: weights, signs and what near pages share."""

import gzip
import json

import numpy as np
import pytest

from scrapy_neardup.engines.topsig import TermTable, TopSig, term_features
from scrapy_neardup.errors import SnapshotError, SpecError

TEXTS = [b"the cat sat on the mat", b"the dog sat on the log", b"the cow jumped over the moon"]


def test_terms_are_counted_over_the_collection():
    table = TermTable.of_texts(TEXTS)
    the, _ = term_features(b"the")
    unseen, _ = term_features(b"zebra")
    assert table.total == 18
    assert table.shares(the).tolist() == [6 / 18]
    assert table.shares(unseen).tolist() == [1 / 18]


def test_a_word_alone_sets_the_bits_it_touches_with_positive_sign():
    topsig = TopSig(TermTable.of_texts(TEXTS), bits=1024)
    signature = topsig.signature(b"cat")
    places, signs = topsig._touched(term_features(b"cat")[0])
    assert places.shape == (1, 49)
    assert len(set(places[0].tolist())) == 49
    assert signature == sum(
        1 << p for p, s in zip(places[0].tolist(), signs[0], strict=True) if s > 0
    )
    assert 10 < signature.bit_count() < 40


def test_words_that_tell_nothing_are_left_out():
    topsig = TopSig(TermTable.of_texts([b"the"] * 100))
    assert topsig.signature(b"the the") == 0
    assert topsig.signature(b"") == 0
    assert topsig.signature(b"the cat the the the") == topsig.signature(b"cat the the the the")


def test_frequent_words_weigh_less_than_telling_ones():
    topsig = TopSig(TermTable.of_texts([b"common"] * 50 + [b"rare"]))
    both, rare = topsig.signature(b"common rare"), topsig.signature(b"rare")
    assert (both ^ rare).bit_count() == 0


def test_reopened_table_gives_the_same_signatures():
    table = TermTable.of_texts(TEXTS)
    again = TermTable.from_arrays(table.arrays())
    one, other = TopSig(table, 256), TopSig(again, 256)
    np.testing.assert_array_equal(one.signature_many(TEXTS), other.signature_many(TEXTS))
    with pytest.raises(SnapshotError, match="must ascend"):
        TermTable.from_arrays({**table.arrays(), "features": table.features[::-1]})


def test_impossible_shapes_are_refused():
    table = TermTable.of_texts(TEXTS)
    with pytest.raises(SpecError, match="bits=100"):
        TopSig(table, 100)
    with pytest.raises(SpecError, match="density=0"):
        TopSig(table, 64, 0)


def test_versions_of_real_pages_are_nearer_than_other_pages(shared_data):
    from scrapy_neardup.detect.text import normalise

    pages = {}
    with gzip.open(shared_data / "pairs" / "pages.jsonl.gz", "rt", encoding="utf-8") as lines:
        for line in lines:
            page = json.loads(line)
            if page["source"] == "sqla" and len(pages.setdefault(page["group"], [])) < 2:
                pages[page["group"]].append(normalise(page["html"]))
    versions = [texts for texts in pages.values() if len(texts) == 2][:25]
    topsig = TopSig(TermTable.of_texts(text for texts in versions for text in texts), 256)
    one = topsig.signature_many([texts[0] for texts in versions])
    other = topsig.signature_many([texts[1] for texts in versions])
    bits = np.bitwise_count(one[:, None] ^ other[None]).sum(axis=2)
    assert len(versions) >= 20
    assert np.median(np.diag(bits)) < 0.5 * np.median(bits)
