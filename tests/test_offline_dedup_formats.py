"""What is kept leaves byte for byte as it came, in every format and compression."""

import bz2
import csv
import gzip
import io
import json
import lzma
import string
import zipfile
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from test_offline_dedup import warc_record

from scrapy_neardup.errors import InputError
from scrapy_neardup.offline.dedup.columns import Columns, Fields, value_at
from scrapy_neardup.offline.dedup.formats import columns_of, csv_rows, format_of, records
from scrapy_neardup.offline.dedup.formats.json_array import ROOM
from scrapy_neardup.offline.dedup.formats.rows import distinct, texts_in
from scrapy_neardup.offline.dedup.inputs import find_inputs
from scrapy_neardup.offline.dedup.record import MIB, DamagedRecord, InputLimits, Page
from scrapy_neardup.offline.dedup.said import text_of

zstandard = pytest.importorskip("zstandard", reason="the extra [dedup] is not installed")
pa = pytest.importorskip("pyarrow", reason="the extra [dedup] is not installed")

LIMITS = InputLimits(record_bytes=3_000)
PACKED: dict[str, tuple[Callable[[bytes], bytes], Callable[[bytes], bytes]]] = {
    "": (bytes, bytes),
    ".gz": (gzip.compress, gzip.decompress),
    ".bz2": (bz2.compress, bz2.decompress),
    ".xz": (lzma.compress, lzma.decompress),
    ".zst": (
        zstandard.compress,
        lambda data: (
            zstandard.ZstdDecompressor()
            .stream_reader(io.BytesIO(data), read_across_frames=True)
            .read()
        ),
    ),
}
each_packing = pytest.mark.parametrize("packing", PACKED)
many = settings(
    max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None
)
names = count()


def in_members(content: bytes, packing: str) -> bytes:
    """Compressed in two members, as files that were joined are."""
    pack = PACKED[packing][0]
    middle = len(content) // 2
    return pack(content[:middle]) + pack(content[middle:]) if packing else content


def rewritten(
    path: Path, choose: Callable[[int], bool], limits: InputLimits = LIMITS
) -> tuple[bytes, list[Page | DamagedRecord]]:
    """A file as it is written with the chosen records, unpacked, and all of its records."""
    (source,) = find_inputs([path])
    form = format_of(source, columns_of(source, Fields(has_url=False), limits), limits)
    written, n_records, is_first = b"", 0, True
    found: list[Page | DamagedRecord] = []
    for chunk in form.chunks():
        frames = [frame for frame in form.frames(chunk) if not frame.filler]
        pages = [DamagedRecord(f.damage) if f.damage else form.page(f, chunk) for f in frames]
        kept = [choose(n_records + i) and isinstance(page, Page) for i, page in enumerate(pages)]
        piece = form.write(chunk, kept, is_first, path)
        assert isinstance(piece, bytes)
        written += piece
        found += pages
        n_records += len(frames)
        is_first = is_first and not any(kept)
    unpack = PACKED[path.suffix if path.suffix in PACKED else ""][1]
    return unpack(written) if written else b"", found


def file_of(folder: Path, kind: str, packing: str, content: bytes) -> Path:
    path = folder / f"{next(names)}.{kind}{packing}"
    path.write_bytes(in_members(content, packing))
    return path


line_bodies = st.one_of(
    st.binary(max_size=30).map(lambda raw: raw.replace(b"\n", b" ")),
    st.text(max_size=30).map(lambda t: json.dumps({"text": t}).encode()),
    st.text(max_size=9).map(
        lambda t: json.dumps({"text": t}, ensure_ascii=False).encode("utf-8", "surrogatepass")
    ),
    st.binary(max_size=9).map(lambda raw: b'{"text": "' + raw.translate(None, b'\n"\\') + b'"}'),
    st.integers(2_900, 3_100).map(lambda n: b'{"text": "' + b"x" * n + b'"}'),
)


@each_packing
@many
@given(
    parts=st.lists(st.tuples(line_bodies, st.sampled_from([b"\n", b"\r\n", b"\n\n", b" \n"]))),
    last=line_bodies,
    bom=st.booleans(),
    dropped=st.sets(st.integers(0, 9)),
)
def test_lines_of_json_are_kept_byte_for_byte(
    tmp_path: Path,
    packing: str,
    parts: list[tuple[bytes, bytes]],
    last: bytes,
    bom: bool,
    dropped: set[int],
) -> None:
    first = b'{"text": "first"}\n'
    raw = [b"\xef\xbb\xbf" * bom + first, *(body + end for body, end in parts), last]
    lines = io.BytesIO(b"".join(raw)).readlines()
    path = file_of(tmp_path, "jsonl", packing, b"".join(raw))
    written, found = rewritten(path, lambda i: i not in dropped)
    expected, number = b"", 0
    for line in lines:
        if not line.strip():
            expected += line
            continue
        if isinstance(found[number], Page) and number not in dropped:
            expected += line
        number += 1
    assert number == len(found)
    assert written == expected


cells = st.text(st.sampled_from(string.ascii_letters + ' ,;"\n\r\t\u00e9\u4e00'), max_size=12)


@each_packing
@many
@given(
    table=st.lists(st.tuples(cells, cells), max_size=8),
    line_end=st.sampled_from(["\n", "\r\n"]),
    quoting=st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL]),
    bom=st.booleans(),
    noise=st.binary(max_size=3).map(lambda raw: raw.translate(None, b'\r\n",')),
    dropped=st.sets(st.integers(0, 7)),
)
def test_rows_of_csv_are_kept_byte_for_byte(
    tmp_path: Path,
    packing: str,
    table: list[tuple[str, str]],
    line_end: str,
    quoting: Any,
    bom: bool,
    noise: bytes,
    dropped: set[int],
) -> None:
    raws = []
    if quoting == csv.QUOTE_MINIMAL:  # Python up to 3.12 leaves a lone \r without quotes
        table = [(a.replace("\r", ""), b.replace("\r", "")) for a, b in table]
    for row in [("text", "id"), *table]:
        text = io.StringIO(newline="")
        csv.writer(text, lineterminator=line_end, quoting=quoting).writerow(row)
        raws.append(text.getvalue().encode())
    header, raws = b"\xef\xbb\xbf" * bom + raws[0], [noise + raw for raw in raws[1:]]
    if noise.strip():  # else a quote may follow a space, and is no quote then
        raws = [raw for raw in raws if b'"' not in raw and raw.count(line_end.encode()) == 1]
    else:
        raws = [raw.removeprefix(noise) for raw in raws]
    path = file_of(tmp_path, "csv", packing, header + b"".join(raws))
    written, found = rewritten(path, lambda i: i not in dropped)
    assert [type(page) for page in found] == [Page] * len(raws)
    assert written == header + b"".join(r for i, r in enumerate(raws) if i not in dropped)


def test_reading_csv_leaves_the_csv_module_of_the_process_as_it_was(tmp_path: Path) -> None:
    limit = csv.field_size_limit()
    content = b'text,id\n"' + b"x" * 2 * limit + b'",1\n'
    (source,) = find_inputs([file_of(tmp_path, "csv", "", content)])
    for limits in (LIMITS, InputLimits()):
        form = format_of(source, columns_of(source, Fields(has_url=False), limits), limits)
        found = [form.page(f, c) for c in form.chunks() for f in form.frames(c) if not f.filler]
    assert csv.field_size_limit() == limit
    assert [len(page.text or "") for page in found if isinstance(page, Page)] == [2 * limit]


@many
@given(st.text(st.sampled_from('ab",;|\t\0 \n\r'), max_size=20), st.sampled_from(",;\t|"))
def test_cells_are_those_that_the_csv_module_finds(text: str, delimiter: str) -> None:
    rows = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)
    lines = io.StringIO(text, newline="").readlines()
    at = 0
    for row in rows:
        raw = "".join(lines[at : rows.line_num])
        at = rows.line_num
        if csv_rows.WHOLE[delimiter].fullmatch(raw):
            assert csv_rows.cells_of(raw, delimiter) == row


values = st.recursive(
    st.one_of(st.none(), st.booleans(), st.floats(allow_nan=False), st.text(max_size=9)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=4), inner, max_size=3)
    ),
    max_leaves=6,
)


@each_packing
@many
@given(
    elements=st.lists(st.dictionaries(st.text(max_size=4), values, max_size=3), max_size=8),
    between=st.sampled_from([b",\n", b",", b" , ", b"\r\n,\t"]),
    opening=st.sampled_from([b"[", b"[\n", b"\xef\xbb\xbf [ "]),
    closing=st.sampled_from([b"]", b"\n]\n", b" ] "]),
    is_ascii=st.booleans(),
    dropped=st.sets(st.integers(0, 8)),
)
def test_elements_of_json_arrays_are_kept_byte_for_byte(
    tmp_path: Path,
    packing: str,
    elements: list[dict[str, Any]],
    between: bytes,
    opening: bytes,
    closing: bytes,
    is_ascii: bool,
    dropped: set[int],
) -> None:
    objects = [{"text": "first"}, *elements]
    raws = [json.dumps(o, ensure_ascii=is_ascii).encode("utf-8", "surrogatepass") for o in objects]
    path = file_of(tmp_path, "json", packing, opening + between.join(raws) + closing)
    written, found = rewritten(path, lambda i: i not in dropped)
    assert len(found) == len(raws)
    kept = [raw for i, raw in enumerate(raws) if i not in dropped]
    assert written == opening + between.join(kept) + closing


def test_damage_in_a_json_array_costs_one_element(tmp_path: Path) -> None:
    content = b'[\n{"text": "a"},\n{"text": nonsense "b"},\n{"text": "c"},\n7,\n{"text": "d"}\n]'
    written, found = rewritten(file_of(tmp_path, "json", "", content), lambda i: True)
    assert [type(page) for page in found] == [Page, DamagedRecord, Page, DamagedRecord, Page]
    assert [row["text"] for row in json.loads(written)] == ["a", "c", "d"]


@pytest.mark.parametrize("between", [", ", ",", ",\n", "\n,", ",\n ", ", \n "])
@pytest.mark.parametrize("damaged", [0, 2, 5])
@pytest.mark.parametrize("damage", [lambda raw: raw[:-9], lambda raw: raw.replace(":", "::", 1)])
def test_damage_costs_one_element_of_any_style(
    tmp_path: Path, between: str, damaged: int, damage: Callable[[str], str]
) -> None:
    """Torn or misspelt, among elements that hold lists of objects."""
    rows = [{"text": f"t{i}", "sizes": [{"sku": i}, {"sku": -i}, {"s": 1}]} for i in range(6)]
    pretty = between == ",\n "
    raws = [json.dumps(row, indent=1 if pretty else None) for row in rows]
    raws = [raw.replace("\n", "\n ") for raw in raws]
    raws[damaged] = damage(raws[damaged])
    opening = "[" + between.replace(",", "").replace(" \n ", "")
    content = opening + between.join(raws) + "\n]\n"
    written, found = rewritten(file_of(tmp_path, "json", "", content.encode()), lambda i: True)
    if damaged < 5:
        assert sum(isinstance(page, DamagedRecord) for page in found) == 1
    assert json.loads(written) == [row for i, row in enumerate(rows) if i != damaged]


@pytest.mark.parametrize("opening", ["[", "[\n", "[ ", "\ufeff[\n"])
def test_a_crawl_that_was_appended_is_read_on(tmp_path: Path, opening: str) -> None:
    content = "".join(f'{opening}{{"text": "{i}"}},\n{{"text": "b{i}"}}\n]' for i in range(3))
    written, found = rewritten(
        file_of(tmp_path, "json", "", (content + "[]\n").encode()), lambda i: True
    )
    assert [row["text"] for row in json.loads(written)] == ["0", "b0", "1", "b1", "2", "b2"]
    assert [page.error for page in found if isinstance(page, DamagedRecord)] == [
        "a second array begins here, as where a crawl was appended to a file"
    ] * 3


def feed(letter: str, n_records: int, padding: int, style: str) -> tuple[list[str], str, str]:
    """Records, what separates them, and the array of them as Scrapy writes it."""
    rows = [
        {"text": f"{letter}{i}é" + "x" * padding, "sizes": [{"sku": i}, {"of": "["}]}
        for i in range(n_records)
    ]
    raws = [
        json.dumps(r, indent=2 if style == "pretty" else None, ensure_ascii=False) for r in rows
    ]
    end = "" if style == "line" else "\n"
    return raws, f",{end}", f"[{end}" + f",{end}".join(raws) + f"{end}]"


paddings = st.sampled_from([0, 9, 30_000, 70_000, MIB])


@settings(many, max_examples=150)
@given(
    data=st.data(),
    style=st.sampled_from(["feed", "pretty", "line"]),
    n_first=st.integers(1, 4),
    n_second=st.integers(1, 4),
    first_padding=paddings,
    second_padding=paddings,
)
def test_a_crawl_that_was_appended_to_one_that_was_killed_is_read_whole(
    tmp_path: Path,
    data: st.DataObject,
    style: str,
    n_first: int,
    n_second: int,
    first_padding: int,
    second_padding: int,
) -> None:
    raws, between, first = feed("a", n_first, first_padding, style)
    more, _, second = feed("b", n_second, second_padding, style)
    places = st.integers(0, len(first)) | st.integers(max(0, len(first) - 80), len(first))
    cut = data.draw(places | st.integers(1, 80))
    opening = first.index("{")
    ends = [opening + len(between.join(raws[: i + 1])) for i in range(n_first)]
    n_whole = sum(end <= cut for end in ends)
    is_torn = n_whole < n_first and ends[n_whole] - len(raws[n_whole]) < cut
    path = file_of(tmp_path, "json", "", (first[:cut] + second).encode())
    written, found = rewritten(path, lambda i: True, InputLimits())
    kept = [json.loads(raw) for raw in raws[:n_whole] + more]
    assert json.loads(written) == kept
    assert sum(isinstance(page, DamagedRecord) for page in found) == is_torn + (cut > 0)
    assert all(page.error for page in found if isinstance(page, DamagedRecord))


@pytest.mark.parametrize("n_characters", [9, ROOM + 9, MIB + 9, 3 * MIB])
@pytest.mark.parametrize("end", ["", "\n", ",", ",\n"])
def test_the_last_record_of_an_array_without_an_end_is_kept(
    tmp_path: Path, n_characters: int, end: str
) -> None:
    text = "x" * n_characters
    content = "[\n" + ",\n".join(json.dumps({"text": t}) for t in ("first", text)) + end
    path = file_of(tmp_path, "json", "", content.encode())
    written, found = rewritten(path, lambda i: True, InputLimits())
    assert [row["text"] for row in json.loads(written)] == ["first", text]
    assert "the array has no end" in str(found[-1])
    assert len(found) == 3


@pytest.mark.parametrize("n_objects", [2, 5_000])
@pytest.mark.parametrize("end", [',\n{"text": "last"}\n]', "\n]"])
def test_a_list_among_the_elements_of_an_array_is_no_second_array(
    tmp_path: Path, n_objects: int, end: str
) -> None:
    inner = json.dumps([{"text": f"{i} inside"} for i in range(n_objects)])
    content = f'[\n{{"text": "first"}},\n{inner}{end}'
    _, found = rewritten(file_of(tmp_path, "json", "", content.encode()), lambda i: True)
    assert isinstance(found[1], DamagedRecord)
    assert found[1].error == "a JSON list, not an object"
    assert len(found) == 2 + end.count("last")


@pytest.mark.parametrize("last", range(-4, 1))
def test_no_element_is_passed_over_where_blocks_meet(tmp_path: Path, last: int) -> None:
    begun = b'[\n{"text": "first"},\n{"text": "'
    content = begun + b"x" * (MIB + last - len(begun)) + b',\n{"text": "last"}\n]'
    written, _ = rewritten(file_of(tmp_path, "json", "", content), lambda i: True)
    assert [row["text"] for row in json.loads(written)] == ["first", "last"]


@pytest.mark.parametrize("cut", range(1, 40, 3))
def test_a_torn_json_array_is_written_as_a_whole_one(tmp_path: Path, cut: int) -> None:
    content = b'[\n{"text": "a"},\n{"text": "b"},\n{"text": "c"}\n]'
    written, _ = rewritten(file_of(tmp_path, "json", "", content[:-cut]), lambda i: True)
    assert isinstance(json.loads(written or b"[]"), list)


def test_json_lines_that_are_called_json_are_read(tmp_path: Path) -> None:
    content = b'{"text": "a"}\r\n{"text": "b"}\r\n'
    written, found = rewritten(file_of(tmp_path, "json", "", content), lambda i: i == 1)
    assert len(found) == 2
    assert written == b'{"text": "b"}\r\n'


def test_a_quote_that_is_never_closed_costs_one_line(tmp_path: Path) -> None:
    content = b'url,text\nhttp://a/1,one\nhttp://a/2,"two\nhttp://a/3,three\nhttp://a/4,four\n'
    _, found = rewritten(file_of(tmp_path, "csv", "", content), lambda i: True)
    texts = [page.text if isinstance(page, Page) else None for page in found]
    assert texts[0] == "one"
    assert len(texts) in (2, 4), "all that follows is the quoted text, or damage is one line"


def rows_by_definition(lines: list[str], n_names: int) -> Iterator[str]:
    """A row is the lines up to where its quotes are closed, if it has the header's cells."""
    while lines:
        raws = ("".join(lines[:n]) for n in range(1, len(lines) + 1))
        raw = next(filter(csv_rows.WHOLE[","].fullmatch, raws), lines[0])
        if raw != lines[0] and len(csv_rows.cells_of(raw, ",")) != n_names:
            raw = lines[0]
        yield raw
        lines = lines[len(raw.splitlines()) :]


@many
@example(',"\n"')  # the last line has no end
@given(st.text(st.sampled_from('ab",,""\n\n'), max_size=40))
def test_rows_of_csv_are_those_of_the_definition(tmp_path: Path, text: str) -> None:
    (source,) = find_inputs([file_of(tmp_path, "csv", "", b"url,text\n")])
    form: Any = format_of(source, columns_of(source, Fields(), LIMITS), LIMITS)
    rows = csv_rows.RawRows(io.StringIO(f"url,text\n{text}", newline=""), form)
    assert rows.header() == "url,text\n"
    assert list(rows) == list(rows_by_definition(text.splitlines(keepends=True), 2))


@pytest.mark.parametrize("last", ["", 'z"\n'], ids=["never closed", "closed"])
def test_each_line_is_looked_at_once_for_the_end_of_quotes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, last: str
) -> None:
    """Else a file of quotes that nothing ends takes the square of its lines."""
    looked_at = []

    class Noted:
        def fullmatch(self, line: str) -> Any:
            looked_at.append(line)
            return continued.fullmatch(line)

    continued = csv_rows.CONTINUED[","]
    monkeypatch.setitem(csv_rows.CONTINUED, ",", Noted())
    n_lines = 500
    content = "url,text\n" + 'x","y\n' * n_lines + last
    written, found = rewritten(file_of(tmp_path, "csv", "", content.encode()), lambda i: True)
    assert written == content.encode()
    assert len(found) >= n_lines
    assert len(looked_at) <= 2 * (n_lines + 1), "the file is cut into rows twice"


def test_texts_that_differ_in_a_byte_that_is_not_utf8_differ() -> None:
    one, other = (raw.decode("utf-8", "surrogateescape") for raw in (b"a\xff", b"a\xfe"))
    assert distinct(one) != distinct(other)
    assert distinct(one).encode()
    assert distinct("plain \U0001f600") == "plain \U0001f600"


@pytest.mark.parametrize("compression", ["snappy", "zstd", "gzip", "none"])
@pytest.mark.parametrize("row_group_size", [3, 1000])
def test_rows_of_parquet_keep_values_schema_and_metadata(
    tmp_path: Path, compression: str, row_group_size: int
) -> None:
    import pyarrow.parquet as pq

    schema = pa.schema(
        [
            pa.field("raw_html", pa.binary(), metadata={"is": "html"}),
            pa.field("metadata", pa.struct([("url", pa.string()), ("n", pa.list_(pa.int8()))])),
            pa.field("day", pa.dictionary(pa.int32(), pa.string())),
            pa.field("big", pa.large_string(), nullable=False),
            pa.field("at", pa.timestamp("us", "Europe/Berlin")),
        ],
        metadata={"huggingface": '{"info": {}}', "mine": "\u00e9"},
    )
    rows = [
        {
            "raw_html": f"<p>\xff{i}".encode("latin-1"),
            "metadata": {"url": f"http://a/{i}", "n": [i, None]},
            "day": "mon" if i % 2 else None,
            "big": str(i),
            "at": i,
        }
        for i in range(10)
    ]
    table = pa.Table.from_pylist(rows, schema=schema)
    path = tmp_path / "train-00000-of-00001.parquet"
    pq.write_table(table, path, compression=compression, row_group_size=row_group_size)
    (source,) = find_inputs([path])
    form: Any = format_of(source, columns_of(source, Fields(), LIMITS), LIMITS)
    assert form.columns == Columns("metadata.url", (), ("raw_html",), are_usual=True)
    pages = list(records(source, Fields()))
    assert [page.body for page in pages if isinstance(page, Page)] == [r["raw_html"] for r in rows]
    kept = [i % 3 != 1 for i in range(10)]
    form.write_whole(kept, 10, tmp_path / "out.parquet")
    written = pq.ParquetFile(tmp_path / "out.parquet")
    before = pq.ParquetFile(path)
    assert written.read().equals(before.read().filter(kept), check_metadata=True)
    assert written.schema_arrow.equals(before.schema_arrow, check_metadata=True)
    assert written.schema.equals(before.schema)
    assert written.metadata.metadata[b"mine"] == before.metadata.metadata[b"mine"]
    assert written.metadata.num_row_groups == before.metadata.num_row_groups
    assert (
        written.metadata.row_group(0).column(0).compression
        == before.metadata.row_group(0).column(0).compression
    )


@pytest.mark.parametrize("coding", ["utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-be"])
@pytest.mark.parametrize("kind", ["jsonl", "json", "csv"])
def test_text_in_wide_characters_is_refused_by_name(tmp_path: Path, kind: str, coding: str) -> None:
    text = "url,text\nhttp://a/,b\n" if kind == "csv" else '{"url": "http://a/", "text": "b"}\n'
    path = file_of(tmp_path, kind, ".gz", text.encode(coding))
    (source,) = find_inputs([path])
    with pytest.raises(InputError, match=rf"UTF-{coding[4:6]}.*iconv -f UTF-{coding[4:6]}"):
        columns_of(source, Fields(), LIMITS)


@pytest.mark.parametrize("packing", [".gz", ".bz2", ".xz", ".zst"])
def test_a_packed_file_under_another_name_is_refused_by_name(tmp_path: Path, packing: str) -> None:
    pack, _ = PACKED[packing]
    path = file_of(tmp_path, "jsonl", "", pack(b'{"url": "http://a/", "text": "b"}\n'))
    (source,) = find_inputs([path])
    with pytest.raises(InputError, match=rf"is packed; name it {path.name}{packing}"):
        columns_of(source, Fields(), LIMITS)


def test_lists_of_item_loaders_are_read_as_what_is_in_them(tmp_path: Path) -> None:
    rows = [
        {"url": ["http://a.example/1"], "text": ["one", "two"]},
        {"url": ["http://a.example/2", "http://b.example/"], "text": ["one"]},
        {"url": "http://a.example/3", "text": ["one", 2]},
        {"url": "http://a.example/4", "html": ["<p>one", "<p>two"]},
    ]
    lines = "".join(json.dumps(row) + "\n" for row in rows)
    (source,) = find_inputs([file_of(tmp_path, "jsonl", "", lines.encode())])
    pages = [page for page in records(source, Fields()) if isinstance(page, Page)]
    assert [page.url for page in pages] == [
        f"http://a.example/{n}" if n - 2 else "" for n in (1, 2, 3, 4)
    ]
    said = [(text_of(page) or "").split() for page in pages]
    assert said == [["one", "two"], ["one"], [], ["one", "two"]]


@pytest.mark.parametrize("kind", [".jsonl", ".csv"])
def test_texts_in_several_columns_are_all_compared(tmp_path: Path, kind: str) -> None:
    said = [["Read more", "one"], ["Read more", "two"], ["", "one"], ["one", "one"]]
    rows = [{"url": "http://a.example/", "text": t, "content": c} for t, c in said]
    path = tmp_path / f"a{kind}"
    with path.open("w", newline="") as file:
        if kind == ".csv":
            writer = csv.DictWriter(file, rows[0])
            writer.writeheader()
            writer.writerows(rows)
        else:
            file.writelines(json.dumps(row) + "\n" for row in rows)
    (source,) = find_inputs([path])
    pages = [one for one in records(source, Fields()) if isinstance(one, Page)]
    assert [(text_of(page) or "").split("\n") for page in pages] == [*said[:3], ["one"]]


@pytest.mark.parametrize("kind", ["csv", "jsonl"])
def test_spaces_around_a_usual_name_hide_no_column(tmp_path: Path, kind: str) -> None:
    row = {" url": "http://a.example/", " Text ": "one", "content": "Read more"}
    path = file_of_rows(tmp_path, "jsonl", [row])
    if kind == "csv":
        content = f"{','.join(row)}\n{','.join(row.values())}\n"
        path = file_of(tmp_path, "csv", "", content.encode())
    assert said_in(path, Fields()) == ["one\nRead more"]


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_columns_whose_names_differ_in_case_are_all_compared(tmp_path: Path, kind: str) -> None:
    import pyarrow.parquet as pq
    from pyarrow.csv import write_csv

    rows = [
        {"url": "http://a.example/", "text": "Read more", "Text": said, "TEXT": said}
        for said in ("one", "two")
    ]
    path = tmp_path / f"a.{kind}"
    (write_csv if kind == "csv" else pq.write_table)(pa.Table.from_pylist(rows), path)
    assert said_in(path, Fields()) == ["Read more\none", "Read more\ntwo"]
    assert said_in(path, Fields(text="Text")) == ["one", "two"]


def file_of_rows(folder: Path, kind: str, rows: list[dict[str, Any]]) -> Path:
    text = json.dumps(rows) if kind == "json" else "".join(json.dumps(row) + "\n" for row in rows)
    return file_of(folder, kind, "", text.encode())


def said_in(path: Path, fields: Fields) -> list[str | None]:
    """The texts of a file's records."""
    (source,) = find_inputs([path])
    return [text_of(one) for one in records(source, fields) if isinstance(one, Page)]


@pytest.mark.parametrize("name", ["content", "Raw_Content"])
@pytest.mark.parametrize("kind", ["jsonl", "json"])
def test_a_text_column_that_comes_late_is_compared(tmp_path: Path, kind: str, name: str) -> None:
    url = "http://a.example/"
    lists = [{"url": url, "text": f"List {i} " + "x" * 3_000} for i in range(1_000)]
    stories = [{"url": url, "text": "Read more", name: f"story {i}"} for i in range(3)]
    path = file_of_rows(tmp_path, kind, lists + stories)
    assert said_in(path, Fields())[-3:] == [f"Read more\nstory {i}" for i in range(3)]
    assert said_in(path, Fields(text="text"))[-3:] == ["Read more"] * 3


@pytest.mark.parametrize("fields", [Fields(), Fields(text="text"), Fields(html="text")])
@pytest.mark.parametrize("kind", ["jsonl", "json"])
def test_a_column_is_missing_only_if_no_record_has_it(
    tmp_path: Path, kind: str, fields: Fields
) -> None:
    rows: list[dict[str, Any]] = [{"id": i, "title": "x" * 3_000} for i in range(1_000)]
    with pytest.raises(InputError, match="its columns are: id, title"):
        said_in(file_of_rows(tmp_path, kind, rows), fields)
    late = {"id": 1_000, "url": "http://a.example/", "text": "a story"}
    assert said_in(file_of_rows(tmp_path, kind, [*rows, late]), fields)[-1] == "a story"


@pytest.mark.parametrize("kind", ["jsonl", "json"])
def test_a_record_that_is_longer_than_what_is_probed_hides_no_columns(
    tmp_path: Path, kind: str
) -> None:
    texts = ["long " * 2**21, "a story"]
    rows = [{"url": "http://a.example/", "text": text} for text in texts]
    path = file_of_rows(tmp_path, kind, rows)
    assert said_in(path, Fields())[1] == said_in(path, Fields(text="text"))[1] == "a story"


@pytest.mark.parametrize(
    ("kind", "text", "content"),
    [
        ("jsonl", ["Read more"], ["one", "two"]),
        ("jsonl", ["Read more"], "one\ntwo"),
        ("jsonl", "Read more", ["one", "two"]),
        ("jsonl", "Read more", [["one"], ["two"]]),
        ("jsonl", "Read more", {"title": "one", "parts": [None, "two"]}),
        ("parquet", ["Read more"], ["one", "two"]),
        ("parquet", b"Read more", "one\ntwo"),
        ("parquet", "Read more", b"one\ntwo"),
    ],
)
def test_texts_in_several_columns_are_all_compared_whatever_their_types(
    tmp_path: Path, kind: str, text: Any, content: Any
) -> None:
    import pyarrow.parquet as pq

    row = {"url": "http://a.example/", "text": text, "content": content}
    file = tmp_path / f"a.{kind}"
    if kind == "parquet":
        pq.write_table(pa.Table.from_pylist([row]), file)
    else:
        file.write_text(json.dumps(row) + "\n")
    (source,) = find_inputs([file])
    (page,) = records(source, Fields())
    assert isinstance(page, Page)
    assert (text_of(page) or "").split("\n") == ["Read more", "one", "two"]


@pytest.mark.parametrize(
    "more",
    [
        {"body": "<p>two"},
        {"body": ["<p>two"]},
        {"raw_html": "<p>two"},
        {"body": "<p>one", "raw_html": "<p>two"},
    ],
)
def test_html_of_several_columns_is_all_compared(tmp_path: Path, more: dict[str, Any]) -> None:
    file = tmp_path / "a.jsonl"
    file.write_text(json.dumps({"url": "http://a.example/", "html": "<p>one"} | more) + "\n")
    (source,) = find_inputs([file])
    (page,) = records(source, Fields())
    assert isinstance(page, Page)
    assert page.body == b"<p>one<p>two"


@pytest.mark.parametrize("fields", [Fields(), Fields(text="text")])
def test_bytes_in_a_column_of_text_are_text(tmp_path: Path, fields: Fields) -> None:
    import pyarrow.parquet as pq

    texts = [
        b"From <ann@a.example> <!-- one --> vector<int>",
        b"<b>two</b>",
        b"caf\xe9",
        b"caf\xe8",
    ]
    rows = [{"url": "http://a.example/", "text": text} for text in texts]
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "a.parquet")
    said = said_in(tmp_path / "a.parquet", fields)
    assert said[:2] == [text.decode() for text in texts[:2]]
    assert said[2] != said[3]


PLAIN = [
    "From: <ann@a.example>",
    "std::map<string> a; vector<b> c;",
    "drop table <title> <a>, if a <b and c",
    "one <!-- two --> three",
    "caf\u00e9 &amp; <tea>",
]


@pytest.mark.parametrize("said", PLAIN)
@pytest.mark.parametrize("kind", ["jsonl", "csv", "parquet", "binary"])
def test_plain_text_under_a_usual_name_of_html_is_text(
    tmp_path: Path, kind: str, said: str
) -> None:
    assert said_in(file_with_body(tmp_path, kind, said), Fields()) == [said]


@pytest.mark.parametrize(
    "html",
    [
        *("<p>one", "one<br>two", "<!DOCTYPE html>one", "<b>one</B >", "<LI>one", "one</div>"),
        *('<a\nhref="/">one', "<img alt=''>one", "<?xml version='1.0'?><x>one</x>", "<html>one"),
    ],
)
@pytest.mark.parametrize("kind", ["jsonl", "binary"])
def test_markup_under_a_usual_name_of_html_is_html(tmp_path: Path, kind: str, html: str) -> None:
    (source,) = find_inputs([file_with_body(tmp_path, kind, html)])
    (page,) = records(source, Fields())
    assert isinstance(page, Page)
    assert page.content_type.startswith("text/html")


def test_plain_text_beside_html_of_another_column_is_text(tmp_path: Path) -> None:
    row = {"url": "http://a.example/", "body": "<ann@a.example> &amp;", "raw_html": "<p>one"}
    (said,) = said_in(file_of_rows(tmp_path, "jsonl", [row]), Fields())
    assert (said or "").split() == ["<ann@a.example>", "&amp;", "one"]


def test_a_column_that_is_named_as_html_is_html(tmp_path: Path) -> None:
    path = file_with_body(tmp_path, "jsonl", "one <two> &amp;")
    (said,) = said_in(path, Fields(html="body"))
    assert (said or "").split() == ["one", "&"]


def test_html_in_utf16_is_html(tmp_path: Path) -> None:
    path = file_with_body(tmp_path, "binary", "\ufeff<p>one", "utf-16le")
    (said,) = said_in(path, Fields())
    assert (said or "").strip() == "one"


def file_with_body(folder: Path, kind: str, body: str, encoding: str = "utf-8") -> Path:
    """A file of one record, which has a column `body`."""
    import pyarrow.parquet as pq
    from pyarrow.csv import write_csv

    value = body.encode(encoding) if kind == "binary" else body
    row: dict[str, Any] = {"url": "http://a.example/", "body": value}
    if kind == "jsonl":
        return file_of_rows(folder, kind, [row])
    path = folder / ("a.csv" if kind == "csv" else "a.parquet")
    (write_csv if kind == "csv" else pq.write_table)(pa.Table.from_pylist([row]), path)
    return path


@pytest.mark.parametrize("kind", ["jsonl", "json"])
@pytest.mark.parametrize(
    ("members", "said"),
    [
        ('"text": "one", "text": "two"', "one\ntwo"),
        ('"text": "one", "n": 1, "te\\u0078t": "two"', "one\ntwo"),
        ('"html": "<p>one</p>", "html": "<p>two</p>"', "one\ntwo"),
        ('"text": "one", "text": null', None),
        ('"parts": {"text": "one", "text": "two"}, "text": ""', ""),
    ],
)
def test_all_values_of_a_name_that_an_object_has_twice_count(
    tmp_path: Path, kind: str, members: str, said: str | None
) -> None:
    line = f'{{"url": "http://a.example/", {members}}}'
    path = file_of(tmp_path, kind, "", (f"[{line}]" if kind == "json" else line).encode())
    (found,) = said_in(path, Fields())
    assert (found and found.split()) == (said and said.split())


def test_nobody_can_say_of_what_site_a_record_with_two_urls_is(tmp_path: Path) -> None:
    url = '"url": "http://{}.example/"'
    line = f'{{{url.format("a")}, {url.format("b")}, "text": "one"}}'
    (source,) = find_inputs([file_of(tmp_path, "jsonl", "", line.encode())])
    (page,) = records(source, Fields())
    assert isinstance(page, Page)
    assert not page.has_site


def test_what_a_column_says_is_found_however_deep_it_lies() -> None:
    """Deeper than Python's calls may go."""
    nested: Any = "deep"
    for _ in range(100_000):
        nested = [nested]
    names = "text", "content"
    assert texts_in({"text": "flat", "content": nested}, names) == ["flat", "deep"]
    assert texts_in({"text": ["a", "b", "a"], "content": [["a", 5]]}, names) == [
        "a\nb\na",
        "a\n5",
    ]
    assert texts_in({"text": "flat", "content": []}, names) == ["flat"]


@pytest.mark.parametrize("kind", ["jsonl", "parquet"])
@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("parts.text", ["one two", "three"]),
        ("parts.0.text", ["one", "three"]),
        ("parts.1.text", ["two", ""]),
    ],
)
def test_paths_lead_into_lists_of_objects(
    tmp_path: Path, kind: str, path: str, said: list[str]
) -> None:
    import pyarrow.parquet as pq

    texts = [["one", "two"], ["three"]]
    rows = [{"url": "http://a/", "parts": [{"text": one} for one in all]} for all in texts]
    file = tmp_path / f"a.{kind}"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    if kind == "parquet":
        pq.write_table(pa.Table.from_pylist(rows), file)
    (source,) = find_inputs([file])
    pages = [page for page in records(source, Fields(text=path)) if isinstance(page, Page)]
    assert [" ".join((text_of(page) or "").split()) for page in pages] == said


def test_what_is_no_object_in_a_list_leaves_a_record_without_text() -> None:
    """Half of what a record says is no ground to drop it."""
    assert value_at({"parts": [{"text": "a"}, {"text": "b"}]}, "parts.text") == ["a", "b"]
    assert value_at({"parts": [{"text": "a"}, "b"]}, "parts.text") is None
    assert value_at({"parts": [{"text": "a"}]}, "parts.\u00b2") is None


@pytest.mark.parametrize("kind", ["string", "large_string", "string_view", "binary", "binary_view"])
def test_columns_of_parquet_may_hold_strings_in_any_way(tmp_path: Path, kind: str) -> None:
    import pyarrow.parquet as pq

    urls = [f"http://a.example/{n}" for n in range(4)]
    schema = pa.schema([("url", getattr(pa, kind)()), ("text", pa.string())], metadata={"a": "b"})
    rows = [{"url": url.encode() if "binary" in kind else url, "text": "text"} for url in urls]
    path = tmp_path / "a.parquet"
    pq.write_table(pa.Table.from_pylist(rows, schema=schema), path)
    (source,) = find_inputs([path])
    form: Any = format_of(source, columns_of(source, Fields(), LIMITS), LIMITS)
    pages = [page for page in records(source, Fields()) if isinstance(page, Page)]
    assert [(page.url, page.has_site) for page in pages] == [(url, True) for url in urls]
    form.write_whole([True, False, True, False], 4, tmp_path / "out.parquet")
    before, written = pq.read_table(path), pq.read_table(tmp_path / "out.parquet")
    assert written.schema.equals(before.schema, check_metadata=True)
    assert written.to_pylist() == before.to_pylist()[::2]


def test_an_object_over_several_lines_is_told_from_what_is_no_json(tmp_path: Path) -> None:
    content = json.dumps({"items": [{"url": "http://a.example/", "text": "one"}]}, indent=1)
    (source,) = find_inputs([file_of(tmp_path, "json", "", content.encode())])
    form = format_of(source, Columns(None, ("text",), ()), LIMITS)
    pages = [form.page(frame, chunk) for chunk in form.chunks() for frame in form.frames(chunk)]
    begun, name = (page.error for page in pages[:2] if isinstance(page, DamagedRecord))
    assert "an object over several lines is read in an array only" in begun
    assert "several lines" not in name


@pytest.mark.parametrize("array", [True, False])
def test_numbers_longer_than_python_s_integers_are_no_damage(tmp_path: Path, array: bool) -> None:
    rows = [f'{{"text": "{name}", "number": {"9" * 5_000}}}' for name in "ab"]
    content = f"[{','.join(rows)}]" if array else "".join(f"{row}\n" for row in rows)
    path = file_of(tmp_path, "json" if array else "jsonl", "", content.encode())
    (source,) = find_inputs([path])
    found = list(records(source, Fields(has_url=False), InputLimits()))
    assert [page.text for page in found if isinstance(page, Page)] == ["a", "b"]


warc_bodies = st.one_of(st.binary(max_size=60), st.integers(2_900, 3_100).map(lambda n: b"x" * n))
warc_kinds = st.sampled_from(["response", "request", "resource", "metadata", "warcinfo"])
# Between records: nothing, or bytes that are no record and hold none's beginning.
garbage = st.sampled_from([b"", b"", b"", b"\0\1\2 no record\r\n\r\n", b"xyz" * 40])


@pytest.mark.parametrize("packing", ["", ".gz", ".zst"])
@pytest.mark.parametrize("wacz", [False, True])
@many
@given(
    parts=st.lists(st.tuples(warc_kinds, warc_bodies, garbage), min_size=1, max_size=6),
    dropped=st.sets(st.integers(0, 9)),
)
def test_records_of_warc_are_kept_byte_for_byte(
    tmp_path: Path,
    packing: str,
    wacz: bool,
    parts: list[tuple[str, bytes, bytes]],
    dropped: set[int],
) -> None:
    pytest.importorskip("warcio", reason="the extra [dedup] is not installed")
    pack = PACKED[packing][0]
    http = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n"
    stored = [pack(warc_record(kind, "http://a/", http + body)) for kind, body, _ in parts]
    content = b"".join(s + junk for s, (_, _, junk) in zip(stored, parts, strict=True))
    path = tmp_path / f"{next(names)}.warc{packing}"
    path.write_bytes(content)
    if wacz:
        path = in_a_wacz(path)
    (source,) = find_inputs([path])
    form = format_of(source, Columns(None, (), ()), LIMITS)
    written, number, expected = b"", 0, []
    whole = path.read_bytes()
    for chunk in form.chunks():
        frames = [frame for frame in form.frames(chunk) if not frame.filler]
        kept = []
        for frame in frames:
            kept.append(not frame.damage and number not in dropped)
            if not frame.damage:
                expected += [stored[number]] * kept[-1]
                number += 1
        for begin, end in form.write(chunk, kept, not written, path):
            assert isinstance(begin, int)
            assert isinstance(end, int)
            written += whole[begin:end]
    assert number == len(parts)
    assert written == b"".join(expected)


def in_a_wacz(warc: Path) -> Path:
    path = warc.with_name(f"{warc.name}.wacz")
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr("datapackage.json", "{}")
        archive.write(warc, f"archive/{warc.name}")
        archive.writestr("pages/pages.jsonl", '{"format": "json-pages-1.0"}\n')
    return path
