"""The data of the report's page: totals of all decisions, and rows of the newest."""

from __future__ import annotations

import shlex
from collections import deque
from collections.abc import Iterable
from pathlib import Path
from time import time

from scrapy_neardup.errors import StateError
from scrapy_neardup.ledger.reader import LedgerReader, Tell
from scrapy_neardup.ledger.schema import ACTIONS, KINDS, Decided
from scrapy_neardup.report.changed_pages import changed_pages
from scrapy_neardup.report.summary import Cluster, Summary, Tally

ROWS = 200_000
GROUPS = 300
CLUSTERS = 1_000
LEARNT = 200  # rules, and kinds of URLs
WHOLESALE = 20  # URL patterns
# Texts make a report large: those of the first clusters, and of a few members each.
CLUSTERS_WITH_TEXT = 200
MEMBERS_WITH_TEXT = 8
TEXT_CHARS = 20_000
MAX_COLUMNS = 96  # of the chart over time


class Collected:
    """A summary and the newest rows, read in one pass; each update resumes where the last ended."""

    def __init__(self, state: Path, rows: int = ROWS, tell: Tell | None = None) -> None:
        self.state = state
        self.reader = LedgerReader(state, tell)
        self.summary = Summary({})
        self.newest: deque[Decided] = deque(maxlen=rows)

    def refresh(self) -> None:
        """Read the decisions that were added since the last update."""
        runs = self.reader.runs()
        self.summary.rules = runs[-1].rules if runs else {}
        for decided in self.reader.decisions(self.summary.last):
            self.summary.add(decided)
            self.newest.append(decided)

    def as_dict(self) -> dict[str, object]:
        """Everything that the page shows, for JSON. Every string in it is crawled and hostile."""
        summary = self.summary
        clusters = summary.suspicious_clusters()[:CLUSTERS]
        rows = self._rows(clusters)
        return {
            "state": self.state.name,
            "state_argument": shlex.quote(str(self.state)),
            "made": time(),
            "kind_names": KINDS,
            "action_names": ACTIONS,
            "rules": _plain(summary.rules),
            "total": _counts(summary.total),
            "savings": summary.savings()._asdict(),
            "sites": _groups(summary.sites),
            "patterns": _groups(summary.patterns),
            "n_sites": len(summary.sites),
            "n_patterns": len(summary.patterns),
            "timeline": timeline(summary),
            "distances": sorted(summary.distances.items()),
            "similarities": sorted(summary.similarities.items()),
            "sketch_distances": sorted(summary.sketch_distances.items()),
            "clusters": [_cluster(cluster) for cluster in clusters],
            "n_clusters": len(summary.clusters) + summary.unranked_clusters,
            "wholesale": [
                {"name": name, "near": tally.near_not_kept, "pages": tally.pages}
                for name, tally in summary.wholesale_patterns()[:WHOLESALE]
            ],
            "n_doubtful": sum(bool(c.reasons()) for c in summary.clusters.values()),
            "n_decisions": summary.total.kinds.total(),
            "learnt": learnt(self.state),
            "changed": changed_pages(self.state, self.reader),
            "rows": columns(rows),
            "texts": self._texts(clusters, rows),
        }

    def _rows(self, clusters: list[Cluster]) -> list[Decided]:
        """The newest decisions, and older ones that belong to the first clusters."""
        rows = {decided.position: decided for decided in self.newest}
        if len(rows) < self.summary.total.kinds.total():
            originals = [cluster.original for cluster in clusters[:CLUSTERS_WITH_TEXT]]
            for decided in self.reader.duplicates_of(*originals):
                rows.setdefault(decided.position, decided)
        return [rows[position] for position in sorted(rows)]

    def _texts(self, clusters: list[Cluster], rows: Iterable[Decided]) -> dict[str, str]:
        """Kept texts of the originals and first members of the first clusters, by URL."""
        members: dict[str, list[str]] = {c.original: [] for c in clusters[:CLUSTERS_WITH_TEXT]}
        for decided in sorted(rows, key=lambda d: -(d.sketch_distance or 0)):
            if decided.kind == "near" and decided.original in members:
                members[decided.original].append(decided.url)
        wanted = [
            url
            for original, urls in members.items()
            if urls
            for url in (original, *urls[:MEMBERS_WITH_TEXT])
        ]
        found = self.reader.texts(dict.fromkeys(wanted))
        return {url: text[:TEXT_CHARS] for url, text in found.items()}


def learnt(state: Path) -> dict[str, object]:
    """The rules of a state folder, the most useful first, and its dry kinds of URLs."""
    # Imported here: `scrapy neardup --help` reads this module.
    from scrapy_neardup.learn.changes import told
    from scrapy_neardup.learn.dry_kinds import how_dry
    from scrapy_neardup.state.learnt_rules import load_rules

    try:
        rules, dry = load_rules(state, None)
    except (FileNotFoundError, StateError):  # damaged: of that, `check` speaks
        rules, dry = [], {}
    return {
        "rules": [
            {
                "number": number,
                "shape": rule.shape,
                "words": told(rule.change),
                "standing": rule.standing.value,
                "pinned": rule.pinned,
                "right": rule.right,
                "saved": rule.saved,
                "saved_bytes": rule.saved_bytes,
                "examples": rule.examples,
                "contradiction": rule.contradiction,
            }
            for number, rule in enumerate(rules[:LEARNT], 1)
        ],
        "dry": [{"kind": k, "words": how_dry(*known)} for k, known in list(dry.items())[:LEARNT]],
        "n_rules": len(rules),
        "n_dry": len(dry),
    }


def columns(rows: list[Decided]) -> dict[str, object]:
    """Rows as columns, originals as indices of a list: half the size, and fast to parse."""
    targets: dict[str, int] = {}
    for decided in rows:
        for url in (decided.original, decided.elsewhere):
            if url is not None:
                targets.setdefault(url, len(targets))
    return {
        "time": [round(d.time) for d in rows],
        "kind": [KINDS.index(d.kind) for d in rows],
        "action": [ACTIONS.index(d.action) for d in rows],
        "url": [d.url for d in rows],
        "original": [-1 if d.original is None else targets[d.original] for d in rows],
        "elsewhere": {
            i: targets[d.elsewhere] for i, d in enumerate(rows) if d.elsewhere is not None
        },
        "distance": [d.distance for d in rows],
        "sketch": [d.sketch_distance for d in rows],
        "similarity": [d.similarity for d in rows],
        "words": [d.words for d in rows],
        "differs": {i: d.differs for i, d in enumerate(rows) if d.differs is not None},
        "data_differ": {i: d.data_differ for i, d in enumerate(rows) if d.data_differ is not None},
        "targets": list(targets),
    }


def timeline(summary: Summary) -> dict[str, object]:
    """Decisions by kind in up to MAX_COLUMNS equal spans of whole minutes."""
    if not summary.minutes:
        return {"start": 0, "span_s": 60, "kinds": {}}
    first, last = min(summary.minutes), max(summary.minutes)
    span = -(-(last - first + 1) // MAX_COLUMNS)
    n_columns = (last - first) // span + 1
    kinds = {kind: [0] * n_columns for kind in KINDS}
    for minute, counts in summary.minutes.items():
        for kind, number in counts.items():
            kinds[kind][(minute - first) // span] += number  # type: ignore[index]
    return {"start": first * 60, "span_s": span * 60, "kinds": kinds}


def _counts(tally: Tally) -> dict[str, object]:
    counts = {"pages": tally.pages, "dropped": tally.dropped, "kept_by_data": tally.kept_by_data}
    return {**tally.kinds, **counts}


def _groups(groups: dict[str, Tally]) -> list[dict[str, object]]:
    """The groups with most duplicates and dropped URLs."""
    first = sorted(groups.items(), key=lambda g: (-g[1].duplicates - g[1].kinds["seen"], g[0]))
    return [{"name": name, **_counts(tally)} for name, tally in first[:GROUPS]]


def _cluster(cluster: Cluster) -> dict[str, object]:
    return {
        "original": cluster.original,
        "exact": cluster.exact,
        "near": cluster.near,
        "least_alike": cluster.least_alike,
        "limit": round(cluster.nearest_limit, 3),
        "reasons": cluster.reasons(),
    }


def _plain(rules: object) -> dict[str, object]:
    """The rules that are single values, as the page lists them."""
    if not isinstance(rules, dict):
        return {}
    return {k: v for k, v in rules.items() if v is None or isinstance(v, (str, int, float, bool))}
