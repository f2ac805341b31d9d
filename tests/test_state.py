"""A state gives back what was seen and kept, and nothing else, however a crawl ended."""

import os
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from scrapy_neardup.crawl.pages.page_lifecycle import PageLifecycle
from scrapy_neardup.detect import detector
from scrapy_neardup.errors import JournalError, SnapshotError, StateError, StateLocked
from scrapy_neardup.factory import EXACT, make_state_factory
from scrapy_neardup.settings import NearDupSettings
from scrapy_neardup.state import State
from scrapy_neardup.state.header import Identity
from tests.mock_site import prose

SETTINGS = NearDupSettings(index="scan", engine="numpy", url_capacity=100)
DAY_S = 86_400.0


def opened(folder: Path | None, settings: NearDupSettings = SETTINGS, **options: Any) -> State:
    return State.open(folder, make_state_factory(settings), key=settings.key, fsync="no", **options)


def killed(state: State) -> Path:
    """The folder as a kill at this moment leaves it; in another place, for the lock's sake."""
    assert state.store is not None
    copy = Path(tempfile.mkdtemp(dir=state.store.folder.parent)) / "state"
    shutil.copytree(state.store.folder, copy)
    state.close()
    return copy


def see(state: State, key: bytes) -> None:
    state.url_done(key)


def seen(state: State, key: bytes) -> bool:
    return key in state.urls


def keep(state: State, url: str, text: str) -> None:
    page_id = state.decide(state.detector.read(url, text))[0].page_id
    assert page_id is not None
    state.keep(page_id)


def knows(state: State, text: str) -> bool:
    """Whether a page with this text would be taken for a copy."""
    decision, _ = state.decide(state.detector.read("http://example.com/copy", text))
    if decision.page_id is not None:
        state.drop(decision.page_id)
    return decision.is_duplicate


End = Callable[[State], Path]


def closed(state: State) -> Path:
    assert state.store is not None
    state.close()
    return state.store.folder


def killed_after_a_snapshot(state: State) -> Path:
    state.snapshot()
    see(state, b"example.com/after")
    assert state._writing is not None
    state._writing.result()
    return killed(state)


ENDS = pytest.mark.parametrize("end", [closed, killed, killed_after_a_snapshot])


@ENDS
def test_urls_seen_and_pages_kept_are_there_again(tmp_path: Path, end: End) -> None:
    state = opened(tmp_path / "state")
    see(state, b"example.com/a")
    keep(state, "http://example.com/a", prose(1))
    keep(state, "http://example.com/b", "a page of few words")
    state = opened(end(state))
    assert seen(state, b"example.com/a")
    assert not seen(state, b"example.com/b")
    assert knows(state, prose(1))
    assert knows(state, "a page of few words")
    assert not knows(state, prose(2))
    state.check()
    state.close()


@ENDS
def test_near_copies_are_found_among_pages_that_are_there_again(tmp_path: Path, end: End) -> None:
    state = opened(tmp_path / "state")
    keep(state, "http://example.com/a", prose(1))
    state = opened(end(state))
    reading = state.detector.read("http://example.com/a2", prose(1) + " more")
    original = state.detector.pages.with_url("http://example.com/a")
    assert original is not None
    page = state.detector.pages.page(original)
    distance = (page.fingerprint ^ reading.signatures.fingerprint).bit_count()
    here = reading.signatures.fingerprint ^ page.site  # where its site is in the index
    found = state.detector.index.all_within(here, distance)
    assert found.ids.tolist() == [original]
    state.close()


@ENDS
def test_what_was_under_way_is_forgotten(tmp_path: Path, end: End) -> None:
    state = opened(tmp_path / "state")
    state.decide(state.detector.read("http://example.com/a", prose(1)))
    state = opened(end(state))
    assert not knows(state, prose(1))
    state.check()
    state.close()


def test_a_page_kept_while_a_snapshot_is_written_is_there_again(tmp_path: Path) -> None:
    state = opened(tmp_path / "state")
    page_id = state.decide(state.detector.read("http://example.com/a", prose(1)))[0].page_id
    assert page_id is not None
    state.snapshot()
    state.keep(page_id)
    assert state._writing is not None
    state._writing.result()
    state = opened(killed(state))
    assert knows(state, prose(1))
    state.close()


def no_memory(*_: Any) -> None:
    raise MemoryError("no memory for a snapshot")


def test_what_stopped_a_snapshot_is_told_and_the_next_one_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = opened(tmp_path / "state")
    with monkeypatch.context() as patch:
        patch.setattr("scrapy_neardup.state.store.write_snapshot", no_memory)
        state.snapshot()
        assert state._writing is not None
        assert isinstance(state._writing.exception(), MemoryError)
    with pytest.raises(MemoryError):
        state.snapshot()
    state.snapshot()
    assert state._writing.result()
    state.close()


def test_a_state_that_cannot_be_saved_at_the_end_gives_its_folder_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = opened(tmp_path / "state")
    see(state, b"example.com/a")
    with monkeypatch.context() as patch:
        patch.setattr("scrapy_neardup.state.store.write_snapshot", no_memory)
        with pytest.raises(MemoryError):
            state.close()
    state = opened(tmp_path / "state")
    assert state.crashed
    assert seen(state, b"example.com/a")
    state.close()


@ENDS
def test_a_page_kept_again_with_other_words_replaces_its_earlier_self(
    tmp_path: Path, end: End
) -> None:
    state = opened(tmp_path / "state")
    keep(state, "http://example.com/a", prose(1))
    keep(state, "http://example.com/a", prose(2))
    state = opened(end(state))
    assert not knows(state, prose(1))
    assert knows(state, prose(2))
    assert len(state.detector) == 1
    state.close()


@ENDS
def test_a_page_that_left_its_url_is_known_there_no_longer(tmp_path: Path, end: End) -> None:
    state = opened(tmp_path / "state")
    for name, seed in (("gone", 1), ("moved", 2), ("taken", 3), ("home", 4)):
        keep(state, f"http://example.com/{name}", prose(seed))
    state.forget_page("http://example.com/gone")
    state.forget_page("http://example.com/never")
    state.move_page("http://example.com/moved", "http://example.com/new")
    state.move_page("http://example.com/taken", "http://example.com/home")
    state = opened(end(state))
    assert [knows(state, prose(seed)) for seed in (1, 2, 3, 4)] == [False, True, False, True]
    assert not state.has_kept("http://example.com/moved")
    assert state.has_kept("http://example.com/new")
    state.check()
    state.close()


def waiting() -> PageLifecycle:
    """A page that waits for one request, its callback exhausted."""
    lifecycle = PageLifecycle()
    page = lifecycle.answered(b"example.com/hub", None)
    lifecycle.requested(page)
    lifecycle.exhausted(page, failed=False)
    return lifecycle


def test_with_its_queue_kept_a_page_goes_on_waiting(tmp_path: Path) -> None:
    state = opened(tmp_path / "state")
    state.close(waiting().arrays())
    state = opened(tmp_path / "state")
    assert state.under_way is not None
    lifecycle = PageLifecycle()
    lifecycle.restore(state.under_way)
    assert b"example.com/hub" in lifecycle
    state.close(lifecycle.arrays())


def test_a_crash_of_the_crawl_that_went_on_forgets_who_waited(tmp_path: Path) -> None:
    state = opened(tmp_path / "state")
    state.close(waiting().arrays())
    state = opened(killed(opened(tmp_path / "state")))
    assert state.under_way is None
    assert not seen(state, b"example.com/hub")
    state.close()


@ENDS
def test_urls_and_pages_age_out(tmp_path: Path, end: End) -> None:
    now = [1000 * DAY_S]
    options = {"ttl_s": 8 * DAY_S, "clock": lambda: now[0]}
    state = opened(tmp_path / "state", **options)
    see(state, b"example.com/old")
    now[0] += 2 * DAY_S
    see(state, b"example.com/young")
    now[0] += 4.5 * DAY_S
    state = opened(end(state), **options)
    assert seen(state, b"example.com/old")
    now[0] += 1.5 * DAY_S
    assert not seen(state, b"example.com/old")
    assert seen(state, b"example.com/young")
    state = opened(closed(state), **options)
    assert not seen(state, b"example.com/old")
    assert seen(state, b"example.com/young")
    see(state, b"example.com/old")
    assert seen(state, b"example.com/old")
    state.check()
    state.close()


@ENDS
def test_urls_of_a_state_without_a_time_to_live_age_once_it_has_one(
    tmp_path: Path, end: End
) -> None:
    now = [1000 * DAY_S]
    with_ttl = {"ttl_s": 8 * DAY_S, "clock": lambda: now[0]}
    state = opened(tmp_path / "state", clock=lambda: now[0])
    see(state, b"example.com/old")
    now[0] += 2 * DAY_S
    see(state, b"example.com/young")
    now[0] += 4.5 * DAY_S
    state = opened(end(state), **with_ttl)
    assert seen(state, b"example.com/young")
    now[0] += 0.25 * DAY_S
    assert seen(state, b"example.com/young")
    now[0] += 8 * DAY_S
    assert not seen(state, b"example.com/old")
    assert not seen(state, b"example.com/young")
    state.check()
    state.close()


def test_pages_age_out_by_the_time_they_were_read(tmp_path: Path) -> None:
    state = opened(tmp_path / "state")
    keep(state, "http://example.com/a", prose(1))
    read_at = float(state.detector.pages.times[0])
    state.close()
    for age_s, known in ((99.0, True), (101.0, False)):
        state = opened(tmp_path / "state", ttl_s=100.0, clock=lambda age_s=age_s: read_at + age_s)
        assert knows(state, prose(1)) == known
        state.check()
        state.close()


YEARS_10 = 3650 * DAY_S


@ENDS
@pytest.mark.parametrize("ahead", ["all the time", "only at first"])
def test_a_clock_that_was_ahead_makes_no_memory_immortal(
    tmp_path: Path, end: End, ahead: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [10_000 * DAY_S]
    monkeypatch.setattr(detector, "time", SimpleNamespace(time=lambda: now[0]))
    options = {"ttl_s": 7 * DAY_S, "clock": lambda: now[0]}
    now[0] += YEARS_10
    state = opened(tmp_path / "state", **options)
    see(state, b"example.com/ahead")
    keep(state, "http://example.com/ahead", prose(1))
    if ahead == "only at first":
        now[0] -= YEARS_10
        see(state, b"example.com/right")
        state.expire()
    folder = end(state)
    now[0] = 10_000 * DAY_S
    state = opened(folder, **options)
    assert seen(state, b"example.com/ahead")
    now[0] += 6 * DAY_S
    assert seen(state, b"example.com/ahead")
    now[0] += 1.5 * DAY_S
    state.expire()
    for key in (b"example.com/ahead", b"example.com/right"):
        assert not seen(state, key)
    assert not knows(state, prose(1))
    state.check()
    state.close()


@pytest.mark.parametrize("time", [-1e12, -1.0, 0.0, 1e12])
def test_a_clock_may_say_anything(tmp_path: Path, time: float) -> None:
    options = {"ttl_s": 7 * DAY_S, "clock": lambda: time}
    state = opened(tmp_path / "state", **options)
    see(state, b"example.com/a")
    assert seen(state, b"example.com/a")
    state = opened(killed(state), ttl_s=7 * DAY_S)
    state.check()
    state.close()


def test_without_a_folder_there_are_no_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    state = opened(None)
    see(state, b"example.com/a")
    keep(state, "http://example.com/a", prose(1))
    state.snapshot()
    state.close()
    assert seen(state, b"example.com/a")
    assert list(tmp_path.iterdir()) == []


def test_a_second_crawl_is_told_who_holds_the_state(tmp_path: Path) -> None:
    state = opened(tmp_path)
    with pytest.raises(StateLocked, match=f"{tmp_path} is in use by process {os.getpid()}"):
        opened(tmp_path)
    state.close()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"shingle": 2}, "fingerprint.shingle is 1 there and 2 here"),
        ({"distance": 5}, "distance is 6 there and 5 here"),
        ({"url_strip_www": True}, "url.strip_www is 'False' there and 'True' here"),
        ({"key": 5}, "fingerprint.key is '.*' there and '.*' here"),
    ],
)
def test_another_specification_is_refused_and_the_folder_given_back(
    tmp_path: Path, change: dict[str, Any], message: str
) -> None:
    opened(tmp_path).close()
    values = {name: getattr(SETTINGS, name) for name in ("index", "engine", "url_capacity")}
    with pytest.raises((SnapshotError, JournalError), match=message):
        opened(tmp_path, NearDupSettings(**(values | change)))
    opened(tmp_path).close()


def test_a_state_whose_digests_were_of_words_is_refused(tmp_path: Path) -> None:
    factory = make_state_factory(SETTINGS)
    old = replace(factory, identity=lambda key: without_exact(factory.identity(key)))
    State.open(tmp_path, old, fsync="no").close()
    message = f"exact is None there and {EXACT!r} here.* or delete the folder"
    with pytest.raises((SnapshotError, JournalError), match=message):
        opened(tmp_path)


def without_exact(identity: Identity) -> Identity:
    return {name: value for name, value in identity.items() if name != "exact"}


def test_the_key_is_nowhere_but_in_its_file(tmp_path: Path) -> None:
    state = opened(tmp_path)
    keep(state, "http://example.com/a", prose(1))
    state.close()
    key = (tmp_path / "key").read_text().strip()
    for path in tmp_path.iterdir():
        data = path.read_bytes()
        assert path.name == "key" or key.encode() not in data
        assert int(key, 16).to_bytes(8, "little") not in data
        assert path.stat().st_mode & 0o077 == 0 or os.name == "nt"


def test_a_lost_key_is_refused_rather_than_replaced_unnoticed(tmp_path: Path) -> None:
    opened(tmp_path).close()
    (tmp_path / "key").unlink()
    with pytest.raises(StateError, match="key is missing"):
        opened(tmp_path)


class CrashingState(RuleBasedStateMachine):
    """URLs and pages in every stage; after any end exactly the finished ones are there."""

    @initialize()
    def begin(self) -> None:
        self.root = Path(tempfile.mkdtemp())
        self.state = opened(self.root / "state")
        self.seen: set[int] = set()
        self.known: set[int] = set()
        self.under_way: dict[int, int] = {}

    @rule(number=st.integers(0, 9))
    def finish(self, number: int) -> None:
        self.state.url_done(b"example.com/%d" % number)
        self.seen.add(number)

    @rule(number=st.integers(0, 9))
    def read(self, number: int) -> None:
        reading = self.state.detector.read(f"http://example.com/{number}", prose(number))
        decision, _ = self.state.decide(reading)
        assert decision.kind == "new"
        if number not in self.known:
            assert decision.page_id is not None
            self.under_way[number] = decision.page_id

    @rule(number=st.integers(0, 9), kept=st.booleans())
    def item_leaves(self, number: int, kept: bool) -> None:
        if number in self.under_way:
            page_id = self.under_way.pop(number)
            (self.state.keep if kept else self.state.drop)(page_id)
            if kept:
                self.known.add(number)

    @rule()
    def snapshot(self) -> None:
        self.state.snapshot()

    @rule()
    def close(self) -> None:
        self.reopen(closed(self.state))

    @rule()
    def kill(self) -> None:
        if self.state._writing is not None:
            self.state._writing.result()
        self.reopen(killed(self.state))

    def reopen(self, folder: Path) -> None:
        self.state = opened(folder)
        self.under_way = {}
        for number in range(10):
            assert seen(self.state, b"example.com/%d" % number) == (number in self.seen)
            assert knows(self.state, prose(number)) == (number in self.known)
        self.state.check()

    def teardown(self) -> None:
        if hasattr(self, "state"):
            self.state.close()
            shutil.rmtree(self.root)


CrashingState.TestCase.settings = hypothesis_settings(
    max_examples=15, stateful_step_count=25, deadline=None
)
TestCrashingState = CrashingState.TestCase
