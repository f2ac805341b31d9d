"""Pages that lie about their charset are read as Scrapy decodes them, or kept."""

import pytest
from crawls import Outcome, crawl_requests
from mock_site import MockSite, Reply, page, prose
from scrapy.http import HtmlResponse

TEXT = prose("charset").translate({ord("a"): "ä", ord("e"): "é", ord("o"): "ø"}) + " +AGE- 3 €"
HONEST = "text/html; charset=utf-8"


def crawl(site: MockSite, *replies: Reply) -> Outcome:
    for n, reply in enumerate(replies):
        site.pages[f"/page-{n}"] = reply
    return crawl_requests(site, *(f"/page-{n}" for n in range(len(replies))))


def text_of(reply: Reply) -> str:
    headers = {"Content-Type": reply.content_type}
    return HtmlResponse("http://a.example/", body=reply.body, headers=headers).text


@pytest.mark.parametrize(
    "charset",
    [
        *("latin-1", "utf-7", "utf-16", "utf-16-le", "utf-32", "cp037", "gb18030", "shift_jis"),
        *("unicode_escape", "raw_unicode_escape", "iso-2022-kr", "utf-8; charset=koi8-r"),
        "no-such-charset",
    ],
)
def test_a_page_that_reads_otherwise_under_its_charset_is_no_copy(
    mock_site: MockSite, charset: str
) -> None:
    honest = Reply(page(TEXT), content_type=HONEST)
    lying = Reply(page(TEXT), content_type=f"text/html; charset={charset}")
    outcome = crawl(mock_site, honest, lying)
    reads_the_same = text_of(honest) == text_of(lying)
    assert len(outcome.items) == (1 if reads_the_same else 2)


@pytest.mark.parametrize(
    ("charset", "surrogate"), [("utf-7", b"+2AA-"), ("unicode_escape", b"\\ud800")]
)
def test_lone_surrogates_cost_no_page(mock_site: MockSite, charset: str, surrogate: bytes) -> None:
    body = page(prose("charset")).replace(b"<p>", b"<p>" + surrogate)
    reply = Reply(body, content_type=f"text/html; charset={charset}")
    outcome = crawl(mock_site, reply, reply)
    is_read = "\ud800" not in text_of(reply)
    assert len(outcome.items) == (1 if is_read else 2)
    assert outcome.stat("errors/extract") == (0 if is_read else 2)


def test_a_mark_of_byte_order_counts_more_than_header_and_meta_tag(mock_site: MockSite) -> None:
    body = page(TEXT, head='<meta charset="koi8-r">').decode()
    marked = Reply(body.encode("utf-8-sig"), content_type="text/html; charset=koi8-r")
    wide = Reply(body.encode("utf-16"), content_type="text/html; charset=latin-1")
    assert len(crawl(mock_site, Reply(body.encode(), content_type=HONEST), marked, wide).items) == 1
