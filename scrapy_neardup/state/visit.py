"""What is remembered of a page since it was read last: a row of the visits, and its MAC."""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import blake2b
from secrets import randbits
from typing import NamedTuple

from scrapy_neardup.state.mac import MAC_BYTES, VISIT, is_mac, mac_of
from scrapy_neardup.state.visit_file import Status

FIRST, UNKNOWN, DEPARTED = 0, 1, 2  # versions of pages; others are drawn: new_version()
KEY_BYTES = 16
ORIGINAL_BYTES = KEY_BYTES + 8  # of an Original that is packed


class Visit(NamedTuple):
    """A page as it was read: one row of the table.

    key       of its URL, see key_of
    spider    whose callback read it, as Visits.spider says
    run       that read it last
    first     run that found it new
    done      code of the run that completed it last, with all that was found on it; or b""
    linked    run that last found a link to it
    text      digest of what a reader sees
    data      digest of what markup and scripts say besides
    items     what its items held, see crawl/recrawl/visit_items.py
    lines     see Lines.pack; None where only the digests are known
    links     requests that its callback yielded
    copy_of   key of the page that it repeats
    found_on  key of the page that led to it
    depth     links from a start URL
    mac       see code_of(); put() makes it
    etag      validators that the server sent with it, where they can be asked by
    modified
    program   what its requests depend on besides the page, see crawl/recrawl/program.py
    requests  that its callback yielded, see crawl/recrawl/stored_requests.py; None where not stored
    trusted   visits in a row at which the server's word was taken that it is unchanged
    n_visits  comparisons with an earlier self, since the time `since`
    n_changes of which so many found it changed
    n_new     links on it that no earlier visit knew
    due       when it is to be fetched again
    passed    run that passed it over last because it was not due
    version   changes whenever what the page says does, see new_version()
    repeats   pages for which items of it were dropped, see Original
    """

    key: bytes
    spider: int
    callback: str
    run: int
    first: int
    done: bytes
    linked: int
    status: int
    time: float
    url: str
    text: bytes
    data: bytes
    items: bytes
    lines: bytes | None
    links: int
    copy_of: bytes | None
    found_on: bytes | None
    depth: int
    mac: bytes = b""
    etag: bytes | None = None
    modified: bytes | None = None
    program: bytes | None = None
    requests: bytes | None = None
    trusted: int = 0
    n_visits: int = 0
    n_changes: int = 0
    since: float = 0.0
    n_new: int = 0
    due: float = 0.0
    passed: int = 0
    version: int = FIRST
    repeats: bytes = b""

    def originals(self) -> list[Original]:
        """The pages for which items of it were dropped."""
        starts = range(0, len(self.repeats), ORIGINAL_BYTES)
        return [Original.unpack(self.repeats[at : at + ORIGINAL_BYTES]) for at in starts]


class PageKey(NamedTuple):
    """A page as one of the spider's callbacks reads it. key: see key_of()."""

    key: bytes
    callback: str
    url: str


class Original(NamedTuple):
    """A page that has an item which another page repeats. version: as it was then."""

    key: bytes
    version: int

    def pack(self) -> bytes:
        """ORIGINAL_BYTES."""
        return self.key + self.version.to_bytes(8, "little")

    @classmethod
    def unpack(cls, packed: bytes) -> Original:
        """What pack() gave."""
        return cls(packed[:KEY_BYTES], int.from_bytes(packed[KEY_BYTES:], "little"))


def without_content(visit: Visit, run: int) -> Visit:
    """A visit from which whatever its page says next differs. run: that under way."""
    status = visit.status if visit.run == run else Status.UNCHANGED
    return visit._replace(
        status=status,
        text=visit.key,  # which is the digest of no text, nor stands for another page
        data=b"",
        items=b"",
        lines=None,
        etag=None,
        modified=None,
        requests=None,
        repeats=b"",
    )


def new_version() -> int:
    """A version that no page has had: drawn, so that it takes neither clock nor counter."""
    return randbits(62) | 1 << 62


class HostRecord(NamedTuple):
    """How far what a host says of its pages was right; one spider's.

    n_refuted      pages that had changed under the same validator, or were unchanged by one that
                   they never had
    n_mismatched   unchanged pages, in a row, that had another validator
    n_dates_right  pages that had changed as the dates of a sitemap say, or not
    n_dates_wrong  pages of which the dates were wrong
    """

    n_refuted: int = 0
    n_mismatched: int = 0
    n_dates_right: int = 0
    n_dates_wrong: int = 0


class Hint(NamedTuple):
    """What a sitemap says of a page: when it changed last, and how often it does, in seconds."""

    modified: float | None
    period: float | None


def key_of(url_key: bytes) -> bytes:
    """128 bits for the key of a URL."""
    return blake2b(url_key, digest_size=KEY_BYTES).digest()


# What of a visit is signed: all but what the end of a run changes, and the spider's number.
_SIGNED = [
    Visit._fields.index(name)
    for name in Visit._fields
    if name not in ("spider", "done", "linked", "status", "time", "mac", "passed")
]


def code_of(key: int, spider: str, visit: Visit) -> bytes:
    """The MAC of a visit, without what the end of a run changes. key: the folder's secret."""
    return mac_of(key, VISIT, *unambiguous(b"page", spider, *(visit[at] for at in _SIGNED)))


def unambiguous(*values: object) -> Iterator[bytes]:
    """Values as bytes that no other values have."""
    for value in values:
        data = value if isinstance(value, bytes) else repr(value).encode("utf-8", "replace")
        yield b"%s %d " % (type(value).__name__.encode(), len(data)) + data


class Departure(NamedTuple):
    """A known page that is no longer at its URL.

    target  the URL it moved to, if it did
    heir    key of the page there, if that gave no item because this one had: it has them now
    """

    key: bytes
    callback: str
    url: str
    target: str | None = None
    heir: bytes | None = None


def status_of(target: str | None) -> Status:
    """What a page is that left its URL. target: the URL it moved to."""
    return Status.GONE if target is None else Status.MOVED


def signed_learnt(key: int, data: bytes) -> bytes:
    """What was learnt, behind its MAC."""
    return mac_of(key, VISIT, *unambiguous(b"learnt", data)) + data


def own_learnt(key: int, stored: object) -> bytes | None:
    """What signed_learnt() was given; None unless it was under this key."""
    if not isinstance(stored, bytes):
        return None
    code, data = stored[:MAC_BYTES], stored[MAC_BYTES:]
    return data if is_mac(code, key, VISIT, *unambiguous(b"learnt", data)) else None
