"""Lines that tell of the visit: what may be one, what proves it, and what never does."""

import time
from collections.abc import Callable
from datetime import UTC, datetime
from zlib import crc32

import numpy as np
import pytest

from scrapy_neardup.detect import echoes
from scrapy_neardup.detect.decision import VISIT, Decision
from scrapy_neardup.detect.detector import Detector
from scrapy_neardup.detect.echoes import (
    CRAWLS,
    DAY_S,
    NEAR_S,
    PAGES,
    STEP,
    VisitEchoes,
    echoes_of,
)
from scrapy_neardup.detect.page_table import site_number
from scrapy_neardup.engines import SKETCH, FingerprintSpec, load_engine
from scrapy_neardup.errors import SnapshotError
from scrapy_neardup.index import load_index
from tests.mock_site import prose

HOST = 7
NOON = datetime(2026, 11, 22, 12, 0, 30, tzinfo=UTC).timestamp()


def kinds(*lines: str) -> list[str]:
    return [echo.kind for echo in echoes_of(lines)]


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        ("It is 14:07:22", "moment"),
        ("Sunday, 22 November 2026", "moment"),
        ("Stand: 22.11.2026, 14:05 Uhr", "moment"),
        ("le dimanche 22 novembre 2026 à 14:05", "moment"),
        ("Nov 22, 2026 2:05 pm", "moment"),
        ("generated 2026-11-22T14:05:33+01:00", "moment"),
        ("Visits: 1,234", "count"),
        ("12 345 people were here", "count"),
        ("request 7f3a9c0011d2e3f4", "token"),
    ],
)
def test_lines_that_may_tell_of_the_visit(line: str, kind: str) -> None:
    assert kinds(line) == [kind]


@pytest.mark.parametrize(
    "line",
    [
        *("Price: 19 EUR", "Price: €19", "19 zł", "Total 1,299 kr", "19.90", "Price: 19.90"),
        *("17 °C in the shade", "Size: 5 %", "Rated 4 of 5", "Seats 12 to 14", "12"),
        *("from 1.1.2026 to 22.11.2026", "open 9:00 to 17:30", "Lot B-17", "Docket 2026-113"),
        *("31.31.2026 14", "no numbers here", "temperature -5 outside", "x" * 200 + " 12"),
        *(
            "Price: 19",
            "Kaufpreis 1.299",
            "nur 19,-",
            "Current bid: 120",
            "Case 4711",
            "17 in stock",
        ),
    ],
)
def test_prices_measures_and_ranges_never_do(line: str) -> None:
    assert kinds(line) == []


def test_a_line_that_a_page_has_twice_does_not() -> None:
    assert kinds("Visits: 12", "Visits: 13", "Hits: 4") == ["count"]


@pytest.mark.parametrize(
    ("line", "says"),
    [
        *(("It is 12:01", True), ("It is 15:31", True), ("It is 11:58:59", True)),
        *(("Sunday, 22 November 2026", True), ("11/22/2026", True), ("22/11/2026 12:00", True)),
        *(("23.11.2026", True), ("20.11.2026", False), ("22.11.2025", False)),
        *(("It is 12:10", False), ("22.11.2026 12:20", False)),
    ],
)
def test_a_moment_is_that_of_the_visit_in_some_time_zone(line: str, says: bool) -> None:
    (echo,) = echoes_of([line])
    assert (echo.says(NOON) is not None) == says


@pytest.mark.parametrize(
    ("before", "now", "moved"),
    [
        *(("Visits: 9", "Visits: 10", True), ("Visits: 999", "Visits: 1,000", True)),
        *(("Visits: 0099", "Visits: 0100", True), ("Visits: 1 999", "Visits: 2 001", True)),
        *((f"n {500 - STEP}", "n 500", False), ("Visits: 10", "Visits: 9", False)),
        *((f"no {500 - STEP}", "no 500", True), (f"no {499 - STEP}", "no 500", False)),
        ("Hits: 9", "Visits: 10", False),
    ],
)
def test_a_count_goes_up_a_little(before: str, now: str, moved: bool) -> None:
    found = echoes_of([now])
    assert any(echo.was_lower(crc32(before.encode())) for echo in found) == moved


Show = Callable[[int, int], str]  # page, visit → its line


def crawls(
    show: Show, n: int = CRAWLS, pages: int = PAGES, gap_s: float = 600.0, start: float = NOON
) -> VisitEchoes:
    """What recrawls learn of a host whose pages show one such line each."""
    known = VisitEchoes()
    for visit in range(1, n + 1):
        crawl(known, show, visit, pages, gap_s, start + visit * gap_s)
        known.conclude()
    return known


def crawl(known: VisitEchoes, show: Show, visit: int, pages: int, gap_s: float, at: float) -> None:
    for page in range(pages):
        was, now = show(page, visit - 1), show(page, visit)
        found = echoes_of([now])
        known.read(HOST, found, at)
        for echo in found:
            known.compared(HOST, b"%d" % page, echo, *map(crc_of, (was, now)), gap_s)


def crc_of(line: str) -> int:
    return crc32(line.encode())


def clock(at: float, form: str = "It is %H:%M:%S") -> str:
    return datetime.fromtimestamp(at, UTC).strftime(form)


def hours(page: int, visit: int) -> str:
    return clock(NOON + visit * 600 + page)


def visits(page: int, visit: int) -> str:
    return f"Visits: {100 * page + 3 * visit}"


@pytest.mark.parametrize(
    ("show", "gap_s"),
    [
        (hours, 600),
        (lambda page, visit: clock(NOON + visit * DAY_S, "%A, %d %B %Y"), DAY_S),
        (visits, 600),
        (lambda page, visit: f"request {page * 7919 + visit * 104_729:016x}fa", 600),
    ],
)
def test_clocks_dates_counters_and_tokens_are_learnt(show: Show, gap_s: float) -> None:
    assert len(crawls(show, gap_s=gap_s)) == 1
    assert len(crawls(show, n=CRAWLS - 1, gap_s=gap_s)) == 0
    assert len(crawls(show, pages=PAGES - 1, gap_s=gap_s)) == 0


@pytest.mark.parametrize(
    ("show", "gap_s"),
    [
        # All prices changed overnight, once or night after night.
        (lambda page, visit: f"Only {1000 + page - 100 * visit}", DAY_S),
        (lambda page, visit: f"Only {1000 + page + visit}", DAY_S),
        # A sale began between two visits of one hour, and prices stay then.
        (lambda page, visit: f"Only {1000 + page + (visit > 0)}", 600),
        (lambda page, visit: f"Only {1000 + page - 20 * (visit > 0)}", 600),
        # Money is no counter, however fast it moves.
        (lambda page, visit: f"Price: {1000 + page + visit}", 600),
        (lambda page, visit: f"Only {1000 + page + visit} EUR", 600),
        (lambda page, visit: f"Only {1000 + page + visit}.99", 600),
        # Numbers that stay: dockets, stock, years, ids.
        (lambda page, visit: f"Number {1000 + page}", 600),
        (lambda page, visit: f"checksum 7f3a9c0011d2e3{page:02}", 600),
        # On one page of five it stays.
        (lambda page, visit: f"Hits: {1000 + visit * (page > 0)}", 600),
        # Dates that are not the visit's, or of pages for yesterday, today and tomorrow.
        (lambda page, visit: clock(NOON + (visit + 5) * DAY_S, "Next: %d.%m.%Y"), DAY_S),
        (lambda page, visit: clock(NOON + (visit + page % 3 - 1) * DAY_S, "%d.%m.%Y"), DAY_S),
        (lambda page, visit: clock(NOON + (visit * 17 + page) * 600, "Train: %H:%M"), 600),
    ],
)
def test_prices_dockets_and_other_days_never_are(show: Show, gap_s: float) -> None:
    assert len(crawls(show, n=4, gap_s=gap_s)) == 0


def test_what_stands_still_later_tells_of_the_page_again() -> None:
    known = crawls(visits)
    (echo,) = echoes_of(["Visits: 300"])
    known.compared(HOST, b"1", echo, crc_of("Visits: 300"), crc_of("Visits: 300"), None)
    assert len(known) == 0
    crawl(known, visits, 9, PAGES, 600, NOON)
    known.conclude()
    assert len(known) == 0


def test_a_crawl_at_midnight_forgets_nothing() -> None:
    known = crawls(lambda page, visit: clock(NOON + visit * DAY_S, "%d.%m.%Y"), gap_s=DAY_S)
    for at in (NOON + 0.55 * DAY_S, NOON + 0.45 * DAY_S):
        known.read(HOST, echoes_of([clock(at, "%d.%m.%Y")]), NOON + DAY_S / 2)
    assert len(known) == 1
    known.read(HOST, echoes_of([clock(NOON - 9 * DAY_S, "%d.%m.%Y")]), NOON)
    assert len(known) == 0


def test_counts_of_visits_long_ago_prove_nothing_and_refute_nothing() -> None:
    known = crawls(visits)
    crawl(known, visits, 9, PAGES, NEAR_S + 1, NOON)
    known.conclude()
    assert len(known) == 1
    assert len(crawls(visits, gap_s=NEAR_S + 1)) == 0


def test_only_what_a_line_shows_of_the_visit_is_left_out() -> None:
    known = crawls(lambda page, visit: f"19 EUR at {hours(page, visit)}")
    text, tag = known.left_out(HOST, f"a\n19 EUR at It is {clock(NOON)[-8:]}\nb 5", NOON)
    assert [line.split() for line in text.split("\n")] == [
        ["a"],
        ["19", "EUR", "at", "It", "is"],
        ["b", "5"],
    ]
    assert 0 < tag < 2**32
    another_time, elsewhere = "19 EUR at It is 12:17:00", (HOST + 1, "19 EUR at It is 12:00:00")
    assert known.left_out(HOST, another_time, NOON) == (another_time, 0)
    assert known.left_out(*elsewhere, NOON) == (elsewhere[1], 0)


def test_what_is_known_is_stored_and_damage_is_told() -> None:
    known = crawls(visits)
    again = VisitEchoes.from_arrays(known.arrays())
    assert again.left_out(HOST, "Visits: 5", NOON) == known.left_out(HOST, "Visits: 5", NOON)
    assert len(again) == 1
    assert len(VisitEchoes.from_arrays({})) == 0
    with pytest.raises(SnapshotError):
        VisitEchoes.from_arrays(known.arrays() | {"keys": np.zeros(3, np.uint64)})
    with pytest.raises(SnapshotError):
        VisitEchoes.from_arrays({"keys": np.zeros(0, np.uint64)})


def test_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(echoes, "MAX_KEYS", 3)
    known = VisitEchoes()
    for visit in range(1, CRAWLS + 1):
        for word in ("a", "b", "c", "d", "e"):
            crawl(known, lambda page, at, w=word * 3: f"{w} {at}", visit, PAGES, 1, NOON)  # type: ignore[misc]
        known.conclude()
    assert len(known) == 3


# --- decisions


def detector(known: VisitEchoes | None = None) -> Detector:
    engine = load_engine("numpy", FingerprintSpec(key=0), SKETCH)
    made = Detector(engine, load_index("scan"), boilerplate="keep")
    if known is not None:
        made.echoes = known
    return made


def decide(made: Detector, path: str, *lines: str) -> Decision:
    return made.decide(made.read(f"http://a.example/{path}", "\n".join([*lines, prose("x", 600)])))


def learnt(*shows: Show) -> VisitEchoes:
    """What is known of a.example, which shows these lines."""
    known, host = VisitEchoes(), site_number("a.example")
    for visit in range(1, CRAWLS + 1):
        for show in shows:
            for page in range(PAGES):
                was, now = show(page, visit - 1), show(page, visit)
                (echo,) = echoes_of([now])
                known.compared(host, b"%d" % page, echo, crc_of(was), crc_of(now), 60)
        known.conclude()
    return known


def now(later_s: float = 0) -> str:
    return clock(time.time() + later_s)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (("Visits: 17", "Price: 19"), ("Visits: 2,099", "Price: 19")),
        (("Price: 19",), ("Price: 19",)),
    ],
)
def test_copies_that_differ_in_lines_of_the_visit_are_near(
    one: tuple[str, ...], other: tuple[str, ...]
) -> None:
    made, plain = detector(learnt(hours, visits)), detector()
    for each, kind, differs in ((plain, "near-but-differs", None), (made, "near", VISIT)):
        decide(each, "a", now(-60), *one)
        decision = decide(each, "b", now(), *other)
        assert decision.kind == kind
        assert decision.differs == differs or differs is None


def test_a_fact_unlike_the_one_in_its_place_keeps_a_page_at_any_time() -> None:
    """The hashes of these two times are equal in the bits that are kept of them."""
    made = detector()
    decide(made, "a", "It is 09:58:31", "Visits: 17", "Price: 19")
    assert decide(made, "b", "It is 09:59:31", "Visits: 2,099", "Price: 19").kind != "near"


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Price: 19", "Price: 21"),
        ("Price: 19 EUR", "Price: 19 USD"),
        ("It is waterproof", "It is not waterproof"),
        ("Colour: red", "Colour: blue"),
        ("Docket 2026-113", "Docket 2026-114"),
        ("★★★ of five", "★★ of five"),
        ("Updated on 1 May 2026", "Updated on 2 May 2026"),
    ],
)
def test_a_fact_beside_them_still_keeps_a_page(one: str, other: str) -> None:
    made = detector(learnt(hours, visits))
    decide(made, "a", now(-60), "Visits: 17", one)
    assert decide(made, "b", now(), "Visits: 18", other).kind in ("near-but-differs", "new")


def test_on_such_a_line_only_what_tells_of_the_visit_is_left_out() -> None:
    def stock(page: int, visit: int) -> str:
        return f"{page} in stock, {hours(page, visit)}"

    made = detector(learnt(stock))
    decide(made, "a", f"17 in stock, {now(-60)}")
    assert decide(made, "b", f"18 in stock, {now()}").kind == "near-but-differs"
    assert decide(made, "c", f"17 in stock, {now()}").kind == "near"


def test_pages_that_leave_out_other_lines_are_not_taken_for_copies() -> None:
    made = detector()
    decide(made, "a", "Visits: 17", "Price: 19")
    made.echoes = learnt(visits)
    assert decide(made, "b", "Visits: 17", "Price: 19").kind == "exact"
    assert decide(made, "c", "Visits: 17", "Price: 20").kind == "near-but-differs"
    assert decide(made, "d", "Visits: 50", "Price: 19").kind == "near-but-differs"
    assert decide(made, "e", "Visits: 51", "Price: 19").original == "http://a.example/d"
    made.echoes = learnt(hours, visits)
    assert decide(made, "f", "Visits: 17", now(), "Price: 19").kind == "near-but-differs"


def test_texts_of_items_have_no_lines_of_the_visit() -> None:
    made = detector(learnt(visits))
    text = f"Visits: 5\n{prose('x', 240)}"
    assert made.read("http://a.example/", text, is_page=False).tag == 0
    assert made.read("http://a.example/", text).tag != 0


def test_an_author_of_five_pages_teaches_a_counter_until_another_s_page_is_read_again() -> None:
    """What docs/security.md says is not stopped where pages alone decide."""
    known = learnt(lambda page, visit: f"Rooms: {visit}")
    made = detector(known)
    decide(made, "a", "Rooms: 3")
    assert decide(made, "b", "Rooms: 4").kind == "near"
    (echo,) = echoes_of(["Rooms: 3"])
    same = crc_of("Rooms: 3")
    known.compared(site_number("a.example"), b"of another author", echo, same, same, None)
    decide(made, "c", "Rooms: 5")
    assert decide(made, "d", "Rooms: 6").kind == "near-but-differs"
