"""Known pages are fetched when they are due, and nothing is lost where they are not."""

import json
import math
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from scrapy.http import FormRequest, Response

from scrapy_neardup.commands import main
from scrapy_neardup.crawl.recrawl import recrawl as recrawl_module
from scrapy_neardup.crawl.recrawl import revisits
from scrapy_neardup.errors import SettingsError
from scrapy_neardup.settings import NearDupSettings
from scrapy_neardup.state.visit import Visit
from scrapy_neardup.state.visit_file import FILE, Status, opened
from scrapy_neardup.state.visits import Visits
from tests.crawls import Outcome
from tests.mock_site import MockSite, Reply, cut_off, page
from tests.test_crawl_recrawl import Shop, add_shop, found, product, recrawl

DAY = 86_400.0
N = 8


class Clock:
    """In the place of the module `time`."""

    def __init__(self) -> None:
        self.now = 1_700_000_000.0

    def time(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Iterator[Clock]:
    clock = Clock()
    monkeypatch.setattr(revisits, "time", clock)
    monkeypatch.setattr(recrawl_module, "time", clock)
    return clock


def revisit(site: MockSite, folder: Path, spider: type = Shop, **settings: Any) -> Outcome:
    return recrawl(site, folder, spider, **({"NEARDUP_REVISIT": "adaptive"} | settings))


def not_due(outcome: Outcome) -> int:
    n: int = outcome.stat("recrawl/not_due")
    return n


def test_a_page_that_never_changes_is_fetched_ever_more_seldom(
    mock_site: MockSite, tmp_path: Path, clock: Clock
) -> None:
    add_shop(mock_site, N)
    gets = []
    for _ in range(30):
        revisit(mock_site, tmp_path)
        gets.append(sum(mock_site.gets(f"/p/{i}") for i in range(N)))
        clock.now += DAY
    early, late = gets[10] - gets[0], gets[29] - gets[19]
    assert 0 < 2 * late <= early
    assert mock_site.gets("/start") == 30


def test_a_page_that_changes_every_day_is_fetched_every_day(
    mock_site: MockSite, tmp_path: Path, clock: Clock
) -> None:
    add_shop(mock_site, N)
    fetched = []
    for day in range(20):
        mock_site.add("/p/1", product(1, price=f"{day}.00"))
        outcome = revisit(mock_site, tmp_path)
        fetched.append(mock_site.gets("/p/1"))
        assert len(outcome.urls) == (N if day == 0 else fetched[-1] - fetched[-2])
        clock.now += DAY
    assert fetched[-1] - fetched[-9] == 8
    assert mock_site.gets("/p/2") < 12


def test_links_of_a_page_that_is_not_due_are_followed_and_nothing_is_gone(
    mock_site: MockSite, tmp_path: Path, clock: Clock
) -> None:
    mock_site.add("/start", page("start", "/list"))
    mock_site.add("/list", page("list", *(f"/p/{i}" for i in range(N))))
    for i in range(N):
        mock_site.add(f"/p/{i}", product(i))
    for day in range(12):
        mock_site.add("/p/1", product(1, price=f"{day}.00"))
        outcome = revisit(mock_site, tmp_path)
        assert day == 0 or set(outcome.urls) <= {mock_site.url("/p/1")}
        assert "gone" not in found(outcome)
        assert found(outcome).get("new", 0) == (N + 2 if day == 0 else 0)
        clock.now += DAY
    assert outcome.urls
    assert mock_site.gets("/list") < 12
    assert not_due(outcome) > 0


@pytest.mark.parametrize("is_range", [False, True])
def test_links_of_a_page_that_was_cut_off_are_not_taken_for_all_it_has(
    mock_site: MockSite, tmp_path: Path, is_range: bool
) -> None:
    add_shop(mock_site, N)
    listed = page("list", *(f"/p/{i}" for i in range(N)))
    mock_site.add("/start", page("start", "/whole", "/list"))
    mock_site.add("/whole", listed)
    n_bytes = listed.index(b'<li><a href="/p/3')
    part = Reply(listed[:n_bytes], status=206) if is_range else cut_off(listed, n_bytes)
    mock_site.pages["/list"] = part
    revisit(mock_site, tmp_path, DOWNLOAD_FAIL_ON_DATALOSS=False)
    with closing(opened(tmp_path / FILE)) as db:
        query = "SELECT url FROM page WHERE links > 0 AND requests IS NULL"
        assert db.execute(query).fetchall() == [(mock_site.url("/list"),)]


class Members(Shop):
    """Sends a form before it follows links."""

    name = "members"

    def parse_seed(self, response: Response) -> Iterator[Any]:
        yield FormRequest(response.urljoin("/api"), formdata={"user": "anna"}, callback=self.inside)

    def inside(self, response: Response) -> Iterator[Any]:
        yield response.follow("/p/1")


def test_a_form_is_sent_in_every_crawl(mock_site: MockSite, tmp_path: Path, clock: Clock) -> None:
    add_shop(mock_site, N)
    for _ in range(6):
        outcome = revisit(mock_site, tmp_path, Members)
        clock.now += DAY
    assert mock_site.hits["POST", "/api"] == 6
    assert not_due(outcome) > 0


def test_pages_not_due_are_counted_and_listed(
    mock_site: MockSite, tmp_path: Path, clock: Clock, capsys: pytest.CaptureFixture[str]
) -> None:
    add_shop(mock_site, N)
    revisit(mock_site, tmp_path)
    clock.now += 60
    second = revisit(mock_site, tmp_path)
    assert not_due(second) == N
    assert second.items == []
    capsys.readouterr()
    assert main(["changes", str(tmp_path), "--due", "--json"]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    passed = {row["url"] for row in rows if row["passed_over_in_run"] == 2}
    assert passed == {mock_site.url(f"/p/{i}") for i in range(N)}
    assert main(["changes", str(tmp_path), "--due", "--csv"]) == 0
    assert main(["changes", str(tmp_path), "--due"]) == 0


@pytest.mark.parametrize("jump", [-400 * DAY, 400 * DAY])
def test_a_clock_that_jumped_makes_pages_due(
    mock_site: MockSite, tmp_path: Path, clock: Clock, jump: float
) -> None:
    add_shop(mock_site, N)
    for _ in range(5):
        revisit(mock_site, tmp_path)
        clock.now += DAY
    clock.now += jump
    assert not_due(revisit(mock_site, tmp_path)) == 0
    clock.now -= jump
    mock_site.add("/p/1", product(1, price="3.00"))
    urls = []
    for _ in range(32):
        urls += revisit(mock_site, tmp_path).urls
        clock.now += DAY
    assert urls == [mock_site.url("/p/1")]


def visited(at: float) -> Visit:
    """A page of which nothing but the time matters."""
    empty = b""
    page = (b"k" * 16, 1, "parse", 1, 1, empty, 1, Status.CHANGED, at, "http://a.example/p/1")
    return Visit(*page, empty, empty, empty, None, 0, None, None, 1)


@pytest.mark.parametrize("jump", [-3650 * DAY, 3650 * DAY])
def test_ten_years_that_a_clock_was_wrong_are_not_years_without_a_change(
    tmp_path: Path, clock: Clock, jump: float
) -> None:
    visits = Visits(tmp_path, "shop", key=0)
    shop = revisits.Revisits(NearDupSettings(recrawl="changed", revisit="adaptive"), visits, {})
    page, days = visited(clock.now), []
    for day in range(60):
        clock.now += jump if day == 1 else -jump if day == 2 else DAY
        if shop.is_due(page):
            page = shop.compared(visited(clock.now), page, changed=True)
            days.append(day)
    assert len([day for day in days if day >= 50]) >= 5  # it is forgotten bit by bit
    visits.close()


def test_what_a_page_leads_to_must_be_known_to_pass_it_over(
    mock_site: MockSite, tmp_path: Path, clock: Clock
) -> None:
    class Lambdas(Shop):
        def parse(self, response: Response) -> Iterator[Any]:
            for output in super().parse(response):
                if not isinstance(output, dict):
                    output.callback = lambda response: self.parse(response)
                yield output

    mock_site.add("/start", page("start", "/list"))
    mock_site.add("/list", page("list", *(f"/p/{i}" for i in range(N))))
    for i in range(N):
        mock_site.add(f"/p/{i}", product(i))
    revisit(mock_site, tmp_path, Lambdas)
    clock.now += 60
    assert not_due(revisit(mock_site, tmp_path, Lambdas)) == 0
    assert mock_site.gets("/p/1") == 2


def test_the_cache_of_scrapy_never_holds_a_page_that_was_passed_over(
    mock_site: MockSite, tmp_path: Path, clock: Clock
) -> None:
    cache = {"HTTPCACHE_ENABLED": True, "HTTPCACHE_DIR": str(tmp_path / "cache")}
    add_shop(mock_site, N)
    revisit(mock_site, tmp_path / "state")
    clock.now += 60
    assert not_due(revisit(mock_site, tmp_path / "state", **cache)) == 0
    anew = recrawl(mock_site, tmp_path / "other", **cache)
    assert len(anew.items) == N


class Sitemapped(Shop):
    def parse_seed(self, response: Response) -> Iterator[Any]:
        response.selector.remove_namespaces()
        for url in response.css("loc::text").getall():
            yield response.follow(url)


def add_sitemap(site: MockSite, dates: dict[str, float]) -> None:
    entries = "".join(
        f"<url><loc>{site.url(path)}</loc>"
        f"<lastmod>{datetime.fromtimestamp(at, UTC).isoformat()}</lastmod></url>"
        for path, at in dates.items()
    )
    text = f'<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">{entries}</urlset>'
    site.add("/start", text, content_type="application/xml")


def test_a_sitemap_that_is_right_makes_pages_due_and_not(
    mock_site: MockSite, tmp_path: Path, clock: Clock
) -> None:
    dates = {f"/p/{i}": clock.now - DAY for i in range(N)}
    for day in range(30):
        path = f"/p/{day % N}"
        mock_site.add(path, product(day % N, price=f"{day}.00"))
        dates[path] = clock.now - 60
        for i in range(N):
            if f"/p/{i}" not in mock_site.pages:
                mock_site.add(f"/p/{i}", product(i))
        add_sitemap(mock_site, dates)
        outcome = revisit(mock_site, tmp_path, Sitemapped)
        if day:
            assert outcome.urls == [mock_site.url(path)]
        clock.now += DAY
    assert not_due(outcome) == N - 1


def test_a_sitemap_that_is_wrong_is_not_believed(
    mock_site: MockSite, tmp_path: Path, clock: Clock
) -> None:
    for i in range(N):
        mock_site.add(f"/p/{i}", product(i))
    for _ in range(20):
        add_sitemap(mock_site, {f"/p/{i}": clock.now - 60 for i in range(N)})
        outcome = revisit(mock_site, tmp_path, Sitemapped)
        clock.now += DAY
    assert not_due(outcome) > 0


def test_a_sitemap_that_is_no_sitemap_does_no_harm(
    mock_site: MockSite, tmp_path: Path, clock: Clock
) -> None:
    hostile = (
        "<urlset><url><loc>http://a.example/\x01</loc><lastmod>9999-99-99</lastmod></url><url>"
        f"<loc>{mock_site.url('/p/1')}</loc><lastmod>99999999-01-01</lastmod>"
        "<changefreq>NaN</changefreq></url><url><loc>javascript:1</loc></url><url>"
    )
    mock_site.add("/p/1", product(1))
    mock_site.add("/start", hostile, content_type="text/xml")
    outcome = revisit(mock_site, tmp_path, Sitemapped)
    assert outcome.stat("errors/recrawl") == 0
    assert outcome.urls == [mock_site.url("/p/1")]


def test_pages_that_bring_new_links_come_first(
    mock_site: MockSite, tmp_path: Path, clock: Clock
) -> None:
    order: list[str] = []

    class Ordered(Shop):
        def parse(self, response: Response) -> Iterator[Any]:
            order.append(response.url.removeprefix(mock_site.root))
            yield from super().parse(response)

    for day in range(3):
        mock_site.add("/start", page("start", "/hub", *(f"/p/{i}" for i in range(N))))
        mock_site.add("/hub", page("hub", *(f"/news/{i}" for i in range(day))))
        for i in range(N):
            mock_site.add(f"/p/{i}", product(i))
        mock_site.add(f"/news/{day}", product(100 + day))
        order.clear()
        revisit(mock_site, tmp_path, Ordered)
        clock.now += 3 * DAY
    assert order.index("/hub") == 1


@pytest.mark.parametrize(
    "settings",
    [
        {"revisit": "adaptive"},
        {"revisit": "adaptive", "recrawl": "all"},
        {"revisit": "often", "recrawl": "changed"},
        {"recrawl": "changed", "revisit_min": 40.0},
        {"recrawl": "changed", "revisit_min": math.nan},
    ],
)
def test_settings_that_make_no_sense_are_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(SettingsError, match="NEARDUP_REVISIT"):
        NearDupSettings(**settings)


@pytest.mark.parametrize(("n_tags", "is_read"), [(1_000, True), (revisits.MAX_TAGS, False)])
def test_a_sitemap_of_very_many_tags_is_not_read(n_tags: int, is_read: bool) -> None:
    body = b"<urlset>" + b"<a/>" * n_tags + b"</urlset>"
    assert revisits.is_sitemap(Response("http://h.example/", body=body)) == is_read


def test_no_more_of_a_sitemap_is_taken_down_than_the_protocol_has() -> None:
    entry = b"<url><loc>http://h.example/a</loc><changefreq>daily</changefreq></url>"
    body = b"<urlset>" + entry * 20 + b"<url/><!-- no --><url><loc/></url></urlset>"
    assert len(list(revisits.hints_of(Response("http://h.example/", body=body)))) == 20


ENTRIES = "".join(
    f"<url><loc>{url}</loc><changefreq>never</changefreq></url>"
    for url in (
        "https://shop.a.com/1",
        "http://victim.com/1",
        "http://[",
        "https://a.com",
    )
)


def test_a_sitemap_tells_of_its_own_site_only() -> None:
    body = f"<urlset>{ENTRIES}</urlset>".encode()
    found = revisits.hints_of(Response("http://www.a.com/sitemap.xml", body=body))
    assert [url for url, _ in found] == ["https://shop.a.com/1", "https://a.com"]


@pytest.mark.parametrize("page", ["<html><urlset>{}</urlset></html>", "<p>{}<!-- <urlset --></p>"])
def test_a_page_that_holds_what_a_sitemap_does_is_none(page: str) -> None:
    body = page.format(ENTRIES).encode()
    assert not list(revisits.hints_of(Response("http://a.com/", body=body)))
