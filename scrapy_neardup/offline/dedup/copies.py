"""Which copy of a cluster is kept: the first, or one that is better by a rule."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Literal, NamedTuple

from scrapy_neardup.offline.dedup.deciding import RecordPlace, place_of
from scrapy_neardup.offline.dedup.journal import DROPPED, KEPT, DecidedChunk
from scrapy_neardup.offline.dedup.traits import Traits

Keep = Literal["first", "longest", "newest", "canonical", "best"]


class Member(NamedTuple):
    """A record of a cluster."""

    place: RecordPlace
    url: str
    traits: Traits


def chosen(members: list[Member], keep: Keep) -> Member:
    """The copy to keep, of records in the order of the input; the first of those that are equal."""
    if keep == "canonical":
        named = {member.traits.canonical for member in members} - {None}
        return next((member for member in members if member.url in named), members[0])
    rules: dict[str, Callable[[Member], Any]] = {
        "first": lambda member: 0,
        "longest": lambda member: member.traits.words,
        "newest": lambda member: _newness(member.traits),
        "best": _goodness,
    }
    return max(members, key=rules[keep])


def _newness(traits: Traits) -> float:
    return float("-inf") if traits.date is None else traits.date


# What makes a copy better, the most important first.
GOODNESS: dict[str, Callable[[Member], Any]] = {
    "status 200": lambda member: member.traits.status in (None, 200),
    "https": lambda member: member.url.startswith("https:"),
    "shorter URL": lambda member: -len(member.traits.canonical or member.url),
    "more words": lambda member: member.traits.words,
    "newer": lambda member: _newness(member.traits),
}


def _goodness(member: Member) -> tuple[Any, ...]:
    return tuple(rule(member) for rule in GOODNESS.values())


def why_best(best: Member, members: list[Member]) -> str:
    """By what the best of some copies is better than the next one; "first" if by nothing."""
    other = max((member for member in members if member is not best), key=_goodness)
    return next((name for name, rule in GOODNESS.items() if rule(best) != rule(other)), "first")


class Swap(NamedTuple):
    """A cluster's first record and the copy that is kept in its place."""

    first: str  # names
    kept: str
    why: dict[str, Any]  # what was noted of the copy when it was compared with the first


def swaps(
    groups: Callable[[], Iterable[DecidedChunk]], keep: Keep, token: str
) -> tuple[dict[RecordPlace, Swap], int]:
    """Of which clusters another copy than the first is kept, by the place of the first, and how
    many records of clusters have no date that can be read, where the date decides.

    Memory: the members of clusters. groups: everything that was decided, each time it is called.
    """
    clusters = clusters_of(groups(), token)
    members = {member for names in clusters.values() for member, _ in names} | set(clusters)
    traits: dict[RecordPlace, Member] = {}
    for group in groups():
        for entry in group.choices:
            place = RecordPlace(*group.place, entry["index"])
            if place in members:
                url, _ = place_of(entry["name"], token)
                traits[place] = Member(place, url, Traits(*entry["traits"]))
    found, n_undated = {}, 0
    for first, copies in clusters.items():
        noted = dict(copies)
        there = [traits[place] for place in (first, *noted) if place in traits]
        n_undated += sum(member.traits.date is None for member in there)
        best = chosen(there, keep) if there else None
        if best is not None and best.place != first:
            why = noted[best.place]
            found[first] = Swap(why["first"], why["name"], why)
    return found, n_undated if keep == "newest" else 0


def clusters_of(
    groups: Iterable[DecidedChunk], token: str
) -> dict[RecordPlace, list[tuple[RecordPlace, dict[str, Any]]]]:
    """The copies of each first record, with what was noted of them; clusters whose first is of a
    reference set are left out: nothing of them is kept."""
    firsts: dict[
        RecordPlace, tuple[RecordPlace, str]
    ] = {}  # of copies that others repeat, as admitted ones
    clusters: dict[RecordPlace, list[tuple[RecordPlace, dict[str, Any]]]] = {}
    for group in groups:
        for entry in group.duplicates:
            _, original = place_of(entry["original"], token)
            if original is None:
                continue
            first, name = firsts.get(original, (original, entry["original"]))
            place = RecordPlace(*group.place, entry["index"])
            firsts[place] = first, name
            clusters.setdefault(first, []).append((place, {**entry, "first": name}))
    return clusters


def rechosen(
    groups: Iterable[DecidedChunk], swapped: dict[RecordPlace, Swap], token: str
) -> Iterator[DecidedChunk]:
    """What was decided, with the kept copies in place of the first ones."""
    by_kept = {place_of(swap.kept, token)[1]: swap for swap in swapped.values()}
    firsts: dict[tuple[int, int], list[RecordPlace]] = {}
    for place in swapped:
        firsts.setdefault(place[:2], []).append(place)
    by_name = {swap.first: swap for swap in swapped.values()}
    for group in groups:
        verdicts, entries = bytearray(group.verdicts), []
        for entry in group.duplicates:
            if RecordPlace(*group.place, entry["index"]) in by_kept:
                verdicts[entry["index"]] = KEPT
                continue
            swap = by_name.get(entry["original"])
            if swap is not None:
                entry = {**entry, "original": swap.kept, "compared_with": swap.first}
            entries.append(entry)
        for place in firsts.get(group.place, []):
            swap, verdicts[place.record] = swapped[place], DROPPED
            told = {k: v for k, v in swap.why.items() if k != "first"}
            entries.append(
                {**told, "index": place.record, "name": swap.first, "original": swap.kept}
            )
        entries.sort(key=lambda entry: int(entry["index"]))
        yield group._replace(verdicts=bytes(verdicts), duplicates=entries)
