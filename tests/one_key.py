"""Scrapy settings of the tests' commands: the same pages are near in every run."""

NEARDUP_KEY = 5
