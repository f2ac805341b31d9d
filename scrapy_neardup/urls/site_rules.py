"""Rules for the URLs of single sites, in the JSON of duplicate-url-discarder.

[{"order": 100, "urlPattern": {"include": ["shop.example/list"]},
  "processor": "queryRemoval", "args": ["sort"]}]
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b
from typing import Any, NamedTuple

from scrapy_neardup.errors import SettingsError

PROCESSORS = ("normalizer", "queryRemoval", "queryRemovalExcept", "subpathRemoval")
PATTERN = re.compile(r"(?P<host>[^/?#:*|]+)(?P<path>/[^?#]*)?")
WWW = re.compile(r"^www\d*\.")
SEGMENT = re.compile(r"/[^/]*")


class UrlParts(NamedTuple):
    """What site rules look at and change."""

    host: str
    path: str
    query: str


@dataclass(frozen=True)
class Pattern:
    """`host/path`: the host and all below it, paths that begin so.

    `*` in a path is any text, `|` at its end the end of the path. The schemes, ports and
    queries that url-matcher also knows are refused: to leave them out would match too much.
    """

    text: str

    def __post_init__(self) -> None:
        if not PATTERN.fullmatch(self.text):
            raise SettingsError(f"URL pattern {self.text!r}: take 'host' or 'host/path', as text")

    @property
    def host(self) -> str:
        return self.text.partition("/")[0].lower()

    @cached_property
    def _pieces(self) -> list[str]:
        """What stands before, between and after the stars of the path."""
        return (self.text[len(self.host) :] or "/").removesuffix("|").split("*")

    def matches(self, parts: UrlParts) -> bool:
        """Whether the host and path are of this pattern. Looks at each character once."""
        host = parts.host.rpartition("@")[2]
        below = host == self.host or host.endswith(f".{self.host}")
        return below and self._matches_path(parts.path)

    def _matches_path(self, path: str) -> bool:
        first, *others = self._pieces
        to_end = self.text.endswith("|")
        if not others:
            return path == first if to_end else path.startswith(first)
        if not path.startswith(first):
            return False
        at, last = len(first), others.pop() if to_end else ""
        for piece in others:
            # The leftmost place leaves the most to what follows, so none other need be tried.
            at = path.find(piece, at)
            if at < 0:
                return False
            at += len(piece)
        return path.endswith(last, at)


@dataclass(frozen=True)
class SiteRule:
    """One rule: where it holds, and what it takes out of a URL. Raises SettingsError.

    queryRemoval        the arguments of these names
    queryRemovalExcept  all arguments but those of these names
    subpathRemoval      the segments of the path at these places, the first is 0
    normalizer          `www.`, `www2.`, … and slashes at the end
    """

    order: int
    include: tuple[Pattern, ...]
    exclude: tuple[Pattern, ...]
    processor: str
    args: tuple[str | int, ...] = ()

    def __post_init__(self) -> None:
        if self.processor not in PROCESSORS:
            raise SettingsError(f"processor {self.processor!r}: take {', '.join(PROCESSORS)}")
        wanted = int if self.processor == "subpathRemoval" else str
        if not all(isinstance(arg, wanted) for arg in self.args):
            raise SettingsError(f"args {self.args} of {self.processor}: take {wanted.__name__}s")

    def matches(self, parts: UrlParts) -> bool:
        included = not self.include or any(one.matches(parts) for one in self.include)
        return included and not any(one.matches(parts) for one in self.exclude)

    def apply(self, parts: UrlParts) -> UrlParts:
        host, path, query = parts
        if self.processor == "normalizer":
            return UrlParts(WWW.sub("", host), path.rstrip("/"), query)
        if self.processor == "subpathRemoval":
            segments = enumerate(SEGMENT.findall(path))
            return UrlParts(host, "".join(one for i, one in segments if i not in self.args), query)
        removes = self.processor == "queryRemoval"
        pairs = query.split("&") if query else []
        kept = [pair for pair in pairs if (pair.partition("=")[0] in self.args) != removes]
        return UrlParts(host, path, "&".join(kept))


@dataclass(frozen=True)
class SiteRules:
    """All rules, in their order. Those of every site hold where none of one site does."""

    rules: tuple[SiteRule, ...] = ()

    def __str__(self) -> str:
        """What tells two sets of rules apart, for the identity of a state."""
        return blake2b(write_rules(self).encode(), digest_size=8).hexdigest()

    def apply(self, parts: UrlParts) -> UrlParts:
        """What is left of a URL. Every rule is asked about the URL as it came."""
        local = [rule for rule in self._near(parts.host) if rule.matches(parts)]
        for rule in local or self._universal:
            parts = rule.apply(parts)
        return parts

    @cached_property
    def _universal(self) -> list[SiteRule]:
        return [rule for rule in self.rules if not rule.include]

    @cached_property
    def _by_host(self) -> dict[str, list[int]]:
        found: dict[str, list[int]] = {}
        for i, rule in enumerate(self.rules):
            for host in {pattern.host for pattern in rule.include}:
                found.setdefault(host, []).append(i)
        return found

    @cached_property
    def _longest_host(self) -> int:
        return max(map(len, self._by_host), default=0)

    def _near(self, host: str) -> Iterable[SiteRule]:
        """The rules for a host and those above it, in order."""
        above = hosts_above(host.rpartition("@")[2], self._longest_host)
        places = {i for name in above for i in self._by_host.get(name, ())}
        return (self.rules[i] for i in sorted(places))


def hosts_above(host: str, longest: int) -> Iterator[str]:
    """The host and the domains above it, of at most `longest` characters."""
    if len(host) <= longest:
        yield host
    start = max(0, len(host) - longest - 1)
    while (dot := host.find(".", start)) >= 0:
        start = dot + 1
        yield host[start:]


def read_rules(text: str) -> SiteRules:
    """Rules from JSON. Raises SettingsError, which names the rule."""
    try:
        records = json.loads(text)
    except ValueError as error:
        raise SettingsError(f"URL rules are no JSON: {error}") from error
    if not isinstance(records, list):
        raise SettingsError("URL rules: take a JSON list of rules")
    rules = [read_rule(i, record) for i, record in enumerate(records)]
    return SiteRules(tuple(sorted(rules, key=lambda rule: rule.order)))


def read_rule(number: int, record: Any) -> SiteRule:
    try:
        pattern = record["urlPattern"]
        return SiteRule(
            int(record["order"]),
            tuple(map(Pattern, pattern.get("include", ()))),
            tuple(map(Pattern, pattern.get("exclude", ()))),
            record["processor"],
            tuple(record.get("args") or ()),
        )
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise SettingsError(f"URL rule {number}, {record}: {error!r}") from error


def write_rules(rules: SiteRules) -> str:
    """Rules as JSON that read_rules and duplicate-url-discarder read."""
    return json.dumps([as_record(rule) for rule in rules.rules], indent=2, sort_keys=True)


def as_record(rule: SiteRule) -> dict[str, Any]:
    pattern = {"include": [one.text for one in rule.include]}
    if rule.exclude:
        pattern["exclude"] = [one.text for one in rule.exclude]
    record: dict[str, Any] = {"order": rule.order, "urlPattern": pattern}
    record["processor"] = rule.processor
    return record | ({"args": list(rule.args)} if rule.args else {})
