"""Items whose files could not be downloaded or stored: the next crawl reads their pages again."""

import io
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import pytest
from scrapy import Request
from scrapy.exceptions import DropItem
from scrapy.http import Response
from scrapy.pipelines.files import FilesPipeline, FSFilesStore
from scrapy.pipelines.images import ImagesPipeline
from scrapy.utils.asyncio import run_in_thread
from scrapy.utils.defer import deferred_from_coro

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


class ThreadStore(FSFilesStore):
    """Stores in a thread, as those of S3, GCS and FTP do."""

    async def persist_file(self, *args: Any, **kwargs: Any) -> None:  # type: ignore[override]
        await run_in_thread(super().persist_file, *args, **kwargs)


class DeferredStore(FSFilesStore):
    """The same, and gives a Deferred, as those do."""

    def persist_file(self, *args: Any, **kwargs: Any) -> Any:
        return deferred_from_coro(run_in_thread(super().persist_file, *args, **kwargs))


class ThreadPipeline(FilesPipeline):
    STORE_SCHEMES: ClassVar[Any] = FilesPipeline.STORE_SCHEMES | {"file": ThreadStore}


class DeferredPipeline(FilesPipeline):
    STORE_SCHEMES: ClassVar[Any] = FilesPipeline.STORE_SCHEMES | {"file": DeferredStore}


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
        "IMAGES_STORE": str(folder / "images"),
        "IMAGES_URLS_FIELD": "file_urls",
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


def refuse_files(folder: Path, store: str = "files") -> Path:
    """A plain file where a store's pipeline makes a folder; to be removed again."""
    (folder / store).mkdir()
    (folder / store / "full").touch()
    return folder / store / "full"


@pytest.mark.parametrize("mode", ["new", "changed"])
@pytest.mark.parametrize("pipeline", [FilesPipeline, ThreadPipeline, DeferredPipeline])
def test_a_page_whose_file_the_store_refused_is_read_again_once_the_store_is_mended(
    mock_site: MockSite, tmp_path: Path, pipeline: Any, mode: str
) -> None:
    add_reports(mock_site, 404)
    refusing = refuse_files(tmp_path)
    first = recrawl(mock_site, tmp_path, pipeline, NEARDUP_RECRAWL=mode)
    assert len(first.items) == N
    assert first.stat("items/without_file") == N - 1
    refusing.unlink()
    second = recrawl(mock_site, tmp_path, pipeline, NEARDUP_RECRAWL=mode)
    assert [len(item["files"]) for item in second.items] == [1] * (N - 1)
    assert second.stat("items/without_file") == 0
    assert not recrawl(mock_site, tmp_path, pipeline, NEARDUP_RECRAWL=mode).items


@pytest.mark.parametrize("pipeline", [PicklessPipeline, OtherFieldPipeline])
def test_so_is_that_of_an_item_which_is_dropped_or_replaced_for_what_the_store_refused(
    mock_site: MockSite, tmp_path: Path, pipeline: Any
) -> None:
    add_reports(mock_site, 404)
    refusing = refuse_files(tmp_path)
    recrawl(mock_site, tmp_path, pipeline)
    refusing.unlink()
    assert len(recrawl(mock_site, tmp_path, OtherFieldPipeline).items) == N - 1


@pytest.mark.parametrize(("refused", "order"), [("files", 1), ("files", 3), ("images", 1)])
def test_what_one_store_refused_is_waited_for_though_another_took_it(
    mock_site: MockSite, tmp_path: Path, refused: str, order: int
) -> None:
    add_images(mock_site, shown(40))
    pipelines = {"ITEM_PIPELINES": {FilesPipeline: order, ImagesPipeline: 2}}
    refusing = refuse_files(tmp_path, refused)
    first = recrawl(mock_site, tmp_path, **pipelines)
    assert first.stat("items/without_file") == 1
    refusing.unlink()
    (second,) = recrawl(mock_site, tmp_path, **pipelines).items
    assert len(second["files"]) == len(second["images"]) == 1


def test_an_image_that_is_too_small_or_cannot_be_read_does_not_have_its_page_read_again(
    mock_site: MockSite, tmp_path: Path
) -> None:
    whole = shown(40)
    add_images(mock_site, shown(4), whole[: len(whole) // 2], b"<svg/>")
    first = recrawl(mock_site, tmp_path, ImagesPipeline, IMAGES_MIN_WIDTH=20)
    assert [item["images"] for item in first.items] == [[]] * 3
    assert first.stat("items/without_file") == 0
    assert not recrawl(mock_site, tmp_path, ImagesPipeline, IMAGES_MIN_WIDTH=20).items


def shown(width: int) -> bytes:
    """A PNG of noise, so that half of its bytes are half of what it shows."""
    to = io.BytesIO()
    images = pytest.importorskip("PIL.Image", reason="Pillow is not installed")
    images.effect_noise((width, width), 90).save(to, "PNG")
    return to.getvalue()


def add_images(site: MockSite, *bodies: bytes) -> None:
    """A page with an image for each body."""
    site.add("/start", page("start", *(f"/report/{n}" for n in range(len(bodies)))))
    for n, body in enumerate(bodies):
        site.add(f"/report/{n}", page(prose(n), f"/file/{n}.png"))
        site.add(f"/file/{n}.png", body, 200, "image/png")


def test_a_crawl_tells_the_pages_that_it_read_and_that_are_to_be_read_again(
    mock_site: MockSite, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "scrapy_neardup")
    add_reports(mock_site, 503)
    recrawl(mock_site, tmp_path, NEARDUP_RECRAWL="changed")
    assert f" {N} pages: {N} new," in caplog.text  # with the list of them
    assert "every visit), 1 more to be read again\n" in caplog.text
    caplog.clear()
    add_reports(mock_site, 200)
    recrawl(mock_site, tmp_path, NEARDUP_RECRAWL="changed")
    assert "every visit)\n" in caplog.text


def test_the_log_says_how_many_items_left_without_a_file(
    mock_site: MockSite, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    add_reports(mock_site, 503)
    recrawl(mock_site, tmp_path)
    assert "1 items are without a file that could not be downloaded or stored" in caplog.text
