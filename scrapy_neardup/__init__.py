"""scrapy_neardup: never fetch a URL twice, never keep a page twice. The public names; no logic."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from scrapy_neardup.addon import NearDupAddon
    from scrapy_neardup.detect.detector import Decision, Detector
    from scrapy_neardup.downloadermiddleware import SeenUrlMiddleware, UrlAlreadyFetched
    from scrapy_neardup.dupefilter import LayeredBloomDupeFilter
    from scrapy_neardup.pipeline import NearDuplicate, NearDuplicatePipeline
    from scrapy_neardup.spidermiddleware import NearDuplicateSpiderMiddleware
    from scrapy_neardup.urls.request_fingerprinter import QuickRequestFingerprinter

__version__ = "0.1.0"

# Loaded when first used: Scrapy imports this package for every command it runs.
_MODULES = {
    "Decision": "detect.detector",
    "Detector": "detect.detector",
    "LayeredBloomDupeFilter": "dupefilter",
    "NearDupAddon": "addon",
    "NearDuplicate": "pipeline",
    "NearDuplicatePipeline": "pipeline",
    "NearDuplicateSpiderMiddleware": "spidermiddleware",
    "QuickRequestFingerprinter": "urls.request_fingerprinter",
    "SeenUrlMiddleware": "downloadermiddleware",
    "UrlAlreadyFetched": "downloadermiddleware",
}

__all__ = [
    "Decision",
    "Detector",
    "LayeredBloomDupeFilter",
    "NearDupAddon",
    "NearDuplicate",
    "NearDuplicatePipeline",
    "NearDuplicateSpiderMiddleware",
    "QuickRequestFingerprinter",
    "SeenUrlMiddleware",
    "UrlAlreadyFetched",
]


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
