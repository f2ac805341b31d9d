"""What pages say of themselves counts as far as their content agrees, or a project trusts it."""

from pathlib import Path

import pytest
from crawls import crawl_requests
from mock_site import MockSite, page, prose
from scrapy.http import HtmlResponse

from scrapy_neardup.crawl.pages.claims import alternates, canonical_urls, tags_with
from scrapy_neardup.ledger.reader import LedgerReader

CANONICAL = '<link rel="canonical" href="{}">'


def head(*urls: str) -> str:
    return "".join(f'<link rel="alternate" hreflang="en" href="{url}">' for url in urls)


def add(site: MockSite, path: str, text: str, more: str = "") -> str:
    site.add(path, page(prose(text), head=more))
    return path


def test_a_claim_is_counted_by_what_its_page_shows(mock_site: MockSite) -> None:
    paths = [
        add(mock_site, "/item", "item"),
        add(mock_site, "/copy", "item", CANONICAL.format("/item")),
        add(mock_site, "/other", "other", CANONICAL.format("/item")),
        add(mock_site, "/unknown", "unknown", CANONICAL.format("/never-read")),
        add(mock_site, "/own", "own", CANONICAL.format("/own?utm_source=x")),
    ]
    outcome = crawl_requests(mock_site, *paths)
    assert outcome.stat("claims/confirmed") == 1
    assert outcome.stat("claims/contradicted") == 1
    assert outcome.urls == [mock_site.url(f"/{p}") for p in ("item", "other", "unknown", "own")]


@pytest.mark.parametrize("copy", ["the same", "nearly the same"])
def test_the_page_that_a_copy_names_is_its_original(
    mock_site: MockSite, tmp_path: Path, copy: str
) -> None:
    """Though another copy of it, which was kept for a fact of its own, came first."""
    texts = [f"{prose('item')} costs {price}" for price in (7, 8)]
    if copy == "nearly the same":
        texts[1] = texts[1].replace(prose("item", 9), prose("other", 9))
    mock_site.add("/first", page(texts[0]))
    named = mock_site.add("/named", page(texts[1]))
    third = mock_site.add("/third", page(texts[1], head=CANONICAL.format("/named")))
    folder = {"NEARDUP_STATE_DIR": str(tmp_path), "NEARDUP_LEDGER": "all"}
    outcome = crawl_requests(mock_site, "/first", "/named", "/third", settings=folder)
    decided = {d.url: d for d in LedgerReader(tmp_path).decisions()}
    assert decided[third].original == named
    assert outcome.stat("claims/confirmed") == 1


def test_a_home_page_that_is_named_everywhere_hides_nothing(mock_site: MockSite) -> None:
    home = CANONICAL.format("/home")
    paths = [
        add(mock_site, "/home", "home"),
        *(add(mock_site, f"/{i}", f"{i}", home) for i in "ab"),
    ]
    outcome = crawl_requests(mock_site, *paths)
    assert len(outcome.items) == 3
    assert outcome.stat("claims/contradicted") == 2


def test_a_trusted_claim_makes_a_copy(mock_site: MockSite, tmp_path: Path) -> None:
    first = add(mock_site, "/item", "item")
    copy = add(mock_site, "/other", "another text", CANONICAL.format("/item"))
    settings = {"NEARDUP_CANONICAL": "trust", "NEARDUP_STATE_DIR": str(tmp_path)}
    outcome = crawl_requests(mock_site, first, copy, settings=settings)
    assert outcome.urls == [mock_site.url("/item")]
    assert outcome.stat("claims/trusted") == 1
    assert not outcome.stat("errors/claims")
    decided = {d.url: d for d in LedgerReader(tmp_path).decisions()}[mock_site.url("/other")]
    assert (decided.kind, decided.original) == ("claimed", mock_site.url("/item"))


def test_claims_can_be_ignored(mock_site: MockSite) -> None:
    both = head("/us", "/uk")
    paths = [add(mock_site, "/us", "one", both), add(mock_site, "/uk", "one", both)]
    outcome = crawl_requests(mock_site, *paths, settings={"NEARDUP_CANONICAL": "ignore"})
    assert outcome.urls == [mock_site.url("/us")]


def test_translations_are_no_copies(mock_site: MockSite) -> None:
    both = head("/us", "/uk")
    paths = [add(mock_site, path, "one", both) for path in ("/us", "/uk", "/us?print=1")]
    outcome = crawl_requests(mock_site, *paths)
    assert outcome.urls == [mock_site.url("/us"), mock_site.url("/uk")]
    assert outcome.stat("claims/translations") == 1


def response(markup: str, **headers: str) -> HtmlResponse:
    return HtmlResponse("http://a.example/x/y", body=markup.encode(), headers=headers)


@pytest.mark.parametrize(
    ("markup", "urls"),
    [
        ("<link href='/a?b=1&amp;c=2' rel=canonical>", ["http://a.example/a?b=1&c=2"]),
        ('<LINK REL="canonical" HREF="z">', ["http://a.example/x/z"]),
        ('<meta property="og:url" content="/o"><link rel="canonical" href="/c">', ["/c", "/o"]),
        ('<link rel="shortlink" href="/?p=7">', ["/?p=7"]),
        ('<link rel="canonical">', []),
        ('</head><link rel="canonical" href="/below">', []),
        ('<link rel="canonical" href="http://[">', []),
    ],
)
def test_claims_are_read_from_the_head(markup: str, urls: list[str]) -> None:
    absolute = [url if url.startswith("http") else f"http://a.example{url}" for url in urls]
    assert canonical_urls(response(markup)) == absolute


def test_a_claim_may_be_in_a_header() -> None:
    found = canonical_urls(response("", Link='<http://a.example/c>; rel="canonical"'))
    assert found == ["http://a.example/c"]


def test_alternates_are_read() -> None:
    assert alternates(response(head("/us", "/uk"))) == [
        "http://a.example/us",
        "http://a.example/uk",
    ]


def test_a_tag_is_read_once_however_often_it_has_a_mark() -> None:
    tags = [f"<link {'hreflang ' * 50}href=/{n}>" for n in range(3)]
    found = tags_with(b"hreflang", "".join(tags).encode())
    assert [tag["href"] for tag in found] == ["/0", "/1", "/2"]
