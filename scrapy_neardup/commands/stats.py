"""Totals of a crawl's decisions, by site and URL pattern, and what they saved."""

from __future__ import annotations

import argparse
from collections.abc import Iterable

from scrapy_neardup.commands.numbers import at_least
from scrapy_neardup.commands.state_folder import add_state, state_folder
from scrapy_neardup.commands.terminal import ProgressLine, colour, say, say_json, say_table
from scrapy_neardup.harmless import clean
from scrapy_neardup.ledger.schema import KINDS
from scrapy_neardup.report.summary import Cluster, Savings, Summary, Tally, summarise

EXAMPLES = """\
  scrapy neardup stats crawls/shop
  scrapy neardup stats crawls/shop --top 50
  scrapy neardup stats crawls/shop --json
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """State folder, length and form."""
    add_state(parser)
    parser.add_argument(
        "--top", type=at_least(0), default=10, help="lines of each table (default: 10)"
    )
    parser.add_argument("--json", action="store_true", help="one JSON object instead of tables")


def run(options: argparse.Namespace) -> int:
    """Print the totals."""
    summary = summarise(state_folder(options.state), ProgressLine("reading the ledger"))
    if options.json:
        say_json(as_json(summary, options.top))
    else:
        tell(summary, options.top)
    return 0


def as_json(summary: Summary, top: int) -> dict[str, object]:
    """Everything that the tables say; of sites, patterns and clusters the `top` first."""
    return {
        "total": summary.total.as_dict(),
        "savings": summary.savings()._asdict(),
        "sites": {name: tally.as_dict() for name, tally in largest(summary.sites)[:top]},
        "patterns": {name: tally.as_dict() for name, tally in largest(summary.patterns)[:top]},
        "wholesale": [name for name, _ in summary.wholesale_patterns()],
        "clusters": [
            {"original": c.original, "exact": c.exact, "near": c.near, "reasons": c.reasons()}
            for c in summary.largest_clusters()[:top]
        ],
    }


def largest(groups: dict[str, Tally]) -> list[tuple[str, Tally]]:
    """Groups with the most duplicates and dropped URLs first."""
    return sorted(
        groups.items(), key=lambda g: (-g[1].duplicates - g[1].kinds["seen"], -g[1].pages, g[0])
    )


def tell(summary: Summary, top: int) -> None:
    """Print the tables."""
    total = summary.total
    say_table(("decision", "number"), [(kind, f"{total.kinds[kind]:,}") for kind in KINDS])
    say()
    tell_savings(summary.savings())
    tell_wholesale(summary)
    tell_groups("site", largest(summary.sites)[:top])
    tell_groups("URL pattern", largest(summary.patterns)[:top])
    tell_clusters(summary.largest_clusters()[:top])


def tell_savings(savings: Savings) -> None:
    """Print what was not fetched and what was not kept."""
    estimate = "how much is unknown: no page's size is on record"
    if savings.estimated_bytes is not None:
        estimate = f"about {in_bytes(savings.estimated_bytes)}"
        if savings.estimated_seconds is not None:
            estimate += f" and {savings.estimated_seconds:,.0f} s of downloads"
        estimate += ", at the mean of each site's pages"
    say(f"not fetched  {savings.urls:,} URLs: {estimate}")
    say(f"not kept     {savings.pages:,} pages, {in_bytes(savings.bytes)}")


def tell_wholesale(summary: Summary) -> None:
    """Print the URL patterns that lose most of their pages."""
    for name, tally in summary.wholesale_patterns():
        near = f"{tally.near_not_kept:,} of {tally.pages:,} pages are near-duplicates"
        say(f"{colour('look at', 'bold')}      {clean(name)}: {near}: dropped, tagged or counted")


def tell_groups(name: str, groups: Iterable[tuple[str, Tally]]) -> None:
    """Print one table of groups."""
    say()
    say_table(
        (name, "pages", "near", "exact", "dropped", "URLs not fetched"),
        [
            (group, t.pages, t.kinds["near"], t.kinds["exact"], t.dropped, t.kinds["seen"])
            for group, t in groups
        ],
    )


def tell_clusters(clusters: list[Cluster]) -> None:
    """Print the clusters."""
    if not clusters:
        return
    say(f"\n{colour('largest clusters', 'bold')}")
    for cluster in clusters:
        reasons = f"  ({', '.join(cluster.reasons())})" if cluster.reasons() else ""
        say(f"  {cluster.size:>6,}  {clean(cluster.original)}{reasons}")


def in_bytes(number: int) -> str:
    """A number of bytes as a person reads it, in powers of 1,000."""
    amount = float(number)
    for unit in ("B", "kB", "MB", "GB"):
        if amount < 1000:
            return f"{amount:.3g} {unit}"
        amount /= 1000
    return f"{amount:,.3g} TB"
