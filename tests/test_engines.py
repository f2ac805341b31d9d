"""Engines: the same golden vectors for each, and the one that is asked for."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from kernel_levels import native

from scrapy_neardup.detect.odd_sketch import odd_row
from scrapy_neardup.engines import (
    FINGERPRINT,
    NAMES,
    PAPER,
    SKETCH,
    Engine,
    FingerprintSpec,
    fastest,
    key_id,
    load_engine,
    siphash_key,
)
from scrapy_neardup.engines.reference import ReferenceEngine, as_words, sdbm, siphash, votes
from scrapy_neardup.errors import EngineUnavailable, KernelsUnavailable, SpecError
from scrapy_neardup.kernels import native_is_built

GOLDEN = json.loads((Path(__file__).parent / "vectors" / "simhash64.json").read_text("utf-8"))
KEYED = json.loads((Path(__file__).parent / "vectors" / "sketch256.json").read_text("utf-8"))
FIGURE3 = GOLDEN["figure3"]


def spec_of(vector: dict[str, Any]) -> FingerprintSpec:
    return FingerprintSpec(**{**vector["spec"], "key": int(vector["spec"]["key"], 16)})


@pytest.fixture(params=["reference", "numpy", "native"])
def name(request: pytest.FixtureRequest) -> str:
    if request.param == "native":
        native("fingerprint")
    return str(request.param)


@pytest.mark.parametrize("vector", GOLDEN["vectors"], ids=lambda v: v["name"])
def test_every_engine_gives_the_golden_vectors(name: str, vector: dict[str, Any]) -> None:
    engine = load_engine(name, spec_of(vector))
    assert engine.fingerprint(bytes.fromhex(vector["words"])) == int(vector["fingerprint"], 16)


@pytest.mark.parametrize("vector", GOLDEN["vectors"], ids=lambda v: v["name"])
def test_one_pass_gives_fingerprint_sketch_and_words(name: str, vector: dict[str, Any]) -> None:
    words, spec = bytes.fromhex(vector["words"]), spec_of(vector)
    signatures = load_engine(name, FINGERPRINT, spec).signatures(words)
    expected = as_words(int(vector["fingerprint"], 16), spec.n_words)
    assert signatures.fingerprint == load_engine("reference").fingerprint(words)
    assert signatures.sketch.dtype == np.uint64
    np.testing.assert_array_equal(signatures.sketch, expected)
    assert signatures.n_words == vector["n_words"]


@pytest.mark.parametrize("vector", KEYED["vectors"], ids=lambda v: v["name"])
def test_every_engine_gives_the_golden_sketches(name: str, vector: dict[str, Any]) -> None:
    words, spec = bytes.fromhex(vector["words"]), replace(SKETCH, key=int(vector["key"], 16))
    signatures = load_engine(name, FINGERPRINT, spec).signatures(words)
    np.testing.assert_array_equal(signatures.sketch, as_words(int(vector["sketch"], 16), 4))
    assert signatures.n_words == vector["n_words"]


@pytest.mark.parametrize("vector", KEYED["vectors"], ids=lambda v: v["name"])
def test_kernels_give_the_golden_odd_sketches(vector: dict[str, Any]) -> None:
    words, key = bytes.fromhex(vector["words"]), int(vector["key"], 16)
    for odd in vector["odd_sketches"]:
        head, *sketch = odd_row(words, odd["level"], key).tolist()
        assert head == odd["level"] << 32 | odd["taken"]
        assert sketch == as_words(int(odd["bits"], 16), 16).tolist()


def test_siphash_is_that_of_its_authors() -> None:
    key = int.from_bytes(bytes(range(16)), "little")
    hashes = [f"{siphash(bytes(range(n)), key):016x}" for n in range(len(KEYED["siphash"]))]
    assert hashes == KEYED["siphash"]
    assert hashes[0] == "abac0158050fc4dc"  # known from other implementations, such as Rust's
    for secret, made in KEYED["siphash_keys"].items():
        assert f"{siphash_key(int(secret, 16)):032x}" == made


def test_many_texts_are_one_row_each(name: str) -> None:
    texts = [bytes.fromhex(v["words"]) for v in KEYED["vectors"]]
    rows = [as_words(ReferenceEngine(SKETCH).fingerprint(t), 4) for t in texts]
    many = load_engine(name, SKETCH).fingerprint_many(texts)
    assert many.dtype == np.uint64
    np.testing.assert_array_equal(many, rows)


def test_no_texts_are_no_rows(name: str) -> None:
    assert load_engine(name, SKETCH).fingerprint_many([]).shape == (0, 4)


def test_term_signatures_are_those_of_the_papers_figure_3() -> None:
    for word, signature in FIGURE3["sdbm"].items():
        assert sdbm(word.encode()) == int(signature, 16)


def test_votes_are_those_of_the_papers_figure_3() -> None:
    assert votes(FIGURE3["words"].encode(), PAPER)[::-1] == FIGURE3["votes_highest_bit_first"]


@pytest.mark.parametrize("tie", ["ge", "gt"])
def test_fingerprint_is_that_of_the_papers_figure_3(name: str, tie: Any) -> None:
    engine = load_engine(name, FingerprintSpec(mix=False, tie=tie))
    fingerprint = engine.fingerprint(FIGURE3["words"].encode())
    assert fingerprint == int(FIGURE3[f"fingerprint_{tie}"], 16)


def test_auto_is_the_fastest_engine_there_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NEARDUP_KERNELS", raising=False)
    assert fastest() == ("native" if native_is_built() else "numpy")
    assert type(load_engine("auto")) is type(load_engine(fastest()))


def test_auto_follows_the_kernels_that_are_forced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NEARDUP_KERNELS", "numpy")
    assert fastest() == "numpy"


def test_native_engine_without_compiled_kernels_says_what_to_do(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("scrapy_neardup.engines.native.native_is_built", lambda: False)
    with pytest.raises(EngineUnavailable, match="reinstall where a C compiler is found, or take"):
        load_engine("native")


def test_forcing_absent_kernels_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scrapy_neardup.kernels.native_is_built", lambda: False)
    monkeypatch.setenv("NEARDUP_KERNELS", "native")
    with pytest.raises(KernelsUnavailable, match="no compiled kernels"):
        load_engine("auto")


def test_an_engine_is_found_by_path_and_by_class() -> None:
    for given in (NAMES["reference"], ReferenceEngine):
        engine = load_engine(given, SKETCH, PAPER)
        assert type(engine) is ReferenceEngine
        assert (engine.spec, engine.sketch_spec) == (SKETCH, PAPER)


def test_a_name_that_is_no_engine_is_refused_with_those_there_are() -> None:
    with pytest.raises(SpecError, match=r"take auto, .*native, numpy, reference"):
        load_engine("simhash")


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"bits": 65}, "bits=65: take a multiple of 64 from 64 to 1024"),
        ({"bits": 0}, "bits=0"),
        ({"bits": 1088}, "bits=1088"),
        ({"shingle": 0}, "shingle=0: take 1 to 16 words"),
        ({"shingle": 17}, "shingle=17"),
        ({"weighting": "log"}, "weighting='log': take 'count' or 'set'"),
        ({"tie": "eq"}, "tie='eq': take 'gt' or 'ge'"),
        ({"key": -1}, "key: take a whole number of 64 bits"),
        ({"key": 2**64}, "key: take a whole number of 64 bits"),
        ({"mix": False, "shingle": 2}, "set mix=True"),
        ({"mix": False, "bits": 128}, "set mix=True"),
        ({"mix": False, "key": 1}, "set mix=True"),
        ({"mix": False, "hash": "siphash"}, "set mix=True for hash='siphash'"),
        ({"hash": "md5"}, "hash='md5': take 'sdbm' or 'siphash'"),
    ],
)
def test_an_impossible_spec_is_refused(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(SpecError, match=message):
        FingerprintSpec(**fields)


def test_a_described_spec_does_not_give_its_key_away() -> None:
    described = FingerprintSpec(key=0xC0FFEE).describe()
    assert described["key"] == key_id(0xC0FFEE) != key_id(0xC0FFED)
    assert "c0ffee" not in str(described).lower()
    assert str(0xC0FFEE) not in str(described)
    assert FingerprintSpec().describe()["key"] == "none"


def test_every_engine_by_name_is_an_engine(name: str) -> None:
    engine: Engine = load_engine(name)
    assert (engine.spec, engine.sketch_spec) == (FINGERPRINT, SKETCH)
