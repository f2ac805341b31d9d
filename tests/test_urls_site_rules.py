"""Rules for single sites, as duplicate-url-discarder writes them."""

import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrapy_neardup.errors import SettingsError
from scrapy_neardup.urls.key import UrlKeyRules, url_key
from scrapy_neardup.urls.site_rules import (
    Pattern,
    UrlParts,
    hosts_above,
    read_rules,
    write_rules,
)

RULES = """[
  {"order": 200, "urlPattern": {"include": ["shop.example/old"]},
   "processor": "subpathRemoval", "args": [0, 2]},
  {"order": 100, "urlPattern": {"include": ["shop.example"], "exclude": ["shop.example/cart"]},
   "processor": "queryRemoval", "args": ["sort", "view"]},
  {"order": 100, "urlPattern": {"include": ["news.example"]},
   "processor": "queryRemovalExcept", "args": ["id"]},
  {"order": 100, "urlPattern": {"include": ["blog.example"]}, "processor": "normalizer"},
  {"order": 100, "urlPattern": {"include": []}, "processor": "queryRemoval", "args": ["ref"]}
]"""


@pytest.mark.parametrize(
    ("url", "key"),
    [
        ("http://shop.example/a?sort=1&id=2&view=3", b"shop.example/a?id=2"),
        ("http://www.shop.example/a?sort=1", b"www.shop.example/a"),
        ("http://notshop.example/a?sort=1", b"notshop.example/a?sort=1"),
        ("http://shop.example/cart?sort=1", b"shop.example/cart?sort=1"),
        ("http://shop.example/old/a/b/c?sort=1", b"shop.example/a/c"),
        ("http://shop.example/a?ref=1", b"shop.example/a?ref=1"),
        ("http://news.example/a?b=1&id=2&c=3", b"news.example/a?id=2"),
        ("http://www2.blog.example/a/", b"blog.example/a"),
        ("http://other.example/a?ref=1&x=2", b"other.example/a?x=2"),
    ],
)
def test_rules_of_a_site_hold_there_and_general_ones_elsewhere(url: str, key: bytes) -> None:
    assert url_key(url, UrlKeyRules(site_rules=read_rules(RULES))) == key


def test_patterns_of_paths_are_prefixes_with_stars_and_ends() -> None:
    text = json.dumps(
        [
            {"order": 1, "urlPattern": {"include": [pattern]}, "processor": "queryRemoval"}
            | {"args": ["x"]}
            for pattern in ("h.example/a/*/b", "h.example/end|")
        ]
    )
    rules = UrlKeyRules(site_rules=read_rules(text))
    matched = ["/a/1/b", "/a/1/2/bc", "/end"]
    spared = ["/a/b", "/b/a/1/b", "/ending", "/"]
    assert [
        p for p in matched + spared if b"x=" not in url_key(f"http://h.example{p}?x=1", rules)
    ] == (matched)


def test_written_rules_read_the_same() -> None:
    rules = read_rules(RULES)
    again = read_rules(write_rules(rules))
    assert again == rules
    assert str(again) == str(rules) != str(read_rules("[]"))


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("{", "no JSON"),
        ("{}", "JSON list"),
        ('[{"order": 1}]', "URL rule 0"),
        ('[{"order": 1, "urlPattern": {}, "processor": "drop"}]', "'drop'"),
        ('[{"order": 1, "urlPattern": {"include": ["h:80/"]}, "processor": "normalizer"}]', "h:80"),
        ('[{"order": 1, "urlPattern": {}, "processor": "queryRemoval", "args": [1]}]', "strs"),
    ],
)
def test_rules_that_cannot_be_honoured_are_refused(text: str, complaint: str) -> None:
    with pytest.raises(SettingsError, match=complaint):
        read_rules(text)


class CountedPath(str):
    """A path that counts its characters as they are looked at."""

    looked_at = 0

    def startswith(self, prefix: str, *place: Any) -> bool:
        self.looked_at += len(prefix)
        return super().startswith(prefix, *place)

    def endswith(self, suffix: str, *place: Any) -> bool:
        self.looked_at += len(suffix)
        return super().endswith(suffix, *place)

    def find(self, text: str, start: Any = 0, end: Any = None) -> int:
        found = super().find(text, start, end)
        self.looked_at += (len(self) if found < 0 else found) - start + len(text)
        return found


@pytest.mark.parametrize("pattern", ["/*/*/*/list", "/*a*a*a*a*b", "/*/*/*/list|", "/a*a*a*a|"])
@pytest.mark.parametrize("path", ["/a" * 800, "/" * 1600, "/" + "a" * 1600, "/" + "list" * 400])
def test_matching_looks_at_a_path_once(pattern: str, path: str) -> None:
    counted = CountedPath(path)
    Pattern(f"h{pattern}").matches(UrlParts("h", counted, ""))
    assert 0 < counted.looked_at <= len(path) + 2 * len(pattern)


@given(st.text("ab/", max_size=12), st.text("ab/*", max_size=8), st.sampled_from(["", "|"]))
def test_stars_match_what_a_regular_expression_matches(path: str, stars: str, end: str) -> None:
    expression = ".*".join(map(re.escape, f"/{stars}".split("*"))) + (r"\Z" if end else "")
    found = Pattern(f"h/{stars}{end}").matches(UrlParts("h", f"/{path}", ""))
    assert found == (re.match(expression, f"/{path}") is not None)


def test_only_the_end_of_a_long_host_is_looked_up() -> None:
    assert [*hosts_above("a.shop.example", 12)] == ["shop.example", "example"]
    assert [*hosts_above("shop.example", 12)] == ["shop.example", "example"]
    assert sum(map(len, hosts_above("a." * 50_000, 12))) < 12 * 12
