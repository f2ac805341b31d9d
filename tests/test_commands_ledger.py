"""stats, explain, undo and export say what the ledger knows, and nothing a page can abuse."""

import csv
import json
import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from ledgers import HOSTILE_TEXT, HOSTILE_URL, RULES, near, page, shop, write

from scrapy_neardup.commands import NOTHING_FOUND, WRONG_USE, main
from scrapy_neardup.ledger.schema import Entry
from scrapy_neardup.ledger.undo import Overrides
from scrapy_neardup.report.text_diff import differences

ORIGINAL = "https://shop.example/item/1"
COPY = "https://shop.example/item/1?print=1"
CONTROL = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


@pytest.fixture
def state(tmp_path: Path) -> Path:
    """A shop, a pair with its texts, a repeated URL, and a hostile page."""
    pair = [
        page(ORIGINAL, text="The red chair costs ten euros and is made of oak."),
        near(COPY, ORIGINAL, 31, text="The red chair costs nine euros and is made of oak."),
        Entry(ORIGINAL, "seen", "dropped"),
        near(HOSTILE_URL, HOSTILE_URL + "#", text=HOSTILE_TEXT),
        page(HOSTILE_URL + "#", text=HOSTILE_TEXT.replace("words", "terms")),
        page("=cmd|' /C calc'!A0"),
        page("http://a.example/short", kind="too-short", words=3),
    ]
    return write(tmp_path, [*shop(200), *pair], keep_text=True)


def said(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    """What the command printed; nothing in it may act on a terminal."""
    assert main([str(argument) for argument in arguments]) == 0
    output = capsys.readouterr().out
    assert not CONTROL.search(output)
    return output


def test_stats_counts_sites_patterns_and_savings(
    state: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = said(capsys, "stats", state)
    assert "www1.shop.example/item/{n}" in output
    assert "URLs: about" in output
    told = json.loads(said(capsys, "stats", state, "--json", "--top", "3"))
    assert told["total"]["pages"] == sum(
        n for kind, n in told["total"]["kinds"].items() if kind != "seen"
    )
    assert len(told["clusters"]) == len(told["patterns"]) == 3


def test_explain_names_original_distances_and_the_setting_that_decides_otherwise(
    state: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = said(capsys, "explain", COPY, "--state", state)
    assert ORIGINAL in output
    assert "2 bits apart, limit NEARDUP_DISTANCE=6" in output
    assert "31 bits apart, limit NEARDUP_CONFIRM_DISTANCE=44" in output
    assert "about 0.915 of the 5-word shingles, limit NEARDUP_SIMILARITY=0.88" in output
    assert "SIMILARITY=0.916 or NEARDUP_CONFIRM_DISTANCE=30 or NEARDUP_DISTANCE=1" in output
    assert "[-ten-] {+nine+}" in output


def test_explain_tells_of_an_original_what_repeats_it(
    state: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = said(capsys, "explain", ORIGINAL, "--state", state)
    assert "1 duplicates of it" in output
    assert COPY in output
    assert "URL fetched before" in output


@pytest.mark.parametrize(
    ("entry", "rules", "lines"),
    [
        (
            near(COPY, ORIGINAL),
            {"NEARDUP_COMPARE": "item", "NEARDUP_IGNORE_FIELDS": ["rank"]},
            [
                "their data repeat, too; a field that holds the page repeats as the page does",
                "NEARDUP_IGNORE_FIELDS=['rank']",
                "all visible text",
            ],
        ),
        (
            near(COPY, ORIGINAL, action="kept", data_differ="price"),
            {"NEARDUP_COMPARE": "item", "NEARDUP_EXTRACTOR": "shop.main_text"},
            ["kept because their data differ in price", "shop.main_text"],
        ),
        (
            near(COPY, ORIGINAL, 0, kind="exact", action="kept", data_differ="price, rank"),
            {"NEARDUP_COMPARE": "item", "NEARDUP_IGNORE_FIELDS": ["seen"]},
            ["NEARDUP_IGNORE_FIELDS=['seen', 'price', 'rank'] or NEARDUP_COMPARE='page'"],
        ),
        (
            near(COPY, ORIGINAL, 48, similarity=0.97),
            {},
            [
                "48 bits apart as wholes; near in what the site's templates leave of both",
                "otherwise by           NEARDUP_SIMILARITY=0.971 or NEARDUP_BOILERPLATE='keep'",
            ],
        ),
        (near(COPY, ORIGINAL), {"NEARDUP_COMPARE": "page"}, ["NEARDUP_COMPARE=page"]),
        (
            near(
                COPY, ORIGINAL, kind="near-but-differs", action="kept", differs="number or symbol"
            ),
            {},
            ["a number or symbol, among equal words", "NEARDUP_FACTS='ignore'"],
        ),
        (
            near(COPY, ORIGINAL, kind="contains", action="kept"),
            {},
            ["it holds an earlier page whole", "contains  ", "NEARDUP_CONTAINED='drop'"],
        ),
        (
            near(COPY, ORIGINAL, title=2),
            {"NEARDUP_ITEM_FIELDS": ["name"]},
            ["NEARDUP_ITEM_FIELDS=['name']", "another than the original's"],
        ),
    ],
)
def test_explain_names_the_rule_for_items_and_what_was_compared(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    entry: Entry,
    rules: dict[str, object],
    lines: list[str],
) -> None:
    write(tmp_path, [page(ORIGINAL, title=1), entry], rules=RULES | rules)
    output = said(capsys, "explain", COPY, "--state", tmp_path)
    assert [line for line in lines if line not in output] == []


def test_explain_in_json_says_the_same(state: Path, capsys: pytest.CaptureFixture[str]) -> None:
    told = json.loads(said(capsys, "explain", COPY, "--state", state, "--json"))
    (decision,) = told["decisions"]
    assert decision["original"] == ORIGINAL
    assert decision["rules"]["NEARDUP_DISTANCE"] == 6
    assert [d[1:3] for d in decision["differences"]] == [["ten", "nine"]]


def test_explain_of_a_short_page_names_the_limit(
    state: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "NEARDUP_MIN_WORDS=3" in said(
        capsys, "explain", "http://a.example/short", "--state", state
    )


def test_explain_of_a_hostile_page_is_clean(
    state: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "[-terms-]" in said(capsys, "explain", HOSTILE_URL, "--state", state)


def test_explain_of_an_unknown_url_finds_nothing_and_says_why(
    state: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["explain", "http://nowhere.example/", "--state", str(state)]) == NOTHING_FOUND
    assert "NEARDUP_LEDGER" in capsys.readouterr().err


def test_equal_texts_have_no_differences_and_long_ones_end() -> None:
    assert not list(differences("a b c", "a b c"))
    assert [d[1:3] for d in differences("", "a")] == [("", "a")]
    assert list(differences("a " * 100_000, "b " * 100_000))


def test_undo_of_a_url_needs_no_record(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "journal-0").touch()
    said(capsys, "undo", "http://a.example/x", "--state", tmp_path)
    assert Overrides(tmp_path).wants("http://a.example/x")


@pytest.mark.parametrize("given", ["", "foo", "ftp://a.example/x", "https:/a.example"])
def test_undo_of_what_is_no_url_is_wrong_use(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], given: str
) -> None:
    (tmp_path / "journal-0").touch()
    assert main(["undo", given, "--state", str(tmp_path)]) == WRONG_USE
    assert f"{given!r}: is no URL" in capsys.readouterr().err


@pytest.mark.parametrize(
    "command", [["undo", "http://a.example/x", "--state"], ["rules"]], ids=lambda c: c[0]
)
def test_a_folder_without_a_state_is_wrong_use(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], command: list[str]
) -> None:
    assert main([*command, str(tmp_path)]) == WRONG_USE
    assert "holds no state" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_undo_of_a_pattern_takes_recorded_drops_only(
    state: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = said(capsys, "undo", "https://shop.example/item/*", "--state", state)
    assert output.splitlines()[:2] == [COPY, ORIGINAL]
    overrides = Overrides(state)
    assert overrides.keeps(COPY)
    assert overrides.wants(ORIGINAL)
    assert len(overrides) == 2


def test_undo_can_be_tried_first(state: Path, capsys: pytest.CaptureFixture[str]) -> None:
    told = json.loads(said(capsys, "undo", "*print=1", "--state", state, "--dry-run", "--json"))
    assert COPY in told["undone"]
    assert len(Overrides(state)) == 0


def test_undo_of_a_pattern_without_drops_finds_nothing(
    state: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["undo", "*nowhere*", "--state", str(state)]) == NOTHING_FOUND


def test_undo_in_a_folder_that_is_not_there_is_wrong_use(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["undo", "http://a.example/", "--state", str(tmp_path / "x")]) == WRONG_USE


def test_exports_hold_every_decision_and_agree(
    state: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = [json.loads(line) for line in said(capsys, "export", state).splitlines()]
    assert len(lines) == 207
    said(capsys, "export", state, "-o", tmp_path / "d.csv")
    with (tmp_path / "d.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 207
    assert [row["fingerprint"] for row in rows] == [line["fingerprint"] or "" for line in lines]
    assert {line["key_id"] for line in lines} == {"3f2a9c"}


def test_csv_has_no_cell_that_a_spreadsheet_computes(
    state: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = said(capsys, "export", state, "--format", "csv")
    cells = [cell for row in csv.reader(output.splitlines()) for cell in row]
    assert any(cell.startswith("'=cmd") for cell in cells)
    assert not any(cell.startswith(("=", "+", "-", "@")) for cell in cells)


def test_parquet_holds_the_same(
    state: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pq = pytest.importorskip("pyarrow.parquet", reason="pyarrow is not installed")
    said(capsys, "export", state, "-o", tmp_path / "d.parquet", "--json")
    lines = [json.loads(line) for line in said(capsys, "export", state).splitlines()]
    table = pq.read_table(tmp_path / "d.parquet").to_pylist()
    assert [row["url"] for row in table] == [line["url"] for line in lines]


ON_A_FULL_DISK = """\
import resource, sys
from scrapy_neardup.commands import main
resource.setrlimit(resource.RLIMIT_FSIZE, (33_000, 33_000))
sys.exit(main(sys.argv[1:]))
"""


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such limit")
@pytest.mark.parametrize("name", ["d.csv", "d.jsonl", "r.html"])
def test_a_file_is_as_it_was_where_the_new_one_cannot_be_written(tmp_path: Path, name: str) -> None:
    state = write(tmp_path, shop(600))
    (tmp_path / "to").mkdir()
    output = tmp_path / "to" / name
    output.write_text("of yesterday")
    command = "report" if name == "r.html" else "export"
    program = [sys.executable, "-c", ON_A_FULL_DISK, command, str(state), "-o", str(output)]
    done = subprocess.run(program, capture_output=True, text=True)
    assert done.returncode == WRONG_USE
    assert f"{output}: File too large" in done.stderr
    assert output.read_text() == "of yesterday"
    assert list(output.parent.iterdir()) == [output]


@pytest.mark.skipif(os.name == "nt", reason="Windows has no pipes with names, nor such modes")
def test_a_link_a_pipe_and_a_mode_stay_what_they_are(
    state: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output, link, pipe = (tmp_path / name for name in ("d.csv", "link.csv", "pipe.csv"))
    output.touch(0o600)
    link.symlink_to(output)
    said(capsys, "export", state, "-o", link)
    assert link.is_symlink()
    assert output.stat().st_mode & 0o777 == 0o600
    os.mkfifo(pipe)
    with ThreadPoolExecutor() as threads:
        reading = threads.submit(pipe.read_bytes)
        said(capsys, "export", state, "-o", pipe)
        assert reading.result() == output.read_bytes()
    assert pipe.is_fifo()


def test_an_unknown_format_is_wrong_use(
    state: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["export", str(state), "-o", str(tmp_path / "d.xlsx")]) == WRONG_USE
    assert main(["export", str(state), "--format", "parquet"]) == WRONG_USE


def test_best_names_the_url_to_keep_of_each_cluster(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    long, short = "https://shop.example/item/1?print=1", "https://shop.example/item/1"
    plain, secure = "http://a.example/", "https://a.example/about/us"
    twins = "https://b.example/1", "https://b.example/2"
    entries = [page(long), page(plain), page(twins[0])]
    entries += [near(short, long), near(secure, plain), near(twins[1], twins[0], words=5_000)]
    entries += [Entry(long, "seen", "dropped"), near("https://gone.example/", "https://c.example/")]
    state = write(tmp_path, entries)
    found = json.loads(said(capsys, "best", state, "--json"))
    assert [(row["keep"], row["why"]) for row in found] == [
        (short, "shorter URL"),
        (secure, "https"),
        (twins[1], "more words"),
    ]
    assert [row["copies"] for row in found] == [[long], [plain], [twins[0]]]
    assert f"{secure}  (https; the crawl kept {plain})\n    {plain}\n" in said(
        capsys, "best", state
    )


def test_explain_names_the_spelling_that_was_fetched_the_same_one_first(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other, itself = "http://a.example/2?b=1&a=1", "http://a.example/1"
    entries = [page("http://a.example/1#top"), page(itself), page(other)]
    again = "http://a.example/2?a=1&b=1"
    seen = [Entry(url, "seen", "dropped") for url in (itself, again, again)]
    state = write(tmp_path, [*entries, *seen])
    assert f"fetched as             {itself}\n" in said(capsys, "explain", itself, "--state", state)
    assert said(capsys, "explain", again, "--state", state).count(other) == 2


def test_best_says_where_nothing_repeats(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    state = write(tmp_path, [page("http://a.example/")])
    assert main(["best", str(state)]) == NOTHING_FOUND
    assert "no page of this crawl repeats another" in capsys.readouterr().err


def test_rules_that_are_none_are_not_said_to_be_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "journal-0").touch()
    file = tmp_path / "x y.json"
    assert main(["rules", str(tmp_path), "--export", str(file)]) == NOTHING_FOUND
    told = capsys.readouterr().out
    assert told == f"0 of 0 trusted rules can be written, so there is no {file}\n"
    assert not file.exists()
