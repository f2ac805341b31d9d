"""The report in a real browser: opens clean and fast, finds, sorts, compares, stays deaf."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from browser import barriers, chromium, opened
from ledgers import HOSTILE_TEXT, HOSTILE_URL, near, page, shop, write

from scrapy_neardup.report.page import write_report
from scrapy_neardup.state.visits import Visits

WIDTH = "place => place.clientWidth"

pytestmark = [pytest.mark.browser, pytest.mark.xdist_group("browser")]

ORIGINAL = "https://shop.example/item/1"
SHELL = "https://app.example/shell"
NEWS = HOSTILE_TEXT + "\nIt costs twelve now"
CHAIR = "A chair of oak\nIt costs ten euros\n" + "\n".join(f"Fact {i}" for i in range(20))


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """One Chromium for all tests of this file."""
    with chromium() as running:
        yield running


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> str:
    """URL of a report with a doubtful cluster in front and a hostile page."""
    state = tmp_path_factory.mktemp("shop-crawl")
    changed = CHAIR.replace("ten euros", "nine euros").replace("Fact 19", "News")
    entries = [
        page(ORIGINAL, text=CHAIR, title=1),
        near("https://shop.example/print/chair", ORIGINAL, 36, text=changed, title=2),
        near(ORIGINAL + "?sid=7", ORIGINAL, 0, kind="exact", distance=0, text=CHAIR),
        page(HOSTILE_URL + "#", text=HOSTILE_TEXT),
        near(HOSTILE_URL, HOSTILE_URL + "#", 35, text=HOSTILE_TEXT.replace("words", "terms")),
        near("javascript:window.owned=1", ORIGINAL, 1),
        page(SHELL, text=CHAIR),
        near(SHELL + "#2", SHELL, 0, kind="exact", action="kept", data_differ="price, rank"),
        near(SHELL + "#3", SHELL, 48, text=CHAIR),
        *shop(2_000),
    ]
    write(state, entries, keep_text=True)
    write(state, [page(HOSTILE_URL + "#", kind="changed", text=NEWS)], keep_text=True)
    visits = Visits(state, "shop", 5)
    visits.changed(HOSTILE_URL + "#", json.dumps({"fields": ["price"]}))
    visits.changed("javascript:window.owned=1", json.dumps({"added": [HOSTILE_TEXT]}))
    visits.flush()
    visits.close()
    write_report(state, state / "report.html")
    return (state / "report.html").as_uri()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [360, 1280])
def test_it_opens_clean_in_both_themes_and_at_phone_width(
    browser: Any, report: str, scheme: str, width: int
) -> None:
    options = {"color_scheme": scheme, "viewport": {"width": width, "height": 844}}
    with opened(browser, report, **options) as view:
        assert view.locator("html").get_attribute("data-theme") == scheme
        assert view.evaluate("document.documentElement.scrollWidth") <= width
        assert "pages read" in view.inner_text("#sentence")
        assert view.locator("#timeline rect").count() > 0
        letters = view.locator("#timeline text, #sketches text")
        sizes = letters.evaluate_all("all => all.map(one => one.getBoundingClientRect().height)")
        assert min(sizes) >= 9
        assert view.locator("#sketches .limit").count() == 1


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [360, 1280])
def test_axe_finds_no_barrier(browser: Any, report: str, scheme: str, width: int) -> None:
    options = {"color_scheme": scheme, "viewport": {"width": width, "height": 844}}
    with opened(browser, report, bypass_csp=True, **options) as view:
        assert barriers(view) == []
        view.fill("#search", "no such page")
        assert barriers(view) == []
        view.locator(f'.cluster[data-original="{ORIGINAL}"]').click()
        assert barriers(view) == []
        view.keyboard.press("Escape")
        view.click("#help-button")
        assert barriers(view) == []


def test_a_cluster_opens_into_members_and_a_diff(browser: Any, report: str) -> None:
    with opened(browser, report) as view:
        view.locator(f'.cluster[data-original="{ORIGINAL}"]').click()
        assert view.locator(".member").count() == 3
        assert view.inner_text(".member[aria-current=true] b") == "print/chair"
        assert view.locator("#compare del").all_inner_texts() == ["ten", "Fact 19"]
        assert view.locator("#compare ins").all_inner_texts() == ["nine", "News"]
        view.locator(".fold").click()
        assert view.get_by_text("Fact 7", exact=True).count() == 2
        assert "scrapy neardup undo 'https://shop.example/print/chair'" in view.inner_text(
            ".command"
        )


def test_a_member_kept_by_its_data_names_their_fields_and_has_nothing_to_undo(
    browser: Any, report: str
) -> None:
    with opened(browser, report) as view:
        assert "of 1 the items were kept, because their data differ" in view.inner_text("#sentence")
        view.locator(f'.cluster[data-original="{SHELL}"]').click()
        view.get_by_role("button", name="#2").click()
        assert "items differ in\nprice, rank" in view.inner_text("#compare")
        assert view.locator(".undo").count() == 0
        view.get_by_role("button", name="#3").click()
        assert view.locator(".undo").count() == 1
        assert "bits of whole pages\n48" in view.inner_text("#compare")


def test_settings_of_the_run_are_shown_on_request(browser: Any, report: str) -> None:
    with opened(browser, report) as view:
        assert not view.locator("#rules-list").is_visible()
        view.get_by_text("Settings of the newest run").click()
        assert "NEARDUP_SIMILARITY=0.88" in view.inner_text("#rules-list")


def test_everything_can_be_done_by_keyboard(browser: Any, report: str) -> None:
    with opened(browser, report) as view:
        view.keyboard.press("c")
        first = view.inner_text("#cluster-title + *")
        view.keyboard.press("n")
        assert view.inner_text("#cluster-title + *") != first
        view.keyboard.press("p")
        view.keyboard.press("j")
        assert view.get_attribute(".members li:nth-child(2) .member", "aria-current") == "true"
        view.keyboard.press("Escape")
        assert view.locator("dialog[open]").count() == 0
        view.keyboard.press("/")
        view.keyboard.type("print/chair")
        assert view.locator("#table-rows .row").count() == 1
        view.focus("#table")
        view.keyboard.press("ArrowDown")
        view.keyboard.press("Enter")
        assert view.inner_text(".member[aria-current=true] b") == "print/chair"
        view.keyboard.press("Escape")
        view.keyboard.press("t")
        assert view.get_attribute("html", "data-theme") == "dark"


def test_decisions_are_searched_filtered_and_sorted(browser: Any, report: str) -> None:
    with opened(browser, report) as view:
        view.fill("#search", "SHOP.example/print/")
        assert view.inner_text("#decisions-note").startswith("1 of ")
        view.fill("#search", "")
        view.get_by_role("button", name="near-duplicate", exact=True).click()
        assert set(view.locator("#table-rows .kind").all_inner_texts()) == {"near-duplicate"}
        view.locator("#table-head").get_by_role("button", name="sketch").click()
        assert view.locator("#table-rows .row").first.inner_text().count("48") >= 1
        view.locator("#patterns button.url").first.click()
        assert "{n}" in view.input_value("#search")
        assert view.locator("#table-rows .row").count() > 1


def test_clusters_are_ordered_and_filtered(browser: Any, report: str) -> None:
    with opened(browser, report) as view:
        view.select_option("#cluster-order", "size")
        sizes = [int(text.split()[0]) for text in view.locator(".cluster .count").all_inner_texts()]
        assert sizes == sorted(sizes, reverse=True)
        view.get_by_role("button", name="other title").click()
        assert view.locator(".cluster").first.get_attribute("data-original") == ORIGINAL


def test_what_may_be_wrong_comes_first(browser: Any, report: str) -> None:
    with opened(browser, report) as view:
        assert view.locator(".cluster").first.get_attribute("data-original") == ORIGINAL
        assert "other title" in view.locator(".cluster").first.inner_text()
        first = view.locator("#wholesale li").first
        assert "pages are near-duplicates: dropped, tagged or counted" in first.inner_text()
        first.get_by_role("button").click()
        assert "?print={n}" in view.input_value("#search")


def test_what_a_page_said_is_shown_and_never_run(browser: Any, report: str) -> None:
    with opened(browser, report) as view:
        view.locator(".cluster", has_text="evil.example").click()
        assert "<img src=x onerror=window.owned=1>" in view.inner_text("#compare")
        assert view.locator("#compare img, #compare svg, #compare script").count() == 0
        assert view.locator(".command").count() == 0  # it holds what a terminal would act on
        view.keyboard.press("Escape")
        view.locator(f'.cluster[data-original="{ORIGINAL}"]').click()
        view.locator(".member", has_text="javascript:").click()
        assert view.locator("#compare a").count() == 0
        assert view.locator("#compare .url", has_text="javascript:").count() == 1


def test_a_page_that_changed_opens_into_both_texts(browser: Any, report: str) -> None:
    with opened(browser, report, bypass_csp=True) as view:
        assert view.locator("#changed li").count() == 2
        assert view.locator("#changed a").count() == 1  # "javascript:" is none
        assert "field price" in view.inner_text("#changed")
        view.locator("#changed summary").click()
        view.wait_for_selector("#changed .pair-head")  # the event comes after the click
        assert view.locator("#changed .pair-head").all_inner_texts() == ["before", "now"]
        assert "twelve" in view.inner_text("#changed ins >> nth=-1")
        assert view.locator("#changed img, #changed svg, #changed script").count() == 0
        assert barriers(view) == []
        assert view.evaluate("window.owned") is None


def test_a_chart_over_time_is_drawn_for_the_width_there_is(browser: Any, report: str) -> None:
    with opened(browser, report) as view:
        for width in (1280, 360, 800):
            view.set_viewport_size({"width": width, "height": 800})
            drawn = f"#timeline svg[viewBox^='0 0 {view.locator('#timeline').evaluate(WIDTH)} ']"
            view.wait_for_selector(drawn)


def test_a_hundred_thousand_decisions_make_few_elements(browser: Any, tmp_path: Path) -> None:
    write_report(write(tmp_path, shop(100_000)), tmp_path / "report.html")
    with opened(browser, (tmp_path / "report.html").as_uri()) as view:
        assert "100,000 decisions" in view.inner_text("#decisions-note")
        assert view.evaluate("document.querySelectorAll('*').length") < 3_000
        view.evaluate("document.getElementById('table').scrollTop = 1e9")
        view.wait_for_selector("#table-rows .row:last-child[data-place='99999']")
