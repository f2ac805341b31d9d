"""Spiders as people write them, and the site they crawl; CASES has all of them by name."""

from . import (
    addresses,
    data_formats,
    embedded_data,
    gates,
    in_pipelines,
    item_types,
    look_alikes,
    media,
    reading_matter,
    repeats,
    said_in_words,
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
    "addresses",
    "data_formats",
    "embedded_data",
    "gates",
    "in_pipelines",
    "item_types",
    "look_alikes",
    "media",
    "reading_matter",
    "repeats",
    "said_in_words",
    "several_requests",
    "shown_by_markup",
    "small_differences",
    "unusual_values",
    "ways_to_fetch",
    "whole_pages",
]
