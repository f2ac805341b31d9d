"""As whom pages were read: a site may show somebody else another page at the same URL."""

from __future__ import annotations

from scrapy.http import Request

from scrapy_neardup.crawl.fail_open import FailOpen
from scrapy_neardup.urls.filters.rotating import RotatingUrlFilter

READ_BY = b"\0="  # between the key of a page and the sender of a request that got it
# Headers that do not say who asks, and all that Scrapy's middlewares add, so that a request that
# was made has the sender of one that is to be made.
OF_ANYBODY = frozenset(
    {
        *(b"Accept", b"Accept-Encoding", b"Accept-Language", b"User-Agent", b"Referer"),
        *(b"Cookie", b"Cache-Control", b"Connection", b"Content-Length", b"Content-Type", b"Host"),
        *(b"If-Modified-Since", b"If-None-Match", b"Pragma", b"Proxy-Authorization"),
    }
)


def sender_of(request: Request) -> bytes:
    """What a request says of who asks: its cookie jar, its cookies, headers. Empty: nothing."""
    jar, cookies, headers = request.meta.get("cookiejar"), request.cookies, request.headers
    own = () if OF_ANYBODY.issuperset(headers) else sorted(headers.keys() - OF_ANYBODY)
    if "dont_merge_cookies" in request.meta and b"Cookie" in headers:  # the spider's, then
        own = *own, b"Cookie"
    if jar is None and not cookies and not own:
        return b""
    return repr((jar, cookies, [(name, headers.getlist(name)) for name in own])).encode()


class Senders:
    """Remembers in a run's filter as whom each page was read; nothing of those who are nobody."""

    def __init__(self, queued: RotatingUrlFilter, attempt: FailOpen) -> None:
        self._queued = queued
        self._attempt = attempt

    def note(self, request: Request, key: bytes) -> None:
        """A request got the page of a key."""
        if sender := sender_of(request):
            self._attempt("filter", self._queued.add, key + READ_BY + sender)

    def is_new(self, request: Request, key: bytes) -> bool:
        """Whether somebody asks for a known page as whom it was not read in this run."""
        sender = sender_of(request)
        if not sender:
            return False
        return not self._attempt("filter", self._queued.__contains__, key + READ_BY + sender)
