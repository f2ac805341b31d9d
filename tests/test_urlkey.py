"""urlkey.py: which requests are the same."""

import gzip
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from scrapy import FormRequest, Request

from scrapy_neardup.urlkey import DEFAULT_RULES, UrlKeyRules, request_key, url_key

USUAL = {  # transform of variants.jsonl.gz: the switches that decide on it
    "tracking": {"drop_tracking": False},
    "session-query": {"drop_sessions": False},
    "session-path": {"drop_sessions": False},
    "query-order": {"sort_query": False},
    "http-https": {"ignore_scheme": False},
}
MERGED_ON_DEMAND = {
    "trailing-slash": {"strip_slash": True},
    "index-file": {"strip_index": True},
    "www": {"strip_www": True},
    "double-slash": {"collapse_slashes": True},
}


@pytest.fixture(scope="module")
def variants(shared_data: Path) -> list[dict[str, Any]]:
    with gzip.open(shared_data / "urls" / "variants.jsonl.gz", "rt") as lines:
        return [json.loads(line) for line in lines]


def merged(variants: list[dict[str, Any]], rules: UrlKeyRules) -> Iterator[tuple[Any, bool]]:
    for variant in variants:
        same = url_key(variant["base"], rules) == url_key(variant["url"], rules)
        yield variant, same


def test_variants_equal_by_rfc_3986_have_one_key(variants: list[dict[str, Any]]) -> None:
    rfc = [variant for variant in variants if variant["same"] == "rfc"]
    assert len(rfc) > 8_000
    assert [v for v, same in merged(rfc, DEFAULT_RULES) if not same] == []


def test_different_resources_never_share_a_key(variants: list[dict[str, Any]]) -> None:
    different = [variant for variant in variants if variant["same"] == "no"]
    assert len(different) > 6_000
    assert [v for v, same in merged(different, DEFAULT_RULES) if same] == []


@pytest.mark.parametrize("transform", USUAL)
def test_a_default_rule_merges_its_variants_and_can_be_switched_off(
    variants: list[dict[str, Any]], transform: str
) -> None:
    chosen = [v for v in variants if v["transform"] == transform and ":" not in v["base"][8:]]
    assert all(same for _, same in merged(chosen, DEFAULT_RULES))
    assert not any(same for _, same in merged(chosen, replace(DEFAULT_RULES, **USUAL[transform])))


@pytest.mark.parametrize("transform", MERGED_ON_DEMAND)
def test_a_risky_rule_merges_its_variants_only_when_asked(
    variants: list[dict[str, Any]], transform: str
) -> None:
    chosen = [v for v in variants if v["transform"] == transform]
    rules = replace(DEFAULT_RULES, **MERGED_ON_DEMAND[transform])
    assert not any(same for _, same in merged(chosen, DEFAULT_RULES))
    assert all(same for _, same in merged(chosen, rules))


def test_a_key_is_the_canonical_url_without_its_scheme() -> None:
    assert url_key("HTTPS://Example.COM:443/a/./b?z=1&utm_source=x&a=2#top") == (
        b"example.com/a/b?a=2&z=1"
    )


def test_another_method_or_body_is_another_request() -> None:
    url = "http://h.example/a"
    requests = [
        Request(url),
        Request(url, method="HEAD"),
        Request(url, method="POST"),
        Request(url, method="POST", body=b"x"),
        Request(url, method="POST", body=b"y"),
        Request(url, body=b"x"),
        Request(url + "?method=POST"),
        FormRequest(url, formdata={"q": "x"}),
    ]
    assert len({request_key(request) for request in requests}) == len(requests)


def test_verbatim_urls_are_told_apart_byte_by_byte() -> None:
    urls = [
        "http://h.example/a?b=1&a=2",
        "http://h.example/a?a=2&b=1",
        "https://h.example/a?a=2&b=1",
    ]
    verbatim = {request_key(Request(url, meta={"verbatim_url": True})) for url in urls}
    assert len(verbatim) == 3
    assert request_key(Request(urls[0])) == request_key(Request(urls[1]))
    assert request_key(Request(urls[1])) not in verbatim


def test_what_cannot_be_parsed_keeps_a_key_of_its_own() -> None:
    assert url_key("http://h.example:99999/") != url_key("http://h.example:99998/")
    assert url_key("http://[::1/a") != url_key("http://[::1/b")
    assert url_key("data:81/b") != url_key("http://data:81/b")
