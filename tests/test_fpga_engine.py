"""The engine of a crawl: the bits of every other engine, and the board's bill."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrapy_neardup.engines import FINGERPRINT, PAPER, SKETCH, FingerprintSpec, load_engine
from scrapy_neardup.engines.fpga.design import design_for
from scrapy_neardup.engines.fpga.engine import FpgaEngine
from scrapy_neardup.engines.fpga.fingerprint_engine import simulate
from scrapy_neardup.engines.reference import ReferenceEngine
from scrapy_neardup.errors import SpecError

SPECS = [PAPER, FINGERPRINT, FingerprintSpec(tie="ge"), FingerprintSpec(key=2**64 - 1)]
texts = st.lists(st.text(alphabet="abcé ", max_size=50).map(str.encode), max_size=8)


@pytest.mark.parametrize("spec", SPECS)
@given(pages=texts)
def test_engine_gives_the_reference_signatures(spec, pages):
    engine, oracle = FpgaEngine(spec), ReferenceEngine(spec)
    for page in pages:
        given, expected = engine.signatures(page), oracle.signatures(page)
        assert (given.fingerprint, given.n_words) == (expected.fingerprint, expected.n_words)
        np.testing.assert_array_equal(given.sketch, expected.sketch)


@pytest.mark.parametrize("spec", SPECS)
@given(pages=texts)
def test_fast_form_gives_the_values_of_the_step_by_step_form(spec, pages):
    stepped = sorted(r.fingerprint for lane in simulate(pages, design_for(spec)) for r in lane)
    assert sorted(FpgaEngine(spec).fingerprint_many(pages)[:, 0].tolist()) == stepped


def test_engine_is_found_by_its_name():
    assert isinstance(load_engine("fpga", FINGERPRINT, SKETCH), FpgaEngine)


def test_spec_of_a_sketch_is_refused():
    with pytest.raises(SpecError, match="the FPGA core counts single words into 64 bits"):
        load_engine("fpga", SKETCH)


def test_text_with_a_nul_is_refused_and_its_call_counts_nothing():
    engine = FpgaEngine()
    for call in (engine.fingerprint, engine.signatures):
        with pytest.raises(SpecError, match="replace it in the text by a space"):
            call(b"one\0two")
    with pytest.raises(SpecError, match="replace it in the text by a space"):
        engine.fingerprint_many([b"one", b"one\0two"])
    assert engine.report()["documents"] == 0


def test_report_counts_every_way_of_asking():
    engine = FpgaEngine()
    engine.fingerprint(b"one page")
    engine.signatures(b"another page")
    engine.fingerprint_many([b"two", b"more"])
    report = engine.report()
    assert (report["documents"], report["bytes"]) == (4, 8 + 12 + 3 + 4)


def test_text_beyond_the_counters_is_answered_and_counted_but_not_given_to_the_board():
    engine = FpgaEngine()
    words = b"a " * 2**23
    assert engine.fingerprint(words) == engine.fingerprint(b"a")
    report = engine.report()
    assert (report["beyond_counters"], report["documents"], report["bytes"]) == (1, 1, 1)


def test_threads_count_every_document():
    """Long pages are read in threads of a crawl."""
    engine = FpgaEngine(FINGERPRINT)
    with ThreadPoolExecutor(8) as threads:
        for _ in threads.map(engine.fingerprint, [b"one word or two"] * 4_000):
            pass
    assert engine.report()["documents"] == 4_000
