"""The URL question: what was fetched is not fetched again, and no request is lost by it."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from crawls import PagesSpider, crawl, crawl_requests
from mock_site import MockSite, page, prose, redirect
from scrapy import Request, Spider
from scrapy.core.scheduler import BaseScheduler
from scrapy.dupefilters import BaseDupeFilter, RFPDupeFilter
from scrapy.http import FormRequest, Response

from scrapy_neardup.dupefilter import LayeredBloomDupeFilter
from scrapy_neardup.urls.filters.layered import LayeredBloomFilter


class TinyFilter(LayeredBloomFilter):
    """A filter whose memory is bounded below the smallest megabyte."""

    def __init__(self, capacity: int, error_rate: float, *, max_bytes: int | None = None) -> None:
        super().__init__(capacity, error_rate, max_bytes=2_000)


class LetsPass(BaseDupeFilter):
    """Lets each request come to the middleware, and means that it is to be made."""

    def request_seen(self, request: Request) -> bool:
        return False


SEEN_AGAIN = {"DUPEFILTER_CLASS": LetsPass}


class ListScheduler(BaseScheduler):
    """A project's own, which makes every request that it is given."""

    def __init__(self) -> None:
        self._waiting: list[Request] = []

    def has_pending_requests(self) -> bool:
        return bool(self._waiting)

    def enqueue_request(self, request: Request) -> bool:
        self._waiting.append(request)
        return True

    def next_request(self) -> Request | None:
        return self._waiting.pop(0) if self._waiting else None


def test_a_url_fetched_before_is_not_fetched_again(mock_site: MockSite) -> None:
    outcome = crawl_requests(mock_site, "/page/1", "/page/1?utm_id=1", "/page/2")
    assert mock_site.gets("/page/1") == 1
    assert outcome.urls == [mock_site.url("/page/1"), mock_site.url("/page/2")]
    assert outcome.stat("urls/dropped") == 1


def test_where_scrapy_is_to_filter_nothing_a_url_is_fetched_again_in_the_same_run(
    mock_site: MockSite, tmp_path: Path
) -> None:
    unfiltered = {
        "DUPEFILTER_CLASS": "scrapy.dupefilters.BaseDupeFilter",
        "NEARDUP_STATE_DIR": str(tmp_path),
    }
    outcome = crawl_requests(mock_site, "/page/1", "/page/1", "/page/1", settings=unfiltered)
    assert mock_site.gets("/page/1") == 3
    assert outcome.stat("urls/exempt/unfiltered") == 2
    crawl_requests(mock_site, "/page/1", "/page/1", settings=unfiltered)
    assert mock_site.gets("/page/1") == 3, "known of an earlier crawl"


@pytest.mark.parametrize("folder", ["NEARDUP_STATE_DIR", "JOBDIR"])
def test_a_url_is_fetched_again_where_a_scheduler_of_the_projects_own_filters_nothing(
    mock_site: MockSite, tmp_path: Path, folder: str
) -> None:
    settings = {"SCHEDULER": ListScheduler, folder: str(tmp_path)}
    paths = ["/page/1", "/page/1", "/page/1?utm_source=letter", "/page/1"]
    outcome = crawl_requests(mock_site, *paths, settings=settings)
    assert mock_site.gets("/page/1") == 3
    assert outcome.stat("urls/dropped") == 1, "to us the longer URL is the same"
    crawl_requests(mock_site, *paths, settings=settings)
    assert mock_site.gets("/page/1") == 3, "known of an earlier crawl"


@pytest.mark.parametrize(
    "settings",
    [{"DUPEFILTER_CLASS": "scrapy.dupefilters.BaseDupeFilter"}, {"SCHEDULER": ListScheduler}],
)
def test_where_nothing_is_filtered_a_start_url_is_fetched_as_often_as_it_is_asked_for(
    mock_site: MockSite, settings: dict[str, Any]
) -> None:
    class Polls(Spider):
        name = "polls"

        async def start(self) -> Any:
            yield Request(mock_site.url("/page/1"), dont_filter=True)

        def parse(self, response: Response) -> Iterator[Any]:
            yield {"asked": mock_site.gets("/page/1")}
            if mock_site.gets("/page/1") < 4:
                yield Request(response.url)

    outcome = crawl(Polls, settings)
    assert [item["asked"] for item in outcome.items] == [1, 2, 3, 4]


def test_session_ids_and_tracking_do_not_make_a_new_url(mock_site: MockSite) -> None:
    for query in ("?sid=0123456789abcdef0123456789abcdef", "?utm_source=letter"):
        mock_site.add("/page/1" + query, "never asked for")
    outcome = crawl_requests(
        mock_site,
        "/page/1",
        "/page/1?sid=0123456789abcdef0123456789abcdef",
        "/page/1?utm_source=letter",
    )
    assert outcome.stat("urls/dropped") == 2
    assert outcome.urls == [mock_site.url("/page/1")]


def test_the_errback_hears_only_if_the_request_carries_something(
    mock_site: MockSite, tmp_path: Path
) -> None:
    """A link checker takes each call for a broken link; who builds an item has to put it out."""
    heard: list[Any] = []

    class Listening(PagesSpider):
        def failed(self, failure: Any) -> None:
            heard.append(failure.value)

        def parse_seed(self, response: Response) -> Iterator[Any]:
            for n, arguments in ((1, {}), (2, {"book": "Emma"})):
                for query in ("", "?utm_id=1"):
                    yield Request(
                        mock_site.url(f"/page/{n}{query}"),
                        errback=self.failed,
                        cb_kwargs=arguments,
                        priority=not query,
                    )

        def parse(self, response: Response, book: str = "") -> Iterator[Any]:
            yield {"url": response.url, "book": book}

    settings = {"NEARDUP_STATE_DIR": str(tmp_path)}
    for _ in range(2):
        crawl(Listening, settings, seed=mock_site.url("/page/seed"))
    assert {type(e).__name__ for e in heard} == {"UrlAlreadyFetched"}
    assert [str(e).rpartition("/")[2] for e in heard] == ["2", "2?utm_id=1"]


def test_the_errback_hears_of_a_page_of_an_earlier_run_that_a_form_led_to(
    mock_site: MockSite, tmp_path: Path
) -> None:
    heard: list[str] = []

    class Sends(PagesSpider):
        def parse_seed(self, response: Response) -> Iterator[Any]:
            form = mock_site.url(self.form)
            yield Request(form, method="POST", errback=self.failed)

        def failed(self, failure: Any) -> None:
            heard.append(f"{self.form} {failure.value!r}")

    for form in "/one", "/other":
        mock_site.pages[form] = redirect("/page/1", 303)
        settings = {"NEARDUP_STATE_DIR": str(tmp_path)}
        crawl(Sends, settings, seed=mock_site.url("/page/seed"), form=form)
    assert heard == [f"/other UrlAlreadyFetched('already fetched: {mock_site.url('/page/1')}')"]


class Books(PagesSpider):
    """Puts each book out with its author, whose page has another session id in each link."""

    def parse_seed(self, response: Response) -> Iterator[Any]:
        for n in range(3):
            yield response.follow(
                f"/page/author?sid={n}123456789abcdef0123456789abcdef",
                self.author,
                cb_kwargs={"book": n},
            )

    def author(self, response: Response, book: int) -> Iterator[Any]:
        yield {"url": response.url, "book": book}


@pytest.mark.parametrize(
    "where", [[], ["JOBDIR"], ["NEARDUP_STATE_DIR"], ["JOBDIR", "NEARDUP_STATE_DIR"]]
)
def test_an_item_under_way_is_put_out_though_its_last_page_was_read_by_another_url(
    mock_site: MockSite, tmp_path: Path, where: list[str]
) -> None:
    for n in range(3):
        mock_site.add(f"/page/author?sid={n}123456789abcdef0123456789abcdef", page(prose("author")))
    settings = {name: str(tmp_path / name) for name in where}
    outcome = crawl(Books, settings, seed=mock_site.url("/page/seed"))
    assert sorted(item["book"] for item in outcome.items) == [0, 1, 2]
    assert outcome.stat("urls/exempt/item") == 2
    again = crawl(Books, settings, seed=mock_site.url("/page/seed"))
    assert len(again.items) == (0 if where else 3)


class PlainAuthor(Books):
    """Links the author by a campaign's URL first, then plainly."""

    def parse_seed(self, response: Response) -> Iterator[Any]:
        for n, query in enumerate(("?utm_source=letter", "")):
            url = f"/page/author{query}"
            yield response.follow(url, self.author, cb_kwargs={"book": n}, priority=-n)


@pytest.mark.parametrize("dupefilter", [RFPDupeFilter, LayeredBloomDupeFilter])
@pytest.mark.parametrize("n_pages", [0, 2], ids=["in one run", "over two runs of a job"])
def test_an_item_under_way_is_put_out_though_its_last_page_was_read_by_a_longer_url(
    mock_site: MockSite, tmp_path: Path, dupefilter: type[BaseDupeFilter], n_pages: int
) -> None:
    mock_site.add("/page/author?utm_source=letter", page(prose("author")))
    mock_site.add("/page/author", page(prose("author")))
    settings = {"DUPEFILTER_CLASS": dupefilter, "CONCURRENT_REQUESTS": 1}
    runs: list[dict[str, Any]] = [{"CLOSESPIDER_PAGECOUNT": n_pages}, {}] if n_pages else [{}]
    if n_pages:
        settings["JOBDIR"] = str(tmp_path)
    items = []
    for run in runs:
        outcome = crawl(PlainAuthor, settings | run, seed=mock_site.url("/page/seed"))
        items += outcome.items
    assert {item["book"] for item in items} == {0, 1}


def test_a_retried_request_is_delivered(mock_site: MockSite) -> None:
    outcome = crawl_requests(mock_site, "/flaky")
    assert mock_site.gets("/flaky") == 3
    assert outcome.urls == [mock_site.url("/flaky")]


def test_a_url_that_never_answered_is_asked_for_again(mock_site: MockSite) -> None:
    crawl_requests(mock_site, "/dead", "/dead", settings=SEEN_AGAIN)
    assert mock_site.gets("/dead") == 6  # twice one request and two retries


def test_a_missing_page_is_not_remembered(mock_site: MockSite) -> None:
    outcome = crawl_requests(mock_site, "/missing", "/missing", settings=SEEN_AGAIN)
    assert outcome.stat("urls/dropped") == 0


def test_dont_filter_is_obeyed(mock_site: MockSite) -> None:
    again = Request(mock_site.url("/page/1"), dont_filter=True)
    outcome = crawl_requests(mock_site, "/page/1", again)
    assert mock_site.gets("/page/1") == 2
    assert outcome.stat("urls/exempt/dont_filter") == 1


def test_a_dont_filter_fetch_does_not_hide_the_ordinary_request(mock_site: MockSite) -> None:
    poll = Request(mock_site.url("/page/1"), dont_filter=True)
    outcome = crawl_requests(mock_site, poll, "/page/1")
    assert len(outcome.urls) == 2


def test_a_retried_dont_filter_request_does_not_hide_the_ordinary_one(mock_site: MockSite) -> None:
    poll = Request(mock_site.url("/flaky"), dont_filter=True)
    outcome = crawl_requests(mock_site, poll, "/flaky")
    assert outcome.urls == [mock_site.url("/flaky")] * 2


def test_every_post_body_is_a_page_of_its_own(mock_site: MockSite) -> None:
    posts = [FormRequest(mock_site.url("/api"), formdata={"n": str(n)}) for n in range(3)]
    outcome = crawl_requests(mock_site, *posts, Request(mock_site.url("/api")))
    assert len(outcome.urls) == 4
    assert outcome.stat("urls/dropped") == 0


def test_head_does_not_hide_get(mock_site: MockSite) -> None:
    head = Request(mock_site.url("/page/1"), method="HEAD")
    crawl_requests(mock_site, head, "/page/1")
    assert mock_site.hits["HEAD", "/page/1"] == 1


def test_a_cookie_wall_that_redirects_to_itself_is_passed(mock_site: MockSite) -> None:
    outcome = crawl_requests(mock_site, "/login", settings=SEEN_AGAIN)
    assert outcome.urls == [mock_site.url("/login")]


def test_a_redirect_to_the_same_page_under_a_loose_key_is_followed(mock_site: MockSite) -> None:
    outcome = crawl_requests(mock_site, "/moved")
    assert outcome.urls == [mock_site.url("/moved/")]


def test_a_meta_refresh_to_itself_is_followed(mock_site: MockSite) -> None:
    outcome = crawl_requests(mock_site, "/refresh", settings=SEEN_AGAIN)
    assert outcome.urls == [mock_site.url("/refresh")]
    assert mock_site.gets("/refresh") == 2


def test_robots_txt_is_never_dropped_and_disallowed_pages_not_remembered(
    mock_site: MockSite,
) -> None:
    outcome = crawl_requests(mock_site, "/private/page", "/page/1")
    assert mock_site.gets("/robots.txt") == 1
    assert mock_site.gets("/private/page") == 0
    assert outcome.stat("urls/exempt/media_or_robots") == 1
    assert outcome.stat("urls/marked") == 1


def test_inline_downloads_are_exempt(mock_site: MockSite) -> None:
    class Inline(PagesSpider):
        async def parse(self, response: Response) -> Any:
            again = await self.crawler.engine.download_async(Request(response.url))
            yield {"url": again.url}

    outcome = crawl(
        Inline,
        seed=mock_site.url("/page/seed"),
        requests=lambda: iter([Request(mock_site.url("/page/1"))]),
    )
    assert mock_site.gets("/page/1") == 2
    assert outcome.urls == [mock_site.url("/page/1")]
    assert outcome.stat("urls/exempt/inline") == 1


def test_what_no_spider_yielded_is_exempt_and_hides_no_page(mock_site: MockSite) -> None:
    class Pushing(PagesSpider):
        def parse_seed(self, response: Response) -> Iterator[Any]:
            for priority in (1, -1):
                self.crawler.engine.crawl(Request(mock_site.url("/page/1"), priority=priority))
            yield Request(mock_site.url("/page/1"))

    outcome = crawl(Pushing, SEEN_AGAIN, seed=mock_site.url("/page/seed"))
    assert mock_site.gets("/page/1") == 3  # pushed, yielded, pushed again
    assert outcome.stat("urls/exempt/inline") == 2
    assert outcome.stat("urls/marked") == 1


def test_what_an_errback_asks_for_is_fetched_though_seen(mock_site: MockSite) -> None:
    class Persisting(PagesSpider):
        def failed(self, failure: Any) -> Iterator[Any]:
            yield Request(mock_site.url("/page/1"))

        def parse_seed(self, response: Response) -> Iterator[Any]:
            yield Request(mock_site.url("/page/1"), priority=1)
            yield Request("http://127.0.0.1:1/", errback=self.failed)  # refused

    outcome = crawl(Persisting, SEEN_AGAIN, seed=mock_site.url("/page/seed"))
    assert outcome.urls == [mock_site.url("/page/1")] * 2


def test_a_start_request_is_remembered(mock_site: MockSite) -> None:
    class Starting(PagesSpider):
        async def start(self) -> Any:
            yield Request(mock_site.url("/page/1"), callback=self.parse_start)

        def parse_start(self, response: Response) -> Iterator[Any]:
            yield {"url": response.url}
            yield response.follow("/page/1?utm_id=1")

    outcome = crawl(Starting)
    assert mock_site.gets("/page/1") == 1
    assert outcome.stat("urls/dropped") == 1


def test_an_inline_download_with_copied_meta_is_exempt(mock_site: MockSite) -> None:
    class Inline(PagesSpider):
        async def parse(self, response: Response) -> Any:
            request = Request(response.url, meta=response.meta)
            again = await self.crawler.engine.download_async(request)
            yield {"url": again.url}

    outcome = crawl(
        Inline,
        seed=mock_site.url("/page/seed"),
        requests=lambda: iter([Request(mock_site.url("/page/1"))]),
    )
    assert outcome.urls == [mock_site.url("/page/1")]


def test_files_of_two_items_are_both_fetched(mock_site: MockSite, tmp_path: Any) -> None:
    class WithFiles(PagesSpider):
        def parse(self, response: Response) -> Iterator[Any]:
            yield {"url": response.url, "file_urls": [mock_site.url("/image.png")]}

    outcome = crawl(
        WithFiles,
        {
            "ITEM_PIPELINES": {"scrapy.pipelines.files.FilesPipeline": 300},
            "FILES_STORE": str(tmp_path),
        },
        seed=mock_site.url("/page/seed"),
        requests=lambda: iter(
            [Request(mock_site.url("/image.png")), Request(mock_site.url("/page/1"))]
        ),
    )
    assert outcome.items[-1]["files"][0]["url"] == mock_site.url("/image.png")


def test_start_requests_pass_even_when_seen(mock_site: MockSite) -> None:
    class Starting(Spider):
        name = "starting"

        async def start(self) -> Any:
            yield Request(mock_site.url("/page/1"))
            yield Request(mock_site.url("/page/1"))

        def parse(self, response: Response) -> Iterator[Any]:
            yield {"url": response.url}

    outcome = crawl(Starting, SEEN_AGAIN)
    assert len(outcome.urls) == 2
    assert outcome.stat("urls/exempt/start") == 2


def test_data_urls_are_not_pages(mock_site: MockSite) -> None:
    outcome = crawl_requests(mock_site, *[Request("data:text/plain,hello")] * 1)
    assert outcome.stat("urls/exempt/scheme") == 1


@pytest.mark.parametrize("key", ["neardup_skip", "neardup_refresh"])
def test_meta_asks_for_a_page_again(mock_site: MockSite, key: str) -> None:
    outcome = crawl_requests(
        mock_site,
        "/page/1",
        Request(mock_site.url("/page/1"), meta={key: True}),
        settings=SEEN_AGAIN,
    )
    assert len(outcome.urls) == 2


def test_a_filter_that_may_not_grow_keeps_new_urls_new_and_warns(
    mock_site: MockSite, caplog: pytest.LogCaptureFixture
) -> None:
    paths = [f"/page/{n}" for n in range(3000, 3160)]
    full = {
        "NEARDUP_URL_CAPACITY": 64,
        "NEARDUP_URL_MAX_MB": 1,
        "NEARDUP_URL_FILTER": TinyFilter,
    }
    outcome = crawl_requests(mock_site, *paths, settings=full)
    assert len(outcome.urls) == len(paths)
    assert outcome.stat("filter/refused") > 0
    assert "the URL filter is nine tenths full" in caplog.text


def test_a_skipped_page_is_not_remembered(mock_site: MockSite) -> None:
    skipped = Request(mock_site.url("/page/1"), meta={"neardup_skip": True})
    outcome = crawl_requests(mock_site, skipped, "/page/1", settings=SEEN_AGAIN)
    assert len(outcome.urls) == 2


class Gates(PagesSpider):
    """Opens pages whose first answer is a gate that leads to the page by a longer URL."""

    def parse_seed(self, response: Response) -> Iterator[Any]:
        for n in range(3):
            yield response.follow(f"/page/{n}")

    def parse(self, response: Response) -> Iterator[Any]:
        gate = response.css("a::attr(href)").get()
        if gate:
            yield response.follow(gate, self.parse)
        else:
            yield {"url": response.url}


@pytest.mark.parametrize("dupefilter", [RFPDupeFilter, LayeredBloomDupeFilter])
@pytest.mark.parametrize("query", ["?PHPSESSID=0123456789abcdef", "?utm_source=accept"])
def test_a_gate_that_leads_to_its_page_by_a_longer_url_is_passed_once(
    mock_site: MockSite, dupefilter: type[BaseDupeFilter], query: str
) -> None:
    for n in range(3):
        mock_site.add(f"/page/{n}", page(f"<a href='/page/{n}{query}'>Let me in</a>"))
        mock_site.add(f"/page/{n}{query}", page(prose(f"text {n}")))
    mock_site.add(f"/page/2{query}", page(f"<a href='/page/2{query}2'>Once more</a>"))
    settings = {"DUPEFILTER_CLASS": dupefilter}
    outcome = crawl(Gates, settings, seed=mock_site.url("/page/seed"))
    assert sorted(outcome.urls) == [mock_site.url(f"/page/{n}{query}") for n in range(2)]
    assert outcome.stat("urls/exempt/itself") == 3
    assert mock_site.gets(f"/page/2{query}2") == 0


class ReadGates(Gates):
    """Makes an item of a gate, too."""

    def parse(self, response: Response) -> Iterator[Any]:
        if response.css("a"):
            yield {"title": "Who are you?"}
        yield from super().parse(response)


def test_a_gate_whose_item_is_dropped_as_the_copy_of_another_gate_is_passed(
    mock_site: MockSite,
) -> None:
    query = "?PHPSESSID=0123456789abcdef"
    for n in range(3):
        gate = prose("the same words at every gate")
        mock_site.add(f"/page/{n}", page(f"{gate}<a href='/page/{n}{query}'>Let me in</a>"))
        mock_site.add(f"/page/{n}{query}", page(prose(f"text {n}")))
    outcome = crawl(ReadGates, seed=mock_site.url("/page/seed"))
    behind = [item["url"] for item in outcome.items if "url" in item]
    assert len(behind) == len(outcome.dropped) == 2  # one gate's item is kept: its link is dropped
