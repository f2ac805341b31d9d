"""What happened to a URL, and which setting would have decided otherwise."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping
from dataclasses import fields
from datetime import UTC, datetime
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from scrapy_neardup.commands import NOTHING_FOUND
from scrapy_neardup.commands.state_folder import add_state_option, state_folder
from scrapy_neardup.commands.terminal import ProgressLine, colour, complain, say, say_json
from scrapy_neardup.detect.decision import VISIT, WORDING
from scrapy_neardup.harmless import clean
from scrapy_neardup.ledger.reader import NO_LIMIT, LedgerReader
from scrapy_neardup.ledger.schema import Decided
from scrapy_neardup.report.text_diff import WordDifference, differences, marked

if TYPE_CHECKING:
    from scrapy_neardup.urls.key import UrlKeyRules

EXAMPLES = """\
  scrapy neardup explain 'https://shop.example/item?id=7' --state crawls/shop
  scrapy neardup explain 'https://shop.example/item?id=7' --state crawls/shop --json
"""

MAX_DUPLICATES_SHOWN = 20
MAX_DIFFERENCES_SHOWN = 40
WHAT_HAPPENED = {
    "seen": "URL fetched before",
    "new": "new: repeats no earlier page",
    "exact": "exact duplicate: the same text, symbols included",
    "near": "near-duplicate",
    "near-but-differs": "near its original, kept because a fact differs",
    "contains": "kept: it holds an earlier page whole, and says more",
    "too-short": "too short to be compared by likeness",
    "undecided": "undecided: too many pages look like it",
    "unchanged": "read again: unchanged",
    "minor": "read again: it differs only in what varies there at every visit",
    "changed": "read again: changed",
    "gone": "gone: it answers 404 or 410, or nothing links it any more",
    "moved": "moved: its content is now at another URL",
    "deferred": "not fetched yet: the last URLs of its kind brought nothing new",
    "claimed": "a copy as it says itself, which NEARDUP_CANONICAL=trust believes",
    "soft-404": "soft 404: what the site answers to paths that do not exist",
}
SKIPPED = "not fetched: it shows what its original shows, says a learnt rule"
COMPARED = frozenset({"near", "near-but-differs", "contains"})  # kinds whose texts are shown
DIFFERS = {
    "title": "its title",
    "heading": "its first headings",
    "number or symbol": "a number or symbol, among equal words",
    "negation": "a negation, among equal words",
    "word": "another word in a brief line, all others being equal",
    VISIT: "no fact, but for lines that tell of the visit (a clock, a counter, a token): left out",
    WORDING: "a brief line, which only one of the pages has, or the order of such lines: as a "
    "whole page, its items are kept",
}
ACTION_COLOURS = {"dropped": "red", "kept": "green", "tagged": "yellow", "counted": "yellow"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """URL, state folder and form."""
    parser.add_argument("url", metavar="URL", help="URL as it was crawled")
    add_state_option(parser)
    parser.add_argument("--json", action="store_true", help="one JSON object instead of text")


def run(options: argparse.Namespace) -> int:
    """Tell what the ledger knows of the URL; exit code 1 if that is nothing."""
    reader = LedgerReader(state_folder(options.state), ProgressLine("looking for other spellings"))
    decisions = reader.of_url(options.url)
    n_duplicates = reader.n_duplicates_of(options.url)
    most = NO_LIMIT if options.json else MAX_DUPLICATES_SHOWN
    duplicates = reader.duplicates_of(options.url, most=most)
    if not decisions and not duplicates:
        complain(
            f"{options.url}: no decision is recorded. With NEARDUP_LEDGER='duplicates' kept pages "
            "leave no trace; nor do pages that were not compared, having no items, over budget, "
            "too long or without text (stats under neardup/pages); the URL must be written as it "
            "was crawled"
        )
        return NOTHING_FOUND
    if options.json:
        say_json(as_json(reader, options.url, decisions, duplicates))
        return 0
    say(colour(clean(options.url), "bold"))
    for decided in decisions:
        tell(reader, decided)
    tell_duplicates(duplicates, n_duplicates)
    return 0


def otherwise(decided: Decided, rules: Mapping[str, object], first: str | None) -> list[str]:
    """Each setting that would have changed the decision, with the nearest value that does.

    For a near-duplicate this holds for this original only: another page may be as near. `first`
    is the URL whose fetch made this one a seen URL; None if it was not recorded.
    """
    if decided.data_differ is not None and decided.action == "kept":
        return list(_what_drops(decided.data_differ, rules))
    if decided.kind == "near":
        return list(_stricter_limits(decided, rules))
    if decided.kind == "near-but-differs":
        return ["NEARDUP_FACTS='ignore'"]
    if decided.kind == "contains":
        return ["NEARDUP_CONTAINED='drop'"]
    if is_skipped(decided):
        return ["NEARDUP_LEARN='watch'"]
    if decided.kind == "too-short":
        return [f"NEARDUP_MIN_WORDS={decided.words or 0}"]
    return _rules_that_merge(decided.url, first, rules) if first else []


def is_skipped(decided: Decided) -> bool:
    """Whether a learnt rule skipped a request for the URL, which need not have been fetched."""
    return decided.kind == "seen" and decided.original is not None


def _what_drops(differ: str, rules: Mapping[str, object]) -> Iterator[str]:
    """What would drop items that were kept because their data differ, in the named fields."""
    ignored = rules.get("NEARDUP_IGNORE_FIELDS")
    if differ:
        names = [*(ignored if isinstance(ignored, list) else []), *differ.split(", ")]
        yield f"NEARDUP_IGNORE_FIELDS={names}"
    yield "NEARDUP_COMPARE='page'"


def _is_near_as_a_whole(decided: Decided, rules: Mapping[str, object]) -> bool:
    """Whether the sketches confirmed it; else what templates leave of both pages is near."""
    limit = rules.get("NEARDUP_CONFIRM_DISTANCE")
    return not isinstance(limit, int) or (decided.sketch_distance or 0) <= limit


def _stricter_limits(decided: Decided, rules: Mapping[str, object]) -> Iterator[str]:
    confirmed = rules.get("NEARDUP_CONFIRM_DISTANCE") is not None
    if confirmed and decided.similarity is not None and decided.similarity < 1:
        # Recorded to three places; the limit is below 1.
        yield f"NEARDUP_SIMILARITY={min(decided.similarity + 0.001, 0.9999):.4g}"
    if not _is_near_as_a_whole(decided, rules):
        yield "NEARDUP_BOILERPLATE='keep'"
    elif confirmed and decided.sketch_distance:
        yield f"NEARDUP_CONFIRM_DISTANCE={decided.sketch_distance - 1}"
    if decided.distance:
        yield f"NEARDUP_DISTANCE={decided.distance - 1}"
    if decided.words:
        yield f"NEARDUP_MIN_WORDS={decided.words + 1}"


def _rules_that_merge(url: str, first: str, rules: Mapping[str, object]) -> list[str]:
    from scrapy_neardup.urls.key import url_key

    its_rules = url_rules(rules)
    switches = [f.name for f in fields(its_rules) if getattr(its_rules, f.name) is True]
    without = {name: url_rules({**rules, _setting(name): False}) for name in switches}
    return [
        f"{_setting(name)}=False"
        for name, other in without.items()
        if url_key(url, other) != url_key(first, other)
    ]


def fetched_as(reader: LedgerReader, decided: Decided) -> str | None:
    """The URL whose fetch made this a seen URL; None if none was recorded."""
    if decided.kind != "seen" or is_skipped(decided):
        return None
    return _first_read(reader, decided.url, url_rules(reader.rules_of(decided)))


@lru_cache(maxsize=64)  # a URL that many pages link to was dropped many times
def _first_read(reader: LedgerReader, url: str, rules: UrlKeyRules) -> str | None:
    """The URL itself where its page was read, else the first other spelling; O(ledger)."""
    from scrapy_neardup.urls.key import url_key

    if reader.has_read(url):
        return url
    key = url_key(url, rules)
    host = key.decode("utf-8", "replace").partition("/")[0].rpartition(":")[2]
    others = reader.pages_read()
    return next((o for o in others if host in o.lower() and url_key(o, rules) == key), None)


def url_rules(rules: Mapping[str, object]) -> UrlKeyRules:
    """The URL rules of a run, as recorded; rules of single sites are not recorded."""
    from scrapy_neardup.urls.key import UrlKeyRules

    recorded = {f.name: rules.get(_setting(f.name)) for f in fields(UrlKeyRules)}
    ignored = recorded.pop("ignore_params")
    switches: dict[str, Any] = {n: value for n, value in recorded.items() if value in (True, False)}
    return UrlKeyRules(
        **switches, ignore_params=tuple(ignored if isinstance(ignored, list) else ())
    )


def _setting(rule: str) -> str:
    return f"NEARDUP_URL_{rule.upper()}"


def as_json(
    reader: LedgerReader, url: str, decisions: list[Decided], duplicates: list[Decided]
) -> dict[str, object]:
    """Everything that the text says."""
    return {
        "url": url,
        "decisions": [decision_as_json(reader, decided) for decided in decisions],
        "duplicates": [decided.url for decided in duplicates],
    }


def decision_as_json(reader: LedgerReader, decided: Decided) -> dict[str, object]:
    """One decision, the settings that would have changed it, and the words that differ."""
    rules = reader.rules_of(decided)
    texts = texts_of(reader, decided)
    first = fetched_as(reader, decided)
    return {
        **decided._asdict(),
        "fetched_as": first,
        "otherwise": otherwise(decided, rules, first),
        "rules": rules,
        "differences": [list(d) for d in differences(*texts)] if texts else None,
    }


def texts_of(reader: LedgerReader, decided: Decided) -> tuple[str, str] | None:
    """The texts of original and page; None unless both were kept."""
    if decided.kind not in COMPARED or decided.original is None:
        return None
    before, after = reader.text(decided.original), reader.text(decided.url)
    return None if before is None or after is None else (before, after)


def tell(reader: LedgerReader, decided: Decided) -> None:
    """Print one decision."""
    rules = reader.rules_of(decided)
    at = datetime.fromtimestamp(decided.time, UTC)
    action = colour(decided.action, ACTION_COLOURS[decided.action])
    happened = SKIPPED if is_skipped(decided) else WHAT_HAPPENED[decided.kind]
    say(f"\n{at:%Y-%m-%d %H:%M:%S} UTC  {action}: {happened}")
    for name, value in facts(decided, rules, fetched_as(reader, decided)):
        say(f"  {name:<22} {clean(value)}")
    texts = texts_of(reader, decided)
    if texts:
        say("  what differs, original to page:")
        say_differences(*texts)
    elif decided.kind in COMPARED:
        say("  the texts were not kept; NEARDUP_KEEP_TEXT=True keeps them, to show what differs")


def facts(
    decided: Decided, rules: Mapping[str, object], first: str | None
) -> Iterator[tuple[str, str]]:
    """Name and value of what is known of a decision."""
    if decided.original:
        yield "contains" if decided.kind == "contains" else "original", decided.original
    if decided.elsewhere:
        yield "same on another site", decided.elsewhere
    if decided.kind == "near":
        yield "fingerprint", f"{decided.distance} bits apart, {_limit(rules, 'NEARDUP_DISTANCE')}"
    if decided.kind == "near" and decided.sketch_distance is not None:
        if _is_near_as_a_whole(decided, rules):
            limit = _limit(rules, "NEARDUP_CONFIRM_DISTANCE")
            yield "sketch", f"{decided.sketch_distance} bits apart, {limit}"
        else:
            bits = f"{decided.sketch_distance} bits apart as wholes"
            yield "sketch", f"{bits}; near in what the site's templates leave of both"
    if decided.kind == "near-but-differs" or decided.differs in (VISIT, WORDING):
        yield "differs in", DIFFERS.get(decided.differs or "", decided.differs or "not recorded")
    if decided.similarity is not None and decided.kind != "exact":
        limit = f", {_limit(rules, 'NEARDUP_SIMILARITY')}" if decided.kind == "near" else ""
        yield "similarity", f"about {decided.similarity:.3f} of the 5-word shingles{limit}"
    if decided.words is not None:
        yield "words", f"{decided.words:,}"
    if decided.kind in ("exact", "near"):
        yield from _rules_for_items(decided, rules)
    if is_skipped(decided):
        yield "skipped by", "a learnt rule: 'scrapy neardup rules' shows it"
    elif decided.kind == "seen":
        yield "fetched as", first or "another spelling, or in a crawl that is not on record"
    if decided.kind == "deferred":
        yield from _why_deferred(decided.url, rules)
    yield from _otherwise_by(decided, otherwise(decided, rules, first))


def _why_deferred(url: str, rules: Mapping[str, object]) -> Iterator[tuple[str, str]]:
    """Of which kind a URL is, and what fetches it."""
    from scrapy_neardup.learn.dry_kinds import kind_of
    from scrapy_neardup.learn.url_parts import split
    from scrapy_neardup.urls.key import url_key

    if (parts := split(url_key(url, url_rules(rules)))) is not None:
        yield "kind of URL", f"{kind_of(parts)}: 'scrapy neardup rules' shows how dry it is"
    yield "otherwise by", "'scrapy neardup undo --deferred', undo URL, or NEARDUP_LEARN='watch'"


def _rules_for_items(decided: Decided, rules: Mapping[str, object]) -> Iterator[tuple[str, str]]:
    """By what its items were judged, and what of the page was compared."""
    if decided.title_differs:
        yield "title", "another than the original's"
    if fields := rules.get("NEARDUP_ITEM_FIELDS"):
        yield "items", f"compared by NEARDUP_ITEM_FIELDS={fields}, not by the page"
        return
    if rules.get("NEARDUP_COMPARE") == "page":
        yield "items", "repeat if their page does, NEARDUP_COMPARE=page"
    elif "NEARDUP_COMPARE" in rules:
        yield "items", _what_data_said(decided)
        yield "ignored fields", f"NEARDUP_IGNORE_FIELDS={rules.get('NEARDUP_IGNORE_FIELDS')}"
    default = "default: all visible text, and the data in the markup"
    yield "compared text", f"by {rules.get('NEARDUP_EXTRACTOR') or default}"


def _what_data_said(decided: Decided) -> str:
    if decided.data_differ is None:
        if decided.action == "kept":
            return "none was dropped"
        as_page = "; a field that holds the page repeats as the page does"
        return "their data repeat, too" + (as_page if decided.kind == "near" else "")
    differ = f" in {decided.data_differ}" if decided.data_differ else ""
    some = "some kept" if decided.action != "kept" else "kept"
    return f"{some} because their data differ{differ}"


def _otherwise_by(decided: Decided, changes: list[str]) -> Iterator[tuple[str, str]]:
    if is_skipped(decided):
        yield "otherwise by", " or ".join(changes) + "; undo fetches the page"
    elif changes:
        is_dropped = decided.kind == "near" and decided.action != "kept"
        unless = ", unless another page is as near" if is_dropped else ""
        yield "otherwise by", " or ".join(changes) + unless
    elif decided.kind == "exact":
        yield "otherwise by", "no limit: the texts are the same; undo keeps the page"
    elif decided.kind == "seen":
        yield "otherwise by", 'a request with meta={"neardup_refresh": True}, or NEARDUP_TTL'


def _limit(rules: Mapping[str, object], name: str) -> str:
    return f"limit {name}={rules[name]}" if name in rules else "limit not recorded"


def tell_duplicates(duplicates: list[Decided], n: int) -> None:
    """List the first that were judged a duplicate of the URL, of so many."""
    if not duplicates:
        return
    say(f"\n{n:,} duplicates of it:")
    for decided in duplicates[:MAX_DUPLICATES_SHOWN]:
        say(f"  {decided.kind:<6} {decided.action:<8} {clean(decided.url)}")
    if n > MAX_DUPLICATES_SHOWN:
        say(f"  and {n - MAX_DUPLICATES_SHOWN:,} more (--json lists all)")


def say_differences(original: str, page: str) -> None:
    """Print what differs: removed words as [-words-], added ones as {+words+}."""
    found = list(differences(original, page))
    for difference in found[:MAX_DIFFERENCES_SHOWN]:
        words = WordDifference(*map(clean, difference))
        marks = [colour(mark, "red" if mark[0] == "[" else "green") for mark in marked(words)]
        say(f"    … {words.before} {' '.join(marks)} {words.after} …")
    if len(found) > MAX_DIFFERENCES_SHOWN:
        say(f"    and {len(found) - MAX_DIFFERENCES_SHOWN:,} more places")
    if not found:
        say("    nothing but punctuation, case or spacing")
