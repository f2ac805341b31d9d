"""Crawls learn rules for URLs from their pages, keep them, and say what they would save."""

import json
import logging
from pathlib import Path
from typing import Any

import pytest
from crawls import Outcome, crawl_requests
from mock_site import MockSite, page, prose
from scrapy import Request

from scrapy_neardup import commands
from scrapy_neardup.crawl.learning.url_learning import (
    BATCH,
    JudgedPage,
    PutAside,
    bare_host_of,
    weight_in_sample,
)
from scrapy_neardup.errors import StateError
from scrapy_neardup.learn.changes import ABSENT, UrlChange
from scrapy_neardup.learn.rule import Rule
from scrapy_neardup.learn.stored_rules import FILE, as_record, read_rules
from scrapy_neardup.report.data import Collected
from scrapy_neardup.settings import NearDupSettings
from scrapy_neardup.state.learnt_rules import load_rules, save_rules
from scrapy_neardup.state.mac import RULES, signed_json
from scrapy_neardup.state.secret import key_in

N = 60
SETTINGS = {"NEARDUP_LEARN_ERROR": 0.1}  # 29 predictions


@pytest.fixture
def items(mock_site: MockSite) -> list[str]:
    """Paths of a site on which print=1 shows the same, and v=… something else."""
    paths = []
    for i in range(N):
        for query in ("", "?print=1"):
            mock_site.add(f"/item/{i}{query}", page(prose(f"item {i}")))
            paths.append(f"/item/{i}{query}")
        mock_site.add(f"/item/{i}?v=old", page(prose(f"item {i}, old")))
        paths.append(f"/item/{i}?v=old")
    return paths


def crawl(site: MockSite, paths: list[str], **settings: Any) -> Outcome:
    return crawl_requests(site, *paths, settings=SETTINGS | settings)


def rules_in(folder: Path) -> list[Rule]:
    return read_rules((folder / FILE).read_text())[0]


def test_a_crawl_says_what_its_rules_would_have_saved(
    mock_site: MockSite, items: list[str], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "scrapy_neardup")
    outcome = crawl(mock_site, items, NEARDUP_STATE_DIR=str(tmp_path), LOG_LEVEL="INFO")
    n_saved = N - 29 - 5
    assert outcome.stat("learn/rules/trusted") == 1
    assert outcome.stat("learn/would_save") == n_saved
    (told,) = (r.getMessage() for r in caplog.records if "learnt rule" in r.getMessage())
    assert f"1 learnt rule would have saved {n_saved} of {outcome.stat('learn/pages')}" in told
    assert f"scrapy neardup rules {tmp_path}" in told


def test_pages_wait_to_be_learnt_from_until_their_host_has_a_copy() -> None:
    aside = PutAside()

    def settled(host: str, i: int, original: str | None = None) -> JudgedPage:
        url = f"http://{host}.example/{i}"
        return JudgedPage(bare_host_of(url), url, original, True, 1)

    pages = [settled(host, i) for i in range(9) for host in "ab"]
    assert not any(map(aside.add, pages))
    copy = settled("www.a", 9, pages[0].url)
    assert not aside.add(copy)
    later = [settled("a", i) for i in range(10, 10 + BATCH)]
    learnt = [page for one in later for page in aside.add(one)]
    assert len(learnt) == BATCH
    assert [*learnt, *aside.rest()] == [*pages[::2], copy, *later]


def test_urls_that_share_a_number_are_sampled_together_and_stand_for_all() -> None:
    weights = {n: weight_in_sample(f"http://a.example/item/{n}", 16) for n in range(4000)}
    sampled = [n for n, weight in weights.items() if weight]
    assert all(weight_in_sample(f"http://a.example/item/{n}?s={n % 7}f", 16) for n in sampled)
    assert sum(weights.values()) == pytest.approx(4000, rel=0.4)  # by chance within 0.06, mostly
    assert all(weight_in_sample(f"http://a.example/item/{n}", 1) == 1 for n in weights)


@pytest.mark.parametrize("learn", ["watch", "act"])
def test_a_url_without_a_host_teaches_nothing_and_is_no_error(
    mock_site: MockSite, tmp_path: Path, learn: str
) -> None:
    requests = [Request(f"data:text/plain,{prose(1, 30)} {i}") for i in range(3)]
    settings = {"NEARDUP_LEARN": learn, "NEARDUP_STATE_DIR": str(tmp_path)}
    outcome = crawl_requests(mock_site, *requests, settings=settings)
    assert len(outcome.items) == 3
    assert outcome.stat("errors/learn") == 0


def test_watching_changes_nothing(mock_site: MockSite, items: list[str]) -> None:
    watched = crawl(mock_site, items)
    hits = dict(mock_site.hits)
    mock_site.hits.clear()
    unwatched = crawl(mock_site, items, NEARDUP_LEARN="off")
    assert watched.items == unwatched.items
    assert hits == dict(mock_site.hits)
    assert "neardup/learn/pages" not in unwatched.stats


def test_rules_are_kept_for_later_crawls(
    mock_site: MockSite, items: list[str], tmp_path: Path
) -> None:
    half = [path for i, path in enumerate(items) if i // 3 < N // 2]
    rest = [path for path in items if path not in half]
    assert crawl(mock_site, half, NEARDUP_STATE_DIR=str(tmp_path)).stat("learn/rules/trusted") == 0
    (rule,) = rules_in(tmp_path)
    assert rule.right == N // 2 - 5
    assert crawl(mock_site, rest, NEARDUP_STATE_DIR=str(tmp_path)).stat("learn/rules/trusted") == 1


def test_damaged_rules_are_set_aside(mock_site: MockSite, tmp_path: Path) -> None:
    for damaged in (
        "{",
        '{"format": 2, "rules": [{}]}',
        '{"format": 2, "dry": {}, "rules": []}',
        '{"format": 9, "dry": {}, "rules": []}',
        "[]",
    ):
        (tmp_path / FILE).write_text(damaged)
        outcome = crawl(mock_site, ["/page/1"], NEARDUP_STATE_DIR=str(tmp_path))
        assert outcome.stat("errors/learn") == 0
        assert not (tmp_path / FILE).exists()
    assert len(list(tmp_path.glob(f"{FILE}.damaged*"))) == 5


def test_pages_of_one_text_with_other_data_confirm_nothing(mock_site: MockSite) -> None:
    for i in range(N):
        mock_site.add(f"/item/{i}", page(prose(f"item {i}")))
        data = '<script type="application/ld+json">{"price": "%d"}</script>'
        mock_site.add(f"/item/{i}?v=old", page(prose(f"item {i}"), head=data % i))
    paths = [f"/item/{i}{query}" for i in range(N) for query in ("", "?v=old")]
    assert crawl(mock_site, paths).stat("learn/rules/trusted") == 0


# --- the command


@pytest.fixture
def learnt(mock_site: MockSite, items: list[str], tmp_path: Path) -> Path:
    crawl(mock_site, items, NEARDUP_STATE_DIR=str(tmp_path), NEARDUP_KEY=None)
    return tmp_path


def test_rules_are_shown_with_their_evidence(
    learnt: Path, mock_site: MockSite, capsys: pytest.CaptureFixture[str]
) -> None:
    assert commands.main(["rules", str(learnt)]) == 0
    shown = capsys.readouterr().out
    assert "print=1 shows what the URL without it shows" in shown
    assert mock_site.url("/item/0?print=1") in shown
    assert "1 of 1 learnt rules are trusted" in shown
    assert commands.main(["rules", str(learnt), "--json"]) == 0
    (rule,) = json.loads(capsys.readouterr().out)["rules"]
    assert rule["error_bound"] < 0.1
    assert rule["standing"] == "trusted"


def test_rules_that_somebody_else_wrote_do_not_count(learnt: Path, mock_site: MockSite) -> None:
    rules, key = rules_in(learnt), key_in(learnt)
    save_rules(learnt, rules, {}, key ^ 1)
    with pytest.raises(StateError, match="not written under this folder's key"):
        load_rules(learnt, key)
    assert commands.main(["rules", str(learnt)]) == commands.WRONG_USE
    assert commands.main(["check", str(learnt)]) == commands.NOTHING_FOUND
    settings = {"NEARDUP_STATE_DIR": str(learnt), "NEARDUP_LEARN": "act", "NEARDUP_KEY": None}
    outcome = crawl(mock_site, ["/item/0"], **settings)
    assert not outcome.stat("learn/rules/trusted")
    assert (learnt / f"{FILE}.damaged").exists()


def test_damaged_rules_are_repaired(learnt: Path) -> None:
    (learnt / FILE).write_bytes(b"[" * 50_000)
    assert commands.main(["check", str(learnt)]) == commands.NOTHING_FOUND
    assert commands.main(["repair", str(learnt)]) == 0
    assert commands.main(["check", str(learnt)]) == 0


def test_a_rule_can_be_forgotten_and_pinned(
    learnt: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert commands.main(["rules", str(learnt), "--pin", "1"]) == 0
    assert rules_in(learnt)[0].pinned
    assert commands.main(["rules", str(learnt), "--forget", "2"]) == 1
    assert commands.main(["rules", str(learnt), "--forget", "1"]) == 0
    assert not rules_in(learnt)


def test_rules_are_exported_as_site_rules(
    learnt: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "exported.json"
    assert commands.main(["rules", str(learnt), "--export", str(file)]) == 0
    rules = NearDupSettings(url_site_rules=str(file)).url_site_rules  # type: ignore[arg-type]
    shape = rules_in(learnt)[0].shape
    root = f"http://{shape.partition('/')[0]}"
    assert rules.apply(f"{root}/item/7?print=1") == f"{root}/item/7"
    assert rules.apply(f"{root}/item/7?print=2") == f"{root}/item/7?print=2"


def test_rules_are_learnt_from_a_ledger(learnt: Path, tmp_path: Path) -> None:
    commands.main(["rules", str(learnt), "--forget", "1"])
    assert not rules_in(learnt)
    assert commands.main(["rules", str(learnt), "--learn-from", str(learnt)]) == 0
    (rule,) = rules_in(learnt)
    assert rule.right == N - 5


def test_rules_are_learnt_from_the_clusters_of_files(learnt: Path, tmp_path: Path) -> None:
    commands.main(["rules", str(learnt), "--forget", "1"])
    source, out = tmp_path / "pages.jsonl", tmp_path / "out"
    with source.open("w") as file:
        for i in range(N):
            for query in ("", "&print=1"):
                url, text = f"http://b.example/item?id={i}{query}", prose(f"item {i}")
                file.write(json.dumps({"url": url, "text": text}) + "\n")
    report = str(tmp_path / "report.html")
    done = commands.main(
        ["dedup", str(source), "--out", str(out), "--jobs", "1", "--report", report]
    )
    assert done == 0
    assert commands.main(["rules", str(learnt), "--learn-from", str(out)]) == 0
    (rule,) = rules_in(learnt)
    assert rule.shape == "b.example/*"
    assert rule.right == N - 5


def test_the_report_shows_what_was_learnt(learnt: Path) -> None:
    collected = Collected(learnt)
    collected.refresh()
    told: Any = collected.as_dict()["learnt"]
    (rule,) = told["rules"]
    assert rule["words"] == "print=1 shows what the URL without it shows"
    assert rule["standing"] == "trusted"
    assert rule["saved"] > 0
    assert rule["examples"]
    assert told["n_dry"] == 0


def test_damaged_rules_keep_no_report_back(learnt: Path) -> None:
    (learnt / FILE).write_text("{")
    collected = Collected(learnt)
    collected.refresh()
    told: Any = collected.as_dict()["learnt"]
    assert told["rules"] == []


@pytest.mark.parametrize(
    ("named", "made_up"),
    [
        *(("right", "1e999"), ("right", "NaN"), ("right", '"many"'), ("originals", "[1e999]")),
        *(("change", '["argument"]'), ("standing", "[]"), ("values", "[1]"), ("examples", "[[1]]")),
        *(("dry", '{"a": [1e999]}'), ("dry", '{"a": [-1, -1]}'), ("dry", "[1]"), ("rules", "5")),
    ],
)
@pytest.mark.parametrize("is_signed", [False, True])
def test_made_up_rules_are_set_aside(
    tmp_path: Path, named: str, made_up: str, is_signed: bool
) -> None:
    fields = as_record(Rule("a.example/*", UrlChange("argument", "sid", "{id}", ABSENT)))
    fields = {name: json.dumps(value) for name, value in fields.items()} | {named: made_up}
    rule = ", ".join(f'"{name}": {value}' for name, value in fields.items() if name != "dry")
    whole = {"format": "2", "dry": "{}", "rules": f"[{{{rule}}}]"}
    whole |= {named: made_up} if named in whole else {}
    text = ", ".join(f'"{name}": {value}' for name, value in whole.items())
    entry = f"{{{text}}}".encode()
    (tmp_path / FILE).write_bytes((signed_json(7, RULES, entry) if is_signed else entry) + b"\n")
    with pytest.raises(StateError):
        load_rules(tmp_path, 7)
