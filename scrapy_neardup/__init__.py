"""scrapy_neardup: never fetch a URL twice, never keep a page twice. The public names; no logic.

The first group plugs into Scrapy, the second is the library that it is made of:
docs/library.md. Names are loaded when they are first used, for Scrapy imports this package for
every command it runs.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from scrapy_neardup.addon import NearDupAddon
    from scrapy_neardup.crawl.learning.url_skipping import RequestSkipped
    from scrapy_neardup.crawl.pages.extract import visible_text, visible_text_of_html
    from scrapy_neardup.crawl.requests.seen_urls import UrlAlreadyFetched
    from scrapy_neardup.detect.decision import Decision
    from scrapy_neardup.detect.detector import Detector
    from scrapy_neardup.detect.text import normalise
    from scrapy_neardup.downloadermiddleware import SeenUrlMiddleware
    from scrapy_neardup.dupefilter import LayeredBloomDupeFilter
    from scrapy_neardup.engines import Engine, FingerprintSpec, load_engine
    from scrapy_neardup.engines.topsig import TermTable, TopSig
    from scrapy_neardup.errors import NearDupError
    from scrapy_neardup.index import Index, load_index
    from scrapy_neardup.index.pairs import all_pairs, clusters
    from scrapy_neardup.index.permuted import PermutedIndex
    from scrapy_neardup.index.scan import ScanIndex
    from scrapy_neardup.index.sharded import ShardedIndex
    from scrapy_neardup.index.slices import SliceIndex
    from scrapy_neardup.pipeline import NearDuplicate, NearDuplicatePipeline
    from scrapy_neardup.spidermiddleware import NearDuplicateSpiderMiddleware
    from scrapy_neardup.squeues import DurableFifoQueue, DurableLifoQueue
    from scrapy_neardup.urls.filters import UrlFilter, load_filter
    from scrapy_neardup.urls.filters.exact import ExactUrlFilter
    from scrapy_neardup.urls.filters.layered import BloomFilter, LayeredBloomFilter
    from scrapy_neardup.urls.key import UrlKeyRules, request_key, url_key
    from scrapy_neardup.urls.request_fingerprinter import QuickRequestFingerprinter
    from scrapy_neardup.urls.site_rules import SiteRules, read_rules, write_rules

__version__ = "0.1.0"

_MODULES = {
    "NearDupAddon": "addon",
    "SeenUrlMiddleware": "downloadermiddleware",
    "UrlAlreadyFetched": "crawl.requests.seen_urls",
    "RequestSkipped": "crawl.learning.url_skipping",
    "NearDuplicateSpiderMiddleware": "spidermiddleware",
    "NearDuplicatePipeline": "pipeline",
    "NearDuplicate": "pipeline",
    "LayeredBloomDupeFilter": "dupefilter",
    "DurableLifoQueue": "squeues",
    "DurableFifoQueue": "squeues",
    "QuickRequestFingerprinter": "urls.request_fingerprinter",
    #
    "url_key": "urls.key",
    "request_key": "urls.key",
    "UrlKeyRules": "urls.key",
    "SiteRules": "urls.site_rules",
    "read_rules": "urls.site_rules",
    "write_rules": "urls.site_rules",
    "UrlFilter": "urls.filters",
    "load_filter": "urls.filters",
    "LayeredBloomFilter": "urls.filters.layered",
    "BloomFilter": "urls.filters.layered",
    "ExactUrlFilter": "urls.filters.exact",
    "visible_text": "crawl.pages.extract",
    "visible_text_of_html": "crawl.pages.extract",
    "Detector": "detect.detector",
    "Decision": "detect.decision",
    "normalise": "detect.text",
    "Engine": "engines",
    "FingerprintSpec": "engines",
    "load_engine": "engines",
    "TopSig": "engines.topsig",
    "TermTable": "engines.topsig",
    "Index": "index",
    "load_index": "index",
    "PermutedIndex": "index.permuted",
    "SliceIndex": "index.slices",
    "ScanIndex": "index.scan",
    "ShardedIndex": "index.sharded",
    "all_pairs": "index.pairs",
    "clusters": "index.pairs",
    "NearDupError": "errors",
}

# Written out, not computed, because type checkers read it.
__all__ = [
    "BloomFilter",
    "Decision",
    "Detector",
    "DurableFifoQueue",
    "DurableLifoQueue",
    "Engine",
    "ExactUrlFilter",
    "FingerprintSpec",
    "Index",
    "LayeredBloomDupeFilter",
    "LayeredBloomFilter",
    "NearDupAddon",
    "NearDupError",
    "NearDuplicate",
    "NearDuplicatePipeline",
    "NearDuplicateSpiderMiddleware",
    "PermutedIndex",
    "QuickRequestFingerprinter",
    "RequestSkipped",
    "ScanIndex",
    "SeenUrlMiddleware",
    "ShardedIndex",
    "SiteRules",
    "SliceIndex",
    "TermTable",
    "TopSig",
    "UrlAlreadyFetched",
    "UrlFilter",
    "UrlKeyRules",
    "all_pairs",
    "clusters",
    "load_engine",
    "load_filter",
    "load_index",
    "normalise",
    "read_rules",
    "request_key",
    "url_key",
    "visible_text",
    "visible_text_of_html",
    "write_rules",
]


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)


def __dir__() -> list[str]:
    return [*globals(), *__all__]
