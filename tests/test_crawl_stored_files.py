"""Files that media pipelines have stored, and that may have changed behind an unchanged page."""

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from scrapy.http import Response
from scrapy.pipelines.files import FilesPipeline
from scrapy.pipelines.images import ImagesPipeline

from tests.crawls import Outcome, PagesSpider, crawl
from tests.mock_site import PNG, MockSite, page, prose

DAY_S = 86_400
LONG_TEXT = "word " * 8_000


class Report(PagesSpider):
    """An item of /report, with its file, and one without files, which is long."""

    name = "report"

    def parse_seed(self, response: Response) -> Iterator[Any]:
        yield response.follow("/report")

    def parse(self, response: Response) -> Iterator[Any]:
        files = [response.urljoin(link) for link in response.css("a::attr(href)").getall()]
        yield {"url": response.url, "file_urls": files, "image_urls": files}
        yield {"url": response.url, "text": LONG_TEXT}


class Rejecting(FilesPipeline):
    def file_path(self, request: Any, response: Any = None, info: Any = None, *, item: Any) -> str:
        raise ValueError("no path")


@pytest.fixture
def site(mock_site: MockSite) -> MockSite:
    mock_site.add("/report", page(prose("report"), "/file"))
    mock_site.add("/file", PNG, content_type="image/png")
    return mock_site


def recrawl(
    site: MockSite, folder: Path, pipeline: Any = FilesPipeline, **settings: Any
) -> Outcome:
    where = {
        "NEARDUP_STATE_DIR": str(folder / "state"),
        "NEARDUP_RECRAWL": "changed",
        "FILES_STORE": str(folder / "files"),
        "IMAGES_STORE": str(folder / "files"),
        "ITEM_PIPELINES": {pipeline: 300},
    }
    return crawl(Report, where | settings, seed=site.url("/page/seed"))


def stored(folder: Path) -> Path:
    (path,) = (folder / "files" / "full").iterdir()
    return path


def age(path: Path, days: float) -> None:
    then = time.time() - days * DAY_S
    os.utime(path, (then, then))


@pytest.mark.parametrize("more", [{}, {"FILES_EXPIRES": 7}])
def test_a_file_that_has_expired_is_asked_for_again_though_its_page_is_unchanged(
    site: MockSite, tmp_path: Path, more: dict[str, Any]
) -> None:
    recrawl(site, tmp_path, **more)
    site.add("/file", "another one")
    age(stored(tmp_path), more.get("FILES_EXPIRES", 90) - 1)
    assert not recrawl(site, tmp_path, **more).items
    age(stored(tmp_path), more.get("FILES_EXPIRES", 90) + 1)
    third = recrawl(site, tmp_path, **more)
    assert [item["neardup"] for item in third.items] == [{"status": "unchanged"}]
    assert third.stat("recrawl/items_expired") == 1
    assert stored(tmp_path).read_bytes() == b"another one"
    assert not recrawl(site, tmp_path, **more).items


def test_so_is_an_image(site: MockSite, tmp_path: Path) -> None:
    pytest.importorskip("PIL")
    recrawl(site, tmp_path, ImagesPipeline)
    age(stored(tmp_path), 91)
    assert len(recrawl(site, tmp_path, ImagesPipeline).items) == 1


def test_a_file_that_was_never_stored_does_not_make_an_item_pass(
    site: MockSite, tmp_path: Path
) -> None:
    site.add("/file", "gone", 404)
    recrawl(site, tmp_path, FILES_EXPIRES=0)
    assert not recrawl(site, tmp_path, FILES_EXPIRES=0).items


def test_an_item_passes_if_its_files_cannot_be_looked_up(site: MockSite, tmp_path: Path) -> None:
    recrawl(site, tmp_path)
    second = recrawl(site, tmp_path, Rejecting)
    assert [len(item["file_urls"]) for item in second.items] == [1]
    assert second.stat("errors/pipeline") == 1
