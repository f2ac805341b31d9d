"""Spiders as people write them, and the site they crawl; CASES has all of them by name."""

from . import (
    embedded_data,
    item_types,
    media,
    repeats,
    several_requests,
    small_differences,
    unusual_values,
    ways_to_fetch,
    whole_pages,
)
from .cases import CASES

__all__ = [
    "CASES",
    "embedded_data",
    "item_types",
    "media",
    "repeats",
    "several_requests",
    "small_differences",
    "unusual_values",
    "ways_to_fetch",
    "whole_pages",
]
