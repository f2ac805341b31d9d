"""kernels/*/bloom: the compiled bits and their twin are the same, bit for bit."""

import subprocess
import sys
from importlib.util import find_spec
from types import ModuleType

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scrapy_neardup.kernels.numpy_twin import bloom as twin
from scrapy_neardup.urls.filters.exact import ExactUrlFilter
from scrapy_neardup.urls.filters.layered import LayeredBloomFilter

SEED = 0x0F0E0D0C0B0A09080706050403020100
WORDS = (SEED & (2**64 - 1), SEED >> 64)
segments = st.binary(max_size=40)
url_bytes = st.lists(st.sampled_from([b"a", b"b/", b"/", b"?", b"x" * 9, b"", b"\0"]), max_size=9)
keys = st.one_of(st.binary(max_size=60), url_bytes.map(b"".join))


def siphash(key: tuple[int, int], data: bytes, rounds: tuple[int, int], wide: bool) -> bytes:
    """SipHash-c-d as its paper has it, 64 bits, or 128 as in its authors' reference code."""
    v = [
        key[0] ^ 0x736F6D6570736575,
        key[1] ^ 0x646F72616E646F6D ^ (0xEE if wide else 0),
        key[0] ^ 0x6C7967656E657261,
        key[1] ^ 0x7465646279746573,
    ]

    def turn(times: int) -> bytes:
        for _ in range(times):
            v[:] = twin.sip_round(*v)
        return (v[0] ^ v[1] ^ v[2] ^ v[3]).to_bytes(8, "little")

    padded = data + bytes(7 - len(data) % 8) + bytes([len(data) % 256])
    for at in range(0, len(padded), 8):
        word = int.from_bytes(padded[at : at + 8], "little")
        v[3] ^= word
        turn(rounds[0])
        v[0] ^= word
    v[2] ^= 0xEE if wide else 0xFF
    result = turn(rounds[1])
    if wide:
        v[1] ^= 0xDD
        result += turn(rounds[1])
    return result


def test_the_oracle_gives_the_published_vectors_of_siphash_2_4() -> None:
    assert siphash(WORDS, bytes(range(15)), (2, 4), wide=False).hex() == "e545be4961ca29a1"
    assert siphash(WORDS, b"", (2, 4), wide=False).hex() == "310e0edd47db6f72"
    assert siphash(WORDS, b"", (2, 4), wide=True).hex() == "a3817f04ba25a8e66df67214c7550293"


@pytest.mark.skipif(sys.hash_info.algorithm != "siphash13", reason="this Python hashes otherwise")
def test_the_oracle_gives_what_python_hashes_with_siphash_1_3() -> None:
    code = "print(hash(b'host.example'))"
    run = subprocess.run(
        [sys.executable, "-c", code], env={"PYTHONHASHSEED": "0"}, capture_output=True, check=True
    )
    expected = int(run.stdout) % 2**64
    found = siphash((0, 0), b"host.example", (1, 3), wide=False)
    assert int.from_bytes(found, "little") == expected


@given(segments, st.integers(1, 2**32))
def test_a_digest_is_siphash_1_3_over_layer_and_segment(segment: bytes, layer: int) -> None:
    low, high = twin.digest(*WORDS, layer, segment)
    wanted = siphash(WORDS, layer.to_bytes(8, "little") + segment, (1, 3), wide=True)
    assert low.to_bytes(8, "little") + high.to_bytes(8, "little") == wanted


@pytest.fixture(scope="module")
def native() -> ModuleType:
    if not find_spec("scrapy_neardup.kernels.native.bloom"):
        pytest.skip("the bloom kernels are not compiled here")
    from scrapy_neardup.kernels.native import bloom

    return bloom


@given(st.lists(keys, max_size=60), st.sampled_from([0, 1, 2, 8]), st.sampled_from([0.01, 1e-9]))
@settings(max_examples=60, deadline=None)
def test_layers_set_the_same_bits(
    native: ModuleType, added: list[bytes], layers: int, error_rate: float
) -> None:
    ours, theirs = (LayeredBloomFilter(7, error_rate, layers, SEED) for _ in range(2))
    for known in (ours, theirs):
        for _ in range(3):
            known._urls.grow()
    compiled = native.LayeredBits(*bits_arguments(ours))
    plain = twin.LayeredBits(*bits_arguments(theirs))
    half = len(added) // 2
    assert [compiled.add(key) for key in added[:half]] == [plain.add(key) for key in added[:half]]
    assert compiled.add_many(added[half:]).tolist() == plain.add_many(added[half:]).tolist()
    assert compiled.find_many(added).tolist() == [plain.find(key) for key in added]
    asked = [*added, *(key[1:] for key in added)]
    assert [key in compiled for key in asked] == [key in plain for key in asked]
    for one, other in zip(ours._slices(), theirs._slices(), strict=True):
        assert one.counts.tolist() == other.counts.tolist()
        assert np.array_equal(one.words, other.words)


def bits_arguments(known: LayeredBloomFilter) -> tuple[object, ...]:
    """What a filter hands to its kernel."""
    slices = known._slices()
    layers = [n for n, chain in enumerate(known._chains, start=1) for _ in chain.slices]
    rows = [
        (layer, one.shape.n_hashes, one.shape.blocked, 20)
        for layer, one in zip(layers, slices, strict=True)
    ]
    counts, words = [one.counts for one in slices], [one.words for one in slices]
    return known._seed, np.array(rows, np.uint64), counts, words


@given(st.lists(keys, max_size=80))
@settings(max_examples=60, deadline=None)
def test_tables_hold_the_same_fingerprints(native: ModuleType, added: list[bytes]) -> None:
    seed = np.array(WORDS, np.uint64)
    tables = [np.zeros(64, np.uint64) for _ in range(2)]
    compiled = native.TableBits(seed, tables[0], np.zeros(1, np.uint64), 50)
    plain = twin.TableBits(seed, tables[1], np.zeros(1, np.uint64), 50)
    assert [compiled.add(key) for key in added] == [plain.add(key) for key in added]
    assert compiled.find_many(added).tolist() == plain.find_many(added).tolist()
    asked = [*added, *(key[1:] for key in added)]
    assert [key in compiled for key in asked] == [key in plain for key in asked]
    assert np.array_equal(*tables)
    larger = [np.zeros(128, np.uint64) for _ in range(2)]
    native.TableBits(seed, larger[0], np.zeros(1, np.uint64), 99).refill(tables[0])
    twin.TableBits(seed, larger[1], np.zeros(1, np.uint64), 99).refill(tables[1])
    assert np.array_equal(*(np.sort(table) for table in larger))


# A layer of this filter takes 20 keys; only the filter itself makes room for more.
@given(st.lists(st.text(st.characters(codec="utf-8"), max_size=20), max_size=20))
@settings(max_examples=30, deadline=None)
def test_a_str_is_its_utf_8(native: ModuleType, texts: list[str]) -> None:
    known = LayeredBloomFilter(100, seed=SEED)
    plain = twin.LayeredBits(*bits_arguments(LayeredBloomFilter(100, seed=SEED)))
    compiled = native.LayeredBits(*bits_arguments(LayeredBloomFilter(100, seed=SEED)))
    for bits in (known, plain, compiled):
        bits.add_many(texts)
        assert all(text in bits and text.encode() in bits for text in texts)
        assert not any(bits.find_many([text.encode() for text in texts]))


@pytest.mark.parametrize("wrong", [bytearray(b"text"), None, 3])
def test_only_str_and_bytes_are_keys(native: ModuleType, wrong: object) -> None:
    for known in (LayeredBloomFilter(10), ExactUrlFilter(10)):
        with pytest.raises((TypeError, AttributeError)):
            known.add(wrong)  # type: ignore[arg-type]
        with pytest.raises((TypeError, AttributeError)):
            assert wrong in known
