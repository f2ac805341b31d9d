"""Spark decides as the local detector does, however the rows are spread."""

import gzip
import io
import json
import os
import random
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from mock_site import prose

pyspark = pytest.importorskip("pyspark", reason="the extra `spark` is not installed")
pytestmark = [
    pytest.mark.spark,
    pytest.mark.xdist_group("spark"),  # one Java machine, not one a worker
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]

import pyarrow as pa  # noqa: E402
import pyarrow.parquet as pq  # noqa: E402
from object_storage import bucket, hdfs  # noqa: E402, F401
from pyspark.sql import SparkSession  # noqa: E402
from warcio.statusandheaders import StatusAndHeaders  # noqa: E402
from warcio.warcwriter import WARCWriter  # noqa: E402

from scrapy_neardup.commands import main  # noqa: E402
from scrapy_neardup.detect.detector import Detector  # noqa: E402
from scrapy_neardup.engines import FINGERPRINT, SKETCH, load_engine  # noqa: E402
from scrapy_neardup.errors import InputError  # noqa: E402
from scrapy_neardup.index import load_index  # noqa: E402
from scrapy_neardup.offline.dedup.columns import Fields  # noqa: E402
from scrapy_neardup.offline.file_systems import file_system, shown  # noqa: E402
from scrapy_neardup.spark import candidates, dedup  # noqa: E402
from scrapy_neardup.spark.candidates import (  # noqa: E402
    SLIM,
    Reach,
    candidate_pairs,
    confirmed_of,
)
from scrapy_neardup.spark.components import connected_components  # noqa: E402
from scrapy_neardup.spark.decisions import first_of_each_text  # noqa: E402
from scrapy_neardup.spark.records import read_pages  # noqa: E402
from scrapy_neardup.spark.session import cause_of  # noqa: E402
from scrapy_neardup.spark.signatures import numbered, signed  # noqa: E402
from scrapy_neardup.spark.storage import inputs_at  # noqa: E402
from scrapy_neardup.spark.stored_index import run_name  # noqa: E402

SPECS = (FINGERPRINT, SKETCH)


@pytest.fixture(scope="module")
def spark() -> Iterator[SparkSession]:
    """Real Spark on two local cores."""
    settings = {
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.sql.shuffle.partitions": "4",
        "spark.ui.enabled": "false",
    }
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYSPARK_PYTHON", sys.executable)
        session = SparkSession.builder.master("local[2]").config(map=settings).getOrCreate()
        session.sparkContext.setLogLevel("ERROR")
        yield session
        session.stop()


def corpus(n: int, seed: int) -> list[tuple[str, str | None]]:
    """Pages of three sites: new ones, exact and edited copies of earlier ones, edits of edits.

    Some have a brief line more than others.
    """
    rng = random.Random(seed)
    texts: list[str] = []
    for i in range(n):
        draw = rng.random()
        if texts and draw < 0.15:
            texts.append(rng.choice(texts))
        elif texts and draw < 0.5:
            words = rng.choice(texts).split()
            for _ in range(rng.randint(1, 8)):
                words[rng.randrange(len(words) - 3)] = edit(rng)
            if rng.random() < 0.3:
                words[-2] = str(rng.randrange(100))
            texts.append(" ".join(words))
        else:
            text = prose(f"{seed} {i}", n_words=rng.choice((5, 60, 200, 400)))
            texts.append(f"{text}. costs {i} euros")
    hosts = ("a.example", "b.example", "c.example")
    badges = ("", "", "\nSold out", "\nFresh")
    rows = [
        (f"https://{rng.choice(hosts)}/{i:05}", text + rng.choice(badges))
        for i, text in enumerate(texts)
    ]
    return [*rows, ("https://a.example/empty", ""), ("https://a.example/null", None)]


def edit(rng: random.Random) -> str:
    """A word that is no fact."""
    return "edit" + "".join(rng.choices("abcdefgh", k=5))


def local_decisions(
    rows: list[tuple[str, str | None]], distance: int = 4
) -> dict[str, tuple[Any, ...]]:
    index = load_index("permuted", blocks=distance + 1, distance=distance)
    rules: dict[str, Any] = {"distance": distance, "boilerplate": "keep", "whole_pages": True}
    detector = Detector(load_engine("auto"), index, **rules)
    decisions = {}
    for url, text in sorted(rows):
        d = detector.decide(detector.read(url, text or ""))
        decisions[url] = tuple(getattr(d, name) for name in COLUMNS)
    return decisions


COLUMNS = (*("kind", "original", "distance", "sketch_distance", "similarity", "words", "differs"),)


@pytest.mark.parametrize("partitions", [1, 7])
def test_decisions_are_the_local_detectors(spark: SparkSession, partitions: int) -> None:
    rows = corpus(400, seed=5)
    random.Random(partitions).shuffle(rows)
    df = spark.createDataFrame(rows, "url string, text string").repartition(partitions)
    found = dedup(df, distance=4).decisions.collect()
    decisions = {row["id"]: tuple(row[name] for name in COLUMNS) for row in found}
    expected = local_decisions(rows)
    assert len(found) == len(rows)
    assert {kind for kind, *_ in expected.values()} == {
        *("new", "exact", "near", "near-but-differs", "too-short"),
    }
    differences = {differs for *_, differs in expected.values()}
    assert differences == {None, "number or symbol", "a brief line"}
    assert decisions == expected


def between_two(n: int) -> list[tuple[str, str | None]]:
    """Pages after two earlier ones that they are both near to, while these two are not."""
    rows: list[tuple[str, str | None]] = []
    for i in range(n):
        words, rng = prose(f"between {i}", n_words=400).split(), random.Random(i)
        for name in ("1", "2"):
            edited = list(words)
            for place in rng.sample(range(400), 5):
                edited[place] = f"edit{'abc'[int(name)]}" + "x" * (place % 97)
            rows.append((f"https://a.example/{i}/{name}", " ".join(edited)))
        rows.append((f"https://a.example/{i}/between", " ".join(words)))
    return rows


def test_of_several_originals_the_local_detectors_is_named(spark: SparkSession) -> None:
    rows = between_two(150)
    found = dedup(spark.createDataFrame(rows, "url string, text string"), distance=4)
    originals = {row["id"]: row["original"] for row in found.decisions.collect()}
    expected = local_decisions(rows)
    pairs = found.pairs.groupBy("n").count().where("count > 1").count()
    assert pairs > 20
    assert originals == {url: decision[1] for url, decision in expected.items()}


def test_pages_of_one_url_are_decided_alike_in_any_partitions(spark: SparkSession) -> None:
    texts = [f"{prose('same')} ends {'abcd'[i // 2] * 4}" for i in range(8)] + [
        prose("other"),
        prose("third"),
    ]
    rows = [("https://a.example/", text) for text in texts]
    df = spark.createDataFrame(rows, "url string, text string")
    one, seven = (
        sorted(tuple(row) for row in dedup(df.repartition(n)).decisions.drop("words").collect())
        for n in (1, 7)
    )
    assert one == seven
    assert {row[1] for row in one} == {"new", "exact", "near"}


def test_rows_without_a_url_are_kept_and_compared_only_where_all_sites_are_one(
    spark: SparkSession,
) -> None:
    rows = [
        (url, prose("same")) for url in (None, None, "https://a.example/1", "https://a.example/2")
    ]
    df = spark.createDataFrame(rows, "url string, text string")
    kinds = [row["kind"] for row in dedup(df).decisions.sort("id", "kind").collect()]
    assert kinds == ["too-short", "too-short", "new", "exact"]
    kinds = [row["kind"] for row in dedup(df, scope="all").decisions.collect()]
    assert sorted(kinds) == ["exact", "exact", "exact", "new"]


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        ("url bigint, text string", "id='url': the column is of type bigint"),
        ("url string, text binary", "text='text': the column is of type binary"),
    ],
)
def test_columns_that_are_no_strings_are_refused(
    spark: SparkSession, schema: str, message: str
) -> None:
    with pytest.raises(InputError, match=message):
        dedup(spark.createDataFrame([], schema))


def test_a_hot_slice_that_is_cut_gives_the_same_pairs(spark: SparkSession) -> None:
    rows = [(f"https://a.example/{i:03}", f"{prose('hot')} edit{i}") for i in range(60)]
    df = spark.createDataFrame(rows, "url string, text string")
    signatures = numbered(signed(df, "text", "url", None, "site", *SPECS))
    slim = first_of_each_text(signatures).select(*SLIM)
    reaches = [Reach(3, 36, 0.88, cell_rows) for cell_rows in (1_000, 7)]
    whole, cut = (
        sorted(map(tuple, confirmed_of(candidate_pairs(slim, reach), signatures, reach).collect()))
        for reach in reaches
    )
    assert len(whole) > 1_000
    assert cut == whole


def planted_crowd(n: int) -> list[tuple[str, str | None]]:
    """Pages that say all but the same, beside a few that do not."""
    words = prose("crowd").split()
    rows = [(f"https://a.example/{i:05}", " ".join([*words, name(i)])) for i in range(n)]
    return [*rows, *((f"https://a.example/other{i}", prose(f"other {i}")) for i in range(20))]


def name(i: int) -> str:
    """A word of letters for each number."""
    return "".join("abcdefghij"[int(digit)] for digit in f"{i:05}")


def test_a_crowd_of_near_pages_makes_few_pairs_and_one_page_is_kept(spark: SparkSession) -> None:
    rows = planted_crowd(600)
    found = dedup(spark.createDataFrame(rows, "url string, text string"))
    kinds = {row["id"]: (row["kind"], row["original"]) for row in found.decisions.collect()}
    first = "https://a.example/00000"
    assert found.pairs.count() < 40 * 600
    near = sorted(url for url, (kind, _) in kinds.items() if kind == "near")
    assert near == [url for url, _ in rows[1:600]]
    assert {original for kind, original in kinds.values() if kind == "near"} == {first}
    assert sum(kind == "new" for kind, _ in kinds.values()) == 21
    assert found.clusters.where(f"cluster = '{first}'").count() == 600


def test_a_crowd_that_differs_in_facts_is_kept_and_counted_as_undecided(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(candidates, "TURNS", 2)
    text = prose("calendar")
    rows = {f"{i:03}": f"{text}. Day {i // 2}. Called {name(i % 2)}" for i in range(400)}
    pages = [(f"https://a.example/{n}", text) for n, text in rows.items()]
    found = dedup(spark.createDataFrame(pages, "url string, text string"))
    kinds = {row["id"][-3:]: (row["kind"], row["original"]) for row in found.decisions.collect()}
    dropped = {n: original[-3:] for n, (kind, original) in kinds.items() if kind == "near"}
    assert {n: int(n) // 2 for n in dropped} == {n: int(o) // 2 for n, o in dropped.items()}
    kept = {kind for n, (kind, _) in kinds.items() if n not in dropped}
    assert "undecided" in kept
    assert kept <= {"new", "near-but-differs", "undecided"}
    assert len(dropped) > 20
    assert found.pairs.count() < 400 * 40


def test_clusters_follow_chains_to_their_first_page(spark: SparkSession) -> None:
    rows = corpus(60, seed=9)
    found = dedup(spark.createDataFrame(rows, "url string, text string"), distance=4)
    clusters: dict[str, set[str]] = {}
    for row in found.clusters.collect():
        clusters.setdefault(row["cluster"], set()).add(row["id"])
    decisions = found.decisions.where("kind IN ('exact', 'near')").collect()
    originals = {row["id"]: row["original"] for row in decisions}
    for first, members in clusters.items():
        assert first == min(members)
        assert first not in originals
        assert {originals[m] for m in members & originals.keys()} <= members
    assert originals.keys() <= set().union(*clusters.values())


def test_components_of_a_long_chain_are_found(spark: SparkSession) -> None:
    chain = [(i, i + 1) for i in range(200)] + [(1_000, 1_001)]
    found = connected_components(spark.createDataFrame(chain, "u long, v long")).collect()
    assert {row["vertex"]: row["component"] for row in found} == {
        **dict.fromkeys(range(201), 0),
        **dict.fromkeys((1_000, 1_001), 1_000),
    }


@pytest.fixture
def crawled(tmp_path: Path) -> Path:
    """A folder of WARC and gzipped JSONL, each with something damaged, and of Parquet."""
    folder = tmp_path / "crawled"
    folder.mkdir()
    pages = [(f"https://a.example/{i}", prose(str(i // 2))) for i in range(14)]
    urls, texts = zip(*pages[10:], strict=True)
    pq.write_table(pa.table({"url": urls, "text": texts}), folder / "pages.parquet")
    with gzip.open(folder / "pages.jsonl.gz", "wt", encoding="utf-8") as file:
        file.writelines(json.dumps({"url": url, "text": text}) + "\n" for url, text in pages[:5])
        file.write('{"url": "https://a.example/torn", "te\n')
    with (folder / "pages.warc.gz").open("wb") as file:
        writer = WARCWriter(file, gzip=True)
        for url, text in pages[5:10]:
            headers = StatusAndHeaders("200 OK", [("Content-Type", "text/html")], "HTTP/1.1")
            body = io.BytesIO(f"<p>{text}</p>".encode())
            writer.write_record(
                writer.create_warc_record(url, "response", body, http_headers=headers)
            )
        file.write(b"\x1f\x8b\x08 not a record")
    return folder


def test_the_command_reads_files_counts_damage_and_writes_parquet(
    spark: SparkSession, crawled: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    assert main(["spark-dedup", str(crawled), str(out), "--json"]) == 0
    summary = json.loads(capsys.readouterr().out)
    assert summary["kinds"] == {"new": 7, "exact": 7}
    assert summary["damaged"] == 2
    session = SparkSession.builder.getOrCreate()
    decisions = session.read.parquet(str(out / "decisions")).collect()
    assert {row["id"]: row["original"] for row in decisions}["https://a.example/9"] == (
        "https://a.example/8"
    )
    clusters = session.read.parquet(str(out / "clusters")).collect()
    assert len({row["cluster"] for row in clusters}) == 7
    damaged = pq.read_table(out / "damaged").to_pylist()
    assert sorted(row["record"] for row in damaged) == [
        f"{crawled / 'pages.jsonl.gz'}#5",
        f"{crawled / 'pages.warc.gz'}#5",
    ]
    assert all(row["error"] for row in damaged)
    assert {path.name for path in out.iterdir()} == {"decisions", "clusters", "damaged"}


def test_the_command_leaves_alone_what_is_in_its_output_folder(
    spark: SparkSession, crawled: Path, tmp_path: Path
) -> None:
    own = tmp_path / "out" / "checkpoints" / "model.bin"
    own.parent.mkdir(parents=True)
    own.write_bytes(b"mine")
    assert main(["spark-dedup", str(crawled), str(tmp_path / "out")]) == 0
    assert own.read_bytes() == b"mine"
    assert {path.name for path in (tmp_path / "out").iterdir()} == {
        "checkpoints",
        "decisions",
        "clusters",
        "damaged",
    }


def test_decisions_name_the_record_of_each_row(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source, out = tmp_path / "pages.jsonl", tmp_path / "out"
    rows = [{"url": "https://a.example/", "text": prose(n)} for n in (1, 2, 1)]
    rows += [{"url": None, "text": prose(3)}] * 2
    source.write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert main(["spark-dedup", str(source), str(out)]) == 0
    found = {row.pop("record"): row for row in pq.read_table(out / "decisions").to_pylist()}
    assert {name: row["original_record"] for name, row in found.items()} == {
        f"{source}#0": None,
        f"{source}#1": None,
        f"{source}#2": f"{source}#0",
        f"{source}#3": None,
        f"{source}#4": None,  # nobody knows its site
    }
    clusters = pq.read_table(out / "clusters").to_pylist()
    assert {row["record"] for row in clusters} == {f"{source}#0", f"{source}#2"}


def test_the_command_reads_and_writes_object_storage(
    spark: SparkSession,
    crawled: Path,
    bucket: Callable[[str], str],  # noqa: F811
    capsys: pytest.CaptureFixture[str],
) -> None:
    files, folder = file_system(bucket("crawl"))
    for path in crawled.iterdir():
        with files.open_output_stream(f"{folder}/day 1/{path.name}", compression=None) as file:
            file.write(path.read_bytes())
    assert main(["spark-dedup", bucket("crawl"), bucket("out"), "--json"]) == 0
    said = capsys.readouterr().out
    assert json.loads(said) == {
        "kinds": {"new": 7, "exact": 7},
        "damaged": 2,
        "out": shown(bucket("out")),
    }
    _, out = file_system(bucket("out"))
    decisions = pq.read_table(f"{out}/decisions", filesystem=files).to_pylist()
    assert {row["id"]: row["original"] for row in decisions}["https://a.example/9"] == (
        "https://a.example/8"
    )
    clusters = pq.read_table(f"{out}/clusters", filesystem=files).to_pylist()
    assert len({row["cluster"] for row in clusters}) == 7
    assert files.get_file_info(f"{out}/clusters/_SUCCESS").is_file
    assert main(["spark-dedup", bucket("crawl"), bucket("out")]) == 2
    said = capsys.readouterr().err
    assert f"{shown(bucket('out/decisions'))} is there already" in said
    assert "secret" not in said


def test_parts_of_big_files_are_read_as_the_files_are(
    spark: SparkSession,
    tmp_path: Path,
    bucket: Callable[[str], str],  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rows = [{"url": f"https://a.example/{n}", "text": prose(n % 40)} for n in range(60)]
    (tmp_path / "pages.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "pages.parquet", row_group_size=7)
    files, folder = file_system(bucket("crawl"))
    for path in tmp_path.iterdir():
        with files.open_output_stream(f"{folder}/{path.name}", compression=None) as file:
            file.write(path.read_bytes())
    monkeypatch.setattr("scrapy_neardup.spark.records.PART_BYTES", 5_000)
    for place in (tmp_path, bucket("crawl")):
        found = read_pages(spark, [place], Fields())
        assert found.rdd.getNumPartitions() > 10
        read = sorted((row["url"], row["text"]) for row in found.collect())
        assert read == sorted((row["url"], row["text"]) for row in rows * 2)


def test_pages_whose_site_nobody_knows_have_no_text_to_compare(
    spark: SparkSession, tmp_path: Path
) -> None:
    urls = [None, "", "/item/5", "https://a.example/"]
    rows = [{"url": url, "text": prose(1)} for url in urls]
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    found = read_pages(spark, [tmp_path], Fields()).collect()
    assert [row["text"] for row in found] == [None, None, None, prose(1)]
    for rest in ((Fields(), "all"), (Fields(has_url=False), "site")):
        found = read_pages(spark, [tmp_path], *rest).collect()
        assert [row["text"] for row in found] == [prose(1)] * 4


def test_half_a_surrogate_pair_ends_no_run(spark: SparkSession, tmp_path: Path) -> None:
    data = r'<script type="application/ld+json">{"name": "\ud83d"}</script>'
    rows = [{"url": "https://a.example/\ud800", "html": f"{data}<p>{prose(1)}"}]
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    found = read_pages(spark, [tmp_path], Fields()).collect()
    assert [row["text"].strip() for row in found] == [prose(1)]


def test_files_whose_names_are_not_utf_8_are_read(spark: SparkSession, tmp_path: Path) -> None:
    folder = tmp_path / os.fsdecode(b"caf\xe9")
    folder.mkdir()
    row = {"url": "https://a.example/", "text": prose(1)}
    for name in (b"1-\xe8.jsonl", b"1-\xe9.jsonl", b"2-\xe9.json"):
        (folder / os.fsdecode(name)).write_text(json.dumps(row) + "\n")
    (folder / os.fsdecode(b"3-\xe9.html")).write_text(f"<p>{prose(1)}")
    (folder / os.fsdecode(b"4-\xe9.csv.gz")).write_text("no gzip")
    found = read_pages(spark, [folder], Fields()).collect()
    assert [(row["text"] or "").strip() for row in found if not row["damage"]] == [prose(1)] * 4
    assert [row["damage"] is not None for row in found].count(True) == 1
    assert len({row["record"] for row in found}) == 5


def test_what_ends_a_job_is_told_in_a_line(
    spark: SparkSession,
    crawled: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (tmp_path / "there" / "clusters").mkdir(parents=True)
    assert main(["spark-dedup", str(crawled), str(tmp_path / "there")]) == 2
    assert f"{tmp_path / 'there' / 'clusters'} is there already" in capsys.readouterr().err
    (tmp_path / "file").touch()
    assert main(["spark-dedup", str(crawled), str(tmp_path / "file" / "out")]) == 2
    assert "Traceback" not in capsys.readouterr().err
    monkeypatch.setattr("scrapy_neardup.spark.records.ROWS", "no such type")
    assert main(["spark-dedup", str(crawled), str(tmp_path / "out")]) == 2
    assert "scrapy neardup: Spark: " in capsys.readouterr().err


def test_what_is_told_of_a_job_is_the_end_of_a_worker_s_traceback() -> None:
    said = (
        "Job aborted: task 0 failed\n\norg.apache.spark.api.python.PythonException: Traceback (most"
        ' recent call last):\n  File "worker.py", line 5, in main\n'
        "scrapy_neardup.errors.InputError: a.csv: has no column\n\n\tat org.apache.spark.Runner\n"
        "Caused by: java.io.IOException: broken\n"
    )
    assert cause_of(said) == "scrapy_neardup.errors.InputError: a.csv: has no column"
    java = (
        "An error occurred while calling o1.f.\n: java.io.IOException: a\n\tat b\nCaused by: c: d\n"
    )
    assert cause_of(java) == "c: d"
    assert cause_of("[JAVA] no Java\nmore") == "[JAVA] no Java"


def test_what_is_not_read_from_storage_is_refused(
    bucket: Callable[[str], str],  # noqa: F811
) -> None:
    files, folder = file_system(bucket("crawl"))
    with files.open_output_stream(f"{folder}/page.html") as file:
        file.write(b"<p>page</p>")
    with pytest.raises(InputError, match=r"page\.html is read from disks only"):
        inputs_at(bucket("crawl"))
    with pytest.raises(InputError, match=f"{shown(bucket('nothing'))}: no file of a known format"):
        inputs_at(bucket("nothing"))


def test_a_run_over_files_on_storage_is_another_one_once_they_changed(
    bucket: Callable[[str], str],  # noqa: F811
) -> None:
    files, folder = file_system(bucket("crawl"))
    names = []
    for said in (b"", b"{}\n"):
        with files.open_output_stream(f"{folder}/pages.jsonl", compression=None) as file:
            file.write(said)
        names += [run_name([bucket("crawl")], bucket("out")) for _ in range(2)]
    assert names[0] == names[1]
    assert names[1] != names[2] == names[3]
    assert run_name([bucket("crawl")], bucket("other")) != names[3]


def test_the_command_writes_no_clusters_if_none_are_wanted(
    spark: SparkSession, crawled: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    assert main(["spark-dedup", str(crawled), str(out), "--no-clusters"]) == 0
    assert "7 exact, 7 new" in capsys.readouterr().out
    assert {path.name for path in out.iterdir()} == {"decisions", "damaged"}


def test_the_command_compares_titles_and_data_of_html(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = prose("description")
    pages = {
        "0": f"<title>Lamp</title><p>{text}</p>",
        "1": f"<title>Lamp</title><p>{text}</p>",
        "2": f"<title>Chair</title><p>{text}</p>",
        "3": f'<title>Lamp</title><p>{text}</p><meta property="og:price" content="19">',
        "4": f"<title>Lamp</title><p>{text} more</p>",
        "5": "<p>few words</p><img src=one.png>",
        "6": "<p>few words</p><img src=two.png>",
        "7": f"<p>loading</p><script>{'eval(x);' * 90}</script>",
        "8": f"<p>loading</p><script>{'eval(y);' * 90}</script>",
    }
    with (tmp_path / "pages.jsonl").open("w") as file:
        rows = ({"url": f"https://a.example/{n}", "html": html} for n, html in pages.items())
        file.writelines(json.dumps(row) + "\n" for row in rows)
    command = ["spark-dedup", str(tmp_path / "pages.jsonl"), str(tmp_path / "out")]
    assert main([*command, "--html", "html"]) == 0
    capsys.readouterr()
    session = SparkSession.builder.getOrCreate()
    found = session.read.parquet(str(tmp_path / "out" / "decisions")).collect()
    kinds = {row["id"][-1]: (row["kind"], row["differs"]) for row in found}
    assert kinds == {
        "0": ("new", None),
        "1": ("exact", None),
        "2": ("near-but-differs", "title"),
        "3": ("new", None),
        "4": ("near", None),
        **dict.fromkeys("56", ("too-short", None)),
        **dict.fromkeys("78", ("undecided", None)),
    }
