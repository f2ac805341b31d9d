"""Rules for single sites, beside duplicate-url-discarder itself: a URL becomes the same in both."""

import json
import random
import warnings
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scrapy_neardup.urls.key import UrlKeyRules, url_key
from scrapy_neardup.urls.site_rules import SiteRules, read_rule_files, read_rules

dud = pytest.importorskip("duplicate_url_discarder.url_canonicalizer", reason="needs DUD")
published = pytest.importorskip("duplicate_url_discarder_rules", reason="needs DUD's rules")

# What is no rule of a site is the same for both.
PLAIN = UrlKeyRules(ignore_scheme=False, drop_tracking=False, drop_sessions=False)


@pytest.fixture(autouse=True, scope="module")
def bundled_suffixes() -> Iterator[None]:
    """Public suffixes from tldextract's own list: without this, it would download them."""
    from tldextract import tldextract
    from url_matcher import util

    bundled = tldextract.TLDExtract(cache_dir=None, suffix_list_urls=())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(util.tldextract, "extract", bundled)
        yield


def differs(url: str, rules: SiteRules, process: Callable[[str], str]) -> bool:
    """Whether a URL gets another key here than from what DUD makes of it."""
    return url_key(url, replace(PLAIN, site_rules=rules)) != url_key(process(url), PLAIN)


@cache
def published_rules() -> tuple[SiteRules, Callable[[str], str]]:
    paths = published.RULE_PATHS
    return read_rule_files(paths), dud.UrlCanonicalizer(paths).process_url


@cache
def published_parts() -> tuple[list[str], list[str]]:
    """Hosts and names of arguments in the published rules."""
    rules = published_rules()[0].rules
    hosts = {pattern.netloc for rule in rules for pattern in rule.include if pattern.netloc}
    args = {arg for rule in rules for arg in rule.args if isinstance(arg, str)}
    return sorted(hosts), sorted(args)


PREFIXES = ("", "", "www.", "WWW.", "www2.", "wwwx", "uk.", "www.uk.", "not", "me@", "me:x@www.")
PORTS = ("", "", "", ":80", ":443", ":8080")
SEGMENTS = ("dp", "DP", "dpx", "x", "", "B00;ref=1", ";", "a;b", "product", "%41", "dp|", "*")


def random_url(chance: random.Random) -> str:
    """A URL put together from what the published rules look at."""
    hosts, args = published_parts()
    host = chance.choice([*hosts[:80], chance.choice(hosts), "other.example", "co.uk"])
    path = "".join(f"/{chance.choice(SEGMENTS)}" for _ in range(chance.randint(0, 4)))
    names = [*chance.sample(args, 4), "utm_source", "id", "piid[0]", "PID", ""]
    pairs = [
        f"{chance.choice(names)}{chance.choice(('=1', '=', '', '=a=b'))}"
        for _ in range(chance.randint(0, 5))
    ]
    scheme = chance.choice(("http", "https", "HTTPS"))
    netloc = chance.choice(PREFIXES) + host + chance.choice(PORTS)
    fragment = chance.choice(("", "", "#", "#top", "#!page?a=1"))
    return f"{scheme}://{netloc}{path}{'?' if pairs else ''}{'&'.join(pairs)}{fragment}"


def test_all_published_rules_are_read() -> None:
    rules, _ = published_rules()
    known = [rule for path in published.RULE_PATHS for rule in json.loads(Path(path).read_text())]
    assert len(rules.rules) == len({json.dumps(rule, sort_keys=True) for rule in known}) > 300
    folder = Path(published.__file__).parent
    assert read_rule_files([folder]) == read_rule_files(sorted(published.RULE_PATHS))


def test_published_rules_make_of_10_000_urls_what_they_make_there() -> None:
    rules, process = published_rules()
    chance = random.Random(20)
    urls = [random_url(chance) for _ in range(10_000)]
    assert [url for url in urls if differs(url, rules, process)] == []
    assert sum(process(url) != url for url in urls) > 5_000  # and there is something to make


HOSTS = ("a.shop.co.uk", "shop.co.uk", "co.uk", "10.0.0.1", "[::1]", "localhost", "a.localhost")
PATHS = ("", "/", "/a", "/a|", "/*/b", "/a*c*|", "//", "/a;p", "/a;", "/|", "/A/b", "*")
QUERIES = ("", "?", "?a", "?a=1", "?A=1&a=*2", "?a=1&b=", "?*", "?a*=1", "?a=|", "?a=%41")
FRAGMENTS = ("", "", "#x", "#x|", "#*y", "#|")
SCHEMES = ("", "", "", "http://", "https://", "HTTP://")


def put_together(*parts: tuple[str, ...]) -> st.SearchStrategy[str]:
    return st.tuples(*map(st.sampled_from, parts)).map("".join)


patterns = put_together(SCHEMES, ("", "www."), HOSTS, PORTS, PATHS, QUERIES, FRAGMENTS)
places = st.one_of(patterns, st.sampled_from(("/a", "/*/b|", "//x", "?a=1")))
names = st.lists(st.sampled_from(("a", "b", "A", "größe", "x[0]", "")), max_size=3)
processors = st.one_of(
    st.tuples(st.just("normalizer"), st.just([])),
    st.tuples(st.sampled_from(("queryRemoval", "queryRemovalExcept")), names),
    st.tuples(st.just("subpathRemoval"), st.lists(st.integers(-1, 3), max_size=3)),
)


@st.composite
def rule_sets(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Rules with an order each: in which equals are applied depends there on the hash seed."""
    n = draw(st.integers(1, 6))
    return [draw(one_rule(order)) for order in draw(st.permutations(range(n)))]


@st.composite
def one_rule(draw: st.DrawFn, order: int) -> dict[str, Any]:
    processor, args = draw(processors)
    include = draw(
        st.one_of(st.just([]), st.just([""]), st.lists(patterns, min_size=1, max_size=3))
    )
    pattern: dict[str, Any] = {"include": include}
    if any(include):  # the excludes of the others are not asked there
        pattern["exclude"] = draw(st.lists(places, max_size=2))
        pattern["priority"] = draw(st.sampled_from((500, 500, 1)))
    return {"order": order, "processor": processor, "args": args, "urlPattern": pattern}


urls = put_together(
    ("http://", "https://"),
    ("", "", "www.", "wwwx", "b.", "me@"),
    (*HOSTS, "shop.co.uk."),  # in lower case, as requests have it: a domain's case counts there
    PORTS,
    ("", "/", "/a", "/a/", "/x/b", "/abcb/c", "//a", "/a;p", "/a/;p", "/a;", "/A/B/c", "/a/b//"),
    ("", "?", "?a=1", "?a=2&b=", "?b&a=x2", "?A=3&größe=1", "?x[0]=1&&=2", "?a=A&a=1"),
    ("", "#", "#x", "#xy", "#ay"),
).filter(lambda url: "[::" not in url or "/[::" in url)


@settings(max_examples=300, deadline=None)
@given(rule_sets(), st.lists(urls, min_size=1, max_size=8))
def test_any_rules_make_of_any_url_what_they_make_there(
    tmp_path_factory: pytest.TempPathFactory, records: list[dict[str, Any]], urls: list[str]
) -> None:
    file = tmp_path_factory.getbasetemp() / "generated-rules.json"
    file.write_text(json.dumps(records))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SyntaxWarning)  # of `*` in a name
        process = dud.UrlCanonicalizer([file]).process_url
        rules = read_rules(file.read_text())
        assert [url for url in urls if differs(url, rules, process)] == []
