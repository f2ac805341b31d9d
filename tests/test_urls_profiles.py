"""Profiles: what each merges, and what it keeps apart."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from scrapy_neardup.errors import SettingsError
from scrapy_neardup.urls.key import UrlKeyRules, url_key
from scrapy_neardup.urls.profiles import PLATFORMS, PROFILES, apply_profiles

MERGED = [
    ("lenient", "http://h.example.:8080/a", "http://h.example:8080/a"),
    ("lenient", "http://me@h.example./", "http://me@h.example/"),
    ("lenient", "http://h.example/?a=1&amp;b=2", "http://h.example/?a=1&b=2"),
    ("lenient", "http://h.example/?amp;b=2&amp;amp;c=3", "http://h.example/?b=2&c=3"),
    ("lenient", "http://h.example/?a=1&amp%253Bb=2", "http://h.example/?a=1&b=2"),
    ("lenient", "http://h.example/%25C3%25A9?q=%252525C3%252525A9", "http://h.example/é?q=é"),
    ("lenient", "http://h.example/a/Index.php", "http://h.example/a/"),
    ("lenient", "http://h.example/default.aspx?id=1", "http://h.example/?id=1"),
    ("mobile", "http://m.shop.example/a", "http://shop.example/a"),
    ("mobile", "http://M.shop.example:8080/a", "http://www.shop.example:8080/a"),
    ("mobile", "http://mobile.shop.co.uk/a", "http://www.shop.co.uk/a"),
    ("mobile", "http://www.m.shop.example/a", "http://shop.example/a"),
    ("mobile", "http://en.m.wikipedia.org/wiki/A", "http://en.wikipedia.org/wiki/A"),
    ("mobile", "http://shop.example/a/amp", "http://shop.example/a"),
    ("mobile", "http://shop.example/a/amp/", "http://shop.example/a/"),
    ("mobile", "http://shop.example/amp/a", "http://shop.example/a"),
    ("mobile", "http://shop.example/a?id=1&amp=1", "http://shop.example/a?id=1"),
    ("mobile", "http://shop.example/a?amp", "http://shop.example/a"),
]
APART = [
    ("lenient", "http://h.example/a.", "http://h.example/a"),
    ("lenient", "http://h.example/?amp=1&b=2", "http://h.example/?b=2"),
    ("lenient", "http://h.example/100%25", "http://h.example/100"),
    ("lenient", "http://h.example/a/index.pdf", "http://h.example/a/"),
    ("lenient", "http://h.example/a/myindex.php", "http://h.example/a/"),
    ("mobile", "http://m.co.uk/a", "http://mobile.co.uk/a"),
    ("mobile", "http://m.github.io/a", "http://mobile.github.io/a"),
    ("mobile", "http://m.com/", "http://mobile.com/"),
    ("mobile", "http://m/", "http://mobile/"),
    ("mobile", "http://film.shop.example/", "http://shop.example/"),
    ("mobile", "http://shop.example/amp", "http://shop.example/"),
    ("mobile", "http://shop.example/a/amplifier", "http://shop.example/a"),
    ("mobile", "http://shop.example/stamp/a", "http://shop.example/a"),
    ("mobile", "http://shop.example/a?amp=22", "http://shop.example/a"),
    ("platforms", "http://shop.example/a?ref=1", "http://shop.example/a"),
    ("platforms", "http://www.amazon.com/s?k=1&qid=2", "http://www.amazon.com/s?k=2&qid=2"),
    ("platforms", "http://www.youtube.com/watch?v=1", "http://www.youtube.com/watch?v=2"),
    ("platforms", "http://x.com/search?q=a&s=20", "http://x.com/search?q=a"),
]


def key(url: str, *profiles: str) -> bytes:
    return url_key(url, UrlKeyRules(profiles=profiles))


@pytest.mark.parametrize(("profile", "one", "other"), MERGED)
def test_a_profile_merges_its_urls_and_only_when_asked(profile: str, one: str, other: str) -> None:
    assert key(one, profile) == key(other, profile)
    assert key(one) != key(other)


@pytest.mark.parametrize(("profile", "one", "other"), APART)
def test_a_profile_keeps_other_urls_apart(profile: str, one: str, other: str) -> None:
    assert key(one, profile) != key(other, profile)


def test_each_argument_of_a_platform_is_dropped_there_and_only_there() -> None:
    for sites, names in PLATFORMS:
        for place in (site.replace("*", "somebody") for site in sites):
            for name in names.split():
                there, elsewhere = (f"http://{at}{place}?id=1&{name}=2" for at in ("www.", "not"))
                assert key(there, "platforms") == key(f"http://www.{place}?id=1"), there
                assert key(elsewhere, "platforms") == key(elsewhere), elsewhere


def test_profiles_work_together_in_whatever_order_they_are_named() -> None:
    url = "http://m.youtube.com./watch?v=1&amp;si=2"
    assert key(url, *PROFILES) == key(url, *reversed(PROFILES)) == b"youtube.com/watch?v=1"


@given(st.text("/ampindex.25C3%?&;=:@[]", max_size=30))
@example("//]")  # no host, and a path that begins with two slashes
def test_no_url_is_too_strange_for_a_profile(rest: str) -> None:
    for profile in PROFILES:
        for url in (f"http://{rest}", f"http://h.example{rest}"):
            apply_profiles([profile], url)  # raises nothing
            assert b"unparsed" not in key(url, profile) or b"unparsed" in key(url)


@pytest.mark.parametrize("piece", ["%25", "25", "&amp%25", "amp%25", "m.", "/amp", "."])
def test_a_long_hostile_url_grows_no_longer_with_profiles(piece: str) -> None:
    """And ends at all: quadratic steps would take hours."""
    for start in ("http://h.example/", "http://h.example/?", "http://"):
        url = start + piece * 300_000
        assert len(apply_profiles(PROFILES, url)) <= len(url)


def test_an_unknown_profile_is_refused() -> None:
    with pytest.raises(SettingsError, match="'mobil': take some of lenient, mobile, platforms"):
        UrlKeyRules(profiles=("mobil",))
