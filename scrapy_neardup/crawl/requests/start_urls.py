"""Start URLs of this run: a link back to one is dropped, unless it may show something else now.

Scrapy fetches a start URL again for the first link back to it. That is a download too many on most
sites, and on those that ask for a login, an age or a cookie it is the one that brings the pages.
"""

from __future__ import annotations

import re
from collections.abc import Hashable
from typing import NamedTuple

from scrapy.http import Request, Response

from scrapy_neardup.crawl.recorder import callback_of
from scrapy_neardup.crawl.requests.carrying import carries_nothing
from scrapy_neardup.crawl.requests.request_tracker import had_dont_filter
from scrapy_neardup.detect.sites import site_of

MAX_STARTS = 2**16  # that are remembered; links back to further ones are fetched

ASK_ONLY = "GET", "HEAD"

# Of what says how a page is fetched, what asks for it in another way: as somebody else, from
# elsewhere, by a browser.
WHO_ASKS = re.compile("dont_merge_cookies|proxy|bindaddress|playwright|splash|zyte_")


class Start(NamedTuple):
    """How a start URL was fetched."""

    parser: str  # the method that got its page
    sent: frozenset[int]  # see sent_with()


class StartUrls:
    """What is known of the start URLs that this run has fetched."""

    def __init__(self) -> None:
        self.known: dict[bytes, Start] = {}  # by the keys of their URLs
        self._sent: dict[frozenset[int], frozenset[int]] = {}  # one object for all that are equal
        self._with_items: set[bytes] = set()  # those whose page brought an item
        self._sites: dict[str, bool] = {}  # of them → whether it may show something else now

    def answered(self, request: Request, response: Response, key: bytes | None) -> None:
        """A page has come. Of another request for a start URL, it is like any other from now on.

        So is a start that Scrapy's dupefilter was asked about: it lets no link back to it pass.
        """
        is_start = "is_start_request" in request.meta and had_dont_filter(request)
        if is_start:
            self._remember(request, key)
        elif key in self.known:
            del self.known[key]
            self._with_items.discard(key)
        was_redirected = "redirect_urls" in request.meta and not is_start
        if was_redirected or request.method not in ASK_ONLY or b"Set-Cookie" in response.headers:
            self._opened(request)

    def _remember(self, request: Request, key: bytes | None) -> None:
        parser = parser_of(request)
        if key is not None and parser is not None and len(self.known) < MAX_STARTS:
            sent = sent_with(request)
            self.known[key] = Start(parser, self._sent.setdefault(sent, sent))
            self._sites.setdefault(site_of(request.url), False)

    def brought_item(self, key: bytes | None) -> None:
        """An item came of a start's page: it was no gate that only lets others in."""
        if key in self.known:
            self._with_items.add(key)

    def _opened(self, request: Request) -> None:
        """A form or a cookie, maybe of what redirected, may have opened what a site has to show."""
        site = site_of(request.url)
        if site in self._sites:
            self._sites[site] = True

    def may_differ(self, request: Request, key: bytes) -> bool:
        """Whether a request for a known start URL may bring something new.

        Another callback may find there what the start's did not, and so may one that is given
        something else, or asks in another way. A page without an item may be a gate that knows
        by now who asks: by the address, or by what a middleware adds.
        """
        start = self.known[key]
        return (
            key not in self._with_items
            or start.parser != parser_of(request)
            or not carries_nothing(request)
            or not sent_with(request) <= start.sent
            or "redirect_urls" in request.meta
            or self._sites[site_of(request.url)]
        )


def sent_with(request: Request) -> frozenset[int]:
    """Hashes of what a request says of who asks: cookies, headers, how it is fetched.

    Of one that was made they hold what middlewares added, too.
    """
    said: list[Hashable] = [("cookies", repr(request.cookies))]
    said += ((name, *values) for name, values in request.headers.items() if name != b"Referer")
    said += ((k, repr(v)) for k, v in request.meta.items() if WHO_ASKS.match(str(k)))
    said.append(("cookiejar", repr(request.meta.get("cookiejar"))))
    return frozenset(map(hash, said))


def parser_of(request: Request) -> str | None:
    """The name of the method that gets the response; None where a name does not tell which."""
    if request.callback is None:
        return "parse"
    name = callback_of(request)
    return name if name is not None and name.isidentifier() else None
