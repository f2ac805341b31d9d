"""Records are compared with an index as runs on Spark keep it, and added; no Spark is needed."""

import errno
import json
import os
import shutil
from collections.abc import Callable
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import Any, TextIO

import pytest
from mock_site import prose
from scrapy.settings import Settings

pa = pytest.importorskip("pyarrow", reason="the extra `dedup` is not installed")

import pyarrow.parquet as pq  # noqa: E402
from object_storage import bucket, hdfs  # noqa: E402, F401
from pyarrow.fs import FileSelector  # noqa: E402

from scrapy_neardup.commands import main  # noqa: E402
from scrapy_neardup.engines import FINGERPRINT, SKETCH  # noqa: E402
from scrapy_neardup.offline.dedup.signature_index import about  # noqa: E402
from scrapy_neardup.offline.dedup.writing import Writer  # noqa: E402
from scrapy_neardup.offline.file_systems import file_system, shown  # noqa: E402
from scrapy_neardup.spark.signatures import signer  # noqa: E402


def stored(folder: Path, texts: dict[str, str], scope: str = "site") -> Path:
    """An index with one complete version, and one that is not."""
    rows = {"id": [*texts], "rank": [0] * len(texts), "text": [*texts.values()]}
    signed = signer("site", FINGERPRINT, SKETCH)(iter([pa.RecordBatch.from_pydict(rows)]))
    table = pa.Table.from_batches(signed).drop_columns(["rank", "beside"])
    table = table.append_column("n", [list(range(len(texts)))])
    for name, success in (("0", str(len(texts))), ("1", "")):
        (folder / name).mkdir(parents=True)
        pq.write_table(table.slice(0 if success else 1), folder / name / "part-00000.parquet")
        (folder / name / "_SUCCESS").write_text(success)
    (folder / "about.json").write_text(json.dumps(about(scope, FINGERPRINT, SKETCH)))
    return folder


@pytest.fixture
def source(tmp_path: Path) -> Path:
    texts = {"copy": prose(1), "near": prose(2) + " more", "new": prose(3)}
    rows = [{"url": f"https://a.example/{name}", "text": text} for name, text in texts.items()]
    path = tmp_path / "pages.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_what_the_index_has_is_dropped(
    tmp_path: Path,
    source: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    texts = {f"https://a.example/{n}": prose(n) for n in (1, 2)}
    index = stored(tmp_path / "index", texts)
    command = ["dedup", str(source), "--out", str(tmp_path / "out"), "--against", str(index)]
    assert main([*command, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["exact"] == 1
    assert told["kept"] + told["near"] == 2


def test_an_index_under_another_scope_is_refused(
    tmp_path: Path, source: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    index = stored(tmp_path / "index", {"https://a.example/1": prose(1)}, scope="all")
    command = ["dedup", str(source), "--out", str(tmp_path / "out"), "--against", str(index)]
    assert main(command) == 2
    assert "of another specification" in capsys.readouterr().err


DAMAGE = {
    "about.json": b"{",
    "0/_SUCCESS": b"-1",
    "0/part-00000.parquet": b"PAR1",
    "0/part-00001.parquet": "a file without the columns of an index",
}


@pytest.mark.parametrize("name", DAMAGE)
def test_a_damaged_index_is_refused_by_the_name_of_its_file(
    name: str, tmp_path: Path, source: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    index = stored(tmp_path / "index", {"https://a.example/1": prose(1)})
    damage = DAMAGE[name]
    if isinstance(damage, bytes):
        (index / name).write_bytes(damage)
    else:
        pq.write_table(pa.table({"n": [1], "id": ["https://a.example/1"]}), index / name)
    command = ["dedup", str(source), "--out", str(tmp_path / "out"), "--against", str(index)]
    assert main(command) == 2
    told = capsys.readouterr().err
    assert str(index / name) in told
    assert "Traceback" not in told


@pytest.mark.usefixtures("whole_pages")
def test_a_bit_that_changed_in_an_index_is_damage(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source, index = pages(tmp_path / "a.jsonl", range(3)), tmp_path / "index"
    command = ["dedup", str(source), "--index", str(index), "--jobs", "1"]
    assert main([*command, "--out", str(tmp_path / "1")]) == 0
    (part,) = index.glob("*/*.parquet")
    with pq.ParquetFile(part) as file:
        sketches = file.metadata.row_group(0).column(file.schema.names.index("sketch"))
    stored = bytearray(part.read_bytes())
    stored[sketches.dictionary_page_offset + sketches.total_compressed_size // 2] ^= 1
    part.write_bytes(stored)
    assert main([*command, "--out", str(tmp_path / "2")]) == 2
    assert f"{part}: is damaged" in capsys.readouterr().err


def pages(path: Path, numbers: range, host: str = "a.example") -> Path:
    rows = [{"url": f"https://{host}/{n}", "text": prose(n)} for n in numbers]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


@pytest.fixture
def whole_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    """A project whose pages are compared whole, as an index has them."""
    settings = Settings({"NEARDUP_BOILERPLATE": "keep"})
    monkeypatch.setattr("scrapy.utils.project.get_project_settings", lambda: settings)


def counts(capsys: pytest.CaptureFixture[str], *command: object) -> tuple[int, int, int]:
    """Records that a run kept, exact and near ones."""
    assert main(["dedup", *map(str, command), "--jobs", "1", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    return told["kept"], told["exact"], told["near"]


@pytest.mark.usefixtures("whole_pages")
def test_each_run_drops_what_those_before_it_stored(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    index = ("--index", tmp_path / "index")
    days = [pages(tmp_path / f"{n}.jsonl", range(3 * n, 3 * n + 5)) for n in range(3)]
    found = [counts(capsys, day, "--out", tmp_path / day.stem, *index) for day in days]
    assert found == [(5, 0, 0), (3, 2, 0), (3, 2, 0)]
    stored = [pq.read_table(part) for part in sorted((tmp_path / "index").rglob("*.parquet"))]
    assert sorted(n for part in stored for n in part.column("n").to_pylist()) == [*range(11)]
    assert {said.read_text() for said in (tmp_path / "index").rglob("_SUCCESS")} == {
        "5 1 0",
        "8 1 5",
        "11 1 8",
    }
    for part in stored:
        sites = part.column("site").to_pylist()
        assert sites == sorted(sites)


@pytest.mark.usefixtures("whole_pages")
def test_what_is_stored_is_what_spark_signs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source, index = pages(tmp_path / "pages.jsonl", range(4)), tmp_path / "index"
    counts(capsys, source, "--out", tmp_path / "out", "--index", index)
    (part,) = index.rglob("*.parquet")
    written = {row["id"]: row for row in pq.read_table(part).to_pylist()}
    texts = {f"https://a.example/{n}": prose(n) for n in range(4)}
    stored(tmp_path / "other", texts)
    expected = pq.read_table(tmp_path / "other" / "0").to_pylist()
    assert [written[row["id"]] for row in expected] == expected
    assert (index / "about.json").read_text() == (tmp_path / "other" / "about.json").read_text()


@pytest.mark.usefixtures("whole_pages")
def test_a_run_that_was_stopped_is_stored_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source, out, index = pages(tmp_path / "p.jsonl", range(6)), tmp_path / "out", tmp_path / "index"
    command = (source, "--out", out, "--index", index)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pq, "write_table", full_disk)
        assert main(["dedup", *map(str, command), "--jobs", "1"]) != 0
    capsys.readouterr()
    assert [*index.glob("*/_SUCCESS")] == []
    assert counts(capsys, *command) == (6, 0, 0)
    assert counts(capsys, *command) == (6, 0, 0)
    assert len([*index.glob("*/_SUCCESS")]) == 1


@pytest.mark.usefixtures("whole_pages")
def test_of_two_runs_that_write_to_an_index_at_once_one_is_to_be_repeated(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    index = tmp_path / "index"
    days = [pages(tmp_path / f"{n}.jsonl", range(3 * n, 3 * n + 3)) for n in range(2)]
    one, other = ((day, "--out", tmp_path / day.stem, "--index", index) for day in days)
    written = pq.write_table
    with pytest.MonkeyPatch.context() as patch:

        def while_another_runs(*rest: Any, **options: Any) -> None:
            patch.undo()
            assert counts(capsys, *other) == (3, 0, 0)
            written(*rest, **options)

        patch.setattr(pq, "write_table", while_another_runs)
        assert main(["dedup", *map(str, one), "--jobs", "1"]) == 2
    assert "was added at the same time" in capsys.readouterr().err
    assert counts(capsys, *one) == (3, 0, 0)
    parts = [pq.read_table(part) for part in index.rglob("*.parquet")]
    assert sorted(n for part in parts for n in part.column("n").to_pylist()) == [*range(6)]
    both = pages(tmp_path / "both.jsonl", range(6))
    assert counts(capsys, both, "--out", tmp_path / "both", "--against", index) == (0, 6, 0)


@pytest.mark.usefixtures("whole_pages")
def test_an_index_whose_versions_have_the_same_places_is_refused_by_their_names(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source, index = pages(tmp_path / "pages.jsonl", range(3)), tmp_path / "index"
    assert counts(capsys, source, "--out", tmp_path / "out", "--index", index) == (3, 0, 0)
    (version,) = (path for path in index.iterdir() if path.is_dir())
    shutil.copytree(version, index / "zz")
    for option in ("--index", "--against"):
        command = ["dedup", str(source), "--out", str(tmp_path / option), option, str(index)]
        assert main(command) == 2
        assert f"{version} and {index / 'zz'} were added at once" in capsys.readouterr().err
    shutil.rmtree(index / "zz")
    assert counts(capsys, source, "--out", tmp_path / "again", "--index", index) == (0, 3, 0)


@pytest.mark.usefixtures("whole_pages")
def test_an_index_knows_only_pages_that_are_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source, index = pages(tmp_path / "p.jsonl", range(6)), tmp_path / "index"
    command = ["dedup", str(source), "--index", str(index), "--jobs", "1", "--out"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Writer, "_add", full_disk)
        assert main([*command, str(tmp_path / "full")]) != 0
    capsys.readouterr()
    assert counts(capsys, source, "--out", tmp_path / "out", "--index", index) == (6, 0, 0)


@pytest.mark.usefixtures("whole_pages")
@pytest.mark.parametrize("output", ["a full disk", "a closed pipe"])
def test_an_index_knows_only_pages_that_standard_output_took(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], output: str
) -> None:
    source, index = pages(tmp_path / "p.jsonl", range(6)), tmp_path / "index"
    command = ["dedup", str(source), "--index", str(index), "--jobs", "1", "--out", "-"]
    with pytest.MonkeyPatch.context() as patch:
        stream = that_takes_nothing(output)
        patch.setattr("sys.stdout", stream)
        main(command)
        with suppress(OSError):
            stream.close()
    assert [*index.glob("*/_SUCCESS")] == []
    assert counts(capsys, source, "--out", tmp_path / "out", "--index", index) == (6, 0, 0)


def that_takes_nothing(name: str) -> TextIO:
    """A stream that fails when it is flushed."""
    if name == "a full disk":
        return open("/dev/full", "w")
    theirs, ours = os.pipe()
    os.close(theirs)
    return os.fdopen(ours, "w")


def test_a_run_that_was_stopped_is_no_reference(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source, first = pages(tmp_path / "p.jsonl", range(6)), tmp_path / "first"
    command = ["dedup", str(source), "--out", str(first), "--jobs", "1"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Writer, "_add", full_disk)
        assert main(command) != 0
    other = ["dedup", str(source), "--out", str(tmp_path / "out"), "--against", str(first)]
    assert main(other) == 2
    assert "a run that was stopped; run its command again" in capsys.readouterr().err
    assert main(command) == main(other) == 0


def full_disk(*_: object, **__: object) -> None:
    raise OSError(errno.ENOSPC, "no space left on device")


def test_two_stored_pages_of_one_url_are_both_remembered(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    index = stored(tmp_path / "index", {"https://a.example/1": prose(1), "https://a.example/2": ""})
    (part,) = (index / "0").glob("*.parquet")
    table = pq.read_table(part)
    other = stored(tmp_path / "other", {"https://a.example/1": prose(2)})
    again = pq.read_table(other / "0").set_column(table.column_names.index("n"), "n", [[2]])
    pq.write_table(pa.concat_tables([table, again]), part)
    source = pages(tmp_path / "pages.jsonl", range(1, 4))
    assert counts(capsys, source, "--out", tmp_path / "out", "--against", index) == (1, 2, 0)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--index", "index"], "NEARDUP_BOILERPLATE"),
        (["--index", "index", "--keep", "best"], "--keep best"),
        (["--index", "index", "--against", "index"], "not allowed with"),
    ],
)
def test_what_an_index_cannot_take_is_refused(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    options: list[str],
    said: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    command = ["dedup", str(pages(tmp_path / "pages.jsonl", range(2))), "--out", "out"]
    is_refused_by_parser = said == "not allowed with"
    with pytest.raises(SystemExit) if is_refused_by_parser else nullcontext():
        assert main([*command, *options]) == 2
    assert said in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


@pytest.mark.usefixtures("whole_pages")
def test_a_folder_of_something_else_is_no_index(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "index").mkdir()
    (tmp_path / "index" / "notes.txt").write_text("mine")
    source = pages(tmp_path / "pages.jsonl", range(2))
    command = ["dedup", str(source), "--out", str(tmp_path / "out")]
    assert main([*command, "--index", str(tmp_path / "index")]) == 2
    assert "holds no index" in capsys.readouterr().err
    assert [path.name for path in (tmp_path / "index").iterdir()] == ["notes.txt"]


@pytest.mark.usefixtures("whole_pages")
def test_an_index_may_lie_on_object_storage(
    tmp_path: Path,
    bucket: Callable[[str], str],  # noqa: F811
    capsys: pytest.CaptureFixture[str],
) -> None:
    index = bucket("crawl/index")
    files, folder = file_system(index)
    days = [pages(tmp_path / f"{n}.jsonl", range(3 * n, 3 * n + 5)) for n in range(3)]
    commands = [(day, "--out", tmp_path / day.stem, "--index", index) for day in days]
    assert counts(capsys, *commands[0]) == (5, 0, 0)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pq, "write_table", full_disk)
        assert main(["dedup", *map(str, commands[1]), "--jobs", "1"]) != 0
    capsys.readouterr()
    for command in (*commands[1:], commands[2]):  # the last is done
        assert counts(capsys, *command) == (3, 2, 0)
    paths = [one.path for one in files.get_file_info(FileSelector(folder, recursive=True))]
    parts = [pq.read_table(p, filesystem=files) for p in paths if p.endswith(".parquet")]
    assert sorted(n for part in parts for n in part.column("n").to_pylist()) == [*range(11)]
    against = counts(capsys, days[0], "--out", tmp_path / "again", "--against", index)
    assert against == (0, 5, 0)
    told = [path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()]
    assert any(shown(index).encode() in text for text in told)
    assert not any(b"secret" in text for text in told)


@pytest.mark.usefixtures("whole_pages")
def test_an_index_that_was_copied_to_object_storage_is_whole(
    tmp_path: Path,
    bucket: Callable[[str], str],  # noqa: F811
    capsys: pytest.CaptureFixture[str],
) -> None:
    source, index = pages(tmp_path / "pages.jsonl", range(4)), tmp_path / "index"
    assert counts(capsys, source, "--out", tmp_path / "out", "--index", index) == (4, 0, 0)
    files, folder = file_system(bucket("copied"))
    for path in index.rglob("*"):
        if path.is_file():  # no object stands for a folder
            with files.open_output_stream(f"{folder}/{path.relative_to(index)}") as file:
                file.write(path.read_bytes())
    command = (source, "--out", tmp_path / "again", "--index", bucket("copied"))
    assert counts(capsys, *command) == (0, 4, 0)


@pytest.mark.usefixtures("whole_pages")
@pytest.mark.parametrize("n_left", [0, 1])
def test_a_version_whose_files_are_gone_is_refused_by_name(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, n_left: int
) -> None:
    monkeypatch.setattr("scrapy_neardup.offline.dedup.signature_index.PART_ROWS", 2)
    source, index = pages(tmp_path / "pages.jsonl", range(4)), tmp_path / "index"
    assert counts(capsys, source, "--out", tmp_path / "out", "--index", index) == (4, 0, 0)
    for part in [*index.rglob("*.parquet")][n_left:]:
        part.unlink()
    command = ["dedup", str(source), "--out", str(tmp_path / "again"), "--index", str(index)]
    assert main(command) == 2
    (version,) = (path.name for path in index.iterdir() if path.is_dir())
    said = capsys.readouterr().err
    assert f"{index / version}: is damaged: {n_left} of its 2 files are there" in said


@pytest.mark.usefixtures("whole_pages")
def test_what_storage_says_is_an_error_that_names_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = pages(tmp_path / "pages.jsonl", range(2))
    nobody = "endpoint_override=127.0.0.1:9&retry_limit_seconds=1"
    for url in (
        f"gs://anonymous@bucket/index?scheme=http&{nobody}",
        "hdfs://127.0.0.1:9/index?dfs.client.failover.max.attempts=1",
    ):
        for option in ("--against", "--index"):
            command = ["dedup", str(source), "--out", str(tmp_path / "out"), option, url]
            assert main(command) == 2
            said = capsys.readouterr().err
            assert shown(url) in said
            assert len(said) < 1_000


def test_a_url_without_an_index_is_refused(
    tmp_path: Path,
    bucket: Callable[[str], str],  # noqa: F811
    capsys: pytest.CaptureFixture[str],
) -> None:
    source = pages(tmp_path / "pages.jsonl", range(2))
    command = ["dedup", str(source), "--out", str(tmp_path / "out"), "--against"]
    for url in (bucket("nothing"), "unknown://bucket/index"):
        assert main([*command, url]) == 2
        said = capsys.readouterr().err
        assert shown(url) in said
        assert "secret" not in said
    assert not (tmp_path / "out").exists()  # so that the URL can be corrected
