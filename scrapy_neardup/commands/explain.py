"""What happened to a URL, and which setting would have decided otherwise."""

import argparse
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime

from scrapy_neardup.commands.state_folder import add_state_option, state_folder
from scrapy_neardup.commands.terminal import clean, colour, complain, say, say_json
from scrapy_neardup.commands.text_diff import differences, say_differences
from scrapy_neardup.ledger import Decided, LedgerReader

EXAMPLES = """\
  scrapy neardup explain 'https://shop.example/item?id=7' --state crawls/shop
  scrapy neardup explain 'https://shop.example/item?id=7' --state crawls/shop --json
"""

MAX_DUPLICATES_SHOWN = 20
WHAT_HAPPENED = {
    "seen": "URL fetched before",
    "new": "nothing before it said the same",
    "exact": "exact duplicate: the same words",
    "near": "near-duplicate",
    "too-short": "too short to be compared by likeness",
    "undecided": "undecided: too many pages look like it",
}
ACTION_COLOURS = {"dropped": "red", "kept": "green", "tagged": "yellow", "counted": "yellow"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """URL, state folder and form."""
    parser.add_argument("url", metavar="URL", help="URL as it was crawled")
    add_state_option(parser)
    parser.add_argument("--json", action="store_true", help="one JSON object instead of text")


def run(options: argparse.Namespace) -> int:
    """Tell what the ledger knows of the URL; exit code 1 if that is nothing."""
    reader = LedgerReader(state_folder(options))
    decisions = reader.of_url(options.url)
    duplicates = reader.duplicates_of(options.url)
    if not decisions and not duplicates:
        complain(
            f"{options.url}: no decision is recorded. With NEARDUP_LEDGER='duplicates' kept pages "
            "leave no trace; the URL must be written as it was crawled"
        )
        return 1
    if options.json:
        say_json(as_json(reader, options.url, decisions, duplicates))
        return 0
    say(colour(clean(options.url), "bold"))
    for decided in decisions:
        tell(reader, decided)
    tell_duplicates(duplicates)
    return 0


def otherwise(decided: Decided, rules: Mapping[str, object]) -> list[str]:
    """Settings that would have decided otherwise, each with its value."""
    changes = []
    if decided.kind == "near":
        if decided.similarity is not None and rules.get("NEARDUP_CONFIRM_DISTANCE") is not None:
            changes.append(f"NEARDUP_SIMILARITY={min(0.999, decided.similarity + 0.001):.3f}")
        if decided.sketch_distance and rules.get("NEARDUP_CONFIRM_DISTANCE") is not None:
            changes.append(f"NEARDUP_CONFIRM_DISTANCE={decided.sketch_distance - 1}")
        if decided.distance:
            changes.append(f"NEARDUP_DISTANCE={decided.distance - 1}")
        if decided.words:
            changes.append(f"NEARDUP_MIN_WORDS={decided.words + 1}")
    elif decided.kind == "too-short":
        changes.append(f"NEARDUP_MIN_WORDS={decided.words or 0}")
    return changes


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
    return {
        **decided._asdict(),
        "otherwise": otherwise(decided, rules),
        "rules": rules,
        "differences": [list(d) for d in differences(*texts)] if texts else None,
    }


def texts_of(reader: LedgerReader, decided: Decided) -> tuple[str, str] | None:
    """The texts of original and page; None unless both were kept."""
    if decided.kind != "near" or decided.original is None:
        return None
    before, after = reader.text(decided.original), reader.text(decided.url)
    return None if before is None or after is None else (before, after)


def tell(reader: LedgerReader, decided: Decided) -> None:
    """Print one decision."""
    rules = reader.rules_of(decided)
    at = datetime.fromtimestamp(decided.time, UTC)
    action = colour(decided.action, ACTION_COLOURS[decided.action])
    say(f"\n{at:%Y-%m-%d %H:%M:%S} UTC  {action}: {WHAT_HAPPENED[decided.kind]}")
    for name, value in facts(decided, rules):
        say(f"  {name:<22} {clean(value)}")
    texts = texts_of(reader, decided)
    if texts:
        say("  what differs, original to page:")
        say_differences(*texts)
    elif decided.kind == "near":
        say("  the texts were not kept; NEARDUP_KEEP_TEXT=True keeps them, to show what differs")


def facts(decided: Decided, rules: Mapping[str, object]) -> Iterator[tuple[str, str]]:
    """Name and value of what is known of a decision."""
    if decided.original:
        yield "original", decided.original
    if decided.elsewhere:
        yield "same on another site", decided.elsewhere
    if decided.kind == "near":
        yield "fingerprint", f"{decided.distance} bits apart, {_limit(rules, 'NEARDUP_DISTANCE')}"
    if decided.kind == "near" and decided.sketch_distance is not None:
        limit = _limit(rules, "NEARDUP_CONFIRM_DISTANCE")
        yield "sketch", f"{decided.sketch_distance} bits apart, {limit}"
    if decided.similarity is not None:
        limit = f", {_limit(rules, 'NEARDUP_SIMILARITY')}" if decided.kind == "near" else ""
        yield "similarity", f"about {decided.similarity:.3f} of the 5-word shingles{limit}"
    if decided.words is not None:
        yield "words", f"{decided.words:,}"
    if decided.kind == "seen":
        from scrapy_neardup.urlkey import url_key

        yield "key", url_key(decided.url).decode("utf-8", "replace") + " (under default URL rules)"
    changes = otherwise(decided, rules)
    if changes:
        yield "otherwise by", " or ".join(changes)


def _limit(rules: Mapping[str, object], name: str) -> str:
    return f"limit {name}={rules[name]}" if name in rules else "limit not recorded"


def tell_duplicates(duplicates: list[Decided]) -> None:
    """List what was judged a duplicate of the URL."""
    if not duplicates:
        return
    say(f"\n{len(duplicates):,} duplicates of it:")
    for decided in duplicates[:MAX_DUPLICATES_SHOWN]:
        say(f"  {decided.kind:<6} {decided.action:<8} {clean(decided.url)}")
    if len(duplicates) > MAX_DUPLICATES_SHOWN:
        say(f"  and {len(duplicates) - MAX_DUPLICATES_SHOWN:,} more (--json lists all)")
