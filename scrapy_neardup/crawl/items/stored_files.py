"""Files of items that media pipelines have stored: whether they are to be asked for again."""

from __future__ import annotations

import sys
import time
from functools import cached_property
from typing import TYPE_CHECKING, Any

from scrapy.crawler import Crawler
from scrapy.http import Request
from scrapy.utils.defer import ensure_awaitable
from scrapy.utils.misc import arg_to_iter

if TYPE_CHECKING:
    from scrapy.pipelines.files import FilesPipeline

DAY_S = 86_400


class StoredFiles:
    """What the crawl's files and images pipelines would say of an item that does not reach them."""

    def __init__(self, crawler: Crawler) -> None:
        self._crawler = crawler

    @cached_property
    def pipelines(self) -> list[FilesPipeline]:
        """Those of the crawl, which is under way."""
        return media_pipelines(self._crawler)

    async def have_expired(self, item: Any) -> bool:
        """Whether a file of an item was stored longer ago than FILES_EXPIRES or the like says.

        Not so one that was never stored. Raises whatever a pipeline of the project's raises.
        """
        for pipeline in self.pipelines:
            for request in arg_to_iter(pipeline.get_media_requests(item, pipeline.spiderinfo)):
                if await _has_expired(pipeline, request, item):
                    return True
        return False


def media_pipelines(crawler: Crawler) -> list[FilesPipeline]:
    """Scrapy's files and images pipelines in a crawl that is under way, and what extends them."""
    files = sys.modules.get("scrapy.pipelines.files")  # not imported: it would import itemadapter
    if files is None or crawler.engine is None:
        return []
    all_pipelines = crawler.engine.scraper.itemproc.middlewares
    return [one for one in all_pipelines if isinstance(one, files.FilesPipeline)]


async def _has_expired(pipeline: FilesPipeline, request: Request, item: Any) -> bool:
    info = pipeline.spiderinfo
    path = pipeline.file_path(request, info=info, item=item)
    try:
        found: Any = await ensure_awaitable(pipeline.store.stat_file(path, info))
    except Exception:  # S3's store raises for what it does not have
        return False
    stored = found.get("last_modified") if found else None
    return stored is not None and time.time() - stored > pipeline.expires * DAY_S
