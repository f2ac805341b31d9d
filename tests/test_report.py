"""The report's file: one, closed to the network, and deaf to what crawled pages put in it."""

import json
import re
from base64 import b64encode
from hashlib import sha256
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from ledgers import HOSTILE_TEXT, HOSTILE_URL, near, page, shop, write

from scrapy_neardup.commands import main
from scrapy_neardup.report.data import Collected
from scrapy_neardup.report.page import PART_ITEMS, as_json_in_html, json_parts, render, write_report

DATA = re.compile(r'<script type="application/json" id="data">(.*?)</script>', re.DOTALL)


def written(state: Path, **options: int) -> str:
    """The report of a state as text."""
    output = state / "report.html"
    write_report(state, output, **options)
    return output.read_text("utf-8")


@given(st.recursive(st.text() | st.none() | st.integers(), lambda v: st.dictionaries(st.text(), v)))
def test_any_data_comes_back_out_of_the_page_and_holds_no_markup(value: object) -> None:
    text = as_json_in_html(value)
    assert not set(text) & set("<>&\u2028\u2029")
    assert json.loads(text) == value


@pytest.mark.parametrize("n", [PART_ITEMS, PART_ITEMS + 1, 3 * PART_ITEMS])
def test_long_lists_become_json_in_parts_that_take_no_long_hold_of_pythons_lock(n: int) -> None:
    rows = {"url": [f"<{number}>" for number in range(n)], "differs": dict.fromkeys(range(n), 1)}
    assert json.loads(as_json_in_html(rows))["url"] == rows["url"]
    assert as_json_in_html(rows) == as_json_in_html(json.loads(as_json_in_html(rows)))
    assert max(part.count(",") for part in json_parts(rows)) <= PART_ITEMS


def test_a_hostile_page_adds_no_element(tmp_path: Path) -> None:
    pair = [
        page(HOSTILE_URL + "#", text=HOSTILE_TEXT),
        near(HOSTILE_URL, HOSTILE_URL + "#", text=HOSTILE_TEXT.replace("words", "terms")),
    ]
    html = written(write(tmp_path, pair, keep_text=True))
    assert html.count("<script") == html.count("</script>") == 2
    assert "<img" not in html
    data = json.loads(DATA.search(html)[1])  # type: ignore[index]
    assert HOSTILE_URL in data["rows"]["url"]
    assert data["texts"][HOSTILE_URL + "#"] == HOSTILE_TEXT


def test_the_policy_allows_the_one_script_and_style_and_no_network(tmp_path: Path) -> None:
    html = written(write(tmp_path, [page("http://a.example/")]))
    policy = re.search(r'Content-Security-Policy" content="(.*?)"', html)[1]  # type: ignore[index]
    assert "default-src 'none'" in policy
    assert "connect-src 'none'" in policy
    assert "unsafe" not in policy
    for content in (html.split("<style>")[1], html.split("<script>")[1]):
        body = (
            content.split("</")[0]
            if content.startswith(":root")
            else content[: content.rindex("</script>")]
        )
        digest = b64encode(sha256(body.encode()).digest()).decode()
        assert f"'sha256-{digest}'" in policy


def test_the_page_names_no_other_file(tmp_path: Path) -> None:
    html = DATA.sub("", written(write(tmp_path, [])))
    assert set(re.findall(r"https?://[^\"' )]+", html)) == {"http://www.w3.org/2000/svg"}
    assert not re.search(r"<link|<img|\bsrc=|@import|url\(", html)


def test_totals_count_everything_and_rows_only_the_newest(tmp_path: Path) -> None:
    state = write(tmp_path, shop(400))
    data = json.loads(DATA.search(written(state, rows=50))[1])  # type: ignore[index]
    assert data["n_decisions"] == 400
    assert (
        sum(number for kind, number in data["total"].items() if kind in data["kind_names"]) == 400
    )
    everything = Collected(state)
    everything.refresh()
    assert data["rows"]["url"][-50:] == [d.url for d in everything.newest][-50:]


def test_members_of_the_first_clusters_are_there_though_they_are_old(tmp_path: Path) -> None:
    old = near("https://shop.example/blog/x", "https://shop.example/item/1", 36)
    newer = [page(f"https://shop.example/item/{i}") for i in range(100)]
    data = json.loads(DATA.search(written(write(tmp_path, [old, *newer]), rows=10))[1])  # type: ignore[index]
    assert data["rows"]["url"][0] == old.url
    assert len(data["rows"]["url"]) == 11


def test_a_report_goes_on_where_it_stopped(tmp_path: Path) -> None:
    write(tmp_path, shop(100))
    collected = Collected(tmp_path)
    collected.refresh()
    write(tmp_path, shop(50, seed=2))
    collected.refresh()
    assert collected.summary.total.kinds.total() == 150
    fresh = Collected(tmp_path)
    fresh.refresh()
    kept, again = collected.as_dict(), fresh.as_dict()
    assert {**kept, "made": 0} == {**again, "made": 0}


def test_an_empty_ledger_makes_a_report(tmp_path: Path) -> None:
    assert "<title>" in written(write(tmp_path, []))


def test_only_a_live_page_may_ask_its_server() -> None:
    assert b"connect-src 'self'" in render({}, live_s=5)


def test_the_command_says_what_it_wrote(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    state, output = write(tmp_path, shop(20)), tmp_path / "r.html"
    assert main(["report", str(state), "-o", str(output), "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {
        "file": str(output),
        "bytes": output.stat().st_size,
    }
