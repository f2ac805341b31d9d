"""Downloads that nobody waits for by a callback of their own: which may bring what items say."""

from __future__ import annotations

from scrapy.crawler import Crawler
from scrapy.http import Request
from scrapy.http.request import NO_CALLBACK

OURS = "neardup_comparison"  # in the meta of a request that we make to compare its page with others


def is_inline(request: Request, crawler: Crawler) -> bool:
    """Whether an item may say what a request brings that no callback yielded.

    Not so robots.txt, what media pipelines store beside items, and what we make ourselves. Of
    NO_CALLBACK, which those have, components make other requests, too, as HttpClient of scrapy-poet
    does. Where the request led on to another one or is tried again, it was asked about before.
    """
    meta = request.meta
    if OURS in meta or "redirect_urls" in meta or "retry_times" in meta:
        return False
    if request.callback is not NO_CALLBACK:
        return True
    is_of_robots = "dont_obey_robotstxt" in meta and request.url.endswith("/robots.txt")
    return not is_of_robots and not _is_media(request, crawler)


def _is_media(request: Request, crawler: Crawler) -> bool:
    """Whether a media pipeline downloads it."""
    from scrapy.pipelines.media import MediaPipeline

    assert crawler.engine
    assert crawler.request_fingerprinter
    fingerprint = crawler.request_fingerprinter.fingerprint(request)
    return any(
        fingerprint in pipeline.spiderinfo.downloading
        for pipeline in crawler.engine.scraper.itemproc.middlewares
        if isinstance(pipeline, MediaPipeline)
    )
