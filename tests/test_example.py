"""The example project: its crawl in every mode, the truth of its site, and how it keeps score."""

import re
import socket
import subprocess
import sys
from collections import defaultdict
from contextlib import closing
from itertools import combinations
from pathlib import Path
from threading import Thread
from urllib.parse import urlsplit

import pytest
from example.scorecard import Drop, Outcome, score
from example.site.days import MOVED_FROM, MOVED_ON, REMOVED, REMOVED_ON, Day
from example.site.page import EXACT, SIMILAR, Kind, Page
from example.site.plan import DISALLOWED_LINKS, Plan
from example.site.server import SiteServer
from example.spiders.demo import split_urls
from lxml import html
from mock_site import MockSite, page, prose
from rtl_tools import needs_verilator
from scrapy.exceptions import UsageError

from scrapy_neardup.ledger.reader import LedgerReader
from scrapy_neardup.state.visit_file import FILE, changes, opened, runs

pytestmark = pytest.mark.xdist_group("demo")  # one worker builds what all tests share

PROJECT = Path(__file__).resolve().parents[1] / "example_project"
MODES = {
    "asyncio": (),
    "reactorless": ("-s", "TWISTED_REACTOR_ENABLED=False"),
    "select": ("-s", "TWISTED_REACTOR=twisted.internet.selectreactor.SelectReactor"),
}
COLUMNS = ("on site", "fetched", "never", "kept", "exact", "near", "wrongly", "missed")


def run_scrapy(*arguments: str) -> tuple[str, str]:
    """What a Scrapy command writes in the example project: its output, and its log."""
    done = subprocess.run(
        [sys.executable, "-m", "scrapy", *arguments],
        cwd=PROJECT,
        capture_output=True,
        text=True,
        timeout=300,  # the engine rtl builds itself first
    )
    assert done.returncode == 0, done.stderr
    return done.stdout, done.stderr


def read_table(report: str) -> dict[str, dict[str, int]]:
    """The rows of the printed table by their names."""
    lines = re.findall(r"^ *(\S.*?)((?: +\d+){8})$", report, re.MULTILINE)
    return {name: dict(zip(COLUMNS, map(int, cells.split()), strict=True)) for name, cells in lines}


@pytest.fixture(scope="module", params=MODES)
def printed(request: pytest.FixtureRequest) -> tuple[str, str]:
    return run_scrapy("crawl", "demo", "-s", "NEARDUP_KEY=0", *MODES[request.param])


def test_demo_drops_every_planted_repetition_of_a_text_and_nothing_else(
    printed: tuple[str, str],
) -> None:
    report, log = printed
    rows = read_table(report)
    assert rows.keys() == {*Kind, "all pages"}
    assert rows["all pages"]["wrongly"] == 0
    assert {kind: rows[kind]["missed"] for kind in EXACT} == dict.fromkeys(EXACT, 0)
    assert ", 0 lost" in report
    assert "Traceback" not in log


def test_readme_shows_what_the_demo_prints(printed: tuple[str, str]) -> None:
    readme = (PROJECT.parent / "README.md").read_text()
    assert read_table(readme) == read_table(printed[0])


def decisions_of(engine: str, state: Path) -> tuple[list[tuple[object, ...]], str]:
    """Every decision of the demo in its order, without times and ports; and the crawl's log."""
    settings = {"ENGINE": engine, "KEY": 0, "STATE_DIR": state}
    options = [f"-sNEARDUP_{name}={value}" for name, value in settings.items()]
    _, log = run_scrapy("crawl", "demo", "-sCONCURRENT_REQUESTS=1", *options)
    return [
        (
            urlsplit(d.url)[2:], d.original and urlsplit(d.original)[2:], d.kind, d.action,
            d.fingerprint, d.distance, d.sketch_distance, d.similarity, d.words,
        )
        for d in LedgerReader(state).decisions()
    ], log  # fmt: skip


@pytest.fixture(scope="module")
def usual_decisions(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[object, ...]]:
    return decisions_of("auto", tmp_path_factory.mktemp("auto"))[0]


@pytest.mark.parametrize("engine", ["fpga", "rtl", "numpy"])
def test_demo_is_decided_alike_by_every_engine(
    engine: str,
    usual_decisions: list[tuple[object, ...]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if engine == "rtl":
        needs_verilator()
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    decisions, log = decisions_of(engine, tmp_path / "state")
    assert decisions == usual_decisions
    assert len(decisions) > 500
    if engine != "numpy":
        assert "all pages resident, as in the paper" in log
        assert re.search(r"'neardup/fpga/cycles': [1-9]", log)
    if engine == "rtl":
        counted = dict(re.findall(r"'neardup/fpga/(\w+)': (\d+)", log))
        assert counted["mismatches"] == counted["beyond_counters"] == "0"
        assert counted["checked"] == counted["documents"]
        assert int(counted["checked"]) >= len(decisions)
        assert "engine 'rtl' is not built yet: translating" in log
        assert "engine 'rtl' is not built yet: built in" in log


def test_demo_saves_fetches_keeps_the_months_and_obeys_robots(printed: tuple[str, str]) -> None:
    report, _ = printed
    rows = read_table(report)
    assert rows[Kind.SESSION]["never"] + rows[Kind.TRACKING]["never"] > 0
    # A month's date is a fact, so DEPTH_LIMIT ends the calendar, not the plugin.
    assert 0 < rows[Kind.MONTH]["fetched"] < 60
    assert f"{DISALLOWED_LINKS[0]} linked on every page, fetched 0 times" in report


def test_another_site_is_crawled_within_its_hosts(mock_site: MockSite) -> None:
    elsewhere = "http://localhost:9/"  # nobody answers there
    links = [mock_site.url(path) for path in ("/page/1", "/copy/1", "/private/page")]
    root = mock_site.add("/root", page(prose("root"), *links, elsewhere))
    starts = f"start={root},{mock_site.url('/page/2')}"
    report, _ = run_scrapy("crawl", "demo", "-a", starts, "-s", "DOWNLOAD_DELAY=0")
    counts = dict(re.findall(r"^(\S.*?) {2,}(\d+)$", report, re.MULTILINE))
    assert counts["pages fetched"] == "4"
    assert counts["pages kept"] == "3"
    assert counts["exact duplicates dropped"] == "1"
    assert mock_site.gets("/private/page") == 0


def test_commands_that_crawl_nothing_print_no_table(mock_site: MockSite) -> None:
    report, _ = run_scrapy("parse", "--spider", "demo", mock_site.url("/page/1"))
    assert "on site" not in report
    assert mock_site.gets("/page/1") == 1


def test_a_site_that_was_never_started_stops() -> None:
    """As where a crawl is refused before it has begun."""
    stopped = Thread(target=SiteServer(Plan()).stop, daemon=True)
    stopped.start()
    stopped.join(60)
    assert not stopped.is_alive()


@pytest.mark.parametrize(
    ("urls", "expected"),
    [
        ("", []),
        ("http://a/", ["http://a/"]),
        ("http://a/, https://b/c", ["http://a/", "https://b/c"]),
        ("http://a/x,y?z=1,2", ["http://a/x,y?z=1,2"]),
    ],
)
def test_start_takes_urls_with_commas_between(urls: str, expected: list[str]) -> None:
    assert split_urls(urls) == expected


@pytest.mark.parametrize("urls", ["example.org", "ftp://a/", "http://"])
def test_start_without_a_whole_url_is_refused(urls: str) -> None:
    with pytest.raises(UsageError, match="takes http:// or https:// URLs"):
        split_urls(urls)


# The truth. It is written down where a page is made; here it is held against the pages' words by
# a measure that shares nothing with the detector: Jaccard of the sets of word 5-shingles.


@pytest.fixture(scope="module")
def plan() -> Plan:
    return Plan()


def shingles(page: Page) -> frozenset[tuple[str, ...]]:
    body = html.document_fromstring(page.html).find("body")
    text = " ".join(body.itertext()).lower()
    words = re.findall(r"[\u3040-\u9fff]|[^\W\u3040-\u9fff]+", text)
    return frozenset(tuple(words[i : i + 5]) for i in range(max(1, len(words) - 4)))


def jaccard(a: frozenset[tuple[str, ...]], b: frozenset[tuple[str, ...]]) -> float:
    return len(a & b) / len(a | b)


def by_content(plan: Plan) -> dict[str, list[Page]]:
    groups = defaultdict(list)
    for each in plan.pages.values():
        groups[each.content].append(each)
    return groups


def test_site_has_some_600_pages_of_every_kind(plan: Plan) -> None:
    assert 550 <= len(plan.pages) <= 650
    assert {each.kind for each in plan.pages.values()} == set(Kind) - {Kind.MONTH}


def test_same_seed_gives_the_same_site() -> None:
    assert Plan(3).pages == Plan(3).pages
    assert Plan(3).pages != Plan(4).pages


def test_every_content_has_one_page_of_its_own(plan: Plan) -> None:
    for content, group in by_content(plan).items():
        n_own = sum(not each.kind.repeats for each in group)
        assert n_own == (content != "missing"), content


def test_exact_repetitions_show_the_very_words(plan: Plan) -> None:
    for group in by_content(plan).values():
        same = {shingles(each) for each in group if each.kind in EXACT or not each.kind.repeats}
        assert len(same) == 1


def test_similar_repetitions_share_at_least_three_quarters(plan: Plan) -> None:
    for group in by_content(plan).values():
        first, *others = group
        for other in others:
            if other.kind in SIMILAR:
                assert jaccard(shingles(first), shingles(other)) > 0.75, other.path


def test_empty_months_differ_in_little_but_their_date(plan: Plan) -> None:
    months = [shingles(plan.page(f"/events/?month=2031-{number:02}")) for number in (1, 2, 12)]
    assert all(jaccard(a, b) > 0.75 for a, b in combinations(months, 2))


def test_pages_of_different_content_share_at_most_two_thirds(plan: Plan) -> None:
    firsts = [(group[0].path, shingles(group[0])) for group in by_content(plan).values()]
    closest = max(jaccard(a, b) for (_, a), (_, b) in combinations(firsts, 2))
    assert 0.5 < closest < 0.67  # alike enough to be a test, different enough to be no doubt


# The score, on outcomes made by hand.


@pytest.fixture
def three(plan: Plan) -> tuple[str, str, str]:
    """An article, its later edition, and another article."""
    edition = next(p for p in plan.pages.values() if p.path.endswith("/update"))
    others = (p for p in plan.pages.values() if p.kind is Kind.OWN and p.content != edition.content)
    return edition.path.removesuffix("/update"), edition.path, next(others).path


def test_a_drop_that_names_another_content_is_wrong(
    plan: Plan, three: tuple[str, str, str]
) -> None:
    article, edition, other = three
    kept = [path for path in plan.pages if path != edition]
    for original, n_wrong in ((other, 1), (article, 0)):
        outcome = Outcome(kept, {edition: Drop("near", original)})
        assert score(plan, plan.pages, outcome)[Kind.EDITED].wrong == n_wrong


def test_a_second_page_of_one_content_is_missed(plan: Plan, three: tuple[str, str, str]) -> None:
    rows = score(plan, three, Outcome(list(three)))
    assert (rows[Kind.EDITED].missed, rows[Kind.OWN].missed) == (1, 0)


def test_a_page_never_fetched_is_wrong_unless_its_content_was_kept(plan: Plan) -> None:
    rows = score(plan, [], Outcome())
    assert sum(row.wrong for row in rows.values()) == len(plan.pages)
    firsts = [group[0].path for group in by_content(plan).values()]
    rows = score(plan, firsts, Outcome(firsts))
    assert sum(row.wrong for row in rows.values()) == 0
    assert sum(row.never_fetched for row in rows.values()) == len(plan.pages) - len(firsts)


def test_a_day_later_the_demo_keeps_what_changed(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]

    def crawl(day: int) -> set[str]:
        options = [f"-aday={day}", f"-aport={port}", f"-sNEARDUP_STATE_DIR={tmp_path}"]
        run_scrapy("crawl", "demo", *options)
        with closing(opened(tmp_path / FILE)) as db:
            found = [one for one in changes(db, 1) if one.run == len(runs(db))]
        told = {(urlsplit(one.url).path, one.status.word) for one in found}
        gone = {path for path, status in told if status == "gone"}
        assert all(path.startswith(REMOVED) for path in gone)
        assert bool(gone) == (day == REMOVED_ON)
        assert ((MOVED_FROM, "moved") in told) == (day == MOVED_ON)
        return {path for path, status in told if status == "changed"}

    crawl(1)
    found, site = crawl(2), Day(2)
    truth = {path for path in site.changed if "?" not in path and ";" not in path}
    assert truth <= found
    assert len(found - truth) <= 0.02 * len(site.pages)
