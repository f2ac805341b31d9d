"""requestfingerprint.py: what Scrapy calls the same request, told quicker."""

from typing import Any

import pytest
from crawls import crawl_requests
from hypothesis import given, settings
from hypothesis import strategies as st
from mock_site import MockSite
from scrapy import Request, version_info
from scrapy.utils.request import RequestFingerprinter, fingerprint

from scrapy_neardup import QuickRequestFingerprinter
from scrapy_neardup.urls.key import recognised
from scrapy_neardup.urls.request_fingerprinter import COMPARED_WITH, own_fingerprinter


def quick(request: Request) -> bytes:
    return QuickRequestFingerprinter().fingerprint(request)


def differing(urls: list[str]) -> list[str]:
    return [url for url in urls if quick(Request(url)) != fingerprint(Request(url))]


def test_every_real_url_has_scrapys_fingerprint(real_urls: list[str]) -> None:
    assert len(real_urls) > 20_000
    assert differing(real_urls) == []


def test_every_variant_has_scrapys_fingerprint(variants: list[dict[str, Any]]) -> None:
    assert differing([variant["url"] for variant in variants]) == []


@pytest.mark.parametrize("template", ["a{}b", "{}2F", "?a={}", "?a{}=", "?a=1#{}"])
def test_every_byte_and_escape_leads_to_scrapys_fingerprint(template: str) -> None:
    texts = [t for b in range(256) for t in (chr(b), f"%{b:02X}", f"%{b:02x}")]
    assert differing(["http://h/" + template.format(text) for text in texts]) == []


url_texts = st.text(st.sampled_from("abZ0/?&=#%2f2E;:.-~+ ()'[]@!|é\\\"\n\t"), max_size=30)
requests = st.fixed_dictionaries(
    {
        "method": st.sampled_from(["GET", "HEAD", "POST", "get"]),
        "body": st.sampled_from([b"", b"x", b'{"a": 1}']),
        "meta": st.sampled_from([None, {}, {"verbatim_url": True}, {"verbatim_url": False}]),
        "headers": st.sampled_from([None, {"Accept-Language": "de"}]),
    }
)


@given(url_texts, requests)
@settings(max_examples=400)
def test_any_request_has_scrapys_fingerprint(text: str, rest: dict[str, Any]) -> None:
    url = "http://h.example/" + text
    assert quick(Request(url, **rest)) == fingerprint(Request(url, **rest))


def test_links_with_a_fragment_need_no_parsing() -> None:
    assert recognised("http://h.example/a?b=1#top") is not None
    assert quick(Request("http://h.example/a#top")) == quick(Request("http://h.example/a"))


def test_the_installed_scrapy_is_one_of_those_compared() -> None:
    assert version_info[:2] <= COMPARED_WITH


@pytest.mark.parametrize("chosen", [QuickRequestFingerprinter, RequestFingerprinter])
def test_a_crawl_filters_what_scrapy_would(mock_site: MockSite, chosen: type) -> None:
    paths = ("/page/1", "/page/1#part", "/page/1?b=2&a=1", "/page/1?a=1&b=2", "/page/2")
    crawl = crawl_requests(mock_site, *paths, settings={"REQUEST_FINGERPRINTER_CLASS": chosen})
    assert crawl.stats["dupefilter/filtered"] == 2


class Own(QuickRequestFingerprinter):
    """A project's own fingerprinter, built on this one."""


def test_a_projects_own_fingerprinter_is_told_from_scrapys() -> None:
    own = Own()
    assert own_fingerprinter(own) is own
    assert own_fingerprinter(RequestFingerprinter()) is None
    assert own_fingerprinter(QuickRequestFingerprinter()) is None
