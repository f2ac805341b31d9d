"""Parts of a big file have its records, each once, wherever the file lies."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("pyspark", reason="the extra `spark` is not installed")

import pyarrow as pa
import pyarrow.parquet as pq
from object_storage import bucket, hdfs  # noqa: F401
from pyarrow.fs import LocalFileSystem

from scrapy_neardup.offline.dedup.columns import Fields
from scrapy_neardup.offline.dedup.formats import records
from scrapy_neardup.offline.dedup.inputs import Input, of_file
from scrapy_neardup.offline.dedup.record import DamagedRecord, InputLimits, Page
from scrapy_neardup.offline.file_systems import file_system
from scrapy_neardup.spark.file_parts import copy_part, parts
from scrapy_neardup.spark.storage import local_copy

LINE = st.one_of(
    st.builds(
        lambda n, size: json.dumps({"url": f"https://a.example/{n}", "text": "x" * size}).encode(),
        st.integers(0, 99),
        st.integers(0, 300),
    ),
    st.binary(max_size=40).map(lambda raw: raw.replace(b"\n", b" ")),
)


def read(source: Input, path: Path | None = None) -> list[Any]:
    """The records of an input, or of a copy of it."""
    given = source._replace(path=path or source.path)
    return [*records(given, Fields(), InputLimits(record_bytes=200))]


def read_copied(part: Input, folder: Path) -> list[Any]:
    """The records of an input, of a part by a copy of the bytes that it needs."""
    if part.size is None:
        return read(part)
    copy = folder / f"copy-{part.path.name}"
    with LocalFileSystem().open_input_file(str(part.path)) as file, copy.open("wb") as target:
        copy_part(part, file, target)
    return read(part, copy)


@given(
    lines=st.lists(LINE, max_size=30),
    end=st.sampled_from([b"", b"\n", b"\r\n\n"]),
    part_bytes=st.integers(1, 2_000),
)
def test_parts_of_json_lines_have_each_record_once(
    tmp_path_factory: pytest.TempPathFactory, lines: list[bytes], end: bytes, part_bytes: int
) -> None:
    folder = tmp_path_factory.mktemp("lines")
    path = folder / "pages.jsonl"
    named = json.dumps({"url": "https://a.example/first", "text": "first"}).encode()
    path.write_bytes(b"\n".join([named, *lines]) + end)
    (whole,) = of_file(path)
    found = [*parts(whole, LocalFileSystem(), part_bytes)]
    assert len(found) == max(1, -(-path.stat().st_size // part_bytes))
    assert [one for part in found for one in read(part)] == read(whole)
    assert [one for part in found for one in read_copied(part, folder)] == read(whole)


def table(n: int) -> Any:
    rows = [{"url": f"https://a.example/{i}", "text": f"page {i} " * (i % 9)} for i in range(n)]
    return pa.Table.from_pylist([row | {"nothing": None, "list": [1, 2]} for row in rows])


@pytest.mark.parametrize("part_bytes", [1, 1_000, 4_000, 10**9])
@pytest.mark.parametrize("options", [{}, {"use_dictionary": False, "write_page_index": True}])
def test_parts_of_parquet_have_each_record_once(
    tmp_path: Path, part_bytes: int, options: dict[str, bool]
) -> None:
    path = tmp_path / "pages.parquet"
    pq.write_table(table(1_000), path, row_group_size=60, **options)
    (whole,) = of_file(path)
    found = [*parts(whole, LocalFileSystem(), part_bytes)]
    assert (len(found) == 1) == (part_bytes == 10**9)
    assert [one for part in found for one in read(part)] == read(whole)
    assert [one for part in found for one in read_copied(part, tmp_path)] == read(whole)


@pytest.mark.parametrize("name", ["pages.jsonl.gz", "pages.csv", "pages.warc", "pages.parquet"])
def test_what_cannot_be_split_is_one_part(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_bytes(b"no such file" * 100)
    assert [*parts(*of_file(path), LocalFileSystem(), 10)] == [*of_file(path)]


def test_damage_in_a_row_group_is_told_by_its_part_alone(tmp_path: Path) -> None:
    path = tmp_path / "pages.parquet"
    pq.write_table(table(300), path, row_group_size=100)
    (whole,) = of_file(path)
    found = [*parts(whole, LocalFileSystem(), 1)]
    data = bytearray(path.read_bytes())
    data[found[1].start : found[1].start + 40] = b"\xff" * 40
    path.write_bytes(data)
    kinds = [{type(one) for one in read(part)} for part in found]
    assert kinds == [{Page}, {DamagedRecord}, {Page}]


def test_a_part_is_copied_from_object_storage(
    bucket: Callable[[str], str],  # noqa: F811
    tmp_path: Path,
) -> None:
    local = tmp_path / "pages.jsonl"
    lines = [json.dumps({"url": f"https://a.example/{n}", "text": "x" * n}) for n in range(90)]
    local.write_text("\n".join(lines))
    files, folder = file_system(bucket("crawl"))
    with files.open_output_stream(f"{folder}/pages.jsonl") as file:
        file.write(local.read_bytes())
    (whole,) = of_file(Path(f"{folder}/pages.jsonl"))
    found: list[Any] = []
    for part in parts(whole, files, 1_000):
        with local_copy(bucket("crawl"), part) as copy:
            found += read(part, copy)
    assert found == read(*of_file(local))
