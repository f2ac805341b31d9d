"""Decisions → totals, also by site, URL pattern and minute; and which clusters to look at first."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from math import log10
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

from scrapy_neardup.ledger.reader import LedgerReader, Tell
from scrapy_neardup.ledger.schema import DUPLICATE_KINDS, NOT_READ, Decided
from scrapy_neardup.report.patterns import is_wholesale, url_pattern

# Beyond these, sites and patterns are counted together and clusters are not ranked: a summary
# of any crawl fits into some 200 MB.
MAX_GROUPS = 50_000
MAX_CLUSTERS = 200_000
OTHERS = "(others)"

# A pair this close to its limit is worth a look.
CLOSE_TO_LIMIT = 0.9
LARGE_CLUSTER = 20
POINTS = {"title": 8, "data": 4, "near-limit": 2, "large": 1}


@dataclass(slots=True)
class Tally:
    """What was decided about the URLs and pages of one group."""

    kinds: Counter[str] = field(default_factory=Counter)
    near_not_kept: int = 0  # near-duplicates that were dropped, tagged or counted
    kept_by_data: int = 0  # pages that repeat another, all of whose items were kept for their data
    dropped: int = 0  # pages, not URLs
    dropped_bytes: int = 0
    sized: int = 0  # pages whose size is known
    size_bytes: int = 0
    timed: int = 0  # pages whose download was timed
    latency_ms: int = 0

    def add(self, decided: Decided) -> None:
        """Count one decision."""
        self.kinds[decided.kind] += 1
        if decided.size_bytes is not None:
            self.sized += 1
            self.size_bytes += decided.size_bytes
        if decided.latency_ms is not None:
            self.timed += 1
            self.latency_ms += decided.latency_ms
        self.near_not_kept += decided.kind == "near" and decided.action != "kept"
        self.kept_by_data += decided.data_differ is not None and decided.action == "kept"
        if decided.action == "dropped" and decided.kind not in NOT_READ:
            self.dropped += 1
            self.dropped_bytes += decided.size_bytes or 0

    @property
    def pages(self) -> int:
        """Pages that were read."""
        return self.kinds.total() - sum(self.kinds[kind] for kind in NOT_READ)

    @property
    def duplicates(self) -> int:
        """Pages that repeat another."""
        return sum(self.kinds[kind] for kind in DUPLICATE_KINDS - NOT_READ)

    def as_dict(self) -> dict[str, object]:
        """The counts by name, for JSON."""
        return {
            "pages": self.pages,
            "duplicates": self.duplicates,
            "dropped": self.dropped,
            "kinds": dict(self.kinds),
        }


@dataclass(slots=True)
class Cluster:
    """An original and what was judged to repeat it."""

    original: str
    exact: int = 0
    near: int = 0
    least_alike: float = 1.0  # smallest estimated similarity of a near member
    # Of near members that were not kept:
    not_kept: int = 0
    other_titles: int = 0  # with another title than the original's
    nearest_limit: float = 0.0  # how much of a limit the worst one uses, 0 to 1
    # Of all members:
    other_data: int = 0  # with items that were kept because their data differ

    @property
    def size(self) -> int:
        """Members, the original not counted."""
        return self.exact + self.near

    def reasons(self) -> list[str]:
        """Why a person should look at it, the strongest reason first; none where all is well.

        "title": a near-duplicate has another title, "data": items of a copy differ, "near-limit",
        "large". A member that was kept can only be a reason by its data.
        """
        reasons = {
            "title": self.other_titles > 0,
            "data": self.other_data > 0,
            "near-limit": self.nearest_limit >= CLOSE_TO_LIMIT,
            "large": self.not_kept >= LARGE_CLUSTER,
        }
        return [reason for reason, holds in reasons.items() if holds]

    def suspicion(self) -> float:
        """What clusters are sorted by: points for reasons, closeness to a limit, size."""
        points = sum(POINTS[reason] for reason in self.reasons())
        return points + self.nearest_limit + log10(self.near or 1) / 10


class Savings(NamedTuple):
    """What the crawl did not spend. Of URLs never fetched it can only be estimated."""

    urls: int  # requests not made
    estimated_bytes: int | None  # of those, at the mean of their sites' pages; None: none known
    estimated_seconds: float | None
    pages: int  # downloaded and not kept
    bytes: int  # of those, measured


class Summary:
    """Counts decisions one by one; can be read at any time. MAX_GROUPS and MAX_CLUSTERS bound it.

    `rules` are the settings of the newest crawl: pairs are measured against its limits.
    """

    def __init__(self, rules: Mapping[str, object]) -> None:
        self.rules = rules
        self.total = Tally()
        self.sites: dict[str, Tally] = {}
        self.patterns: dict[str, Tally] = {}
        self.clusters: dict[str, Cluster] = {}
        self.unranked_clusters = 0
        self.minutes: dict[int, Counter[str]] = defaultdict(Counter)
        self.distances: Counter[int] = Counter()
        self.sketch_distances: Counter[int] = Counter()
        self.similarities: Counter[int] = Counter()  # whole per cent, rounded down
        self.last: tuple[int, int] = (0, 0)

    def extend(self, decisions: Iterable[Decided]) -> None:
        """Count many decisions."""
        for decided in decisions:
            self.add(decided)

    def add(self, decided: Decided) -> None:
        """Count one decision."""
        pattern = url_pattern(decided.url)
        self.total.add(decided)
        _group(self.sites, site_shown(decided.url)).add(decided)
        _group(self.patterns, pattern).add(decided)
        self.minutes[int(decided.time // 60)][decided.kind] += 1
        if decided.kind == "near":
            self.distances[decided.distance or 0] += 1
            if decided.sketch_distance is not None:
                self.sketch_distances[decided.sketch_distance] += 1
            if decided.similarity is not None:
                self.similarities[int(decided.similarity * 100 + 1e-9)] += 1
        if decided.original and decided.kind in ("exact", "near"):
            self._add_to_cluster(decided.original, decided)
        self.last = decided.position

    def savings(self) -> Savings:
        """What was not fetched and what was not kept."""
        bytes_of = [(t.kinds["seen"], t.size_bytes, t.sized) for t in self.sites.values()]
        ms_of = [(t.kinds["seen"], t.latency_ms, t.timed) for t in self.sites.values()]
        size = _estimate(bytes_of, self.total.size_bytes, self.total.sized)
        ms = _estimate(ms_of, self.total.latency_ms, self.total.timed)
        return Savings(
            self.total.kinds["seen"],
            None if size is None else round(size),
            None if ms is None else ms / 1000,
            self.total.dropped,
            self.total.dropped_bytes,
        )

    def wholesale_patterns(self) -> list[tuple[str, Tally]]:
        """URL patterns most of whose pages are near-duplicates that were not kept; most first."""
        found = [
            (name, tally)
            for name, tally in self.patterns.items()
            if name != OTHERS and is_wholesale(tally.near_not_kept, tally.pages)
        ]
        return sorted(found, key=lambda found: (-found[1].near_not_kept, found[0]))

    def suspicious_clusters(self) -> list[Cluster]:
        """All clusters, those that a person should judge first in front."""
        return sorted(self.clusters.values(), key=lambda c: (-c.suspicion(), -c.size, c.original))

    def largest_clusters(self) -> list[Cluster]:
        """All clusters, the largest first."""
        return sorted(self.clusters.values(), key=lambda c: (-c.size, c.original))

    def _add_to_cluster(self, original: str, decided: Decided) -> None:
        cluster = self.clusters.get(original)
        if cluster is None:
            if len(self.clusters) >= MAX_CLUSTERS:
                self.unranked_clusters += 1
                return
            cluster = self.clusters[original] = Cluster(original)
        cluster.other_data += decided.data_differ is not None
        if decided.kind == "exact":
            cluster.exact += 1
            return
        cluster.near += 1
        if decided.similarity is not None:
            cluster.least_alike = min(cluster.least_alike, decided.similarity)
        if decided.action == "kept":
            return
        cluster.not_kept += 1
        cluster.other_titles += bool(decided.title_differs)
        cluster.nearest_limit = max(cluster.nearest_limit, share_of_limit(decided, self.rules))


def share_of_limit(decided: Decided, rules: Mapping[str, object]) -> float:
    """How close a near-duplicate came to the limit that it came closest to; 1 is at the limit.

    The limits are those that confirmed it: sketch distance and similarity, or the fingerprint's
    distance where nothing else was asked (NEARDUP_CONFIRM_DISTANCE=None). A sketch beyond its limit
    decided nothing: what templates leave of both pages was near.
    """
    if rules.get("NEARDUP_CONFIRM_DISTANCE") is None:
        uses: list[tuple[float | None, object]] = [
            (decided.distance, rules.get("NEARDUP_DISTANCE"))
        ]
    else:
        unlike = None if decided.similarity is None else 1 - decided.similarity
        alike = rules.get("NEARDUP_SIMILARITY")
        uses = [
            (decided.sketch_distance, rules["NEARDUP_CONFIRM_DISTANCE"]),
            (unlike, 1 - alike if isinstance(alike, float) else None),
        ]
    shares = [
        value / limit
        for value, limit in uses
        if value is not None and isinstance(limit, (int, float)) and limit and value <= limit
    ]
    return min(1.0, max(shares, default=0.0))


def summarise(state: Path, tell: Tell | None = None) -> Summary:
    """The summary of all decisions of a state folder. tell: as for LedgerReader, which raises."""
    reader = LedgerReader(state, tell)
    runs = reader.runs()
    summary = Summary(runs[-1].rules if runs else {})
    summary.extend(reader.decisions())
    return summary


def site_shown(url: str) -> str:
    """The host of a URL: what reports call its site."""
    try:
        return urlsplit(url).netloc or "(no host)"
    except ValueError:  # "http://["
        return "(no host)"


def _group(groups: dict[str, Tally], name: str) -> Tally:
    if name not in groups:
        name = name if len(groups) < MAX_GROUPS else OTHERS
        groups.setdefault(name, Tally())
    return groups[name]


def _estimate(sites: list[tuple[int, int, int]], total: int, known: int) -> float | None:
    """The sum, over sites, of URLs not fetched times the site's mean, or the mean of all sites."""
    if not known:
        return None
    return sum(seen * (sum_ / n if n else total / known) for seen, sum_, n in sites)
