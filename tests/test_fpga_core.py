"""The step-by-step model: core and fingerprint engine, one character and one cycle at a time."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrapy_neardup.engines import FingerprintSpec
from scrapy_neardup.engines.fpga.core import SimHashCore, light
from scrapy_neardup.engines.fpga.design import Design, design_for, pack
from scrapy_neardup.engines.fpga.fingerprint_engine import FingerprintEngine, simulate
from scrapy_neardup.engines.reference import fingerprint
from scrapy_neardup.errors import SpecError
from scrapy_neardup.kernels.numpy_twin.mix import MASK

FIGURE_3 = b"school school students teachers"
FIGURE_3_V = (
    "-2,-2,0,0,0,-2,0,-4,0,-2,2,-2,-2,4,-2,-4,-2,-2,2,-2,-2,-4,2,0,4,0,-4,-2,-2,2,-2,2,-2,0,-2,0,"
    "2,-2,-2,-2,-2,-2,2,2,-4,0,-2,4,-2,-2,-4,-2,2,0,2,0,2,0,4,4,-2,0,-4,-2"
)

specs = st.builds(
    FingerprintSpec,
    mix=st.booleans(),
    tie=st.sampled_from(["gt", "ge"]),
)
texts = st.text(alphabet="abcé  ", max_size=60).map(str.encode)


def run(core: SimHashCore, text: bytes) -> int:
    """The fingerprint of one text, its characters consumed and then the NUL."""
    for char in text:
        assert core.consume(char) is None
    result = core.consume(0)
    assert result is not None
    return result


@pytest.mark.parametrize(
    ("tie", "expected"), [("gt", 0x0024228508310AB0), ("ge", 0x3AA423C558350FF4)]
)
def test_figure_3_gives_the_printed_fingerprint_under_ge_and_the_texts_rule_under_gt(tie, expected):
    assert run(SimHashCore(Design(tie=tie)), FIGURE_3) == expected


def test_counters_hold_figure_3s_vector_with_the_sign_turned():
    core = SimHashCore(Design())
    for char in FIGURE_3 + b" ":
        core.consume(char)
    assert [-u for u in reversed(core.counters)] == [int(v) for v in FIGURE_3_V.split(",")]


@given(spec=specs, pages=st.lists(texts, max_size=4))
def test_core_computes_the_reference_fingerprint_of_one_text_after_the_other(spec, pages):
    core = SimHashCore(design_for(spec))
    assert [run(core, page) for page in pages] == [fingerprint(page, spec) for page in pages]


@pytest.mark.parametrize(
    ("word_hash", "mixed"),
    [(0, 0), (1, 0x0902920008029010), (2**63, 0x0081090084014808), (MASK, 0xF7FF7FFEFFFFFFFF)],
)
def test_light_mixer_gives_its_golden_values(word_hash, mixed):
    assert light(word_hash) == mixed


@given(st.integers(0, MASK), st.integers(0, MASK))
def test_light_mixer_keeps_different_hashes_apart(one, other):
    assert (light(one) == light(other)) is (one == other)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"n_cores": 9}, "take 1 to 8"),
        ({"n_cores": 5, "bytes_per_cycle": 2}, "take 1 to 4"),
        ({"n_cores": 0}, "take 1 to 8"),
        ({"counter_bits": 1}, "take 2 to 64"),
        ({"key": 5}, "takes no key"),
        ({"bytes_per_cycle": 3}, "take 1 or 2"),
    ],
)
def test_design_that_cannot_be_built_is_refused(wrong, message):
    with pytest.raises(SpecError, match=message):
        Design(**wrong)


def test_key_changes_the_mixed_fingerprint_as_in_the_reference():
    spec = FingerprintSpec(key=0xFEEDFACECAFEBEEF)
    assert run(SimHashCore(design_for(spec)), FIGURE_3) == fingerprint(FIGURE_3, spec)
    assert fingerprint(FIGURE_3, spec) != fingerprint(FIGURE_3, FingerprintSpec())


@pytest.mark.parametrize("tie", ["gt", "ge"])
@pytest.mark.parametrize("text", [b"", b" ", b"         "])
def test_text_without_words_has_fingerprint_zero_under_both_ties(text, tie):
    assert run(SimHashCore(Design(tie=tie)), text) == 0


def test_figure_8_as_printed_hashes_every_character_and_never_finishes():
    """letter != 32 || letter != 0 holds for every letter: the other branch is never taken."""
    h, weights, done = 0, [0] * 64, False
    for letter in FIGURE_3 + b"\0":
        if letter != 32 or letter != 0:
            h = (letter + (h << 6) + (h << 16) - h) & MASK
        elif letter == 32:
            weights = [w + 1 for w in weights]
    assert not done
    assert not any(weights)
    assert h != 0


def test_counters_wrap_one_word_beyond_their_limit():
    design = Design(counter_bits=4)
    word = b"\xff" * 40
    exact, wrapped = (run(SimHashCore(design), b" ".join([word] * n)) for n in (7, 9))
    assert design.max_words == 7
    assert exact == fingerprint(word, FingerprintSpec(mix=False))
    assert wrapped != exact


@pytest.mark.parametrize(("length", "exact"), [(2**24 - 2, True), (2**24 - 1, False)])
def test_design_knows_the_longest_text_that_cannot_wrap_its_counters(length, exact):
    assert Design().exact_for(length) is exact


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (b"", [0x0020202020202020]),
        (b"a", [0x0020202020202061]),
        (b"abcdefg", [0x0067666564636261]),
        (b"abcdefgh", [0x6867666564636261, 0]),
    ],
)
def test_document_is_packed_little_endian_with_a_floor_of_seven_and_a_nul(text, words):
    assert pack(text) == words


def test_nul_inside_a_text_is_refused():
    with pytest.raises(SpecError, match="replace it in the text by a space"):
        pack(b"a\0b")


@pytest.mark.parametrize(
    "spec",
    [
        FingerprintSpec(bits=128),
        FingerprintSpec(shingle=3),
        FingerprintSpec(weighting="set"),
    ],
)
def test_spec_that_the_core_cannot_compute_is_refused_with_the_remedy(spec):
    with pytest.raises(SpecError, match="choose another engine"):
        design_for(spec)


def test_fingerprint_leaves_four_cycles_after_its_nul():
    [[result], *others] = simulate([b"abcdefgh"], Design())
    assert result.cycle == 0 + 1 + len("abcdefgh") + 4
    assert not any(others)


def test_core_ignores_what_follows_a_nul_in_its_word():
    engine = FingerprintEngine(Design())
    words = [0x6867660064636261, *[None] * 7, 0x0020202020202061]
    results = [engine.step(word) for word in words]
    while not engine.idle:
        results.append(engine.step(None))
    fingerprints = [r.fingerprint for r in results if r]
    assert fingerprints == [fingerprint(w, FingerprintSpec(mix=False)) for w in (b"abcd", b"a")]


def test_two_lanes_that_finish_together_leave_one_after_the_other():
    texts = [b"x" * 15, b"x" * 14]
    first, second = simulate(texts, Design())[:2]
    assert (first[0].cycle, second[0].cycle) == (20, 21)


@pytest.mark.parametrize(("output", "lost"), [("latched", True), ("slots", False)])
def test_without_the_floor_the_multiplexer_loses_fingerprints_and_slots_do_not(output, lost):
    """Seven characters, then an empty document: ready one cycle apart on the same lane."""
    engine = FingerprintEngine(Design(output=output))
    words = [word for text in (b"abcdefg", b"") for word in pack(text, floor=0) * 8]
    emitted = [engine.step(word) for word in words]
    while not engine.idle:
        emitted.append(engine.step(None))
    assert engine.overflow is lost
    assert (sum(result is not None for result in emitted) < 16) is lost
