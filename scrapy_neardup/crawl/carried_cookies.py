"""Cookies that a request takes along to another worker of a fleet, such as those of a login."""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import cached_property
from http.cookiejar import Cookie
from typing import Any

from scrapy.crawler import Crawler
from scrapy.downloadermiddlewares.cookies import CookiesMiddleware
from scrapy.http import Request
from scrapy.http.cookies import CookieJar, potential_domain_matches
from scrapy.utils.httpobj import urlparse_cached

MAX_CHARS = 8192  # of a request's cookies; servers refuse longer headers

Carried = list[Any]  # what _packed() gives, and when a worker first had it


class CarriedCookies:
    """The cookies of Scrapy's CookiesMiddleware as the workers of a fleet hand them on.

    Of two values of a cookie the one that a worker first had later wins: a request that was queued
    before a login does not end the session.
    """

    def __init__(self, crawler: Crawler) -> None:
        self._crawler = crawler
        # jar, domain, path and name of a cookie → its value, and when a worker first had it
        self._known: dict[tuple[Any, ...], tuple[str | None, float]] = {}

    @cached_property
    def _middleware(self) -> CookiesMiddleware | None:
        return self._crawler.get_downloader_middleware(CookiesMiddleware)

    def of(self, request: Request) -> list[Carried]:
        """The cookies that this worker has for a request's host; none where they are too long."""
        if self._middleware is None or request.meta.get("dont_merge_cookies"):
            return []
        key = request.meta.get("cookiejar")
        jar = self._middleware.jars.get(key)
        found = [] if jar is None else [*_cookies_for(jar, request)]
        if sum(len(cookie.name) + len(cookie.value or "") for cookie in found) > MAX_CHARS:
            return []
        return [[*_packed(cookie), self._first_had(key, cookie)] for cookie in found]

    def take(self, request: Request, carried: list[Carried]) -> None:
        """A request is about to be made to which another worker gave its cookies."""
        if self._middleware is None or not carried:
            return
        key = request.meta.get("cookiejar")
        jar = self._middleware.jars[key]
        own = {_name_of(cookie): cookie for cookie in _cookies_for(jar, request)}
        for *packed, since in carried:
            cookie = _unpacked(packed)
            ours = own.get(_name_of(cookie))
            if ours is not None and ours.value == cookie.value:
                continue
            if ours is None or since > self._first_had(key, ours):
                jar.set_cookie(cookie)
                self._known[key, *_name_of(cookie)] = cookie.value, since

    def _first_had(self, key: Any, cookie: Cookie) -> float:
        """When a worker first had a value of a cookie: now, if it was not asked for before."""
        name = (key, *_name_of(cookie))
        known = self._known.get(name)
        if known is None or known[0] != cookie.value:
            known = self._known[name] = cookie.value, time.time()
        return known[1]


def _cookies_for(jar: CookieJar, request: Request) -> Iterator[Cookie]:
    """Those of a request's host, whatever their path. A jar may have those of many hosts."""
    host = urlparse_cached(request).hostname or ""
    domains = {host, f".{host}", *potential_domain_matches(host)}
    domains |= {f"{domain}.local" for domain in domains if "." not in host}
    for domain in domains & jar._cookies.keys():
        for names in jar._cookies[domain].values():
            yield from names.values()


def _name_of(cookie: Cookie) -> tuple[str, str, str]:
    return cookie.domain, cookie.path, cookie.name


def _packed(cookie: Cookie) -> list[Any]:
    head = [cookie.name, cookie.value, cookie.domain, cookie.domain_specified]
    return [*head, cookie.path, cookie.secure, cookie.expires]


def _unpacked(packed: list[Any]) -> Cookie:
    name, value, domain, is_domain, path, secure, expires = packed
    dotted, discard = domain.startswith("."), expires is None
    of_domain, of_path = (domain, is_domain, dotted), (path, True)
    return Cookie(
        *(0, name, value, None, False, *of_domain, *of_path, secure, expires, discard),
        None,
        None,
        {},
    )
