"""The site that crawl tests rely on does what its docstring says."""

from http.cookiejar import CookieJar
from urllib.error import HTTPError
from urllib.request import HTTPCookieProcessor, Request, build_opener

import pytest
from mock_site import MockSite


def fetch(url: str, method: str = "GET", data: bytes | None = None) -> tuple[int, bytes]:
    opener = build_opener(HTTPCookieProcessor(CookieJar()))
    try:
        with opener.open(Request(url, data, method=method), timeout=60) as response:  # noqa: S310
            return response.status, response.read()
    except HTTPError as error:
        with error:
            return error.code, error.read()


def test_copies_are_equal_and_pages_differ(mock_site: MockSite) -> None:
    bodies = [
        fetch(mock_site.url(path))[1] for path in ("/page/1", "/copy/1", "/near/1", "/page/2")
    ]
    assert bodies[0] == bodies[1]
    assert len(set(bodies)) == 3


def test_flaky_page_answers_at_the_third_try(mock_site: MockSite) -> None:
    statuses = [fetch(mock_site.url("/flaky"))[0] for _ in range(3)]
    assert statuses == [503, 503, 200]
    assert mock_site.gets("/flaky") == 3


def test_login_redirects_to_itself_once(mock_site: MockSite) -> None:
    assert fetch(mock_site.url("/login"))[0] == 200
    assert mock_site.gets("/login") == 2


def test_slashless_path_moves_to_its_slash(mock_site: MockSite) -> None:
    assert fetch(mock_site.url("/moved"))[0] == 200
    assert mock_site.gets("/moved/") == 1


@pytest.mark.parametrize(("path", "status"), [("/dead", 503), ("/missing", 404), ("/tiny/1", 200)])
def test_status_of_route(mock_site: MockSite, path: str, status: int) -> None:
    assert fetch(mock_site.url(path))[0] == status


def test_methods_are_counted_apart(mock_site: MockSite) -> None:
    answers = {
        fetch(mock_site.url("/api"), "POST", b"one")[1],
        fetch(mock_site.url("/api"), "POST", b"two")[1],
        fetch(mock_site.url("/api"))[1],
    }
    assert len(answers) == 3
    assert fetch(mock_site.url("/api"), "HEAD") == (200, b"")
    assert mock_site.hits == {("POST", "/api"): 2, ("GET", "/api"): 1, ("HEAD", "/api"): 1}


def test_added_page_is_served_with_its_query(mock_site: MockSite) -> None:
    url = mock_site.add("/shop?id=1", "<p>one</p>", content_type="text/plain")
    assert fetch(url) == (200, b"<p>one</p>")
    assert fetch(mock_site.url("/shop?id=2"))[0] == 404
