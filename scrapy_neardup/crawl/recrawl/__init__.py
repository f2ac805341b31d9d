"""Known URLs crawled again: what has become of each page."""
