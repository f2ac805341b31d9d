"""Cookies that a request takes along to another worker of a fleet, such as those of a login."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from copy import copy
from functools import cached_property
from http.cookiejar import Cookie
from typing import Any

from scrapy.crawler import Crawler
from scrapy.downloadermiddlewares.cookies import CookiesMiddleware
from scrapy.http import Request, Response
from scrapy.http.cookies import CookieJar, potential_domain_matches
from scrapy.utils.httpobj import urlparse_cached

from scrapy_neardup.crawl.requests.request_tracker import LINK_METHODS, was_form

MAX_CHARS = 8192  # of a request's cookies; servers refuse longer headers
MAX_VALUES = 100  # of a cookie whose ranks are remembered: more than requests are under way

Rank = tuple[int, ...]
FIRST: Rank = (0, 0, 0)  # of what a visitor without a cookie is given
SPIDERS: Rank = (1, 0, 0)  # at least, of what a spider gives a request itself
PASSWORD, FORM, LINK = 0, 1, 2  # which number of a rank an answer raises
SECRET = re.compile(rb'(?i)(?:passw\w{0,30}|passe?|pwd\w{0,30})(?:%5D|\])?"?[=:\r]')  # a field

Carried = list[Any]  # what _packed() gives, then the rank
Name = tuple[str, str, str]  # domain, path and name of a cookie


class CarriedCookies:
    """The cookies of Scrapy's CookiesMiddleware as the workers of a fleet hand them on.

    Of two values of a cookie the one of higher rank wins, of equals the one that came last. A
    rank tells what a value came of: how many passwords, then other forms, then changes without
    either led to it. So neither what a site gives each worker as an unknown visitor nor a request
    that was queued before a login ends the session. Ranks go along, and need no clocks.
    """

    def __init__(self, crawler: Crawler) -> None:
        self._crawler = crawler
        self._values: defaultdict[tuple[Any, Name], Values] = defaultdict(Values)  # by jar, too

    @cached_property
    def _middleware(self) -> CookiesMiddleware | None:
        return self._crawler.get_downloader_middleware(CookiesMiddleware)

    def of(self, request: Request) -> list[Carried]:
        """The cookies that this worker has for a request's host; none where they are too long."""
        if self._middleware is None or request.meta.get("dont_merge_cookies"):
            return []
        key = request.meta.get("cookiejar")
        jar = self._middleware.jars.get(key)
        found = [] if jar is None else self._settled(key, jar, request)
        if sum(len(cookie.name) + len(cookie.value or "") for cookie, _ in found) > MAX_CHARS:
            return []
        return [[*_packed(cookie), *rank] for cookie, rank in found]

    def take(self, request: Request, carried: list[Carried]) -> None:
        """A request is about to be made to which a worker gave its cookies."""
        if self._middleware is None:
            return
        key = request.meta.get("cookiejar")
        jar = self._middleware.jars[key]
        self._settled(key, jar, request)
        for one in carried:
            cookie, rank = _unpacked(one)
            if self._values[key, _name_of(cookie)].add(cookie, rank):
                jar.set_cookie(cookie)

    def answered(self, request: Request, response: Response) -> None:
        """A site answered, maybe by a redirect. To be told before CookiesMiddleware is."""
        level, given = _level_of(request), _given_by(request)
        has_news = level == PASSWORD or given or b"Set-Cookie" in response.headers
        if self._middleware is None or not has_news or request.meta.get("dont_merge_cookies"):
            return
        key, sent = request.meta.get("cookiejar"), _sent_with(request)
        jar = self._middleware.jars[key]
        had = {_name_of(cookie) for cookie in _cookies_for(jar, request)}
        for name, cookie in _after(jar, request, response, sent).items():
            values, old = self._values[key, name], sent.get(name[-1])
            # What is set when a cookie is gone is later than all that it was.
            is_gone = old is None and name not in had
            before = values.rank if is_gone else values.rank_of(old)
            before = max(before, SPIDERS if name[-1] in given else FIRST)
            values.add(cookie, _next(before, level, old, cookie))

    def _settled(self, key: Any, jar: CookieJar, request: Request) -> list[tuple[Cookie, Rank]]:
        """The cookies of a request's host, and their ranks.

        A value of lower rank may have come since, as the answer to a request that was under way.
        The better one takes its place again.
        """
        found = []
        for cookie in [*_cookies_for(jar, request)]:
            values = self._values[key, _name_of(cookie)]
            best = values.settled(cookie)
            if best is not cookie:
                jar.set_cookie(best)
            found.append((best, values.rank))
        return found


class Values:
    """The values that a cookie had."""

    def __init__(self) -> None:
        self.rank = FIRST
        self._best: Cookie | None = None  # None, too, where the site has taken it back
        self._ranks: dict[str | None, Rank] = {}  # the latest last

    def add(self, cookie: Cookie | None, rank: Rank) -> bool:
        """The cookie has a value of a rank, or none any more; whether it is the best."""
        if cookie is not None:
            self._ranks.pop(cookie.value, None)
            self._ranks[cookie.value] = rank
        if len(self._ranks) > MAX_VALUES:
            del self._ranks[next(iter(self._ranks))]
        is_best = rank >= self.rank or self._is_over
        if is_best:
            self._best, self.rank = cookie, rank
        return is_best

    def rank_of(self, value: str | None) -> Rank:
        """That of a value that was sent; None: none was."""
        return self._ranks.get(value, FIRST)

    def settled(self, cookie: Cookie) -> Cookie:
        """The best cookie, where the jar has this one."""
        if self._is_over:
            self._best, self.rank = None, FIRST
        # Nobody saw where it comes from if a middleware set it, or the spider.
        if self._best is None or cookie.value not in self._ranks:
            self.add(cookie, max(self.rank, self._ranks.get(cookie.value, FIRST)))
        assert self._best
        return self._best if self._best.value != cookie.value else cookie

    @property
    def _is_over(self) -> bool:
        return self._best is not None and self._best.is_expired()


def _after(
    jar: CookieJar, request: Request, response: Response, sent: dict[str, str]
) -> dict[Name, Cookie | None]:
    """The cookies that were sent or are set, as an answer leaves them; None: it took one back."""
    before = {_name_of(one): one for one in _cookies_for(jar, request) if one.name in sent}
    set_ = {_name_of(one): one for one in jar.make_cookies(response, request)}
    left = {_name_of(one) for one in _cookies_for(jar, request)}
    kept = {name: _with(cookie, sent[cookie.name]) for name, cookie in before.items()}
    return {name: one if name in left else None for name, one in kept.items()} | set_


def _with(cookie: Cookie, value: str) -> Cookie:
    changed = copy(cookie)
    changed.value = value
    return changed


def _level_of(request: Request) -> int:
    """What may make an answer's cookies those of a login."""
    if request.method in LINK_METHODS:
        return FORM if was_form(request) else LINK
    return PASSWORD if SECRET.search(request.body) else FORM


def _next(before: Rank, level: int, old: str | None, new: Cookie | None) -> Rank:
    """The rank of what an answer sets, or leaves, where a value of a rank was sent, or none.

    A password may make a session one of a login without another id.
    """
    if level == PASSWORD:
        is_raised = True
    elif old is None:
        is_raised = level == FORM
    else:
        is_raised = new is None or new.value != old
    return (*before[:level], before[level] + 1, *FIRST[level + 1 :]) if is_raised else before


def _sent_with(request: Request) -> dict[str, str]:
    """Cookies that were sent with a request: name → value."""
    header = (request.headers.get("Cookie") or b"").decode(errors="replace")
    pairs = (pair.partition("=") for pair in header.split("; ") if pair)
    return {name: value for name, _, value in pairs}


def _given_by(request: Request) -> set[Any]:
    """The names of cookies that the spider gave a request."""
    given = request.cookies
    return set(given) if isinstance(given, dict) else {one.get("name") for one in given}


def _cookies_for(jar: CookieJar, request: Request) -> Iterator[Cookie]:
    """Those of a request's host, whatever their path. A jar may have those of many hosts."""
    host = urlparse_cached(request).hostname or ""
    domains = {host, f".{host}", *potential_domain_matches(host)}
    domains |= {f"{domain}.local" for domain in domains if "." not in host}
    for domain in domains & jar._cookies.keys():
        for names in jar._cookies[domain].values():
            yield from names.values()


def _name_of(cookie: Cookie) -> Name:
    return cookie.domain, cookie.path, cookie.name


def _packed(cookie: Cookie) -> list[Any]:
    head = [cookie.name, cookie.value, cookie.domain, cookie.domain_specified]
    return [*head, cookie.path, cookie.secure, cookie.expires]


def _unpacked(carried: Carried) -> tuple[Cookie, Rank]:
    name, value, domain, is_domain, path, secure, expires, *rank = carried
    dotted, discard = domain.startswith("."), expires is None
    of_domain, of_path = (domain, is_domain, dotted), (path, True)
    cookie = Cookie(
        *(0, name, value, None, False, *of_domain, *of_path, secure, expires, discard),
        None,
        None,
        {},
    )
    return cookie, tuple(rank) if len(rank) == len(FIRST) else FIRST
