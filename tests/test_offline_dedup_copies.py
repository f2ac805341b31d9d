"""Which copy is kept, against what a run compares, and that kills and processes change nothing."""

import csv
import gzip
import json
import os
import random
import signal
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import faults
import pytest
from crawls import crawl_requests
from mock_site import MockSite, page, prose
from test_offline_dedup import STOPPED_BY, lines, rows, warc_record

from scrapy_neardup.commands import WRONG_USE, main
from scrapy_neardup.offline.dedup.copies import Member, chosen
from scrapy_neardup.offline.dedup.deciding import RecordPlace
from scrapy_neardup.offline.dedup.formats.rows import MAX_URL_CHARS
from scrapy_neardup.offline.dedup.record import Page
from scrapy_neardup.offline.dedup.tables import CLUSTER_COLUMNS, write_parquet
from scrapy_neardup.offline.dedup.traits import (
    Traits,
    canonical_in,
    seconds_of,
    status_of,
    traits_of,
)
from scrapy_neardup.state.journal import pack_record
from scrapy_neardup.state.records import FRONTIER

pytest.importorskip("warcio", reason="the extra [dedup] is not installed")

pytestmark = pytest.mark.usefixtures("one_key")


def written(path: Path, table: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in table))
    return path


def run(out: Path, *args: object) -> int:
    return main(["dedup", *map(str, args), "--out", str(out), "--jobs", "1"])


def kept_rows(out: Path) -> list[dict[str, Any]]:
    return [row for part in sorted((out / "kept").iterdir()) for row in lines(part)]


COPIES = [
    {"id": 0, "url": "http://a.example/print?id=7", "date": "2026-01-01", "status": 200},
    {"id": 1, "url": "http://a.example/7", "date": "2026-03-01T00:00:00Z", "status": 200},
    {"id": 2, "url": "https://a.example/7", "date": "20260201", "status": 200},
    {"id": 3, "url": "https://a.example/", "date": None, "status": 404},
]
CANONICAL = "http://a.example/7"
MENU = "\n".join(("Home", "Shop", "Help", "Imprint"))


def copies() -> list[dict[str, Any]]:
    return [{**row, "text": prose(0), "canonical": CANONICAL} for row in COPIES]


@pytest.mark.parametrize(
    ("keep", "id"), [("first", 0), ("newest", 1), ("canonical", 1), ("best", 2), ("longest", 0)]
)
def test_the_copy_that_is_asked_for_is_kept(tmp_path: Path, keep: str, id: int) -> None:
    table = [*copies(), {"id": 9, "url": "http://a.example/9", "text": prose(9)}]
    source = written(tmp_path / "a.jsonl", table)
    clusters = tmp_path / "clusters.csv"
    assert run(tmp_path / "out", source, "--keep", keep, "--clusters", clusters) == 0
    assert [row["id"] for row in kept_rows(tmp_path / "out")] == [id, 9]
    dropped = lines(tmp_path / "out" / "duplicates.jsonl")
    assert [row["record"] for row in dropped] == [i for i in range(4) if i != id]
    assert {row["original"]["record"] for row in dropped} == {id}
    with clusters.open(newline="") as file:
        told = list(csv.DictReader(file))
    assert [(row["record"], row["kept"], row["size"]) for row in told] == [
        (str(id), "True", "4"),
        *((str(i), "False", "4") for i in range(4) if i != id),
    ]


def test_a_table_of_clusters_that_cannot_be_written_leaves_the_one_before(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow", reason="the extra [dedup] is not installed")

    def rows() -> Iterator[dict[str, Any]]:
        yield dict.fromkeys(CLUSTER_COLUMNS)
        raise OSError(28, "No space left on device")

    table = tmp_path / "clusters.parquet"
    table.write_bytes(b"the one before")
    with pytest.raises(OSError, match="No space left"):
        write_parquet(table, rows())
    assert table.read_bytes() == b"the one before"
    assert list(tmp_path.iterdir()) == [table]


def test_records_with_other_words_in_a_brief_line_of_a_template_are_kept(tmp_path: Path) -> None:
    states = ("In stock", "Sold out", "Available", "No longer made by us")
    places = [(n, state) for n in range(10) for state in states]
    table = [
        {"url": f"http://a.example/{id}", "text": f"{MENU}\n{prose(n)}\n{state}"}
        for id, (n, state) in enumerate(places + places)
    ]
    source = written(tmp_path / "a.jsonl", table)
    assert run(tmp_path / "out", source) == 0
    assert kept_rows(tmp_path / "out") == table[: len(places)]


def test_copies_whose_date_cannot_be_read_are_counted(tmp_path: Path) -> None:
    dates = ("yesterday", "2026-03-01", None)
    table = [{**row, "date": date} for row, date in zip(copies(), dates, strict=False)]
    source = written(tmp_path / "a.jsonl", table)
    for keep, n_undated in (("newest", 2), ("longest", 0)):
        assert run(tmp_path / keep, source, "--keep", keep) == 0
        summary = json.loads((tmp_path / keep / "summary.json").read_text())
        assert summary["others"].get("copies_without_date", 0) == n_undated


HOSTILE = {
    "long": "9" * 5_000,
    "power": "\N{SUPERSCRIPT TWO}",
    "object": {"code": 200},
    "infinite": 1e400,
    "list": [200],
}


@pytest.mark.parametrize("status", HOSTILE.values(), ids=HOSTILE)
def test_a_status_that_is_none_ends_no_run(tmp_path: Path, status: object) -> None:
    table = [{**row, "status": status if row["id"] == 2 else row["status"]} for row in copies()]
    source = written(tmp_path / "a.jsonl", table)
    assert run(tmp_path / "out", source, "--keep", "best") == 0
    assert [row["id"] for row in kept_rows(tmp_path / "out")] == [2]


def test_a_status_is_read_as_tables_with_gaps_have_it() -> None:
    found = [status_of(value) for value in (200, "404", 200.0, "301.0", None, float("nan"), True)]
    assert found == [200, 404, 200, 301, None, None, None]


def test_a_canonical_url_that_is_no_copy_decides_nothing(tmp_path: Path) -> None:
    table = [{**row, "canonical": "http://a.example/elsewhere"} for row in copies()]
    source = written(tmp_path / "a.jsonl", table)
    assert run(tmp_path / "out", source, "--keep", "canonical") == 0
    assert [row["id"] for row in kept_rows(tmp_path / "out")] == [0]


def test_copies_with_urls_of_many_wide_characters_are_told(tmp_path: Path) -> None:
    """What is noted of them takes more than one record of the journal."""
    url = "http://a.example/" + "\N{GRINNING FACE}" * 60_000
    table = [{"url": url, "text": prose(0)}, {"url": f"{url}b", "text": prose(0)}]
    assert run(tmp_path / "out", written(tmp_path / "a.jsonl", table)) == 0
    (dropped,) = lines(tmp_path / "out" / "duplicates.jsonl")
    assert (dropped["url"], dropped["original"]["url"]) == (f"{url}b", url)


def test_a_huge_canonical_url_ends_no_run(tmp_path: Path) -> None:
    table = [{**row, "canonical": "x" * 1_200_000} for row in copies()]
    assert run(tmp_path / "out", written(tmp_path / "a.jsonl", table), "--keep", "best") == 0
    assert [row["id"] for row in kept_rows(tmp_path / "out")] == [2]


def test_of_a_canonical_url_no_more_is_noted_than_a_url_may_have() -> None:
    record = Page("http://a.example/", "text", row={"canonical": "x" * (MAX_URL_CHARS + 1)})
    assert traits_of(record, 1).canonical == "x" * MAX_URL_CHARS


def test_rel_canonical_and_headers_of_warc_decide(tmp_path: Path) -> None:
    html = page(prose(0)).replace(b"<body", b'<link href="/best" rel=canonical><body', 1)
    http = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n"
    urls = [f"http://a.example/{name}" for name in ("first", "best")]
    path = tmp_path / "a.warc"
    path.write_bytes(b"".join(warc_record("response", url, http + html) for url in urls))
    assert run(tmp_path / "out", path, "--keep", "canonical") == 0
    (dropped,) = lines(tmp_path / "out" / "duplicates.jsonl")
    assert (dropped["url"], dropped["original"]["url"]) == (urls[0], urls[1])


@pytest.mark.parametrize(
    ("head", "url"),
    [
        (b'<link rel="canonical" href="http://b/x">', "http://b/x"),
        (b"<LINK href='/y' REL=canonical>", "http://a/y"),
        (b'<link rel="alternate" href="/z">', None),
        (b"<link rel=canonical>", None),
        (b"", None),
    ],
)
def test_canonical_urls_are_read(head: bytes, url: str | None) -> None:
    assert canonical_in(b"<html><head>" + head + b"</head>", "http://a/") == url


@pytest.mark.parametrize(
    "value",
    [
        *("2026-02-03T04:05:06Z", "2026/02/03 04:05:06", "20260203040506", 20260203040506),
        *("Tue, 03 Feb 2026 04:05:06 GMT", "3 Feb 2026 05:05:06 +0100", "2026-02-03 04:05:06"),
        *(1770091506, 1770091506.0, "1770091506", 1770091506000, 1770091506000000),
        datetime(2026, 2, 3, 4, 5, 6),
    ],
)
def test_dates_are_read(value: object) -> None:
    assert seconds_of(value) == datetime(2026, 2, 3, 4, 5, 6, tzinfo=UTC).timestamp()


@pytest.mark.parametrize(
    "value",
    [None, "", "soon", "2026-13-01", [], 99999999, True, 7, float("nan"), "3/2/2026", "9" * 400],
)
def test_what_is_no_date_is_none(value: object) -> None:
    assert seconds_of(value) is None


def test_the_first_of_equal_copies_is_kept() -> None:
    same = [Member(RecordPlace(0, 0, i), "http://a", Traits(5, 1.0, 200, None)) for i in range(3)]
    for keep in ("first", "longest", "newest", "canonical", "best"):
        assert chosen(same, keep) == same[0]  # type: ignore[arg-type]


def test_a_run_drops_what_an_earlier_run_has(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    old = written(tmp_path / "old.jsonl", rows()[:3])
    new = written(
        tmp_path / "new.jsonl", [*rows(), {"id": 8, "url": "http://a.example/8", "text": prose(8)}]
    )
    assert run(tmp_path / "first", old) == 0
    assert run(tmp_path / "second", new, "--against", tmp_path / "first") == 0
    assert [row["id"] for row in kept_rows(tmp_path / "second")] == [4, 6, 8]
    first = lines(tmp_path / "second" / "duplicates.jsonl")[0]
    assert first["original"] == {
        "file": str(tmp_path / "first"),
        "record": None,
        "url": rows()[0]["url"],
    }
    assert run(tmp_path / "third", new, "--against", tmp_path / "second", "--keep", "best") == 0
    assert not list((tmp_path / "third" / "kept").iterdir())
    assert run(tmp_path / "fourth", new, "--against", tmp_path / "nothing") == WRONG_USE
    assert "neither" in capsys.readouterr().err


def test_a_run_without_a_key_of_its_own_takes_that_of_its_reference(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SCRAPY_SETTINGS_MODULE")
    source = written(tmp_path / "a.jsonl", rows()[:1])
    assert run(tmp_path / "first", source) == 0
    assert run(tmp_path / "second", source, "--against", tmp_path / "first") == 0
    assert (tmp_path / "second" / "key").read_bytes() == (tmp_path / "first" / "key").read_bytes()
    assert not list((tmp_path / "second" / "kept").iterdir())


@pytest.mark.parametrize("kind", ["snapshot", "journal"])
def test_a_run_against_a_damaged_state_is_refused_until_it_is_repaired(
    tmp_path: Path, mock_site: MockSite, capsys: pytest.CaptureFixture[str], kind: str
) -> None:
    crawled, body = tmp_path / "crawl", page(prose(1))
    mock_site.add("/crawled", body)
    own = {"NEARDUP_STATE_DIR": str(crawled), "NEARDUP_KEY": 5, "NEARDUP_BOILERPLATE": "learn"}
    crawl_requests(mock_site, "/crawled", settings=own)
    table = [{"id": 0, "url": mock_site.url("/elsewhere"), "html": body.decode()}]
    source = written(tmp_path / "new.jsonl", table)
    (journal,) = sorted(crawled.glob("journal-*"))[-1:]
    last = pack_record(FRONTIER, bytes(8), 5)
    journal.write_bytes(journal.read_bytes() + last + last[:-1])  # as a kill leaves it
    assert run(tmp_path / "torn", source, "--against", crawled) == 0
    assert not list((tmp_path / "torn" / "kept").iterdir())

    (damaged,) = sorted(crawled.glob(f"{kind}-*"))[-1:]
    data = bytearray(damaged.read_bytes() + last)
    data[len(data) // 2 if kind == "snapshot" else -len(last) - 9] ^= 1
    damaged.write_bytes(data)
    capsys.readouterr()
    assert run(tmp_path / "damaged", source, "--against", crawled) == WRONG_USE
    told = capsys.readouterr().err
    assert damaged.name in told
    assert f"`scrapy neardup repair {crawled}`" in told
    assert main(["repair", str(crawled)]) == 0
    assert run(tmp_path / "repaired", source, "--against", crawled) == 0


@pytest.mark.parametrize("where", ["NEARDUP_STATE_DIR", "JOBDIR"])
def test_a_run_drops_what_a_crawl_has(tmp_path: Path, mock_site: MockSite, where: str) -> None:
    bodies = [page(prose(i)) for i in range(3)]
    paths = [f"/crawled/{i}" for i in range(3)]
    for path, body in zip(paths, bodies, strict=True):
        mock_site.add(path, body)
    own = {where: str(tmp_path / "crawl"), "NEARDUP_KEY": 5, "NEARDUP_BOILERPLATE": "learn"}
    assert len(crawl_requests(mock_site, *paths, settings=own).items) == 3
    before = {p: p.read_bytes() for p in (tmp_path / "crawl").rglob("*") if p.is_file()}
    urls = [mock_site.url(f"/elsewhere/{i}") for i in range(4)]
    table = [
        {"id": i, "url": url, "html": body.decode()}
        for i, (url, body) in enumerate(zip(urls, [*bodies, page(prose(9))], strict=True))
    ]
    source = written(tmp_path / "new.jsonl", table)
    assert run(tmp_path / "out", source, "--against", tmp_path / "crawl") == 0
    assert [row["id"] for row in kept_rows(tmp_path / "out")] == [3]
    dropped = lines(tmp_path / "out" / "duplicates.jsonl")
    assert [row["original"]["url"] for row in dropped] == [mock_site.url(path) for path in paths]
    assert {p: p.read_bytes() for p in (tmp_path / "crawl").rglob("*") if p.is_file()} == before


def test_columns_of_parquet_decide_which_copy_is_kept(tmp_path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    pq.write_table(pa.Table.from_pylist(copies()), tmp_path / "a.parquet")
    for keep, id in (("newest", 1), ("canonical", 1), ("best", 2)):
        out = tmp_path / keep
        assert run(out, tmp_path / "a.parquet", "--keep", keep) == 0
        (path,) = (out / "kept").iterdir()
        assert pq.read_table(path)["id"].to_pylist() == [id]


def test_dates_of_a_time_zone_that_nobody_knows_end_no_run(tmp_path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = pa.Table.from_pylist([{**row, "date": None} for row in copies()])
    dates = pa.array([10**9 * n for n in range(len(table))], pa.timestamp("ns", "No/Where"))
    table = table.set_column(table.column_names.index("date"), "date", dates)
    pq.write_table(table, tmp_path / "a.parquet")
    assert run(tmp_path / "out", tmp_path / "a.parquet", "--keep", "newest") == 0
    summary = json.loads((tmp_path / "out" / "summary.json").read_text())
    assert (summary["kept"], summary["others"]["copies_without_date"]) == (1, 4)


def as_it_is(out: Path) -> dict[str, bytes]:
    """All of a result but times and secrets."""
    files = [*(out / "kept").rglob("*"), *out.glob("*.jsonl")]
    return {str(p.relative_to(out)): p.read_bytes() for p in files if p.is_file()}


@pytest.fixture(scope="module")
def collection(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Several chunks in several formats, with copies and damage."""
    folder = tmp_path_factory.mktemp("collection")
    rng = random.Random(3)
    # Few words, so that they are read fast, and many bytes, so that they fill chunks.
    texts = [f"{prose(i)} {'z' * 90_000}\nA line that every text ends with." for i in range(30)]

    def table(n: int) -> Iterator[dict[str, Any]]:
        for i in range(n):
            yield {"id": i, "url": f"http://a.example/{rng.random()}", "text": rng.choice(texts)}

    written(folder / "a.jsonl", list(table(50)))
    body = b"".join(json.dumps(row).encode() + b"\n" for row in table(50))
    (folder / "b.jsonl.gz").write_bytes(gzip.compress(body + b"damaged\n", 1))
    rows_of_c = [json.dumps(row) for row in table(30)]
    (folder / "c.json").write_text("[\n" + ",\n".join(rows_of_c) + "\n]")
    return folder


def dedup_command(collection: Path, out: Path, *more: str) -> list[str]:
    return ["dedup", str(collection), "--out", str(out), "--keep", "longest", *more]


def finish(collection: Path, out: Path, *more: str) -> None:
    command = [sys.executable, "-m", "scrapy_neardup", *dedup_command(collection, out, *more)]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_the_number_of_processes_changes_nothing(collection: Path, tmp_path: Path) -> None:
    finish(collection, tmp_path / "one", "--jobs", "1")
    finish(collection, tmp_path / "three", "--jobs", "3")
    assert as_it_is(tmp_path / "one") == as_it_is(tmp_path / "three")
    assert len(lines(tmp_path / "one" / "duplicates.jsonl")) > 50


@pytest.mark.parametrize(
    "at", [2, 5, 9, *(pytest.param(n, marks=pytest.mark.long) for n in range(1, 18))]
)
def test_a_kill_at_any_chunk_changes_nothing(collection: Path, tmp_path: Path, at: int) -> None:
    finish(collection, tmp_path / "whole", "--jobs", "1")
    (tmp_path / "killed.py").write_text(STOPPED_BY.format("SIGKILL"))
    program = [sys.executable, str(tmp_path / "killed.py")]
    for n_parts in (at, 2):
        done = subprocess.run(
            [*program, str(n_parts), *dedup_command(collection, tmp_path / "out")],
            check=False,
            capture_output=True,
        )
        assert done.returncode in (-signal.SIGKILL, 0), done.stderr
    finish(collection, tmp_path / "out", "--jobs", "2")
    assert as_it_is(tmp_path / "out") == as_it_is(tmp_path / "whole")


FAULTED = """
import sys
from pathlib import Path
from faults import KILLS, OTHERS, arm
from scrapy_neardup.commands import main
if __name__ == '__main__':
    folder, number, at, *command = sys.argv[1:]
    arm(Path(folder), (KILLS + OTHERS)[int(number)], int(at))
    sys.exit(main(command))
"""
# Each fault once among the first calls, of which the shortest run makes about a hundred; then all.
MOMENTS = [(fault, (7 * fault + 5) % 60 + 1) for fault in range(7)]
EVERY_MOMENT = [
    pytest.param(at % 3 if at % 2 else 3 + at % 4, at, marks=pytest.mark.long)
    for at in range(1, 140)
]


@pytest.mark.skipif(not faults.IS_POSSIBLE, reason="needs Linux and a C compiler")
@pytest.mark.parametrize(("fault", "at"), [*MOMENTS, *EVERY_MOMENT])
def test_a_kill_or_a_failure_at_any_write_changes_nothing(
    collection: Path, whole: Path, tmp_path: Path, fault: int, at: int, shim: dict[str, str]
) -> None:
    """What the main process writes, syncs, cuts, renames or removes is cut off at one call."""
    (tmp_path / "faulted.py").write_text(FAULTED)
    out = tmp_path / "out"
    program = [sys.executable, str(tmp_path / "faulted.py"), str(out), str(fault)]
    command = dedup_command(collection, out, "--paragraphs", "remove", "--jobs", "1")
    tests = str(Path(__file__).parent)
    env = shim | os.environ | {"PYTHONPATH": os.pathsep.join([tests, os.environ["PYTHONPATH"]])}
    for moment in (at, 2 * at):
        done = subprocess.run(
            [*program, str(moment), *command], check=False, capture_output=True, text=True, env=env
        )
        assert done.returncode in (0, -signal.SIGKILL, WRONG_USE), done.stderr
        assert "Traceback" not in done.stderr
    finish(collection, out, "--paragraphs", "remove", "--jobs", "1")
    assert as_it_is(out) == as_it_is(whole)


@pytest.fixture(scope="module")
def shim() -> dict[str, str]:
    return faults.preloaded()


@pytest.fixture(scope="module")
def whole(collection: Path, one_key: None, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The result of a run that nothing disturbs."""
    folder = tmp_path_factory.mktemp("whole")
    command = dedup_command(collection, folder / "out", "--paragraphs", "remove", "--jobs", "1")
    subprocess.run([sys.executable, "-m", "scrapy_neardup", *command], check=True)
    return folder / "out"


LIMITED = """
import resource, sys
from scrapy_neardup.commands import main
if __name__ == '__main__':
    resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[1]),) * 2)
    sys.exit(main(sys.argv[2:]))
"""


@pytest.mark.skipif(sys.platform == "win32", reason="has no limit on the size of files")
@pytest.mark.parametrize("n_bytes", [10_000, 1_000_000])
def test_a_full_disk_ends_with_a_message_and_a_run_that_goes_on(
    collection: Path, tmp_path: Path, n_bytes: int
) -> None:
    """As a file that may not grow: first the journal, then what is kept."""
    finish(collection, tmp_path / "whole", "--jobs", "1")
    (tmp_path / "limited.py").write_text(LIMITED)
    command = [sys.executable, str(tmp_path / "limited.py"), str(n_bytes)]
    done = subprocess.run(
        [*command, *dedup_command(collection, tmp_path / "out", "--jobs", "1")],
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.returncode == WRONG_USE, done.stderr
    assert "stopped; run the same command to resume" in done.stderr
    assert "File too large" in done.stderr
    finish(collection, tmp_path / "out", "--jobs", "1")
    assert as_it_is(tmp_path / "out") == as_it_is(tmp_path / "whole")
