"""Runs on Spark compare with what earlier runs kept, batch by batch, each page decided once."""

import errno
import importlib.util
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from mock_site import prose

pytest.importorskip("pyspark", reason="the extra `spark` is not installed")
pytestmark = [
    pytest.mark.spark,
    pytest.mark.xdist_group("spark"),  # one Java machine, not one a worker
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]

import pyarrow.parquet as pq  # noqa: E402
from pyspark.sql import DataFrameWriter, SparkSession  # noqa: E402
from scrapy.settings import Settings  # noqa: E402
from test_spark import COLUMNS, corpus, local_decisions, spark  # noqa: E402, F401

from scrapy_neardup.commands import main  # noqa: E402
from scrapy_neardup.detect.near import DISTANCE  # noqa: E402
from scrapy_neardup.errors import InputError  # noqa: E402
from scrapy_neardup.spark import Deduplicated, dedup  # noqa: E402
from scrapy_neardup.spark.stored_index import StoredIndex, run_name  # noqa: E402

EXAMPLE = Path(__file__).parents[1] / "docs" / "examples" / "spark_stream.py"
Rows = list[tuple[str, str | None]]


def decided(found: Deduplicated) -> dict[str, tuple[Any, ...]]:
    rows = found.decisions.collect()
    return {row["id"]: tuple(row[name] for name in COLUMNS) for row in rows}


def test_two_runs_decide_as_one_that_reads_all(spark: SparkSession, tmp_path: Path) -> None:  # noqa: F811
    rows = sorted(corpus(240, seed=11))
    index, found = StoredIndex(tmp_path / "index"), {}
    for name, some in (("monday", rows[:150]), ("tuesday", rows[150:])):
        day = spark.createDataFrame(some, "url string, text string")
        result = dedup(day, distance=4, against=index)
        found |= decided(result)
        result.add_to(index, name)
    assert found == local_decisions(rows)
    kinds = [kind for kind, *_ in found.values()]
    assert index.versions() == {"monday": 150, "tuesday": len(rows)}
    stored = sum(len(pq.read_table(tmp_path / "index" / name)) for name in index.versions())
    assert stored < len(rows) - kinds.count("near") - kinds.count("exact") + 1


def test_a_run_that_is_repeated_decides_the_same_and_stores_it_once(
    spark: SparkSession,  # noqa: F811
    tmp_path: Path,
) -> None:
    rows: Rows = [(f"https://a.example/{i}", prose(i % 7)) for i in range(12)]
    pages, index = spark.createDataFrame(rows, "url string, text string"), tmp_path / "index"
    tries = []
    for _ in range(2):
        found = dedup(pages, against=StoredIndex(index), version="today")
        tries.append(decided(found))
        found.add_to(StoredIndex(index), "today")
    assert tries[0] == tries[1]
    assert sorted(kind for kind, *_ in tries[0].values()) == ["exact"] * 5 + ["new"] * 7
    assert len(pq.read_table(index / "today")) == 7
    (index / "today" / "_SUCCESS").unlink()  # as a run leaves it that is killed
    assert StoredIndex(index).versions() == {}


def test_a_run_takes_no_places_of_one_that_was_added_while_it_lasted(
    spark: SparkSession,  # noqa: F811
    tmp_path: Path,
) -> None:
    index = StoredIndex(tmp_path / "index")
    rows = [[(f"https://a.example/{day}", prose(day))] for day in range(2)]
    days = [spark.createDataFrame(some, "url string, text string") for some in rows]
    for number, found in enumerate([dedup(day, against=index) for day in days]):
        found.add_to(index, str(number))
    assert index.versions() == {"0": 1, "1": 2}
    stored = [pq.read_table(tmp_path / "index" / name) for name in ("0", "1")]
    assert [table.column("n").to_pylist() for table in stored] == [[0], [1]]


def test_an_index_of_another_scope_is_refused(tmp_path: Path) -> None:
    (tmp_path / "about.json").write_text('{"format": 1, "scope": "all"}')
    with pytest.raises(InputError, match=r'of another specification: \{"format": 1,'):
        StoredIndex(tmp_path)


def test_the_command_compares_with_the_index_and_adds_to_it(
    spark: SparkSession,  # noqa: F811
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    pages = tmp_path / "pages.jsonl"
    pages.write_text(lines_of(range(3)))
    told = []
    for day in ("1", "2"):
        command = ["spark-dedup", str(pages), str(tmp_path / day), "--no-clusters", "--json"]
        assert main([*command, "--index", str(tmp_path / "index")]) == 0
        captured = capsys.readouterr()
        told.append(json.loads(captured.out)["kinds"])
    assert told == [{"new": 3}, {"exact": 3}]
    assert "has what a run over the same files kept" in captured.err


def test_a_command_that_is_repeated_into_its_folder_takes_no_page_for_its_own_copy(
    spark: SparkSession,  # noqa: F811
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    pages, out, index = (tmp_path / name for name in ("pages.jsonl", "out", "index"))
    pages.write_text(lines_of(range(3)))
    command = ["spark-dedup", str(pages), str(out), "--no-clusters", "--json"]
    told = []
    for _ in range(2):  # as after a kill when all was stored
        assert main([*command, "--index", str(index)]) == 0
        told.append(json.loads(capsys.readouterr().out)["kinds"])
        assert main([*command, "--index", str(index)]) == 2
        assert f"Remove {out} to repeat the run that wrote it" in capsys.readouterr().err
        shutil.rmtree(out)
    assert told == [{"new": 3}, {"new": 3}]
    assert [*StoredIndex(index).versions().values()] == [3]


def test_a_run_is_another_one_over_changed_files_or_with_another_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    pages, out = Path("pages.jsonl"), Path("out")
    pages.write_text(lines_of(range(3)))
    name = run_name([pages], out)
    assert run_name([pages.absolute()], out.absolute()) == name
    assert run_name([pages], Path("other")) != name
    pages.write_text(lines_of(range(4)))
    assert run_name([pages], out) != name


def test_an_index_is_told_of_a_run_last(
    spark: SparkSession,  # noqa: F811
    tmp_path: Path,
) -> None:
    pages, out, index = (tmp_path / name for name in ("pages.jsonl", "out", "index"))
    pages.write_text(lines_of(range(3)))
    written, rest = DataFrameWriter.parquet, ["--no-clusters", "--index", str(index)]

    def full_disk(self: DataFrameWriter, path: str, **options: Any) -> None:
        if Path(path).name == "damaged":
            raise OSError(errno.ENOSPC, "no space left on device")
        written(self, path, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(DataFrameWriter, "parquet", full_disk)
        assert main(["spark-dedup", str(pages), str(out), *rest]) == 2
    assert (out / "decisions").exists()
    assert StoredIndex(index).versions() == {}


def lines_of(numbers: range) -> str:
    rows = [{"url": f"https://a.example/{i}", "text": prose(i)} for i in numbers]
    return "".join(json.dumps(row) + "\n" for row in rows)


@pytest.mark.parametrize("first", ["dedup", "spark-dedup"])
def test_one_process_and_spark_go_on_with_each_others_index(
    spark: SparkSession,  # noqa: F811
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    first: str,
) -> None:
    settings = Settings({"NEARDUP_BOILERPLATE": "keep"})
    monkeypatch.setattr("scrapy.utils.project.get_project_settings", lambda: settings)
    rows = [(url, text) for url, text in sorted(corpus(160, seed=11)) if text]
    kept: set[str] = set()
    for day, some in (("1", rows[:100]), ("2", rows[100:])):
        source, out = tmp_path / f"{day}.jsonl", tmp_path / day
        lines = (json.dumps({"url": url, "text": text}) + "\n" for url, text in some)
        source.write_text("".join(lines))
        is_spark = (first == "spark-dedup") == (day == "1")
        command = ["spark-dedup", source, out, "--no-clusters"]
        command = command if is_spark else ["dedup", source, "--out", out, "--jobs", "1"]
        assert main([*map(str, command), "--index", str(tmp_path / "index")]) == 0
        kept |= kept_by_spark(out) if is_spark else kept_by_dedup(out)
    decisions = local_decisions([*rows], DISTANCE)
    assert kept == {url for url, (kind, *_) in decisions.items() if kind not in ("exact", "near")}
    assert len(kept) <= len(rows) - 10
    assert len(StoredIndex(tmp_path / "index").versions()) == 2


def kept_by_spark(out: Path) -> set[str]:
    decisions = pq.read_table(out / "decisions").to_pylist()
    return {row["id"] for row in decisions if row["kind"] not in ("exact", "near")}


def kept_by_dedup(out: Path) -> set[str]:
    (path,) = (out / "kept").iterdir()
    return {json.loads(line)["url"] for line in path.read_text().splitlines()}


def test_the_stream_decides_each_page_once(spark: SparkSession, tmp_path: Path) -> None:  # noqa: F811
    spec = importlib.util.spec_from_file_location("spark_stream", EXAMPLE)
    assert spec is not None
    assert spec.loader is not None
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    folder, out = tmp_path / "in", tmp_path / "out"
    folder.mkdir()

    def arrive(name: str, numbers: range) -> None:
        rows = [{"url": f"https://a.example/{name}/{i}", "text": prose(i)} for i in numbers]
        (folder / name).write_text("".join(json.dumps(row) + "\n" for row in rows))
        example.run(spark, folder, out)

    def kinds(batch: int) -> list[str]:
        table = pq.read_table(out / "decisions" / f"batch-{batch:010}")
        return sorted(table.column("kind").to_pylist())

    arrive("one.json", range(4))
    arrive("two.json", range(2, 6))
    assert (kinds(0), kinds(1)) == (["new"] * 4, ["exact"] * 2 + ["new"] * 2)
    for path in (out / "checkpoint" / "commits").glob("*1*"):
        path.unlink()  # as if the job had been killed before Spark noted the end of the batch
    arrive("three.json", range(4, 8))
    assert (kinds(1), kinds(2)) == (["exact"] * 2 + ["new"] * 2,) * 2
    assert len(StoredIndex(out / "index").versions()) == 3
