"""Two visits of one page: in which lines they differ, and what of that varies there anyway."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from enum import IntEnum
from io import BytesIO
from typing import Any, NamedTuple, Self
from zlib import crc32

import numpy as np

from scrapy_neardup.detect.content import PageContent
from scrapy_neardup.detect.echoes import Echo, echoes_of
from scrapy_neardup.detect.page_table import digest_of
from scrapy_neardup.detect.templates import NOTHING, HostBlocks, HostTemplates, located
from scrapy_neardup.kernels.numpy_twin import BoolArray, U32Array, U64Array

# Of one page; of a longer one only the digest is known, and of its text as it is.
MAX_LINES, MAX_CHARS = 4096, 1 << 20
EVIDENCE = 5  # pages that must show the same before it counts
NOISE = 0.7  # share of those of a host's pages that have a place, on which it must vary
# The same of pages read twice in one visit, in which nothing but noise varies: two advertisements
# drawn of a few may be the same.
NOISE_AT_ONCE = 0.5
UNSTABLE = 0.2  # share of the pages that have a line, on which it comes or goes
NOISE_BYTES = 8_000_000  # of all hosts, for each of two tables
ON_A_LINE = re.compile(r"[!-~]+")  # what stands between spaces, in languages that have some
DIGITS = re.compile(r"\d+")
CALENDAR = re.compile(
    r"\W*((mon|tues|wednes|thurs|fri|satur|sun)day|mon|tue|wed|thu|fri|sat|sun|today|yesterday|am|pm|"
    r"jan(uary)?|feb(ruary)?|mar(ch)?|apr(il)?|may|june?|july?|aug(ust)?|sept?(ember)?|oct(ober)?|"
    r"nov(ember)?|dec(ember)?)\W*",
    re.IGNORECASE,
)
PARTS = ("read", "present", "varied", "twice_present", "twice_varied")
LONGEST_NAME = 12  # of a day or a month, with a comma
EDGE = 0  # stands for the line before the first and after the last
LAID_OUT = "pre "  # begins details that are text with its spaces and lines
MAX_DISTANCE = 12  # lines from an anchor; what is farther away is never taken for noise
PLACE, LOST = 1 << 32, 1 << 33  # set in keys that are no masks
REORDERED = PLACE | LOST


class Lines(NamedTuple):
    """A page's lines in their order, each as two hashes of 32 bits; shape (n,)."""

    exact: U32Array  # of the line
    masked: U32Array  # of what does not vary in it: no numbers, dates and tokens

    def pack(self) -> bytes:
        """Both, 8 bytes a line."""
        return self.exact.astype("<u4").tobytes() + self.masked.astype("<u4").tobytes()

    @classmethod
    def unpack(cls, packed: bytes) -> Self:
        """What pack() gave. Raises ValueError."""
        exact, masked = np.frombuffer(packed, "<u4").reshape(2, -1)
        return cls(exact.astype(np.uint32), masked.astype(np.uint32))


class Held(IntEnum):
    """What of a page its items hold, for which its lines speak."""

    FIELDS = 0  # no more than items are compared by
    TEXT = 1  # what a reader sees
    PAGE = 2  # all of it, markup included


class Revision(NamedTuple):
    """What one visit found on a page.

    text   digest of what a reader sees
    data   digest of what markup and scripts say besides
    lines  None where there are more than MAX_LINES, or the page is not text
    shown  the lines as they are; empty where lines is None
    echoes those of them that may tell of the visit
    held   how much of the page its items hold: so much of it is compared
    """

    text: bytes
    data: bytes
    lines: Lines | None
    shown: list[str]
    echoes: Sequence[Echo] = ()
    held: Held = Held.FIELDS

    @classmethod
    def of(
        cls, content: PageContent | str | None, body: bytes, held: Held = Held.FIELDS
    ) -> Revision:
        """The revision of a page as it was extracted; of its body where it is not text."""
        if content is None:
            return cls(digest_of(body), b"", None, [], held=held)
        page = PageContent(content) if isinstance(content, str) else content
        marks = _marks(page, held)
        said = page.data + marks
        if len(page.text) > MAX_CHARS:
            text, data = _digest([page.text, *page.heads]), _digest(said)
            return cls(text, data, None, [], held=held)
        seen = [" ".join(line.split()) for line in page.text.splitlines()]
        # Headings come twice: a title stands beside no place where an advertisement may be.
        read = [line for line in seen if line]
        shown = read + [line for line in page.heads if line]
        text, data = _digest(shown), _digest(said) if said else b""
        if len(shown) + len(said) > MAX_LINES:
            return cls(text, data, None, [], held=held)
        masks = [masked(line) for line in shown]
        masks += [line.partition(" ")[0] for line in page.data]
        masks += [masked(line) for line in marks]
        shown += said
        lines = Lines(_hashes(shown), _hashes(masks))
        return cls(text, data, lines, shown, echoes_of(read), held)

    def moments(self, at: float) -> frozenset[int]:
        """Masks of the lines that say the time of a visit. at: in seconds since the epoch."""
        if self.lines is None:
            return frozenset()
        said = [echo for echo in self.echoes if echo.kind == "moment" and echo.says(at) is not None]
        return frozenset(self.lines.masked[[echo.line for echo in said]].tolist())


def _marks(page: PageContent, held: Held) -> list[str]:
    """What a page says besides its text and data, as far as its items hold it."""
    if held == Held.PAGE:
        return page.details + page.attributes()
    if held == Held.TEXT:  # whose spaces a line of the text does not have
        return [line for line in page.details if line.startswith(LAID_OUT)]
    return []


BoolFunction = Callable[[U32Array], BoolArray]


def read_again(echo: Echo, earlier: Lines, now: Lines) -> tuple[int, int] | None:
    """The exact hashes of a line at an earlier visit and now; None unless each has one like it."""
    mask = now.masked[echo.line]
    then = np.flatnonzero(earlier.masked == mask)
    if len(then) != 1 or np.count_nonzero(now.masked == mask) != 1:
        return None
    return earlier.exact.item(then[0]), now.exact.item(echo.line)


def always(masks: U32Array) -> BoolArray:
    """All of them."""
    return np.ones(len(masks), dtype=bool)


class RevisionDifference(NamedTuple):
    """In what a page differs from its earlier self.

    places     of each line that differs, the keys of where it stands: none to two
    present    keys of all places that one of both has; masks of lines that both have
    lost       masks of lines that only one of both has
    added      which lines are new, ascending
    n_removed  lines that are gone
    """

    places: list[list[int]]
    present: set[int]
    lost: U64Array
    added: list[int]
    n_removed: int


def masked(line: str) -> str:
    """A line without what varies in it: words with digits, and names of days and months."""
    line = ON_A_LINE.sub(_mask, line)
    return DIGITS.sub("#", line)


def _mask(word: re.Match[str]) -> str:
    text = word[0]
    if DIGITS.search(text):
        return "#"
    return "#" if len(text) <= LONGEST_NAME and CALENDAR.fullmatch(text) else text


def _digest(lines: list[str]) -> bytes:
    return digest_of("\n".join(lines).encode("utf-8", "replace"))


def _hashes(lines: list[str]) -> U32Array:
    crcs = [crc32(line.encode("utf-8", "surrogatepass")) for line in lines]
    return np.array(crcs, dtype=np.uint32)


def difference(earlier: Lines, now: Lines, stable: BoolFunction = always) -> RevisionDifference:
    """In which lines two visits of a page differ; O(n log n).

    A line with an equal mask in both varies at its own place. Any other stands at a distance
    from the nearest stable line before it that both have, and from that after it.

    stable: of masks that both have, which may serve so.
    """
    common = np.intersect1d(earlier.masked, now.masked)
    anchors = common[stable(common)]
    gone = np.flatnonzero(~np.isin(earlier.exact, now.exact))
    added = np.flatnonzero(~np.isin(now.exact, earlier.exact))
    present = set(common.tolist())
    places: list[list[int]] = []
    for lines, differing in ((earlier, gone), (now, added)):
        keys = _places(lines, np.isin(lines.masked, anchors))
        present.update(*keys)
        both = np.isin(lines.masked, common)
        masks = lines.masked.tolist()
        places += [[masks[at]] if both[at] else keys[at] for at in differing.tolist()]
    if not places:  # the same lines in another order, or as often
        present.add(REORDERED)
        places.append([REORDERED])
    return RevisionDifference(places, present, _lost(earlier, now), added.tolist(), len(gone))


def exact_difference(
    earlier: Lines, now: Lines, stable: BoolFunction = always
) -> RevisionDifference:
    """In which lines two readings of a page differ, their order and number included; O(n log n).

    Only a line whose mask each of both has once varies at its own place, or is an anchor: of
    several prices one may be the page's, and the others those of an advertisement.
    """
    once = np.intersect1d(_once(earlier.masked), _once(now.masked))
    anchors = once[stable(once)]
    gone, added = _unpaired(earlier.exact.tolist(), now.exact.tolist())
    present = set(once.tolist())
    places: list[list[int]] = []
    for lines, differing in ((earlier, gone), (now, added)):
        keys = _places(lines, np.isin(lines.masked, anchors))
        present.update(*keys)
        is_single = np.isin(lines.masked, once)
        masks = lines.masked.tolist()
        places += [[masks[at]] if is_single[at] else keys[at] for at in differing]
    return RevisionDifference(places, present, _lost(earlier, now), added, len(gone))


def _once(masks: U32Array) -> U32Array:
    """Masks that one line has."""
    each, counts = np.unique(masks, return_counts=True)
    once: U32Array = each[counts == 1]
    return once


def _lost(earlier: Lines, now: Lines) -> U64Array:
    return np.setxor1d(earlier.masked, now.masked).astype(np.uint64) | np.uint64(LOST)


def _unpaired(earlier: list[int], now: list[int]) -> tuple[list[int], list[int]]:
    """Places of the lines of each that have no equal in the other, in an order that both have."""
    places = {line: at for at, line in enumerate(_numbered(earlier))}
    common = [(places[line], at) for at, line in enumerate(_numbered(now)) if line in places]
    paired = [common[n] for n in _ascending([place for place, _ in common])]
    of_earlier, of_now = {place for place, _ in paired}, {at for _, at in paired}
    gone = [place for place in range(len(earlier)) if place not in of_earlier]
    return gone, [at for at in range(len(now)) if at not in of_now]


def _numbered(lines: list[int]) -> list[tuple[int, int]]:
    """Each line, and how many equal ones stand before it."""
    counts: Counter[int] = Counter()
    numbered = []
    for line in lines:
        numbered.append((line, counts[line]))
        counts[line] += 1
    return numbered


def _ascending(numbers: list[int]) -> list[int]:
    """Places of a longest ascending part of different numbers; O(n log n), by patience sorting."""
    lowest: list[int] = []  # last number of a part of each length
    last: list[int] = []  # its place
    before: list[int] = []  # of each place, that of the number before it in its part
    for at, number in enumerate(numbers):
        length = bisect_left(lowest, number)
        before.append(last[length - 1] if length else -1)
        lowest[length : length + 1], last[length : length + 1] = [number], [at]
    found, at = [], last[-1] if last else -1
    while at >= 0:
        found.append(at)
        at = before[at]
    return found[::-1]


def _places(lines: Lines, is_anchor: BoolArray) -> list[list[int]]:
    """Of each line, its keys by the anchors before and after it, if they are near enough.

    An anchor has them where it stands right beside another one: there, the line that is another
    on this page is the same on that one. Not behind lines that vary, whose number may vary, too.
    """
    masks, is_anchored = lines.masked.tolist(), is_anchor.tolist()
    keys: list[list[int]] = [[] for _ in masks]
    for step, at in ((1, 0), (-1, len(masks) - 1)):
        anchor, distance = EDGE, 0
        while 0 <= at < len(masks):
            distance += 1
            if is_anchored[at]:
                if distance == 1:
                    keys[at].append(_key(anchor, step))
                anchor, distance = masks[at], 0
            elif distance <= MAX_DISTANCE:
                keys[at].append(_key(anchor, step * distance))
            at += step
    return keys


def _key(line: int, distance: int) -> int:
    """The key of a place so many lines after another line, or before it."""
    return crc32(b"%d %d" % (line, distance)) | PLACE


class Noise:
    """Where the pages of each host vary at every visit, learnt from pages compared.

    A place is noise when it varied on EVIDENCE pages, and on NOISE of those that have it. Pages
    whose items changed as well are no evidence: there, what varies may be what counts. Nor are
    pages of which most is new, as when a site answers everything with the same error.

    That is enough where items say the same as before. Where they hold the page's text, a sale may
    have changed all prices since the last visit, or the weather each day: there a place is noise
    only if it varies while pages are read twice in one visit, on EVIDENCE of them and NOISE_AT_ONCE
    of those that have it, or if it also says the time of the visit.
    """

    def __init__(self) -> None:
        self._read = HostTemplates(NOISE_BYTES)  # lines of all pages
        self._present = HostTemplates(NOISE_BYTES)  # of those compared, what both visits have
        self._varied = HostTemplates(NOISE_BYTES)  # of those, the places that varied
        # The same of pages read twice in one visit.
        self._twice_present = HostTemplates(NOISE_BYTES)
        self._twice_varied = HostTemplates(NOISE_BYTES)
        # Of pages that stayed the same, all places. For one run: a date is the same all day.
        self._same = HostTemplates(NOISE_BYTES)

    def read(self, host: int, lines: Lines) -> None:
        """A page of a host was read."""
        self._read.learn(host, lines.exact.astype(np.uint64))

    def knows(self, host: int) -> bool:
        """Whether enough pages of a host were read to know its template."""
        return self._read.is_warm(host)

    def is_rewritten(self, host: int, earlier: Lines, now: Lines) -> bool:
        """Whether more than half of what is not the host's template is another, numbers apart."""
        known = self._read.known(host) if self.knows(host) else None
        known = known or NOTHING
        common = np.intersect1d(earlier.masked, now.masked)
        for lines in (earlier, now):
            own = ~known.template(lines.exact.astype(np.uint64))
            replaced = own & ~np.isin(lines.masked, common)
            if 2 * replaced.sum() > own.sum():
                return True
        return False

    def difference(
        self, host: int, earlier: Lines, now: Lines, held: Held = Held.FIELDS
    ) -> RevisionDifference:
        """In which lines two visits differ, by what is known of the host's lines."""
        found = exact_difference if held else difference
        return found(earlier, now, lambda masks: self._is_stable(host, masks))

    def _is_stable(self, host: int, masks: U32Array) -> BoolArray:
        """Which lines stay on the pages that have them; also those that are hardly known."""
        hashes = masks.astype(np.uint64)
        n_lost = self._n(host, (self._varied, self._twice_varied), hashes | np.uint64(LOST))
        n_stayed = self._n(host, (self._present, self._twice_present), hashes)
        stable: BoolArray = (n_lost < 2) | (n_lost < UNSTABLE * (n_stayed + n_lost))
        return stable

    def learn(self, host: int, found: RevisionDifference) -> None:
        """A page of a host was compared with its earlier self."""
        self._learn(host, found, self._present, self._varied)

    def learn_twice(self, host: int, found: RevisionDifference) -> None:
        """A page of a host was read twice in one visit."""
        self._learn(host, found, self._twice_present, self._twice_varied)

    def _learn(
        self, host: int, found: RevisionDifference, present: HostTemplates, varied: HostTemplates
    ) -> None:
        present.learn(host, _array(found.present))
        varied.learn(host, np.concatenate([_array(_keys(found.places)), found.lost]))

    def stayed(self, host: int, lines: Lines) -> None:
        """A page of a host is what it was: no place of it varied."""
        masks = np.unique(lines.masked)
        is_anchor = np.isin(lines.masked, masks[self._is_stable(host, masks)])
        keys = set(masks.tolist()).union(*_places(lines, is_anchor))
        self._same.learn(host, _array(keys))

    def is_all(self, host: int, places: list[list[int]]) -> bool:
        """Whether a page differs from its earlier self only in what varies there anyway.

        places: of the difference.
        """
        return self._are_in(places, self._over_visits(host, _keys(places)))

    def is_proven(self, host: int, places: list[list[int]], moments: AbstractSet[int]) -> bool:
        """is_all() of a page whose items hold its text. moments: see Revision."""
        keys = _keys(places)
        noisy = self._within_a_visit(host, keys) | self._over_visits(host, keys & moments)
        return self._are_in(places, noisy)

    def is_in_doubt(self, host: int, places: list[list[int]], moments: AbstractSet[int]) -> bool:
        """Whether reading pages twice may show that is_proven() holds."""
        if self.is_proven(host, places, moments):
            return False
        keys = _keys(places)
        array = _array(keys)
        n_present = self._n(host, (self._twice_present,), array)
        n_varied = self._n(host, (self._twice_varied,), array)
        stands = set(array[(n_present >= EVIDENCE) & (n_varied == 0)].tolist())
        return all(place and stands.isdisjoint(place) for place in places)

    def _over_visits(self, host: int, keys: AbstractSet[int]) -> set[int]:
        """Which places vary from visit to visit."""
        return self._noisy(host, keys, NOISE, self._varied, (self._present, self._same))

    def _within_a_visit(self, host: int, keys: AbstractSet[int]) -> set[int]:
        """Which places vary in one visit."""
        tables = self._twice_varied, (self._twice_present,)
        return self._noisy(host, keys, NOISE_AT_ONCE, *tables)

    def _noisy(
        self,
        host: int,
        keys: AbstractSet[int],
        share: float,
        varied: HostTemplates,
        present: Sequence[HostTemplates],
    ) -> set[int]:
        array = _array(keys)
        n_varied, n_present = self._n(host, (varied,), array), self._n(host, present, array)
        noise = (n_varied >= EVIDENCE) & (n_varied >= share * n_present)
        return set(array[noise].tolist())

    def _n(self, host: int, tables: Sequence[HostTemplates], hashes: U64Array) -> U32Array:
        """On how many pages of a host each hash was, by all tables."""
        counts = [_counts(table.known(host), hashes) for table in tables]
        total: U32Array = np.sum(counts, axis=0, dtype=np.uint32)
        return total

    def _are_in(self, places: list[list[int]], noisy: set[int]) -> bool:
        return bool(places) and all(place and noisy.issuperset(place) for place in places)

    def merge(self, other: Noise) -> None:
        """Of each host, know what was learnt from more pages, here or there."""
        for host, read in other._read.hosts():
            if read.n_pages > (self._read.known(host) or NOTHING).n_pages:
                self._adopt(host, other)

    def _adopt(self, host: int, other: Noise) -> None:
        for name in PARTS:
            learnt = getattr(other, f"_{name}").known(host) or NOTHING
            getattr(self, f"_{name}").adopt(host, learnt)

    def pack(self) -> bytes:
        """All that was learnt."""
        file = BytesIO()
        parts = {name: getattr(self, f"_{name}").arrays() for name in PARTS}
        arrays = {f"{name}.{n}": a for name, part in parts.items() for n, a in part.items()}
        np.savez(file, **arrays)
        return file.getvalue()

    @classmethod
    def unpack(cls, packed: bytes, faded: bool) -> Self:
        """What pack() gave. Raises SnapshotError, KeyError, ValueError, OSError, BadZipFile.

        faded: what was learnt before counts half, so that it can change.
        """
        noise = cls()
        with np.load(BytesIO(packed), allow_pickle=False) as stored:
            arrays = {name: stored[name] for name in stored.files}
        for name in PARTS:
            part = {n.partition(".")[2]: a for n, a in arrays.items() if n.startswith(f"{name}.")}
            if faded:
                part["counts"], part["n_pages"] = _half(part["counts"]), _half(part["n_pages"])
            setattr(noise, f"_{name}", HostTemplates.from_arrays(part, NOISE_BYTES))
        return noise


def _half(counts: Any) -> Any:
    """Half of each count, but not less than what is evidence."""
    halves = np.maximum((counts + 1) // 2, np.minimum(counts, EVIDENCE))
    return halves.astype(counts.dtype)


def _keys(places: list[list[int]]) -> set[int]:
    return {key for place in places for key in place}


def _array(keys: AbstractSet[int]) -> U64Array:
    return np.array(sorted(keys), np.uint64)


def _counts(host: HostBlocks | None, hashes: U64Array) -> U32Array:
    """On how many pages of a host each hash was."""
    known = host or NOTHING
    places, found = located(hashes, known.hashes)
    counts = np.zeros(len(hashes), dtype=np.uint32)
    counts[found] = known.counts[places[found]]
    return counts
