"""What a crawl remembers and what it could not write, as stats: set at any moment."""

from __future__ import annotations

import logging
from typing import Any

import scrapy_neardup.kernels as kernels
from scrapy_neardup import stats
from scrapy_neardup.crawl.delivery import Delivery
from scrapy_neardup.crawl.pages.page_lifecycle import PageLifecycle
from scrapy_neardup.crawl.requests.seen_urls import SeenUrls
from scrapy_neardup.detect.detector import Detector
from scrapy_neardup.engines import Engine
from scrapy_neardup.factory import url_error_rate_each
from scrapy_neardup.index import Index
from scrapy_neardup.ledger.writer import LedgerWriter
from scrapy_neardup.settings import NearDupSettings
from scrapy_neardup.state import State
from scrapy_neardup.state.frontier import Frontier
from scrapy_neardup.urls.filters import load_filter

logger = logging.getLogger(__name__)


def sizes(
    state: State, urls: SeenUrls, lifecycle: PageLifecycle, delivery: Delivery
) -> dict[str, Any]:
    """How much is remembered, and what that takes."""
    fetched, queued = filters = urls.filters
    detector = state.detector
    filter_bytes = sum(one.nbytes for one in filters)
    return {
        stats.FILTER_SIZE: len(fetched),
        stats.FILTER_QUEUED: len(queued),
        stats.FILTER_BYTES: filter_bytes,
        stats.FILTER_ERROR_RATE: sum(one.expected_error_rate for one in filters),
        stats.FILTER_LOST: sum(one.expected_lost for one in filters),
        stats.FILTER_REFUSED: sum(one.n_refused for one in filters),
        stats.INDEX_SIZE: len(detector.index),
        stats.INDEX_BYTES: detector.index.nbytes,
        stats.INDEX_LARGEST_BUCKET: detector.index.largest_bucket,
        stats.TEMPLATES_HOSTS: len(detector.templates),
        stats.TEMPLATES_BYTES: detector.templates.nbytes,
        stats.TEMPLATES_WITHOUT_ROOM: detector.templates.n_without_room,
        stats.VISIT_LINES: len(detector.echoes),
        stats.MEMORY_BYTES: filter_bytes + detector.nbytes,
        stats.STATE_UNFINISHED: len(lifecycle) + lifecycle.n_let_go,
        stats.STATE_UNDELIVERED: len(delivery),
    }


def losses(state: State, frontier: Frontier | None, ledger: LedgerWriter | None) -> dict[str, int]:
    """What could not be written."""
    told: dict[str, int] = {}
    if state.store is not None:
        errors = state.store.errors + (frontier.errors if frontier is not None else 0)
        told |= {stats.STATE_ERRORS: errors, stats.STATE_TORN: state.store.torn_bytes}
    if ledger is not None:
        told |= {stats.LEDGER_RECORDED: ledger.recorded, stats.LEDGER_LOST: ledger.lost}
    return told


def names(settings: NearDupSettings, detector: Detector) -> dict[str, str]:
    """Which implementations were chosen."""
    return {
        stats.ENGINE: type(detector.engine).__name__,
        stats.KERNELS: kernels.implementation,
        stats.INDEX_NAME: type(detector.index).__name__,
        stats.FILTER_NAME: load_filter(settings.url_filter).__name__,
    }


def engine_report(engine: Engine) -> dict[str, Any]:
    """What an engine that counts more than fingerprints has to tell."""
    report: dict[str, Any] = getattr(engine, "report", dict)()
    return {stats.ENGINE_REPORT.format(name): value for name, value in report.items()}


def warn_of_full_filter(urls: SeenUrls, max_mb: int | None) -> None:
    """Log a warning if a URL filter is about to fill up and may not grow."""
    for one in urls.filters:
        if one.at_risk:
            logger.warning(
                "neardup: the URL filter is nine tenths full at %d URLs and may not grow beyond "
                "NEARDUP_URL_MAX_MB=%s: soon new URLs are fetched but not remembered. Raise it",
                len(one),
                max_mb,
            )


def warn_of_kept_error_rate(urls: SeenUrls, settings: NearDupSettings) -> None:
    """Log a warning if the URL filter of a state was made with a higher error rate than is set."""
    fetched, _ = urls.filters
    kept, asked = sum(one.error_rate for one in fetched.filters), url_error_rate_each(settings)
    if kept > asked * 1.001:  # of a sum of shares
        logger.warning(
            "neardup: NEARDUP_URL_ERROR_RATE=%g is not kept: the URL filter of the state was made "
            "with %.2g, and up to that share of new URLs may be taken for seen. Begin a new state "
            "folder, or set NEARDUP_TTL, under which the filter is replaced in time",
            settings.url_error_rate,
            settings.url_error_rate * kept / asked,
        )


def warn_of_hot_bucket(index: Index, scan_limit: int) -> None:
    """Log a warning if look-ups have to read through a tenth of what they may."""
    if index.largest_bucket > scan_limit // 10:
        logger.warning(
            "neardup: %d fingerprints share the bits they are found by. Look-ups slow down; "
            "beyond NEARDUP_SCAN_LIMIT=%d pages are kept undecided. Raise NEARDUP_SHINGLE for more "
            "telling fingerprints",
            index.largest_bucket,
            scan_limit,
        )
