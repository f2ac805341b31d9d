"""Items whose files could not be downloaded: their pages are read again by the next crawl."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from scrapy import Request
from scrapy.exceptions import DropItem
from scrapy.http import Response
from scrapy.pipelines.files import FilesPipeline

from tests.crawls import Outcome, PagesSpider, crawl
from tests.mock_site import MockSite, page, prose

N = 3
STATUSES = [503, 429]


class Reports(PagesSpider):
    """Follows the links of /start; an item of each other page, with the files that it links."""

    name = "reports"

    def parse_seed(self, response: Response) -> Iterator[Any]:
        for link in response.css("a::attr(href)").getall():
            yield response.follow(link)

    def parse(self, response: Response) -> Iterator[Any]:
        files = [response.urljoin(link) for link in response.css("a::attr(href)").getall()]
        yield {"url": response.url, "file_urls": files}


class PicklessPipeline(FilesPipeline):
    """Drops items without a file, as the example in Scrapy's manual does."""

    def item_completed(self, results: Any, item: Any, info: Any) -> Any:
        if not all(is_there for is_there, _ in results):
            raise DropItem("a file is missing")
        return super().item_completed(results, item, info)


class OtherFieldPipeline(FilesPipeline):
    """Downloads what no field is named for in the settings."""

    def get_media_requests(self, item: Any, info: Any) -> list[Request]:
        return [Request(url) for url in item["file_urls"]]

    def item_completed(self, results: Any, item: Any, info: Any) -> Any:
        return {"url": item["url"], "reports": item["file_urls"]}


def add_reports(site: MockSite, status: int, link: str = "{n}.pdf") -> None:
    """Pages with a file each, of which the first is answered with a status."""
    site.add("/start", page("start", *(f"/report/{n}" for n in range(N))))
    for n in range(N):
        site.add(f"/report/{n}", page(prose(n), "/file/" + link.format(n=n)))
        path = "/file/" + link.format(n=n).replace(" ", "%20")
        site.add(path, f"file {n}", status if n == 0 else 200, "application/pdf")


def recrawl(site: MockSite, folder: Path, pipeline: Any = FilesPipeline, **more: Any) -> Outcome:
    settings = {
        "NEARDUP_STATE_DIR": str(folder / "state"),
        "FILES_STORE": str(folder / "files"),
        "ITEM_PIPELINES": {pipeline: 300},
        "RETRY_ENABLED": False,
    }
    return crawl(Reports, settings | more, seed=site.url("/start"))


@pytest.mark.parametrize("mode", ["new", "changed"])
@pytest.mark.parametrize("status", STATUSES)
def test_a_page_whose_file_could_not_be_had_is_read_again_by_the_next_crawl(
    mock_site: MockSite, tmp_path: Path, status: int, mode: str
) -> None:
    add_reports(mock_site, status)
    first = recrawl(mock_site, tmp_path, NEARDUP_RECRAWL=mode)
    assert len(first.items) == N
    assert first.stat("items/without_file") == 1
    add_reports(mock_site, 200)
    second = recrawl(mock_site, tmp_path, NEARDUP_RECRAWL=mode)
    assert second.urls == [mock_site.url("/report/0")]
    assert len(second.items[0]["files"]) == 1
    third = recrawl(mock_site, tmp_path, NEARDUP_RECRAWL=mode)
    assert not third.items


@pytest.mark.parametrize("mode", ["new", "changed"])
@pytest.mark.parametrize("pipeline", [PicklessPipeline, OtherFieldPipeline])
def test_so_is_that_of_an_item_which_a_media_pipeline_drops_or_replaces_for_it(
    mock_site: MockSite, tmp_path: Path, pipeline: Any, mode: str
) -> None:
    add_reports(mock_site, 503)
    recrawl(mock_site, tmp_path, pipeline, NEARDUP_RECRAWL=mode)
    add_reports(mock_site, 200)
    second = recrawl(mock_site, tmp_path, pipeline, NEARDUP_RECRAWL=mode)
    assert second.urls == [mock_site.url("/report/0")]


def test_a_file_is_known_by_its_url_as_it_is_asked_for(mock_site: MockSite, tmp_path: Path) -> None:
    add_reports(mock_site, 503, "the report {n}.pdf")
    recrawl(mock_site, tmp_path)
    add_reports(mock_site, 200, "the report {n}.pdf")
    assert recrawl(mock_site, tmp_path).urls == [mock_site.url("/report/0")]


def test_a_page_that_changed_is_read_again_for_its_file_though_it_turns_back(
    mock_site: MockSite, tmp_path: Path
) -> None:
    add_reports(mock_site, 200)
    recrawl(mock_site, tmp_path, NEARDUP_RECRAWL="changed")
    mock_site.add("/report/0", page(prose("news"), "/file/other.pdf"))
    mock_site.add("/file/other.pdf", "", 503)
    assert len(recrawl(mock_site, tmp_path, NEARDUP_RECRAWL="changed").items) == 1
    add_reports(mock_site, 200)
    third = recrawl(mock_site, tmp_path, NEARDUP_RECRAWL="changed")
    assert third.urls == [mock_site.url("/report/0")]


@pytest.mark.parametrize("status", [404, 403])
def test_a_file_that_is_refused_or_gone_does_not_have_its_page_read_again(
    mock_site: MockSite, tmp_path: Path, status: int
) -> None:
    add_reports(mock_site, status)
    first = recrawl(mock_site, tmp_path)
    assert first.stat("items/without_file") == 0
    assert not recrawl(mock_site, tmp_path).items


def test_a_copy_is_dropped_for_an_item_without_its_file(
    mock_site: MockSite, tmp_path: Path
) -> None:
    add_reports(mock_site, 503)
    mock_site.pages["/report/1"] = mock_site.pages["/report/0"]
    settings = {"CONCURRENT_REQUESTS": 1, "DOWNLOAD_DELAY": 0}
    first = recrawl(mock_site, tmp_path, **settings)
    assert first.stat("pages/read_again") == 0
    add_reports(mock_site, 200)
    mock_site.pages["/report/1"] = mock_site.pages["/report/0"]
    second = recrawl(mock_site, tmp_path, **settings)
    assert [len(item["files"]) for item in second.items] == [1]


def test_the_log_says_how_many_items_left_without_a_file(
    mock_site: MockSite, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    add_reports(mock_site, 503)
    recrawl(mock_site, tmp_path)
    assert "1 items are without a file whose download failed" in caplog.text
