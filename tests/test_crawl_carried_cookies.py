"""Cookies that requests take along from worker to worker, in jars of Scrapy's middleware."""

from typing import Any

from scrapy.downloadermiddlewares.cookies import CookiesMiddleware
from scrapy.http import Request, Response
from scrapy.utils.test import get_crawler

from scrapy_neardup.crawl.carried_cookies import MAX_CHARS, CarriedCookies

SHOP = "https://www.shop.example/list"


class Worker:
    """One worker's jars."""

    def __init__(self) -> None:
        self.jars = CookiesMiddleware()
        self.jars.crawler = get_crawler()
        self.cookies = CarriedCookies(self.jars.crawler)
        self.cookies._middleware = self.jars

    def gets(self, *cookies: str, url: str = SHOP, **meta: Any) -> None:
        """A site sets cookies."""
        answer = Response(url, headers={"Set-Cookie": cookies})
        self.jars.process_response(Request(url, meta=meta), answer)

    def gives(self, url: str = SHOP, **meta: Any) -> list[Any]:
        return self.cookies.of(Request(url, meta=meta))

    def sends(self, carried: list[Any], url: str = SHOP, **meta: Any) -> set[str]:
        """Which cookies a request has that another worker found."""
        request = Request(url, meta=meta)
        self.cookies.take(request, carried)
        self.jars.process_request(request)
        header = request.headers.get("Cookie") or b""
        return {cookie for cookie in header.decode().split("; ") if cookie}


def test_a_request_has_the_cookies_of_the_worker_that_found_it() -> None:
    one, other = Worker(), Worker()
    one.gets("session=7; Path=/", "cart=3; Domain=shop.example; Secure; Max-Age=99")
    assert other.sends(one.gives()) == {"session=7", "cart=3"}
    assert other.sends([], "https://shop.example/") == {"cart=3"}, "of the whole domain"
    assert other.sends([], "http://www.shop.example/") == {"session=7"}, "cart is secure"


def test_other_hosts_and_jars_have_cookies_of_their_own() -> None:
    one, other = Worker(), Worker()
    one.gets("session=7", cookiejar=1)
    assert one.gives("https://other.example/", cookiejar=1) == []
    assert one.gives() == one.gives(cookiejar=2) == []
    assert one.gives(cookiejar=1, dont_merge_cookies=True) == []
    assert other.sends(one.gives(cookiejar=1), cookiejar=1) == {"session=7"}
    assert other.sends([]) == set()


def test_a_request_from_before_a_login_does_not_end_the_session() -> None:
    one, other = Worker(), Worker()
    one.gets("session=anonymous")
    before = one.gives()
    other.gets("session=member")
    assert other.sends(before) == {"session=member"}
    assert one.sends(other.gives()) == {"session=member"}
    assert one.sends(before) == {"session=member"}


def test_cookies_that_no_server_would_take_are_left_out() -> None:
    worker = Worker()
    worker.gets(*(f"n{i}={'x' * 4000}" for i in range(MAX_CHARS // 4000 + 1)))
    assert worker.gives() == []
