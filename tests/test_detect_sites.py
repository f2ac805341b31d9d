"""Hosts and sites of URLs."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrapy_neardup.detect.sites import site_of


@pytest.mark.parametrize(
    ("url", "site"),
    [
        ("https://www.bbc.co.uk/news", "bbc.co.uk"),
        ("http://someone.github.io/x", "someone.github.io"),
        ("http://127.0.0.1:8000/", "127.0.0.1"),
        ("http://localhost:8000/", "localhost"),
        ("http://EXAMPLE.com.:80/", "example.com"),
        ("http://[::1]/", "::1"),
        ("http://[", "http://["),
        ("", ""),
    ],
)
def test_the_site_of_a_url_is_its_registrable_domain(url: str, site: str) -> None:
    assert site_of(url) == site


@given(
    authority=st.text("aB1.-:@[]_é", max_size=12)
    | st.sampled_from(["a.co.uk:80", "u@b.github.io"]),
    rest=st.sampled_from(["", "/", "/x?y", "?x", "#x", "\\x", "\t/", " "]),
)
def test_the_site_of_a_url_is_told_by_what_it_begins_with(authority: str, rest: str) -> None:
    url = f"http://{authority}{rest}"
    whole = f"HTTP://{authority}{rest}"  # the shortcut does not know it
    assert site_of(url) == (url if site_of(whole) == whole else site_of(whole))
