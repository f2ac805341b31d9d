"""How a page that was read again compares with its earlier self: by its items, then by lines."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from typing import NamedTuple
from zipfile import BadZipFile

from scrapy_neardup.crawl.fail_open import FailOpen
from scrapy_neardup.crawl.recrawl.conditional import authority_of
from scrapy_neardup.crawl.recrawl.visit_items import Fields, differing, unpacked_fields
from scrapy_neardup.detect import sites
from scrapy_neardup.detect.echoes import VisitEchoes
from scrapy_neardup.detect.page_table import digest_of, site_number
from scrapy_neardup.detect.revision import Lines, Noise, Revision, read_again
from scrapy_neardup.errors import SnapshotError
from scrapy_neardup.state.visit import FIRST, Visit, new_version
from scrapy_neardup.state.visit_file import Status
from scrapy_neardup.state.visits import Visits

MAX_ADDED, MAX_ADDED_CHARS = 20, 300  # new lines that are told, and how much of each
MAX_TARGETS = 100_000  # pages that were rewritten, counted to see if most are the same now
ONE_THING = 3  # pages that must have become the same before a site counts as out of order
MAX_EARLY = 1000  # pages that are judged once more when the crawl ends
# Pages of a host that a crawl reads twice, to see what varies without a change; hosts of which any.
MAX_TWICE, MAX_HOSTS = 12, 10_000
RENEWED = 3  # of those, pages that are read twice though what varies on their host is known


class Revisit(NamedTuple):
    """How a page compares with its earlier self.

    visit      its row, as it is to be remembered
    status     what it is, also where a crash made this run read it twice
    passes     whether its items pass although it is unchanged
    stands     whether its items pass although it repeats another page: they did before it changed,
               or those that they repeat are there no longer
    is_another whether it takes the place of an earlier self that said something else
    fields     names of item fields that differ
    added      lines that are new
    n_removed  lines that are gone
    """

    visit: Visit
    status: Status
    passes: bool
    stands: bool
    is_another: bool
    fields: list[str]
    added: list[str]
    n_removed: int

    @property
    def says_nothing_new(self) -> bool:
        """Whether the items of the page are not to pass."""
        return not self.passes and self.status in (Status.UNCHANGED, Status.MINOR)

    @property
    def tag(self) -> dict[str, object]:
        """What an item is told of it."""
        told: dict[str, object] = {"status": self.status.word}
        if self.status == Status.CHANGED:
            told |= {"fields": self.fields, "added": self.added, "removed": self.n_removed}
        return told


class Early(NamedTuple):
    """A page that counted as changed; by the end it may be known that it varies there anyway."""

    key: bytes
    callback: str
    url: str
    places: list[list[int]]
    moments: frozenset[int] | None  # of a page whose items hold its text


class VisitComparison:
    """Compares visits, and learns from them what varies on each host at every visit.

    noise        what varies: differences in it alone are no change
    n_compared   pages that an earlier run had read, too
    only_fields  field of items → pages on which only that differed
    """

    def __init__(
        self,
        noise: Noise,
        echoes: VisitEchoes,
        is_orphan: Callable[[Visit], bool],
        by_fields: bool,
        attempt: FailOpen,
    ) -> None:
        """is_orphan: whether items of a page were dropped for one that says something else now.

        by_fields: items are compared by fields, so that those of an original were once is known
        for good.
        """
        self.noise = noise
        self.n_compared = 0
        self.only_fields: Counter[str] = Counter()
        self._echoes = echoes
        self._is_orphan = is_orphan
        self._by_fields = by_fields
        self._attempt = attempt
        self._early: list[Early] = []
        self._targets: Counter[bytes] = Counter()  # digest → pages that were rewritten into that
        self._n_same = 0  # the most of them
        self._sources: set[bytes] = set()  # digests of what these pages said before
        self._n_twice: Counter[int] = Counter()  # host → pages read twice

    def compare(
        self,
        visit: Visit,
        earlier: Visit | None,
        now: Revision,
        fields: Fields | None,
        passes: bool,
    ) -> Revisit:
        """Compare a page that was read with its earlier self, and learn from it.

        earlier  None where there is nothing to compare with
        fields   of its items, None where they cannot be read
        passes   whether its items pass whatever it says
        """
        self._echoes.read(echo_host(visit.url), now.echoes, visit.time)
        host = noise_host(visit.url)
        if earlier is None:
            self._read(host, now)
            return Revisit(visit, Status.NEW, passes, False, visit.version != FIRST, [], [], 0)
        is_same = (earlier.text, earlier.data) == (now.text, now.data)
        names = differing(unpacked_fields(earlier.items), fields, is_same)
        if names is None:
            self._attempt("recrawl", self._note_echoes, visit, earlier, now)
        status, added, n_removed = self._status(visit, earlier, now, names)
        if earlier.run < visit.run:
            self.n_compared += 1
            kept = status
            if names is not None and len(names) == 1:
                self.only_fields[names[0]] += 1
        else:  # read again in one run, as after a crash: what the run found first stands
            kept = max(Status(earlier.status), status) if earlier.status else Status.NEW
        if status == Status.CHANGED:
            row = visit._replace(status=kept, version=new_version())
            stands = not (earlier.repeats or self.is_out_of_order())
            return Revisit(row, status, passes, stands, True, names or [], added, n_removed)
        if self._is_orphan(earlier):
            row = visit._replace(first=visit.run, version=new_version())
            return Revisit(row, Status.NEW, passes, self._by_fields, True, [], [], 0)
        row = visit._replace(
            status=kept, version=earlier.version, copy_of=earlier.copy_of, repeats=earlier.repeats
        )
        return Revisit(row, status, passes, False, False, [], added, n_removed)

    def is_to_be_read_twice(
        self, url: str, earlier: Visit | None, now: Revision, fields: Fields | None
    ) -> bool:
        """Whether to read a page again at once, which may show that what differs is noise.

        Then it counts as one of its host's.
        """
        if earlier is None or earlier.lines is None or now.lines is None or not now.held:
            return False
        if (earlier.text, earlier.data) == (now.text, now.data):
            return False
        host, before = noise_host(url), Lines.unpack(earlier.lines)
        if self._n_twice[host] >= MAX_TWICE or len(self._n_twice) > MAX_HOSTS:
            return False
        if differing(unpacked_fields(earlier.items), fields) is not None:
            return False
        if self.noise.is_rewritten(host, before, now.lines):
            return False
        places = self.noise.difference(host, before, now.lines, now.held).places
        place = host, places, now.moments(time.time())
        is_to_be_proven = self._n_twice[host] < RENEWED and self.noise.is_proven(*place)
        if not (is_to_be_proven or self.noise.is_in_doubt(*place)):
            return False
        self._n_twice[host] += 1
        return True

    def read_twice(self, url: str, one: Revision, other: Revision) -> None:
        """Learn from two readings of a page, moments apart."""
        host = noise_host(url)
        if one.lines is None or other.lines is None:
            return
        if not self.noise.is_rewritten(host, one.lines, other.lines):
            found = self.noise.difference(host, one.lines, other.lines, one.held)
            self.noise.learn_twice(host, found)

    def _status(
        self, visit: Visit, earlier: Visit, now: Revision, names: list[str] | None
    ) -> tuple[Status, list[str], int]:
        """What a page is, its new lines, and how many are gone. names: fields that differ."""
        host = noise_host(visit.url)
        if (earlier.text, earlier.data) == (now.text, now.data):
            self._read(host, now)
            if now.lines is not None:
                self.noise.stayed(host, now.lines)
            return (Status.CHANGED if names else Status.UNCHANGED), [], 0
        if earlier.lines is None or now.lines is None:
            self._note_target(earlier, now.text + now.data)
            return Status.CHANGED, [], 0
        before = Lines.unpack(earlier.lines)
        found = self.noise.difference(host, before, now.lines, now.held)
        added = [now.shown[at][:MAX_ADDED_CHARS] for at in found.added[:MAX_ADDED]]
        if self.noise.is_rewritten(host, before, now.lines):
            self._note_target(earlier, now.lines.masked.tobytes() + now.data)
            return Status.CHANGED, added, found.n_removed
        self._read(host, now)
        if names:
            return Status.CHANGED, added, found.n_removed
        if self.noise.knows(host):
            self.noise.learn(host, found)
        moments = now.moments(visit.time) if now.held else None
        early = Early(earlier.key, earlier.callback, earlier.url, found.places, moments)
        if self._is_noise(early):
            return Status.MINOR, added, found.n_removed
        if len(self._early) < MAX_EARLY:
            self._early.append(early)
        return Status.CHANGED, added, found.n_removed

    def _is_noise(self, page: Early) -> bool:
        """Whether a page differs only in what is known by now to vary without a change."""
        host = noise_host(page.url)
        if page.moments is None:
            return self.noise.is_all(host, page.places)
        return self.noise.is_proven(host, page.places, page.moments)

    def _note_echoes(self, visit: Visit, earlier: Visit, now: Revision) -> None:
        """What lines that may tell of the visit have become, on a page with the same items."""
        if earlier.lines is None or now.lines is None:
            return
        before, host = Lines.unpack(earlier.lines), echo_host(visit.url)
        if self.noise.is_rewritten(noise_host(visit.url), before, now.lines):
            return
        # Of a page that was not downloaded last time it is not known when it was as it is stored.
        elapsed = None if earlier.trusted else visit.time - earlier.time
        for echo in now.echoes:
            if (both := read_again(echo, before, now.lines)) is not None:
                self._echoes.compared(host, visit.key, echo, *both, elapsed)

    def _read(self, host: int, now: Revision) -> None:
        if now.lines is not None:
            self.noise.read(host, now.lines)

    def _note_target(self, earlier: Visit, said: bytes) -> None:
        """Count a page by what it says now, to see whether that is the same on most pages.

        said: without numbers of its text. Pages that were the same before count once: they did
        not become it.
        """
        source, target = earlier.text + earlier.data, digest_of(said)
        has_room = len(self._sources) < MAX_TARGETS
        if source in self._sources or not (has_room or target in self._targets):
            return
        if has_room:
            self._sources.add(source)
        self._targets[target] += 1
        self._n_same = max(self._n_same, self._targets[target])

    def confirmed(self, visit: Visit) -> None:
        """A server says that a page is as it was at this visit."""
        if visit.lines is not None:
            self.noise.stayed(noise_host(visit.url), Lines.unpack(visit.lines))

    # --- when the crawl ends

    def is_out_of_order(self) -> bool:
        """Whether most known pages seem to have become the same thing."""
        return self._n_same >= ONE_THING and 2 * self._n_same > self.n_compared

    def minor(self) -> list[Early]:
        """Pages that passed as changed and, as is known now, differ in noise only."""
        return [early for early in self._early if self._is_noise(early)]


def stored_noise(visits: Visits, attempt: FailOpen) -> Noise:
    """What was learnt before this crawl; what of it cannot be read is left out, and counted."""
    found = []
    for packed in attempt("recrawl", visits.learnt) or ():
        try:
            found.append(Noise.unpack(packed, faded=not visits.goes_on))
        except (SnapshotError, LookupError, ValueError, OSError, BadZipFile):
            attempt.failed("recrawl")
    noise, *others = found or [Noise()]
    for other in others:
        noise.merge(other)
    return noise


def noise_host(url: str) -> int:
    """By which noise is kept: the host with its port, for each server varies in its own places."""
    return site_number(authority_of(url))


def echo_host(url: str) -> int:
    """By which the detector keeps what it knows of a host: without its port."""
    return site_number(sites.host_of(url))
