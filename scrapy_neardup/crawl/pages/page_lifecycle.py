"""What becomes of each page, as one state machine: events in, effects out.

No Scrapy, no I/O, no logging, no clock: whoever drives it translates what happens into events,
and carries out the effects that they return, in their order.

    REQUESTED ── answered ──▶ ANSWERED ── reading ──▶ READING ── judged ──▶ JUDGED
                                 │                       │                    │
                                 ├────── item_out ───────┴────────┬───────────┘
                                 │                                ▼
                                 │                            ITEMS_OUT
                                 │ exhausted                      │ exhausted, and every item done
                                 ▼                                ▼
                              WAITING ── all it waits for is done ──▶ COMPLETED

A callback or a pipeline that raised leads to FAILED instead of WAITING: such a page is never
completed, so the next crawl reads it again. So does an item without a file that could not be
downloaded; it is kept, for all that.

A callback that *stopped* the crawl, by CloseSpider, may have kept to itself what its page says, so
such a page is FAILED, too, and found again by the next crawl. Not so where a lease would end with
it: what the spider has done with a request of its queue is its own choice, and a crawl that goes on
with the queue is not to begin where the last one stopped. Then the page and those that wait for it
are completed, but their URLs do not count as seen.

A request that a queue on disk keeps until its page is completed has a *lease*: it enters as
REQUESTED, and its page takes its place. One that comes to nothing goes from there to COMPLETED.
Other requests are only counted, by the page that they were found on.

Apart from the page itself there is its *row* in the page table, by which later pages are taken
for its copies. It is kept when an item of the page has left the pipelines; forgotten when none
did. A page that brought no item at all leaves its row pending: the first copy that brings one
from then on stands in for it.

While a page's items are in the pipelines, those of its copies are dropped in their favour. If one
of the page's is lost then (a later pipeline dropped it, or raised), or the page brings none in the
end, such a copy has to be read again, or what both said would be missing.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum, StrEnum
from itertools import count, islice
from secrets import randbits
from typing import Any, NamedTuple

import numpy as np

from scrapy_neardup.errors import BrokenInvariant, SnapshotError
from scrapy_neardup.stored_arrays import check_arrays, check_starts
from scrapy_neardup.urls.filters.exact import ExactUrlFilter

WHAT = "pages under way"  # in a snapshot
NOBODY = -1  # no page, where a page id is expected
MAX_PAGES = 2_000_000  # under way; about 550 MB


class Stage(StrEnum):
    """Where a page stands."""

    REQUESTED = "asked for; a queue on disk keeps the request until its page is completed"
    ANSWERED = "its final response came; its callback may be running"
    READING = "its words are being read"
    JUDGED = "it was compared with the pages before it"
    ITEMS_OUT = "an item of it was handed to the pipelines"
    WAITING = "all its items are done; it waits for what was found on it, or for its original"
    FAILED = "its callback or a pipeline raised; it will not be completed"
    COMPLETED = "all is done; its URL counts as seen for later crawls"


NEXT = {
    Stage.REQUESTED: {Stage.ANSWERED, Stage.COMPLETED},
    Stage.ANSWERED: {Stage.READING, Stage.ITEMS_OUT, Stage.WAITING, Stage.FAILED},
    Stage.READING: {Stage.JUDGED, Stage.ITEMS_OUT, Stage.WAITING, Stage.FAILED},
    Stage.JUDGED: {Stage.ITEMS_OUT, Stage.WAITING, Stage.FAILED},
    Stage.ITEMS_OUT: {Stage.READING, Stage.JUDGED, Stage.ITEMS_OUT, Stage.WAITING, Stage.FAILED},
    Stage.WAITING: {Stage.COMPLETED},
    Stage.FAILED: set(),
}


class Fate(Enum):
    """What became of an item that was handed out."""

    KEPT = "it left the pipelines, now or when its page was read before"
    REPEATED = "our pipeline dropped it, because it repeats another"
    DROPPED = "another pipeline dropped it"
    WITHOUT_FILE = "it left the pipelines, without a file that a later crawl may get"
    FAILED = "a pipeline raised, or dropped it where such a file is missing"


class RowKept(NamedTuple):
    """An item of the row's page left the pipelines: the page is known from now on."""

    row: int


class RowKeptInPart(NamedTuple):
    """The same, but another item of the page was lost, or its callback failed or stopped the crawl:
    that the page is known does not tell that all its items are."""

    row: int


class RowForgotten(NamedTuple):
    """No item of the row's page left the pipelines: nothing may count as its copy."""

    row: int


class RowPending(NamedTuple):
    """The row's page brought no item; it is neither kept nor forgotten until a copy brings one."""

    row: int


class ReadAgain(NamedTuple):
    """An item that one of the page's was dropped for is lost, or never came: request it once more.

    The page waits for that request, which is said to be found on it. Comes before the Settled of
    the page, or, where that came earlier, before what becomes of the row.
    """

    page: int
    row: int  # of the original whose item that was


class Settled(NamedTuple):
    """Nothing more can happen to the items of a page."""

    page: int
    failed: bool  # whether it is to be read again; also where CloseSpider was raised


class Completed(NamedTuple):
    """The page of a URL is done, and everything first found on it: later crawls need not read it.

    Comes after every RowKept of the page and of its original.
    """

    key: bytes


class LeaseEnded(NamedTuple):
    """All that a request led to is done: the queue on disk need not keep it.

    Comes after the Completed of its page.
    """

    lease: int


Effect = (
    RowKept
    | RowKeptInPart
    | RowForgotten
    | RowPending
    | ReadAgain
    | Settled
    | Completed
    | LeaseEnded
)


@dataclass(slots=True, eq=False)
class _Items:
    """Rows and items of a page whose items are not all done."""

    rows: list[int] = field(default_factory=list)  # that are kept or forgotten with its items
    originals: set[int] = field(default_factory=set)  # rows that it waits for, being their copy
    original: int | None = None  # row of the page whose copy it is
    n_out: int = 0
    n_done: int = 0
    n_kept: int = 0
    n_lost: int = 0  # dropped by others, or failed
    n_repeats: int = 0
    lost_originals: list[int] = field(default_factory=list)  # rows of which an item was lost
    exhausted: bool = False
    failed: bool = False
    stopped: bool = False


@dataclass(slots=True, eq=False)
class _Page:
    """A page under way. Few bytes: a broad crawl has as many as pages whose links wait."""

    key: bytes | None
    found_on: int  # what waits for this page, or NOBODY
    twin: int  # an earlier page of the same key, which waits for this one, too, or NOBODY
    n_open: int = 1  # what it waits for; its own handling is one
    stage: Stage = Stage.ANSWERED
    items: _Items | None = None  # until they are settled
    lease: int = NOBODY  # by which a queue on disk knows its request
    is_read_again: bool = False


class PageLifecycle:
    """Every page that is under way.

    O(1) an event; memory for pages, not for requests. A page that never hears of something it
    waits for is never completed, so the next crawl reads it again: the safe side. That is also
    what becomes of the oldest that wait where more than `max_pages` are under way.

    n_let_go  pages that were let go for that reason

    Why a page waits for what was found on it: a crash loses the requests that were waiting. A
    page found only on pages that count as seen would then never be found again. So a URL counts
    as seen for later crawls only when everything first found on its page is done, too. After a
    crash the pages on the way to what was lost are read once more, and nothing else.
    """

    def __init__(self, max_pages: int = MAX_PAGES) -> None:
        self.n_let_go = 0
        # A later page of such a key knows nothing of what the former waited for.
        self._keys_let_go: ExactUrlFilter | None = None
        self._max_pages = max_pages
        self._pages: dict[int, _Page] = {}
        self._ids_by_key: dict[bytes, int] = {}
        self._unkept: dict[int, list[int]] = {}  # row neither kept nor forgotten → its copies
        self._itemless: set[int] = set()  # rows of pages that brought no item
        # Requests in a queue on disk outlive a crash with these numbers: none may come again.
        self._ids = count(randbits(30) << 32)

    # --- events: requests and responses

    def leased(self, lease: int, found_on: int | None) -> int:
        """A queue on disk gave a request that it keeps until LeaseEnded; the id of its page.

        found_on: the page that waits for the request, if there is one.
        """
        id = next(self._ids)
        found_on = found_on if found_on in self._pages else None
        found_on = NOBODY if found_on is None else found_on
        self._pages[id] = _Page(None, found_on, NOBODY, stage=Stage.REQUESTED, lease=lease)
        return id

    def requested(self, page: int) -> None:
        """The page gave a request, which has to come to an end before the page is completed."""
        self._pages[page].n_open += 1

    def request_ended(self, found_on: int | None) -> list[Effect]:
        """A request was dropped on purpose: its page need not wait for it. Ignores unknown ids."""
        return self._done(NOBODY if found_on is None else found_on)

    def requests_lost(self) -> None:
        """What was found on pages under way may be lost: none of them is ever completed."""
        for page in self._pages.values():
            page.n_open += 1

    def answered(self, key: bytes | None, found_on: int | None) -> int:
        """A final response came; the id of its page.

        key       of its URL, None where the URL is not to count as seen
        found_on  the page that its request was found on, or that leased() gave, if known: what
                  waited for the request waits for this page from now on

        A key is completed when every page of it is.
        """
        id, page = self._begun(NOBODY if found_on is None else found_on)
        if key is not None and self._keys_let_go is not None and key in self._keys_let_go:
            key = None
        if key is not None and key in self._ids_by_key:
            page.twin = self._ids_by_key[key]
            self.requested(page.twin)
        elif key is not None:
            page.key = key
            self._ids_by_key[key] = id
        return id

    def cut_off(self, page: int) -> None:
        """Only the beginning of the page came: it is never completed."""
        self._pages[page].n_open += 1

    def _begun(self, found_on: int) -> tuple[int, _Page]:
        leased = self._pages.get(found_on)
        if leased is not None and leased.stage is Stage.REQUESTED:
            self._move(leased, Stage.ANSWERED)
            return found_on, leased
        if len(self._pages) >= self._max_pages:
            self._let_go()
        id = next(self._ids)
        page = self._pages[id] = _Page(None, found_on, NOBODY)
        return id, page

    def _let_go(self) -> None:
        """Do without the oldest pages that only wait: they led to the others, and wait longest.

        What was found on them is completed without them. A thousandth at once, because a dict
        takes long to find its first entry after many were removed.
        """
        if self._keys_let_go is None:
            self._keys_let_go = ExactUrlFilter(self._max_pages)
        at_rest = (Stage.WAITING, Stage.FAILED)
        oldest = (id for id, page in self._pages.items() if page.stage in at_rest)
        for id in list(islice(oldest, max(1, self._max_pages // 1000))):
            page = self._pages.pop(id)
            self.n_let_go += 1
            if page.key is not None:
                del self._ids_by_key[page.key]
                self._keys_let_go.add(page.key)

    # --- events: reading and deciding

    def reading(self, page: int) -> None:
        """The page's words are about to be read."""
        self._move(self._pages[page], Stage.READING)

    def judged(self, page: int, row: int | None, original: int | None) -> None:
        """The page was compared, or could not be.

        row       by which it is remembered from now on, None where it is not
        original  row of the page whose copy it is, None where its items are not to be dropped
        """
        entry = self._pages[page]
        self._move(entry, Stage.JUDGED)
        if row is not None:
            self.remembered(page, row)
        if original is not None:
            self._items_of(page).original = original
            self._wait_for_original(page, original)

    def remembered(self, page: int, row: int) -> None:
        """A row of the page's, or of an item of it, is remembered from now on.

        Or a number below those of all rows: others wait for its items, though it is a copy.
        """
        self._unkept[row] = []
        self._items_of(page).rows.append(row)

    def _wait_for_original(self, page: int, original: int) -> None:
        """Complete a copy only when an item of its original has left the pipelines."""
        items, copies = self._items_of(page), self._unkept.get(original)
        if copies is None or original in items.originals or original in items.rows:
            return
        items.originals.add(original)
        copies.append(page)
        self._pages[page].n_open += 1

    # --- events: items

    def item_out(self, page: int) -> bool:
        """An item is handed to the pipelines; whether the page now stands in for its original.

        That is so for a page's first item where its original was read for its links and brought
        none. The page is its copy no more: its items stand for both.
        """
        entry, items = self._pages[page], self._items_of(page)
        self._move(entry, Stage.ITEMS_OUT)
        items.n_out += 1
        original = items.original
        if items.n_out > 1 or original is None or original not in self._itemless:
            return False
        self._itemless.discard(original)
        self._stop_waiting(page, entry, items, {original})
        items.rows.append(original)
        return True

    def item_repeats(self, page: int, original: int | None) -> bool:
        """An item is about to be dropped as a repeat; whether it is the page's first one.

        original: row of what the page, or the item by itself, repeats.
        """
        items = self._items_of(page)
        items.n_repeats += 1
        if original is not None:
            self._wait_for_original(page, original)
        return items.n_repeats == 1

    def item_done(self, page: int, fate: Fate) -> list[Effect]:
        """An item left the pipelines, one way or another."""
        items = self._items_of(page)
        items.n_done += 1
        items.n_kept += fate in (Fate.KEPT, Fate.WITHOUT_FILE)
        items.n_lost += fate in (Fate.DROPPED, Fate.FAILED)
        items.failed |= fate in (Fate.WITHOUT_FILE, Fate.FAILED)
        return self._settled_if_done(page, items)

    def exhausted(self, page: int, failed: bool, stopped: bool = False) -> list[Effect]:
        """The callback yields nothing more. failed: it raised; stopped: it stopped the crawl."""
        items = self._items_of(page)
        items.exhausted = True
        items.stopped |= stopped
        items.failed |= failed or (stopped and not self._is_of_queue(page))
        return self._settled_if_done(page, items)

    def _items_of(self, page: int) -> _Items:
        entry = self._pages[page]
        if entry.items is None:
            if entry.stage in (Stage.WAITING, Stage.FAILED):
                raise BrokenInvariant(f"page {page} is {entry.stage.name}: its items are done")
            entry.items = _Items()
        return entry.items

    # --- all items of a page are done

    def _settled_if_done(self, page: int, items: _Items) -> list[Effect]:
        if not items.exhausted or items.n_done < items.n_out:
            return []
        entry = self._pages[page]
        self._move(entry, Stage.FAILED if items.failed else Stage.WAITING)
        entry.items = None
        effects: list[Effect] = []
        for row in items.lost_originals:
            effects += self._original_lost(page, row) if items.n_repeats else self._done(page)
        # First: what is remembered of its items is to be known before its row is.
        effects.append(Settled(page, items.failed or items.stopped))
        effects += self._rows_settled(items)
        if not items.n_repeats:  # nothing of it was dropped in favour of an original
            self._stop_waiting(page, entry, items, set(items.originals))
        if items.stopped and not items.failed:
            self._leave_unseen(page)
        if not items.failed:
            effects += self._done(page)
        elif entry.n_open == 1 and entry.key is None and entry.found_on == entry.twin == NOBODY:
            del self._pages[page]  # nothing waits for it, nor it for anything
        return effects

    def _rows_settled(self, items: _Items) -> list[Effect]:
        """Every row of a page is kept, forgotten or pending, together."""
        effects: list[Effect] = []
        for row in items.rows:
            if not items.n_out:
                self._itemless.add(row)
                effects += self._items_missing(row)
                effects.append(RowPending(row))
                continue
            copies = self._unkept.pop(row)
            is_lost = items.n_lost or not items.n_kept
            if is_lost:
                for copy in copies:
                    effects += self._original_lost(copy, row)
            if not items.n_kept:
                effects.append(RowForgotten(row))
            else:
                is_whole = not (items.n_lost or items.failed or items.stopped)
                effects.append(RowKept(row) if is_whole else RowKeptInPart(row))
            if not is_lost:
                for copy in copies:
                    effects += self._original_kept(copy, row)
        return effects

    def _items_missing(self, row: int) -> list[Effect]:
        """The row's page brought no item: nothing of it stands for items of its copies.

        A copy that has brought none either may still stand in for it.
        """
        effects: list[Effect] = []
        copies, self._unkept[row] = self._unkept[row], []
        for copy in copies:
            entry = self._pages.get(copy)
            if entry is not None and entry.items is not None and not entry.items.n_out:
                self._unkept[row].append(copy)
            else:
                effects += self._original_lost(copy, row)
        return effects

    def _original_lost(self, copy: int, original: int) -> list[Effect]:
        """An item of the original was lost: a copy of which one was dropped is read again, once.

        From then on it waits for that, not for the original.
        """
        entry = self._pages.get(copy)
        if entry is None:  # let go
            return []
        if entry.items is not None:  # told when it is known whether one was dropped
            entry.items.originals.discard(original)
            entry.items.lost_originals.append(original)
            return []
        if entry.is_read_again:
            return self._done(copy)
        entry.is_read_again = True
        return [ReadAgain(copy, original)]

    def _original_kept(self, copy: int, original: int) -> list[Effect]:
        entry = self._pages.get(copy)
        if entry is not None and entry.items is not None:
            entry.items.originals.discard(original)
        return self._done(copy)

    def _stop_waiting(self, page: int, entry: _Page, items: _Items, originals: set[int]) -> None:
        """The page is not, or not any more, a copy that depends on these originals."""
        for original in originals:
            items.originals.discard(original)
            entry.n_open -= 1
            if original in self._unkept:
                self._unkept[original].remove(page)

    # --- completion

    def _is_of_queue(self, page: int) -> bool:
        """Whether a page, or one that waits for it, has a lease."""
        return any(entry.lease != NOBODY for entry in self._upwards(page))

    def _leave_unseen(self, page: int) -> None:
        """Never count the URL of a page as seen, nor those of pages that wait for it."""
        for entry in self._upwards(page):
            if entry.key is not None:
                del self._ids_by_key[entry.key]
                entry.key = None

    def _upwards(self, page: int) -> Iterator[_Page]:
        """A page, those that wait for it, and so on."""
        ids = [page]
        while ids:
            entry = self._pages.get(ids.pop())
            if entry is not None:
                yield entry
                ids += (entry.found_on, entry.twin)

    def _done(self, page: int) -> list[Effect]:
        """One thing that a page waited for is done; so may be the page, and what waits for it."""
        effects: list[Effect] = []
        ids = [page]
        while ids:
            id = ids.pop()
            entry = self._pages.get(id)
            if entry is None:
                continue
            entry.n_open -= 1
            if not entry.n_open:
                self._move(entry, Stage.COMPLETED)
                ids += (entry.found_on, entry.twin)
                del self._pages[id]
                if entry.key is not None:
                    del self._ids_by_key[entry.key]
                    effects.append(Completed(entry.key))
                if entry.lease != NOBODY:
                    effects.append(LeaseEnded(entry.lease))
        return effects

    def _move(self, entry: _Page, stage: Stage) -> None:
        if stage not in NEXT[entry.stage]:
            raise BrokenInvariant(f"a page cannot go from {entry.stage.name} to {stage.name}")
        entry.stage = stage

    # --- questions

    def stage(self, page: int) -> Stage:
        """Where a page that was answered stands."""
        entry = self._pages.get(page)
        return Stage.COMPLETED if entry is None else entry.stage

    def is_under_way(self, page: int) -> bool:
        """Whether a page was answered and is not completed."""
        return page in self._pages

    def unkept(self) -> list[int]:
        """The rows that are neither kept nor forgotten."""
        return list(self._unkept)

    def is_leased(self, page: int | None) -> bool:
        """Whether a page is a request that a queue on disk keeps, and has no answer yet."""
        entry = self._pages.get(NOBODY if page is None else page)
        return entry is not None and entry.stage is Stage.REQUESTED

    def is_unkept(self, row: int | None) -> bool:
        """Whether a row is neither kept nor forgotten."""
        return row in self._unkept

    def __contains__(self, key: bytes) -> bool:
        """Whether a page of this key was answered and is not completed."""
        return key in self._ids_by_key

    def __len__(self) -> int:
        """Pages that are not completed."""
        return len(self._pages)

    # --- from one crawl to the next

    def arrays(self) -> dict[str, Any]:
        """The pages that wait, for a crawl that goes on with the same queue of requests."""
        pages = self._pages.values()
        keys = [b"" if page.key is None else page.key for page in pages]
        return {
            "ids": np.array(list(self._pages), np.int64),
            "parents": np.array([page.found_on for page in pages], np.int64),
            "twins": np.array([page.twin for page in pages], np.int64),
            "n_open": np.array([page.n_open for page in pages], np.int64),
            "key_ends": np.cumsum([len(key) for key in keys], dtype=np.int64),
            "key_bytes": np.frombuffer(b"".join(keys), np.uint8),
        }

    def restore(self, arrays: dict[str, Any]) -> None:
        """Wait for what arrays() described. Raises SnapshotError."""
        names = ("ids", "parents", "twins", "n_open")
        _check(names, arrays)
        columns = (arrays[name].tolist() for name in names)
        for id, found_on, twin, n_open, key in zip(*columns, _keys(arrays), strict=True):
            self._pages[id] = _Page(key or None, found_on, twin, n_open, Stage.WAITING)
            if key:
                self._ids_by_key[key] = id


def _check(names: tuple[str, ...], arrays: dict[str, Any]) -> None:
    """Raises SnapshotError unless no page, and no key, is there twice, and each waits."""
    check_arrays(WHAT, arrays, {"key_bytes": (np.uint8, (None,)), "ids": (np.int64, (None,))})
    columns = (*names, "key_ends")
    check_arrays(WHAT, arrays, dict.fromkeys(columns, (np.int64, arrays["ids"].shape)))
    ends = np.concatenate([np.zeros(1, np.int64), arrays["key_ends"]])
    check_starts(f"{WHAT}, key_ends", ends, len(arrays["key_bytes"]))
    keys = [key for key in _keys(arrays) if key]
    ids = arrays["ids"].tolist()
    if len(set(keys)) < len(keys) or len(set(ids)) < len(ids) or (arrays["n_open"] < 1).any():
        raise SnapshotError(f"{WHAT}: a page or a key stands twice, or waits for nothing")


def _keys(arrays: dict[str, Any]) -> Iterator[bytes]:
    data, start = arrays["key_bytes"].tobytes(), 0
    for end in arrays["key_ends"].tolist():
        yield data[start:end]
        start = end
