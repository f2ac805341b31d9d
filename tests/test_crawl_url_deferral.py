"""Requests of kinds that bring nothing new wait, and a trap without end is ended."""

from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any, ClassVar

import pytest
from crawls import ADDONS, Outcome, crawl
from mock_site import MockSite, Reply, page, prose, redirect, running_site
from scrapy import Spider
from scrapy.http import Response

from scrapy_neardup import commands
from scrapy_neardup.crawl.learning.url_deferral import KnownLines
from scrapy_neardup.detect.text import words_and_blocks
from scrapy_neardup.learn import dry_kinds
from scrapy_neardup.learn.dry_kinds import (
    DRY,
    ENDED,
    ENDED_FOR_GOOD,
    DryKinds,
    LineSpan,
    bound,
    kind_of,
)
from scrapy_neardup.learn.url_parts import split
from scrapy_neardup.ledger.reader import LedgerReader

# Pages, of which none is new.
DRY_AFTER, ENDED_AFTER, ENDED_FOR_GOOD_AFTER = (
    round(1 / limit) - 1 for limit in (DRY, ENDED, ENDED_FOR_GOOD)
)
N_TRAP, LEVELS, WIDTH = 400, 6, 3
MONTHS = ("January", "February", "March", "April", "May", "June", "July", "August")


def filtered(i: int) -> str:
    return f"/shop/all?filter_color={i % 20}&pa_size={i // 20}"


class TrapSite(MockSite):
    """At depth 2 a trap of combinations of filters; beside it six levels of real content.

    /             → /shop and /real/r
    /shop         → /shop/all?… with 400 combinations of filters: the same list each time
    /real/r…      a page of its own at each level, with links to three at the next, and to five
                  combinations of filters
    /calendar?m=N a month without events, for ever
    /events?m=N   the same, in a few words
    """

    def reply(self, method: str, path: str, cookie: str, body: bytes) -> Reply:
        with self._lock:
            self.hits[method, path] += 1
        if path == "/":
            return Reply(page(prose("start"), "/shop", "/real/r"))
        if path == "/shop":
            return Reply(page(prose("shop"), *map(filtered, range(N_TRAP))))
        if path.startswith("/shop/all"):
            return Reply(page(prose("all shoes"), "/shop"))
        if path.startswith("/real/"):
            name = path.rpartition("/")[2]
            deeper = len(name) < LEVELS
            links = (f"/real/{name}{i}" for i in range(WIDTH)) if deeper else ()
            menu = map(filtered, Random(name).sample(range(N_TRAP), 5))
            return Reply(page(prose(name), *links, *menu))
        if path.startswith("/events"):
            month = int(path.rpartition("=")[2])
            text = f"No events in {MONTHS[month % 8]} {2020 + month // 8}"
            return Reply(page(text, f"/events?m={month + 1}", f"/events?m={month + 2}"))
        if path.startswith("/calendar"):
            month = int(path.rpartition("=")[2])
            text = f"{prose('No events in this month')} {month}"
            return Reply(page(text, f"/calendar?m={month + 1}", f"/calendar?m={month + 2}"))
        return Reply(page("not found"), 404)


@pytest.fixture
def site() -> Iterator[TrapSite]:
    with running_site(TrapSite) as running:
        yield running


class Following(Spider):
    """Follows every link, and makes items of real pages."""

    name = "following"

    def parse(self, response: Response) -> Iterator[Any]:
        if "/real/" in response.url:
            yield {"text": response.css("p::text").get()}
        yield from response.follow_all(css="a")


def run(site: TrapSite, start: str = "/", **settings: Any) -> Outcome:
    settings = {"NEARDUP_LEARN": "act", "CONCURRENT_REQUESTS": 4} | settings
    return crawl(Following, settings, start_urls=[site.url(start)])


def n_real(site: TrapSite) -> int:
    return sum(path.startswith("/real/") for _, path in site.hits)


def n_months(site: TrapSite) -> int:
    return sum(path.startswith("/calendar") for _, path in site.hits)


ALL_REAL = sum(WIDTH**level for level in range(LEVELS))


BREADTH_FIRST = {
    "DEPTH_PRIORITY": 1,
    "SCHEDULER_DISK_QUEUE": "scrapy.squeues.PickleFifoDiskQueue",
    "SCHEDULER_MEMORY_QUEUE": "scrapy.squeues.FifoMemoryQueue",
}


@pytest.mark.parametrize("settings", [{}, BREADTH_FIRST])
def test_a_budget_is_spent_on_what_is_new(site: TrapSite, settings: dict[str, Any]) -> None:
    limit = {"CLOSESPIDER_PAGECOUNT": 300, "CONCURRENT_REQUESTS": 1}  # one order of answers
    settings = settings | limit
    run(site, NEARDUP_LEARN="watch", **settings)
    assert n_real(site) < 110
    site.hits.clear()
    run(site, **settings)
    assert n_real(site) >= 200


def test_without_a_budget_all_that_has_an_end_is_read(site: TrapSite) -> None:
    outcome = run(site)
    assert n_real(site) == len(outcome.items) == ALL_REAL
    assert sum("/shop/all" in path for _, path in site.hits) == N_TRAP
    assert not outcome.stat("urls/deferred")


@pytest.mark.parametrize("start", ["/calendar?m=1", "/events?m=1"])
def test_a_calendar_without_end_ends(site: TrapSite, start: str) -> None:
    outcome = run(site, start)
    assert outcome.stats["finish_reason"] == "finished"
    assert ENDED_AFTER <= sum(site.hits.values()) < ENDED_AFTER + 100


def test_what_was_deferred_can_be_fetched(
    site: TrapSite, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = {"NEARDUP_STATE_DIR": str(tmp_path)}
    first = run(site, "/calendar?m=1", **folder)
    assert commands.main(["rules", str(tmp_path)]) == 0
    assert "/calendar?1  ended: of the last" in capsys.readouterr().out
    waiting = next(d.url for d in LedgerReader(tmp_path).decisions() if d.kind == "deferred")
    assert commands.main(["explain", waiting, "--state", str(tmp_path)]) == 0
    assert "brought nothing new" in capsys.readouterr().out
    assert commands.main(["undo", "--deferred", "--state", str(tmp_path)]) == 0
    site.hits.clear()
    second = run(site, "/real/r", **folder)
    n_deferred = first.stat("urls/deferred")
    assert n_deferred <= n_months(site) < 3 * n_deferred
    assert second.stat("urls/deferred") > 0  # what they led to


class HandingOn(Following):
    """Hands on to each shop page which page it was found on."""

    def parse(self, response: Response, found_on: str = "") -> Iterator[Any]:
        for request in super().parse(response):
            if "/shop/all" in getattr(request, "url", ""):
                request = request.replace(cb_kwargs={"found_on": response.url})
            yield request


def test_a_request_that_may_carry_an_item_does_not_wait(site: TrapSite, tmp_path: Path) -> None:
    settings = {"NEARDUP_LEARN": "act", "NEARDUP_STATE_DIR": str(tmp_path)}
    crawl(HandingOn, settings, start_urls=[site.url("/")])
    assert sum("/shop/all" in path for _, path in site.hits) == N_TRAP
    assert not any(decided.kind == "deferred" for decided in LedgerReader(tmp_path).decisions())


def came(kinds: DryKinds, *new: bool, kind: str = "a", leads: str = "a") -> None:
    """Pages of a kind came, each of which gave a new URL."""
    for is_new in new:
        kinds.came(kind, "group", is_new, {leads: 1})


def ended(kinds: DryKinds, *waiting: str) -> set[str]:
    """The kinds that end where the same requests of some wait as before."""
    kinds.find_ended(dict.fromkeys(waiting, LineSpan(0, 0)))
    return kinds.ended


def test_a_kind_that_brings_something_new_again_is_read_on() -> None:
    kinds = DryKinds()
    came(kinds, *[False] * ENDED_AFTER)
    assert ended(kinds, "a") == {"a"}
    came(kinds, True)
    assert kinds.is_dry("a")
    assert not ended(kinds, "a")
    came(kinds, True, True)
    assert not kinds.is_dry("a")
    for _ in range(DRY_AFTER):
        assert not kinds.is_dry("a")
        came(kinds, False)
    assert kinds.is_dry("a")


def test_kinds_that_lead_to_each_other_for_ever_end_together() -> None:
    kinds = DryKinds()
    for _ in range(ENDED_AFTER):
        came(kinds, False, kind="month", leads="day")
        came(kinds, False, kind="day", leads="month")
    assert kinds.is_dry("month")
    assert ended(kinds, "day") == {"month", "day"}


def test_a_kind_that_leads_to_what_may_be_new_is_not_dry() -> None:
    kinds = DryKinds()
    for _ in range(ENDED_AFTER):
        came(kinds, False, kind="list", leads="page")
    assert not kinds.is_dry("list")
    came(kinds, *[False] * DRY_AFTER, kind="page", leads="page")
    assert kinds.is_dry("list")
    assert not ended(kinds, "list", "page")
    came(kinds, True, True, True, kind="page", leads="page")
    assert not kinds.is_dry("list")


def test_what_waited_when_the_newest_new_page_came_is_due() -> None:
    kinds = DryKinds()
    came(kinds, True)
    kinds.find_ended({"a": LineSpan(0, 40)})
    came(kinds, *[False] * ENDED_AFTER)
    for oldest, due_to in ((0, 40), (40, 40), (41, -1)):
        kinds.find_ended({"a": LineSpan(oldest, 900)})
        assert kinds.ended == {"a"}
        assert kinds.due_to("a") == due_to
        assert kinds.kept()["a"].has_ended == (due_to < 0)


def test_after_a_thousand_pages_with_nothing_new_nothing_is_due() -> None:
    kinds = DryKinds()
    came(kinds, *[False] * (ENDED_FOR_GOOD_AFTER - 1))
    assert ended(kinds, "a") == {"a"}
    assert kinds.due_to("a") == 0
    came(kinds, False)
    assert ended(kinds, "a") == {"a"}
    assert kinds.due_to("a") == -1


def test_what_does_not_grow_is_read_to_its_end() -> None:
    kinds = DryKinds()
    for _ in range(3 * ENDED_AFTER):
        kinds.came("copies", "group", False, {})
        came(kinds, True, kind="list", leads="copies")
    assert kinds.is_read_through("copies")
    assert not ended(kinds, "copies")


def test_a_kind_whose_source_has_run_dry_is_read_to_its_end() -> None:
    kinds = DryKinds()
    for _ in range(ENDED_AFTER):
        kinds.came("list", "group", False, {"list": 1, "page": 1})
        kinds.came("page", "group", False, {})
    assert ended(kinds, "list", "page") == {"list", "page"}
    assert not ended(kinds, "page")


def test_copies_right_behind_their_originals_make_no_kind_dry() -> None:
    kinds = DryKinds()
    came(kinds, *[True, False, False] * ENDED_AFTER)
    assert not kinds.is_dry("a")


@pytest.mark.parametrize("share", [0.02, 0.1, 0.5])
def test_the_bound_holds_for_pages_in_random_order(share: float) -> None:
    """How often a kind is dry after n pages, and the next one is new."""
    chance, n_pages, n_trials = Random(1), DRY_AFTER, 3000
    contents = [f"page {i}" for i in range(int(100 * share))]
    n_wrong = 0
    for _ in range(n_trials):
        pages = [chance.choice(contents) for _ in range(2 * n_pages + 1)]
        kinds = DryKinds()
        came(kinds, *(page not in pages[:i] for i, page in enumerate(pages[:-1])))
        n_wrong += kinds.is_dry("a") and pages[-1] not in pages[:-1]
    limit = bound(0, n_pages) * n_trials
    assert n_wrong <= limit + 4 * limit**0.5


def test_dry_kinds_are_kept() -> None:
    kinds, later = DryKinds(), DryKinds()
    for i in range(100):
        kinds.came("a", "", False, {})
        kinds.came("b", "", i == 20, {})
        kinds.came("c", "", True, {})
    assert ended(kinds, "a", "b", "c") == set()
    came(kinds, *[False] * ENDED_AFTER)
    kinds.find_ended({"a": LineSpan(1, 1)})  # what waited before was read
    assert kinds.ended == {"a"}
    later.restore(kinds.kept())
    assert set(later.kept()) == {"a", "b"}
    assert later.kept()["b"] == kinds.kept()["b"]
    assert ended(later, "a", "b") == {"a"}
    assert later.due_to("a") == -1


class Sections(MockSite):
    """One kind of URLs: in two sections the same page for ever, and pages of others."""

    good: ClassVar[list[str]] = [f"/blog/{who}/{i}" for who in ("alice", "bob") for i in range(5)]

    def reply(self, method: str, path: str, cookie: str, body: bytes) -> Reply:
        with self._lock:
            self.hits[method, path] += 1
        if path == "/":
            return Reply(page(prose("start"), "/blog/eve/1", "/blog/mallory/1"))
        if path in self.good or path == "/robots.txt":
            return Reply(page(prose(path)))
        who, i = path.removeprefix("/blog/").split("/")
        links = [f"/blog/{who}/{int(i) + 1}", f"/blog/{who}/{int(i) + 2}"]
        return Reply(page(prose("spam"), *links, *(self.good if i == "33" else ())))


@pytest.mark.parametrize("settings", [{}, BREADTH_FIRST])
def test_nobody_ends_a_kind_while_pages_of_others_wait(
    settings: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What leads to them is itself of the kind, and says nothing new."""
    monkeypatch.setattr(dry_kinds, "ENDED", 1 / 101)
    with running_site(Sections) as site:
        outcome = run(site, **settings)
        assert outcome.stat("urls/deferred") > 0
        assert all(site.gets(path) for path in Sections.good)


class Needles(MockSite):
    """600 copies of one page, and among them three of others."""

    good: ClassVar[list[str]] = [f"/account/{i}" for i in (17, 301, 588)]

    def reply(self, method: str, path: str, cookie: str, body: bytes) -> Reply:
        with self._lock:
            self.hits[method, path] += 1
        if path == "/":
            return Reply(page(prose("start"), *(f"/account/{i}" for i in range(600))))
        return Reply(page(prose(path if path in self.good else "please log in")))


def test_a_page_among_any_number_of_copies_is_found() -> None:
    with running_site(Needles) as site:
        run(site)
        assert all(site.gets(path) for path in Needles.good)


class EventCalendar(MockSite):
    """Days that lead to the next and to the next month, for ever; of two years, one a month has an
    event."""

    n_months = 24

    def reply(self, method: str, path: str, cookie: str, body: bytes) -> Reply:
        with self._lock:
            self.hits[method, path] += 1
        if path.startswith("/event/") or path == "/robots.txt":
            return Reply(page(prose(path)))
        month, day = (int(n) for n in path.removeprefix("/day/").split("/"))
        links = [f"/day/{month}/{day + 1}" if day < 28 else f"/day/{month + 1}/1"]
        links.append(f"/day/{month + 1}/{day}")
        if day == 14 and month <= self.n_months:
            links.append(f"/event/{month}")
        return Reply(page(f"{prose('No events on')} {day}. {month}", *links))


def test_a_calendar_is_read_from_its_beginning() -> None:
    with running_site(EventCalendar) as site:
        outcome = run(site, "/day/1/1", CLOSESPIDER_PAGECOUNT=6000)
        assert outcome.stats["finish_reason"] == "finished"
        assert all(site.gets(f"/event/{month}") for month in range(1, site.n_months + 1))


class MovedCalendar(MockSite):
    """Months without an end that are reached by redirects; 20 of them have an event."""

    n_events = 20

    def reply(self, method: str, path: str, cookie: str, body: bytes) -> Reply:
        with self._lock:
            self.hits[method, path] += 1
        if path.startswith("/event/") or path == "/robots.txt":
            return Reply(page(prose(path)))
        month = int(path.rpartition("/")[2])
        if path.startswith("/go/"):
            return redirect(f"/month/{month}")
        if path.startswith("/wait/"):
            return Reply(f'<meta http-equiv="refresh" content="0; url=/month/{month}">'.encode())
        links = [f"/go/{month + 1}", f"/wait/{month + 2}"]
        if month <= self.n_events:
            links.append(f"/event/{month}")
        return Reply(page(f"{prose('No events in')} {month}", *links))


def test_a_calendar_that_is_reached_by_redirects_ends() -> None:
    with running_site(MovedCalendar) as site:
        outcome = run(site, "/month/1", CLOSESPIDER_PAGECOUNT=3000)
        assert outcome.stats["finish_reason"] == "finished"
        assert all(site.gets(f"/event/{month}") for month in range(1, site.n_events + 1))


class Tokens(MockSite):
    """Pages whose URLs have a random argument, and whose links are new with each download."""

    n_pages = 20

    def reply(self, method: str, path: str, cookie: str, body: bytes) -> Reply:
        with self._lock:
            self.hits[method, path] += 1
        if path == "/robots.txt":
            return Reply(b"", 404)
        number = int(path.partition("?")[0].removeprefix("/p/"))
        chance = Random(path)
        linked = (f"/p/{i}?tok={chance.randbytes(8).hex()}7" for i in range(self.n_pages))
        return Reply(page(prose(number), *linked))


def test_tokens_in_urls_end_though_every_page_has_new_links(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(dry_kinds, "ENDED", 1 / 61)
    monkeypatch.setattr(dry_kinds, "ENDED_FOR_GOOD", 1 / 181)
    with running_site(Tokens) as site:
        outcome = run(site, "/p/0", NEARDUP_LEARN_ERROR=0.1, CLOSESPIDER_PAGECOUNT=1000)
        assert outcome.stats["finish_reason"] == "finished"
        assert {path.partition("?")[0] for _, path in site.hits} >= {
            f"/p/{i}" for i in range(site.n_pages)
        }


def test_a_line_that_grows_by_the_same_words_says_nothing_new() -> None:
    known = KnownLines()
    assert known.adds(*words_and_blocks(prose("the page") + "\ngrow p=1"))
    growing = "grow " + "&".join(f"p={i}" for i in range(90))
    assert not known.adds(*words_and_blocks(f"{prose('the page')}\n{growing}"))
    assert known.adds(*words_and_blocks(f"{prose('the page')}\n{prose('more of it', 20)}"))


@pytest.mark.parametrize(
    ("url", "kind"),
    [
        ("a.example/shop/all?x=1&y=2", "a.example/shop/*?2"),
        ("a.example/shop/all?p=1&p=2&p=3&p=4", "a.example/shop/*?3"),
        ("a.example/calendar?m=12", "a.example/calendar?1"),
        ("a.example/2024/05/17/x.html", "a.example/*/*/*/*.html?0"),
        ("a.example/" + "a/" * 40, "a.example/a/*/*/*/*/*/*/*/…?0"),
        ("a.example/grow?" + "&".join(f"p={i}" for i in range(90)), "a.example/grow?3"),
    ],
)
def test_urls_of_a_kind(url: str, kind: str) -> None:
    parts = split(url.encode())
    assert parts is not None
    assert kind_of(parts) == kind


def test_a_priority_of_the_spider_is_never_crossed(site: TrapSite) -> None:
    """Requests of a dry kind with a higher priority than others are made at once."""

    class Prior(Following):
        def parse(self, response: Response) -> Iterator[Any]:
            for made in super().parse(response):
                if not isinstance(made, dict):
                    made.priority = 1 if "/shop/all" in made.url else -1
                yield made

    settings = {"NEARDUP_LEARN": "act", "ADDONS": ADDONS}
    outcome = crawl(Prior, settings, start_urls=[site.url("/")])
    assert sum("/shop/all" in path for _, path in site.hits) == N_TRAP
    assert not outcome.stat("urls/deferred")
