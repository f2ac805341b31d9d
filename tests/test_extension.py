"""A crawl's stats as Prometheus reads them."""

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest
from crawls import PagesSpider, crawl
from fleets import free_port
from mock_site import MockSite
from scrapy import Request
from scrapy.http import Response

from scrapy_neardup.report.metrics import Metrics, lines

SAMPLE = re.compile(r'([a-zA-Z_:][a-zA-Z0-9_:]*)\{((?:[a-z]+="(?:[^"\\\n]|\\.)*",?)*)\} (\S+)')


def samples(text: str) -> dict[str, float]:
    """Metric and labels → value; every line has to be a comment or a sample."""
    found = {}
    for line in text.splitlines():
        if line.startswith("#"):
            assert re.fullmatch(r"# (HELP \w+ .*|TYPE \w+ gauge)", line)
            continue
        match = SAMPLE.fullmatch(line)
        assert match, line
        found[f"{match[1]}{{{match[2]}}}"] = float(match[3])
    return found


def test_each_number_among_the_stats_is_a_sample() -> None:
    stats: dict[str, Any] = {
        "neardup/urls/asked": 5,
        "neardup/urls/exempt/retry": 2,
        "neardup/urls/exempt/start": 1,
        "neardup/filter/expected_error_rate": 1e-7,
        "neardup/engine": "Native",
        "downloader/response_status_count/200": 7,
        "start_time": datetime(2026, 1, 1, tzinfo=UTC),
    }
    text = "\n".join(lines(stats, {"spider": 'odd "name"\\\n'}))
    spider = r'spider="odd \"name\"\\\n"'
    assert samples(text) == {
        f"neardup_urls_asked{{{spider}}}": 5,
        f'neardup_urls_exempt{{{spider},kind="retry"}}': 2,
        f'neardup_urls_exempt{{{spider},kind="start"}}': 1,
        f"neardup_filter_expected_error_rate{{{spider}}}": 1e-7,
        f"scrapy_downloader_response_status_count_200{{{spider}}}": 7,
        f"scrapy_start_time{{{spider}}}": 1767225600,
    }
    assert text.count("# TYPE neardup_urls_exempt gauge") == 1
    assert "# HELP neardup_urls_asked requests looked up" in text


@pytest.mark.parametrize(
    ("host", "name", "status"),
    [
        ("127.0.0.1", "127.0.0.1:9", 200),
        ("127.0.0.1", "localhost", 200),
        ("127.0.0.1", "rebound.example", 403),
        ("127.0.0.1", "[", 403),
        ("127.0.0.1", "", 403),
        ("0.0.0.0", "crawler.example:9410", 200),  # noqa: S104 - as a user may set it
    ],
)
def test_metrics_on_this_machine_answer_no_other_host_name(
    host: str, name: str, status: int
) -> None:
    metrics = Metrics(lambda: {"neardup/urls/asked": 5}, "s", host, 0)
    try:
        assert metrics.answer("/metrics", name)[0] == status
    finally:
        metrics.close()


class Scraped(PagesSpider):
    """Reads its own metrics in the middle of the crawl."""

    found: dict[str, float]
    port: int

    def parse(self, response: Response) -> Iterator[Any]:
        url = f"http://127.0.0.1:{self.port}/metrics"
        with urlopen(url, timeout=60) as answer:
            type(self).found = samples(answer.read().decode())
        with pytest.raises(HTTPError):
            urlopen(url.removesuffix("metrics"), timeout=60)  # noqa: S310
        yield {"url": response.url}


def test_a_running_crawl_serves_its_stats(mock_site: MockSite) -> None:
    port = free_port()
    crawl(
        Scraped,
        {"NEARDUP_METRICS_PORT": port},
        seed=mock_site.url("/page/seed"),
        requests=lambda: iter([Request(mock_site.url(f"/page/{n}")) for n in range(2)]),
        port=port,
    )
    assert Scraped.found['neardup_urls_asked{spider="pages"}'] >= 2
    assert Scraped.found['scrapy_downloader_response_count{spider="pages"}'] >= 2
    with pytest.raises(OSError, match="refused"):
        urlopen(f"http://127.0.0.1:{port}/metrics", timeout=60)


class Counting(Scraped):
    """Counts by numbers, and beyond any float."""

    def parse(self, response: Response) -> Iterator[Any]:
        assert self.crawler.stats
        self.crawler.stats.inc_value(response.status)  # type: ignore[arg-type]
        self.crawler.stats.set_value("beyond", 10**400)
        yield from super().parse(response)


def test_stats_that_are_no_metrics_cost_neither_the_others_nor_the_table(
    mock_site: MockSite, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    port = free_port()
    crawl(
        Counting,
        {"NEARDUP_METRICS_PORT": port},
        seed=mock_site.url("/page/seed"),
        requests=lambda: iter([Request(mock_site.url("/page/1"))]),
        port=port,
    )
    assert Counting.found['scrapy_200{spider="pages"}'] == 1
    assert 'neardup_urls_asked{spider="pages"}' in Counting.found
    assert not [name for name in Counting.found if "beyond" in name]
    assert "neardup stats:" in caplog.text


def test_stats_that_become_one_metric_are_told_apart() -> None:
    stats = {"shop.fr/items": 1, "shop-fr/items": 2, "shop": 3, 5: 4, "5": 5}
    assert samples("\n".join(lines(stats, {"spider": "s"}))) == {
        'scrapy_shop_fr_items{spider="s",stat="shop.fr/items"}': 1,
        'scrapy_shop_fr_items{spider="s",stat="shop-fr/items"}': 2,
        'scrapy_shop{spider="s"}': 3,
        'scrapy_5{spider="s"}': 5,
    }


def test_a_port_that_is_taken_costs_the_metrics_only(
    mock_site: MockSite, caplog: pytest.LogCaptureFixture
) -> None:
    port = int(mock_site.root.rpartition(":")[2])
    outcome = crawl(
        PagesSpider,
        {"NEARDUP_METRICS_PORT": port},
        seed=mock_site.url("/page/seed"),
        requests=lambda: iter([Request(mock_site.url("/page/1"))]),
    )
    assert len(outcome.items) == 1
    assert (
        f"no metrics of this crawl: NEARDUP_METRICS_HOST=127.0.0.1, NEARDUP_METRICS_PORT={port}"
        in caplog.text
    )
