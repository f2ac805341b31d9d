"""The scheduler against the step-by-step engine, and against the closed forms."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scrapy_neardup.engines import FingerprintSpec
from scrapy_neardup.engines.fpga.design import MIXER_STAGES, Design, channel_words
from scrapy_neardup.engines.fpga.fingerprint_engine import simulate
from scrapy_neardup.engines.fpga.scheduler import Scheduler, schedule
from scrapy_neardup.engines.reference import fingerprint

designs = st.builds(
    Design,
    mixer=st.sampled_from(sorted(MIXER_STAGES)),
    n_cores=st.sampled_from([1, 2, 3, 4]),
    selectable=st.booleans(),
    bytes_per_cycle=st.sampled_from([1, 2]),
    output=st.sampled_from(["latched", "slots"]),
) | st.builds(
    Design,
    mixer=st.sampled_from(sorted(MIXER_STAGES)),
    n_cores=st.sampled_from([1, 3, 8]),
    counters=st.sampled_from(["own", "shared"]),
)
dispatches = st.sampled_from(["queue", "static"])
lengths = st.lists(st.integers(0, 40), max_size=24)


@settings(max_examples=150, deadline=None)
@given(design=designs, dispatch=dispatches, pages=lengths)
def test_scheduler_agrees_with_the_engine_in_document_lane_and_cycle(design, dispatch, pages):
    texts = [f"{i:x} ".encode().ljust(n, b"y")[:n] for i, n in enumerate(pages)]
    stepped = simulate(texts, design, dispatch)
    emissions = schedule(pages, design, dispatch)
    for lane, results in enumerate(stepped):
        own = [e for e in emissions if e.lane == lane]
        assert [e.cycle for e in own] == [r.cycle for r in results]
        if design.mixer == "none":
            spec = FingerprintSpec(mix=False)
            expected = [fingerprint(texts[e.document], spec) for e in own]
            assert [r.fingerprint for r in results] == expected


@given(design=designs, dispatch=dispatches, pages=lengths)
def test_every_document_is_emitted_once_and_never_two_in_a_cycle(design, dispatch, pages):
    emissions = schedule(pages, design, dispatch)
    assert [e.document for e in emissions] == list(range(len(pages)))
    assert len({e.cycle for e in emissions}) == len(pages)


@given(design=designs, pages=lengths)
def test_cycles_of_a_crawl_so_far_are_those_of_its_last_emission(design, pages):
    scheduler = Scheduler(design)
    for length in pages:
        scheduler.add(length)
    last = max((e.cycle + 1 for e in schedule(pages, design)), default=0)
    assert scheduler.cycles == last
    assert scheduler.cycles == last  # asking changes nothing


@given(pages=st.lists(st.integers(0, 5000), min_size=1, max_size=60))
def test_cycles_lie_within_the_closed_form(pages):
    words = [channel_words(n) for n in pages]
    scheduler = Scheduler(Design())
    for length in pages:
        scheduler.add(length)
    assert max(sum(words), 8 * max(words)) <= scheduler.cycles + 8
    assert scheduler.cycles <= sum(words) + 7 * max(words) + 19


@given(pages=st.lists(st.integers(0, 60), max_size=60))
def test_no_fingerprint_waits_more_than_seven_cycles_for_the_output(pages):
    design, turns = Design(), list(range(8))
    for length, emission in zip(pages, schedule(pages, design), strict=True):
        fetch = min(turns)
        turns[emission.lane] += 8 * channel_words(length)
        ready = design.ready(fetch + design.nul_after(length), emission.lane)
        assert ready <= emission.cycle <= ready + 7


def test_slots_need_no_tag_because_a_lane_always_leaves_in_the_same_slot():
    design = Design(output="slots")
    pages = [(7 * i) % 50 for i in range(80)]
    assert all((e.cycle - design.slot_delay - e.lane) % 8 == 0 for e in schedule(pages, design))


def test_state_does_not_grow_with_the_crawl():
    scheduler = Scheduler(Design())
    for i in range(5000):
        scheduler.add(i * i % 3001)
    assert len(scheduler._ready) + len(scheduler._latched) <= 8


@pytest.mark.parametrize("bytes_per_cycle", [1, 2])
def test_channel_carries_eight_bytes_a_cycle_when_documents_are_long_and_alike(bytes_per_cycle):
    design = Design(bytes_per_cycle=bytes_per_cycle, n_cores=8 // bytes_per_cycle)
    scheduler = Scheduler(design)
    for _ in range(64):
        scheduler.add(4095)
    assert scheduler.n_bytes / scheduler.cycles == pytest.approx(8, rel=0.01)
