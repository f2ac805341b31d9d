"""Offline deduplication decides as a crawl does, in every format, through damage and kills."""

import bz2
import csv
import errno
import gzip
import io
import json
import lzma
import multiprocessing
import os
import signal
import struct
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, suppress
from datetime import datetime
from multiprocessing import Pipe
from multiprocessing.sharedctypes import RawValue
from pathlib import Path
from typing import Any

import pytest
from mock_site import page, prose
from scrapy.settings import Settings

from scrapy_neardup.commands import INTERRUPTED, WRONG_USE, main
from scrapy_neardup.errors import InputError
from scrapy_neardup.offline.dedup import writing
from scrapy_neardup.offline.dedup.columns import Columns, Fields
from scrapy_neardup.offline.dedup.deciding import Decider
from scrapy_neardup.offline.dedup.formats import records
from scrapy_neardup.offline.dedup.formats.warc import Warc
from scrapy_neardup.offline.dedup.inputs import find_inputs
from scrapy_neardup.offline.dedup.job import DedupJob
from scrapy_neardup.offline.dedup.progress import Progress
from scrapy_neardup.offline.dedup.reading import Work
from scrapy_neardup.offline.dedup.record import CHUNK_BYTES, DamagedRecord, InputLimits, Page
from scrapy_neardup.offline.dedup.run import DedupRun, dedup
from scrapy_neardup.offline.dedup.said import LONG_TEXT
from scrapy_neardup.offline.dedup.workers import serve
from scrapy_neardup.offline.dedup.writing import Writer
from scrapy_neardup.settings import NearDupSettings
from scrapy_neardup.state.lock import FolderLock

warcio = pytest.importorskip("warcio", reason="the extra [dedup] is not installed")
pa = pytest.importorskip("pyarrow", reason="the extra [dedup] is not installed")
zstandard = pytest.importorskip("zstandard", reason="the extra [dedup] is not installed")

pytestmark = pytest.mark.usefixtures("one_key")

URL = "http://a.example/{}"
# Pages by number: 3 repeats 0 word by word, 5 is near to 1, 6 is too short to be near anything.
# Of the first four pages of a host none is near.
# So long that one edited word is within the distance under every key: each run draws its own.
TEXTS = [
    prose(0),
    prose(1, n_words=2000),
    prose(2),
    prose(0),
    prose(3),
    prose(1, n_words=2000).rpartition(" ")[0] + " edited",
    "three words only",
]
KEPT = [0, 1, 2, 4, 6]


def rows() -> list[dict[str, Any]]:
    return [{"id": i, "url": URL.format(i), "text": text} for i, text in enumerate(TEXTS)]


def jsonl() -> bytes:
    return "".join(json.dumps(row) + "\n" for row in rows()).encode()


def as_csv(delimiter: str = ",") -> bytes:
    text = io.StringIO()
    writer = csv.DictWriter(text, ["id", "url", "text"], delimiter=delimiter)
    writer.writeheader()
    writer.writerows(rows())
    return text.getvalue().encode()


def warc_record(kind: str, url: str, block: bytes) -> bytes:
    head = (
        f"WARC/1.1\r\nWARC-Type: {kind}\r\nWARC-Target-URI: {url}\r\n"
        "WARC-Date: 2026-11-01T00:00:00Z\r\nWARC-Record-ID: <urn:x:y>\r\n"
        f"Content-Type: application/http\r\nContent-Length: {len(block)}\r\n\r\n"
    )
    return head.encode() + block + b"\r\n\r\n"


def warc(packed: Callable[[bytes], bytes] = bytes) -> bytes:
    http = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n"
    parts = [warc_record("warcinfo", "", b"software: test\r\n")]
    parts += [warc_record("response", row["url"], http + page(row["text"])) for row in rows()]
    return b"".join(packed(part) for part in parts)


def warc_with_dictionary() -> bytes:
    """As the standard for `.warc.zst` has it: a skippable frame with a dictionary comes first."""
    dictionary = zstandard.ZstdCompressionDict(warc()[:3000])
    raw = dictionary.as_bytes()
    compressor = zstandard.ZstdCompressor(dict_data=dictionary)
    return b"\x5d\x2a\x4d\x18" + len(raw).to_bytes(4, "little") + raw + warc(compressor.compress)


def wacz() -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("datapackage.json", "{}")
        archive.writestr("archive/data.warc.gz", warc(gzip.compress))
    return file.getvalue()


def array() -> bytes:
    """As Scrapy writes it."""
    return b"[\n" + b",\n".join(json.dumps(row).encode() for row in rows()) + b"\n]"


def parquet() -> bytes:
    import pyarrow.parquet as pq

    file = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(rows()), file)
    return file.getvalue()


def unpacked(path: Path) -> bytes:
    """What a file holds, by another way than ours."""
    content = path.read_bytes()
    readers: dict[str, Callable[[bytes], bytes]] = {
        ".gz": gzip.decompress,
        ".bz2": bz2.decompress,
        ".xz": lzma.decompress,
        ".zst": lambda data: (
            zstandard.ZstdDecompressor()
            .stream_reader(io.BytesIO(data), read_across_frames=True)
            .read()
        ),
    }
    return readers.get(path.suffix, bytes)(content)


def unpacked_lines(path: Path) -> list[int]:
    return [json.loads(line)["id"] for line in unpacked(path).splitlines() if line]


def array_ids(path: Path) -> list[int]:
    return [row["id"] for row in json.loads(unpacked(path))]


def csv_ids(path: Path, delimiter: str = ",") -> list[int]:
    text = io.StringIO(unpacked(path).decode(), newline="")
    return [int(row["id"]) for row in csv.DictReader(text, delimiter=delimiter)]


def tsv_ids(path: Path) -> list[int]:
    return csv_ids(path, "\t")


def warc_ids(path: Path, kind: str = "response") -> list[int]:
    from warcio.archiveiterator import ArchiveIterator

    file = io.BytesIO(unpacked(path))
    urls = [
        record.rec_headers.get_header("WARC-Target-URI")
        for record in ArchiveIterator(file)
        if record.rec_type == kind
    ]
    return [int(url.rpartition("/")[2]) for url in urls]


def parquet_ids(path: Path) -> list[int]:
    import pyarrow.parquet as pq

    return pq.read_table(path)["id"].to_pylist()  # type: ignore[no-any-return]


Ids = Callable[[Path], list[int]]
FORMATS: dict[str, tuple[bytes, Ids]] = {
    "pages.jsonl": (jsonl(), unpacked_lines),
    "pages.jl": (jsonl(), unpacked_lines),
    "pages.jsonl.gz": (gzip.compress(jsonl()), unpacked_lines),
    "pages.jsonl.zst": (zstandard.compress(jsonl()), unpacked_lines),
    "pages.jsonl.bz2": (bz2.compress(jsonl()), unpacked_lines),
    "pages.jsonl.xz": (lzma.compress(jsonl()), unpacked_lines),
    "pages.json": (array(), array_ids),
    "pages.json.gz": (gzip.compress(array()), array_ids),
    "pages.csv": (as_csv(), csv_ids),
    "pages.csv.gz": (gzip.compress(as_csv()), csv_ids),
    "pages.csv.zst": (zstandard.compress(as_csv()), csv_ids),
    "pages.tsv": (as_csv("\t"), tsv_ids),
    "pages.warc": (warc(), warc_ids),
    "pages.warc.gz": (warc(gzip.compress), warc_ids),
    "pages.warc.zst": (warc(zstandard.compress), warc_ids),
    "pages.parquet": (parquet(), parquet_ids),
}


def run(out: Path, *inputs: Path) -> int:
    """The command in this process, with one worker."""
    return main(["dedup", *map(str, inputs), "--out", str(out), "--jobs", "1", "--json"])


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def kept(out: Path, ids: Callable[[Path], list[int]]) -> list[int]:
    return [i for part in sorted((out / "kept").iterdir()) for i in ids(part)]


@pytest.mark.parametrize("name", FORMATS)
def test_every_format_loses_its_duplicates_and_keeps_its_form(
    tmp_path: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    content, ids = FORMATS[name]
    (tmp_path / name).write_bytes(content)
    out = tmp_path / "out"
    assert run(out, tmp_path / name) == 0
    assert kept(out, ids) == KEPT
    exact, near = lines(out / "duplicates.jsonl")
    assert [exact["kind"], near["kind"]] == ["exact", "near"]
    assert [d["url"] for d in (exact, near)] == [URL.format(3), URL.format(5)]
    assert [d["original"]["url"] for d in (exact, near)] == [URL.format(0), URL.format(1)]
    assert json.loads(capsys.readouterr().out) == json.loads((out / "summary.json").read_text())


def test_times_as_spark_writes_them_come_out_as_they_are(tmp_path: Path) -> None:
    import pyarrow.parquet as pq

    ends = [datetime(9999, 12, 31), datetime(2026, 1, 1, 1, 2, 3, 4), datetime(1, 1, 1), None]
    times = [ends[i % 4] for i in range(len(TEXTS))]
    table = pa.Table.from_pylist(rows()).append_column("valid_to", pa.array(times))
    pq.write_table(table, tmp_path / "a.parquet", use_deprecated_int96_timestamps=True)
    assert run(tmp_path / "out", tmp_path / "a.parquet") == 0
    with pq.ParquetFile(
        tmp_path / "out" / "kept" / "00000-a.parquet", coerce_int96_timestamp_unit="us"
    ) as file:
        assert file.schema.column(file.schema.names.index("valid_to")).physical_type == "INT96"
        assert file.read()["valid_to"].to_pylist() == [times[i] for i in KEPT]


@pytest.mark.parametrize("column", [[1_500], [None, 1_500]])
def test_times_that_cannot_be_written_again_keep_their_file_as_it_came(
    tmp_path: Path, column: list[int | None]
) -> None:
    import pyarrow.parquet as pq

    times = pa.array(column + [0] * (len(TEXTS) - len(column)), pa.timestamp("ns"))
    table = pa.Table.from_pylist(rows()).append_column("at", times)
    pq.write_table(table, tmp_path / "a.parquet", use_deprecated_int96_timestamps=True)
    assert run(tmp_path / "out", tmp_path / "a.parquet") == 0
    kept_file = tmp_path / "out" / "kept" / "00000-a.parquet"
    assert kept_file.read_bytes() == (tmp_path / "a.parquet").read_bytes()


def test_a_date_beyond_python_s_range_costs_no_row(tmp_path: Path) -> None:
    import pyarrow.parquet as pq

    dates = pa.array([2**60, *range(len(TEXTS) - 1)], pa.timestamp("ms"))
    table = pa.Table.from_pylist(rows()).append_column("date", dates)
    pq.write_table(table, tmp_path / "a.parquet")
    assert run(tmp_path / "out", tmp_path / "a.parquet") == 0
    assert kept(tmp_path / "out", parquet_ids) == KEPT


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_two_columns_of_one_name_are_refused_where_they_would_be_compared(
    tmp_path: Path, kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """The name tells the last of them only, and what differs in the first would be lost."""
    from pyarrow import csv as arrow_csv
    from pyarrow import parquet as pq

    table = pa.table(
        [[URL.format(n) for n in range(2)], ["one", "two"], [prose(0)] * 2, [1, 2], [3, 4]],
        names=["url", "text", "text", "other", "other"],
    )
    path = tmp_path / f"a.{kind}"
    for names, code in ((table.column_names, WRONG_USE), (["url", "x", "text", "o", "o"], 0)):
        write = pq.write_table if kind == "parquet" else arrow_csv.write_csv
        write(table.rename_columns(names), path)
        assert run(tmp_path / str(code), path) == code
        assert ("has 2 columns 'text'" in capsys.readouterr().err) == (code != 0)


def told(urls: Iterable[str], end: str = "\n") -> bytes:
    """JSON lines of other texts than TEXTS; the last ends as it is told."""
    lines = [json.dumps({"url": url, "text": prose(url)}) for url in urls]
    return ("\n".join(lines) + end).encode()


def piped(monkeypatch: pytest.MonkeyPatch, content: bytes, out: Path) -> int:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(content)))
    return main(["dedup", "-", "--out", str(out), "--jobs", "1"])


def test_another_standard_input_is_not_taken_for_that_of_the_run_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    days = [told(URL.format(10 * day + n) for n in range(3)) for day in (1, 2)]
    assert piped(monkeypatch, days[0], tmp_path / "out") == 0
    for other in (days[1], days[0][:-1], days[0] + b"\n"):
        assert piped(monkeypatch, other, tmp_path / "out") == WRONG_USE
        assert "another standard input; name a new folder" in capsys.readouterr().err
    for same in (days[0], b""):
        assert piped(monkeypatch, same, tmp_path / "out") == 0


def test_standard_input_is_not_stored_where_another_run_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with closing(FolderLock(tmp_path)):
        assert piped(monkeypatch, told([URL.format(1)]), tmp_path) == WRONG_USE
        assert f"in use by process {os.getpid()}" in capsys.readouterr().err
        assert [path.name for path in tmp_path.iterdir()] == ["lock"]
    assert piped(monkeypatch, told([URL.format(2)]), tmp_path) == 0


def test_a_file_that_was_changed_is_another_one_also_if_it_is_as_large(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(told(URL.format(n) for n in range(3)))
    assert run(tmp_path / "out", path) == 0
    assert run(tmp_path / "out", path) == 0
    path.write_bytes(told(URL.format(n) for n in range(3, 6)))
    assert run(tmp_path / "out", path) == WRONG_USE
    assert "before one of them was changed" in capsys.readouterr().err


def test_a_file_that_is_changed_while_it_is_read_ends_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(told(URL.format(n) for n in range(3)))
    write = Writer.write

    def changed(*args: Any) -> Any:
        path.write_bytes(told(URL.format(n) for n in range(3, 6)))
        return write(*args)

    monkeypatch.setattr(Writer, "write", changed)
    assert run(tmp_path / "out", path) == WRONG_USE
    assert "a.jsonl: changed while it was read" in capsys.readouterr().err


@pytest.mark.parametrize("n_rows", [0, 1, 4])
@pytest.mark.parametrize("when", ["before", "while"])
def test_a_file_that_is_changed_before_its_paragraphs_are_read_ends_the_run(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    n_rows: int,
    when: str,
) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(told(URL.format(n) for n in range(3)))
    place = DedupRun if when == "while" else Decider
    name = "_find_paragraphs" if when == "while" else "decide"
    go_on = getattr(place, name)

    def changed(*args: Any) -> Any:
        path.write_bytes(told(URL.format(n) for n in range(n_rows)))
        return go_on(*args)

    monkeypatch.setattr(place, name, changed)
    command = ["dedup", str(path), "--out", str(tmp_path / "out"), "--paragraphs", "list"]
    assert main(command) == WRONG_USE
    assert "a.jsonl: changed while it was read" in capsys.readouterr().err


def test_clusters_that_are_asked_for_too_late_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, clusters = tmp_path / "a.jsonl", tmp_path / "clusters.csv"
    path.write_bytes(FORMATS["pages.jsonl"][0])
    command = ["dedup", str(path), "--jobs", "1", "--out"]
    assert main([*command, str(tmp_path / "out")]) == 0
    assert main([*command, str(tmp_path / "out"), "--clusters", str(clusters)]) == WRONG_USE
    assert "a run with another --clusters" in capsys.readouterr().err
    told_of = [*command, str(tmp_path / "other"), "--clusters", str(clusters)]
    assert main(told_of) == main(told_of) == 0
    clusters.unlink()
    assert main(told_of) == WRONG_USE
    assert "has ended, and its" in capsys.readouterr().err


def test_clusters_in_csv_have_no_cell_that_a_spreadsheet_computes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = Settings({"NEARDUP_SCOPE": "all"})
    monkeypatch.setattr("scrapy.utils.project.get_project_settings", lambda: settings)
    path, clusters = tmp_path / "a.jsonl", tmp_path / "clusters.csv"
    urls = ["=HYPERLINK(1)", "http://a.example/\x1b[2J"]
    rows = [{"url": url, "text": prose(0)} for url in urls]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    command = ["dedup", str(path), "--jobs", "1", "--out", str(tmp_path / "out")]
    assert main([*command, "--clusters", str(clusters)]) == 0
    with clusters.open(newline="") as file:
        told = [row["url"] for row in csv.DictReader(file)]
    assert told == ["'=HYPERLINK(1)", "http://a.example/\ufffd[2J"]


def test_files_of_json_lines_are_joined_on_standard_output_line_by_line(
    tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    contents = {
        "a.jsonl": told(map(URL.format, (1, 2)), end=""),
        "b.jsonl": b"\xef\xbb\xbf" + told(map(URL.format, (3, 4)), end=""),
        "c.jsonl": told(map(URL.format, (1, 2))),
        "d.jsonl": told([URL.format(5)]) + b'{"url": "broken\n',
    }
    for name, content in contents.items():
        (tmp_path / name).write_bytes(content)
    paths = [str(tmp_path / name) for name in contents]
    assert main(["dedup", *paths, "--out", "-", "--jobs", "1"]) == 0
    out, err = capfdbinary.readouterr()
    assert [json.loads(line)["url"] for line in out.splitlines()] == list(
        map(URL.format, range(1, 6))
    )
    assert b"d.jsonl: record 1 is damaged: " in err


@pytest.mark.parametrize(("n_damaged", "n_more"), [(10, None), (12, 2)])
def test_standard_output_says_how_many_damaged_records_it_does_not_name(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], n_damaged: int, n_more: int | None
) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(b"{\n" * n_damaged + jsonl())
    assert main(["dedup", str(path), "--out", "-", "--jobs", "1"]) == 0
    said = capfd.readouterr().err
    assert said.count("is damaged: ") == 10
    assert ("more; name a folder" in said) == bool(n_more)
    assert f"and {n_more} more" in said or not n_more


@pytest.mark.parametrize(
    "names",
    [
        *(("a.csv", "b.csv"), ("a.json", "b.json"), ("a.parquet", "b.parquet"), ("site",)),
        *(("a.jsonl", "b.csv"), ("a.jsonl", "b.jsonl.gz"), ("a.jsonl.gz", "b.jsonl.gz")),
    ],
)
def test_files_that_cannot_be_joined_are_refused_for_standard_output(
    tmp_path: Path, names: tuple[str, ...], capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    for name in names:
        content = FORMATS.get(f"pages{name[1:]}", (page(TEXTS[0]), None))[0]
        path = tmp_path / name if "." in name else tmp_path / name / "a.html"
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(content)
    command = ["dedup", *(str(tmp_path / name) for name in names), "--out", "-", "--jobs", "1"]
    assert main(command) == WRONG_USE
    out, err = capfdbinary.readouterr()
    assert not out
    assert b"name a folder with --out" in err


def test_archives_are_joined_on_standard_output(
    tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    paths = [tmp_path / name for name in ("a.warc.gz", "b.warc.gz")]
    for path in paths:
        path.write_bytes(FORMATS["pages.warc.gz"][0])
    assert main(["dedup", *map(str, paths), "--out", "-", "--jobs", "1"]) == 0
    both = tmp_path / "both.warc.gz"
    both.write_bytes(capfdbinary.readouterr().out)
    assert warc_ids(both)[: len(KEPT)] == KEPT


def test_a_folder_of_html_is_copied_without_its_duplicates(tmp_path: Path) -> None:
    site = tmp_path / "site"
    (site / "deep").mkdir(parents=True)
    for i, text in enumerate(TEXTS):
        (site / "deep" / f"{i}.html").write_bytes(page(text))
    assert run(tmp_path / "out", site) == 0
    names = sorted(p.name for p in (tmp_path / "out" / "kept").rglob("*.html"))
    assert names == [f"{i}.html" for i in KEPT]


def test_files_are_compared_with_each_other(tmp_path: Path) -> None:
    for name in ("a.jsonl", "b.csv"):
        (tmp_path / name).write_bytes(FORMATS[f"pages{Path(name).suffix}"][0])
    assert run(tmp_path / "out", tmp_path) == 0
    originals = [d["original"] for d in lines(tmp_path / "out" / "duplicates.jsonl")]
    assert len(originals) == 2 + len(TEXTS)
    assert {Path(o["file"]).name for o in originals} == {"a.jsonl"}


def test_two_records_of_one_url_are_two_pages(tmp_path: Path) -> None:
    twice = [{"id": i, "url": URL.format(0), "text": TEXTS[n]} for i, n in enumerate((0, 1, 0))]
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in twice))
    assert run(tmp_path / "out", tmp_path / "a.jsonl") == 0
    assert kept(tmp_path / "out", unpacked_lines) == [0, 1]


def test_what_cannot_be_compared_is_kept_and_counted(tmp_path: Path) -> None:
    odd: list[dict[str, Any]] = [
        {"id": 0, "url": URL.format(0)},
        {"id": 1, "url": URL.format(1), "text": 7},
        {"id": 2, "url": URL.format(2), "html": ""},
    ]
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in odd))
    assert run(tmp_path / "out", tmp_path / "a.jsonl") == 0
    assert kept(tmp_path / "out", unpacked_lines) == [0, 1, 2]
    summary = json.loads((tmp_path / "out" / "summary.json").read_text())
    assert summary["others"]["not_compared/without_text"] == 2


@pytest.mark.parametrize("url", [None, "", 7, "page.html", "http://"])
def test_a_record_whose_site_nobody_knows_is_kept_and_counted(tmp_path: Path, url: Any) -> None:
    same = [{"id": i, "url": url, "text": TEXTS[0]} for i in range(2)]
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in [*same, *rows()]))
    assert run(tmp_path / "out", tmp_path / "a.jsonl") == 0
    assert kept(tmp_path / "out", unpacked_lines) == [0, 1, *KEPT]
    summary = json.loads((tmp_path / "out" / "summary.json").read_text())
    assert summary["others"]["not_compared/without_url"] == 2


@pytest.mark.parametrize("name", ["link", "WARC-Target-URI", "URL", "metadata.url"])
@pytest.mark.parametrize("kind", ["jsonl", "csv", "parquet"])
def test_the_url_columns_of_common_tools_are_known(tmp_path: Path, name: str, kind: str) -> None:
    import pyarrow.parquet as pq

    table = [
        {"id": i, "text": row["text"], **nested(name, f"http://s{i}.example/")}
        for i, row in enumerate(rows())
    ]
    path = tmp_path / f"a.{kind}"
    if kind == "parquet":
        pq.write_table(pa.Table.from_pylist(table), path)
    elif kind == "jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in table))
    else:
        write_csv(
            path,
            [{name: f"http://s{i}.example/", "text": row["text"]} for i, row in enumerate(table)],
        )
    assert run(tmp_path / "out", path) == 0
    summary = json.loads((tmp_path / "out" / "summary.json").read_text())
    assert summary["kept"] == len(TEXTS), "each is on a site of its own"


def nested(path: str, value: Any) -> dict[str, Any]:
    first, _, rest = path.partition(".")
    return {first: nested(rest, value) if rest else value}


def write_csv(path: Path, table: list[dict[str, Any]], encoding: str = "utf-8") -> None:
    with path.open("w", encoding=encoding, newline="") as file:
        writer = csv.DictWriter(file, list(table[0]))
        writer.writeheader()
        writer.writerows(table)


@pytest.mark.parametrize("kind", ["jsonl", "csv"])
def test_a_byte_order_mark_is_no_part_of_a_name(tmp_path: Path, kind: str) -> None:
    path = tmp_path / f"a.{kind}"
    content = FORMATS[f"pages.{kind}"][0]
    path.write_bytes(b"\xef\xbb\xbf" + content.replace(b"id,url,text", b"url,id,text"))
    if kind == "csv":
        write_csv(path, [{"url": r["url"], "text": r["text"]} for r in rows()], "utf-8-sig")
    assert run(tmp_path / "out", path) == 0
    assert len(lines(tmp_path / "out" / "duplicates.jsonl")) == 2


def test_a_missing_column_is_an_error_that_names_those_that_are_there(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = [{"address": row["url"], "prose": row["text"], "n": {"m": 1}} for row in rows()]
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in table))
    command = ["dedup", str(tmp_path / "a.jsonl"), "--out", str(tmp_path / "out"), "--jobs", "1"]
    assert main(command) == WRONG_USE
    assert "no column holds text or HTML; its columns are: address, prose, n, n.m." in (
        capsys.readouterr().err
    )
    assert main([*command, "--text", "prose"]) == WRONG_USE
    assert "no column holds URLs; its columns are: address, prose" in capsys.readouterr().err
    assert main([*command, "--text", "prose", "--url", "adress"]) == WRONG_USE
    assert "has no column 'adress'" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
    assert main([*command, "--text", "prose", "--url", "address"]) == 0
    assert len(lines(tmp_path / "out" / "duplicates.jsonl")) == 2


def test_without_urls_all_records_are_of_one_site(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text(
        "".join(json.dumps({"id": i, "text": t}) + "\n" for i, t in enumerate(TEXTS))
    )
    command = ["dedup", str(tmp_path / "a.jsonl"), "--out", str(tmp_path / "out"), "--jobs", "1"]
    assert main([*command, "--no-url"]) == 0
    assert kept(tmp_path / "out", unpacked_lines) == KEPT


def test_two_runs_do_not_share_an_output(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a.jsonl").write_bytes(jsonl())
    out = tmp_path / "out"
    out.mkdir()
    lock = FolderLock(out)
    assert run(out, tmp_path / "a.jsonl") == WRONG_USE
    assert "--out" in capsys.readouterr().err
    lock.close()
    assert run(out, tmp_path / "a.jsonl") == 0
    assert kept(out, unpacked_lines) == KEPT


def test_damaged_lines_are_listed_and_passed_over(tmp_path: Path) -> None:
    content = b'{"torn": \n[1\n\xff\xfe\n{}{}\n\n' + jsonl()
    (tmp_path / "a.jsonl").write_bytes(content)
    assert run(tmp_path / "out", tmp_path / "a.jsonl") == 0
    assert kept(tmp_path / "out", unpacked_lines) == KEPT
    assert [d["record"] for d in lines(tmp_path / "out" / "damaged.jsonl")] == [0, 1, 2, 3]


WITH_UNREAD = {
    "other-cells.csv": b"url,text\nhttp://a/1,one\nhttp://a/2,two,2\nhttp://a/3\n",
    "no-objects.jsonl": b'{"url": "http://a/1", "text": "one"}\n[1, 2]\n"words"\n',
    "no-objects.json": b'[\n{"url": "http://a/1", "text": "one"},\n[1, 2],\nnull\n]\n',
    "nesting.jsonl": b'{"url": "http://a/1", "text": "one"}\n'
    + b'{"url": "http://a/2", "text": "two", "more": %s}\n' % (b"[" * 100_000 + b"]" * 100_000) * 2,
}


@pytest.mark.parametrize("name", WITH_UNREAD)
def test_a_record_that_is_none_but_has_an_end_is_kept_as_it_came(
    tmp_path: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / name).write_bytes(WITH_UNREAD[name])
    assert run(tmp_path / "out", tmp_path / name) == 0
    assert (tmp_path / "out" / "kept" / f"00000-{name}").read_bytes() == WITH_UNREAD[name]
    summary, told = json.loads(capsys.readouterr().out), lines(tmp_path / "out" / "damaged.jsonl")
    assert [(d["record"], d["kept"]) for d in told] == [(1, True), (2, True)]
    assert (summary["kept"], summary["damaged"]) == (3, 0)
    assert summary["others"]["not_compared/unread"] == 2


def test_a_row_whose_quote_nothing_ends_would_take_the_next_ones_along_and_is_left_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = b'url,text\nhttp://a/1,one\n"http://a/2,two\nhttp://a/3,three\n'
    (tmp_path / "a.csv").write_bytes(rows)
    assert run(tmp_path / "out", tmp_path / "a.csv") == 0
    (damage,) = lines(tmp_path / "out" / "damaged.jsonl")
    assert (damage["record"], damage["kept"]) == (1, False)
    assert "1 damaged: they are in kept/ only where" in capsys.readouterr().err


def test_an_object_over_several_lines_is_kept_whole_though_one_of_them_is_a_number(
    tmp_path: Path,
) -> None:
    content = json.dumps({"url": "http://a/1", "numbers": [5]}, indent=2).encode()
    (tmp_path / "a.jsonl").write_bytes(content)
    assert run(tmp_path / "out", tmp_path / "a.jsonl") == 0
    assert (tmp_path / "out" / "kept" / "00000-a.jsonl").read_bytes() == content


@pytest.mark.parametrize("name", ["pages.warc", "pages.warc.gz"])
def test_a_damaged_warc_record_costs_only_itself(tmp_path: Path, name: str) -> None:
    content, ids = FORMATS[name]
    (tmp_path / "whole").mkdir()
    (tmp_path / "whole" / name).write_bytes(content)
    whole = list(located(tmp_path / "whole" / name))
    begin, _ = whole[2]  # of page 1; 0 is the warcinfo
    damaged = bytearray(content)
    damaged[begin : begin + 60] = b"\0" * 60
    (tmp_path / name).write_bytes(damaged)
    assert run(tmp_path / "out", tmp_path / name) == 0
    assert kept(tmp_path / "out", ids) == [0, 2, 4, 5, 6]
    assert f"byte {begin:,}: " in lines(tmp_path / "out" / "damaged.jsonl")[0]["error"]


@pytest.mark.parametrize("at", [0.3, 0.6, 0.9])
def test_a_page_damaged_inside_its_gzip_member_is_not_taken_for_a_shorter_one(
    tmp_path: Path, at: float
) -> None:
    name = "pages.warc.gz"
    (tmp_path / name).write_bytes(FORMATS[name][0])
    begin, end = list(located(tmp_path / name))[2]
    damaged = bytearray(FORMATS[name][0])
    middle = begin + int((end - begin) * at)
    damaged[middle : middle + 8] = b"\0" * 8
    (tmp_path / name).write_bytes(damaged)
    assert run(tmp_path / "out", tmp_path / name) == 0
    assert kept(tmp_path / "out", warc_ids) == [0, 2, 4, 5, 6]
    assert [d["record"] for d in lines(tmp_path / "out" / "damaged.jsonl")] == [2]


@pytest.mark.parametrize("length", [0, 10, 10**6, 10**17])
def test_a_wrong_content_length_costs_only_its_record(tmp_path: Path, length: int) -> None:
    content, ids = FORMATS["pages.warc"]
    parts = content.split(b"Content-Length: ")
    digits = parts[3].split(b"\r\n", 1)[0]  # of page 1; the first is the warcinfo's
    parts[3] = str(length).encode() + parts[3][len(digits) :]
    (tmp_path / "a.warc").write_bytes(b"Content-Length: ".join(parts))
    assert run(tmp_path / "out", tmp_path / "a.warc") == 0
    assert kept(tmp_path / "out", ids) == [0, 2, 4, 5, 6]
    assert len(lines(tmp_path / "out" / "damaged.jsonl")) == 1


def test_a_warc_packed_as_a_whole_is_damage_that_names_the_remedy(tmp_path: Path) -> None:
    (tmp_path / "a.warc.gz").write_bytes(gzip.compress(FORMATS["pages.warc"][0]))
    assert run(tmp_path / "out", tmp_path / "a.warc.gz") == 0
    (damage,) = lines(tmp_path / "out" / "damaged.jsonl")
    assert "warcio recompress" in damage["error"]


@pytest.mark.parametrize("name", ["a.warc.gz", "a.jsonl", "a.json", "a.parquet", "a.csv.gz"])
def test_a_file_of_which_nothing_can_be_read_is_kept_as_it_came(tmp_path: Path, name: str) -> None:
    unreadable = {
        "a.warc.gz": gzip.compress(FORMATS["pages.warc"][0]),  # as a whole
        "a.json": b'{"url": "http://a/", "text": "a"}{"url": "http://b/", "text": "b"}',
    }
    content = unreadable.get(name, b"no file of this format\r")
    (tmp_path / name).write_bytes(content)
    (tmp_path / "b.jsonl").write_bytes(jsonl())
    assert run(tmp_path / "out", tmp_path / name, tmp_path / "b.jsonl") == 0
    assert (tmp_path / "out" / "kept" / f"00000-{name}").read_bytes() == content
    summary = json.loads((tmp_path / "out" / "summary.json").read_text())
    assert summary["others"]["files_kept_whole"] == 1


def test_what_is_kept_whole_is_counted_over_a_kill(tmp_path: Path) -> None:
    for name in ("a.jsonl", "b.jsonl", "c.jsonl"):
        (tmp_path / name).write_bytes(b"no file of this format" if name == "a.jsonl" else jsonl())
    (tmp_path / "killed.py").write_text(STOPPED_BY.format("SIGKILL"))
    command = ["dedup", str(tmp_path), "--out", str(tmp_path / "out"), "--jobs", "1"]
    killed_at = 6  # three chunks are decided, two written
    arguments = [sys.executable, str(tmp_path / "killed.py"), str(killed_at), *command]
    assert subprocess.run(arguments, check=False).returncode == -signal.SIGKILL
    assert run(tmp_path / "out", tmp_path) == 0
    summary = json.loads((tmp_path / "out" / "summary.json").read_text())
    assert summary["others"]["files_kept_whole"] == 1


def test_an_archive_in_a_wacz_that_cannot_be_read_is_kept_without_the_rest(tmp_path: Path) -> None:
    content = gzip.compress(FORMATS["pages.warc"][0])
    with zipfile.ZipFile(tmp_path / "a.wacz", "w", zipfile.ZIP_STORED) as archive:
        archive.writestr("archive/a.warc.gz", content)
    assert run(tmp_path / "out", tmp_path / "a.wacz") == 0
    (kept_file,) = (tmp_path / "out" / "kept").iterdir()
    assert kept_file.read_bytes() == content


@pytest.mark.parametrize("name", ["pages.warc", "pages.warc.gz", "pages.warc.zst"])
def test_a_record_too_long_to_look_at_is_kept_whole(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(FORMATS[name][0])
    limits = InputLimits(record_bytes=500)
    (source,) = find_inputs([tmp_path / name])
    found = list(records(source, Fields(), limits))
    assert [r.body for r in found if isinstance(r, Page)].count(None) >= len(TEXTS)
    (tmp_path / "out").mkdir()
    places = list(located(tmp_path / name, limits))
    assert [begin for begin, _ in places[1:]] == [end for _, end in places[:-1]]
    assert (places[0][0], places[-1][1]) == (0, len(FORMATS[name][0]))


def test_a_body_whose_encoding_cannot_be_undone_is_kept(tmp_path: Path) -> None:
    http = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Encoding: nonsense\r\n\r\n"
    (tmp_path / "a.warc").write_bytes(warc_record("response", URL.format(0), http + b"\0" * 99))
    assert list(located(tmp_path / "a.warc")) == [(0, (tmp_path / "a.warc").stat().st_size)]
    assert [type(record) for record in read(tmp_path / "a.warc")] == [Page]


@pytest.mark.parametrize("name", FORMATS)
def test_a_file_torn_anywhere_gives_what_came_before_and_never_raises(
    tmp_path: Path, name: str
) -> None:
    content = FORMATS[name][0]
    for cut in range(0, len(content), max(1, len(content) // 40)):
        (tmp_path / name).write_bytes(content[:cut])
        assert all(isinstance(r, (Page, DamagedRecord)) for r in read(tmp_path / name))


def read(path: Path) -> Iterator[Page | DamagedRecord]:
    (source,) = find_inputs([path])
    yield from records(source, Fields())


def located(path: Path, limits: InputLimits | None = None) -> Iterator[tuple[int, int]]:
    """Where the whole records of a WARC file are."""
    (source,) = find_inputs([path])
    warc_format = Warc(source, Columns(None, (), ()), limits or InputLimits())
    for chunk in warc_format.chunks():
        yield from (frame.raw for frame in warc_format.frames(chunk) if frame.raw)


# A program that sends itself a signal at the n-th chunk that is decided or written.
STOPPED_BY = """
import os, signal, sys
from scrapy_neardup.commands import main
from scrapy_neardup.offline.dedup import deciding, record, writing
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job ignores it
left = int(sys.argv[1])
def counted(what):
    def call(*args):
        global left
        left -= 1
        if not left: os.kill(os.getpid(), signal.{})
        return what(*args)
    return call
deciding.Decider.decide = counted(deciding.Decider.decide)
writing.Writer._add = counted(writing.Writer._add)
writing.CHECKPOINT_S = 0
if __name__ == '__main__': sys.exit(main(sys.argv[2:]))
"""


def test_ctrl_c_says_how_to_go_on(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(jsonl())
    (tmp_path / "stopped.py").write_text(STOPPED_BY.format("SIGINT"))
    command = ["dedup", str(tmp_path / "a.jsonl"), "--out", str(tmp_path / "out"), "--jobs", "1"]
    done = subprocess.run(
        [sys.executable, str(tmp_path / "stopped.py"), "1", *command],
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.returncode == INTERRUPTED, done.stderr
    assert done.stderr.splitlines() == [
        "scrapy neardup: stopped; run the same command to resume",
        "scrapy neardup: interrupted",
    ]
    assert run(tmp_path / "out", tmp_path / "a.jsonl") == 0
    assert kept(tmp_path / "out", unpacked_lines) == KEPT


# Says whether the process that workers are forked from ignores Ctrl-C as soon as it is there.
IGNORING = """
import signal
from multiprocessing import forkserver
from pathlib import Path
from scrapy_neardup.commands.dedup import start_fork_server
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job ignores it
start_fork_server()
status = Path(f"/proc/{forkserver._forkserver._forkserver_pid}/status").read_text()
ignored = int(status.partition("SigIgn:")[2].split()[0], 16)
assert ignored >> (signal.SIGINT - 1) & 1, "Ctrl-C would print a traceback"
assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
"""


@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
def test_ctrl_c_while_workers_import_prints_no_traceback() -> None:
    done = subprocess.run([sys.executable, "-c", IGNORING], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("name", ["pages.jsonl", "pages.warc.gz", "pages.parquet"])
def test_a_run_that_is_killed_goes_on_and_ends_as_if_it_had_not_been(
    tmp_path: Path, name: str
) -> None:
    content, ids = FORMATS[name]
    (tmp_path / name).write_bytes(content)
    (tmp_path / "killed.py").write_text(STOPPED_BY.format("SIGKILL"))
    out = tmp_path / "out"
    command = ["dedup", str(tmp_path / name), "--out", str(out), "--jobs", "1"]
    for parts_until_killed in (1, 2):
        done = subprocess.run(
            [sys.executable, str(tmp_path / "killed.py"), str(parts_until_killed), *command],
            check=False,
            capture_output=True,
        )
        assert done.returncode == -signal.SIGKILL, done.stderr
    assert run(out, tmp_path / name) == 0
    assert kept(out, ids) == KEPT
    assert [d["kind"] for d in lines(out / "duplicates.jsonl")] == ["exact", "near"]
    summary = json.loads((out / "summary.json").read_text())
    assert summary["records"] == len(TEXTS) + (name == "pages.warc.gz")


def test_a_page_that_ends_its_worker_is_kept_and_costs_no_other(tmp_path: Path) -> None:
    texts = [*TEXTS[:3], "a fatal page", *TEXTS[3:]]
    pages = [{"id": i, "url": URL.format(i), "text": text} for i, text in enumerate(texts)]
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in pages))
    settings = NearDupSettings(key=1, engine="fatal_engine.FatalEngine")
    job = DedupJob(
        find_inputs([tmp_path / "a.jsonl"]), tmp_path / "out", settings, Fields(), jobs=1
    )
    summary = dedup(job)
    assert kept(tmp_path / "out", unpacked_lines) == [0, 1, 2, 3, 5, 7]
    assert summary["others"]["not_compared/failed"] == 1


def test_records_whose_worker_ends_while_it_sends_them_are_kept(tmp_path: Path) -> None:
    long = [f"{prose(n)} {'z' * CHUNK_BYTES}" for n in (7, 8)]  # the second is a chunk of its own
    texts = ["a fatal page", *TEXTS, *long]
    pages = [{"id": i, "url": URL.format(i), "text": text} for i, text in enumerate(texts)]
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in pages))
    settings = NearDupSettings(key=1, engine="fatal_engine.FatalToSend")
    inputs = find_inputs([tmp_path / "a.jsonl"])
    summary = dedup(DedupJob(inputs, tmp_path / "out", settings, Fields(), jobs=1))
    assert kept(tmp_path / "out", unpacked_lines) == list(range(len(texts)))
    assert (summary["records"], summary["kept"]) == (len(texts), len(texts))
    assert summary["others"]["not_compared/failed"] == len(texts) - 1


def test_processes_that_are_killed_from_outside_cost_no_record(tmp_path: Path) -> None:
    """As the system does when memory is short: the reader of the file is one of them."""
    texts = (" ".join(f"word{n * k}" for k in range(30)) for n in range(1, 12_001))
    lines = (json.dumps({"id": n, "url": URL.format(n), "text": t}) for n, t in enumerate(texts))
    (tmp_path / "a.jsonl").write_text("".join(line + "\n" for line in lines))
    assert (tmp_path / "a.jsonl").stat().st_size > CHUNK_BYTES
    before = set(multiprocessing.active_children())
    killed: list[Any] = []

    def kill_all(n_bytes: int, counts: Any) -> None:
        if not killed:
            killed.extend(set(multiprocessing.active_children()) - before)
            for process in killed:
                process.kill()
                process.join()

    settings = NearDupSettings(key=1)
    inputs = find_inputs([tmp_path / "a.jsonl"])
    summary = dedup(DedupJob(inputs, tmp_path / "out", settings, Fields(), jobs=1), kill_all)
    assert len(killed) == 2
    assert (summary["records"], summary["kept"], summary["damaged"]) == (12_000, 12_000, 0)
    assert kept(tmp_path / "out", unpacked_lines) == list(range(12_000))


HALF_A_MESSAGE = struct.pack("!i", 100) + b"of a hundred bytes"


@pytest.mark.parametrize("is_cut_off", [False, True])
def test_a_worker_ends_in_silence_when_the_main_process_is_killed(
    tmp_path: Path, is_cut_off: bool
) -> None:
    """As it reads for it, or is being asked."""
    (tmp_path / "a.jsonl").write_bytes(jsonl())
    work = Work(NearDupSettings(), 1, find_inputs([tmp_path / "a.jsonl"]), InputLimits(), "")
    ours, theirs = Pipe()
    ours.send(("columns", (0, Fields())))
    if is_cut_off:
        os.write(ours.fileno(), HALF_A_MESSAGE)
    ours.close()
    before = signal.getsignal(signal.SIGINT)
    try:
        serve(theirs, work, RawValue("q", -1))
    finally:
        signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize("stage", ["reading", "done"])
def test_a_run_does_not_go_on_under_other_settings(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], stage: str
) -> None:
    (tmp_path / "a.jsonl").write_bytes(jsonl())
    with pytest.MonkeyPatch.context() as patch:
        if stage == "reading":
            patch.setattr(DedupRun, "_write", lambda *_: 1 / 0)
        with suppress(ZeroDivisionError):
            run(tmp_path / "out", tmp_path / "a.jsonl")
    other = Settings({"NEARDUP_KEY": 5, "NEARDUP_SIMILARITY": 0.999})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("scrapy.utils.project.get_project_settings", lambda: other)
        assert run(tmp_path / "out", tmp_path / "a.jsonl") == WRONG_USE
    said = capsys.readouterr().err
    assert "a run with NEARDUP_SIMILARITY=0.88, not 0.999; go on" in said
    assert run(tmp_path / "out", tmp_path / "a.jsonl") == 0


@pytest.mark.parametrize("option", ["--against", "--out"])
def test_other_settings_than_a_folder_s_are_told_with_the_option_that_names_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], option: str
) -> None:
    (tmp_path / "a.jsonl").write_bytes(jsonl())
    command = ["dedup", str(tmp_path / "a.jsonl"), "--jobs", "1", "--out"]
    with pytest.MonkeyPatch.context() as patch, suppress(ZeroDivisionError):
        if option == "--out":
            patch.setattr(DedupRun, "_write", lambda *_: 1 / 0)
        assert main([*command, str(tmp_path / "first")]) == 0
    other = Settings({"NEARDUP_KEY": 5, "NEARDUP_URL_FOLD_CASE": True})
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("scrapy.utils.project.get_project_settings", lambda: other)
        folder = "first" if option == "--out" else "second"
        against = ["--against", str(tmp_path / "first")] if option == "--against" else []
        assert main([*command, str(tmp_path / folder), *against]) == WRONG_USE
    said = capsys.readouterr().err
    assert "url.fold_case is 'False' there and 'True' here. Restore the settings" in said
    assert f"folder with {option}\n" in said
    assert "NEARDUP_STATE_DIR" not in said


def test_a_run_of_a_release_that_noted_no_settings_goes_on(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(jsonl())
    assert run(tmp_path / "out", tmp_path / "a.jsonl") == 0
    progress = tmp_path / "out" / "progress.json"
    told = json.loads(progress.read_text())
    told["options"] = {k: v for k, v in told["options"].items() if not k.startswith("NEARDUP_")}
    progress.write_text(json.dumps(told))
    assert run(tmp_path / "out", tmp_path / "a.jsonl") == 0


@pytest.mark.parametrize("content", [None, "{torn"])
def test_a_run_whose_summary_is_lost_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], content: str | None
) -> None:
    (tmp_path / "a.jsonl").write_bytes(jsonl())
    assert run(tmp_path / "out", tmp_path / "a.jsonl") == 0
    summary = tmp_path / "out" / "summary.json"
    summary.unlink() if content is None else summary.write_text(content)
    assert run(tmp_path / "out", tmp_path / "a.jsonl") == WRONG_USE
    said = capsys.readouterr().err
    assert f"{summary}: cannot be read" in said
    assert "name a new folder with --out" in said
    assert "run the same command" not in said


def test_a_run_that_is_done_is_not_done_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a.jsonl").write_bytes(jsonl())
    assert run(tmp_path / "out", tmp_path / "a.jsonl") == 0
    assert "already done" not in capsys.readouterr().err
    before = {p: p.stat().st_mtime_ns for p in (tmp_path / "out" / "kept").iterdir()}
    assert run(tmp_path / "out", tmp_path / "a.jsonl") == 0
    assert {p: p.stat().st_mtime_ns for p in (tmp_path / "out" / "kept").iterdir()} == before
    assert "already done" in capsys.readouterr().err


def test_files_of_other_formats_in_a_folder_are_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "a.jsonl").write_bytes(jsonl())
    (folder / "a.html").write_bytes(page("a page"))
    assert run(tmp_path / "out", folder) == 0
    assert "left out" not in capsys.readouterr().err
    (folder / "b.arc.gz").write_bytes(b"")
    (folder / "notes.txt").write_bytes(b"")
    assert run(tmp_path / "again", folder) == 0
    told = capsys.readouterr().err
    assert f"2 files of other formats are left out, such as {folder / 'b.arc.gz'}" in told


def test_a_file_of_html_is_refused_with_the_folder_to_name(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a.html").write_bytes(page("a page"))
    assert run(tmp_path / "out", tmp_path / "a.html") == WRONG_USE
    assert f"name its folder, {tmp_path}" in capsys.readouterr().err


def test_what_in_a_folder_is_no_file_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A link may lead back to where it is, so none is followed."""
    folder, elsewhere = tmp_path / "in", tmp_path / "elsewhere"
    for path in (folder, elsewhere):
        path.mkdir()
        (path / "a.jsonl").write_bytes(jsonl())
    (folder / "same.jsonl").symlink_to(folder / "a.jsonl")
    assert run(tmp_path / "out", folder) == 0
    assert "left out" not in capsys.readouterr().err
    assert json.loads((tmp_path / "out" / "summary.json").read_text())["inputs"] == 2
    (folder / "day").symlink_to(elsewhere)
    (folder / "gone.jsonl").symlink_to(tmp_path / "gone.jsonl")
    os.mkfifo(folder / "pipe.html")
    assert run(tmp_path / "again", folder) == 0
    said = "3 links to folders or to nothing, or special files, are left out, such as "
    assert f"{said}{folder / 'day'}" in capsys.readouterr().err
    assert json.loads((tmp_path / "again" / "summary.json").read_text())["inputs"] == 2


def test_a_folder_that_cannot_be_read_is_no_empty_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.jsonl").write_bytes(jsonl())
    closed = tmp_path / "closed"
    closed.mkdir()
    listed = os.scandir

    def scandir(path: Any) -> Any:
        if Path(path) == closed:  # a mode would not keep root out
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return listed(path)

    monkeypatch.setattr(os, "scandir", scandir)
    with pytest.raises(InputError, match=f"^{closed}: Permission denied; make it readable"):
        find_inputs([tmp_path])


def test_a_partitioned_table_keeps_its_folders(tmp_path: Path) -> None:
    """Two files of one name, in folders that say what no column does."""
    for site in "ab":
        folder = tmp_path / "in" / f"site={site}.example" / "day=1"
        folder.mkdir(parents=True)
        host = f"{site}.example".encode()
        (folder / "part-0.jsonl").write_bytes(jsonl().replace(b"a.example", host))
    out = tmp_path / "out"
    assert run(out, tmp_path / "in") == 0
    parts = (out / "kept").rglob("*.jsonl")
    found = {p.relative_to(out / "kept").as_posix(): unpacked_lines(p) for p in parts}
    assert found == {
        f"site={site}.example/day=1/0000{number}-part-0.jsonl": KEPT
        for number, site in enumerate("ab")
    }


@pytest.mark.parametrize("content", ["", "\n", "[]", "\ufeff"])
def test_a_json_file_without_records_is_no_damage(tmp_path: Path, content: str) -> None:
    (tmp_path / "a.json").write_text(content, "utf-8")
    assert run(tmp_path / "out", tmp_path / "a.json") == 0
    summary = json.loads((tmp_path / "out" / "summary.json").read_text())
    assert (summary["records"], summary["damaged"]) == (0, 0)


def test_a_file_that_is_no_json_array_is_damage_once(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text("no array")
    assert run(tmp_path / "out", tmp_path / "a.json") == 0
    assert len(lines(tmp_path / "out" / "damaged.jsonl")) == 1


@pytest.mark.parametrize("name", [".DS_Store", "Thumbs.db", "00000x", "-1"])
def test_a_run_goes_on_beside_files_that_are_not_its_own(tmp_path: Path, name: str) -> None:
    out, source = tmp_path / "out", tmp_path / "a.jsonl"
    source.write_bytes(jsonl())

    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Writer, "_add", full)
        assert run(out, source) == WRONG_USE
    (out / "kept" / name).write_text("of a file manager")
    assert run(out, source) == 0
    assert (out / "kept" / "00000-a.jsonl").stat().st_size
    assert (out / "kept" / name).read_text() == "of a file manager"


@pytest.mark.parametrize("name", ["pages.jsonl", "pages.html"])
def test_an_output_folder_inside_the_input_is_no_input(
    tmp_path: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / name).write_bytes(jsonl())
    assert run(tmp_path / "out", tmp_path) == 0
    assert not capsys.readouterr().err
    before = (tmp_path / "out" / "summary.json").read_bytes()
    assert run(tmp_path / "out", tmp_path) == 0
    assert (tmp_path / "out" / "summary.json").read_bytes() == before
    assert "already done" in capsys.readouterr().err
    assert run(tmp_path / "other", tmp_path / "out", tmp_path / name) == 2  # named, it is one


@pytest.mark.parametrize("option", ["--clusters", "--report"])
@pytest.mark.parametrize("name", ["pages.csv", "link.csv", "folder/page.html", "passages.csv"])
def test_no_input_is_written_over(
    tmp_path: Path, option: str, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    pages, folder, passages = tmp_path / "pages.csv", tmp_path / "folder", tmp_path / "passages.csv"
    folder.mkdir()
    (tmp_path / "link.csv").symlink_to(pages)
    for path in (pages, passages, folder / "page.html"):
        path.write_bytes(as_csv())
    given = [pages, folder, "--contains-any", passages]
    if option == "--report" or name != "folder/page.html":  # a table is no .html
        command = ["dedup", *map(str, given), "--out", str(tmp_path / "out")]
        assert main([*command, option, str(tmp_path / name)]) == 2
        assert "would be written over" in capsys.readouterr().err
    assert {path.read_bytes() for path in (pages, passages, folder / "page.html")} == {as_csv()}
    assert not (tmp_path / "out").exists()


def test_outputs_that_cannot_be_are_refused_before_anything_is_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a.jsonl").write_bytes(jsonl())
    assert run(tmp_path, tmp_path) == 2
    assert f"{tmp_path}: is an input" in capsys.readouterr().err
    command = ["dedup", str(tmp_path), "--out", str(tmp_path / "out")]
    assert main([*command, "--clusters", str(tmp_path / "none" / "a.csv")]) == 2
    assert f"there is no folder {tmp_path / 'none'}" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["a.jsonl"]


def test_a_name_with_no_room_for_a_number_is_shortened(tmp_path: Path) -> None:
    name = f"{'ä' * 118}{'b' * 7}.jsonl.gz"
    assert len(os.fsencode(name)) > 250
    (tmp_path / name).write_bytes(gzip.compress(jsonl()))
    assert run(tmp_path / "out", tmp_path / name) == 0
    assert kept(tmp_path / "out", unpacked_lines) == KEPT
    (path,) = (tmp_path / "out" / "kept").iterdir()
    assert path.name.startswith("00000-ää")
    assert path.name.endswith("bbb.jsonl.gz")


def test_progress_is_not_noted_for_each_of_many_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    n_notes: list[int] = []
    note = Progress.save
    monkeypatch.setattr(writing, "CHECKPOINT_S", 1e9)
    monkeypatch.setattr(Progress, "save", lambda *args: n_notes.append(1) or note(*args))
    for number, row in enumerate(rows()):
        (tmp_path / f"{number}.jsonl").write_bytes(json.dumps(row).encode() + b"\n")
    assert run(tmp_path / "out", tmp_path) == 0
    assert kept(tmp_path / "out", unpacked_lines) == KEPT
    assert len(n_notes) < 8


def test_a_file_is_no_output_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.jsonl").write_bytes(jsonl())
    (tmp_path / "out").write_bytes(b"of somebody")
    assert run(tmp_path / "out", tmp_path / "a.jsonl") == WRONG_USE
    assert "out: is no folder" in capsys.readouterr().err
    assert (tmp_path / "out").read_bytes() == b"of somebody"


def test_a_folder_of_something_else_is_not_touched(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a.jsonl").write_bytes(jsonl())
    (tmp_path / "b.jsonl").write_bytes(jsonl())
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "letter.txt").write_text("dear")
    assert run(tmp_path / "mine", tmp_path / "a.jsonl") == WRONG_USE
    assert "--out" in capsys.readouterr().err
    assert run(tmp_path / "out", tmp_path / "a.jsonl") == 0
    assert run(tmp_path / "out", tmp_path / "b.jsonl") == WRONG_USE
    assert [p.name for p in (tmp_path / "mine").iterdir()] == ["letter.txt"]


@pytest.mark.parametrize("name", ["a.docx", ""])
def test_inputs_of_no_known_format_are_refused_by_name(
    tmp_path: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a.docx").write_text("")
    assert run(tmp_path / "out", tmp_path / name) == WRONG_USE
    assert ".parquet" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("name", ["", "out"])
def test_what_an_earlier_run_wrote_is_refused_as_an_input(
    tmp_path: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.jsonl").write_bytes(jsonl())
    assert run(tmp_path / "in" / "out", tmp_path / "in") == 0
    capsys.readouterr()
    assert run(tmp_path / "again", tmp_path / "in" / name) == WRONG_USE
    kept = tmp_path / "in" / "out" / "kept"
    said = capsys.readouterr().err
    assert f"{kept.parent}: is what an earlier run of dedup wrote; name the inputs" in said
    assert f"or {kept} for" in said
    assert run(tmp_path / "again", kept) == 0


TEASER = "Subscribe to our newsletter and get the latest stories every morning before breakfast"


@pytest.mark.parametrize("kind", ["jsonl", "csv", "parquet"])
def test_an_equal_teaser_beside_other_html_makes_no_copy(tmp_path: Path, kind: str) -> None:
    import pyarrow.parquet as pq

    made = [
        {"url": URL.format(i), "text": TEASER, "body": f"<p>{text}</p>"}
        for i, text in enumerate(TEXTS)
    ]
    path = tmp_path / f"a.{kind}"
    if kind == "csv":
        write_csv(path, made)
    elif kind == "parquet":
        pq.write_table(pa.Table.from_pylist(made), path)
    else:
        path.write_text("".join(json.dumps(row) + "\n" for row in made))
    assert run(tmp_path / "out", path) == 0
    duplicates = lines(tmp_path / "out" / "duplicates.jsonl")
    assert [(one["record"], one["original"]["record"]) for one in duplicates] == [(3, 0), (5, 1)]


@pytest.mark.parametrize("n_words", [20, LONG_TEXT - 1])
def test_an_equal_notice_that_stands_in_the_html_of_articles_makes_no_copy(
    tmp_path: Path, n_words: int
) -> None:
    notice = prose("notice", n_words)
    articles = [prose(n, n_words // 2) for n in (0, 1, 2, 0)]
    htmls = [f"<div>{notice}</div><article>{article}</article>" for article in articles]
    made = [{"url": URL.format(n), "text": notice, "html": html} for n, html in enumerate(htmls)]
    path = tmp_path / "a.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in made))
    assert run(tmp_path / "out", path) == 0
    (duplicate,) = lines(tmp_path / "out" / "duplicates.jsonl")
    assert (duplicate["record"], duplicate["original"]["record"]) == (3, 0)


@pytest.mark.parametrize("link", ["{}", "<a href='/x'>{}</a>", "<b>{}</b>&nbsp;"])
def test_html_from_which_the_text_was_taken_has_no_say(tmp_path: Path, link: str) -> None:
    """Neither where its lines stand in it, nor where tags stand between its words."""
    text = prose(0)
    words = " ".join(link.format(word) if n % 3 else word for n, word in enumerate(text.split()))
    htmls = [page(prose(n, n_words=600)).replace(b"<p>", f"<p>{words}".encode()) for n in (1, 2)]
    made = [{"url": URL.format(n), "text": text, "html": h.decode()} for n, h in enumerate(htmls)]
    assert words in made[0]["html"]
    path = tmp_path / "a.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in made))
    assert run(tmp_path / "out", path) == 0
    (duplicate,) = lines(tmp_path / "out" / "duplicates.jsonl")
    assert duplicate["kind"] == "exact"
