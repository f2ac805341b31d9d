"""Compares what a crawl kept and dropped with the truth about the site, and prints the table."""

import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Self
from urllib.parse import urlsplit

from scrapy import signals
from scrapy.crawler import Crawler

from example.items import PageItem
from example.site.events import MONTH_PATH
from example.site.page import Kind, Page
from example.site.plan import DISALLOWED_LINKS, Plan, is_disallowed
from scrapy_neardup import NearDuplicate

WIDTH = 8  # of a column
HEADS = (  # over the fields of Row, in their order
    ("URLs", "", "never", "", "dropped", "dropped", "dropped", ""),
    ("on site", "fetched", "fetched", "kept", "exact", "near", "wrongly", "missed"),
)


@dataclass(frozen=True, slots=True)
class Drop:
    """Why a page was dropped: "exact" or "near", and the URL it is said to repeat."""

    kind: str
    original: str


@dataclass(slots=True)
class Outcome:
    """What became of the pages of a crawl, by URL, in the order in which it was decided."""

    kept: list[str] = field(default_factory=list)
    dropped: dict[str, Drop] = field(default_factory=dict)


@dataclass(slots=True)
class Row:
    """Counts of pages, a line of the table.

    wrong   dropped as a repetition of a page that shows something else, or never fetched
            although nothing that shows the same was kept
    missed  kept although an earlier kept page shows the same
    """

    on_site: int = 0
    fetched: int = 0
    never_fetched: int = 0
    kept: int = 0
    exact: int = 0
    near: int = 0
    wrong: int = 0
    missed: int = 0

    def __add__(self, other: "Row") -> "Row":
        return Row(*(a + b for a, b in zip(self.cells(), other.cells(), strict=True)))

    def cells(self) -> list[int]:
        return [getattr(self, column.name) for column in fields(self)]


class Scorecard:
    """A Scrapy extension: listens to what happens to items, prints the table at the end."""

    def __init__(self, crawler: Crawler) -> None:
        self.crawler = crawler
        self.outcome = Outcome()

    @classmethod
    def from_crawler(cls, crawler: Crawler) -> Self:
        card = cls(crawler)
        crawler.signals.connect(card.item_scraped, signal=signals.item_scraped)
        crawler.signals.connect(card.item_dropped, signal=signals.item_dropped)
        crawler.signals.connect(card.engine_stopped, signal=signals.engine_stopped)
        return card

    def item_scraped(self, item: PageItem) -> None:
        self.outcome.kept.append(item.url)

    def item_dropped(self, item: PageItem, exception: Exception) -> None:
        if isinstance(exception, NearDuplicate):
            decision = exception.decision
            self.outcome.dropped[item.url] = Drop(decision.kind, decision.original or "")

    def engine_stopped(self) -> None:
        """Write the table below the log, where it is the last thing on the screen."""
        server = getattr(self.crawler.spider, "server", None)
        if server is None:
            report = any_site_report(self.outcome, self._links_not_fetched())
        elif not server.asked:
            return  # `scrapy parse` and its like look at pages of other sites
        else:
            report = demo_report(server.plan, server.asked, self.outcome)
        sys.stdout.write(f"\n{report}\n")

    def _links_not_fetched(self) -> int:
        return int(self.crawler.stats.get_value("neardup/urls/dropped", 0))


def demo_report(plan: Plan, asked: Sequence[str], outcome: Outcome) -> str:
    """The table of the demo site, its totals in words, and what became of its traps."""
    rows = score(plan, asked, outcome)
    total = sum(rows.values(), Row())
    lost = lost_contents(plan, outcome)
    n_contents = len({page.content for page in plan.pages.values()})
    return "\n".join(
        (
            table(rows, total),
            "",
            f"URLs never fetched  {total.never_fetched} of {total.on_site} that the site links to",
            f"contents            {n_contents} on the site, {n_contents - len(lost)} kept, "
            f"{len(lost)} lost",
            f"calendar            {months_line(asked)}",
            f"robots.txt          {robots_line(asked)}",
        )
    )


def score(plan: Plan, asked: Iterable[str], outcome: Outcome) -> Mapping[Kind, Row]:
    """One row for each kind of page, by the truth that the plan has written down."""
    rows = {kind: Row() for kind in Kind}
    fetched = {path for path in asked if path != "/robots.txt" and not is_disallowed(path)}
    lost = lost_contents(plan, outcome)
    for path in plan.pages.keys() | fetched:
        page = plan.page(path)
        row = rows[page.kind]
        row.on_site += 1
        row.fetched += path in fetched
        row.never_fetched += path not in fetched
        row.wrong += path not in fetched and page.content in lost
    count_dropped(rows, plan, outcome)
    count_kept(rows, plan, outcome)
    return rows


def count_dropped(rows: Mapping[Kind, Row], plan: Plan, outcome: Outcome) -> None:
    for url, drop in outcome.dropped.items():
        page = plan.page(path_of(url))
        row = rows[page.kind]
        row.exact += drop.kind == "exact"
        row.near += drop.kind == "near"
        row.wrong += plan.page(path_of(drop.original)).content != page.content


def count_kept(rows: Mapping[Kind, Row], plan: Plan, outcome: Outcome) -> None:
    seen: set[str] = set()
    for page in pages_of(plan, outcome.kept):
        rows[page.kind].kept += 1
        rows[page.kind].missed += page.content in seen
        seen.add(page.content)


def lost_contents(plan: Plan, outcome: Outcome) -> set[str]:
    """Contents of the site that no kept page shows."""
    kept = {page.content for page in pages_of(plan, outcome.kept)}
    return {page.content for page in plan.pages.values()} - kept


def pages_of(plan: Plan, urls: Iterable[str]) -> list[Page]:
    return [plan.page(path_of(url)) for url in urls]


def path_of(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.path}?{parts.query}" if parts.query else parts.path


def months_line(asked: Iterable[str]) -> str:
    months = sorted(path[-7:] for path in set(asked) if MONTH_PATH.fullmatch(path))
    first_to_last = f": {months[0]} to {months[-1]}" if months else ""
    return f"endless; {len(months)} months fetched{first_to_last}"


def robots_line(asked: Iterable[str]) -> str:
    n_taken = sum(map(is_disallowed, asked))
    return f"{', '.join(DISALLOWED_LINKS)} linked on every page, fetched {n_taken} times"


def table(rows: Mapping[Kind, Row], total: Row) -> str:
    """Aligned lines: pages with content of their own above, those that repeat it below."""
    own = [line(f"  {kind}", row.cells()) for kind, row in rows.items() if not kind.repeats]
    again = [line(f"  {kind}", row.cells()) for kind, row in rows.items() if kind.repeats]
    rules = ["-" * (WIDTH - 1)] * len(HEADS[0])
    return "\n".join(
        (
            *(line("", heads) for heads in HEADS),
            "pages with content of their own",
            *own,
            "pages that repeat another page",
            *again,
            line("", rules),
            line("all pages", total.cells()),
        )
    )


def line(name: str, cells: Iterable[object]) -> str:
    return (f"{name:<28}" + "".join(f"{cell:>{WIDTH}}" for cell in cells)).rstrip()


def any_site_report(outcome: Outcome, n_never_fetched: int) -> str:
    """Counts for a site of which no truth is known."""
    kinds = Counter(drop.kind for drop in outcome.dropped.values())
    counts = {
        "pages fetched": len(outcome.kept) + len(outcome.dropped),
        "pages kept": len(outcome.kept),
        "exact duplicates dropped": kinds["exact"],
        "near-duplicates dropped": kinds["near"],
        "links to known URLs not fetched": n_never_fetched,
    }
    return "\n".join(f"{name:<34}  {count:>7,}" for name, count in counts.items())
