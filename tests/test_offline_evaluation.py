"""Evaluation and calibration: scores, intervals, files, and that they judge as the crawl does."""

import csv
import gzip
import io
import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from mock_site import prose

from scrapy_neardup import commands
from scrapy_neardup.crawl.pages.extract import content_of_html
from scrapy_neardup.detect.detector import Detector
from scrapy_neardup.detect.near import NearLimits
from scrapy_neardup.engines import load_engine
from scrapy_neardup.errors import InputError
from scrapy_neardup.index import load_index
from scrapy_neardup.offline.calibration import calibrate, sampled, shingles, weighted
from scrapy_neardup.offline.evaluation import Interval, Score, evaluate, measure
from scrapy_neardup.offline.page_files import lines_of, read_pages, read_pairs


def html(words: list[str]) -> str:
    lines = (" ".join(words[i : i + 15]) for i in range(0, len(words), 15))
    return "<title>not visible</title>" + "".join(f"<p>{line}</p>" for line in lines)


def named(number: int) -> str:
    """A number in letters, which are no fact."""
    return "".join(chr(ord("a") + int(digit)) for digit in str(number))


def words_of(n: int, seed: int) -> list[str]:
    chance = random.Random(seed)
    return [f"word{named(int(chance.paretovariate(0.5)) % 3000)}" for _ in range(n)]


def write(path: Path, rows: list[Any]) -> Path:
    lines = "".join((row if isinstance(row, str) else json.dumps(row)) + "\n" for row in rows)
    path.write_bytes(gzip.compress(lines.encode()) if path.suffix == ".gz" else lines.encode())
    return path


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    """Thirty pages, each with a near copy on another site, and pairs of every label."""
    pages, pairs = [], []
    for i in range(30):
        words = words_of(400, i)
        pages.append({"id": f"p{i}", "url": f"http://a.example/{i}", "html": html(words)})
        pages.append({"id": f"q{i}", "html": html([*words[:200], "edit", *words[201:]])})
        pairs.append({"a": f"p{i}", "b": f"q{i}", "label": "distinct", "label_full": "near"})
        other = {"a": f"p{i}", "b": f"q{(i + 1) % 30}", "label": "distinct", "stratum": "other"}
        pairs += [other, {"a": f"p{i}", "b": "q5", "label": "near", "label_full": "grey"}]
    return write(tmp_path / "pages.jsonl.gz", pages), write(tmp_path / "pairs.jsonl", pairs)


def test_every_labelled_pair_is_judged_whatever_its_sites(files: tuple[Path, Path]) -> None:
    report = evaluate(*files, NearLimits())
    assert (report["precision"], report["recall"], report["f1"]) == (1.0, 1.0, 1.0)
    assert (report["pairs"], report["found"], report["kept"]) == (60, 30, 30)
    assert report["strata"]["other"]["precision"] is None
    assert report["strata"]["all"]["recall_interval"][0] == pytest.approx(0.886, abs=0.001)
    assert json.loads(json.dumps(report)) == report


def test_the_sweep_tells_what_looser_limits_cost(files: tuple[Path, Path]) -> None:
    report = evaluate(*files, NearLimits(similarity=0))
    trusting = [s for s in report["sweep"] if s["confirm_distance"] is None]
    assert [s["distance"] for s in trusting] == [3, 4, 5, 6, 7, 8]
    assert sorted(s["recall"] for s in trusting) == [s["recall"] for s in trusting]


def test_the_command_prints_json_and_tables(
    files: tuple[Path, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["evaluate", *map(str, files)]
    assert commands.main([*arguments, "--json", "--confirm-distance", "none"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["settings"]["confirm_distance"] is None
    assert {"precision", "recall", "strata", "sweep"} <= report.keys()
    assert commands.main(arguments) == 0
    assert "60 labelled pairs; distance 6" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("pages", "pairs", "message"),
    [
        ([{"id": "a", "html": "x"}], [{"a": "a", "b": "b", "label": "near"}], "has no page 'b'"),
        ([{"id": "a"}], [{"a": "a", "b": "a", "label": "near"}], "line 1: a page takes `html`"),
        ([{"id": "a", "html": "x"}], [{"a": "a", "label": "near"}], "ids of two pages"),
        ([], [{"a": "a", "b": "b"}], "line 1: a pair takes `label_full`"),
        ([], ["[1]"], "takes an object, not list"),
        ([], ["{"], "line 1: not JSON"),
        ([], ["[" * 100_000], "line 1: not JSON"),
    ],
)
def test_files_that_make_no_sense_are_refused_with_their_line(
    tmp_path: Path, pages: list[Any], pairs: list[Any], message: str
) -> None:
    with pytest.raises(InputError, match=message):
        evaluate(write(tmp_path / "pages", pages), write(tmp_path / "pairs", pairs), NearLimits())


def test_a_missing_or_torn_file_is_an_exit_code(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert commands.main(["evaluate", str(tmp_path / "no"), str(tmp_path / "no")]) == 2
    torn = tmp_path / "torn.gz"
    torn.write_bytes(gzip.compress(b'{"a": "b"}' * 1000)[:30])
    assert commands.main(["evaluate", str(torn), str(torn)]) == 2
    assert capsys.readouterr().err.count("cannot be read") == 2


def test_a_damaged_table_of_pairs_is_an_exit_code(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("pyarrow", reason="the extra [dedup] is not installed")
    no_table = tmp_path / "pairs.parquet"
    no_table.write_bytes(b"no table")
    assert commands.main(["evaluate", str(no_table), str(no_table)]) == 2
    assert "pairs.parquet: cannot be read" in capsys.readouterr().err


def test_pairs_without_labels_are_labelled_by_their_jaccard(tmp_path: Path) -> None:
    rows = [{"a": 1, "b": 2, "j5_full": j} for j in (0.95, 0.9, 0.7, 0.5)]
    assert [pair.near for pair in read_pairs(write(tmp_path / "p", rows))] == [True, True, False]


def test_a_label_that_says_nothing_leaves_it_to_the_next(tmp_path: Path) -> None:
    rows = [
        {"a": 1, "b": 2, "label_full": None, "label": "distinct", "j5_full": 0.95},
        {"a": 1, "b": 2, "label_full": "", "label": None, "j5_full": 0.95},
    ]
    assert [p.label for p in read_pairs(write(tmp_path / "p", rows))] == ["distinct", "near"]
    (tmp_path / "p.csv").write_text("a,b,j5_full\n1,2,0.95\n1,2,0.2\n")
    assert [p.label for p in read_pairs(tmp_path / "p.csv")] == ["near", "distinct"]
    for wrong in ("high", "nan", 95):
        with pytest.raises(InputError, match="`j5_full`, from 0 to 1"):
            read_pairs(write(tmp_path / "p", [{"a": 1, "b": 2, "j5_full": wrong}]))


def test_a_byte_order_mark_is_no_part_of_the_first_line(tmp_path: Path) -> None:
    path = tmp_path / "pairs"
    path.write_text('{"a": 1, "b": 2, "label": "near"}\n', "utf-8-sig")
    assert [pair.first for pair in read_pairs(path)] == ["1"]


@pytest.mark.parametrize(
    ("option", "value", "limit"),
    [
        ("--similarity", "nan", "above 0 and below 1"),
        ("--distance", "300", "0 to 63"),
        ("--min-words", "-3", "0 to 1000000"),
        ("--confirm-distance", "257", "0 to 256"),
    ],
)
def test_limits_that_no_crawl_would_take_are_refused(
    files: tuple[Path, Path],
    capsys: pytest.CaptureFixture[str],
    option: str,
    value: str,
    limit: str,
) -> None:
    assert commands.main(["evaluate", *map(str, files), f"{option}={value}"]) == commands.WRONG_USE
    name = option.removeprefix("--").replace("-", "_").upper()
    said = capsys.readouterr().err.replace(",", "")
    assert f"NEARDUP_{name}={value}" in said
    assert limit in said


def test_nothing_to_judge_is_no_score(tmp_path: Path) -> None:
    nothing = write(tmp_path / "nothing", [])
    report = evaluate(nothing, nothing, NearLimits())
    assert (report["precision"], report["recall"], report["f1"]) == (None, None, None)


def test_pairs_are_judged_as_a_detector_that_keeps_templates_decides() -> None:
    readings, rules = [], {"min_words": 30, "similarity": 0.8}
    reader = Detector(load_engine("auto"), load_index("scan"))
    for i in range(60):
        words = words_of(random.Random(i).choice([0, 5, 29, 30, 300, 3000]), i)
        edits = random.Random(i).choice([0, 1, 3, 10, 40])
        other = [f"edit{named(j)}" if j < edits else word for j, word in enumerate(words)]
        readings.append((reader.read("http://a.example/1", html(words)), i, html(other)))
    pairs = [(first, reader.read("http://a.example/2", other)) for first, _, other in readings]
    judged = measure(reader, pairs).duplicates(NearLimits(**rules))
    for (first, second), duplicate in zip(pairs, judged, strict=True):
        alone = Detector(load_engine("auto"), load_index("scan"), boilerplate="keep", **rules)
        alone.decide(first)
        assert alone.decide(second).is_duplicate == duplicate
    assert 0 < judged.sum() < len(judged)


@pytest.mark.parametrize(
    ("successes", "trials", "low", "high"),
    [(0, 10, 0.0, 0.2775), (10, 10, 0.7225, 1.0), (81, 263, 0.2553, 0.3662), (0, 0, 0.0, 1.0)],
)
def test_wilson_intervals_are_the_published_ones(
    successes: int, trials: int, low: float, high: float
) -> None:
    interval = Interval.of(successes, trials)
    assert (interval.low, interval.high) == pytest.approx((low, high), abs=1e-4)


def test_weights_stand_for_the_pairs_that_were_not_sampled() -> None:
    answers, labels = np.array([True, True, False]), np.array([True, False, True])
    score = Score.of(answers, labels, np.array([1.0, 2.0, 4.0]))
    assert score == (1.0, 4.0, 2.0, 0.0)


@pytest.mark.parametrize("kind", ["jsonl", "csv", "json"])
def test_pages_without_an_id_go_by_their_url_and_else_by_their_number(
    tmp_path: Path, kind: str
) -> None:
    urls = ["http://a.example/", "", None, "http://a.example/3"]
    rows = [
        {"id": i, "url": u, "text": prose(u)}
        for i, u in zip([None, "", None, 7], urls, strict=True)
    ]
    path = tmp_path / f"pages.{kind}"
    if kind == "csv":
        with path.open("w", newline="") as file:
            writer = csv.DictWriter(file, rows[0])
            writer.writeheader()
            writer.writerows(rows)
    else:
        lines = map(json.dumps, rows)
        path.write_text("\n".join(lines) if kind == "jsonl" else f"[{','.join(lines)}]")
    reader = Detector(load_engine("auto"), load_index("scan"))
    assert list(read_pages(path, reader)) == ["http://a.example/", "1", "2", "7"]


def test_an_id_of_two_texts_is_refused_where_pairs_go_by_it(tmp_path: Path) -> None:
    texts = [" ".join(words_of(300, seed)) for seed in (1, 2, 2)]
    pages = [{"id": i, "text": text} for i, text in zip("abb", texts, strict=True)]
    pairs = write(tmp_path / "pairs", [{"a": "a", "b": "b", "label": "distinct"}])
    assert evaluate(write(tmp_path / "pages", pages), pairs, NearLimits())["pairs"] == 1
    clashing = write(tmp_path / "pages", [*pages, {"id": "b", "text": texts[0]}])
    with pytest.raises(InputError, match="pages: two pages of other texts have the id 'b'; give"):
        evaluate(clashing, pairs, NearLimits())
    assert calibrate(clashing)["pages"] == 2


def test_calibration_reads_the_first_pages_only(files: tuple[Path, Path]) -> None:
    assert calibrate(files[0], max_pages=3)["pages"] == 3


def test_calibration_proposes_limits_that_tell_the_pages_apart(
    files: tuple[Path, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    report = calibrate(files[0])
    assert (report["pages"], report["near"]) == (60, 30)
    assert (report["precision"], report["recall"]) == (1.0, 1.0)
    proposal = NearLimits(**report["proposal"])
    assert evaluate(*files, proposal)["f1"] == 1.0
    assert commands.main(["calibrate", str(files[0])]) == 0
    assert f"NEARDUP_DISTANCE = {proposal.distance}" in capsys.readouterr().out
    assert commands.main(["calibrate", str(files[0]), "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == report


def test_calibration_without_near_pages_keeps_the_defaults(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pages = [{"url": f"http://a.example/{i}", "text": " ".join(words_of(200, i))} for i in range(9)]
    path = write(tmp_path / "pages", pages)
    assert commands.main(["calibrate", str(path)]) == 0
    assert "No pair is near: keep the defaults." in capsys.readouterr().out
    assert NearLimits(**calibrate(path)["proposal"]) == NearLimits()


def test_calibration_needs_two_different_pages(tmp_path: Path) -> None:
    same = write(tmp_path / "pages", [{"id": i, "text": "the same words"} for i in range(9)])
    with pytest.raises(InputError, match="fewer than two pages with different words"):
        calibrate(same)


def test_a_sample_stands_for_all_likely_pairs() -> None:
    reader = Detector(load_engine("auto"), load_index("scan"))
    template = [f"same{i}" for i in range(300)]
    readings = [
        reader.read("http://a.example/", " ".join([*template, *words_of(n, seed)]))
        for seed in range(20)
        for n in (20, 60, 150)
    ]
    sample = sampled(readings, 200, np.random.default_rng(1))
    assert len(sample.first) < 400 < sample.n_likely
    assert sample.weights.sum() == pytest.approx(sample.n_likely, rel=0.2)
    assert (sample.first < sample.second).all()


def test_few_heavy_pairs_are_less_sure_than_many_light_ones() -> None:
    light = weighted(np.ones(100, dtype=bool), np.ones(100))
    heavy = weighted(np.ones(100, dtype=bool), np.array([1e6, *[1.0] * 99]))
    assert light.low > 0.95
    assert heavy.low < 0.25


def test_a_text_shorter_than_a_shingle_is_one() -> None:
    assert shingles(b"two words") == {(b"two", b"words")}
    assert len(shingles(b"a b c d e f")) == 2


def test_the_defaults_meet_their_targets_on_real_pages(shared_data: Path) -> None:
    pairs = shared_data / "pairs"
    files = pairs / "pages.jsonl.gz", pairs / "pairs.jsonl.gz"
    report = evaluate(*files, NearLimits(), templates=True, keys=2)
    assert report["recall_over_keys"]["low"] >= 0.99
    # Two pairs of one page under two templates: distinct as a whole, equal by their main text.
    assert report["wrong"] <= 2
    report = evaluate(*files, NearLimits(), templates=True, label="label")
    assert (report["precision"], report["recall"] >= 0.92) == (1.0, True)
    report = evaluate(*files, NearLimits(), templates=True, whole_pages=True)
    assert report["recall"] >= 0.91


def test_no_page_of_a_real_documentation_is_dropped_for_one_on_another_subject(
    shared_data: Path,
) -> None:
    """Versions of a page have a group of their own; classes of an API share most of their words."""
    known = Detector(load_engine("auto"), load_index("permuted", blocks=7, distance=6))
    groups: dict[str, str] = {}
    n_dropped = 0
    for _, page in lines_of(shared_data / "pairs" / "pages.jsonl.gz"):
        url = f"{page['url']}#{page['id']}"
        groups[url] = page["group"]
        decision = known.decide(known.read(url, content_of_html(page["html"], page["url"])))
        if decision.original is not None and decision.is_duplicate:
            n_dropped += 1
            assert groups[decision.original] == page["group"], (url, decision)
    assert n_dropped > 500


def test_keys_tell_what_is_chance(
    files: tuple[Path, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    report = evaluate(*files, NearLimits(), keys=3)
    assert report["recall_over_keys"] == {"median": 1.0, "low": 1.0, "high": 1.0}
    assert report["flips"] == {"n": 0, "of": 90, "low": None, "high": None}
    strict = evaluate(*files, NearLimits(similarity=0.975), keys=3)
    assert 0 < strict["flips"]["n"] <= 60
    assert 0.9 < strict["flips"]["low"] <= strict["flips"]["high"] < 1
    assert commands.main(["evaluate", *map(str, files), "--keys", "2"]) == 0
    assert "0 of 90 pairs change sides with the key" in capsys.readouterr().out


def test_pages_of_other_sites_are_no_duplicates_within_a_site(files: tuple[Path, Path]) -> None:
    assert evaluate(*files, NearLimits(), scope="site")["recall"] == 0.0


def test_the_field_of_the_label_can_be_named(files: tuple[Path, Path]) -> None:
    report = evaluate(*files, NearLimits(), label="label")
    assert (report["pairs"], report["found"] + report["missed"]) == (90, 30)
    with pytest.raises(InputError, match="line 1: the pair has no field 'other'"):
        evaluate(*files, NearLimits(), label="other")


@pytest.mark.parametrize("kind", ["csv", "json", "jsonl.zst", "parquet", "warc.gz"])
def test_pages_and_pairs_come_from_every_format_that_dedup_reads(tmp_path: Path, kind: str) -> None:
    pytest.importorskip("pyarrow", reason="the extra [dedup] is not installed")
    texts = [" ".join(words_of(300, i)) for i in range(4)]
    texts += [f"{text} edit" for text in texts]
    rows = [{"id": f"p{i}", "url": f"http://a.example/{i}", "text": t} for i, t in enumerate(texts)]
    ids = [row["url"] if kind == "warc.gz" else row["id"] for row in rows]
    pairs = [{"a": ids[i], "b": ids[i + 4], "label": "near"} for i in range(4)]
    pairs += [{"a": ids[i], "b": ids[(i + 1) % 4], "label": "distinct"} for i in range(4)]
    pages = stored(tmp_path / f"pages.{kind}", rows)
    labels = stored(tmp_path / f"pairs.{kind.replace('warc.gz', 'csv')}", pairs)
    report = evaluate(pages, labels, NearLimits())
    assert (report["found"], report["kept"], report["pairs"]) == (4, 4, 8)
    assert calibrate(pages)["near"] == 4


def stored(path: Path, rows: list[dict[str, str]]) -> Path:
    """Rows in the format that a name calls for."""
    import pyarrow as pa
    import pyarrow.parquet as pq
    import zstandard

    lines = "".join(json.dumps(row) + "\n" for row in rows).encode()
    if path.suffix == ".parquet":
        pq.write_table(pa.Table.from_pylist(rows), path)
    elif path.suffix == ".csv":
        text = io.StringIO(newline="")
        writer = csv.DictWriter(text, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
        path.write_bytes(text.getvalue().encode("utf-8-sig"))
    elif path.suffix == ".gz":
        path.write_bytes(b"".join(gzip.compress(record_of(row)) for row in rows))
    elif path.suffix == ".json":
        path.write_text(json.dumps(rows), "utf-8")
    else:
        path.write_bytes(zstandard.compress(lines))
    return path


def record_of(row: dict[str, str]) -> bytes:
    """A page as a response in WARC."""
    block = f"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n<p>{row['text']}</p>".encode()
    head = f"WARC/1.1\r\nWARC-Type: response\r\nWARC-Target-URI: {row['url']}\r\n"
    head += "WARC-Date: 2026-11-01T00:00:00Z\r\nWARC-Record-ID: <urn:x:y>\r\n"
    head += f"Content-Type: application/http\r\nContent-Length: {len(block)}\r\n\r\n"
    return head.encode() + block + b"\r\n\r\n"
