"""Two visits of one page: lines that differ, and what of that is noise."""

from datetime import UTC, datetime

import pytest

from scrapy_neardup.detect.content import PageContent
from scrapy_neardup.detect.revision import (
    EVIDENCE,
    MAX_CHARS,
    MAX_LINES,
    Held,
    Lines,
    Noise,
    Revision,
    difference,
    exact_difference,
    masked,
)


def revision(*lines: str) -> Revision:
    return Revision.of("\n".join(lines), b"")


def lines_of(*lines: str) -> Lines:
    found = revision(*lines).lines
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("line", "mask"),
    [
        ("Made on 3 May 2026, 12:01", "Made on # # # #"),
        ("Sunday, 22 November", "# # #"),
        ("1,234 visits", "# visits"),
        ("token a9f3c2", "token #"),
        ("May I help?", "# I help?"),
        ("no numbers here", "no numbers here"),
        ("价格12元", "价格#元"),
    ],
)
def test_a_mask_leaves_out_what_varies(line: str, mask: str) -> None:
    assert masked(line) == mask


def test_equal_text_has_equal_digests_and_data_has_its_own() -> None:
    one = Revision.of(PageContent("a  b\nc", ["T"], ["price 1"]), b"")
    other = Revision.of(PageContent("a b\n\nc", ["T"], ["price 2"]), b"")
    assert one.text == other.text
    assert one.data != other.data


def test_what_is_not_text_is_known_by_its_body() -> None:
    assert Revision.of(None, b"x").text != Revision.of(None, b"y").text
    assert Revision.of(None, b"x").lines is None


def test_a_page_of_too_many_characters_has_a_digest_only() -> None:
    long, other = revision("x" * (MAX_CHARS + 1)), revision("x" * (MAX_CHARS + 2))
    assert long.lines is None
    assert long.text != other.text


def test_a_page_of_too_many_lines_has_a_digest_only() -> None:
    long = revision(*(f"line {n}" for n in range(MAX_LINES + 1)))
    assert long.lines is None
    assert long.shown == []


def test_lines_come_back_as_they_were_packed() -> None:
    lines = lines_of("a 1", "b 2")
    again = Lines.unpack(lines.pack())
    assert again.exact.tolist() == lines.exact.tolist()
    assert again.masked.tolist() == lines.masked.tolist()


def test_another_order_of_the_same_lines_is_a_difference() -> None:
    found = difference(lines_of("a", "b"), lines_of("b", "a"))
    assert (found.added, found.n_removed) == ([], 0)
    assert len(found.places) == 1


def page(number: int, visit: int, own: str) -> Lines:
    advertisement = f"buy {chr(97 + (number * 7 + visit * 3) % 26)} now"
    return lines_of(
        "menu", f"title {number}", own, "offers", advertisement, f"{visit} visits", "end"
    )


def learnt(n: int) -> Noise:
    """Noise of a host of which n pages were read twice, and differ in what varies."""
    noise = Noise()
    for number in range(n):
        before, now = page(number, 1, f"own {number}"), page(number, 2, f"own {number}")
        noise.read(1, before)
        if noise.knows(1):
            noise.learn(1, noise.difference(1, before, now))
    return noise


def is_minor(noise: Noise, before: Lines, now: Lines) -> bool:
    return noise.is_all(1, noise.difference(1, before, now).places)


def test_what_varies_on_every_page_is_noise_and_what_is_beside_it_is_not() -> None:
    noise = learnt(EVIDENCE + 8)
    before = page(90, 1, "as it was")
    assert is_minor(noise, before, page(90, 2, "as it was"))
    assert not is_minor(noise, before, page(90, 2, "as it is"))
    assert not is_minor(noise, before, page(90, 1, "as it is"))


def test_little_evidence_is_none() -> None:
    noise = learnt(EVIDENCE)  # of which the first pages were read before the host was known
    assert not is_minor(noise, page(90, 1, "own"), page(90, 2, "own"))


def test_noise_of_one_host_is_none_on_another() -> None:
    noise = learnt(EVIDENCE + 8)
    before, now = page(90, 1, "own"), page(90, 2, "own")
    assert not noise.is_all(2, noise.difference(2, before, now).places)


def test_what_was_learnt_comes_back() -> None:
    packed = learnt(EVIDENCE + 8).pack()
    for faded in (False, True):
        again = Noise.unpack(packed, faded)
        assert is_minor(again, page(90, 1, "own"), page(90, 2, "own"))


def test_a_page_of_which_most_is_new_is_rewritten() -> None:
    noise = learnt(EVIDENCE + 8)
    error = lines_of("menu", "we are being repaired", "end")
    assert noise.is_rewritten(1, page(1, 1, "own"), error)
    assert not noise.is_rewritten(1, page(1, 1, "own"), page(1, 2, "own"))


def status_page(number: int, status: str, visit: int) -> Lines:
    """A page with a date that varies, and a status that hardly ever does."""
    date = f"{visit} May"
    return lines_of(
        f"Thing {chr(65 + number)}", "Status:", status, "Source:", f"file{number}", date
    )


def test_a_line_that_is_the_same_on_most_pages_is_no_noise_where_it_changes() -> None:
    noise = Noise()
    for number in range(60):
        before = status_page(number, "Extension", 1)
        now = status_page(number, "Deprecated" if number % 8 == 0 else "Extension", 2)
        noise.read(1, before)
        found = noise.difference(1, before, now)
        noise.learn(1, found)
        if number > 20:
            assert noise.is_all(1, found.places) == (number % 8 != 0)


def test_pages_that_stayed_the_same_are_evidence_against_noise() -> None:
    noise = Noise()
    for number in range(20):
        noise.stayed(1, status_page(number, "Extension", 1))
    for number in range(20, 32):
        before, now = (status_page(number, status, 1) for status in ("Extension", "Deprecated"))
        found = noise.difference(1, before, now)
        noise.learn(1, found)
        assert not noise.is_all(1, found.places)


def price_page(number: int, price: int, visit: int) -> Lines:
    """A page with its price, a clock, and an advertisement with a price of the same form."""
    return lines_of(
        f"thing {chr(65 + number)}",
        f"{price} euros",
        "for you",
        f"lamp {chr(97 + (number * 7 + visit * 3) % 26)}",
        f"{visit * 31 % 90 + number} euros",
        "end",
        f"it is {visit % 24}:{visit % 60:02}",
    )


def read_twice(n: int) -> Noise:
    """Noise of a host of which n pages were read twice in one visit."""
    noise = Noise()
    for number in range(n):
        one, other = price_page(number, 20, number), price_page(number, 20, number + 40)
        noise.read(1, one)
        noise.learn_twice(1, noise.difference(1, one, other, Held.TEXT))
    return noise


def is_proven(noise: Noise, before: Lines, now: Lines) -> bool:
    return noise.is_proven(1, noise.difference(1, before, now, Held.TEXT).places, frozenset())


def test_what_varies_while_a_page_is_read_twice_is_noise_and_a_price_of_all_pages_is_not() -> None:
    noise = read_twice(EVIDENCE + 3)
    before = price_page(9, 20, 1)
    assert is_proven(noise, before, price_page(9, 20, 2))
    assert not is_proven(noise, before, price_page(9, 21, 1))
    assert not is_proven(noise, before, price_page(9, 21, 2))
    assert not is_proven(read_twice(EVIDENCE - 1), before, price_page(9, 20, 2))


def test_a_place_that_stood_on_pages_read_twice_is_in_doubt_no_longer() -> None:
    before, now = price_page(9, 20, 1), price_page(9, 21, 1)
    for n, is_in_doubt in ((EVIDENCE - 1, True), (EVIDENCE, False)):
        noise = read_twice(n)
        places = noise.difference(1, before, now, Held.TEXT).places
        assert noise.is_in_doubt(1, places, frozenset()) == is_in_doubt


def test_what_was_learnt_of_pages_read_twice_comes_back() -> None:
    packed = read_twice(EVIDENCE + 3).pack()
    for faded in (False, True):
        again = Noise.unpack(packed, faded)
        assert is_proven(again, price_page(9, 20, 1), price_page(9, 20, 2))


def test_a_time_of_the_visit_is_noise_where_it_varies_from_visit_to_visit() -> None:
    noise = Noise()
    for number in range(EVIDENCE + 8):
        before, now = (lines_of(f"thing {chr(65 + number)}", f"day {day}") for day in (1, 2))
        found = noise.difference(1, before, now, Held.TEXT)
        noise.learn(1, found)
    mask = int(lines_of("day 1").masked[0])
    assert noise.is_proven(1, found.places, {mask})
    assert not noise.is_proven(1, found.places, frozenset())


@pytest.mark.parametrize(
    ("before", "now", "added", "n_removed"),
    [
        (["a", "b", "c"], ["a", "c", "b"], 1, 1),
        (["size", "chosen", "size", "size"], ["size", "size", "chosen", "size"], 1, 1),
        (["a", "a"], ["a"], 0, 1),
        (["a"], ["a", "a"], 1, 0),
        ([], ["a"], 1, 0),
        (["a", "b"], ["a", "b"], 0, 0),
    ],
)
def test_the_order_and_the_number_of_lines_count_where_items_hold_the_text(
    before: list[str], now: list[str], added: int, n_removed: int
) -> None:
    found = exact_difference(lines_of(*before), lines_of(*now))
    assert (len(found.added), found.n_removed) == (added, n_removed)


def test_a_revision_has_as_much_of_a_page_as_its_items_hold() -> None:
    content = PageContent("a", [], ["price 1"], ["pre x\n y", "img.src /a"], lambda: ["a.href /b"])
    shown = [Revision.of(content, b"", held).shown for held in Held]
    assert shown[Held.FIELDS] == ["a", "price 1"]
    assert shown[Held.TEXT] == ["a", "price 1", "pre x\n y"]
    assert shown[Held.PAGE] == ["a", "price 1", "pre x\n y", "img.src /a", "a.href /b"]
    assert len({Revision.of(content, b"", held).data for held in Held}) == len(Held)


def test_a_revision_names_the_lines_that_say_the_time_of_a_visit() -> None:
    at = datetime(2026, 5, 3, 12, 1, tzinfo=UTC).timestamp()
    page = revision("Made on 3 May 2026", "Founded on 4 May 2021", "12 lamps")
    assert page.lines is not None
    assert page.moments(at) == {page.lines.masked.item(0)}
