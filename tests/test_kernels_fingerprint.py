"""Fingerprint kernels: NumPy and every SIMD level against the reference, bit for bit."""

import gzip
import json
import random
from math import nan
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kernel_levels import VARIANTS, kernels_of

import scrapy_neardup.kernels.numpy_twin.fingerprint as twin
from scrapy_neardup.detect.odd_sketch import ROW_WORDS, told
from scrapy_neardup.engines import (
    FINGERPRINT,
    MAX_SHINGLE,
    PAPER,
    SKETCH,
    FingerprintSpec,
    reference,
    siphash_key,
)
from scrapy_neardup.engines.reference import ReferenceEngine, as_words, count_words

kernel = kernels_of("fingerprint")
compiled = kernels_of("fingerprint", VARIANTS[1:])

LONG_SHINGLES = FingerprintSpec(bits=128, shingle=MAX_SHINGLE, weighting="set", tie="ge", key=3)
SPECS = (PAPER, FINGERPRINT, SKETCH, LONG_SHINGLES)

specs = st.builds(
    FingerprintSpec,
    bits=st.sampled_from([64, 128, 256, 1024]),
    shingle=st.integers(1, MAX_SHINGLE),
    weighting=st.sampled_from(["count", "set"]),
    tie=st.sampled_from(["gt", "ge"]),
    key=st.integers(0, 2**64 - 1),
    hash=st.sampled_from(["sdbm", "siphash"]),
) | st.builds(
    FingerprintSpec,
    mix=st.just(False),
    weighting=st.sampled_from(["count", "set"]),
    tie=st.sampled_from(["gt", "ge"]),
)
texts = st.binary(max_size=300) | st.lists(
    st.sampled_from([b"", b"a", b"bc", b"school", b"students", b"paragraphs", b"\0", b"x" * 70])
    | st.binary(max_size=20),
    max_size=60,
).map(b" ".join)


def expected(words: bytes, spec: FingerprintSpec) -> list[int]:
    fingerprint = ReferenceEngine(spec).fingerprint(words)
    return as_words(fingerprint, spec.n_words).tolist()  # type: ignore[no-any-return]


def random_words(n: int, longest: int, vocabulary: int, seed: int = 7) -> bytes:
    chance = random.Random(seed)
    known = [chance.randbytes(chance.randint(1, longest)).hex() for _ in range(vocabulary)]
    return " ".join(chance.choices(known, k=n)).encode()


@given(words=texts, spec=specs)
def test_kernels_give_what_the_reference_gives(
    kernel: ModuleType, words: bytes, spec: FingerprintSpec
) -> None:
    assert kernel.fingerprint(words, *spec.arguments).tolist() == expected(words, spec)


@given(
    words=texts,
    bits=st.sampled_from([64, 1024]),
    shingle=st.integers(1, 6),
    key=st.integers(0, 2**64 - 1),
    level=st.integers(0, 3),
    n_levels=st.integers(1, 4),
)
def test_odd_sketches_are_what_the_reference_gives(
    kernel: ModuleType, words: bytes, bits: int, shingle: int, key: int, level: int, n_levels: int
) -> None:
    spec = FingerprintSpec(bits, shingle, weighting="set", key=key, hash="siphash")
    secret = siphash_key(key)
    found = kernel.odd_rows(words, spec.n_words, shingle, secret, level, n_levels)
    for at, row in enumerate(found.tolist(), level):
        sketch, n_taken = reference.odd_sketch(words, spec, at)
        assert row == [at << 32 | n_taken, *as_words(sketch, spec.n_words).tolist()]
    assert len(found) == n_levels


def compared(own: list[int], other: list[int], n_sketch: int, share: float) -> tuple[int, float]:
    """Sketch bits and similarity of two rows, one number at a time."""
    apart = [(a ^ b).bit_count() for a, b in zip(own, other, strict=True)]
    size, its = (float(row[n_sketch] & 2**32 - 1) for row in (own, other))
    both = max(its + size - 2 * (1 - share) * size, 0.0)
    differing = max(float(told()[sum(apart[n_sketch + 1 :])]), abs(its - size))
    similar = max(both - differing, 0.0) / max(both + differing, 1.0)
    return sum(apart[:n_sketch]), similar if own[n_sketch] >> 32 == other[n_sketch] >> 32 else nan


@given(
    seed=st.integers(0, 2**32 - 1),
    n_rows=st.integers(0, 5),
    n_sketch=st.integers(0, 4),
    share=st.floats(0, 1),
    within=st.integers(0, 40) | st.just(2**31 - 1),
    one_for_each=st.booleans(),
)
def test_rows_are_compared_as_one_number_at_a_time(
    kernel: ModuleType,
    seed: int,
    n_rows: int,
    n_sketch: int,
    share: float,
    within: int,
    one_for_each: bool,
) -> None:
    chance = np.random.default_rng(seed)
    rows = chance.integers(0, 2**64, (n_rows, n_sketch + ROW_WORDS), dtype=np.uint64)
    for row in rows:  # near the first one, now and then at another level
        flips = chance.integers(0, 2**64, len(row), dtype=np.uint64)
        flips &= flips << np.uint64(7) & flips >> np.uint64(13) & flips << np.uint64(29)
        row[:] = rows[0] ^ flips
        row[n_sketch] = chance.integers(0, 2) << 32 | chance.integers(0, 600)
    own = rows[::-1].copy() if one_for_each else chance.permutation(rows)[:1].reshape(-1)
    if not n_rows and not one_for_each:
        own = np.zeros(n_sketch + ROW_WORDS, dtype=np.uint64)
    others = np.concatenate([rows, rows], axis=1)[:, : rows.shape[1]]  # a part of longer rows
    bits, similar, unlike = kernel.compare(own, others, n_sketch, told(), share, within)
    owns = own.tolist() if one_for_each else [own.tolist()] * n_rows
    expected = [compared(a, b, n_sketch, share) for a, b in zip(owns, rows.tolist(), strict=True)]
    assert bits.tolist() == [apart for apart, _ in expected]
    alike = [similarity if apart <= within else -1.0 for apart, similarity in expected]
    np.testing.assert_array_equal(similar, np.array(alike, dtype=np.float64))
    assert unlike == np.isnan(similar).sum()


def test_rows_that_do_not_fit_are_refused(compiled: ModuleType) -> None:
    row = np.zeros(ROW_WORDS, dtype=np.uint64)
    with pytest.raises(ValueError, match="a page of shape"):
        compiled.compare(row[1:], row[None], 0, told(), 1.0, 64)
    with pytest.raises(ValueError, match="8 values"):
        compiled.compare(row, row[None], 0, told()[:8], 1.0, 64)
    with pytest.raises(ValueError, match="each contiguous"):
        compiled.compare(row, np.zeros((ROW_WORDS, 2), np.uint64).T[:1], 0, told(), 1.0, 64)


@given(words=texts, first=specs, second=specs)
def test_one_pass_gives_the_same_as_two(
    kernel: ModuleType, words: bytes, first: FingerprintSpec, second: FingerprintSpec
) -> None:
    fp, sketch, n_words = kernel.signatures(words, first.arguments, second.arguments)
    assert fp.tolist() == kernel.fingerprint(words, *first.arguments).tolist()
    assert sketch.tolist() == kernel.fingerprint(words, *second.arguments).tolist()
    assert n_words == kernel.count_words(words) == count_words(words)


@given(words=st.lists(texts, max_size=8), spec=specs)
def test_many_texts_give_the_same_as_each(
    kernel: ModuleType, words: list[bytes], spec: FingerprintSpec
) -> None:
    many = kernel.fingerprint_many(words, *spec.arguments)
    assert many.shape == (len(words), spec.n_words)
    assert many.tolist() == [kernel.fingerprint(w, *spec.arguments).tolist() for w in words]


@pytest.mark.parametrize("spec", SPECS, ids=str)
@pytest.mark.parametrize(
    "pattern", [b"x", b" ", b"a ", b" ab", b"abcdefg ", b"abcdefgh ", b"abcdefgh  ijklmnopq "]
)
def test_every_length_to_300(kernel: ModuleType, pattern: bytes, spec: FingerprintSpec) -> None:
    for length in range(301):
        words = (pattern * 301)[:length]
        assert kernel.fingerprint(words, *spec.arguments).tolist() == expected(words, spec)


@pytest.mark.parametrize("spec", SPECS, ids=str)
def test_every_length_of_a_word_at_every_place_in_a_block(
    kernel: ModuleType, spec: FingerprintSpec
) -> None:
    for length in range(1, 90):
        words = b" ".join(bytes([b]) * length for b in range(65, 75))
        assert kernel.fingerprint(words, *spec.arguments).tolist() == expected(words, spec)


@pytest.mark.parametrize("spec", SPECS, ids=str)
def test_all_256_bytes_in_any_order(kernel: ModuleType, spec: FingerprintSpec) -> None:
    for seed in range(20):
        order = list(range(256)) * 3
        random.Random(seed).shuffle(order)
        words = bytes(order)
        assert kernel.fingerprint(words, *spec.arguments).tolist() == expected(words, spec)


@pytest.mark.parametrize("spec", SPECS, ids=str)
@pytest.mark.parametrize("size", [1, 30_000, 1_000_000])
def test_one_long_word_before_between_and_after_others(
    kernel: ModuleType, size: int, spec: FingerprintSpec
) -> None:
    word = random_words(1, 1, 1) + b"0123456789abcdef" * (size // 16)
    for words in (word, word + b" a b", b"a b " + word, b"  a " + word + b" b  "):
        assert kernel.fingerprint(words, *spec.arguments).tolist() == expected(words, spec)


@pytest.mark.parametrize("spec", SPECS, ids=str)
@pytest.mark.parametrize(
    "words",
    [
        b"a" + b" b" * 5_000,
        random_words(20_000, 30, 10**4),
        b" ".join([b"a", b" " * 200_000, b"b"]),
    ],
    ids=["short words", "many words", "many spaces"],
)
def test_long_texts_give_what_the_twin_gives(
    compiled: ModuleType, words: bytes, spec: FingerprintSpec
) -> None:
    arguments = spec.arguments
    np.testing.assert_array_equal(
        compiled.fingerprint(words, *arguments), twin.fingerprint(words, *arguments)
    )
    assert compiled.count_words(words) == twin.count_words(words) == len(words.split())


def test_many_megabytes_on_all_cores_give_the_same_rows(compiled: ModuleType) -> None:
    texts = [random_words(400, 10, 500, seed) for seed in range(700)]
    assert sum(map(len, texts)) > 2 * compiled.PART
    np.testing.assert_array_equal(
        compiled.fingerprint_many(texts, *SKETCH.arguments),
        [twin.fingerprint(t, *SKETCH.arguments) for t in texts],
    )


def test_real_pages_give_what_the_twin_gives(compiled: ModuleType, shared_data: Path) -> None:
    with gzip.open(shared_data / "pairs" / "pages.jsonl.gz", "rt", encoding="utf-8") as lines:
        texts = [json.loads(line)["html"].encode() for line in lines][::20]
    for spec in SPECS:
        np.testing.assert_array_equal(
            compiled.fingerprint_many(texts, *spec.arguments),
            twin.fingerprint_many(texts, *spec.arguments),
        )


def test_a_text_that_is_not_bytes_is_refused(compiled: ModuleType) -> None:
    with pytest.raises(TypeError):
        compiled.fingerprint("a b c")
    with pytest.raises(TypeError):
        compiled.fingerprint_many([b"a b c", "d e f"])


@pytest.mark.parametrize("arguments", [(0,), (17,), (1, 0), (1, 17)])
def test_sizes_beyond_the_limits_are_refused(
    compiled: ModuleType, arguments: tuple[int, ...]
) -> None:
    with pytest.raises(ValueError, match="take 1 to 16"):
        compiled.fingerprint(b"a b c", *arguments)


@pytest.mark.long
@pytest.mark.parametrize("longest", [5, 10**6])
def test_a_hundred_megabytes_give_what_the_twin_gives(compiled: ModuleType, longest: int) -> None:
    words = random_words(10**8 // longest, longest, min(10**6, 10**8 // longest))
    for spec in (PAPER, SKETCH):
        np.testing.assert_array_equal(
            compiled.fingerprint(words, *spec.arguments),
            twin.fingerprint(words, *spec.arguments),
        )
