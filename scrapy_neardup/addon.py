"""NearDupAddon: one ADDONS line switches everything on."""

from __future__ import annotations

from scrapy import version_info
from scrapy.settings import BaseSettings

from scrapy_neardup.downloadermiddleware import SeenUrlMiddleware
from scrapy_neardup.dupefilter import LayeredBloomDupeFilter
from scrapy_neardup.pipeline import NearDuplicatePipeline
from scrapy_neardup.spidermiddleware import NearDuplicateSpiderMiddleware
from scrapy_neardup.squeues import DurableFifoQueue, DurableLifoQueue
from scrapy_neardup.urls.request_fingerprinter import COMPARED_WITH, QuickRequestFingerprinter

COMPONENTS = (
    ("DOWNLOADER_MIDDLEWARES", SeenUrlMiddleware, 150),
    ("SPIDER_MIDDLEWARES", NearDuplicateSpiderMiddleware, 10),
    ("ITEM_PIPELINES", NearDuplicatePipeline, 0),
)


class NearDupAddon:
    """Adds the three components where they belong; a user's own entries, None included, win.

    With NEARDUP_METRICS_PORT it adds the extension that serves it.

    Scrapy's request fingerprints are made quicker, byte for byte the same. With JOBDIR it
    replaces Scrapy's queues on disk, which a crash tears, and its dupefilter, which remembers a
    URL when it is queued: after a crash those that were waiting would be dropped for ever.
    """

    def update_settings(self, settings: BaseSettings) -> None:
        """Called by Scrapy for each crawler before its settings are frozen."""
        for name, component, order in COMPONENTS:
            settings.setdefault_in_component_priority_dict(name, component, order)
        if settings.get("NEARDUP_METRICS_PORT") not in (None, ""):
            from scrapy_neardup.extension import MetricsExtension  # brings an HTTP server

            settings.setdefault_in_component_priority_dict("EXTENSIONS", MetricsExtension, 0)
        if settings.get("JOBDIR"):
            replace_default(settings, "DUPEFILTER_CLASS", LayeredBloomDupeFilter)
            replace_default(settings, "SCHEDULER_DISK_QUEUE", DurableLifoQueue)
            replace_default(settings, "SCHEDULER_START_DISK_QUEUE", DurableFifoQueue)
        if version_info[:2] <= COMPARED_WITH:  # a later Scrapy may tell requests apart by more
            replace_default(settings, "REQUEST_FINGERPRINTER_CLASS", QuickRequestFingerprinter)


def replace_default(settings: BaseSettings, name: str, component: type) -> None:
    """Put a component in the place of Scrapy's default, and of nothing else."""
    # `scrapy shell` sets a dupefilter of its own, at a lower priority than an add-on's, and
    # hangs without it.
    if settings.getpriority(name) == 0:
        settings.set(name, component, "addon")
