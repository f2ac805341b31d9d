"""Spiders as people write them, and the site they crawl; CASES has all of them by name."""

from . import (
    data_formats,
    embedded_data,
    item_types,
    look_alikes,
    media,
    repeats,
    several_requests,
    shown_by_markup,
    small_differences,
    unusual_values,
    ways_to_fetch,
    whole_pages,
)
from .cases import CASES

__all__ = [
    "CASES",
    "data_formats",
    "embedded_data",
    "item_types",
    "look_alikes",
    "media",
    "repeats",
    "several_requests",
    "shown_by_markup",
    "small_differences",
    "unusual_values",
    "ways_to_fetch",
    "whole_pages",
]
