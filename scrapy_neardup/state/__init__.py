"""What a crawl knows of URLs and pages, kept so that the next one knows it, too.

When a URL counts as seen and a page as known, the crawl says: crawl/pages/page_lifecycle.py.
What is in between is in memory only: a crash forgets it, and it is fetched again.
"""

from __future__ import annotations

import logging
import struct
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from secrets import randbits
from typing import Any, Self

import numpy as np

from scrapy_neardup.detect.decision import INDEXED, Decision
from scrapy_neardup.detect.detector import Detector
from scrapy_neardup.detect.item_table import ItemTable, KeptItem
from scrapy_neardup.detect.page_reading import PageReading
from scrapy_neardup.detect.page_table import PageTable
from scrapy_neardup.errors import BrokenInvariant, JournalError, SnapshotError, StateLocked
from scrapy_neardup.state import records
from scrapy_neardup.state.guest import GuestStore
from scrapy_neardup.state.header import Identity
from scrapy_neardup.state.journal import Fsync, JournalRecord
from scrapy_neardup.state.recovery import FRONTIER_COMMIT
from scrapy_neardup.state.secret import new_key
from scrapy_neardup.state.store import Store
from scrapy_neardup.stored_arrays import check_arrays, is_frozen, under
from scrapy_neardup.urls.filters import UrlFilter
from scrapy_neardup.urls.filters.rotating import RotatingUrlFilter

logger = logging.getLogger(__name__)

Arrays = dict[str, Any]

SPIDERS = "spiders"  # in a snapshot

# What reading may raise where a file with right checksums was made by somebody else.
MADE_UP = (ArithmeticError, LookupError, TypeError, ValueError)


@dataclass(frozen=True, slots=True)
class StateFactory:
    """How to make what the state holds: anew, or from the arrays of a snapshot.

    identity takes the secret key, as do the makers of the detector. new_urls makes a filter
    for one generation of URLs.
    """

    identity: Callable[[int], Identity]
    new_urls: Callable[[], UrlFilter]
    urls_from: Callable[[Arrays], UrlFilter]
    new_detector: Callable[[int], Detector]
    detector_from: Callable[[int, Arrays], Detector]


class State:
    """URLs seen, pages known, and what was kept of their items.

    For one thread, that of the crawl's loop. Nothing here raises because of the disk once the
    state is open; see Store.

    id         a number that stays with the state's folder, and that no other state has
    crashed    whether the crawl before this one ended without close()
    n_restored  page rows that were there when it was opened; the others came since
    frontier_commit  the newest commit of the job's frontier that pages count on, 0 for none
    spiders    numbers of those that crawled with it, this one included; 0 for any that is unknown
    under_way  what the crawl before this one gave to close(), None where it crashed or gave none
    """

    def __init__(
        self,
        urls: RotatingUrlFilter,
        detector: Detector,
        store: Store | None = None,
        ttl_s: float | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """Without a store: in memory only.

        ttl_s: after so many seconds URLs and pages are forgotten; None: never.
        """
        self.urls = urls
        self.detector = detector
        self.items = ItemTable(detector.engine.sketch_spec.n_words)
        self.store = store
        self.id = randbits(63) if store is None else store.id
        self.crashed = store is not None and store.crashed
        self.frontier_commit = 0 if store is None else store.frontier_commit
        self.n_restored = 0
        self.spiders: set[int] = set()
        self.under_way: Arrays | None = None
        self._ttl_s = ttl_s
        self._clock = clock
        # Rows that decide() added and that no file may hold yet → whether they are indexed.
        self._unkept: dict[int, bool] = {}
        self._writer = ThreadPoolExecutor(1, thread_name_prefix="neardup-snapshot")
        self._writing: Future[bool] | None = None
        self._copies: Arrays = {}  # of the last snapshot, to be written over: see _copied
        self._in_use = False

    @classmethod
    def open(
        cls,
        folder: Path | None,
        factory: StateFactory,
        *,
        key: int | None = None,
        fsync: Fsync = "everysec",
        ttl_s: float | None = None,
        clock: Callable[[], float] = time.time,
        as_guest: bool = False,
    ) -> Self:
        """The state of a folder, made where there is none; without a folder, in memory only.

        key       the secret of 64 bits, None for the folder's own
        as_guest  go on with what can be read of a folder that another crawl has (guest.py)

        Raises StateLocked where another crawl has it, SnapshotError and JournalError for
        damage or another specification, StateError for a damaged key.
        """
        urls = RotatingUrlFilter(factory.new_urls, ttl_s, clock)
        if folder is None:
            detector = factory.new_detector(new_key() if key is None else key)
            return cls(urls, detector, None, ttl_s, clock)
        store = _store(folder, fsync, as_guest)
        with _closed_on_error(store):
            key = store.key() if key is None else key
            arrays, journalled = store.load(factory.identity(key), key)
            detector = _detector(factory, key, arrays, folder)
            state = cls(urls, detector, store, ttl_s, clock)
            if arrays:
                with _refused_if_broken(folder):
                    urls.restore(under("urls.", arrays), factory.urls_from)
                    state._restore(arrays)
            with _refused_if_made_up(folder):
                state._replay(journalled)
            state.expire()
            state.n_restored = detector.pages.n_rows
        return state

    @property
    def is_guest(self) -> bool:
        """Whether another crawl has the folder."""
        return self.store is not None and self.store.is_guest

    @property
    def key(self) -> int:
        """The secret."""
        return self.detector.engine.sketch_spec.key

    def begin(self, spider: str) -> None:
        """A crawl of a spider goes on from here: unless it calls close(), it crashed."""
        self._in_use = True
        named = records.pack_spider(spider)
        if (number := records.unpack_spider(named)) not in self.spiders:
            self.spiders.add(number)
            self._record(records.SPIDER, lambda: named)
        if self.store is not None:
            self._writing = self._writer.submit(self._prepare, self.store, self._arrays())

    def _prepare(self, store: Store, arrays: Arrays) -> bool:
        store.prepare()
        if not store.is_guest:
            self._copies_of(arrays)  # for their memory: the first snapshot shall find it touched
        return True

    def url_done(self, key: bytes) -> int:
        """A URL counts as seen from now on; what the filter's add_reporting says of it."""
        layer = self.urls.add(key)
        self._record(records.URL, lambda: records.pack_url(key, self._clock()))
        return layer

    def frontier_committed(self, number: int) -> None:
        """What waits in a commit of the job's frontier is safe: pages may count on that."""
        self.frontier_commit = number
        self._record(records.FRONTIER, lambda: records.pack_commit(number))

    def frontier_emptied(self) -> bool:
        """Nothing waits in the job's frontier; whether that is on the disk, and it may go."""
        self.frontier_committed(0)
        return self.store is not None and self.store.sync()

    def decide(
        self, reading: PageReading, learn: bool = True, claimed: int | None = None
    ) -> tuple[Decision, bool]:
        """The detector's decision, and whether it remembers the page from now on.

        Such a page waits for keep() or drop(). Where the detector fails, the page is as if it
        had never been seen.
        """
        n_rows = self.detector.pages.n_rows
        try:
            decision = self.detector.decide(reading, learn, claimed)
        except Exception:
            for row in range(n_rows, self.detector.pages.n_rows):
                self.detector.forget(row)
            raise
        if decision.page_id is None or decision.page_id < n_rows:
            return decision, False
        self._unkept[decision.page_id] = decision.kind in INDEXED
        return decision, True

    def is_unkept(self, page_id: int | None) -> bool:
        """Whether a page that decide() remembers waits for keep() or drop()."""
        return page_id in self._unkept

    def has_kept(self, url: str) -> bool:
        """Whether a page of a URL is known for good."""
        page_id = self.detector.pages.with_url(url)
        return page_id is not None and page_id not in self._unkept

    def keep(self, page_id: int) -> None:
        """The page's item left the pipelines: from now on the page is known for good."""
        indexed = self._unkept.pop(page_id, None)
        if indexed is not None:
            self._record(records.PAGE, lambda: self._packed(page_id, indexed))

    def keep_item(self, item: KeptItem) -> None:
        """An item of a page that is known left the pipelines."""
        if self.items.add(item):
            self._record(records.ITEM, lambda: records.pack_item(item))

    def drop(self, page_id: int) -> bool:
        """No item of the page left the pipelines: nothing shall count as its repeat.

        False where it is no page that waits for keep() or drop().
        """
        is_unkept = self._unkept.pop(page_id, None) is not None
        if is_unkept:
            self.detector.forget(page_id)
        return is_unkept

    def forget_page(self, url: str) -> None:
        """The page of a URL says something else now: nothing repeats it any more."""
        row = self.detector.pages.with_url(url)
        if row is not None and row not in self._unkept and self.detector.forget(row):
            payload = url.encode("utf-8", "surrogatepass")
            self._record(records.PAGE_FORGOTTEN, lambda: payload)

    def move_page(self, url: str, target: str) -> None:
        """What the page of a URL said is at another URL now, if no other page is known there."""
        pages = self.detector.pages
        row = pages.with_url(url)
        if row is None or row in self._unkept:
            return
        kept = self._kept_page(row)
        self.forget_page(url)
        if pages.with_url(target) is None:
            moved = self.detector.restore(kept.page._replace(url=target), kept.indexed)
            self._record(records.PAGE, lambda: self._packed(moved, kept.indexed))

    def kept_pages(self) -> Iterator[records.KeptPage]:
        """Every page that is known for good, while others come and go."""
        pages = self.detector.pages
        for row in pages.ids().tolist():
            if row not in self._unkept and pages.with_url(pages.url(row)) == row:
                yield self._kept_page(row)

    def _kept_page(self, row: int) -> records.KeptPage:
        return records.KeptPage(self.detector.pages.page(row), self.detector.is_indexed(row))

    def _packed(self, page_id: int, indexed: bool) -> bytes:
        return records.pack_page(records.KeptPage(self.detector.pages.page(page_id), indexed))

    def _record(self, kind: int, payload: Callable[[], bytes]) -> None:
        if self.store is not None:
            self.store.append(kind, payload())

    def expire(self) -> int:
        """Forget URLs and pages older than the time to live; how many pages."""
        self.urls.expire()
        if self._ttl_s is None:
            return 0
        now = self._clock()
        self.detector.pages.limit_times(now)  # pages of a clock that was ahead age from now on
        n_forgotten = self.detector.forget_before(now - self._ttl_s)
        if n_forgotten:
            self.items.keep_pages(self.detector.pages.names())
        return n_forgotten

    def snapshot(self) -> None:
        """Save everything without stopping the crawl.

        Copies here what may change, and writes and syncs in a thread; nothing while the last
        snapshot is still being written. What that one put into files of rows leaves memory.
        Raises what the thread that wrote the last one raised; the store has counted what no file
        could take.
        """
        if self.store is None or self.is_guest:
            return
        if self._writing is not None:
            if not self._writing.done():
                return
            written, self._writing = self._writing, None
            written.result()
        self._rest_on_files(self.store)
        self._begin_writing(self._frozen())

    def _rest_on_files(self, store: Store) -> None:
        tables: dict[str, PageTable | ItemTable]
        tables = {"detector.pages.": self.detector.pages, "items.": self.items}
        mapped, store.newly_mapped = store.newly_mapped, []
        for name, grows, start, rows in mapped:
            for prefix, table in tables.items():
                if name.startswith(prefix):
                    table.rest_on(grows, name.removeprefix(prefix), start, rows)

    def close(self, under_way: Arrays | None = None, cleanly: bool = True) -> None:
        """Save everything and give the folder back.

        under_way: what the next crawl is to go on with, which makes the requests that still
        wait (JOBDIR). Without it, the pages that led to them are read again.

        cleanly: False where the next crawl is to take this one for crashed.
        """
        if self.store is None:
            return
        if self._writing is not None:
            self._writing.exception()  # waits: it may be making the journal that comes next
        kept = {f"under_way.{name}": array for name, array in (under_way or {}).items()}
        is_saved = False
        try:
            saved = self._begin_writing(self._frozen() | kept, is_last=True)
            is_saved = saved is not None and saved.result()
        finally:
            self._writer.shutdown()
            self.store.close(cleanly=is_saved and cleanly)

    def release(self) -> None:
        """Give back thread and folder, with what was recorded so far; after close(), nothing.

        Without begin() the folder is left as it was found: no crawl has run.
        """
        self._writer.shutdown()
        if self.store is not None:
            self.store.close(cleanly=not self._in_use and not self.store.crashed)

    def _begin_writing(self, arrays: Arrays, is_last: bool = False) -> Future[bool] | None:
        number = self.store.rotate() if self.store is not None else None
        if self.store is None or number is None:
            return None
        self._writing = self._writer.submit(self._write, self.store, number, arrays, is_last)
        return self._writing

    @staticmethod
    def _write(store: Store, number: int, arrays: Arrays, is_last: bool) -> bool:
        saved = store.write(number, arrays)
        if not is_last:
            store.prepare()
        return saved

    def _frozen(self) -> Arrays:
        """A consistent copy; arrays that nobody will write to are taken as they are."""
        return self._copies_of(self._arrays())

    def _arrays(self) -> Arrays:
        return {
            **{f"urls.{name}": array for name, array in self.urls.arrays().items()},
            **{f"detector.{name}": array for name, array in self.detector.arrays().items()},
            **{f"items.{name}": array for name, array in self.items.arrays().items()},
            "unkept": np.array(list(self._unkept), np.int64),
            FRONTIER_COMMIT: np.array([self.frontier_commit], np.int64),
            SPIDERS: np.array(sorted(self.spiders), np.uint64),
        }

    def _copies_of(self, arrays: Arrays) -> Arrays:
        return {n: a if is_frozen(a) else self._copied(n, a) for n, a in arrays.items()}

    def _copied(self, name: str, array: Any) -> Any:
        """A copy that stays until the next snapshot, in memory of the last one where it fits.

        New memory takes the loop three times as long as memory that was touched before.
        """
        flat = array.reshape(-1)
        kept = self._copies.get(name)
        if kept is None or len(kept) < len(flat) or kept.dtype != flat.dtype:
            kept = self._copies[name] = np.empty(len(flat) * 5 // 4, flat.dtype)
        copy = kept[: len(flat)]
        copy[:] = flat
        return copy.reshape(array.shape)

    def check(self) -> None:
        """Every invariant of filter, detector and items, at any cost. Raises BrokenInvariant."""
        self.urls.check()
        self.detector.check()
        self.items.check()

    def _restore(self, arrays: Arrays) -> None:
        """What a snapshot holds besides URLs and the detector."""
        n_words = self.items.sketch_words
        self.items = ItemTable.from_arrays(under("items.", arrays))
        if self.items.sketch_words != n_words:
            raise SnapshotError(f"sketches of {self.items.sketch_words} words, not {n_words}")
        check_arrays("state", arrays, {"unkept": (np.int64, (None,))})
        for page_id in arrays["unkept"].tolist():
            self.detector.forget(page_id)
        self.spiders = {0}  # of an earlier release
        if SPIDERS in arrays:
            check_arrays("state", arrays, {SPIDERS: (np.uint64, (None,))})
            self.spiders = set(arrays[SPIDERS].tolist())
        if "under_way.ids" in arrays and not self.crashed:
            self.under_way = under("under_way.", arrays)

    def _replay(self, journalled: Iterable[JournalRecord]) -> None:
        keys: list[bytes] = []
        times: list[float] = []
        for record in journalled:
            if record.kind == records.URL:
                key, seen_at = records.unpack_url(record.payload)
                keys.append(key)
                times.append(seen_at)
            elif record.kind == records.PAGE:
                self.detector.restore(*records.unpack_page(record.payload))
            elif record.kind == records.ITEM:
                self.items.add(records.unpack_item(record.payload))
            elif record.kind == records.PAGE_FORGOTTEN:
                row = self.detector.pages.with_url(record.payload.decode("utf-8", "surrogatepass"))
                if row is not None:
                    self.detector.forget(row)
            elif record.kind == records.SPIDER:
                self.spiders.add(records.unpack_spider(record.payload))
            elif record.kind == records.URLS_FORGOTTEN:
                keys, times = [], []
                self.urls.clear()
            elif record.kind != records.FRONTIER:  # the store has read those
                raise ValueError(f"a record of unknown kind {record.kind}")
        self.urls.add_at(keys, times)


def _detector(factory: StateFactory, key: int, arrays: Arrays, folder: Path) -> Detector:
    if not arrays:
        return factory.new_detector(key)
    with _refused_if_broken(folder):
        return factory.detector_from(key, under("detector.", arrays))


def _store(folder: Path, fsync: Fsync, as_guest: bool) -> Store:
    try:
        return Store(folder, fsync)
    except StateLocked as locked:
        if not as_guest:
            raise
        logger.warning(
            "%s. This crawl goes on as a guest: it knows what the folder holds now, and records "
            "in a journal of its own, which the next crawl that has the folder merges. Until "
            "then neither crawl knows of the other's pages, and the ledger holds none of this one",
            str(locked).partition(". ")[0],
        )
        return GuestStore(folder, locked, fsync)


@contextmanager
def _closed_on_error(store: Store) -> Iterator[None]:
    try:
        yield
    except BaseException:
        store.close(cleanly=not store.crashed)  # no crawl has run
        raise


@contextmanager
def _refused_if_broken(folder: Path) -> Iterator[None]:
    try:
        yield
    except (BrokenInvariant, SnapshotError, *MADE_UP) as error:
        raise SnapshotError(
            f"the snapshot in {folder} is whole but makes no sense ({error!r}): delete the folder "
            f"to start afresh, and report the message"
        ) from error


@contextmanager
def _refused_if_made_up(folder: Path) -> Iterator[None]:
    try:
        yield
    except (struct.error, *MADE_UP) as error:
        raise JournalError(
            f"a journal in {folder} is whole but holds what nobody writes ({error!r}): delete the "
            f"folder to start afresh, and report the message"
        ) from error
