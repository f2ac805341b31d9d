"""What the stores of media pipelines do not take, as a full disk or a folder that is read-only."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import wraps
from inspect import isawaitable
from typing import TYPE_CHECKING, Any

from scrapy.http import Request, Response
from scrapy.utils.defer import ensure_awaitable
from twisted.internet.defer import Deferred
from twisted.python.failure import Failure

from scrapy_neardup.crawl.items.failed_files import FailedFiles

if TYPE_CHECKING:
    from scrapy.pipelines.files import FilesPipeline

MARK = "neardup_refused_by_store"
MAX_CAUSES = 16  # errors looked at: causes may go round in a circle


def watch_store(pipeline: FilesPipeline, files: FailedFiles) -> None:
    """Let files know of each download of a pipeline that its store refuses.

    Scrapy 2.15 to 2.19 raises the same for that as for an image that nobody can read, which would
    fail in every crawl. Only the store tells them apart, and only the pipeline knows the URL. So a
    method of each is wrapped: an error of the first is marked, to be known again by the second.
    """
    watched: Any = pipeline
    watched.store.persist_file = _marking(watched.store.persist_file)
    watched.media_downloaded = _telling(watched.media_downloaded, files)


def _marking(persist: Callable[..., Any]) -> Callable[..., Any]:
    """Gives what it gave: pipelines of projects need not await it, as in earlier versions."""

    @wraps(persist)
    def persist_file(*args: Any, **kwargs: Any) -> Any:
        try:
            stored = persist(*args, **kwargs)
        except Exception as error:
            _mark(error)
            raise
        if isinstance(stored, Deferred):
            return stored.addErrback(_marked)
        return _marking_later(stored) if isawaitable(stored) else stored

    return persist_file


async def _marking_later(stored: Awaitable[Any]) -> Any:
    try:
        return await stored
    except Exception as error:
        _mark(error)
        raise


def _marked(failure: Failure) -> Failure:
    assert failure.value is not None
    _mark(failure.value)
    return failure


def _mark(error: BaseException) -> None:
    error.__dict__[MARK] = True  # past what its class may do about attributes


def _telling(download: Callable[..., Any], files: FailedFiles) -> Callable[..., Awaitable[Any]]:
    @wraps(download)
    async def media_downloaded(
        response: Response, request: Request, *args: Any, **kwargs: Any
    ) -> Any:
        try:
            return await ensure_awaitable(download(response, request, *args, **kwargs))
        except Exception as error:
            if _is_refusal(error):
                files.refused(request)
            raise

    return media_downloaded


def _is_refusal(error: BaseException | None) -> bool:
    """Whether a store raised an error, or what led to it."""
    for _ in range(MAX_CAUSES):
        if error is None:
            return False
        if MARK in error.__dict__:
            return True
        error = error.__cause__ or error.__context__
    return False
