"""Recall and precision on labelled pairs of pages.

Each pair is judged by itself, whatever sites its pages come from, by the limits of the
default settings or those given. With --templates, what each host repeats on the pages of the
file is learnt first. Pairs labelled neither near nor distinct are not scored.
Intervals are Wilson's, 95 %. With --keys, recall and precision are told as median and range over
several secrets, and every pair of the file is counted whose answer changes with the secret.
The sweep shows the results of other limits.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import fields
from typing import Any

from scrapy_neardup.commands.numbers import at_least
from scrapy_neardup.commands.paths import local_path
from scrapy_neardup.commands.terminal import say, say_json, say_table

PAGES_HELP = "pages with id or url, and html or text: JSON lines, or any format of dedup"

EXAMPLES = """\
  scrapy neardup evaluate pages.jsonl.gz pairs.jsonl.gz
  scrapy neardup evaluate pages.jsonl pairs.jsonl --distance 3 --json
  scrapy neardup evaluate pages.jsonl pairs.jsonl --templates --keys 6
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Files, limits and form."""
    parser.add_argument("pages", metavar="PAGES", type=local_path, help=PAGES_HELP)
    parser.add_argument(
        "pairs",
        metavar="PAIRS",
        type=local_path,
        help="pairs, rows of a, b (page ids), label_full or label, stratum; any format of rows",
    )
    add_limits(parser)
    parser.add_argument(
        "--templates",
        action="store_true",
        help="learn the templates of each host first, from all pages of the file",
    )
    parser.add_argument(
        "--facts",
        choices=("compare", "ignore"),
        help="as NEARDUP_FACTS; without it, facts are compared where templates are learnt",
    )
    parser.add_argument(
        "--records",
        action="store_true",
        help="as dedup, or a crawl with NEARDUP_COMPARE='page', judges: a page is all that is kept",
    )
    parser.add_argument(
        "--scope",
        choices=("site", "all"),
        default="all",
        help="as NEARDUP_SCOPE; all by default, whatever sites the pages come from",
    )
    parser.add_argument(
        "--keys",
        metavar="N",
        type=at_least(1),
        default=1,
        help="judge under N secrets, and count the pairs whose answer depends on it",
    )
    parser.add_argument(
        "--label",
        metavar="FIELD",
        help="field of the pairs that says near or distinct, instead of label_full or label",
    )
    parser.add_argument("--json", action="store_true", help="one JSON object instead of tables")


def add_limits(parser: argparse.ArgumentParser) -> None:
    """The limits that can be tried out; only those that are given are set."""
    limits = (
        ("--distance", "K", int, "as NEARDUP_DISTANCE"),
        ("--confirm-distance", "B", bits, "as NEARDUP_CONFIRM_DISTANCE; none: no confirmation"),
        ("--similarity", "J", float, "as NEARDUP_SIMILARITY"),
        ("--min-words", "N", int, "as NEARDUP_MIN_WORDS"),
    )
    for flag, metavar, read, explained in limits:
        parser.add_argument(
            flag, metavar=metavar, type=read, default=argparse.SUPPRESS, help=explained
        )


def bits(value: str) -> int | None:
    """A whole number, or None for "none"."""
    return None if value.lower() == "none" else int(value)


def run(options: argparse.Namespace) -> int:
    """Read, measure, tell."""
    from scrapy_neardup.detect.near import NearLimits
    from scrapy_neardup.offline.evaluation import evaluate
    from scrapy_neardup.settings import NearDupSettings

    given = {f.name: getattr(options, f.name) for f in fields(NearLimits) if f.name in options}
    NearDupSettings(**given)  # refuses what no crawl would take
    report = evaluate(
        options.pages,
        options.pairs,
        NearLimits(**given),
        options.templates,
        options.facts or ("compare" if options.templates else "ignore"),
        whole_pages=options.records,
        scope=options.scope,
        keys=options.keys,
        label=options.label,
    )
    if options.json:
        say_json(report)
    else:
        tell(report)
    return 0


def tell(report: dict[str, Any]) -> None:
    """Print the tables."""
    limits = ", ".join(f"{name} {value}" for name, value in report["settings"].items())
    say(f"{report['pairs']:,} labelled pairs; {limits}")
    say()
    header = ("", "near", "distinct", "recall", "95 %", "precision", "95 %", "F1")
    say_table(header, [row("all", report), *(row(*item) for item in report["strata"].items())])
    say()
    if report["keys"] > 1:
        tell_keys(report)
        say()
    tell_sweep(report["sweep"])


def tell_keys(report: dict[str, Any]) -> None:
    """Print what differs from key to key."""
    rows = [
        (name, *(share(report[f"{name}_over_keys"][part]) for part in ("median", "low", "high")))
        for name in ("recall", "precision")
    ]
    say_table((f"{report['keys']} keys", "median", "lowest", "highest"), rows)
    flips = report["flips"]
    band = f", at J {flips['low']:.2f} to {flips['high']:.2f}" if flips["n"] else ""
    say(f"{flips['n']:,} of {flips['of']:,} pairs change sides with the key{band}")


def tell_sweep(sweep: list[dict[str, Any]]) -> None:
    """Print what other limits would have given."""
    names = ("distance", "confirm_distance", "recall", "precision", "F1", "missed", "wrong")
    rows = [
        (
            s["distance"],
            "none" if s["confirm_distance"] is None else s["confirm_distance"],
            *(share(s[name]) for name in ("recall", "precision", "f1")),
            *(f"{s[name]:,.0f}" for name in ("missed", "wrong")),
        )
        for s in sweep
    ]
    say_table(names, rows, left=0)


def row(name: str, score: dict[str, Any]) -> tuple[object, ...]:
    """A line of the first table."""
    return (
        name,
        score["found"] + score["missed"],
        score["wrong"] + score["kept"],
        share(score["recall"]),
        interval(score["recall_interval"]),
        share(score["precision"]),
        interval(score["precision_interval"]),
        share(score["f1"]),
    )


def share(value: float | None) -> str:
    """A share to four places; a dash where nothing was counted."""
    return "-" if value is None else f"{value:.4f}"


def interval(limits: Sequence[float]) -> str:
    """Both ends of an interval."""
    return f"{limits[0]:.4f} to {limits[1]:.4f}"
