"""Two crawls, one folder: of one process they share the state; another process is a guest."""

import asyncio
import os
import subprocess
import sys
import tracemalloc
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from scrapy import Request
from scrapy.crawler import AsyncCrawlerRunner
from scrapy.http import Response

from scrapy_neardup.errors import StateLocked
from scrapy_neardup.factory import make_state_factory
from scrapy_neardup.ledger.reader import LedgerReader
from scrapy_neardup.settings import NearDupSettings
from scrapy_neardup.state import State
from scrapy_neardup.state.guest import GuestStore
from scrapy_neardup.state.journal import Journal, JournalRecord, journal_records
from scrapy_neardup.state.lock import try_lock
from scrapy_neardup.state.records import URL, pack_url
from scrapy_neardup.state.recovery import ended_guests
from scrapy_neardup.state.store import Store
from tests.crawls import SETTINGS, PagesSpider
from tests.mock_site import MockSite, prose
from tests.test_state_crawls import ROOT, add_branch, follow


def opened(folder: Path, as_guest: bool = False) -> State:
    settings = NearDupSettings(key=0)
    return State.open(folder, make_state_factory(settings), key=0, as_guest=as_guest)


def kept(state: State, url: str) -> bool:
    """Let the state keep a page; whether it was new to it."""
    reading = state.detector.read(url, prose(url))
    decision, is_new = state.decide(reading)
    if is_new:
        state.keep(decision.page_id)
        state.url_done(url.encode())
    return is_new


def guests(folder: Path) -> list[Path]:
    return list(folder.glob("guest-*"))


def test_a_guest_knows_what_the_folder_holds_and_the_next_crawl_what_the_guest_found(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    owner = opened(tmp_path)
    assert kept(owner, "http://a.example/before")
    guest = opened(tmp_path, as_guest=True)
    assert caplog.text.count("goes on as a guest") == 1
    assert b"http://a.example/before" in guest.urls
    assert not kept(guest, "http://a.example/before")
    assert kept(guest, "http://a.example/by-guest")
    guest.close()
    assert kept(owner, "http://a.example/by-owner")
    owner.close()
    following = opened(tmp_path)
    for page in ("before", "by-guest", "by-owner"):
        assert f"http://a.example/{page}".encode() in following.urls
        assert not kept(following, f"http://a.example/{page}")
    following.check()
    following.close()
    assert not guests(tmp_path)


@pytest.mark.parametrize("dies", ["owner", "guest", "both"])
def test_whichever_dies_at_any_moment_nothing_that_was_recorded_is_lost(
    tmp_path: Path, dies: str
) -> None:
    owner, guest = opened(tmp_path), opened(tmp_path, as_guest=True)
    states = {"owner": owner, "guest": guest}
    for name, state in states.items():
        assert kept(state, f"http://a.example/{name}")
    for name, state in states.items():
        if dies in (name, "both"):
            assert state.store is not None
            state.store.close()  # as the end of its process would
        else:
            state.close()
    for _ in range(2):  # the second after a crash before any snapshot
        following = opened(tmp_path)
        for name in states:
            assert not kept(following, f"http://a.example/{name}")
        assert following.store is not None
        following.store.close()
    assert not guests(tmp_path)


def test_what_a_guest_recorded_outlives_a_damaged_snapshot(tmp_path: Path) -> None:
    owner, guest = opened(tmp_path), opened(tmp_path, as_guest=True)
    assert kept(guest, "http://a.example/by-guest")
    owner.close()
    guest.close()
    opened(tmp_path).close()
    newest = tmp_path / "snapshot-2"
    assert newest.stat().st_size > 7
    newest.write_bytes(b"damaged")
    following = opened(tmp_path)
    assert not kept(following, "http://a.example/by-guest")
    following.close()


def test_a_guests_journal_stays_where_it_cannot_be_copied(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    owner, guest = opened(tmp_path), opened(tmp_path, as_guest=True)
    assert kept(guest, "http://a.example/by-guest")
    owner.close()
    guest.close()

    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("scrapy_neardup.state.journal.write_all", full)
        following = opened(tmp_path)
        assert not kept(following, "http://a.example/by-guest")
        assert following.store is not None
        assert following.store.errors > 0
        following.store.close()
    assert len(guests(tmp_path)) == 1
    following = opened(tmp_path)
    assert not kept(following, "http://a.example/by-guest")
    following.close()


def test_a_guests_long_journal_is_merged_in_little_memory(tmp_path: Path) -> None:
    identity, said = {"a": 1}, JournalRecord(URL, pack_url(b"k" * 10_000, 0.0))
    store = Store(tmp_path)
    store.load(identity)
    store.close(cleanly=True)
    journal = Journal.create(tmp_path / "guest-1", identity, "no", store.id)
    for _ in range(32):
        journal.extend([said] * 100)
    journal.close(cleanly=True)
    tracemalloc.start()
    following = Store(tmp_path)
    _, records = following.load(identity)
    assert all(record == said for record in records)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    following.close()
    assert peak < journal.nbytes // 4
    assert guests(tmp_path) == []
    assert [record for _, record in journal_records(tmp_path / "journal-0", identity, 0)] == (
        [said] * 3_200
    )


def test_the_journal_of_a_living_guest_is_left_alone(tmp_path: Path) -> None:
    owner, guest = opened(tmp_path), opened(tmp_path, as_guest=True)
    owner.close()
    for _ in range(2):
        following = opened(tmp_path)
        assert len(guests(tmp_path)) == 1
        following.close()
    assert kept(guest, "http://a.example/late")
    guest.close()
    following = opened(tmp_path)
    assert not kept(following, "http://a.example/late")
    following.close()


def test_a_guest_is_merged_beside_one_whose_journal_is_damaged(tmp_path: Path) -> None:
    owner = opened(tmp_path)
    for page in ("damaged", "sound"):
        guest = opened(tmp_path, as_guest=True)
        assert kept(guest, f"http://a.example/{page}")
        guest.close()
        if page == "damaged":
            guests(tmp_path)[0].write_bytes(b"damaged")
    owner.close()
    following = opened(tmp_path)
    assert not kept(following, "http://a.example/sound")
    assert kept(following, "http://a.example/after")
    assert following.store is not None
    assert not following.store.errors
    following.close()
    assert [path.suffix for path in guests(tmp_path)] == [".damaged"]


def test_a_guests_journal_that_is_being_merged_is_locked(tmp_path: Path) -> None:
    """A guest that has made a journal, and is about to lock it, makes another one instead."""
    owner, guest = opened(tmp_path), opened(tmp_path, as_guest=True)
    assert kept(guest, "http://a.example/by-guest")
    guest.close()
    (path,) = guests(tmp_path)
    with ended_guests(tmp_path, None, None, []) as ended, path.open("rb+") as file:
        assert [one.path for one in ended] == [path]
        assert not try_lock(file.fileno())
    owner.close()


def test_a_torn_end_of_a_guests_journal_is_set_aside(tmp_path: Path) -> None:
    owner, guest = opened(tmp_path), opened(tmp_path, as_guest=True)
    assert kept(guest, "http://a.example/whole")
    guest.close()
    owner.close()
    (journal,) = guests(tmp_path)
    with journal.open("ab") as file:
        file.write(b"torn")
    following = opened(tmp_path)
    assert not kept(following, "http://a.example/whole")
    assert not following.crashed
    following.close()
    assert [path.suffix for path in guests(tmp_path)] == [".damaged"]


def test_a_guest_waits_for_the_key_and_is_refused_without_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("scrapy_neardup.state.guest.PAUSE_S", 0)
    owner = Store(tmp_path)
    guest = GuestStore(tmp_path, StateLocked("in use"))
    with pytest.raises(StateLocked, match="in use"):
        guest.key()
    assert owner.key() == guest.key()
    owner.close()


def test_spiders_of_one_process_share_what_they_know(
    mock_site: MockSite, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    class First(PagesSpider):
        def parse(self, response: Response) -> Iterator[Any]:
            yield {"url": response.url, "by": self.name}

    class Second(First):
        name = "second"

    async def both() -> list[Any]:
        runner = AsyncCrawlerRunner(SETTINGS | {"NEARDUP_STATE_DIR": str(tmp_path)})
        crawlers = [runner.create_crawler(spider) for spider in (First, Second)]
        seed = mock_site.url("/page/seed")
        runs = []
        for one, path in zip(crawlers, ("/page/1", "/page/2"), strict=True):
            requests = [Request(mock_site.url(path))]
            runs.append(runner.crawl(one, seed=seed, requests=partial(iter, requests)))
        await asyncio.gather(*runs)
        return [one.stats.get_stats() for one in crawlers if one.stats]

    for counts in asyncio.run(both()):
        assert counts["finish_reason"] == "finished"
    assert "guest" not in caplog.text
    decided = {decided.url for decided in LedgerReader(tmp_path).decisions()}
    assert decided >= {mock_site.url("/page/1"), mock_site.url("/page/2")}
    state = opened(tmp_path)
    assert not state.crashed
    assert len(state.detector.pages) == 2
    state.close()


def test_a_second_process_crawls_and_is_merged(mock_site: MockSite, tmp_path: Path) -> None:
    add_branch(mock_site)
    owner = opened(tmp_path)
    command = [sys.executable, "-c", CRAWL, str(tmp_path), mock_site.url("/start")]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("goes on as a guest") == 1
    assert f"in use by process {os.getpid()}" in done.stderr
    assert done.stdout.strip() == "5"
    owner.close()
    outcome = follow(mock_site, tmp_path)
    assert outcome.urls == [mock_site.url("/start")]


CRAWL = """
import logging, sys
logging.basicConfig()
from tests.test_state_crawls import Follower, crawl
print(len(crawl(Follower, {"NEARDUP_STATE_DIR": sys.argv[1]}, seed=sys.argv[2]).items))
"""


@pytest.mark.parametrize("name", ["guest-old", "journal-9", "snapshot-9"])
def test_a_folder_called_like_a_file_of_ours_is_left_alone(
    name: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / name).mkdir()
    owner = opened(tmp_path)
    assert kept(owner, "http://a.example/before")
    owner.close()
    following = opened(tmp_path)
    assert not kept(following, "http://a.example/before")
    following.close()
    assert (tmp_path / name).is_dir()
    assert not caplog.text
