"""Pages that repeat others byte by byte are decided as if they had been read."""

import os
import subprocess
import sys
from collections.abc import Iterator
from itertools import product
from random import Random
from typing import Any

import pytest
from crawls import PagesSpider, crawl, crawl_requests
from hypothesis import given
from hypothesis import strategies as st
from mock_site import MockSite, page, prose
from ordinary_spiders.site import template
from scrapy import Request
from scrapy.http import HtmlResponse, Response, TextResponse

from scrapy_neardup.crawl.pages.body_cache import BodyCache
from scrapy_neardup.detect.detector import Detector
from scrapy_neardup.engines import SKETCH, FingerprintSpec, load_engine
from scrapy_neardup.index import load_index


def detector(**rules: Any) -> Detector:
    engine = load_engine("numpy", FingerprintSpec(), SKETCH)
    return Detector(engine, load_index("scan"), **rules)


@given(
    stream=st.lists(st.tuples(st.integers(0, 3), st.integers(0, 8)), max_size=30),
    scope=st.sampled_from(["site", "all"]),
    admit=st.sampled_from(["novel", "all"]),
)
def test_what_tells_a_copy_decides_as_reading_it_would(
    stream: list[tuple[int, int]], scope: Any, admit: Any
) -> None:
    known = detector(scope=scope, admit=admit)
    for text, place in stream:
        url = f"http://{'ab'[place % 2]}.example/{place}"
        reading = known.read(url, prose(text) if text else "")
        was_there = known.pages.with_url(url) is not None
        known.count_attributes(reading, known.pages.with_url(url))
        told = known.decide_copy(url, reading.digest, reading.n_words)
        decision = known.decide(reading)
        assert told in (None, decision)
        assert told or decision.kind != "exact" or admit == "all" or was_there


def test_bodies_are_told_apart_by_all_that_their_text_depends_on() -> None:
    responses = [
        HtmlResponse("http://a.example/", body=b"<p>\xe4", encoding="latin-1"),
        HtmlResponse("http://a.example/", body=b"<p>\xe4", encoding="cp1251"),
        TextResponse("http://a.example/", body=b"<p>\xe4", encoding="latin-1"),
        HtmlResponse("http://a.example/", body=b"<p>\xe5", encoding="latin-1"),
        Response("http://a.example/", body=b"<p>\xe5"),
    ]
    body = BodyCache().body
    assert len({body(response) for response in responses}) == len(responses)
    again = HtmlResponse("http://b.example/", body=b"<p>\xe4", encoding="latin-1")
    assert body(again) == body(responses[0])


def test_the_body_that_was_read_first_is_forgotten_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scrapy_neardup.crawl.pages.body_cache.MAX_BODIES", 2)
    read = BodyCache()
    bodies = [read.body(Response("http://a.example/", body=b"%d" % n)) for n in (1, 2, 3)]
    for body in bodies:
        read.remember(body, detector().read("http://a.example/", prose(1)), None)
    assert [read.words(body) is None for body in bodies] == [True, False, False]


def test_a_copy_byte_by_byte_is_dropped_without_being_read(
    mock_site: MockSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("one", "two", "three"):
        mock_site.add(f"/{name}", page(prose("same")))
    read: list[str] = []
    reading = Detector.read
    monkeypatch.setattr(
        Detector, "read", lambda self, *args: read.append(args[0]) or reading(self, *args)
    )
    outcome = crawl_requests(mock_site, "/one", "/two", "/three")
    assert outcome.urls == read == [mock_site.url("/one")]
    assert outcome.stat("pages/exact") == outcome.stat("items/dropped") == 2
    assert outcome.stat("pages/read") == 3


class Whole(PagesSpider):
    """Its items hold the whole page."""

    def parse(self, response: Response) -> Iterator[Any]:
        yield {"url": response.url, "html": response.text}


def test_a_copy_of_a_near_page_repeats_its_items_whatever_page_is_nearer_by_then(
    mock_site: MockSite,
) -> None:
    """Each text stands on four pages, of which some are near others and some are remembered."""
    variants = list(product(range(20), ("Anna Smith", "Anna Smyth", "Anna Müller", "Anna Muller")))
    Random(1).shuffle(variants)
    for n, (text, author) in enumerate(variants):
        body = f"<p>{prose(str(text), 200)}</p><p>By {author}</p>"
        for kind in ("page", "copy"):
            mock_site.add(f"/{kind}/{n}", template("Notice", body).encode())
    paths = [mock_site.url(f"/{kind}/{n}") for kind in ("page", "copy") for n in range(80)]
    outcome = crawl(
        Whole,
        {"NEARDUP_BOILERPLATE": "learn", "CONCURRENT_REQUESTS": 1},
        seed=mock_site.url("/page/seed"),
        requests=lambda: (Request(path, priority=-n) for n, path in enumerate(paths)),
    )
    assert outcome.urls == paths[:80]


def test_where_hashes_can_be_foreseen_every_page_is_read(
    mock_site: MockSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("scrapy_neardup.crawl.pages.judge.HASH_TELLS", False)
    for name in ("one", "two"):
        mock_site.add(f"/{name}", page(prose("same")))
    read: list[str] = []
    reading = Detector.read
    monkeypatch.setattr(
        Detector, "read", lambda self, *args: read.append(args[0]) or reading(self, *args)
    )
    outcome = crawl_requests(mock_site, "/one", "/two")
    assert read == [mock_site.url("/one"), mock_site.url("/two")]
    assert outcome.stat("pages/exact") == 1


@pytest.mark.parametrize(("seed", "tells"), [("0", False), ("random", sys.hash_info.width == 64)])
def test_hashes_tell_unless_their_key_is_public(seed: str, tells: bool) -> None:
    command = [
        sys.executable,
        "-c",
        "from scrapy_neardup.crawl.pages import body_cache; print(body_cache.HASH_TELLS)",
    ]
    environment = os.environ | {"PYTHONHASHSEED": seed}
    assert subprocess.check_output(command, env=environment, text=True) == f"{tells}\n"


def by_url(response: Response) -> str:
    return prose(response.url)


def test_an_extractor_of_one_s_own_is_asked_about_every_copy(mock_site: MockSite) -> None:
    for name in ("one", "two"):
        mock_site.add(f"/{name}", page(prose("same")))
    outcome = crawl_requests(mock_site, "/one", "/two", settings={"NEARDUP_EXTRACTOR": by_url})
    assert outcome.urls == [mock_site.url("/one"), mock_site.url("/two")]
