"""What a site shows for paths that do not exist has a kind of its own, and hides nothing."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from crawls import Outcome, crawl_requests
from mock_site import MockSite, Reply, page, prose, running_site

from scrapy_neardup.crawl.items.source_page import CrawledPage
from scrapy_neardup.crawl.pages import soft_404
from scrapy_neardup.learn.soft_404 import UnrelatedUrls, outline
from scrapy_neardup.learn.url_parts import cut
from scrapy_neardup.ledger.reader import LedgerReader
from scrapy_neardup.ledger.schema import Decided

DEAD = ["/a.html", "/news/old", "/x/y/z", "/b.html", "/u/v", "/c/d/e", "/p?x=1", "/q/r/s", "/w"]


class SoftSite(MockSite):
    """Answers 200 to any path, and names the path on the page below /echo."""

    def reply(self, method: str, path: str, cookie: str, body: bytes) -> Reply:
        with self._lock:
            self.hits[method, path] += 1
        if path == "/robots.txt":
            return Reply(b"", 404)
        if path.startswith("/item/"):
            return Reply(page(prose(path)))
        if path.startswith("/copy/"):
            return Reply(page(prose("/item/" + path.rpartition("/")[2])))
        return Reply(page(f"Sorry. There is no page {path} here. {prose('sorry', 25)}"))


class PlainSite(SoftSite):
    """The same without the path: all soft 404s are byte for byte the same."""

    def reply(self, method: str, path: str, cookie: str, body: bytes) -> Reply:
        found = super().reply(method, path, cookie, body)
        return Reply(page(f"Sorry. {prose('sorry', 25)}")) if b"no page" in found.body else found


@pytest.fixture(params=[PlainSite, SoftSite])
def site(request: pytest.FixtureRequest) -> Iterator[SoftSite]:
    with running_site(request.param) as running:
        yield running


ITEMS = [f"/item/{i}" for i in range(6)]


def crawl(site: MockSite, folder: Path, *paths: str, **settings: Any) -> Outcome:
    return crawl_requests(site, *paths, settings={"NEARDUP_STATE_DIR": str(folder)} | settings)


def decided(folder: Path, site: MockSite) -> dict[str, Decided]:
    return {d.url.removeprefix(site.root): d for d in LedgerReader(folder).decisions()}


def test_a_page_under_many_unrelated_urls_is_a_soft_404(tmp_path: Path) -> None:
    with running_site(PlainSite) as site:
        outcome = crawl(site, tmp_path, *ITEMS, *DEAD)
        kinds = decided(tmp_path, site)
        without = crawl(site, tmp_path / "off", *ITEMS, *DEAD, NEARDUP_LEARN="off")
    soft = [path for path in DEAD if kinds[path].kind == "soft-404"]
    assert len(soft) == len(DEAD) - 5
    assert all(kinds[path].original is None for path in soft)
    assert all(kinds[path].kind == "new" for path in ITEMS)
    assert outcome.stat("pages/soft_404") == len(soft)
    assert [i["url"] for i in outcome.items] == [i["url"] for i in without.items]


def test_copies_of_a_page_are_no_soft_404s(tmp_path: Path) -> None:
    copies = ["/item/7", "/copy/7", "/copy/print/7", "/copy/x/y/7", "/copy/a/b/c/7", "/copy/z/7"]
    with running_site(PlainSite) as site:
        assert not crawl(site, tmp_path, *ITEMS, *copies).stat("pages/soft_404")


def test_a_host_is_not_probed_by_default(site: SoftSite, tmp_path: Path) -> None:
    crawl(site, tmp_path, *ITEMS)
    assert {path for _, path in site.hits} == {"/robots.txt", "/page/seed", *ITEMS}


def test_one_probe_tells_every_soft_404(site: SoftSite, tmp_path: Path) -> None:
    outcome = crawl(site, tmp_path, *ITEMS, *DEAD, NEARDUP_SOFT_404_PROBE=True)
    known = {"/robots.txt", "/page/seed", *ITEMS, *DEAD}
    assert len({path for _, path in site.hits} - known) == 1
    assert outcome.stat("soft_404/probes") == 1
    kinds = decided(tmp_path, site)
    assert {path for path, d in kinds.items() if d.kind == "soft-404"} >= set(DEAD)
    assert all(kinds[path].kind == "new" for path in ITEMS)
    without = crawl(site, tmp_path / "off", *ITEMS, *DEAD)
    assert len(outcome.items) == len(without.items)
    assert set(map(site.url, ITEMS)) <= set(outcome.urls)


def test_a_site_that_answers_404_has_no_soft_ones(mock_site: MockSite, tmp_path: Path) -> None:
    outcome = crawl(mock_site, tmp_path, "/page/1", "/copy/1", NEARDUP_SOFT_404_PROBE=True)
    assert outcome.stat("soft_404/probes") == 1
    assert not outcome.stat("pages/soft_404")
    assert not outcome.stat("errors/soft_404")


def test_an_item_that_is_new_is_kept_on_a_soft_404(tmp_path: Path) -> None:
    with running_site(PlainSite) as site:
        paths = [f"{path}#{i}" for i, path in enumerate(DEAD)]
        outcome = crawl(site, tmp_path, *paths, NEARDUP_COMPARE="item", NEARDUP_SOFT_404_PROBE=True)
    assert len(outcome.items) + len(outcome.dropped) == len(DEAD)
    assert outcome.items  # the first says something that none has said


def test_soft_404s_are_no_evidence_for_rules(tmp_path: Path) -> None:
    paths = [f"/gone/{i}{more}" for i in range(20) for more in ("", "?print=1")]
    with running_site(PlainSite) as site:
        outcome = crawl(site, tmp_path, *paths, NEARDUP_SOFT_404_PROBE=True)
    assert not outcome.stat("learn/pages")


@pytest.mark.parametrize(
    ("urls", "is_unrelated"),
    [
        (["a.html", "b/c", "d/e/f", "g?x=1", "h/i"], True),
        (["7.html", "item/7", "x/print/7", "item?id=7", "s123/view-7"], False),
        (["item/1", "item/2", "item/3", "item/4", "item/5", "item/6"], False),  # of one shape
        (["a.html", "b/c", "d/e/f"], False),  # too few
    ],
)
def test_copies_have_something_in_common(urls: list[str], is_unrelated: bool) -> None:
    found = UnrelatedUrls()
    told: bool | None = None
    for url in urls:
        parts = cut(f"a.example/{url}".encode())
        assert parts is not None
        told = found.came("content", parts)
    assert bool(told) == is_unrelated


def test_an_outline_leaves_out_what_the_page_repeats_of_its_url() -> None:
    first = outline(b"sorry no page x y7 here 404", "http://a.example/x/y7")
    assert first == outline(b"sorry no page other here 405", "http://a.example/other")
    assert first != outline(b"red shoes no page here", "http://a.example/red-shoes")


def test_no_more_originals_are_remembered_than_the_bound_where_hosts_are_probed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(soft_404, "MAX_ORIGINALS", 3)
    remembered: list[int] = []
    name = soft_404.SoftNotFound.name

    def named(self: soft_404.SoftNotFound, page: CrawledPage) -> None:
        name(self, page)
        remembered.append(len(self._originals))

    monkeypatch.setattr(soft_404.SoftNotFound, "name", named)
    with running_site(SoftSite) as site:
        outcome = crawl_requests(site, *DEAD, settings={"NEARDUP_SOFT_404_PROBE": True})
    assert outcome.stat("pages/soft_404") == len(DEAD)
    assert max(remembered) == 3
