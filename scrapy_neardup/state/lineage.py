"""Which pages still wait for what was found on them, so that a crash cannot cut off a branch.

A crash loses the requests that were waiting. A page found only on pages that count as seen
would then never be found again. So a page is done, and may count as seen for ever, only when
everything first found on it is done, too, or was dropped on purpose. After a crash the pages
on the way to what was lost are read once more, and nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import count
from secrets import randbits
from typing import Any

import numpy as np

NOBODY = -1


@dataclass(slots=True)
class _Waiting:
    key: bytes | None
    parent: int  # what waits for this page, or NOBODY
    twin: int  # an earlier page of the same key, which waits for this one, too, or NOBODY
    n_open: int


class Lineage:
    """Counts, for each page in the making, what it still waits for.

    O(1) an event; memory for pages that wait, not for requests. A page that never hears of
    something it waits for is never done: it is read again by the next crawl, which is the
    safe side.
    """

    def __init__(self, on_done: Callable[[bytes], None]) -> None:
        """on_done: called with the key of each page that is done."""
        self._on_done = on_done
        self._pages: dict[int, _Waiting] = {}
        self._ids_by_key: dict[bytes, int] = {}
        # Requests in a queue on disk outlive a crash with these numbers: none may come again.
        self._ids = count(randbits(30) << 32)

    def begin(self, key: bytes | None, parent: int | None) -> int:
        """A response is about to be handled; its id.

        key     of its URL, None where the URL is not to count as seen
        parent  id of the page that its request was found on, if known: what waited for the
                request waits for the page from now on

        A key counts as seen when every page of it that was begun is done.
        """
        id = next(self._ids)
        parent, twin = NOBODY if parent is None else parent, NOBODY
        if key is not None and key in self:
            twin, key = self._ids_by_key[key], None
            self.expect(twin)
        elif key is not None:
            self._ids_by_key[key] = id
        self._pages[id] = _Waiting(key, parent, twin, n_open=1)
        return id

    def waits(self, id: int) -> bool:
        """Whether a page was begun and is not done."""
        return id in self._pages

    def expect(self, id: int) -> None:
        """The page gave a request or an item: wait for it."""
        self._pages[id].n_open += 1

    def settle(self, id: int | None) -> None:
        """One thing the page waited for is done; so is its own handling, which begin() opened.

        Unknown ids are ignored.
        """
        ids = [NOBODY if id is None else id]
        while ids:
            id = ids.pop()
            if (page := self._pages.get(id)) is None:
                continue
            page.n_open -= 1
            if not page.n_open:
                ids += (page.parent, page.twin)
                self._done(id, page)

    def _done(self, id: int, page: _Waiting) -> None:
        del self._pages[id]
        if page.key is not None:
            del self._ids_by_key[page.key]
            self._on_done(page.key)

    def __contains__(self, key: bytes) -> bool:
        """Whether a page of this key was begun and is not done."""
        return key in self._ids_by_key

    def __len__(self) -> int:
        """Pages that are not done."""
        return len(self._pages)

    def arrays(self) -> dict[str, Any]:
        """The pages that wait, for a crawl that goes on with the same queue of requests."""
        pages = self._pages.values()
        keys = [b"" if page.key is None else page.key for page in pages]
        return {
            "ids": np.array(list(self._pages), np.int64),
            "parents": np.array([page.parent for page in pages], np.int64),
            "twins": np.array([page.twin for page in pages], np.int64),
            "n_open": np.array([page.n_open for page in pages], np.int64),
            "key_ends": np.cumsum([len(key) for key in keys], dtype=np.int64),
            "key_bytes": np.frombuffer(b"".join(keys), np.uint8),
        }

    def restore(self, arrays: dict[str, Any]) -> None:
        """Wait for what arrays() described."""
        names = ("ids", "parents", "twins", "n_open")
        columns = (arrays[name].tolist() for name in names)
        for id, parent, twin, n_open, key in zip(*columns, _keys(arrays), strict=True):
            self._pages[id] = _Waiting(key or None, parent, twin, n_open)
            if key:
                self._ids_by_key[key] = id


def _keys(arrays: dict[str, Any]) -> Iterator[bytes]:
    data, start = arrays["key_bytes"].tobytes(), 0
    for end in arrays["key_ends"].tolist():
        yield data[start:end]
        start = end
