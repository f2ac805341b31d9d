"""Which bodies are read off the loop's thread."""

import pytest
from mock_site import page, prose

from scrapy_neardup.crawl.pages.long_bodies import LOOP_NS, NS_A_BYTE, SHORT_BYTES, takes_long


@pytest.mark.parametrize("piece", ["a", "<b>", "[", "\u0f73"])
def test_a_short_body_is_read_on_the_loop_whatever_it_holds(piece: str) -> None:
    assert not takes_long(piece.encode() * ((SHORT_BYTES - 1) // len(piece.encode())))


def test_a_long_page_of_prose_is_read_on_the_loop() -> None:
    paragraphs = "".join(f"<p>{prose(n, 200)}</p>" for n in range(200))
    assert len(page(paragraphs)) > 3 * SHORT_BYTES
    assert not takes_long(page(paragraphs))


def test_a_body_that_takes_long_by_its_length_alone_is_not() -> None:
    assert takes_long(b"a" * (LOOP_NS // NS_A_BYTE + 1))


@pytest.mark.parametrize(
    "piece",
    [
        "<b>",  # tags
        "<a b=c ",  # attributes
        "f({a: [1]});",  # what may be JSON
        "1,1,1,1,",  # values of a list
        "''",  # strings of a script
        "&#xf73;",  # references to characters
        "\u0f73",  # characters that are composed
    ],
)
def test_a_body_full_of_what_takes_long_is_not(piece: str) -> None:
    assert takes_long(piece.encode() * (300_000 // len(piece.encode())))
