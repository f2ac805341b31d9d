"""The page table: what the detector remembers of each page, one row a page id."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from hashlib import blake2b
from math import prod
from typing import Any, NamedTuple, Self

import numpy as np

from scrapy_neardup.detect.id_table import IdTable
from scrapy_neardup.errors import BrokenInvariant, SnapshotError
from scrapy_neardup.kernels.numpy_twin import I64Array, U64Array
from scrapy_neardup.stored_arrays import (
    Joined,
    check_arrays,
    check_starts,
    grown_with,
    parts_of,
    whole,
)

CHUNK_BYTES = 4 << 20  # of a column, copied in about 2 ms: the most that growth copies
PART_BYTES = 64 << 20  # of a column: the most that is in memory because a file has its half only
MAX_PAGES = 2**32 - 1


class PageRow(NamedTuple):
    """One row."""

    fingerprint: int
    sketch: U64Array  # shape (sketch words,)
    digest: bytes  # 16 bytes: digest_of its exact text
    site: int  # 64-bit name of the site (site_number)
    url: str
    time: float  # seconds since the epoch


def digest_of(exact: bytes) -> bytes:
    """The 128-bit digest (BLAKE2b) by which exact copies are told; see text.exact_text."""
    return blake2b(exact, digest_size=16, person=b"neardup-exact").digest()


@lru_cache(maxsize=4096)
def site_number(site: str) -> int:
    """A 64-bit number for a site's name."""
    return _number(site.encode("utf-8", "surrogatepass"), b"neardup-site")


def _number(name: bytes, person: bytes) -> int:
    return int.from_bytes(blake2b(name, digest_size=8, person=person).digest(), "little")


class Column:
    """A growing array whose first rows may be a read-only, memory-mapped array.

    Rows are appended and read, changed only by limit(). They are in parts: what was mapped, then
    live ones, each as long as all before it, up to PART_BYTES. So growth copies nothing but the
    first CHUNK_BYTES, and there are few parts. What a snapshot has written is mapped from then on
    (rest_on), so that it needs no memory.
    """

    def __init__(self, dtype: str, *shape: int) -> None:
        self.shape = shape  # of a row
        self._live: Any = np.empty((0, *shape), dtype=dtype)  # the last part
        self._n_live = 0
        self._full: list[Any] = []  # the others
        self._given_up: list[Any] = []  # parts to be freed, one with each row that comes
        self._starts = np.zeros(1, np.int64)  # the first row of each part
        self._start = 0  # that of the last part
        row_bytes = self._live.itemsize * max(1, prod(shape))
        self._chunk_rows = max(64, CHUNK_BYTES // row_bytes)
        self._most_rows = max(64, PART_BYTES // row_bytes)

    def map(self, rows: Any) -> None:
        """Start over from an array, or several that are Joined, which are kept as they are."""
        *self._full, self._live = parts_of(rows)
        self._n_live = len(self._live)
        self._begin_part(0)

    def rest_on(self, start: int, rows: Any) -> None:
        """Rows from one on are these, which are in a file: give up the memory of theirs.

        rows: equal to what is there. Parts that do not lie within them stay. Freeing 64 MB can take
        10 ms, so each of the next rows frees one part.
        """
        ends = self._starts[1:]
        within = np.flatnonzero((self._starts[:-1] >= start) & (ends <= start + len(rows)))
        if len(within):
            first, last = int(within[0]), int(within[-1])
            low, high = int(self._starts[first]) - start, int(ends[last]) - start
            self._given_up += self._full[first : last + 1]
            self._full[first : last + 1] = [rows[low:high]]
            self._starts = np.cumsum([0, *map(len, self._full)])

    def _begin_part(self, n_rows: int) -> None:
        """Do with the last part, and begin another one with room for so many rows."""
        live = np.empty((n_rows, *self.shape), self.dtype)  # first: there may be no memory for it
        if self._n_live:
            self._full.append(self._live[: self._n_live])
        self._starts = np.cumsum([0, *map(len, self._full)])
        self._start = int(self._starts[-1])
        self._live, self._n_live = live, 0

    def __len__(self) -> int:
        return self._start + self._n_live

    def __getitem__(self, row: int) -> Any:
        if row >= self._start:
            return self._live[row - self._start]
        part = int(self._starts.searchsorted(row, "right")) - 1
        return self._full[part][row - self._starts[part]]

    def append(self, value: Any) -> None:
        """Append a row. Raises ValueError for one of another shape, which NumPy would repeat."""
        if self.shape and np.shape(value) != self.shape:
            raise ValueError(f"a row of shape {np.shape(value)}: take {self.shape}")
        if self._given_up:
            self._given_up.pop()
        try:
            self._live[self._n_live] = value
        except IndexError:  # rare: to ask first would be one more call for each column of a page
            self._make_room(1)
            self._live[self._n_live] = value
        self._n_live += 1

    def extend(self, values: Any) -> None:
        """Append rows, all to one part."""
        n = len(values)
        if not n:
            return
        if self._n_live + n > len(self._live):
            self._make_room(n)
        self._live[self._n_live : self._n_live + n] = values
        self._n_live += n

    def cut(self, n_rows: int) -> None:
        """Keep so many rows: all but those of the last append() or extend()."""
        self._n_live = n_rows - self._start

    def _make_room(self, n_rows: int) -> None:
        """Room for so many rows, which the last part does not have."""
        if self._n_live + n_rows <= self._chunk_rows:
            size = min(max(self._n_live + n_rows, 2 * self._n_live, 64), self._chunk_rows)
            grown = np.empty((size, *self.shape), self.dtype)
            grown[: self._n_live] = self._live[: self._n_live]
            self._live = grown
        else:
            self._begin_large_part(n_rows)

    def _begin_large_part(self, n_rows: int = 1) -> None:
        # No page of it is touched yet.
        size = min(max(len(self), self._chunk_rows), self._most_rows)
        self._begin_part(max(size, n_rows))

    def take(self, rows: Any) -> Any:
        """The rows of an int array; shape (len(rows), ...)."""
        if not self._full:
            return self._live[rows]
        part_of, parts = self._starts.searchsorted(rows, "right") - 1, [*self._full, self._live]
        present = set(part_of.tolist())
        if len(present) == 1:
            (part,) = present
            return parts[part][rows - self._starts[part]]
        out = np.empty((len(rows), *self.shape), self.dtype)
        for part in present:
            places = part_of == part
            out[places] = parts[part][rows[places] - self._starts[part]]
        return out

    def _parts(self) -> list[Any]:
        return [*self._full, self._live[: self._n_live]]

    def span(self, start: int, end: int) -> Any:
        """Rows start to end (exclusive); a view unless they straddle two parts."""
        if start >= self._start:
            return self._live[start - self._start : end - self._start]
        first = int(self._starts.searchsorted(start, "right")) - 1
        found: list[Any] = []
        for part, offset in zip(self._parts()[first:], self._starts[first:].tolist(), strict=True):
            if found and offset >= end:
                break
            found.append(part[max(start - offset, 0) : end - offset])
        return found[0] if len(found) == 1 else np.concatenate(found)

    def limit(self, highest: float) -> bool:
        """Lower every value above `highest` to it; whether there was one.

        Arrays that rows() gave out stay as they are.
        """
        if not any((part > highest).any() for part in self._parts()):
            return False
        self._full = [np.minimum(part, highest) for part in self._full]
        self._live = np.minimum(self._live, highest)
        return True

    def rows(self) -> Any:
        """All rows so far, read-only: later rows come behind them, whatever they share."""
        rows = self.span(0, len(self))[:]
        rows.flags.writeable = False
        return rows

    def stored(self, grows: object) -> Joined:
        """What rows() says, for a file and without a copy; see Joined for `grows`."""
        if self._n_live >= self._chunk_rows:
            self._begin_large_part()  # so that a part ends where the file will: see rest_on
        parts = tuple(part[:] for part in self._parts() if len(part)) or (self.rows(),)
        for part in parts:
            part.flags.writeable = False
        return Joined(parts, grows)

    @property
    def dtype(self) -> Any:
        return self._live.dtype

    @property
    def nbytes(self) -> int:
        """Bytes held, spare room and mapped rows included."""
        return int(sum(part.nbytes for part in self._full) + self._live.nbytes)


def map_columns(
    what: str, columns: Mapping[str, Column], arrays: Mapping[str, Any], apart: str
) -> int:
    """Start columns over from the arrays of a snapshot; how many rows they have.

    apart: the one that has rows of its own number. Raises SnapshotError.
    """
    check_arrays(what, arrays, {n: (c.dtype, (None, *c.shape)) for n, c in columns.items()})
    lengths = {len(arrays[name]) for name in columns if name != apart}
    if len(lengths) != 1:
        raise SnapshotError(f"{what}: columns of {sorted(lengths)} rows")
    for name, column in columns.items():
        column.map(arrays[name])
    return lengths.pop()


def page_name(page: PageRow) -> int:
    """The name of a page, as PageTable.name() gives it."""
    url = page.url.encode("utf-8", "surrogatepass")
    return _url_key(url) ^ int.from_bytes(page.digest[:8], "little")


def _url_key(url: bytes) -> int:
    return _number(url, b"neardup-url")


class PageTable:
    """What the detector remembers of each page: one row a page id, ids from 0 upwards.

    Rows are never changed: a page that is read again with other words gets a new row. A
    forgotten row stays as dead bytes, found by neither digest nor URL. About 670 bytes a page
    with sketches of 69 words and URLs of 60 characters. Adding moves no rows: it takes
    microseconds, however many there are.
    """

    def __init__(self, sketch_words: int) -> None:
        self.fingerprints = Column("<u8")
        self.sketches = Column("<u8", sketch_words)
        self.digests = Column("<u8", 2)
        self.sites = Column("<u8")
        self.times = Column("<f8")
        self._url_keys = Column("<u8")
        self._url_ends = Column("<u8")
        self._url_bytes = Column("u1")
        self._by_digest = IdTable()
        self._by_url = IdTable()
        self._oldest: dict[tuple[bytes, int], int] = {}  # of words that pages share: with_digest()
        self._is_alive = np.zeros(64, np.uint8)  # of each row whether it is not forgotten
        self._n_alive = 0
        self._grows: object = object()  # see Joined

    @property
    def sketch_words(self) -> int:
        """Words of a page's sketch."""
        (n_words,) = self.sketches.shape
        return n_words

    def __len__(self) -> int:
        """Pages that are not forgotten."""
        return self._n_alive

    @property
    def n_rows(self) -> int:
        """Rows, forgotten ones included: the next page's id."""
        return len(self.fingerprints)

    def add(self, page: PageRow) -> int:
        """Store a page and return its id. Where that fails, the table is what it was."""
        id, n_bytes = self.n_rows, len(self._url_bytes)
        if id >= MAX_PAGES:
            raise OverflowError(f"the page table is full: it holds {MAX_PAGES:,} pages")
        try:
            self._append(page, id, n_bytes)
        except BaseException:
            for name, column in self._columns().items():
                column.cut(n_bytes if name == "url_bytes" else id)
            raise
        self._is_alive[id] = 1
        self._n_alive += 1
        return id

    def _append(self, page: PageRow, id: int, n_bytes: int) -> None:
        url = page.url.encode("utf-8", "surrogatepass")
        url_key = _url_key(url)
        self.fingerprints.append(page.fingerprint)
        self.sketches.append(page.sketch)
        self.digests.append(np.frombuffer(page.digest, dtype="<u8"))
        self.sites.append(page.site)
        self.times.append(page.time)
        self._url_keys.append(url_key)
        self._url_ends.append(n_bytes + len(url))
        self._url_bytes.extend(np.frombuffer(url, dtype=np.uint8))
        self._by_digest.put(digest_key(page.digest, page.site), id)
        self._by_url.put(url_key, id)
        if id == len(self._is_alive):
            self._is_alive = np.concatenate([self._is_alive, np.zeros(id, np.uint8)])

    def is_known(self, id: int) -> bool:
        """Whether there is such a page, and it is not forgotten."""
        return 0 <= id < self.n_rows and self._is_alive.item(id) == 1

    def forget(self, id: int) -> bool:
        """Forget a page; whether it was known. Its id is not used again."""
        if not self.is_known(id):
            return False
        self._by_url.remove(int(self._url_keys[id]), id)
        self._by_digest.remove(int(self.digests[id][0]) ^ int(self.sites[id]), id)
        self._is_alive[id] = 0
        self._n_alive -= 1
        return True

    def forget_many(self, ids: I64Array) -> None:
        """Forget pages that are known."""
        self._is_alive[ids] = 0
        self._n_alive -= len(ids)

    def limit_times(self, highest: float) -> None:
        """Lower every time above `highest` to it."""
        if self.times.limit(highest):
            self._grows = object()

    def with_digest(self, digest: bytes, site: int) -> int | None:
        """The smallest id of a page of a site with these words, None where there is none.

        O(1) but for the first look-up after that page came or went: O(pages with the digest).
        """
        oldest = self._oldest.get((digest, site)) if self._oldest else None
        if oldest is not None and self.is_known(oldest):
            return oldest  # ids only grow: no page that came later has a smaller one
        found = [
            id
            for id in self._by_digest.candidates(digest_key(digest, site))
            if self.is_known(id)
            and self.digests[id].tobytes() == digest
            and int(self.sites[id]) == site
        ]
        if found[1:]:
            self._oldest[digest, site] = min(found)
        return min(found, default=None)

    def with_url(self, url: str) -> int | None:
        """The id of the page that was last stored under a URL, None where there is none."""
        encoded = url.encode("utf-8", "surrogatepass")
        key = _url_key(encoded)
        found = (
            id
            for id in self._by_url.candidates(key)  # the newest first
            if self.is_known(id) and int(self._url_keys[id]) == key and self._url(id) == encoded
        )
        return next(found, None)

    def name(self, id: int) -> int:
        """64 bits that name a page in this state and in every copy of it: its URL and its words."""
        return int(self._url_keys[id]) ^ int(self.digests[id][0])

    def names(self) -> U64Array:
        """The names of all pages that are not forgotten; shape (pages,)."""
        ids = self.ids()
        names: U64Array = self._url_keys.take(ids) ^ self.digests.take(ids)[:, 0]
        return names

    def url(self, id: int) -> str:
        """A page's URL."""
        url = self._url(id)
        try:
            return url.decode("utf-8", "surrogatepass")
        except UnicodeDecodeError:  # nothing that add() has stored
            return url.decode("utf-8", "replace")

    def _url(self, id: int) -> bytes:
        start = int(self._url_ends[id - 1]) if id else 0
        url: bytes = self._url_bytes.span(start, int(self._url_ends[id])).tobytes()
        return url

    def page(self, id: int) -> PageRow:
        """A row. Raises IndexError."""
        return PageRow(
            int(self.fingerprints[id]),
            self.sketches[id],
            self.digests[id].astype("<u8").tobytes(),
            int(self.sites[id]),
            self.url(id),
            float(self.times[id]),
        )

    def ids(self) -> I64Array:
        """The ids of all pages that are not forgotten, ascending."""
        return np.flatnonzero(self._is_alive[: self.n_rows])

    def rest_on(self, grows: object, name: str, start: int, rows: Any) -> None:
        """Rows of a column of arrays() are in a file now; see Column.

        grows: with what the column grew when it was stored; nothing happens if that has changed.
        """
        if grows is self._grows and name in self._columns():
            self._columns()[name].rest_on(start, rows)

    def _columns(self) -> dict[str, Column]:
        return {
            "fingerprints": self.fingerprints,
            "sketches": self.sketches,
            "digests": self.digests,
            "sites": self.sites,
            "times": self.times,
            "url_keys": self._url_keys,
            "url_ends": self._url_ends,
            "url_bytes": self._url_bytes,
        }

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays, spare room included."""
        columns = sum(column.nbytes for column in self._columns().values())
        tables = self._by_digest.nbytes + self._by_url.nbytes
        return columns + tables + self._is_alive.nbytes

    def arrays(self) -> dict[str, Any]:
        """The state as named arrays, for a file.

        What is Joined is not copied, and will always hold what it holds now.
        """
        grows = self._grows
        return {
            **{name: column.stored(grows) for name, column in self._columns().items()},
            **self._by_digest.arrays("by_digest", grows),
            **self._by_url.arrays("by_url", grows),
            "is_alive": self._is_alive[: self.n_rows],
        }

    @classmethod
    def from_arrays(cls, arrays: dict[str, Any]) -> Self:
        """The table that arrays() described; maps read-only arrays and never writes to them.

        O(pages): places are checked. Raises SnapshotError.
        """
        what = "page table"
        check_arrays(what, arrays, {"sketches": (np.uint64, (None, None))})
        table = cls(arrays["sketches"].shape[1])
        n = map_columns(what, table._columns(), arrays, apart="url_bytes")
        check_arrays(what, arrays, {"is_alive": (np.uint8, (n,))})
        ends = np.concatenate([np.zeros(1, np.uint64), *parts_of(arrays["url_ends"])])
        check_starts(f"{what}, url_ends", ends, len(arrays["url_bytes"]))
        table._by_digest = IdTable.stored(what, arrays, "by_digest", n)
        table._by_url = IdTable.stored(what, arrays, "by_url", n)
        table._is_alive = np.concatenate([whole(arrays["is_alive"]) == 1, np.zeros(64, bool)]).view(
            np.uint8
        )
        table._n_alive = len(table.ids())
        table._grows = grown_with(arrays)
        return table

    def check(self) -> None:
        """Every page is found by its digest and its URL; O(pages). Raises BrokenInvariant."""
        lengths = {name: len(c) for name, c in self._columns().items() if name != "url_bytes"}
        if len(set(lengths.values())) != 1:
            raise BrokenInvariant(f"the page table's columns differ in length: {lengths}")
        ids = self.ids()
        if len(ids) != len(self):
            raise BrokenInvariant(f"{len(ids)} pages are not forgotten, counted as {len(self)}")
        for id in ids.tolist():
            page = self.page(id)
            if id not in self._by_digest.candidates(digest_key(page.digest, page.site)):
                raise BrokenInvariant(f"page {id} ({page.url}) is not found by its digest")
            if id not in self._by_url.candidates(_url_key(self._url(id))):
                raise BrokenInvariant(f"page {id} ({page.url}) is not found by its URL")


def digest_key(digest: bytes, site: int) -> int:
    """What a page of a site with these words is looked up by."""
    return int.from_bytes(digest[:8], "little") ^ site
