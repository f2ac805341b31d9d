"""What is written in place is written to files of our own: planted links lead nowhere."""

import io
import os
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
from crawls import PagesSpider, crawl
from mock_site import MockSite, page
from scrapy import Request
from scrapy.http import Response

from scrapy_neardup.engines.fpga import rtl_build
from scrapy_neardup.engines.fpga.design import Design
from scrapy_neardup.errors import EngineUnavailable, LedgerError, NearDupError, StateError
from scrapy_neardup.ledger.undo import Override, undo
from scrapy_neardup.ledger.writer import LedgerWriter, make_file
from scrapy_neardup.offline.dedup.columns import Fields
from scrapy_neardup.offline.dedup.formats import columns_of, format_of
from scrapy_neardup.offline.dedup.inputs import find_inputs, stored_stdin
from scrapy_neardup.offline.dedup.job import DedupJob
from scrapy_neardup.offline.dedup.record import InputLimits
from scrapy_neardup.offline.dedup.run import dedup
from scrapy_neardup.offline.dedup.writing import cut_back
from scrapy_neardup.own_files import NotOurFile, refuse_links, refuse_links_below, require_own
from scrapy_neardup.settings import NearDupSettings
from scrapy_neardup.state.skipped import SkippedRequests
from scrapy_neardup.state.store import Store

pytestmark = pytest.mark.skipif(os.name == "nt", reason="links need rights there")


class Links(PagesSpider):
    """Follows every link."""

    def parse_seed(self, response: Response) -> Iterator[Request]:
        for link in response.css("a::attr(href)").getall():
            yield response.follow(link)


PLANT: dict[str, Callable[[Path, Path], None]] = {
    "symlink": lambda path, to: path.symlink_to(to),
    "hard link": lambda path, to: path.hardlink_to(to),
}


@pytest.mark.parametrize("kind", PLANT)
def test_a_name_that_leads_elsewhere_is_refused(tmp_path: Path, kind: str) -> None:
    other, name = tmp_path / "other", tmp_path / "name"
    other.touch()
    refuse_links(name)
    refuse_links(other, "-wal")
    PLANT[kind](name, other)
    with pytest.raises(NotOurFile, match="Move it away"):
        refuse_links(name)
    with pytest.raises(NotOurFile):
        refuse_links_below(tmp_path)


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "name-wal")
    with pytest.raises(NotOurFile, match="is no file of its own"):
        refuse_links(tmp_path / "name", "-wal")


def test_a_folder_that_is_a_link_is_found(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    refuse_links_below(tmp_path)
    (tmp_path / "a" / "b").symlink_to(tmp_path)
    with pytest.raises(NotOurFile, match="is a link"):
        refuse_links_below(tmp_path)


@pytest.mark.parametrize("kind", PLANT)
def test_no_file_of_a_job_is_written_through_a_link(
    mock_site: MockSite, tmp_path: Path, kind: str
) -> None:
    """Each file that a crawl left, and each that it may write beside, in turn."""
    mock_site.add("/start", page("start", *(f"/page/{i}" for i in range(9))))
    job = tmp_path / "job"
    undo_folder = job / "neardup"
    settings = {"JOBDIR": str(job), "NEARDUP_RECRAWL": "changed", "NEARDUP_LEDGER": "all"}
    stopped = settings | {"CLOSESPIDER_ITEMCOUNT": 3}
    crawl(Links, stopped, seed=mock_site.url("/start"))
    undo(undo_folder, [Override(mock_site.url("/page/1"))])
    left = [path.relative_to(job) for path in job.rglob("*") if path.is_file()]
    assert {"frontier.sqlite", "visits.sqlite", "skipped.jsonl", "lock"} <= {p.name for p in left}
    for name in left:
        for suffix in ("", ".tmp") if name.suffix != ".sqlite" else ("", "-wal"):
            again, victim = tmp_path / "again", tmp_path / "victim"
            shutil.rmtree(again, ignore_errors=True)
            shutil.copytree(job, again)
            # A lock holds the number of this process anyway.
            before = b"0" if name.name == "lock" else (job / name).read_bytes()
            victim.write_bytes(before)
            planted = again / name.with_name(name.name + suffix)
            planted.unlink(missing_ok=True)
            PLANT[kind](planted, victim)
            try:
                crawl(Links, settings | {"JOBDIR": str(again)}, seed=mock_site.url("/start"))
                undo(again / "neardup", [Override("http://a.example/")])
            except (NearDupError, NotOurFile):
                pass
            assert victim.read_bytes() == before, planted
            victim.unlink()


@pytest.mark.parametrize("kind", PLANT)
def test_nothing_is_written_through_a_link_in_an_output_folder(tmp_path: Path, kind: str) -> None:
    source, out, victim = tmp_path / "a.jsonl", tmp_path / "out", tmp_path / "victim"
    source.write_text('{"url": "http://a.example/", "text": "words"}\n')
    victim.write_bytes(b"of another program")
    job = DedupJob(find_inputs([source]), out, NearDupSettings(key=1), Fields(), jobs=1)
    dedup(job)
    kept = out / "kept" / "00000-a.jsonl"
    kept.unlink()
    PLANT[kind](kept, victim)
    with pytest.raises(NotOurFile, match=kept.name):
        dedup(job)
    assert victim.read_bytes() == b"of another program"


@pytest.mark.parametrize("kind", PLANT)
def test_no_journal_of_sqlite_is_rolled_back_into_a_linked_ledger(
    tmp_path: Path, kind: str
) -> None:
    victim, other = tmp_path / "victim", tmp_path / "other"
    make_file(victim)
    shutil.copy(victim, other)
    with closing(sqlite3.connect(other, isolation_level=None)) as file:
        file.executescript("PRAGMA cache_size = 1; BEGIN; CREATE TABLE x (y)")
        file.executemany("INSERT INTO x VALUES (?)", [("y" * 3000,)] * 200)
        journal = Path(f"{other}-journal").read_bytes()  # SQLite has begun to write
    with closing(sqlite3.connect(victim)) as file:
        file.execute("CREATE TABLE precious (x)")
    before = victim.read_bytes()
    (tmp_path / "ledger").mkdir()
    name = tmp_path / "ledger" / "000001.sqlite"
    PLANT[kind](name, victim)
    beside = victim if kind == "symlink" else name  # SQLite follows links
    Path(f"{beside}-journal").write_bytes(journal)
    with pytest.raises(LedgerError, match="Move it away"):
        LedgerWriter.open(tmp_path, "all", rules="")
    assert victim.read_bytes() == before


@pytest.mark.parametrize("kind", PLANT)
def test_standard_input_is_not_stored_through_a_link(
    tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    victim, out = tmp_path / "victim", tmp_path / "out"
    victim.write_bytes(b"of another program")
    out.mkdir()
    PLANT[kind](out / "stdin-partial", victim)
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b'{"text": "words"}\n')))
    with pytest.raises(NotOurFile, match="stdin-partial"):
        stored_stdin(out)
    assert victim.read_bytes() == b"of another program"


@pytest.fixture
def synced(monkeypatch: pytest.MonkeyPatch) -> set[Path]:
    """What this process has synced: files and folders, by what they were called then."""
    found: set[Path] = set()
    sync = os.fsync

    def noting(fd: int) -> None:
        found.add(Path(f"/proc/self/fd/{fd}").readlink())
        sync(fd)

    monkeypatch.setattr(os, "fsync", noting)
    return found


linux = pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="there is no /proc")


@linux
def test_standard_input_is_on_the_disk_before_it_has_its_name(
    tmp_path: Path, synced: set[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b'{"text": "words"}\n')))
    stored_stdin(tmp_path)
    assert {tmp_path / "stdin-partial", tmp_path} <= synced


@linux
def test_kept_records_are_on_the_disk_with_the_names_of_their_files(
    tmp_path: Path, synced: set[Path]
) -> None:
    given, out = tmp_path / "day=1" / "a.jsonl", tmp_path / "out"
    given.parent.mkdir()
    given.write_text('{"url": "http://a.example/", "text": "words"}\n')
    dedup(DedupJob(find_inputs([given]), out, NearDupSettings(key=1), Fields(), jobs=1))
    folder = out / "kept" / "day=1"
    assert {folder / "00000-a.jsonl", folder, out / "kept", out} <= synced


@linux
def test_copied_pages_are_on_the_disk_with_the_names_of_their_files(
    tmp_path: Path, synced: set[Path]
) -> None:
    given, out = tmp_path / "in", tmp_path / "kept" / "in"
    (given / "a").mkdir(parents=True)
    (given / "a" / "1.html").write_text("<p>words")
    (source,) = find_inputs([given])
    form = format_of(source, columns_of(source, Fields(), InputLimits()), InputLimits())
    (chunk,) = form.chunks()
    out.parent.mkdir()
    form.write(chunk, [True], True, out)
    assert {out / "a" / "1.html", out / "a", out, out.parent} <= synced


@linux
def test_a_new_list_of_overrides_is_on_the_disk_with_its_name(
    tmp_path: Path, synced: set[Path]
) -> None:
    undo(tmp_path, [Override("http://a.example/", None)])
    assert {tmp_path / "overrides.jsonl", tmp_path} <= synced


@linux
def test_a_new_list_of_skipped_requests_is_on_the_disk_with_its_name(
    tmp_path: Path, synced: set[Path]
) -> None:
    with closing(SkippedRequests(tmp_path, 1)) as skipped:
        skipped.sync()
    assert {tmp_path / "skipped.jsonl", tmp_path} <= synced


def test_a_file_shorter_than_what_was_written_is_not_filled_with_zeros(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(b"12345")
    with pytest.raises(StateError, match="5 of the 10 bytes"):
        cut_back(path, 10)
    cut_back(path, 3)
    assert path.read_bytes() == b"123"


def test_code_is_not_taken_from_a_folder_that_others_may_write_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    folder = rtl_build.cache_folder()
    folder.mkdir()
    folder.chmod(0o770)
    with pytest.raises(EngineUnavailable, match="others may write to"):
        rtl_build.library(Design(), lambda warning: None)


@pytest.fixture
def no_umask() -> Iterator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


@pytest.mark.usefixtures("no_umask")
def test_the_folders_that_we_make_are_ours_without_an_umask(tmp_path: Path) -> None:
    state = tmp_path / "crawls" / "state"
    Store(state, fsync="no").close()
    LedgerWriter(state / "ledger", "all", rules={}).close()
    for folder in (state.parent, state, state / "ledger"):
        require_own(folder)
