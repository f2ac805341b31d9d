"""urlkey.py: which requests are the same."""

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scrapy import FormRequest, Request
from w3lib.url import canonicalize_url

from scrapy_neardup.urls.key import (
    DEFAULT_RULES,
    MAX_URL,
    UrlKeyRules,
    recognised,
    request_key,
    split,
    url_key,
)

USUAL = {  # transform of variants.jsonl.gz: the switches that decide on it
    "tracking": {"drop_tracking": False},
    "session-query": {"drop_sessions": False},
    "session-path": {"drop_sessions": False},
    "query-order": {"sort_query": False},
    "http-https": {"ignore_scheme": False},
}
MERGED_ON_DEMAND = {
    "trailing-slash": {"strip_slash": True},
    "index-file": {"strip_index": True},
    "www": {"strip_www": True},
    "double-slash": {"collapse_slashes": True},
}


def merged(variants: list[dict[str, Any]], rules: UrlKeyRules) -> Iterator[tuple[Any, bool]]:
    for variant in variants:
        same = url_key(variant["base"], rules) == url_key(variant["url"], rules)
        yield variant, same


def test_variants_equal_by_rfc_3986_have_one_key(variants: list[dict[str, Any]]) -> None:
    rfc = [variant for variant in variants if variant["same"] == "rfc"]
    assert len(rfc) > 8_000
    assert [v for v, same in merged(rfc, DEFAULT_RULES) if not same] == []


def test_different_resources_never_share_a_key(variants: list[dict[str, Any]]) -> None:
    different = [variant for variant in variants if variant["same"] == "no"]
    assert len(different) > 6_000
    assert [v for v, same in merged(different, DEFAULT_RULES) if same] == []


@pytest.mark.parametrize("transform", USUAL)
def test_a_default_rule_merges_its_variants_and_can_be_switched_off(
    variants: list[dict[str, Any]], transform: str
) -> None:
    chosen = [v for v in variants if v["transform"] == transform and ":" not in v["base"][8:]]
    assert all(same for _, same in merged(chosen, DEFAULT_RULES))
    assert not any(same for _, same in merged(chosen, replace(DEFAULT_RULES, **USUAL[transform])))


@pytest.mark.parametrize("transform", MERGED_ON_DEMAND)
def test_a_risky_rule_merges_its_variants_only_when_asked(
    variants: list[dict[str, Any]], transform: str
) -> None:
    chosen = [v for v in variants if v["transform"] == transform]
    rules = replace(DEFAULT_RULES, **MERGED_ON_DEMAND[transform])
    assert not any(same for _, same in merged(chosen, DEFAULT_RULES))
    assert all(same for _, same in merged(chosen, rules))


def test_a_key_is_the_canonical_url_without_its_scheme() -> None:
    assert url_key("HTTPS://Example.COM:443/a/./b?z=1&utm_source=x&a=2#top") == (
        b"example.com/a/b?a=2&z=1"
    )


def test_another_method_or_body_is_another_request() -> None:
    url = "http://h.example/a"
    requests = [
        Request(url),
        Request(url, method="HEAD"),
        Request(url, method="POST"),
        Request(url, method="POST", body=b"x"),
        Request(url, method="POST", body=b"y"),
        Request(url, body=b"x"),
        Request(url + "?method=POST"),
        FormRequest(url, formdata={"q": "x"}),
    ]
    assert len({request_key(request) for request in requests}) == len(requests)


def test_verbatim_urls_are_told_apart_byte_by_byte() -> None:
    urls = [
        "http://h.example/a?b=1&a=2",
        "http://h.example/a?a=2&b=1",
        "https://h.example/a?a=2&b=1",
    ]
    verbatim = {request_key(Request(url, meta={"verbatim_url": True})) for url in urls}
    assert len(verbatim) == 3
    assert request_key(Request(urls[0])) == request_key(Request(urls[1]))
    assert request_key(Request(urls[1])) not in verbatim


def test_a_key_of_ones_own_decides_alone() -> None:
    def key(own: Any, url: str = "http://h.example/a", **options: Any) -> bytes:
        return request_key(Request(url, meta={"neardup_key": own}, **options))

    assert key("7") == key(b"7") == key(7, "http://m.h.example/b", method="POST", body=b"x")
    assert len({key(7), key("8"), key(" 7"), key(None), key("/ key=7")}) == 5
    assert key(None) == request_key(Request("http://h.example/a"))


@pytest.mark.parametrize("nothing", ["", " ", b"", [], ("shop", 7)])
def test_a_key_of_ones_own_that_names_nothing_is_refused(nothing: Any) -> None:
    with pytest.raises(TypeError, match=r"meta\['neardup_key'\]=.*: takes a text"):
        request_key(Request("http://h.example/a", meta={"neardup_key": nothing}))


def test_what_cannot_be_parsed_keeps_a_key_of_its_own() -> None:
    assert url_key("http://h.example:99999/") != url_key("http://h.example:99998/")
    assert url_key("http://[::1/a") != url_key("http://[::1/b")
    assert url_key("data:81/b") != url_key("http://data:81/b")


W3LIB = UrlKeyRules(
    ignore_scheme=False, drop_tracking=False, drop_sessions=False, keep_hashbang=False
)


DEFAULT_PORT = re.compile("(?<=https://)([^/]*):443(?=/)|(?<=http://)([^/]*):80(?=/)")


def by_w3lib(url: str) -> bytes:
    """The key as w3lib alone would have it, but for default ports, which it keeps."""
    without_port = DEFAULT_PORT.sub(r"\1\2", canonicalize_url(url))
    scheme, _, rest = without_port.partition("://")
    return f"{rest} scheme={scheme}".encode()


def test_every_real_url_gets_the_key_that_w3lib_would_give(real_urls: list[str]) -> None:
    assert [url for url in real_urls if url_key(url, W3LIB) != by_w3lib(url)] == []


def test_every_variant_gets_the_key_that_w3lib_would_give(variants: list[dict[str, Any]]) -> None:
    urls = [variant["url"] for variant in variants]
    assert [url for url in urls if url_key(url, W3LIB) != by_w3lib(url)] == []


@pytest.mark.parametrize(
    "template", ["http://h/a{}b", "http://h/?{}=1", "http://h/?a={}", "http://h/#{}"]
)
def test_every_byte_and_escape_is_recognised_or_left_to_w3lib(template: str) -> None:
    for byte in range(256):
        for text in (chr(byte), f"%{byte:02X}", f"%{byte:02x}"):
            url = template.format(text)
            parts = recognised(url)
            if parts is not None:
                assert split(url, DEFAULT_RULES) == parts, url


def test_every_port_is_recognised_or_left_to_w3lib() -> None:
    for port in ("", ":", ":080", ":8a", *(f":{n}" for n in range(0, 70_000, 7))):
        url = f"http://h.example{port}/"
        if (parts := recognised(url)) is not None:
            assert split(url, DEFAULT_RULES) == parts


@pytest.mark.parametrize("port", [80, 8000, 43217])
def test_most_ports_need_no_parsing(port: int) -> None:
    url = f"http://127.0.0.1:{port}/a"
    assert recognised(url) == ("http", f"127.0.0.1:{port}", "/a", "", "")


url_texts = st.text(st.sampled_from("abZ0/?&=#%2f2E;:.-~+ ()'[]@!|é\\\n\t"), max_size=30)


@given(url_texts, st.sampled_from(["http://", "https://h.example/", "ftp://h/", "http:", ""]))
@settings(max_examples=400)
def test_no_text_is_too_strange_and_a_key_says_what_w3lib_says(text: str, start: str) -> None:
    url = start + text
    assert isinstance(url_key(url), bytes)
    if (parts := recognised(url)) is not None:
        assert split(url, DEFAULT_RULES) == parts


def test_a_long_hostile_url_takes_no_longer_than_its_length() -> None:
    for bad in ("a" * 50_000 + "\n", "a=b&" * 20_000 + "\n", "%20" * 20_000 + "%", "/." * 20_000):
        assert url_key("http://h.example/?" + bad)
        assert url_key("http://h.example/" + bad)


def test_a_session_id_is_one_only_where_it_looks_like_one() -> None:
    session = "a1b2c3d4e5f60718293a4b5c6d"
    page = url_key("http://h.example/list")
    for same in (
        f"http://h.example/list?sid={session}",
        "http://h.example/list;jsessionid=12?PHPSESSID=3",
        f"http://h.example/(S({session}))/list",
        f"http://h.example/list;sid={session}",
        f"http://h.example/list?CFID=12&CFTOKEN={session}",
        "http://h.example/list?scid=550e8400-e29b-41d4-a716-446655440000",
        f"http://h.example/list?cfid=1234567&zenid={session}",
        "http://h.example/list?CFID=8d5a3c1e-77b2-4f0a-9c1d-0f2b6a3e4d5c&CFTOKEN=0",
    ):
        assert url_key(same) == page
    for other in (
        *("?sid=12", "?sid=opening-keynote-hall", "?sid=1234567890123456", ";v=2", ";sid=12"),
        *("?session=2026-07-14-morning-room-a", "?sid=KeynoteSession12A", "?scid=14"),
        *("?session_id=65f1a2b3c4d5e6f708192a3b", "?cfid=12", "?sid=dQw4w9WgXcQ00012aB1"),
        *("?sessionId=550e8400-e29b-41d4-a716-446655440000", "?sid=a1b2c3d4e5f60718"),
        *("?session=01ARZ3NDEKTSV4RRFFQ69G5FAV", "?sid=01hv3k5q9m7w2x4y6z8a0b1c2d"),
        *("?session_id=2b7Xk0ujsswThIGTUYm2K8FjOOf", "?sid=CA5ef8732a3c49700934481addd5ce1659"),
        *("?cfid=furniture", "?cfid=clothing-men", "?cfid=20260a7", "?zenid=rinzai", "?zenid=12"),
        "?cfid=550e8400-e29b-41d4-a716-446655440000",
    ):
        assert url_key("http://h.example/list" + other) != page


def test_a_short_cfid_is_of_a_session_only_beside_a_cftoken_by_its_whole_name() -> None:
    list_of = "http://h.example/list?cfid={}&notcftoken=1"
    assert url_key(list_of.format(3)) != url_key(list_of.format(4))


def test_an_argument_tracks_by_its_whole_name() -> None:
    page = url_key("http://h.example/map")
    for same in ("utm_source=a&utm_Medium=b", "utm_id=4", "mtm_kwd=a", "hsa_acc=1", "piwik_kwd=a"):
        assert url_key(f"http://h.example/map?{same}") == page
    for other in (
        "utm_zone=32U",
        "utm_easting=69",
        "mtm_width=120",
        "hsa_eligible=1",
        "utm=1",
        "matomo_version=4",
        "piwik_id=1",
    ):
        assert url_key(f"http://h.example/map?{other}") != page


def test_a_name_that_pages_may_have_tracks_by_its_value() -> None:
    page = url_key("http://h.example/view")
    for same in (
        *("pk_source=letter", "pk_content=banner-a", "pk_content=2026-summer"),
        *("epik=dj0yJnU9WDhYa1lGeTJ2", "vero_id=65f1a2b3c4d5e6f708192a3b"),
        *("ef_id=VxR1ZgAAAHzhcQBa:20160418112345:s", "ef_id=EAIaIQobChMI8Nvx2Q:G:s"),
    ):
        assert url_key(f"http://h.example/view?{same}") == page
        assert url_key(f"http://h.example/view?{same}", UrlKeyRules(normalise=False)) == page
    for other in (
        *("pk_source=3", "pk_content=12", "pk_content=550e8400-e29b-41d4-a716-446655440000"),
        *("epik=iliad", "epik=12", "vero_id=7", "vero_id=emma-brown", "ef_id=3", "ef_id=opening"),
        "ef_id=opening-keynote:G:s",
    ):
        assert url_key(f"http://h.example/view?{other}") != page


def test_a_fragment_names_a_page_only_behind_a_hashbang() -> None:
    base = url_key("http://h.example/a")
    assert url_key("http://h.example/a#top") == base
    assert url_key("http://h.example/a#!") == base
    assert url_key("http://h.example/a#!inbox") not in (base, url_key("http://h.example/a#!sent"))


def test_more_arguments_to_drop_are_named_or_given_as_prefixes() -> None:
    rules = UrlKeyRules(ignore_params=("Ref", "track_*"))
    assert url_key("http://h.example/?track_x=1&ref=2&reference=3", rules) == (
        b"h.example/?reference=3"
    )


class ByHeader:
    """A project's own fingerprinter: the language tells requests apart, the URL does not."""

    def fingerprint(self, request: Request) -> bytes:
        return request.headers.get("Accept-Language", b"")


def test_a_projects_own_fingerprinter_decides_alone() -> None:
    german = Request("http://h.example/a", headers={"Accept-Language": "de"})
    french = Request("http://h.example/a", headers={"Accept-Language": "fr"})
    again = Request("http://h.example/a?utm_source=x", headers={"Accept-Language": "fr"})
    keys = [request_key(r, fingerprinter=ByHeader()) for r in (german, french, again)]
    assert keys[0] != keys[1] == keys[2]


def suite(shared_data: Path, name: str) -> Any:
    path = shared_data / "urls" / "suites" / name
    if not path.is_file():
        pytest.skip(f"{path} is not there")
    return json.loads(path.read_text(encoding="utf-8"))


def test_no_url_of_the_whatwg_suite_fails_or_merges_two_hosts(shared_data: Path) -> None:
    """Two URLs that a browser sends to different hosts never have one key."""
    cases = [c for c in suite(shared_data, "urlcanon_urltestdata.json") if isinstance(c, dict)]
    hosts: dict[bytes, set[str]] = {}
    for case in cases:
        key = url_key(case["input"])
        if case.get("host") and case["input"].lower().startswith(("http://", "https://")):
            hosts.setdefault(key, set()).add(case["host"])
    assert len(cases) > 400
    assert [(key, found) for key, found in hosts.items() if len(found) > 1] == []


def test_dot_segments_of_the_urlcanon_suite_lead_to_its_paths(shared_data: Path) -> None:
    cases = suite(shared_data, "urlcanon_path_dots.json")["special"]
    assert len(cases) > 100
    # Browsers and w3lib take a backslash for a slash; the suite keeps it.
    expected = {path: f"h{end}".replace("\\", "/").encode() for path, end in cases.items()}
    assert {path: url_key(f"http://h{path}") for path in cases} == expected


def test_the_key_of_a_key_is_the_key(shared_data: Path) -> None:
    urls = [*suite(shared_data, "urlcanon_idempotence.json")]
    urls += [*suite(shared_data, "urlcanon_semantic_precise.json").values()]
    # Behind https a port 80 stays, behind http it goes.
    web = [key for key in map(url_key, urls) if b" " not in key and b":80/" not in key]
    assert len(web) > 100
    assert [key for key in web if url_key("http://" + key.decode()) != key] == []


def test_known_tracking_names_of_the_public_list_are_dropped(shared_data: Path) -> None:
    """Public domain list of mpchadwick; what we leave in is ambiguous or a site's own."""
    path = shared_data / "urls" / "suites" / "mpchadwick_params.csv"
    if not path.is_file():
        pytest.skip(f"{path} is not there")
    names = [line.split(",")[0].strip() for line in path.read_text().splitlines()[1:]]
    dropped = [n for n in names if url_key(f"http://h/?{n}=x") == b"h/"]
    assert len(dropped) >= 0.4 * len(names)


def test_a_url_of_any_length_has_a_short_key() -> None:
    for url in ("http://h.example/" + "a" * 8_175, "http://h.example/?" + "a=b&" * 2_043):
        assert len(url) <= MAX_URL
        assert b" long=" not in url_key(url)
    long = "http://h.example/" + "a" * 9_000
    assert len(url_key(long)) < 100
    assert url_key(long) == url_key(long) != url_key(long + "?utm_source=1")
    assert len(url_key("http://" + "h" * 5_000_000)) < 400
    assert url_key("http://h.example/\ud800" + "a" * 9_000)
