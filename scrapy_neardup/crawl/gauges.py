"""What a crawl's memory has to tell when it ends: sizes, losses, the board's time; as stats."""

from __future__ import annotations

import logging
from typing import Any

from scrapy_neardup import stats
from scrapy_neardup.engines import Engine
from scrapy_neardup.index import Index
from scrapy_neardup.ledger.writer import LedgerWriter
from scrapy_neardup.state import State

logger = logging.getLogger(__name__)


def sizes(state: State) -> dict[str, Any]:
    """How much is remembered, and what that takes."""
    urls, detector = state.urls, state.detector
    return {
        stats.FILTER_SIZE: len(urls),
        stats.FILTER_BYTES: urls.nbytes,
        stats.FILTER_ERROR_RATE: urls.expected_error_rate,
        stats.FILTER_LOST: urls.expected_lost,
        stats.FILTER_REFUSED: urls.n_refused,
        stats.INDEX_SIZE: len(detector.index),
        stats.INDEX_BYTES: detector.index.nbytes,
        stats.INDEX_LARGEST_BUCKET: detector.index.largest_bucket,
        stats.MEMORY_BYTES: urls.nbytes + detector.nbytes,
        stats.STATE_UNFINISHED: len(state.lineage),
    }


def losses(state: State, ledger: LedgerWriter | None) -> dict[str, int]:
    """What could not be written."""
    told: dict[str, int] = {}
    if state.store is not None:
        told |= {stats.STATE_ERRORS: state.store.errors, stats.STATE_TORN: state.store.torn_bytes}
    if ledger is not None:
        told |= {stats.LEDGER_RECORDED: ledger.recorded, stats.LEDGER_LOST: ledger.lost}
    return told


def engine_report(engine: Engine) -> dict[str, Any]:
    """What an engine that counts more than fingerprints has to tell."""
    report: dict[str, Any] = getattr(engine, "report", dict)()
    return {stats.ENGINE_REPORT.format(name): value for name, value in report.items()}


def warn_of_hot_bucket(index: Index, scan_limit: int) -> None:
    """Log a warning if look-ups have to read through a tenth of what they may."""
    if index.largest_bucket > scan_limit // 10:
        logger.warning(
            "neardup: %d fingerprints share the bits they are found by. Look-ups slow down; "
            "beyond NEARDUP_SCAN_LIMIT=%d pages are kept undecided. Raise NEARDUP_BLOCKS, or "
            "NEARDUP_SHINGLE for more telling fingerprints",
            index.largest_bucket,
            scan_limit,
        )
