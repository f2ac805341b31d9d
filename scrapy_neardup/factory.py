"""Settings → the structures they describe: URL filter, detector, and what tells them apart."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

from scrapy_neardup.detect.detector import Detector
from scrapy_neardup.engines import FINGERPRINT, SKETCH, Engine, FingerprintSpec, load_engine
from scrapy_neardup.errors import SettingsError
from scrapy_neardup.index import index_class, load_index
from scrapy_neardup.index.permuted import PermutedIndex
from scrapy_neardup.named_classes import require_method
from scrapy_neardup.settings import PREFIX, NearDupSettings
from scrapy_neardup.settings.readers import loading, refuse
from scrapy_neardup.state import StateFactory
from scrapy_neardup.state.header import Identity
from scrapy_neardup.urls.filters import UrlFilter, load_filter
from scrapy_neardup.urls.filters.rotating import N_GENERATIONS, RotatingUrlFilter
from scrapy_neardup.urls.key import UrlKeyRules

N_URL_FILTERS = 2  # of a worker: URLs fetched, URLs queued
DAY_S = 86_400.0
# What digests are of: a state of other digests is refused.
EXACT = "text with case and symbols, data"

# Settings that may change from run to run, but not from worker to worker of a fleet.
SAME_IN_A_FLEET = (
    "compare",
    "ignore_fields",
    "item_fields",
    "extractor",
    "confirm_distance",
    "similarity",
    "min_words",
    "boilerplate",
    "index_admit",
    "url_capacity",
    "url_error_rate",
    "ttl",
)
# Those by which files of pages are deduplicated.
DECIDE_OF_FILES = (
    *("compare", "scope", "distance", "confirm_distance", "similarity", "min_words"),
    *("boilerplate", "template_mb", "facts", "contained", "index", "index_admit", "scan_limit"),
    *("blocks", "shingle", "mix", "weighting", "tie", "max_page_bytes"),
)


def make_state_factory(settings: NearDupSettings) -> StateFactory:
    """How to make or restore a state.

    Raises SettingsError where no such filter can be made; a state makes its filter when it is
    first asked.
    """
    _filter_for(settings, 1, None)
    return StateFactory(
        identity=lambda key: make_identity(settings, key),
        new_urls=lambda: make_urls(settings),
        urls_from=lambda arrays: restored_urls(settings, arrays),
        new_detector=lambda key: make_detector(settings, key),
        detector_from=lambda key, arrays: restored_detector(settings, key, arrays),
    )


def make_rules(settings: NearDupSettings) -> UrlKeyRules:
    """What counts as the same page."""
    return UrlKeyRules(**{f.name: getattr(settings, f"url_{f.name}") for f in fields(UrlKeyRules)})


def make_urls(settings: NearDupSettings) -> UrlFilter:
    """An empty filter for one generation of URLs, of those fetched or of those queued.

    It begins with room for fewer URLs where that for NEARDUP_URL_CAPACITY takes more than its
    share of NEARDUP_URL_MAX_MB. Raises SettingsError.
    """
    max_bytes = max_bytes_of_a_generation(settings)
    capacity, _ = of_a_generation(settings)
    urls = _filter_for(settings, capacity, max_bytes)
    while max_bytes is not None and urls.nbytes > max_bytes and capacity > 1:
        capacity //= 2
        urls = _filter_for(settings, capacity, max_bytes)
    return urls


def _filter_for(settings: NearDupSettings, capacity: int, max_bytes: int | None) -> UrlFilter:
    _, error_rate = of_a_generation(settings)
    with loading("URL_FILTER", settings.url_filter):
        kind = load_filter(settings.url_filter)
        try:
            urls = kind(capacity, error_rate, max_bytes=max_bytes)
        except SettingsError as error:
            n = round(settings.url_error_rate / error_rate)
            takes = f"what {n} filters of {settings.url_filter!r} can keep, which share it"
            raise refuse("URL_ERROR_RATE", settings.url_error_rate, takes, str(error)) from error
        require_method(urls, "add_reporting")
        return urls


def restored_urls(settings: NearDupSettings, arrays: dict[str, Any]) -> UrlFilter:
    """A generation of URLs of a snapshot; its limit is the one that is set now."""
    urls = load_filter(settings.url_filter).from_arrays(arrays)
    urls.max_bytes = max_bytes_of_a_generation(settings)
    return urls


def max_bytes_of_a_generation(settings: NearDupSettings) -> int | None:
    """The share of NEARDUP_URL_MAX_MB of each of these filters: one half is for URLs queued, where
    every crawl notes names of its own, too.
    """
    max_mb = settings.url_max_mb
    if max_mb is None:
        return None
    return int(max_mb * 2**20) // N_URL_FILTERS // n_generations(settings)


def n_generations(settings: NearDupSettings) -> int:
    """How many filters the URLs of one are spread over, by age."""
    return 1 if settings.ttl is None else N_GENERATIONS


def of_a_generation(settings: NearDupSettings) -> tuple[int, float]:
    """The capacity and the error rate of each of these filters."""
    n = n_generations(settings)
    return max(1, settings.url_capacity // n), url_error_rate_each(settings) / n


def url_error_rate_each(settings: NearDupSettings) -> float:
    """The error rate of one URL filter, so that all that are asked keep NEARDUP_URL_ERROR_RATE.

    In a fleet the server's filter is asked as well.
    """
    return settings.url_error_rate / (N_URL_FILTERS + (settings.backend is not None))


def make_queued_urls(settings: NearDupSettings) -> RotatingUrlFilter:
    """An empty filter for the URLs that a run queues, made as that of the URLs fetched."""
    return RotatingUrlFilter(lambda: make_urls(settings), ttl_s(settings))


def ttl_s(settings: NearDupSettings) -> float | None:
    """NEARDUP_TTL in seconds."""
    return None if settings.ttl is None else settings.ttl * DAY_S


def make_engine(settings: NearDupSettings, key: int) -> Engine:
    """The engine, keyed; the paper's plain sdbm takes no key."""
    spec = FingerprintSpec(
        bits=FINGERPRINT.bits,
        shingle=settings.shingle,
        mix=settings.mix,
        weighting=settings.weighting,  # type: ignore[arg-type]
        tie=settings.tie,  # type: ignore[arg-type]
        key=key if settings.mix else 0,
    )
    with loading("ENGINE", settings.engine):
        engine = load_engine(settings.engine, spec, replace(SKETCH, key=key), settings.board)
        require_method(engine, "signatures")
        return engine


def make_detector(settings: NearDupSettings, key: int) -> Detector:
    """A detector that knows no page. Raises SettingsError, EngineUnavailable."""
    distance = settings.distance
    options: dict[Any, dict[str, int]] = {
        "permuted": {
            "blocks": blocks_of(settings),
            "distance": distance,
            "scan_limit": settings.scan_limit,
        },
        # Four slices: nothing is missed below 4 (expand + 1).
        "slices": {"expand": distance // 4, "scan_limit": settings.scan_limit},
        "scan": {"scan_limit": settings.scan_limit},
    }
    with loading("INDEX", settings.index):
        index = load_index(settings.index, **options.get(settings.index, {}))
        require_method(index, "all_within")
    return Detector(make_engine(settings, key), index, **detector_options(settings))


def restored_detector(settings: NearDupSettings, key: int, arrays: dict[str, Any]) -> Detector:
    """The detector of a snapshot."""
    engine = make_engine(settings, key)
    with loading("INDEX", settings.index):
        index = index_class(settings.index)
    detector = Detector.from_arrays(arrays, engine, index, **detector_options(settings))
    if hasattr(detector.index, "scan_limit"):
        detector.index.scan_limit = settings.scan_limit
    if isinstance(detector.index, PermutedIndex):
        detector.index.re_lay(blocks_of(settings))
    return detector


def blocks_of(settings: NearDupSettings) -> int:
    """Into how many blocks the permuted index, and a fleet's server, cut a fingerprint."""
    return settings.blocks or settings.distance + 1


def detector_options(settings: NearDupSettings) -> dict[str, Any]:
    """What may change from crawl to crawl: thresholds, scope, templates, admission."""
    return {
        "distance": settings.distance,
        "confirm_distance": settings.confirm_distance,
        "similarity": settings.similarity,
        "min_words": settings.min_words,
        "scope": settings.scope,
        "boilerplate": settings.boilerplate,
        "template_bytes": settings.template_mb * 1_000_000,
        "facts": settings.facts,
        "whole_pages": settings.compare == "page" or bool(settings.item_fields),
        "contained": settings.contained,
        "admit": settings.index_admit,
    }


def make_identity(settings: NearDupSettings, key: int) -> Identity:
    """What crawls that share a state must have in common.

    The rules for URLs are part of it: under looser ones, a key stood for more pages.
    """
    engine = make_engine(settings, key)
    specs = {"fingerprint": engine.spec, "sketch": engine.sketch_spec}
    return {
        **{f"{s}.{name}": v for s, spec in specs.items() for name, v in spec.describe().items()},
        **{f"url.{f.name}": str(getattr(settings, f"url_{f.name}")) for f in fields(UrlKeyRules)},
        "url_filter": str(settings.url_filter),
        "index": str(settings.index),
        "distance": settings.distance,
        "scope": settings.scope,
        "exact": EXACT,
        "facts": settings.facts,
    }


def make_fleet_identity(settings: NearDupSettings, key: int) -> Identity:
    """What the workers of a fleet must have in common: all that decides what is dropped.

    A state may have other thresholds from run to run, a fleet may not have two at a time: its
    workers take each other's decisions, and share one URL filter on the server.
    """
    return {
        **make_identity(settings, key),
        "blocks": blocks_of(settings),
        **{name: _described(getattr(settings, name)) for name in SAME_IN_A_FLEET},
    }


def _described(value: Any) -> str | int | float | bool:
    """A setting's value as JSON can hold it; a function or class as its dotted path."""
    if callable(value):
        return f"{value.__module__}.{getattr(value, '__qualname__', type(value).__qualname__)}"
    return value if isinstance(value, (str, int, float)) else str(value)


def deciding_settings(settings: NearDupSettings) -> dict[str, str | int | float | bool]:
    """What decides of files of pages, by the names of the settings, but the secret key."""
    return {PREFIX + name.upper(): _described(getattr(settings, name)) for name in DECIDE_OF_FILES}


def rules_on_record(settings: NearDupSettings, detector: Detector) -> dict[str, object]:
    """What a run decides by, as the ledger keeps it: everything but the secret key."""
    values = {
        PREFIX + f.name.upper(): getattr(settings, f.name)
        for f in fields(settings)
        if f.repr  # no secrets
    }
    return values | {"spec": detector.engine.spec.describe()}
