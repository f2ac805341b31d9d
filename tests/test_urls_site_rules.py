"""urlrules.py: rules for single sites, as duplicate-url-discarder writes them."""

import json

import pytest

from scrapy_neardup.errors import SettingsError
from scrapy_neardup.urls.key import UrlKeyRules, url_key
from scrapy_neardup.urls.site_rules import read_rules, write_rules

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
