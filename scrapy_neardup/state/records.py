"""What the journal records: a URL was seen, a page was kept, an item of it was kept.

URLS_FORGOTTEN, without a payload: no URL recorded before, here or in a snapshot, counts as seen.
PAGE_FORGOTTEN: the page of a URL, its payload, is known no longer.
SPIDER: the number of one that crawls with the state, a digest of its name.
FRONTIER: the number of a commit of the frontier (u64), on which URLs recorded later may count; 0:
on none, because nothing waits there. So it is after URLS_FORGOTTEN, too.
"""

from __future__ import annotations

import struct
from hashlib import blake2b
from typing import NamedTuple

import numpy as np

from scrapy_neardup.detect.item_table import KeptItem
from scrapy_neardup.detect.page_table import PageRow

URL, PAGE, ITEM, URLS_FORGOTTEN, PAGE_FORGOTTEN, FRONTIER, SPIDER = range(1, 8)  # 0: the journal's

MAX_TIME_S = 2**32 - 1  # of a URL record; a clock may say anything
_URL = struct.Struct("<I")  # time, in seconds since the epoch; then the key
_PAGE = struct.Struct("<QQd?B16s")  # then the sketch, then the URL
_ITEM = struct.Struct("<QQQ")  # page, values, text; then the sketch, if there is one


class KeptPage(NamedTuple):
    """A page that the detector remembers."""

    page: PageRow
    indexed: bool  # whether other pages may be near it


def pack_url(key: bytes, time: float) -> bytes:
    """The payload of a URL record."""
    return _URL.pack(min(max(int(time), 0), MAX_TIME_S)) + key


def unpack_url(payload: bytes) -> tuple[bytes, float]:
    """The key and the time that pack_url was given, the time in whole seconds."""
    return payload[_URL.size :], float(_URL.unpack_from(payload)[0])


def pack_page(kept: KeptPage) -> bytes:
    """The payload of a page record."""
    page, sketch = kept.page, np.asarray(kept.page.sketch, dtype="<u8")
    numbers = page.fingerprint, page.site, page.time, kept.indexed, sketch.size, page.digest
    return _PAGE.pack(*numbers) + sketch.tobytes() + page.url.encode("utf-8", "surrogatepass")


def unpack_page(payload: bytes) -> KeptPage:
    """The page that pack_page was given."""
    fingerprint, site, time, indexed, n_words, digest = _PAGE.unpack_from(payload)
    sketch = np.frombuffer(payload, "<u8", n_words, _PAGE.size)
    url = payload[_PAGE.size + sketch.nbytes :].decode("utf-8", "surrogatepass")
    return KeptPage(PageRow(fingerprint, sketch, digest, site, url, time), indexed)


def pack_spider(name: str) -> bytes:
    """The payload of a SPIDER record: the number of the spider of a name."""
    return blake2b(name.encode("utf-8", "surrogatepass"), digest_size=8).digest()


def unpack_spider(payload: bytes) -> int:
    """The number of the spider whose name pack_spider was given."""
    return int.from_bytes(payload, "little")


def pack_commit(number: int) -> bytes:
    """The payload of a FRONTIER record."""
    return number.to_bytes(8, "little")


def unpack_commit(payload: bytes) -> int:
    """The number that pack_commit was given."""
    return int.from_bytes(payload, "little")


def pack_item(item: KeptItem) -> bytes:
    """The payload of an item record."""
    numbers = _ITEM.pack(item.page, item.values, item.text)
    return numbers if item.sketch is None else numbers + item.sketch.astype("<u8").tobytes()


def unpack_item(payload: bytes) -> KeptItem:
    """The item that pack_item was given."""
    sketch = np.frombuffer(payload, "<u8", -1, _ITEM.size).astype(np.uint64)
    page, values, text = _ITEM.unpack_from(payload)
    return KeptItem(page, values, text, sketch if sketch.size else None)
