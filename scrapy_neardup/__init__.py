"""scrapy_neardup: never fetch a URL twice, never keep a page twice. The public names; no logic."""

__version__ = "0.1.0"
