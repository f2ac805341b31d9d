"""Cookies that requests take along from worker to worker, in jars of Scrapy's middleware."""

from typing import Any

import pytest
from scrapy.downloadermiddlewares.cookies import CookiesMiddleware
from scrapy.http import Request, Response
from scrapy.utils.test import get_crawler

from scrapy_neardup.crawl.queues.carried_cookies import MAX_CHARS, CarriedCookies

SHOP = "https://www.shop.example/list"


class Worker:
    """One worker's jars."""

    def __init__(self) -> None:
        self.jars = CookiesMiddleware()
        self.jars.crawler = get_crawler()
        self.cookies = CarriedCookies(self.jars.crawler)
        self.cookies._middleware = self.jars

    def gets(self, *cookies: str, url: str = SHOP, **meta: Any) -> None:
        """A site answers a link, and sets cookies."""
        self.answers(self.asks(Request(url, meta=meta)), *cookies)

    def posts(self, *cookies: str, body: str = "user=me&password=secret") -> None:
        """A site answers a form, and sets cookies."""
        self.answers(self.asks(Request(SHOP, method="POST", body=body)), *cookies)

    def asks(self, request: Request) -> Request:
        self.cookies.take(request, [])
        self.jars.process_request(request)
        return request

    def answers(self, request: Request, *cookies: str) -> None:
        answer = Response(request.url, headers={"Set-Cookie": cookies} if cookies else {})
        self.cookies.answered(request, answer)
        self.jars.process_response(request, answer)

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
    other.posts("session=member")
    assert other.sends(before) == {"session=member"}
    assert one.sends(other.gives()) == {"session=member"}
    assert one.sends(before) == {"session=member"}


@pytest.mark.parametrize("body", ["user=me&token=secret", '{"login": {"password": "secret"}}'])
def test_a_login_by_a_form_is_above_all_that_visitors_are_given(body: str) -> None:
    one, other = Worker(), Worker()
    one.posts("session=member", body=body)
    for number in range(9):  # renewed at each answer
        other.gets(f"session=anonymous{number}")
    assert one.sends(other.gives()) == {"session=member"}
    assert other.sends(one.gives()) == {"session=member"}


def test_a_password_counts_more_than_a_search_though_it_leaves_the_session_its_id() -> None:
    one, other = Worker(), Worker()
    one.gets("session=1")
    one.posts()
    other.gets("session=2")
    for number in range(9):
        other.posts(f"session=2{number}", body="passengers=2&from=here")
    assert one.sends(other.gives()) == other.sends(one.gives()) == {"session=1"}


def test_a_login_that_a_link_makes_is_above_what_a_visitor_is_given() -> None:
    one, other = Worker(), Worker()
    one.gets("session=1")
    one.gets("session=member")
    other.gets("session=2")
    assert one.sends(other.gives()) == other.sends(one.gives()) == {"session=member"}


def test_where_nothing_tells_two_sessions_apart_a_request_has_that_of_its_page() -> None:
    one, other = Worker(), Worker()
    one.gets("session=member")
    other.gets("session=2")
    assert other.sends(one.gives()) == {"session=member"}


def test_a_session_that_is_renewed_goes_on_from_its_latest_id() -> None:
    one, other = Worker(), Worker()
    one.posts("session=member")
    early = one.gives()
    assert other.sends(early) == {"session=member"}
    other.gets("session=renewed")
    assert other.sends(early) == one.sends(other.gives()) == {"session=renewed"}


def test_the_last_of_several_logins_holds() -> None:
    one, other = Worker(), Worker()
    one.posts("session=member")
    early = one.gives()
    one.gets("session=; Max-Age=0")
    assert one.sends(early) == set(), "the site has taken it back"
    one.posts("session=another")
    assert one.sends(early) == {"session=another"}
    assert other.sends(early) == {"session=member"}
    assert other.sends(one.gives()) == {"session=another"}


def test_an_answer_that_was_under_way_does_not_end_the_session() -> None:
    one, other = Worker(), Worker()
    one.posts("session=member")
    asked = other.asks(Request(SHOP))
    other.sends(one.gives())
    other.answers(asked, "session=anonymous")
    assert one.sends(other.gives()) == other.sends([]) == {"session=member"}


def test_a_cookie_that_has_expired_makes_room_for_the_next() -> None:
    one, other = Worker(), Worker()
    one.posts("session=member; Max-Age=1000")
    carried = one.gives()
    assert other.sends(carried) == {"session=member"}
    expired = [[*cookie[:6], 1, *cookie[7:]] for cookie in carried]
    assert other.sends(expired) == set()
    other.gets("session=anonymous")
    assert other.sends([]) == {"session=anonymous"}


def test_a_session_that_the_spider_gives_is_that_of_a_login() -> None:
    one, other = Worker(), Worker()
    asked = one.asks(Request(SHOP, cookies={"session": "member"}))
    one.answers(asked)
    other.gets("session=anonymous")
    other.gets("session=renewed")
    assert one.sends(other.gives()) == other.sends(one.gives()) == {"session=member"}


def test_a_session_that_a_middleware_gives_is_handed_on() -> None:
    one, other = Worker(), Worker()
    one.gets("session=anonymous")
    one.jars.process_response(
        Request(SHOP), Response(SHOP, headers={"Set-Cookie": "session=member"})
    )
    assert other.sends(one.gives()) == one.sends([]) == {"session=member"}


def test_a_request_without_cookies_neither_gives_nor_gets_any() -> None:
    one, other = Worker(), Worker()
    one.gets("session=1")
    one.gets("session=2", dont_merge_cookies=True)
    assert one.sends([]) == {"session=1"}
    assert other.sends(one.gives(), dont_merge_cookies=True) == set()


def test_cookies_that_no_server_would_take_are_left_out() -> None:
    worker = Worker()
    worker.gets(*(f"n{i}={'x' * 4000}" for i in range(MAX_CHARS // 4000 + 1)))
    assert worker.gives() == []
