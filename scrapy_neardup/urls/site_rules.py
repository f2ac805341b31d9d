"""Rules for the URLs of single sites, in the JSON of duplicate-url-discarder.

[{"order": 100, "urlPattern": {"include": ["shop.example"], "exclude": ["/cart"]},
  "processor": "queryRemoval", "args": ["sort"]}]

A URL becomes what duplicate-url-discarder 0.3 makes of it, but for two cases in which that would
miss a repeat or lose a page: names of arguments are compared decoded, and `exclude` also holds for
rules of every site.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b
from pathlib import Path
from typing import Any
from urllib.parse import unquote_to_bytes

from scrapy_neardup.errors import SettingsError
from scrapy_neardup.urls.url_patterns import (
    Pattern,
    UrlParts,
    comparable,
    domain_of,
    join_url,
    split_params,
    split_url,
)

PROCESSORS = ("normalizer", "queryRemoval", "queryRemovalExcept", "subpathRemoval")
PRIORITY = 500  # of a pattern that names none
WWW = re.compile(r"^www\d*\.")
SEGMENT = re.compile(r"/[^/]*")


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
    priority: int = PRIORITY

    def __post_init__(self) -> None:
        if self.processor not in PROCESSORS:
            raise SettingsError(f"processor {self.processor!r}: take {', '.join(PROCESSORS)}")
        if self.processor == "normalizer" and self.args:
            raise SettingsError(f"args {self.args} of normalizer: take none")
        wanted = int if self.processor == "subpathRemoval" else str
        if not all(isinstance(arg, wanted) for arg in self.args):
            raise SettingsError(f"args {self.args} of {self.processor}: take {wanted.__name__}s")
        try:
            self._names  # noqa: B018 - of text only
        except UnicodeEncodeError as error:
            raise SettingsError(f"args of {self.processor}: {error}") from error
        if not self.is_universal:
            for pattern in self.include:
                if not pattern.domain:
                    raise SettingsError(
                        f"URL pattern {pattern.text!r}: begin it with a host, for only an exclude "
                        "can hold on every site"
                    )

    @property
    def is_universal(self) -> bool:
        """Whether the rule is for every site that has none of its own."""
        return not any(pattern.text for pattern in self.include)

    @cached_property
    def _names(self) -> frozenset[bytes]:
        return frozenset(decoded(arg) for arg in self.args if isinstance(arg, str))

    def matches(self, url: UrlParts) -> bool:
        """Whether the rule holds for a URL. url: from comparable()."""
        included = not self.include or any(one.matches(url) for one in self.include)
        return included and not any(one.matches(url) for one in self.exclude)

    def precedence(self, domain: str) -> tuple[int, list[str], int]:
        """What rules for one URL are sorted by; the greatest comes first."""
        includes = [one.specificity for one in self.include if one.domain == domain]
        return self.priority, sorted(includes), self.order

    def apply(self, parts: UrlParts) -> UrlParts:
        """A URL without what the rule takes out. Takes time linear in the URL."""
        if self.processor.startswith("query"):
            return parts._replace(query=self._query(parts.query))
        path, params = split_params(parts.path)
        if self.processor == "normalizer":
            netloc = WWW.sub("", parts.netloc)
            return parts._replace(netloc=netloc, path=path.rstrip("/") + params)
        segments = enumerate(SEGMENT.findall(path))
        kept = [segment for i, segment in segments if i not in self.args]
        return parts._replace(path="".join(kept) + params)

    def _query(self, query: str) -> str:
        removes = self.processor == "queryRemoval"
        pairs = [pair for pair in query.split("&") if pair]
        return "&".join(
            p for p in pairs if (decoded(p.partition("=")[0]) in self._names) != removes
        )


def decoded(name: str) -> bytes:
    """The name of an argument without escapes, as bytes: not all escapes are UTF-8."""
    return unquote_to_bytes(name.replace("+", " "))


@dataclass(frozen=True)
class SiteRules:
    """All rules, each once, by their order. Those of every site hold where none of a site does."""

    rules: tuple[SiteRule, ...] = ()

    def __str__(self) -> str:
        """What tells two sets of rules apart, for the identity of a state."""
        return blake2b(write_rules(self).encode(), digest_size=8).hexdigest()

    def apply(self, url: str) -> str:
        """What is left of a URL. Every rule is asked about the URL as it came."""
        came = parts = split_url(url)
        for rule in self._rules_for(comparable(parts)):
            parts = rule.apply(parts)
        return url if parts == came else join_url(parts)

    def _rules_for(self, url: UrlParts) -> list[SiteRule]:
        local = [rule for rule in self._near(url.netloc) if rule.matches(url)]
        if not local:
            return [rule for rule in self._universal if rule.matches(url)]
        if len(local) > 1:
            domain = domain_of(url.netloc)
            local.sort(key=lambda rule: rule.precedence(domain), reverse=True)
        return local

    @cached_property
    def _universal(self) -> list[SiteRule]:
        universal = [rule for rule in self.rules if rule.is_universal]
        return sorted(universal, key=lambda rule: (rule.priority, rule.order), reverse=True)

    @cached_property
    def _by_netloc(self) -> dict[str, list[int]]:
        found: dict[str, list[int]] = {}
        for i, rule in enumerate(self.rules):
            for netloc in {pattern.netloc for pattern in rule.include if pattern.netloc}:
                found.setdefault(netloc, []).append(i)
        return found

    @cached_property
    def _longest_netloc(self) -> int:
        return max(map(len, self._by_netloc), default=0)

    def _near(self, netloc: str) -> Iterable[SiteRule]:
        """The rules that name a host or one above it."""
        names = list(hosts_above(netloc, self._longest_netloc))
        if netloc.startswith("www"):
            names.append(netloc[4:])
        places = {i for name in names for i in self._by_netloc.get(name, ())}
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
    return in_order(parse_rules(text))


def read_rule_files(paths: Iterable[str | Path]) -> SiteRules:
    """The rules of JSON files, and of all `.json` files in and below folders.

    Raises SettingsError, which names the file, and OSError.
    """
    rules: list[SiteRule] = []
    for path in map(Path, paths):
        for file in files_of(path):
            try:
                rules += parse_rules(file.read_text(encoding="utf-8"))
            except (UnicodeError, SettingsError) as error:
                raise SettingsError(f"{file}: {error}") from error
    return in_order(rules)


def files_of(path: Path) -> list[Path]:
    if not path.is_dir():
        return [path]
    files = sorted(path.rglob("*.json"))
    if not files:
        raise SettingsError(f"{path}: a folder without .json files")
    return files


def in_order(rules: Iterable[SiteRule]) -> SiteRules:
    """The rules by their order, each once: removing a segment twice removes two."""
    return SiteRules(tuple(sorted(dict.fromkeys(rules), key=lambda rule: rule.order)))


def parse_rules(text: str) -> list[SiteRule]:
    try:
        records = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise SettingsError(f"URL rules are no JSON: {error}") from error
    if not isinstance(records, list):
        raise SettingsError("URL rules: take a JSON list of rules")
    return [read_rule(i, record) for i, record in enumerate(records)]


def read_rule(number: int, record: Any) -> SiteRule:
    try:
        pattern = dict(record["urlPattern"])
        include, exclude = pattern.pop("include"), pattern.pop("exclude", None) or ()
        priority = int(pattern.pop("priority", PRIORITY))
        if pattern or isinstance(include, str) or isinstance(exclude, str):
            raise SettingsError("urlPattern: take lists of patterns as include and exclude")
        return SiteRule(
            int(record["order"]),
            tuple(map(Pattern, include)),
            tuple(map(Pattern, exclude)),
            record["processor"],
            tuple(record.get("args") or ()),
            priority,
        )
    except (KeyError, TypeError, AttributeError, ValueError, OverflowError) as error:
        raise SettingsError(f"URL rule {number}, {record}: {error!r}") from error


def write_rules(rules: SiteRules) -> str:
    """Rules as JSON that read_rules and duplicate-url-discarder read."""
    return json.dumps([as_record(rule) for rule in rules.rules], indent=2, sort_keys=True)


def as_record(rule: SiteRule) -> dict[str, Any]:
    pattern: dict[str, Any] = {"include": [one.text for one in rule.include]}
    if rule.exclude:
        pattern["exclude"] = [one.text for one in rule.exclude]
    if rule.priority != PRIORITY:
        pattern["priority"] = rule.priority
    record: dict[str, Any] = {"order": rule.order, "urlPattern": pattern}
    record["processor"] = rule.processor
    return record | ({"args": list(rule.args)} if rule.args else {})
