"""The decision ledger gives back what went in, rotates, survives damage, and never holds up."""

import json
import os
import re
import shutil
import sqlite3
import subprocess
import sys
import zlib
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrapy_neardup.commands import NOTHING_FOUND, WRONG_USE, main
from scrapy_neardup.errors import LedgerError
from scrapy_neardup.ledger import writer
from scrapy_neardup.ledger.reader import LedgerReader, reading
from scrapy_neardup.ledger.schema import (
    ACTIONS,
    KINDS,
    MAX_TEXT_CHARS,
    SCHEMA,
    Entry,
    compressed,
    decompressed,
    ledger_files,
)
from scrapy_neardup.ledger.writer import LedgerWriter

RULES = {"distance": 3, "confirm_distance": 40}
NEAR = Entry(
    "http://a.example/2",
    "near",
    "dropped",
    original="http://a.example/1",
    elsewhere="http://b.example/1",
    fingerprint=2**64 - 1,
    distance=2,
    sketch_distance=31,
    similarity=0.93,
    words=512,
    size_bytes=30_000,
    latency_ms=120,
    callback="parse_item",
    title=7,
    data_differ="price, name",
)
DIFFERS = NEAR._replace(
    url="http://a.example/3", kind="near-but-differs", action="kept", differs="number or symbol"
)
NEW = Entry("http://a.example/1", "new", "kept", fingerprint=5, words=500, title=8)


def write(state: Path, *entries: Entry, policy: str = "all", **options: object) -> None:
    ledger = LedgerWriter.open(state, policy, rules=RULES, **options)  # type: ignore[arg-type]
    assert ledger is not None
    for entry in entries:
        ledger.record(entry)
    ledger.close()


def test_decisions_come_back_as_they_went_in(tmp_path: Path) -> None:
    write(tmp_path, NEW, NEAR)
    new, near = LedgerReader(tmp_path).decisions()
    assert (new.url, new.kind, new.original, new.distance) == (NEW.url, "new", None, None)
    assert near[3:16] == (*NEAR[1:3], NEAR.url, *NEAR[3:13])
    assert (near.title_differs, near.data_differ) == (True, "price, name")
    assert (new.title_differs, new.data_differ) == (None, None)
    assert new.position < near.position


@given(
    st.lists(
        st.builds(
            Entry,
            url=st.text(min_size=1),
            kind=st.sampled_from(KINDS),
            action=st.sampled_from(ACTIONS),
            original=st.none() | st.text(),
            elsewhere=st.none() | st.text(),
            fingerprint=st.none() | st.integers(0, 2**64 - 1),
            distance=st.none() | st.integers(0, 64),
            sketch_distance=st.none() | st.integers(0, 1024),
            similarity=st.none() | st.floats(0, 1),
            words=st.none() | st.integers(0, 2**40),
            size_bytes=st.none() | st.integers(0, 2**40),
            latency_ms=st.none() | st.integers(0, 2**40),
            callback=st.none() | st.sampled_from(["parse", "parse_item"]),
            title=st.none() | st.integers(0, 2**31 - 1),
            data_differ=st.none() | st.text(),
            differs=st.sampled_from([None, "title", "negation"]),
            text=st.text(),
        ),
        max_size=20,
    )
)
def test_any_text_and_any_fingerprint_is_stored(
    tmp_path_factory: pytest.TempPathFactory, entries: list[Entry]
) -> None:
    state = tmp_path_factory.mktemp("state")
    write(state, *entries)
    read = list(LedgerReader(state).decisions())
    assert [(d.kind, d.action, d.fingerprint, d.distance) for d in read] == [
        (e.kind, e.action, e.fingerprint, e.distance) for e in entries
    ]
    assert all(LedgerReader(state).of_url(e.url) for e in entries)


def test_duplicates_policy_leaves_out_pages_that_were_kept(tmp_path: Path) -> None:
    write(tmp_path, NEW, NEAR, Entry("http://a.example/1", "seen", "dropped"), policy="duplicates")
    assert [d.kind for d in LedgerReader(tmp_path).decisions()] == ["near", "seen"]


def test_the_fact_that_kept_a_page_comes_back(tmp_path: Path) -> None:
    write(tmp_path, NEW, NEAR, DIFFERS)
    assert [d.differs for d in LedgerReader(tmp_path).decisions()] == [
        None,
        None,
        "number or symbol",
    ]


def as_format_3(path: Path) -> None:
    """Make a file what the version before would have made of it."""
    columns = "CAST(decision.differs AS TEXT) AS differs, "
    with closing(sqlite3.connect(path)) as file:
        assert columns in SCHEMA
        (view,) = file.execute("SELECT sql FROM sqlite_master WHERE name = 'decisions'").fetchone()
        file.execute("DROP VIEW decisions")
        file.execute("ALTER TABLE decision DROP COLUMN differs")
        file.execute(view.replace(columns, ""))
        file.execute("PRAGMA user_version = 3")
        file.commit()


def test_a_ledger_of_the_format_before_is_read_and_goes_on_in_a_new_file(tmp_path: Path) -> None:
    write(tmp_path, NEW, NEAR)
    (old,) = ledger_files(tmp_path / "ledger")
    as_format_3(old)
    before = old.read_bytes()
    assert [d.kind for d in LedgerReader(tmp_path).decisions()] == ["new", "near"]
    write(tmp_path, DIFFERS)
    assert old.read_bytes() == before
    reader = LedgerReader(tmp_path)
    assert [d.differs for d in reader.decisions()] == [None, None, "number or symbol"]
    assert [d.url for d in reader.duplicates_of(NEW.url)] == [NEAR.url]


def test_off_opens_nothing(tmp_path: Path) -> None:
    assert LedgerWriter.open(tmp_path, "off", rules=RULES) is None
    assert not list(tmp_path.iterdir())


def test_a_url_and_its_duplicates_are_found(tmp_path: Path) -> None:
    write(tmp_path, NEW, NEAR)
    reader = LedgerReader(tmp_path)
    assert [d.kind for d in reader.of_url(NEAR.url)] == ["near"]
    assert [d.url for d in reader.duplicates_of(NEW.url)] == [NEAR.url]
    assert reader.of_url("http://a.example/3") == []


@pytest.mark.parametrize("order", ["before", "after", "never"])
def test_an_original_is_named_whenever_its_own_decision_came(tmp_path: Path, order: str) -> None:
    again = NEAR._replace(url="http://a.example/3", elsewhere=NEW.url)
    entries = {"before": [NEW, NEAR, again], "after": [NEAR, again, NEW], "never": [NEAR, again]}
    write(tmp_path, *entries[order][:1])
    write(tmp_path, *entries[order][1:])
    reader = LedgerReader(tmp_path)
    found = [d for d in reader.decisions() if d.kind == "near"]
    assert [d.original for d in found] == [NEW.url, NEW.url]
    assert [d.elsewhere for d in found] == [NEAR.elsewhere, NEW.url]
    assert [d.url for d in reader.duplicates_of(NEW.url)] == [NEAR.url, again.url]


def test_an_original_that_has_a_decision_of_its_own_is_stored_once(tmp_path: Path) -> None:
    long = "http://a.example/" + "x" * 3_000
    write(tmp_path, NEW._replace(url=long), *[NEAR._replace(original=long)] * 10)
    stored = (tmp_path / "ledger" / "000001.sqlite").read_bytes()
    assert stored.count(long.encode()) == 1


def test_rules_of_the_run_stay_with_its_decisions(tmp_path: Path) -> None:
    write(tmp_path, NEW)
    again = LedgerWriter.open(tmp_path, "all", rules={"distance": 6})
    assert again is not None
    again.record(NEAR)
    again.close()
    reader = LedgerReader(tmp_path)
    assert [reader.rules_of(d)["distance"] for d in reader.decisions()] == [3, 6]


def test_texts_are_kept_for_possible_originals_too(tmp_path: Path) -> None:
    page = NEW._replace(text="Ein schöner Tag. " * 50)
    write(tmp_path, page, NEAR._replace(text="x"), policy="duplicates", keep_text=True)
    reader = LedgerReader(tmp_path)
    assert reader.text(NEW.url) == page.text
    assert reader.text("http://a.example/3") is None
    assert [d.url for d in reader.decisions()] == [NEAR.url]


def test_texts_are_not_kept_unless_asked_for(tmp_path: Path) -> None:
    write(tmp_path, NEAR._replace(text="secret"))
    assert LedgerReader(tmp_path).text(NEAR.url) is None


def test_a_full_file_is_followed_by_a_new_one_and_old_ones_go(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "BATCH", 100)
    entries = [NEAR._replace(url=f"http://a.example/{i}") for i in range(1_000)]
    write(tmp_path, *entries, rotate_bytes=1, keep_files=3)
    assert len(ledger_files(tmp_path / "ledger")) == 3
    urls = [d.url for d in LedgerReader(tmp_path).decisions()]
    assert urls == [e.url for e in entries[1_000 - len(urls) :]]
    assert len(urls) >= 200
    reader = LedgerReader(tmp_path)
    assert {d.original for d in reader.decisions()} == {NEW.url}
    assert len(reader.duplicates_of(NEW.url)) == len(urls)


def test_a_file_that_a_reader_has_open_goes_with_all_beside_it(tmp_path: Path) -> None:
    write(tmp_path, NEW)
    (first,) = ledger_files(tmp_path / "ledger")
    with closing(sqlite3.connect(first)) as reader:
        reader.execute("SELECT * FROM decision").fetchall()
        assert len(list(first.parent.glob(f"{first.name}*"))) == 3
        write(tmp_path, NEAR, rotate_s=0, keep_files=1)
    assert not list(first.parent.glob(f"{first.name}*"))


def test_an_old_file_is_followed_by_a_new_one(tmp_path: Path) -> None:
    write(tmp_path, NEW, rotate_s=0)
    write(tmp_path, NEAR, rotate_s=3_600)
    assert len(ledger_files(tmp_path / "ledger")) == 2
    assert [d.kind for d in LedgerReader(tmp_path).decisions()] == ["new", "near"]


def test_reading_goes_on_where_it_stopped(tmp_path: Path) -> None:
    write(tmp_path, *[NEW] * 10, rotate_s=0)
    write(tmp_path, *[NEAR] * 10)
    reader = LedgerReader(tmp_path)
    everything = list(reader.decisions())
    for i in (0, 5, 9, 10, 19):
        assert list(reader.decisions(everything[i].position)) == everything[i + 1 :]


def test_a_reader_sees_what_a_running_crawl_has_written(tmp_path: Path) -> None:
    write(tmp_path, NEW)
    ledger = LedgerWriter.open(tmp_path, "all", rules=RULES)
    assert ledger is not None
    reader = LedgerReader(tmp_path)
    assert len(list(reader.decisions())) == 1
    ledger.record(NEAR)
    ledger.close()
    ledger.close()
    assert len(list(reader.decisions())) == 2


def test_entries_are_counted_as_lost_when_the_disk_fails(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    ledger = LedgerWriter.open(tmp_path, "all", rules=RULES)
    assert ledger is not None
    with sqlite3.connect(tmp_path / "ledger" / "000001.sqlite") as damage:
        damage.execute("DROP TABLE original")
    ledger.record(NEAR)
    ledger.close()
    assert (ledger.recorded, ledger.lost) == (0, 1)
    assert "the crawl goes on" in caplog.text


@pytest.mark.parametrize("half_made", ["empty file", "no rows", "tables only", "garbage"])
@pytest.mark.parametrize("number", [1, 2])
def test_a_half_made_file_costs_no_decision(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, half_made: str, number: int
) -> None:
    monkeypatch.setattr(writer, "BATCH", 100)
    folder = tmp_path / "ledger"
    folder.mkdir()
    ledger = None
    if number == 2:
        ledger = LedgerWriter.open(tmp_path, "all", rules=RULES, rotate_bytes=1)
    make_half(folder / f"{number:06}.sqlite", half_made)
    ledger = ledger or LedgerWriter.open(tmp_path, "all", rules=RULES, rotate_bytes=1)
    assert ledger is not None
    for i in range(1_000):
        ledger.record(NEW._replace(url=f"http://a.example/{i}"))
    ledger.close()
    assert (ledger.recorded, ledger.lost) == (1_000, 0)
    again = LedgerWriter.open(tmp_path, "all", rules=RULES)
    assert again is not None
    again.close()


def make_half(path: Path, how: str) -> None:
    """What an interrupted making of a file may leave."""
    if how in ("empty file", "garbage"):
        path.write_bytes(b"" if how == "empty file" else b"not a database" * 1_000)
        return
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA journal_mode = WAL")
    if how == "tables only":
        connection.executescript("CREATE TABLE run (id INTEGER); CREATE TABLE kind (id INTEGER);")
    connection.close()


def test_whatever_ends_the_writers_thread_is_counted_as_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "BATCH", 10)
    ledger = LedgerWriter.open(tmp_path, "all", rules=RULES)
    assert ledger is not None
    entries = [NEW._replace(url=f"http://a.example/{i}") for i in range(95)]
    entries[42] = NEW._replace(kind="no such kind")  # type: ignore[arg-type]
    for entry in entries:
        ledger.record(entry)
    ledger.close()
    assert ledger.recorded + ledger.lost == 95
    assert len(list(LedgerReader(tmp_path).decisions())) == ledger.recorded
    ledger.record(NEW)
    assert ledger.recorded + ledger.lost == 96


def test_a_file_that_cannot_be_begun_is_no_decision_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "BATCH", 1)
    ledger = LedgerWriter.open(tmp_path, "all", rules=RULES, rotate_bytes=1)
    assert ledger is not None
    (tmp_path / "ledger" / "000002.sqlite.tmp").mkdir()
    for i in range(3):
        ledger.record(NEW._replace(url=f"http://a.example/{i}"))
    ledger.close()
    assert (ledger.recorded, ledger.lost) == (3, 0)
    assert [d.url[-1] for d in LedgerReader(tmp_path).decisions()] == ["0", "1", "2"]


def test_entries_beyond_what_may_wait_are_counted_as_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "MAX_WAITING", 0)
    ledger = LedgerWriter.open(tmp_path, "all", rules=RULES)
    assert ledger is not None
    ledger.record(NEAR)
    ledger.close()
    assert ledger.lost == 1


def test_no_ledger_is_an_error_that_says_how_to_get_one(tmp_path: Path) -> None:
    with pytest.raises(LedgerError, match="NEARDUP_LEDGER='all'"):
        LedgerReader(tmp_path)


@pytest.mark.parametrize("content", [b"", b"not a database, but long enough to be one" * 100])
def test_a_file_that_is_no_ledger_is_refused_by_name(tmp_path: Path, content: bytes) -> None:
    folder = tmp_path / "ledger"
    folder.mkdir()
    (folder / "000001.sqlite").write_bytes(content)
    with pytest.raises(LedgerError, match=r"000001\.sqlite"):
        list(LedgerReader(tmp_path).decisions())


def test_a_ledger_of_another_version_is_refused(tmp_path: Path) -> None:
    write(tmp_path, NEW)
    with sqlite3.connect(tmp_path / "ledger" / "000001.sqlite") as other:
        other.execute("PRAGMA user_version = 99")
    with pytest.raises(LedgerError, match="format 99"):
        list(LedgerReader(tmp_path).decisions())
    with pytest.raises(LedgerError, match="format 99"):
        LedgerWriter.open(tmp_path, "all", rules=RULES)


STRANGE = {
    "a view that never ends": """DROP VIEW decisions; CREATE VIEW decisions AS WITH RECURSIVE
        n(id) AS (SELECT 1 UNION ALL SELECT id + 1 FROM n) SELECT * FROM n""",
    "a view for a table": """ALTER TABLE page_text RENAME TO kept; CREATE VIEW page_text AS
        SELECT 1 AS id, randomblob(1e9) AS body""",
    "a trigger": "CREATE TRIGGER t AFTER INSERT ON run BEGIN DELETE FROM decision; END",
    "a generated column": "ALTER TABLE run ADD COLUMN x AS (hex(zeroblob(4e8)))",
    "a huge cell": "UPDATE decision SET url = hex(zeroblob(2e7))",
    "bytes for a URL": "UPDATE decision SET url = x'ff80'",
    "an unknown kind": "UPDATE kind SET name = 'odd'",
    "an action of bytes": "UPDATE action SET name = x'00'",
    "no time": "UPDATE decision SET time_ms = 'soon'",
    "an endless time": "UPDATE decision SET time_ms = 9e999",
    "a time in millions of years": "UPDATE decision SET time_ms = 9e18",
    "a callback of bytes": "UPDATE callback SET name = x'00'",
    "a crawl that began never": "UPDATE run SET started = 'x'",
    "rules that are none": "UPDATE run SET rules = 7",
    "rules that nest": "UPDATE run SET rules = replace(hex(zeroblob(50000)), '0', '[')",
    "rules of other types": """UPDATE run SET rules = '{"NEARDUP_DISTANCE": [], "spec": 3,
        "NEARDUP_SIMILARITY": "x", "NEARDUP_CONFIRM_DISTANCE": {}, "NEARDUP_MIN_WORDS": null,
        "NEARDUP_URL_DROP_ARGS": 5, "NEARDUP_URL_INDEX_NAMES": {}, "NEARDUP_URL_PROFILES": 1}'""",
    "a similarity beyond all": "UPDATE decision SET per_mille = 9e999",
    "texts for numbers": "UPDATE decision SET distance = 'x', words = 'y', fingerprint = 'z'",
    "originals that go round": "UPDATE decision SET original = -id",
}


COMPUTING = [what for what in STRANGE if re.match("a (view|trigger|generated|huge)", what)]


@pytest.mark.parametrize("what", STRANGE)
def test_a_stranger_s_ledger_is_refused_or_told(tmp_path: Path, what: str) -> None:
    """Never a traceback, and never without end; what computes is not asked for anything."""
    write(tmp_path, NEW, NEAR, DIFFERS)
    with closing(sqlite3.connect(tmp_path / "ledger" / "000001.sqlite")) as file:
        file.executescript(STRANGE[what])
    out = str(tmp_path / "out.html")
    codes = (WRONG_USE,) if what in COMPUTING else (0, NOTHING_FOUND, WRONG_USE)
    for command in (
        ["explain", NEAR.url, "--state", str(tmp_path)],
        ["report", str(tmp_path), "-o", out],
        ["stats", str(tmp_path)],
        ["best", str(tmp_path)],
        ["rules", str(tmp_path), "--learn-from", str(tmp_path)],
        ["export", str(tmp_path), "-o", str(tmp_path / "out.csv")],
    ):
        assert main(command) in codes, command


def test_nothing_of_a_file_reaches_out_of_sqlite(tmp_path: Path) -> None:
    write(tmp_path, NEW)
    with reading(tmp_path / "ledger" / "000001.sqlite") as file:
        assert file.execute("PRAGMA trusted_schema").fetchone() == (0,)


def test_a_ledger_with_a_trigger_is_not_written_to(tmp_path: Path) -> None:
    write(tmp_path, NEW)
    with closing(sqlite3.connect(tmp_path / "ledger" / "000001.sqlite")) as file:
        file.executescript(STRANGE["a trigger"])
    with pytest.raises(LedgerError, match="it has a trigger, t"):
        LedgerWriter.open(tmp_path, "all", rules=RULES)


def test_a_ledger_with_an_index_of_its_owner_s_own_is_read(tmp_path: Path) -> None:
    write(tmp_path, NEW)
    with closing(sqlite3.connect(tmp_path / "ledger" / "000001.sqlite")) as file:
        file.executescript("CREATE INDEX mine ON decision (words); ANALYZE; CREATE TABLE x (y)")
    assert [d.url for d in LedgerReader(tmp_path).decisions()] == [NEW.url]


def test_a_folder_that_cannot_be_made_is_an_error_that_names_it(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(LedgerError, match="file/ledger"):
        LedgerWriter.open(tmp_path / "file", "all", rules=RULES)


def test_a_text_that_unpacks_to_more_than_is_stored_is_not_shown() -> None:
    assert decompressed(compressed("\U0001f600" * MAX_TEXT_CHARS)) is not None
    assert decompressed(zlib.compress(bytes(4 * MAX_TEXT_CHARS + 1))) is None
    assert decompressed(compressed("cut short")[:-1]) is None


# Everything is imported before: nobody may not read where Python is.
AS_NOBODY = """\
import os, sys
from encodings import idna
from scrapy_neardup.commands import main
for command in ["export"], ["stats"], ["check"], ["explain", "http://a.example/", "--state"]:
    main([*command, os.devnull])
os.setgroups([])
os.setgid(65534)
os.setuid(65534)
sys.exit(main(sys.argv[1:]))
"""


def as_nobody(*arguments: str) -> subprocess.CompletedProcess[str]:
    """A command of ours, by a user who may read everything and write to nothing."""
    return subprocess.run(
        [sys.executable, "-c", AS_NOBODY, *arguments], capture_output=True, text=True
    )


only_root = pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root can be nobody"
)


@pytest.fixture
def unfinished(tmp_path: Path) -> Iterator[Path]:
    """A folder that all may read, whose ledger's only decision is in its log, as after a kill."""
    write(tmp_path, NEAR)
    (path,) = ledger_files(tmp_path / "ledger")
    with TemporaryDirectory() as name, closing(sqlite3.connect(path)) as db:
        db.execute("UPDATE decision SET words = 1234")
        db.commit()
        folder = Path(name)
        shutil.copytree(path.parent, folder / "ledger")
        for one in (folder, *folder.rglob("*")):
            one.chmod(0o755)
        yield folder


@only_root
def test_who_may_only_read_a_ledger_is_told_all_of_it_or_that_it_is_not_all(
    unfinished: Path,
) -> None:
    whole = as_nobody("export", str(unfinished))
    assert (whole.returncode, json.loads(whole.stdout)["words"]) == (0, 1_234)
    (shared,) = (unfinished / "ledger").glob("*-shm")
    shared.unlink()
    for command in (["export", str(unfinished)], ["explain", NEAR.url, "--state", str(unfinished)]):
        done = as_nobody(*command)
        assert done.returncode == WRONG_USE
        assert "-wal, which cannot be read" in done.stderr
        assert "Run this as the user of the crawl" in done.stderr


@only_root
def test_a_ledger_that_you_may_not_read_is_not_said_to_be_missing(unfinished: Path) -> None:
    (unfinished / "ledger").chmod(0o711)
    done = as_nobody("stats", str(unfinished))
    assert done.returncode == WRONG_USE
    assert f"{unfinished / 'ledger'}: Permission denied" in done.stderr


@only_root
def test_a_state_folder_that_you_may_not_read_is_not_said_to_hold_nothing(unfinished: Path) -> None:
    (unfinished / "ledger").rename(unfinished / "journal-0")
    unfinished.chmod(0o711)
    done = as_nobody("check", str(unfinished))
    assert done.returncode == WRONG_USE
    assert f"{unfinished}: Permission denied" in done.stderr
