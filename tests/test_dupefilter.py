"""LayeredBloomDupeFilter: the URL filter where Scrapy's own would stand."""

from crawls import crawl_requests
from mock_site import MockSite
from scrapy import Request

SETTINGS = {"DUPEFILTER_CLASS": "scrapy_neardup.LayeredBloomDupeFilter"}


def test_a_repeated_url_is_filtered_before_it_is_queued(mock_site: MockSite) -> None:
    outcome = crawl_requests(mock_site, "/page/1", "/page/1", "/page/2", settings=SETTINGS)
    assert mock_site.gets("/page/1") == 1
    assert len(outcome.items) == 2
    assert outcome.stat("urls/filtered_at_scheduling") == 1
    assert outcome.stats["dupefilter/filtered"] == 1


def test_dont_filter_passes(mock_site: MockSite) -> None:
    again = Request(mock_site.url("/page/1"), dont_filter=True)
    crawl_requests(mock_site, "/page/1", again, settings=SETTINGS)
    assert mock_site.gets("/page/1") == 2


def test_a_redirect_into_its_own_chain_passes(mock_site: MockSite) -> None:
    outcome = crawl_requests(mock_site, "/login", settings=SETTINGS)
    assert outcome.urls == [mock_site.url("/login")]


def test_an_endless_redirect_ends(mock_site: MockSite) -> None:
    crawl_requests(mock_site, "/loop", settings=SETTINGS | {"REDIRECT_MAX_TIMES": 5})
    assert mock_site.gets("/loop") == 6


def test_a_retried_request_is_delivered(mock_site: MockSite) -> None:
    assert crawl_requests(mock_site, "/flaky", settings=SETTINGS).urls == [mock_site.url("/flaky")]
