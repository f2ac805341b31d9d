"""Kernels of facts: NumPy and compiled, bit for bit."""

import gzip
import json
import random
import re
import unicodedata
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from fresh import run_fresh
from hypothesis import example, given
from hypothesis import strategies as st
from kernel_levels import native

import scrapy_neardup.kernels.numpy_twin.facts as twin
from scrapy_neardup.kernels.numpy_twin.mix import fmix64
from scrapy_neardup.kernels.numpy_twin.words import blocks, stream_safe

# What facts are made of, what stands around them, what canonical form changes, what is hidden.
ATOMS = (
    *"abcnotCM 5²½Ⅷ-+#£★%<",
    *("not ", "no ", "isn't ", "isn’t ", "5 ", "size M ", ". ", "; ", "…\n", "\n", "\n\n", "  "),
    *("Of letters ", "seventeen", "electroluminescence ", "@", "[", "`", "{"),
    *"(),.'’\"！。５ＡＣ\u3000\xa0\u200b\u200c\u2065\U000e0001\U000e0041🏴é\u0301e\uff9eカ가\u1161ß\x00\ud800\udfff",
)
TEXTS = st.lists(st.sampled_from(ATOMS), max_size=40).map("".join) | st.text()


@pytest.fixture(scope="module")
def kernel() -> ModuleType:
    return native("facts")


@pytest.mark.parametrize("text", ["漢字abc", "한e", "жa1 b", "½x", "\u0301e"])
def test_the_first_text_of_a_process_may_be_any(text: str) -> None:
    """What is known of ASCII is not there yet where a letter follows one of another script."""
    done = run_fresh(
        "from scrapy_neardup.detect.text import exact_text, normalise\n"
        f"assert exact_text({text!a}) and normalise({text!a})"
    )
    assert done.returncode == 0, done.stderr


def same(one: Sequence[Any], other: Sequence[Any]) -> bool:
    columns = zip(one[1:], other[1:], strict=True)
    return one[0] == other[0] and all(
        a.dtype == b.dtype and np.array_equal(a, b) for a, b in columns
    )


HEADS = st.lists(st.integers(0, 2**64 - 1) | st.sampled_from([0, 0xFFFE, 0xFFFF]), max_size=7)


@given(TEXTS, st.integers(0, 5), HEADS, st.integers(0, 2**32 - 1), st.randoms())
@example("not 5\nno ★ not", 9, [], 0, random.Random(0))
@example("don't not.no/never", 9, [0xFFFE] * 5, 1, random.Random(1))
@example("5\nof 4 and more words\n7\nnot 8\n★", 9, [1, 2, 3, 4], 0, random.Random(2))
def test_any_text_reads_as_the_twin_reads_it(
    kernel: ModuleType, text: str, max_lines: int, heads: list[int], tag: int, chance: Any
) -> None:
    found = twin.read(text, max_lines)
    assert same(kernel.read(text, max_lines), found)
    words, hashes, n_words, lines, ends = blocks(text, max_lines)
    titles, headings = np.array(heads, np.uint64), np.array(heads[1:], np.uint64)
    n = len(hashes) + len(titles) + len(headings)
    are_own = np.array([chance.random() < 0.6 for _ in range(n)], bool)
    columns = words, hashes, ends, lines, n_words, are_own, *found[1:], titles, headings, tag
    assert same([b"", kernel.packed(*columns)], [b"", twin.packed(*columns)])


@pytest.mark.parametrize("fact", ["7", "not", "never there", "Müller", "electroluminescences 7"])
@pytest.mark.parametrize("n_words", [126, 127, 128, 129, 300])
def test_a_long_sentence_reads_as_the_twin_reads_it(
    kernel: ModuleType, n_words: int, fact: str
) -> None:
    """Wherever its fact stands among more plain words than wait to be hashed."""
    chance = random.Random(n_words)
    plain = ["".join(chance.choices("abcXYZ", k=chance.randrange(2, 15))) for _ in range(n_words)]
    for at in (0, 1, n_words // 2, n_words):
        sentence = " ".join([*plain[:at], fact, *plain[at:]])
        text = f"{sentence}. {sentence} and more\n{' '.join(plain)}"
        assert same(kernel.read(text, 9), twin.read(text, 9))


def test_every_negation_is_found_among_plain_words(kernel: ModuleType) -> None:
    for word in sorted(twin.NEGATIONS):
        text = f"this is {word} here and {word.title()} there, {word}"
        found = kernel.read(text, 9)
        assert len(found[5]) == 3
        assert same(found, twin.read(text, 9))


# Rows of facts that are alike but for a few words and cells.
WORD = st.sampled_from([0, 1, 2, 3, 0x1001_1002, 2**16, 2**32, 0x1003 << 48, 0x5555 << 40, 0x8001])
ROWS = st.lists(st.lists(WORD, min_size=13, max_size=13), min_size=1, max_size=6)


@given(ROWS, st.lists(st.floats(0, 30) | st.just(np.inf), min_size=12, max_size=12))
def test_rows_of_facts_differ_as_the_twin_says(
    kernel: ModuleType, ends: list[list[int]], shingles: list[float]
) -> None:
    rows = np.zeros((len(ends), 2 * twin.FACT_WORDS), np.uint64)[:, : twin.FACT_WORDS]
    for row, words in zip(rows, ends, strict=True):
        row[:2], row[-11:] = words[:2], words[2:]
    differing = np.array(shingles[: len(ends)]), np.array(shingles[6 : 6 + len(ends)])
    for row in rows:
        columns = row.copy(), rows, *differing
        assert same([b"", kernel.differences(*columns)], [b"", twin.differences(*columns)])
        assert same([b"", kernel.reworded(*columns[:3])], [b"", twin.reworded(*columns[:3])])


@pytest.mark.parametrize(
    ("ours", "theirs", "differ"),
    [
        (0x1005_2003, 0x2009_0000, True),  # each has what the other lacks, and other values
        (0x1005_2003, 0x3008_0000, False),  # the same values, cut otherwise
        (0x1005_2003, 0x1005_0000, False),  # one has more
        (0x8005_0000, 0x0000_0000, True),  # eight more or eight fewer, modulo 16
        (0xF005_1003, 0x0006_0000, True),  # sixteen there are counted as none
    ],
)
def test_pages_differ_where_each_has_facts_that_the_other_lacks(
    kernel: ModuleType, ours: int, theirs: int, differ: bool
) -> None:
    one, other = np.zeros((2, twin.FACT_WORDS), np.uint64)
    one[0], other[0] = ours, theirs
    differing = np.array([twin.FEW_PLACES, twin.FEW_PLACES + 1], np.float64)
    for facts in (kernel, twin):
        for pair in ((one, other), (other, one)):
            rows = np.array([pair[1], pair[1]])
            found = facts.differences(pair[0], rows, differing, differing)
            assert (found == 3).tolist() == [differ, False]


def test_every_negation_is_known_to_both(kernel: ModuleType) -> None:
    for word in twin.NEGATIONS:
        for text in (f"a {word} b", word.upper(), f"({word})!"):
            found = kernel.read(text, 9)
            assert same(found, twin.read(text, 9)), word
        assert len(kernel.read(f"a {word} b", 9)[5]) == 1, word


def test_every_value_in_words_counts_wherever_it_stands(kernel: ModuleType) -> None:
    for word in sorted(twin.VALUES):
        text = f"this is {word} here. So (is {word.title()}).\nno such word is here"
        found = kernel.read(text, 9)
        assert len(found[1]) == 3, word
        assert same(found, twin.read(text, 9)), word


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        ("two", "three"),
        ("part IV", "part VI"),
        ("on Monday", "on Tuesday"),
        ("Montag", "Freitag"),
        ("zwei", "dreißig"),
        ("два", "три"),
        ("pięć", "sześć"),
        ("तीन", "चार"),
        ("월요일", "금요일"),
    ],
)
def test_other_values_in_words_make_another_statement(
    kernel: ModuleType, ours: str, theirs: str
) -> None:
    (one, mask, value, *_), (other, other_mask, other_value, *_) = (
        kernel.read(f"he said {said} of his long and boring story", 9)[1:]
        for said in (ours, theirs)
    )
    assert one == other
    assert mask == other_mask
    assert value != other_value


LETTERS = st.text(st.sampled_from("abé博館𠀀5"), min_size=1, max_size=5)
BLOCKS = st.lists(st.tuples(st.lists(LETTERS, min_size=1, max_size=12), st.booleans()), max_size=6)
NOTHING = np.empty(0, np.int64), *[np.empty(0, np.uint64)] * 2
NO_FACTS = *NOTHING, *NOTHING[:2], *NOTHING[1:]


@given(BLOCKS)
@example([])
def test_words_are_spelt_as_the_twin_spells_them(
    kernel: ModuleType, blocks: list[tuple[list[str], bool]]
) -> None:
    texts = [" ".join(words).encode() for words, _ in blocks]
    ends = np.cumsum([len(text) + 1 for text in texts], dtype=np.int64) - 1
    n_words = np.array([len(words) for words, _ in blocks], np.int64)
    are_own = np.array([wanted for _, wanted in blocks], bool)
    lines = np.arange(len(blocks), dtype=np.int64)
    hashes = fmix64(np.arange(len(blocks), dtype=np.uint64))
    columns = b" ".join(texts), hashes, ends, lines, n_words, are_own, *NO_FACTS, 0
    assert same([b"", kernel.packed(*columns)], [b"", twin.packed(*columns)])


@pytest.mark.parametrize("company", ["{}", "a{} b", "5{}", "e{}\u0301", "\u1100{}"])
def test_every_character_in_company_reads_as_the_twin_reads_it(
    kernel: ModuleType, company: str
) -> None:
    for start in range(0, 0x110000, 0x400):
        codes = (chr(c) for c in range(start, start + 0x400))
        text = " ".join(map(company.format, codes))
        assert same(kernel.read(text, 1), twin.read(text, 1))


def test_every_shared_page_reads_as_the_twin_reads_it(
    kernel: ModuleType, shared_data: Path
) -> None:
    with gzip.open(shared_data / "pairs" / "pages.jsonl.gz", "rt", encoding="utf-8") as lines:
        texts = [json.loads(line)["html"] for line in lines][::5]
    for text in texts:
        assert same(kernel.read(text, 99), twin.read(text, 99))


class CountedPattern:
    """A pattern that notes how long what it is searched in is."""

    def __init__(self, pattern: re.Pattern[str]) -> None:
        self.pattern, self.lengths = pattern, [0]

    def sub(self, new: str, text: str) -> str:
        self.lengths.append(len(text))
        return self.pattern.sub(new, text)


def test_no_long_text_is_rid_of_hidden_characters_in_one_call(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # 15 MB of these held Python's lock for half a second: the fuzzer found them.
    text = "\u0dca\u200b" * 200_000
    counted = CountedPattern(twin.INVISIBLE)
    monkeypatch.setattr(twin, "INVISIBLE", counted)
    assert twin.canonical(text).replace("\u034f", "") == "\u0dca" * 200_000
    assert sum(counted.lengths) == len(text)
    assert max(counted.lengths) <= 1 << 17


@given(TEXTS)
def test_what_copies_share_is_the_text_in_canonical_form(text: str) -> None:
    seen = twin.INVISIBLE.sub("", text)
    expected = " ".join(unicodedata.normalize("NFC", stream_safe(seen)).split())
    assert twin.read(text, 9)[0] == expected.encode("utf-8", "surrogatepass")


@pytest.mark.parametrize(
    "piece",
    [
        "no/",
        "5",
        "5 ",
        ". 5",
        "\u0301",
        "n't",
        "£",
        "\u200b",
        "(",
        "not. ",
        "\ud800",
        "5\udfff e\u0301",
    ],
    ids=ascii,
)
def test_a_long_text_of_one_piece_is_read_in_full(kernel: ModuleType, piece: str) -> None:
    text = piece * 100_000
    assert same(kernel.read(text, 9), twin.read(text, 9))


def test_text_with_lone_surrogates_is_read_by_the_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    """Python's lock is released then, which NumPy's kernel holds for as long as it reads."""
    facts = native("facts")
    monkeypatch.setattr(twin, "read", None)
    assert facts.read("no \ud800 5", 9)[0] == b"no \xed\xa0\x80 5"


def test_what_is_not_text_is_refused(kernel: ModuleType) -> None:
    with pytest.raises(TypeError):
        kernel.read(b"bytes", 9)
    with pytest.raises((TypeError, BufferError)):
        kernel.packed(b"a", *[[1]] * 12, 0)
    rows = np.zeros((2, twin.FACT_WORDS), np.uint64)
    with pytest.raises(ValueError, match="are needed"):
        kernel.differences(rows[0, 1:], rows, np.zeros(2), np.zeros(2))
    with pytest.raises(ValueError, match="are needed"):
        kernel.differences(rows[0], rows, np.zeros(1), np.zeros(2))
    with pytest.raises(ValueError, match=f"{twin.FACT_WORDS} are needed"):
        kernel.reworded(rows[0], rows, np.zeros(1))
