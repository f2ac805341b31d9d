"""Learnt rules → duplicate-url-discarder's JSON, as far as that can say the same."""

from __future__ import annotations

from scrapy_neardup.errors import SettingsError
from scrapy_neardup.learn.changes import ABSENT
from scrapy_neardup.learn.rule import Rule
from scrapy_neardup.urls.site_rules import SiteRule
from scrapy_neardup.urls.url_patterns import Pattern

ORDER = 100


def exported(rule: Rule) -> SiteRule | None:
    """A rule as a site rule; None where that would merge more than was learnt, or less.

    A site rule holds for a host and a first directory, whatever the other values in a URL.
    """
    change = rule.change
    host, _, path = rule.shape.partition("/")
    first, *deeper = path.split("/")
    where = f"{host}/{first}/" if deeper and "*" not in first else f"{host}/"
    if change.what != "argument":
        return None
    values = {change.value, change.twin} - {ABSENT}
    if any(value.startswith("{") for value in values):
        values = {"*"}
    try:
        include = tuple(Pattern(f"{where}?{change.where}={value}") for value in sorted(values))
        return SiteRule(ORDER, include, (), "queryRemoval", (change.where,))
    except SettingsError:  # a name or value that patterns cannot hold
        return None
