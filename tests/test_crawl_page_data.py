"""Page data: what a page says outside its text, line by line."""

import json
import time
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lxml import etree, html

from scrapy_neardup.crawl.pages.literals import literals
from scrapy_neardup.crawl.pages.page_data import (
    PageData,
    attribute_lines,
    names_of_the_visit,
    page_data,
    script_sources,
    squeezed,
)
from scrapy_neardup.errors import OverBudget

URL = "https://shop.example/p/12?size=M"


def read(body: str) -> PageData:
    page = f"<html><body>{body}</body></html>"
    return page_data(html.document_fromstring(page), URL, page.encode())


@pytest.mark.parametrize(
    ("markup", "lines"),
    [
        (
            '<script>var data = {"b": 1, "a": [true, null, "x  y"]};</script>',
            ["data.a[] true", "data.a[] null", "data.a[] x y", "data.b 1"],
        ),
        ("<script>window.__STATE__={};window.a=[1.50]</script>", ["window.a[] 1.50"]),
        ('<script>self.push([1, {"k": "v"}])</script>', ["self.push[] 1", "self.push[].k v"]),
        (
            '<script id="__NEXT_DATA__" type="application/json">{"k": 1}</script>',
            ["__NEXT_DATA__.k 1"],
        ),
        (
            '<script type="application/ld+json"> [{"@type": "Store"}] </script>',
            ["application/ld+json[].@type Store"],
        ),
        (
            """<script type="text/x-magento-init">{"*": {"price": 9}}</script>""",
            ["text/x-magento-init.*.price 9"],
        ),
        (
            r"""<script>window.d = JSON.parse('{"a": "it\'s \x41\u0042", "b": [1.50]}')</script>""",
            ["window.d.a it's AB", "window.d.b[] 1.50"],
        ),
        (r"""<script>go(JSON.parse( "{\"k\": \"v\"}" )); y = [2]</script>""", [".k v", "y[] 2"]),
        (
            """<script>a = JSON.parse("{broken"); b=JSON.parse('[1]'); JSON.parse("[</script>""",
            ["b[] 1"],
        ),
        (r"""<script>JSON.parse('\u{ffffff}"'); z = [3]</script>""", ["z[] 3"]),
        ("""<script>a = JSON.parse('null'); b = JSON.parse('""')</script>""", ["a null", "b "]),
        ("<script>f({unquoted: 1}); g = [1, }</script>", []),
        (
            "<script>f([a]); g = { }; h = {\n'a': 1}; i = [ ]; j = [ -1]; k([[2]])</script>",
            ["j[] -1", "k[][] 2"],
        ),
        (
            "<script>my.a$b \n =\n[true];  c=[null]; \u00e9=[NaN, 1e5]</script>",
            ["my.a$b[] true", "c[] null", "\u00e9[] NaN", "\u00e9[] 1e5"],
        ),
        ("<script>x = {broken: [1]}; y = [2]</script>", ["y[] 2"]),
        ("<script src=/a.js></script><script type=text/template>a = [1]</script>", []),
        (
            '<script>a = {"seats": {"A1": {}, "A2": []}}; b = {}; c = [[]]</script>',
            ["a.seats.A1 {}", "a.seats.A2 []", "c[] []"],
        ),
        (
            '<script>a = [[1, 2], [3], 4, {"k": 5}, {}, "{}"]</script>',
            [
                *("a[][] 1", "a[][] 2", "a[] ,", "a[][] 3", "a[] 4", "a[].k 5", "a[] ,"),
                *("a[] {}", 'a[] "{}"'),
            ],
        ),
        (
            '<script>a = {"b.c": 1, "d[]": 2, "e f": 3, "b": {"c": [true, "true"]}}</script>',
            ["a.b.c[] true", 'a.b.c[] "true"', 'a."b.c" 1', 'a."d[]" 2', 'a."e f" 3'],
        ),
        (
            '<meta name="description" content="A lamp"><meta name=viewport content=w>',
            ["meta.description A lamp"],
        ),
        (
            '<meta property="og:title" content="Lamp"><meta name="csrf-token" content=x>',
            ["meta.og:title Lamp"],
        ),
        (
            "<meta name=apple-itunes-app content=28><meta name=apple-touch-icon content=x>",
            ["meta.apple-itunes-app 28"],
        ),
        (
            "<time itemprop=startDate datetime=2026-05-12>12 May</time><b itemprop=name>B</b>",
            ["itemprop.startDate 2026-05-12"],
        ),
        ("<b ITEMPROP=price content=5>5</b>", ["itemprop.price 5"]),
        ("<p>text <a href=/x>link</a>", []),
    ],
)
def test_lines_are(markup: str, lines: list[str]) -> None:
    assert read(markup).lines == lines


def test_keys_sent_in_another_order_are_the_same_data() -> None:
    one, other = (read(f"<script>a={s}</script>").lines for s in ('{"x":1,"y":2}', '{"y":2,"x":1}'))
    assert one == other


def nested(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    keys = st.sampled_from(["a", "b", "a.b", "a[]", "a 1"])
    return st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=3)


VALUES = st.recursive(st.sampled_from([None, True, "true", "a", ",", "{}"]), nested, max_leaves=6)


@given(VALUES, VALUES)
def test_values_of_json_are_told_apart_by_their_structure(one: Any, other: Any) -> None:
    said = [read(f"<script>x({json.dumps({'k': value})})</script>").lines for value in (one, other)]
    assert (said[0] == said[1]) == (one == other)


def test_heads_are_title_and_h1() -> None:
    root = html.document_fromstring(
        "<head><title> A  lamp </title></head><svg><title>no</title></svg><h1>The <b>lamp</b></h1>"
    )
    assert page_data(root, URL, b"").heads == ["A lamp", "The lamp"]


def test_without_an_h1_a_head_is_what_markup_calls_the_title() -> None:
    called = '<div class="title">The <b>lamp</b></div><div class="title">More lamps</div>'
    page = f"<head><title>Lamps</title></head>{called}"
    for markup, head in ((page, "The lamp"), (f"{page}<h1>A lamp</h1>", "A lamp")):
        assert page_data(html.document_fromstring(markup), URL, b"").heads == ["Lamps", head]


def now(**before: float) -> str:
    return (datetime.now(UTC) - timedelta(**before)).isoformat()


# Named by their keys: workers that run tests in parallel have to name them alike.
ECHOES = [
    ("url", URL),
    ("canonical", "http://shop.example/p/12?size=M#top"),
    ("asPath", "/p/12?size=M"),
    ("nonce", "r4nd0mr4nd0mr4nd0m"),
    ("csrfToken", "r4nd0mr4nd0mr4nd0m"),
    ("buildId", "r4nd0mr4nd0mr4nd0m"),
    ("traceId", "4bf92f3577b34da6a3ce929d0e0e4736"),
    ("sid", "550e8400-e29b-41d4-a716-446655440000"),
    ("__VIEWSTATE", "/wEPDwUKMTY3NzE5MjIyMGRk"),
    ("_xsrf", "r4nd0m-r"),
    ("renderedAt", int(time.time())),
    ("serverTime", int(time.time() * 1000)),
    ("at", now(minutes=5)),
    ("dateModified", "2026-05-12"),
    ("modified", "2026-05-12T10:30:00+02:00"),
    ("modified_time", "Tue, 12 May 2026 08:30:00 GMT"),
    ("updated_time", 1778574600),
]


@pytest.mark.parametrize(("key", "value"), ECHOES, ids=[key for key, _ in ECHOES])
def test_what_echoes_the_visit_is_left_out(key: str, value: Any) -> None:
    assert read(f"<script>a = {json.dumps({key: value})}</script>").lines == []


SAID = [
    ("url", "https://shop.example/p/13"),
    ("token", "BTC"),
    ("tokenId", "r4nd0mr4nd0mr4nd0m"),
    ("mint_token", "EPjFWdd5AufqSSqeM2qN1xzybapC8G4wEGGkZwyTDt1v"),
    ("tron_token", "TR7NHqjeKQxGTCi8q8ZY4pL8otSzgjLj6t"),
    ("session", "Opening keynote in the large hall"),
    ("session_id", "keynote-hall-north"),
    ("sid", "2026-morning-hall-1"),
    ("build_id", "release-2026-05-01-x"),
    ("trace_id", "12345678901234567890"),
    ("etag", "https://shop.example/p/13"),
    ("nonce", "12345678"),
    ("sku", "r4nd0mr4nd0mr4nd0m"),
    ("published", now(days=1)),
    ("startsAt", now(minutes=-30)),
    ("startDate", "2026-05-12"),
    ("genetically_modified", "yes"),
    ("modified", "12 parts of the engine"),
]


@pytest.mark.parametrize(("key", "value"), SAID, ids=[key for key, _ in SAID])
def test_what_may_be_said_is_kept(key: str, value: str) -> None:
    (line,) = read(f"<script>a = {json.dumps({key: value})}</script>").lines
    assert line == f"a.{key} {value}"


def test_a_script_that_was_read_before_is_held_against_the_visit() -> None:
    markup = """<script>a = {"url": "/p/12?size=M", "b": 1}; go('/p/13', '/p/14')</script>"""

    def said(path: str) -> list[str]:
        root = html.document_fromstring(markup)
        page = page_data(root, f"https://shop.example{path}", markup.encode())
        return page.lines + page.details

    for _ in range(2):
        assert said("/p/12?size=M") == ["a.b 1", " /p/13", " /p/14"]
        assert said("/p/14") == ["a.b 1", "a.url /p/12?size=M", " /p/13"]


@pytest.mark.parametrize(
    "begin",
    [
        *("gtag(", "!function(){", "(async function () {", "(()=>{", "window.a = 5;", "const a=5;"),
        *("// a hint\n", "/* a hint */", "<!--\n", "'use strict';", "if (a) {", "a['b'] = 5;"),
        *("import(", "let {a} = b;", "\n  a.push("),
    ],
)
def test_code_that_waits_for_consent_is_read_as_code(begin: str) -> None:
    code = f"{begin} go('visit'); x = {{\"k\": 1}};"
    for kind in ("text/plain", " Text/Plain "):
        page = read(f"<script type='{kind}' data-category=analytics>{code}</script>")
        assert page.lines == ["x.k 1"]
        assert " visit" in page.details


def test_scripts_without_json_are_counted() -> None:
    assert read("<script>run(1)</script>").unread_chars == len("run(1)")
    assert read("<script>a=[1, 2]</script>").unread_chars == len("a=")
    assert read("<script type=application/json>{broken</script>").unread_chars == 0


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("location.href='/item/12'", "location.href='/item/12'"),
        ("print('https://shop.example/p/12?size=M', 1)", "print('https://*', 1)"),
        (f"go('https://a.example/?u={quote(URL, safe='')}')", "go('https://a.example/?u=*')"),
    ],
)
def test_what_a_click_does_is_a_detail_whatever_the_visit(code: str, said: str) -> None:
    assert read(f'<p onclick="{code}">Go</p>').details == [f"p.onclick {said}"]


def test_attributes_of_elements_are_lines() -> None:
    root = html.document_fromstring(
        "<a href=/x>a</a><img src=/1.png alt=Lamp class=big><i data-id=7></i>"
        "<input name=branch value=900><input name=csrf_token value=r4nd0mr4nd0mr4nd0m>"
        "<script src='/a.js?v=3' async></script><b id=ad-1 data-nonce=3e6b382111></b>"
        "<a href='https://share.example/?u=https%3A%2F%2Fshop.example%2Fp%2F12%3Fsize%3DM'></a>"
    )
    assert attribute_lines(root, URL) == [
        "a.href /x",
        "img.src /1.png",
        "img.alt Lamp",
        "img.class big",
        "i.data-id 7",
        "input.name branch",
        "input.value 900",
        "input.name csrf_token",
        "script.src /a.js?",
        "a.href https://share.example/?u=*",
    ]


@pytest.mark.parametrize(
    ("tags", "sources"),
    [
        ("<script src=a.js></script><SCRIPT defer SRC = '/b.js'>", ["a.js", "/b.js"]),
        ('<script\nsrc="/poll?poll=1"nonce=n><script/src=c.js async>', ["/poll?poll=1", "c.js"]),
        ("<script>src='a.js'</script><script data-a='src=b'><scripts src=c>", []),
        ("<script title='> src=c' src=a.js><script src><script src='b.js", ["a.js", "b.js"]),
        (
            "<script src='/a.js?v=3&id=4&amp;t=5'><script src='/b?v=3'>",
            ["/a.js?id=4&amp;", "/b?v=3"],
        ),
        ("<script src='/_Resource?ns=2&cb=1790001'>", ["/_Resource?ns=2&"]),
        (f"<script src='/embed?of={quote(URL, safe='')}'>", ["/embed?of=*"]),
    ],
)
def test_sources_of_scripts_are_told_whatever_the_visit(tags: str, sources: list[str]) -> None:
    assert script_sources(tags, URL) == sources


@pytest.mark.parametrize(
    ("script", "literals"),
    [
        ("var data = {price: 19.90, 'name': 'x', \"n\": `y`,};", "price 19.90|name x|n y"),
        ("a = ['1', 2]; show(-3, !0, true)", " 1| 2| -3| 0| true"),
        ("in_stock = true; sold=!1;a=null", "in_stock true|sold !1|a null"),
        ("/* '1' */ f('it\\'s') // don't\n g(\"2\")", " it\\'s| 2"),
        ("var url = 'https://shop.example/p/12?size=M', nonce = '3e6b382111'", ""),
        ("show('ad-5e42f18d3d64c'); uid = '550e8400e29b41d4'", " ad-*|uid 550e8400e29b41d4"),
        ("window.__CF$cv$params={r:'7f00',t:'MTY5'}", ""),
        ("a = {'k': 1}; b = [2]; c = 3", "k 1|c 3"),
        ("if(window.NREUM){NREUM.seen('p')}p={sku:'A-1'}", " p|sku A-1"),
        (";NREUM.info={a:'7f00',b:1};p={sku:'A-1'}", "sku A-1"),
        ("ok(/^https?:\\/\\//.test(u));p={sku:'A-1'}", " /^https?:\\/\\//|sku A-1"),
        ("t.replace(/\"/g,'x');sku='A-1'", ' /"/| x|sku A-1'),
        ("t.split(/[/'\\]]+/);return /'/;sku='A-1'", " /[/'\\]]+/| /'/|sku A-1"),
        ("a=>/'/.test(a)||/`/.test(a)", " /'/| /`/"),
        ("b=12/n;c=(n)/3;d=m[0]/'4'/5;r/6;returned/'7'", "b 12| 3| 0| 4| 5| 6| 7"),
        ("url(/img/12/a.png)", " /img/| 12"),
        ("broken('1", " 1"),
    ],
)
def test_literals_of_scripts_are_lines(script: str, literals: str) -> None:
    assert "|".join(read(f"<script>{script}</script>").details) == literals


@pytest.mark.parametrize(
    "begins",
    [
        '"\\',
        "/*",
        "a = ",
        "'",
        "a=\n",
        "`",
        "a ",
        "-",
        "a:",
        "0x",
        "(/",
        "(/[",
        "/^",
        "=/\\",
        "return ",
    ],
)
def test_a_hostile_script_is_cut_in_linear_time(begins: str) -> None:
    assert isinstance(read(f"<script>{begins * 100_000}</script>").details, list)


@pytest.mark.parametrize(
    "script",
    [
        "=[" * 90_000,
        '=["' * 90_000,
        "=" + "[" * 90_000,
        "a" * 400_000,
        "=[1" * 100_000,
        "=" + '{"a":' * 100_000,
        "=(" * 200_000,
        "= " * 200_000,
        "=[" + "1" * 400_000,
    ],
)
def test_a_hostile_script_takes_no_quadratic_time(script: str) -> None:
    assert read(f"<script>{script}</script>").lines == []


@pytest.mark.parametrize(
    ("markup", "reason"),
    [
        ("<script type=application/json>[" + "1 " * 1_100_000 + "1]</script>", "JSON of 2200003"),
        ("<script>go([" + "1," * 100_000 + "1])</script>", "at most 2097152 and 100000 values"),
        ('<script>a={"' + "k" * 300 + '":[' + "1," * 9_000 + "1]}</script>", "names in front of"),
        (f"<{'x' * 9_000} {' '.join(f'a{n}=1' for n in range(900))}>", "names in front of"),
        (f"<i name={'x' * 9_000} {'value=1 ' * 900}>", "names in front of"),
        ("<head><title>" + "a " * 33_000 + "</title>", "a title of 66000"),
        ("<h1>" + "a " * 33_000 + "</h1>", "a h1 of 66000"),
        ("<script>f(" + "1 " * 150_001 + ")</script>", "more than 150000 values"),
    ],
)
def test_what_one_call_would_read_for_long_is_over_budget(markup: str, reason: str) -> None:
    with pytest.raises(OverBudget, match=reason):
        page_data(html.document_fromstring(markup), "http://h.example/", markup.encode())


def test_a_heading_in_a_heading_is_read_once() -> None:
    markup = "<h1><b>one " * 100 + "two " * 5_000
    (head,) = read(markup).heads
    assert head.split() == ["one"] * 100 + ["two"] * 5_000


def test_preformatted_text_in_such_text_is_read_once() -> None:
    (shown,) = read("<pre>" * 200 + "one\n two").details
    assert shown == "pre one\n two"


def test_blanks_before_the_first_line_of_preformatted_text_count() -> None:
    """They say where it stands, in a chart or on a board; a line feed there is not shown."""
    shown = {tuple(read(f"<pre>{blanks}*\n*\n</pre>").details) for blanks in ("", "\n", "\r\n")}
    assert shown == {("pre *\n*",)}
    assert read("<pre>\n  *\n*</pre>").details == ["pre   *\n*"]
    assert read("<pre>  *</pre>").details == ["pre   *"]
    assert read("<pre>*  </pre>").details == []


def test_a_title_in_a_title_of_an_image_is_read_once() -> None:
    # As libxml2 read HTML before 2.14, too.
    titles = "<title>one " * 100 + "two " * 5_000 + "</title>" * 100
    root = etree.fromstring(f"<html><body><svg>{titles}</svg></body></html>")
    (title,) = page_data(root, "http://h.example/", b"").details
    assert title.split() == ["title", *["one"] * 100, *["two"] * 5_000]


@pytest.mark.parametrize(("n_letters", "n_looked_at"), [(100, 1), (100_000, 0)])
def test_the_name_of_a_list_is_looked_at_once(n_letters: int, n_looked_at: int) -> None:
    names_of_the_visit.cache_clear()
    name = "k" * n_letters
    assert len(read(f'<script>a={{"{name}": {[1] * 1_000}}}</script>').lines) == 1_000
    assert names_of_the_visit.cache_info().misses == n_looked_at


@given(st.lists(st.sampled_from(["a", "bc", " ", "\n", "\u3000", "\x1c"]), max_size=30))
def test_text_squeezed_in_pieces_is_that_squeezed_at_once(pieces: list[str]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("scrapy_neardup.crawl.pages.page_data.AT_ONCE", 3)
        assert squeezed("".join(pieces)) == " ".join("".join(pieces).split())


@pytest.mark.parametrize("n_before", range(12))
def test_json_is_found_wherever_a_script_is_parted(
    n_before: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("scrapy_neardup.crawl.pages.page_data.AT_ONCE", 5)
    monkeypatch.setattr("scrapy_neardup.crawl.pages.page_data.KEYS_AT_ONCE", 2)
    found = read(
        "<script>" + "." * n_before + ' a =\n{"c": 1, "a": 2, "e": 3, "b": 4, "d": 5};</script>'
    )
    assert found.lines == ["a.a 2", "a.b 4", "a.c 1", "a.d 5", "a.e 3"]


def test_literals_of_a_long_script_are_those_of_its_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    script = "".join(f"show{n}('a b {n}');\n" for n in range(50))
    whole = list(literals(script))
    monkeypatch.setattr("scrapy_neardup.crawl.pages.literals.AT_ONCE", 100)
    assert list(literals(script)) == whole
    assert len(whole) == 50


def test_a_long_script_without_json_is_read_in_passing() -> None:
    markup = "<script>" + "go(1);" * 140_000 + "</script><h1>a</h1>"
    assert page_data(
        html.document_fromstring(markup), "http://h.example/", markup.encode()
    ).heads == ["a"]


@pytest.mark.parametrize(
    ("body", "details"),
    [
        ("<p data-price=19>19</p><img src=/1.png?v=3>", ["p.data-price 19", "img.src /1.png?"]),
        ("<img src=/a.php?v=3>", ["img.src /a.php?v=3"]),
        ("<img srcset='/1.png?v=3 1x, /2.png?v=3 2x'>", ["img.srcset /1.png? 1x, /2.png? 2x"]),
        ("<a href=//tube.example/watch?v=dQw4>", ["a.href //tube.example/watch?v=dQw4"]),
        ("<a href=/watch?v=dQw4>", []),
        ("<a href=http://tube.example/watch?v=dQw4>", ["a.href http://tube.example/watch?v=dQw4"]),
        ("<input name=csrf_token value=r4nd0mr4nd0mr4nd0m>", ["input. "]),
        (f"<i data-token=0x{'6b17' * 10}>", [f"i.data-token 0x{'6b17' * 10}"]),
        (f"<meta http-equiv=Refresh content='9; url={URL}'>", []),
        ("<meta http-equiv=refresh content='9; url=/p/13'>", ["meta.refresh /p/13"]),
        ("<meta http-equiv=refresh content=300>", []),
        ("<svg><foreignObject><p>12</p></foreignObject></svg>", ["foreignobject 12"]),
        ("<i data-nonce=3e6b382111 data-made=2026></i>", ["i.data-made 2026"]),
        (f"<a href='https://share.example/?u={quote(URL, safe='')}'>", ["a.href https://share.example/?u=*"]),
        (f"<a href='{URL}'>", []),
        ("<noscript>Lamp <b>12</b></noscript>", ["noscript Lamp 12"]),
        ("<template><noscript>12</noscript></template>", ["template 12"]),
        ("<svg><text>12</text></svg><style>p {}</style>", ["text 12", "style p {}"]),
        ("<li class=active><a href=/p/13 id=a>13</a>", []),
        ("<li class='sold-out menu-item-9 is-active current_page_item'>", ["li.class sold-out"]),
        ("<svg><title>Sold out</title></svg>", ["title Sold out"]),
        ("<script type='math/tex'>x^2</script>", ["script x^2"]),
        ("<script type='text/plain'># The *east*\ngate</script>", ["script # The *east* gate"]),
        ("<script type=text/plain>(Let it = be)</script>", ["script (Let it = be)"]),
        ("<script type='text/template'><b>4</b> left</script>", ["script <b>4</b> left"]),
        ("<script type='5e42-text/javascript'>a=4,'ad-5e42f18d3d64c'</script>", ["a 4", " ad-*"]),
        ("<script type=importmap>{'imports': {'a': '/a.4f.js'}}</script>", []),
    ],
)  # fmt: skip
def test_details_are_what_tells_long_pages_apart(body: str, details: list[str]) -> None:
    assert read(body).details == details
