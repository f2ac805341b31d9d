"""What the spider collects. Nothing in it is there for the plugin."""

from dataclasses import dataclass


@dataclass(slots=True)
class PageItem:
    url: str
    title: str
