"""Rules for single sites, as duplicate-url-discarder writes them."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scrapy import Request

from scrapy_neardup.errors import SettingsError
from scrapy_neardup.urls.key import UrlKeyRules, request_key, url_key
from scrapy_neardup.urls.site_rules import (
    hosts_above,
    read_rule_files,
    read_rules,
    write_rules,
)
from scrapy_neardup.urls.url_patterns import Glob, Pattern, comparable, split_url

RULES = """[
  {"order": 200, "urlPattern": {"include": ["shop.example/old"], "priority": 1},
   "processor": "subpathRemoval", "args": [0, 2]},
  {"order": 100, "urlPattern": {"include": ["shop.example"], "exclude": ["/cart"]},
   "processor": "queryRemoval", "args": ["sort", "view"]},
  {"order": 100, "urlPattern": {"include": ["news.example"]},
   "processor": "queryRemovalExcept", "args": ["id"]},
  {"order": 100, "urlPattern": {"include": ["blog.example"]}, "processor": "normalizer"},
  {"order": 100, "urlPattern": {"include": [""], "exclude": ["/keep"]},
   "processor": "queryRemoval", "args": ["ref"]}
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
        ("http://www.blog.example/", b"blog.example/"),
        ("http://other.example/a?ref=1&x=2", b"other.example/a?x=2"),
        ("http://other.example/keep?ref=1", b"other.example/keep?ref=1"),
    ],
)
def test_rules_of_a_site_hold_there_and_general_ones_elsewhere(url: str, key: bytes) -> None:
    assert url_key(url, UrlKeyRules(site_rules=read_rules(RULES))) == key


def rules_without(name: str, *include: str) -> UrlKeyRules:
    """Rules that remove one argument from the URLs of some patterns."""
    rule = {"order": 1, "processor": "queryRemoval", "args": [name]}
    pattern = {"include": include}
    return UrlKeyRules(site_rules=read_rules(json.dumps([rule | {"urlPattern": pattern}])))


@pytest.mark.parametrize(
    ("pattern", "matched", "spared"),
    [
        ("h.com", "h.com www.h.com a.b.h.com h.com/x h.com:80", "noth.com h.com:8080 me@h.com"),
        ("h.com/a", "h.com/a www.h.com/ab H.com/A/b", "uk.h.com/a h.com h.com/b/a"),
        ("uk.h.com", "uk.h.com x.uk.h.com", "h.com fr.h.com"),
        ("h.com:8080", "h.com:8080 a.h.com:8080", "h.com h.com:80"),
        ("h.com/a/*/b", "h.com/a/1/b h.com/a/1/2/bc", "h.com/a/b h.com/b/a/1/b"),
        ("h.com/end|", "h.com/end h.com/END", "h.com/ending h.com/end/"),
        ("h.com?id=1*&to", "h.com?to&ID=12 h.com?id=3&id=1&to=", "h.com?id=1 h.com?id=1&to=2"),
        ("h.com#!a|", "h.com#!A", "h.com h.com#!ab a.h.com#!a"),
        ("co.uk", "co.uk", "shop.co.uk www.co.uk"),
        ("10.0.0.1", "10.0.0.1", "www.10.0.0.1 1.10.0.0.1"),
    ],
)
def test_patterns_hold_where_url_matcher_has_them(pattern: str, matched: str, spared: str) -> None:
    urls = f"{matched} {spared}".split()
    found = [u for u in urls if Pattern(pattern).matches(comparable(split_url(f"http://{u}")))]
    assert found == matched.split()


def test_a_scheme_in_a_pattern_or_implied_by_its_port_counts() -> None:
    rules = rules_without("x", "https://h.example", "i.example:443")
    schemes = [
        scheme
        for scheme in ("http", "https")
        for host in ("h", "i")
        if b"x=" not in url_key(f"{scheme}://{host}.example/?x=1", rules)
    ]
    assert schemes == ["https", "https"]


@pytest.mark.parametrize("name", ["piid[0]", "größe", "a b", "50%"])
def test_names_of_arguments_are_compared_decoded(name: str) -> None:
    """As Scrapy writes them in requests, which duplicate-url-discarder misses."""
    escaped = Request(f"http://h.example/?{name}=1").url
    assert url_key(escaped, rules_without(name, "h.example")) == b"h.example/"


def test_escapes_that_are_no_utf_8_are_told_apart() -> None:
    rules = rules_without("%FF", "h.example")
    assert url_key("http://h.example/?%FF=1", rules) == b"h.example/"
    assert url_key("http://h.example/?%FE=1", rules) == b"h.example/?%FE=1"


def test_a_request_can_ask_to_be_spared() -> None:
    url, rules = "http://h.example/?x=1&gclid=2", rules_without("x", "h.example")
    assert request_key(Request(url, meta={"dud": True}), rules) == b"h.example/"
    assert request_key(Request(url, meta={"dud": False}), rules) == b"h.example/?x=1"


def test_rules_are_read_from_files_and_folders_each_once(tmp_path: Path) -> None:
    (tmp_path / "below").mkdir()
    for name in ("a.json", "below/b.json"):
        (tmp_path / name).write_text(RULES, encoding="utf-8")
    (tmp_path / "notes.txt").write_text("no rules")
    more = tmp_path / "more"
    more.write_text("[]", encoding="utf-8")
    assert read_rule_files([tmp_path, more]) == read_rules(RULES)


def test_a_file_that_cannot_be_honoured_is_named(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"without \.json files"):
        read_rule_files([tmp_path])
    (tmp_path / "bad.json").write_text("{", encoding="utf-8")
    with pytest.raises(SettingsError, match=r"bad\.json: URL rules are no JSON"):
        read_rule_files([tmp_path])


def test_written_rules_read_the_same() -> None:
    rules = read_rules(RULES)
    again = read_rules(write_rules(rules))
    assert again == rules
    assert str(again) == str(rules) != str(read_rules("[]"))


def one_rule(pattern: dict[str, Any], processor: str, *args: Any) -> str:
    rule = {"order": 1, "urlPattern": pattern, "processor": processor, "args": args}
    return json.dumps([rule])


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("{", "no JSON"),
        ("[" * 100_000, "no JSON: maximum recursion depth"),
        ("{}", "JSON list"),
        ('[{"order": 1e999, "urlPattern": {"include": []}}]', "URL rule 0.*infinity"),
        (one_rule({"include": ["h.example"]}, "queryRemoval", "\ud800"), "surrogates not allowed"),
        ('[{"order": 1}]', "URL rule 0"),
        (one_rule({"include": []}, "drop"), "'drop'"),
        (one_rule({}, "normalizer"), "include"),
        (one_rule({"include": "h.example"}, "normalizer"), "lists of patterns"),
        (one_rule({"include": ["h.example"], "excludes": []}, "normalizer"), "lists of patterns"),
        (one_rule({"include": ["h.example", "/a"]}, "normalizer"), "'/a': begin it with a host"),
        (one_rule({"include": [7]}, "normalizer"), "URL pattern 7"),
        (one_rule({"include": []}, "normalizer", "a"), "take none"),
        (one_rule({"include": []}, "queryRemoval", 1), "strs"),
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
    Glob.of_path(pattern).matches(counted)
    assert 0 < counted.looked_at <= len(path) + 2 * len(pattern)


@given(st.text("ab/", max_size=12), st.text("ab/*", max_size=8), st.sampled_from(["", "|"]))
def test_stars_match_what_a_regular_expression_matches(path: str, stars: str, end: str) -> None:
    expression = ".*".join(map(re.escape, f"/{stars}".split("*"))) + (r"\Z" if end else "")
    found = Glob.of_path(f"/{stars}{end}").matches(f"/{path}")
    assert found == (re.match(expression, f"/{path}") is not None)


def test_only_the_end_of_a_long_host_is_looked_up() -> None:
    assert [*hosts_above("a.shop.example", 12)] == ["shop.example", "example"]
    assert [*hosts_above("shop.example", 12)] == ["shop.example", "example"]
    assert sum(map(len, hosts_above("a." * 50_000, 12))) < 12 * 12
