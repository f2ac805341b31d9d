"""A text that was taken from the HTML beside it, and how long it may take to tell."""

import pytest
from mock_site import prose

from scrapy_neardup.offline.dedup.said import SEARCHED, TOLD_BY, stands_in, was_taken_from


def test_a_text_stands_in_html_if_most_of_it_does_in_whole_lines() -> None:
    lines = [prose(n) for n in range(4)]
    html = "".join(f"<p>{line}</p>" for line in lines[:3]).encode()
    assert stands_in("\n".join(lines), html)
    assert not stands_in("\n".join(lines[2:]), html)
    assert not stands_in("one\ntwo", b"<p>one<p>two")


def test_many_lines_are_not_looked_for_in_much_html() -> None:
    line = prose(0)
    html = line.encode().ljust(100_000)
    n_lines = SEARCHED // len(html)
    assert stands_in("\n".join([line] * n_lines), html)
    assert not stands_in("\n".join([line] * (n_lines + 1)), html)


@pytest.mark.parametrize(
    ("text", "html", "was"),
    [
        ("a red house by the sea", "here: a red house by the sea, for sale", True),
        ("a red house by the sea", "the sea by a house red", False),
        ("house", "a house", False),
        ("house", "House", True),
        ("", "a house", True),
    ],
)
def test_a_text_was_taken_from_html_if_most_pairs_of_its_words_are_there(
    text: str, html: str, was: bool
) -> None:
    assert was_taken_from(text, html) is was


def test_a_long_text_is_told_by_its_beginning() -> None:
    begins = " ".join(f"w{n}" for n in range(TOLD_BY + 1))
    ends = " ".join(f"v{n}" for n in range(2 * TOLD_BY))
    assert was_taken_from(f"{begins} {ends}", begins)
    assert not was_taken_from(f"{ends} {begins}", begins)
