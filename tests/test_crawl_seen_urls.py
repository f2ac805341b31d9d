"""One URL question: whoever asks it, one answer, one count, one entry in the ledger."""

import logging
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from scrapy import Request, Spider
from scrapy.dupefilters import RFPDupeFilter
from scrapy.http import Response
from scrapy.utils.test import get_crawler

from scrapy_neardup.crawl.requests.page_depths import MAX_DEPTH
from scrapy_neardup.crawl.session import CrawlSession
from scrapy_neardup.ledger.reader import LedgerReader
from tests.crawls import Outcome, PagesSpider, crawl, crawl_requests
from tests.mock_site import MockSite, page, prose

OURS = {"DUPEFILTER_CLASS": "scrapy_neardup.LayeredBloomDupeFilter"}
N_PAGES = 5


class Links(PagesSpider):
    """The seed leads to every page, and each page to all others."""

    def parse_seed(self, response: Response) -> Iterator[Any]:
        for number in range(N_PAGES):
            yield response.follow(f"/page/{number}")

    def parse(self, response: Response) -> Iterator[Any]:
        yield {"url": response.url}
        yield from self.parse_seed(response)


def twice(site: MockSite, where: dict[str, Any]) -> Outcome:
    """What the second of two crawls of a site comes to."""
    for _ in range(2):
        outcome = crawl(Links, where, seed=site.url("/page/seed"))
    return outcome


def recorded(folder: Path) -> list[str]:
    """URLs in the ledger that were dropped as seen."""
    decided = LedgerReader(folder).decisions()
    return [one.url for one in decided if one.kind == "seen"]


@pytest.mark.parametrize("name", ["NEARDUP_STATE_DIR", "JOBDIR"])
def test_every_drop_is_counted_once_and_recorded_once(
    mock_site: MockSite, tmp_path: Path, name: str
) -> None:
    outcome = twice(mock_site, {name: str(tmp_path)})
    folder = tmp_path / "neardup" if name == "JOBDIR" else tmp_path
    urls = [mock_site.url(f"/page/{number}") for number in range(N_PAGES)]
    assert sorted(recorded(folder)) == urls
    assert outcome.stat("urls/dropped") == N_PAGES
    exempt = sum(n for key, n in outcome.stats.items() if key.startswith("neardup/urls/exempt/"))
    assert outcome.stat("urls/asked") == N_PAGES + exempt


def test_what_was_queued_in_the_run_is_filtered_but_not_recorded(
    mock_site: MockSite, tmp_path: Path
) -> None:
    outcome = crawl(Links, {"JOBDIR": str(tmp_path)}, seed=mock_site.url("/page/seed"))
    assert len(outcome.items) == N_PAGES
    assert outcome.stat("urls/filtered_at_scheduling") == N_PAGES * N_PAGES
    assert outcome.stats["dupefilter/filtered"] == N_PAGES * N_PAGES
    assert recorded(tmp_path / "neardup") == []


@pytest.mark.parametrize("name", ["NEARDUP_STATE_DIR", "JOBDIR"])
def test_requests_with_one_key_of_the_spiders_own_are_one_page_also_in_later_crawls(
    mock_site: MockSite, tmp_path: Path, name: str
) -> None:
    pages = [("/page/1", "sku 1"), ("/page/2", "sku 2"), ("/page/3", "sku 1")]

    def requests() -> Iterator[Request]:
        for i, (path, key) in enumerate(pages):
            yield Request(mock_site.url(path), meta={"neardup_key": key}, priority=-i)

    where = {name: str(tmp_path)}
    first = crawl_requests(mock_site, *requests(), settings=where)
    assert first.urls == [mock_site.url("/page/1"), mock_site.url("/page/2")]
    assert crawl_requests(mock_site, *requests(), settings=where).urls == []
    # By its URL, the first page is another; its item was put out before.
    assert crawl_requests(mock_site, "/page/1", settings=where).stat("items/put_out_before") == 1
    assert mock_site.gets("/page/1") == 2


@pytest.mark.parametrize("settings", [{}, OURS])
def test_a_redirect_and_a_retry_keep_the_key_and_are_followed(
    mock_site: MockSite, settings: dict[str, Any]
) -> None:
    requests = [
        Request(mock_site.url(path), meta={"neardup_key": path}) for path in ("/flaky", "/moved")
    ]
    outcome = crawl_requests(mock_site, *requests, settings=settings)
    assert sorted(outcome.urls) == [mock_site.url("/flaky"), mock_site.url("/moved/")]


@pytest.mark.parametrize("settings", [{}, OURS])
def test_a_key_that_is_passed_on_with_the_meta_hides_no_other_page(
    mock_site: MockSite, settings: dict[str, Any]
) -> None:
    class PassesMetaOn(PagesSpider):
        def parse_seed(self, response: Response) -> Iterator[Any]:
            yield response.follow("/page/0", meta={"neardup_key": "sku"})

        def parse(self, response: Response) -> Iterator[Any]:
            yield {"url": response.url, "sku": response.meta["neardup_key"]}
            for number in range(1, N_PAGES):
                yield response.follow(f"/page/{number}", meta=response.meta)

    outcome = crawl(PassesMetaOn, settings, seed=mock_site.url("/page/seed"))
    assert sorted(outcome.urls) == [mock_site.url(f"/page/{n}") for n in range(N_PAGES)]


def test_an_empty_key_of_ones_own_is_counted_and_keeps_every_page(mock_site: MockSite) -> None:
    urls = [mock_site.url(f"/page/{number}") for number in range(3)]
    outcome = crawl_requests(
        mock_site, *(Request(url, meta={"neardup_key": ""}) for url in urls), settings=OURS
    )
    assert sorted(outcome.urls) == urls
    assert outcome.stat("errors/url_key") == 3


@pytest.mark.parametrize("meta", ["neardup_refresh", "neardup_skip"])
def test_with_jobdir_too_a_request_may_ask_for_a_seen_page(
    mock_site: MockSite, tmp_path: Path, meta: str
) -> None:
    where = {"JOBDIR": str(tmp_path)}
    crawl_requests(mock_site, "/page/1", settings=where)
    again = Request(mock_site.url("/page/1"), meta={meta: True})
    assert crawl_requests(mock_site, again, settings=where).urls == [mock_site.url("/page/1")]


@pytest.mark.parametrize("debug", [False, True])
def test_filtered_requests_are_logged_as_scrapy_does(
    mock_site: MockSite, caplog: pytest.LogCaptureFixture, debug: bool
) -> None:
    settings = OURS | {"DUPEFILTER_DEBUG": debug, "LOG_LEVEL": "DEBUG"}
    with caplog.at_level(logging.DEBUG, "scrapy_neardup.dupefilter"):
        crawl_requests(mock_site, *["/page/1"] * 4, settings=settings)
    lines = [r.getMessage() for r in caplog.records if "Filtered duplicate" in r.getMessage()]
    assert len(lines) == (3 if debug else 1)
    assert f"<GET {mock_site.url('/page/1')}>" in lines[0]


def opened(of_scrapy: dict[str, Any] | None = None, **settings: Any) -> CrawlSession:
    """The session of a crawler that does not crawl."""
    given = OURS | {f"NEARDUP_{name}": value for name, value in settings.items()}
    given |= of_scrapy or {}
    crawler = get_crawler(PagesSpider, {"TWISTED_REACTOR_ENABLED": False} | given)
    session = CrawlSession.of(crawler)
    session.open()
    return session


@pytest.mark.parametrize("of_scrapy", [OURS, {"DUPEFILTER_CLASS": RFPDupeFilter}])
def test_settings_of_the_filter_reach_the_queued_urls_too(of_scrapy: dict[str, Any]) -> None:
    session = opened(of_scrapy, URL_FILTER="exact", URL_MAX_MB=4, TTL=1)
    session.urls.is_not_to_be_queued(Request("http://site.example/1"))
    session.urls.completed(b"site.example/2")
    for each in session.urls.filters:
        assert [type(one).__name__ for one in each.filters] == ["ExactUrlFilter"]
        assert each.filters[0].max_bytes == 4 * 2**20 // 2 // 8  # of eight generations
        assert each._ttl_s == 86_400


@pytest.mark.parametrize("rate", [0.01, 0.1])
def test_both_filters_together_keep_the_error_rate(rate: float) -> None:
    """As under JOBDIR, with as many URLs as they were made for; 4 standard errors of room."""
    n_urls, n_new = 20_000, 40_000
    session = opened(URL_ERROR_RATE=rate, URL_CAPACITY=n_urls)
    fetched, queued = session.urls.filters
    for number in range(n_urls):
        key = b"site.example/%d/%d" % (number % 100, number)
        fetched.add(key)
        queued.add(key)
    new = (b"site.example/%d/new%d" % (number % 100, number) for number in range(n_new))
    wrong = sum(key in fetched or key in queued for key in new)
    assert wrong / n_new < rate + 4 * (rate * (1 - rate) / n_new) ** 0.5
    gauges = session._gauges()
    assert gauges["neardup/filter/expected_error_rate"] <= rate


def warnings_of_kept_rate(
    caplog: pytest.LogCaptureFixture, site: MockSite, **settings: Any
) -> list[str]:
    """What a crawl of one page says of the error rate of its state's filter."""
    caplog.clear()
    given = {f"NEARDUP_{name}": value for name, value in settings.items()}
    crawl_requests(site, "/page/1", settings=given)
    messages = [record.getMessage() for record in caplog.records]
    return [text for text in messages if "NEARDUP_URL_ERROR_RATE" in text]


def test_a_state_that_keeps_a_higher_error_rate_than_is_set_says_so_at_the_start(
    mock_site: MockSite, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    where = {"STATE_DIR": str(tmp_path)}
    assert not warnings_of_kept_rate(caplog, mock_site, URL_ERROR_RATE=0.01, **where)
    (warning,) = warnings_of_kept_rate(caplog, mock_site, URL_ERROR_RATE=1e-6, **where)
    assert "NEARDUP_URL_ERROR_RATE=1e-06" in warning
    assert "made with 0.01" in warning
    for changed in ({"URL_ERROR_RATE": 0.1}, {"URL_ERROR_RATE": 0.01, "TTL": 7}):
        assert not warnings_of_kept_rate(caplog, mock_site, **where, **changed)


def test_an_exact_filter_keeps_a_lower_error_rate_and_says_nothing(
    mock_site: MockSite, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    where = {"STATE_DIR": str(tmp_path), "URL_FILTER": "exact"}
    for rate in (0.01, 1e-6):
        assert not warnings_of_kept_rate(caplog, mock_site, URL_ERROR_RATE=rate, **where)


def test_queued_urls_count_as_memory() -> None:
    session = opened(URL_FILTER="exact", URL_CAPACITY=100_000)
    session.urls.completed(b"site.example/1")
    alone = session._gauges()
    session.urls.is_not_to_be_queued(Request("http://site.example/2"))
    both = session._gauges()
    for name in ("filter/bytes", "memory/bytes"):
        assert both[f"neardup/{name}"] - alone[f"neardup/{name}"] > 800_000
    assert both["neardup/filter/queued"] == 1


def test_a_queued_url_ages_out() -> None:
    session = opened(TTL=1e-9)
    request = Request("http://site.example/1")
    assert not session.urls.is_not_to_be_queued(request)
    assert not session.urls.is_not_to_be_queued(request)


def test_a_url_found_less_deep_is_queued_though_its_page_is_by_another_url() -> None:
    def is_filtered(url: str, depth: int) -> bool:
        request = Request(f"http://site.example/{url}", meta={"depth": depth})
        return session.urls.is_not_to_be_queued(request)

    session = opened({"DEPTH_LIMIT": 3})
    assert not is_filtered("list?utm_source=letter", 3)
    assert is_filtered("list?utm_source=page", 3)
    assert not is_filtered("list", 2)
    assert is_filtered("list?utm_source=page", 2)
    assert not is_filtered("deep?utm_source=letter", MAX_DEPTH + 1)
    assert is_filtered("deep", 1), "such a limit is there for traps"
    assert not is_filtered("other", 3)
    assert is_filtered("other", 1), "its only URL, which Scrapy would filter, too"

    session = opened()
    assert not is_filtered("list?utm_source=letter", 3)
    assert is_filtered("list", 1), "nothing is limited"


@pytest.mark.parametrize(("name", "n_hosts"), [("layered", 1), ("exact", 0), ("bloom", 0)])
def test_only_a_filter_with_layers_knows_new_hosts(
    mock_site: MockSite, name: str, n_hosts: int
) -> None:
    settings = {"NEARDUP_URL_FILTER": name}
    outcome = crawl_requests(mock_site, "/page/1", "/page/2", settings=settings)
    assert outcome.stat("urls/marked") == 2
    assert outcome.stat("urls/new_host") == n_hosts


class Site(PagesSpider):
    """Follows every link; its start URL is a page like any other."""

    async def start(self) -> Any:
        yield Request(self.seed, dont_filter=True)

    def parse(self, response: Response) -> Iterator[Any]:
        yield {"url": response.url}
        yield from response.follow_all(css="a")


@pytest.mark.parametrize("jobdir", [False, True])
def test_a_link_back_to_the_start_is_not_followed(
    mock_site: MockSite, tmp_path: Path, jobdir: bool
) -> None:
    mock_site.add("/start", page(prose("start"), "/about"))
    mock_site.add("/about", page(prose("about"), "/start"))
    where = {"JOBDIR": str(tmp_path)} if jobdir else {}
    outcome = crawl(Site, where, seed=mock_site.url("/start"))
    assert sorted(outcome.urls) == [mock_site.url("/about"), mock_site.url("/start")]
    assert mock_site.gets("/start") == 1
    assert outcome.stat("urls/dropped") == 1
    # and the next crawl begins with it all the same
    assert crawl(Site, where, seed=mock_site.url("/start")).urls[0] == mock_site.url("/start")


@pytest.mark.parametrize(
    ("first", "back", "gets"),
    [
        ({}, {"headers": {"Authorization": "Bearer of-a-login"}}, 2),
        ({}, {"cookies": {"age": "18"}}, 2),
        ({}, {"meta": {"playwright": True}}, 2),
        ({"meta": {"cookiejar": 1}}, {"meta": {"cookiejar": 2}}, 2),
        ({"meta": {"cookiejar": 1}}, {}, 2),
        ({}, {"headers": {"Referer": "http://a.example/"}}, 1),
        ({"headers": {"X-Key": "1"}}, {"headers": {"X-Key": "1"}}, 1),
        ({"headers": {"X-Key": "1"}}, {"headers": {"X-Key": "2"}}, 2),
        ({"cookies": {"a": "1"}}, {"cookies": {"a": "1"}}, 1),
        ({}, {"meta": {"download_timeout": 9}}, 1),
    ],
)
def test_the_start_is_fetched_again_if_it_is_asked_for_in_another_way(
    mock_site: MockSite, first: dict[str, Any], back: dict[str, Any], gets: int
) -> None:
    class AsksAgain(Spider):
        name = "asks-again"

        async def start(self) -> Any:
            yield Request(mock_site.url("/start"), dont_filter=True, **first)

        def parse(self, response: Response) -> Any:
            yield {"url": response.url}
            yield Request(response.url, **back)

    mock_site.add("/start", page(prose("start")))
    crawl(AsksAgain)
    assert mock_site.gets("/start") == gets


def test_another_callback_gets_the_start_page(mock_site: MockSite) -> None:
    class TwoCallbacks(Site):
        def parse(self, response: Response) -> Iterator[Any]:
            yield from response.follow_all(css="a", callback=self.parse_page)

        def parse_page(self, response: Response) -> Iterator[Any]:
            yield {"url": response.url}
            yield from self.parse(response)

    mock_site.add("/start", page(prose("start"), "/about"))
    mock_site.add("/about", page(prose("about"), "/start"))
    outcome = crawl(TwoCallbacks, seed=mock_site.url("/start"))
    assert mock_site.url("/start") in outcome.urls


def test_a_start_that_failed_is_fetched_by_a_link(mock_site: MockSite) -> None:
    class TwoStarts(Site):
        async def start(self) -> Any:
            yield Request(mock_site.url("/flaky"), dont_filter=True, priority=9)
            yield Request(self.seed, dont_filter=True)

    mock_site.add("/start", page(prose("start"), "/flaky", "/page/1"))
    settings = {"RETRY_TIMES": 1}
    outcome = crawl(TwoStarts, settings, seed=mock_site.url("/start"))
    assert mock_site.url("/flaky") in outcome.urls


def test_many_random_links_are_answered_alike_by_both_who_ask(
    mock_site: MockSite, tmp_path: Path
) -> None:
    """The middleware's crawl and the dupefilter's fetch the same pages, run after run."""
    rng = random.Random(5)
    for number in range(20):
        links = [f"/n/{rng.randrange(20)}" for _ in range(4)]
        mock_site.add(f"/n/{number}", page(prose(f"n{number}"), *links))
    fetched = []
    for where in ({"NEARDUP_STATE_DIR": str(tmp_path / "a")}, {"JOBDIR": str(tmp_path / "b")}):
        runs = [crawl(Site, where, seed=mock_site.url("/n/0")) for _ in range(2)]
        fetched.append([sorted(run.urls) for run in runs])
    assert fetched[0] == fetched[1]
    assert fetched[0][1] == [mock_site.url("/n/0")]
