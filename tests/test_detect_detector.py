"""Decisions: what is a duplicate, of what, and what must never be lost."""

import json
import random
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scrapy_neardup.detect.content import PageContent
from scrapy_neardup.detect.decision import Decision, DecisionKind
from scrapy_neardup.detect.detector import Detector
from scrapy_neardup.detect.page_reading import PageReading
from scrapy_neardup.detect.templates import WARM
from scrapy_neardup.detect.text import normalise
from scrapy_neardup.engines import FINGERPRINT, SKETCH, FingerprintSpec, Signatures, load_engine
from scrapy_neardup.errors import BrokenInvariant, EngineFailed
from scrapy_neardup.index import load_index
from scrapy_neardup.index.permuted import PermutedIndex
from scrapy_neardup.index.scan import ScanIndex
from scrapy_neardup.offline.evaluation import measure

KEYED = FingerprintSpec(key=99)


def detector(key: int = 0, **rules: Any) -> Detector:
    engine = load_engine("numpy", FingerprintSpec(key=key), SKETCH)
    return Detector(engine, load_index("scan"), **rules)


def named(number: int) -> str:
    """A number in letters, which are no fact."""
    return "".join(chr(ord("a") + int(digit)) for digit in str(number))


def text(n_words: int, seed: int, line: int = 12) -> str:
    chance = random.Random(seed)
    words = [f"word{named(int(chance.paretovariate(0.6)) % 5000)}" for _ in range(n_words)]
    return "\n".join(" ".join(words[i : i + line]) for i in range(0, n_words, line))


def edited(page: str, n_edits: int, seed: int = 1) -> str:
    chance = random.Random(seed)
    lines = page.split("\n")
    for _ in range(n_edits):
        row = chance.randrange(len(lines))
        words = lines[row].split(" ")
        words[chance.randrange(len(words))] = f"edit{named(chance.randrange(999))}"
        lines[row] = " ".join(words)
    return "\n".join(lines)


def decide(known: Detector, url: str, page: str) -> Decision:
    return known.decide(known.read(url, page))


def introduced(known: Detector, *hosts: str) -> Detector:
    """The detector, after the pages of each host of which none is near."""
    for host in hosts or ("a.example",):
        for i in range(WARM):
            decide(known, f"http://{host}/first/{i}", text(60, len(host) + 9000 + i))
    return known


class FailingEngine:
    spec, sketch_spec = FingerprintSpec(), SKETCH

    def __init__(self, *specs: FingerprintSpec) -> None:
        pass

    def signatures(self, words: bytes) -> Signatures:
        raise MemoryError("no room")


def test_a_page_whose_engine_fails_is_not_remembered() -> None:
    known = Detector(FailingEngine(), load_index("scan"))  # type: ignore[arg-type]
    with pytest.raises(EngineFailed, match="FailingEngine failed: MemoryError"):
        decide(known, "http://a.example/1", text(300, 1))
    assert not len(known)


def test_the_same_text_is_exact_whatever_the_spaces() -> None:
    known = detector()
    decide(known, "http://a.example/1", text(100, 1))
    decision = decide(known, "http://a.example/2", text(100, 1).replace(" ", "\u00a0\t\u200b "))
    assert (decision.kind, decision.original) == ("exact", "http://a.example/1")
    assert (decision.distance, decision.sketch_distance, decision.similarity) == (0, 0, 1.0)
    assert decision.is_duplicate


SYMBOLS = [
    ("-5", "5"),
    ("C++", "C"),
    ("€ 500", "$ 500"),
    ("rated ★", "rated ★★★"),
    ("x²", "x2"),
    ("1.000", "1,000"),
    ("Polish", "polish"),
    ("👨\u200d👩", "👨👩"),
]


NO_FACTS = (("Polish", "polish"),)


@pytest.mark.parametrize(("one", "other"), SYMBOLS)
def test_equal_words_under_other_symbols_are_never_exact(one: str, other: str) -> None:
    known = detector(boilerplate="keep")
    decide(known, "http://a.example/short/1", one)
    assert decide(known, "http://a.example/short/2", other).kind == "too-short"
    decide(known, "http://a.example/1", f"{text(100, 1)} {one}")
    found = decide(known, "http://a.example/2", f"{text(100, 1)} {other}")
    assert found.kind == ("near" if (one, other) in NO_FACTS else "near-but-differs")


def test_near_text_with_other_data_is_new() -> None:
    known = detector(boilerplate="keep")
    original = PageContent(text(600, 1), data=["product.sku A-1"])
    same = PageContent(edited(text(600, 1), 2), data=["product.sku A-1"])
    other = PageContent(edited(text(600, 1), 2), data=["product.sku A-2"])
    kinds = [
        known.decide(known.read(f"http://a.example/{n}", content)).kind
        for n, content in enumerate((original, other, same))
    ]
    assert kinds == ["new", "new", "near"]


@pytest.mark.parametrize(
    ("data", "n_edits", "kind"),
    [
        (["meta.description a page"], 2, "near"),
        ([], 2, "near"),
        (["meta.description a page"], 0, "new"),
        (["data.i1 6", "meta.description a page"], 2, "new"),
        ([f"{'x' * 200} 6"], 2, "new"),
    ],
)
def test_data_of_other_names_only_tell_equal_texts_apart(
    data: list[str], n_edits: int, kind: str
) -> None:
    known = detector(boilerplate="keep")
    original = PageContent(text(600, 1), data=["data.i0 6"])
    assert known.decide(known.read("http://a.example/1", original)).kind == "new"
    other = PageContent(edited(text(600, 1), n_edits), data=data)
    assert known.decide(known.read("http://a.example/2", other)).kind == kind


def test_equal_text_under_another_title_is_kept() -> None:
    known = detector(boilerplate="keep")
    for n, (title, kind) in enumerate(
        [("Lamp", "new"), ("Lamp", "exact"), ("Desk", "near-but-differs")]
    ):
        content = PageContent(text(600, 1), heads=[title])
        assert known.decide(known.read(f"http://a.example/{n}", content)).kind == kind


def titled(body: str, title: str = "On lamps") -> PageContent:
    return PageContent(body, heads=[title])


def test_a_page_that_holds_an_earlier_one_whole_is_named_and_kept() -> None:
    article, comments, known = text(300, 1), text(120, 2), introduced(detector())
    pages = [
        (titled(article), "new"),
        (titled(f"{article}\n{comments}"), "contains"),
        (titled(f"{text(150, 4)}\n{text(200, 5)}"), "new"),  # the same title, another text
        (titled(f"{article}\n{comments}", "On desks"), "near-but-differs"),
        (titled(f"{article}\n{text(150, 3)}", "On chairs"), "new"),
    ]
    for n, (page, kind) in enumerate(pages):
        decision = known.decide(known.read(f"http://a.example/{n}", page))
        assert (n, decision.kind) == (n, kind)
        if kind == "contains":
            assert decision.original == "http://a.example/0"
            assert not decision.is_duplicate
    known.check()


def test_containing_pages_are_dropped_on_request_only_if_no_fact_differs() -> None:
    article, known = f"costs 19 euro\n{text(300, 1)}", introduced(detector(contained="drop"))
    for n, (page, kind) in enumerate(
        [
            (article, "new"),
            (f"{article.replace('19', '29')}\n{text(120, 2)}", "new"),
            (f"{article}\n{text(120, 3)}", "near"),
        ]
    ):
        decision = known.decide(known.read(f"http://a.example/{n}", titled(page)))
        assert (n, decision.kind) == (n, kind)


def test_a_forgotten_page_is_contained_by_none_and_a_restored_one_is() -> None:
    article, known = text(300, 1), introduced(detector())
    first = known.decide(known.read("http://a.example/1", titled(article))).page_id
    assert first is not None
    again = Detector.from_arrays(known.arrays(), known.engine, ScanIndex)
    longer = titled(f"{article}\n{text(120, 2)}")
    assert again.decide(again.read("http://a.example/2", longer)).kind == "contains"
    assert known.forget(first)
    assert known.decide(known.read("http://a.example/2", longer)).kind == "new"
    assert again.forget_before(1e12) == len(known) + 1
    assert again.decide(again.read("http://a.example/2", longer)).kind == "new"


def with_links(words: str, n: int) -> PageContent:
    return PageContent(words, attributes=lambda: [f"img.src /{n}"])


def kinds_of(known: Detector, pages: list[PageContent]) -> list[str]:
    readings = (known.read(f"http://a.example/of/{n}", page) for n, page in enumerate(pages))
    return [known.decide(reading).kind for reading in readings]


@pytest.mark.parametrize(
    ("n_words", "kinds"),
    [
        (3, ["too-short", "too-short", "exact"]),
        (49, ["new", "new", "exact"]),
        (50, ["new", "exact", "exact"]),
    ],
)
def test_attributes_tell_pages_of_few_words_of_their_own_apart(
    n_words: int, kinds: list[str]
) -> None:
    alone = [with_links(text(n_words, 1), n % 2) for n in range(3)]
    assert kinds_of(detector(boilerplate="keep"), alone) == kinds
    menu, known = text(300, 9), detector()
    for i in range(8):
        decide(known, f"http://a.example/menu/{i}", f"{menu}\n{text(60, 500 + i)}")
    among = [with_links(f"{menu}\n{text(n_words, 1)}", n % 2) for n in range(3)]
    assert kinds_of(known, among) == [kind.replace("too-short", "new") for kind in kinds]


def test_a_copy_of_a_host_s_first_page_without_attributes_is_exact() -> None:
    known, page = detector(), text(100, 1)
    assert decide(known, "http://a.example/", page).kind == "new"
    introduced(known)
    assert decide(known, "http://a.example/copy", page).kind == "exact"


def test_attributes_tell_the_first_pages_of_a_host_apart() -> None:
    pages = [with_links(text(300, 1), n % 2) for n in range(3)]
    assert kinds_of(detector(), pages) == ["new", "new", "exact"]


@pytest.mark.parametrize(("n_words", "may_count"), [(49, True), (50, False)])
def test_it_is_told_beforehand_whether_attributes_may_count(n_words: int, may_count: bool) -> None:
    menu, known = text(300, 9), detector()
    page = PageContent(f"{menu}\n{text(n_words, 1)}")
    assert known.may_count_attributes(known.read("http://a.example/", page))  # nothing is known yet
    for i in range(8):
        decide(known, f"http://a.example/menu/{i}", f"{menu}\n{text(60, 500 + i)}")
    assert known.may_count_attributes(known.read("http://a.example/", page)) == may_count


def test_attributes_are_no_difference_where_words_differ() -> None:
    known = introduced(detector(boilerplate="keep"))
    assert kinds_of(known, [with_links(text(45, 1), 1)]) == ["new"]
    ends = ["first", *text(45, 1).split()[1:-1], "last"]
    other = known.read("http://a.example/other", with_links(" ".join(ends), 2))
    assert known.decide(other).kind == "near"


@pytest.mark.parametrize(("n_edits", "kind"), [(0, "new"), (2, "near")])
def test_literals_of_scripts_tell_texts_apart_that_are_all_but_equal(
    n_edits: int, kind: str
) -> None:
    known = introduced(detector())
    one = PageContent(text(600, 1), details=["price 19"])
    other = PageContent(edited(text(600, 1), n_edits), details=["price 21"])
    same = PageContent(text(600, 1), details=["price 19"])
    assert kinds_of(known, [one, other, same]) == ["new", kind, "exact"]


@pytest.mark.parametrize(
    ("n_words", "n_chars", "kind"), [(3, 500, "undecided"), (3, 5, "exact"), (90, 9000, "exact")]
)
def test_few_words_beside_much_unread_script_are_undecided(
    n_words: int, n_chars: int, kind: str
) -> None:
    known = detector()
    content = PageContent(text(n_words, 1), unread_chars=n_chars)
    known.decide(known.read("http://a.example/1", content))
    assert known.decide(known.read("http://a.example/2", content)).kind == kind
    assert len(known) == (kind != "undecided")


def test_a_small_edit_is_near_and_names_the_original() -> None:
    known = introduced(detector())
    decide(known, "http://a.example/1", text(600, 1))
    decide(known, "http://a.example/2", text(600, 2))
    decision = decide(known, "http://a.example/3", edited(text(600, 1), 2))
    assert (decision.kind, decision.original) == ("near", "http://a.example/1")
    assert decision.similarity == pytest.approx(0.97, abs=0.02)
    assert decision.page_id is None
    assert decision.is_duplicate


def test_a_page_that_changed_by_a_third_is_new() -> None:
    known = detector()
    decide(known, "http://a.example/1", text(600, 1))
    decision = decide(known, "http://a.example/2", text(600, 1)[:2500] + text(300, 2))
    assert decision.kind == "new"
    assert not decision.is_duplicate


def test_of_several_originals_the_most_similar_is_named() -> None:
    known = introduced(detector(admit="all"))
    page = text(800, 1)
    decide(known, "http://a.example/far", edited(page, 5, seed=2))
    decide(known, "http://a.example/close", edited(page, 1, seed=3))
    assert decide(known, "http://a.example/new", page).original == "http://a.example/close"


def test_an_equal_page_of_another_site_is_named_but_drops_nothing() -> None:
    known = detector()
    decide(known, "http://a.example.com/1", text(300, 1))
    decision = decide(known, "http://other.example.org/1", text(300, 1))
    assert (decision.kind, decision.original) == ("new", None)
    assert decision.elsewhere == "http://a.example.com/1"
    same_site = decide(known, "http://b.example.com/1", text(300, 1))
    assert (same_site.kind, same_site.original) == ("exact", "http://a.example.com/1")
    assert known.forget(0)
    assert decide(known, "http://third.example.net/1", text(300, 1)).elsewhere is None


PAGES_OF_SITES = [
    (f"http://{site}.example.{top}/{number}", edited(text(300, number % 5), number % 3))
    for number in range(40)
    for site, top in (("a", "com"), ("b", "com"), ("c", "org"))
]


def test_a_site_is_decided_as_if_there_were_no_other() -> None:
    """But for the pages of others that are named."""
    together, alone = detector(boilerplate="keep"), detector(boilerplate="keep")
    decided = [(page, decide(together, *page)) for page in PAGES_OF_SITES]
    assert {decision.kind for _, decision in decided} == {"new", "exact", "near"}
    for page, decision in decided:
        if page[0].startswith("http://c."):
            again = decide(alone, *page)
            ids = {"page_id": again.page_id, "original_id": again.original_id, "elsewhere": None}
            assert decision._replace(**ids) == again


def test_a_page_that_a_thousand_sites_have_is_compared_with_none_of_theirs() -> None:
    """As what a server shows before anybody has written a page."""
    known = detector(boilerplate="keep")
    for number in range(1000):
        page = edited(text(300, 1), 1, seed=number)
        decision = decide(known, f"http://site{number}.example", page)
        assert (decision.kind, decision.unconfirmed) == ("new", 0)
    whole = known.index.all_within(decision.fingerprint, known.limits.distance)
    assert len(whole.ids) < 5


def test_sites_stay_apart_in_a_snapshot() -> None:
    known = detector(boilerplate="keep")
    for page in PAGES_OF_SITES:
        decide(known, *page)
    assert known.index.all_within(int(known.pages.fingerprints[0]), 0).ids.tolist() == []
    again = Detector.from_arrays(known.arrays(), known.engine, ScanIndex, boilerplate="keep")
    near = "http://b.example.com/near", edited(text(300, 1), 2, seed=9)
    assert decide(again, *near) == decide(known, *near)
    assert decide(again, *near).kind == "near"
    assert again.forget(0)
    assert len(again.index) == len(known.index) - 1
    again.forget_before(1e12)
    assert len(again.index) == 0


def test_under_scope_all_every_site_counts() -> None:
    known = introduced(detector(scope="all"), "other.example.org")
    known = introduced(known, "a.example.com")
    decide(known, "http://a.example.com/1", text(300, 1))
    assert decide(known, "http://other.example.org/1", text(300, 1)).kind == "exact"
    assert decide(known, "http://other.example.org/2", edited(text(300, 1), 1)).kind == "near"


def test_short_pages_are_compared_exactly_only() -> None:
    known = detector(min_words=20)
    decide(known, "http://a.example/1", text(19, 1))
    assert decide(known, "http://a.example/2", edited(text(19, 1), 1)).kind == "too-short"
    assert decide(known, "http://a.example/3", text(19, 1)).kind == "exact"


def test_pages_without_words_are_all_kept() -> None:
    known = detector()
    kinds = [decide(known, f"http://a.example/{i}", " …\n!").kind for i in range(3)]
    assert kinds == ["too-short"] * 3
    assert len(known) == 0


def test_a_url_never_matches_itself() -> None:
    known = detector()
    first = decide(known, "http://a.example/1", text(100, 1))
    again = decide(known, "http://a.example/1", text(100, 1))
    assert (again.kind, again.page_id) == ("new", first.page_id)
    changed = decide(known, "http://a.example/1", edited(text(100, 1), 1))
    assert changed.kind == "new"
    assert len(known) == len(known.index) == 1
    known.check()


def test_a_page_that_changes_day_by_day_does_not_become_its_site_s_template() -> None:
    known, front = detector(), f"{text(300, 1)}\n{text(8, 2)}"
    for i in range(20):
        decide(known, f"http://a.example/{i}", text(200, 10 + i))
        decide(known, "http://a.example/", f"{front} day {named(i)}")
    copy = decide(known, "http://a.example/index", f"{front} day {named(99)}")
    assert (copy.kind, copy.original) == ("near", "http://a.example/")


@pytest.mark.parametrize("admit", ["novel", "all"])
def test_of_two_twins_read_again_and_again_one_always_stays(admit: str) -> None:
    known = introduced(detector(admit=admit))
    for _ in range(3):
        kinds = [
            decide(known, "http://a.example/1", text(400, 1)).kind,
            decide(known, "http://a.example/2", edited(text(400, 1), 1)).kind,
        ]
        assert kinds == ["new", "near"]
    known.check()


def test_a_chain_of_small_changes_does_not_lead_away_from_what_was_kept() -> None:
    known, kept = detector(boilerplate="keep"), {}
    page = text(1000, 1)
    for step in range(60):
        url = f"http://a.example/{step}"
        decision = decide(known, url, page)
        if decision.is_duplicate:
            assert decision.original in kept
            assert decision.similarity is not None
            assert decision.similarity >= known.limits.similarity
        else:
            kept[url] = page
        page = edited(page, 3, seed=step)
    assert len(kept) > 5


def test_forgotten_pages_repeat_nothing_any_more() -> None:
    known = detector()
    first = decide(known, "http://a.example/1", text(300, 1))
    assert first.page_id is not None
    assert known.forget(first.page_id)
    assert not known.forget(first.page_id)
    assert decide(known, "http://a.example/2", text(300, 1)).kind == "new"
    known.check()


def test_without_confirmation_the_fingerprint_is_trusted() -> None:
    page, other = text(300, 1), text(300, 2)
    strict, loose = detector(distance=64), detector(distance=64, confirm_distance=None)
    for known, kind in ((strict, "new"), (loose, "near")):
        introduced(known)
        decide(known, "http://a.example/1", page)
        assert decide(known, "http://a.example/2", other).kind == kind


def test_a_look_up_that_would_take_too_long_keeps_the_page_undecided() -> None:
    engine = load_engine("numpy", FINGERPRINT, SKETCH)
    index = PermutedIndex(blocks=7, distance=6, scan_limit=3)
    known = Detector(engine, index, boilerplate="keep", similarity=0.999)
    kinds = [
        decide(known, f"http://a.example/{i}", edited(text(2000, 1), 2, seed=i)).kind
        for i in range(8)
    ]
    assert kinds[0] == "new"
    assert kinds[-1] == "undecided"
    repeated = decide(known, "http://a.example/again", edited(text(2000, 1), 2, seed=7))
    assert repeated.kind == "exact"
    known.check()


@pytest.mark.parametrize("index", [ScanIndex, PermutedIndex])
@pytest.mark.parametrize("n_pages", [0, 40])
def test_a_detector_from_a_snapshot_decides_the_same(index: Any, n_pages: int) -> None:
    engine = load_engine("numpy", KEYED, SKETCH)
    known = Detector(engine, index(), distance=3)
    for i in range(n_pages):
        decide(known, f"http://a.example/{i}", edited(text(300, i // 2), i % 2))
    arrays = {name: np.array(array) for name, array in known.arrays().items()}
    for array in arrays.values():
        array.flags.writeable = False
    again = Detector.from_arrays(arrays, engine, index, distance=3)
    again.check()
    assert len(again) == len(known)
    for i in range(60):
        page = edited(text(300, i), 1, seed=5)
        assert decide(again, f"http://a.example/x{i}", page) == decide(
            known, f"http://a.example/x{i}", page
        )
    again.check()


def test_check_finds_an_index_with_more_pages_than_the_table() -> None:
    known = detector()
    known.index.add(5, 0)
    with pytest.raises(
        BrokenInvariant,
        match="the index holds 1 fingerprints, two at most of each page, and the page table 0",
    ):
        known.check()


def test_the_key_changes_every_fingerprint_and_no_decision() -> None:
    plain, keyed = detector(), detector(key=12345)
    for i in range(30):
        page = edited(text(300, i // 3), i % 3)
        first, second = (decide(d, f"http://a.example/{i}", page) for d in (plain, keyed))
        assert first.fingerprint != second.fingerprint
        assert (first.kind, first.original) == (second.kind, second.original)


def test_appended_words_that_forge_a_fingerprint_do_not_suppress_a_victim() -> None:
    known = detector(key=0)
    victim = text(300, 1)
    decide(known, "http://a.example/victim", victim)
    target = known.engine.fingerprint(normalise(victim))
    forged, words = text(300, 2), [f"x{i}" for i in range(4000)]
    for _ in range(400):  # an attacker who knows the key flips bit after bit
        current = known.engine.fingerprint(normalise(forged))
        if (current ^ target).bit_count() <= known.limits.distance:
            break
        forged += " " + min(
            random.Random(len(forged)).sample(words, 40),
            key=lambda w: (
                known.engine.fingerprint(normalise(f"{forged} {f'{w} ' * 8}")) ^ target
            ).bit_count(),
        )
    assert decide(known, "http://a.example/forged", forged).kind == "new"


def test_nothing_is_near_until_four_pages_of_a_host_were_read() -> None:
    page, known = text(600, 1), detector()
    for i in range(3):
        decision = decide(known, f"http://a.example/{i}", edited(page, i, seed=i))
        assert (decision.kind, decision.cold) == ("new", i > 0)
    assert decide(known, "http://a.example/copy", page).kind == "exact"
    other = decide(known, "http://a.example/other", text(600, 2))
    assert (other.kind, other.cold) == ("new", False)
    late = decide(known, "http://a.example/late", edited(text(600, 2), 2))
    assert (late.kind, late.cold) == ("near", False)


def test_different_pages_under_a_menu_of_600_words_are_all_kept() -> None:
    menu, shop = text(600, 1, line=2), detector()
    details = text(39, 2)
    kinds = [
        decide(shop, f"http://shop.example/{i}", f"{menu}\n{item(i)}\n{details}").kind
        for i in range(90)
    ]
    assert kinds == ["new"] * 90


def item(number: int) -> str:
    return f"name{named(number)} costs value{named(number)} and is\nhere"


def test_different_pages_of_a_new_site_with_little_text_of_their_own_are_all_kept() -> None:
    template, known = text(400, 1, line=8), detector()
    kinds = [
        decide(known, f"http://a.example/{i}", f"{template}\n{text(12, 10 + i)}").kind
        for i in range(60)
    ]
    assert kinds == ["new"] * 60


def test_hosts_of_a_site_have_templates_of_their_own() -> None:
    known = detector()
    for host in ("a", "b"):
        for i in range(8):
            body = text(60, 10 + i if host == "a" else 50 + i)
            decide(known, f"http://{host}.example.com/{i}", f"{text(400, ord(host))}\n{body}")
    page = f"{text(400, ord('a'))}\n{text(30, 99)}"
    assert decide(known, "http://a.example.com/x", page).kind == "new"
    assert decide(known, "http://b.example.com/y", edited(page, 1)).kind == "near"


def test_templates_are_learnt_from_pages_that_are_dropped_too() -> None:
    known = detector()
    for i in range(8):
        decide(known, f"http://a.example/{i}", text(300, i))
    for i in range(8):
        page = "sale today\n" + edited(text(300, i), 1, seed=i)
        assert decide(known, f"http://a.example/copy{i}", page).kind == "near"
    assert known.own_part(known.read("http://a.example/x", "sale today")).n_words == 0


def test_a_page_is_found_by_its_own_part_under_another_template() -> None:
    known = detector()
    for i in range(30):
        chrome = text(200, 500 + i % 2, line=4)
        kind = decide(known, f"http://a.example/{i}", f"{chrome}\n{text(150, i)}").kind
        assert kind == "new"
    decision = decide(known, "http://a.example/copy", f"{text(200, 501, line=4)}\n{text(150, 28)}")
    assert (decision.kind, decision.original) == ("near", "http://a.example/28")
    assert decision.distance == 0
    assert known.forget(28)
    again = decide(known, "http://a.example/again", f"{text(200, 501, line=4)}\n{text(150, 28)}")
    assert again.kind == "new"
    known.check()


def test_a_copy_under_another_menu_is_found_beside_the_notice_of_every_page() -> None:
    known, notice = detector(), text(60, 700, line=20)
    for i in range(30):
        decide(
            known,
            f"http://a.example/{i}",
            f"{text(200, 500 + i % 2, line=4)}\n{text(150, i)}\n{notice}",
        )
    copy = f"{text(200, 501, line=4)}\n{text(150, 28)}\n{notice}"
    assert decide(known, "http://a.example/copy", copy).original == "http://a.example/28"


def contracts(n_clauses: int, n_words: int) -> list[str]:
    """Of each of 30 clients four pages, with 60 words on the client and half of the clauses,
    a line each, on which no two agree."""
    clauses = [text(n_words, 800 + n, line=n_words) for n in range(n_clauses)]
    return [
        "\n".join([text(60, client), *random.Random(page).sample(clauses, n_clauses // 2)])
        for page, client in enumerate(4 * list(range(30)))
    ]


@pytest.mark.parametrize(("n_clauses", "n_words"), [(24, 12), (40, 60), (200, 60)])
@pytest.mark.parametrize("is_read_ahead", [False, True])
def test_pages_that_consist_of_other_standard_paragraphs_are_all_kept(
    n_clauses: int, n_words: int, is_read_ahead: bool
) -> None:
    known, kinds = detector(), set()
    for n, page in enumerate(contracts(n_clauses, n_words)):
        reading = known.read(f"http://a.example/{n}", page)
        if is_read_ahead:
            known.read_own_part(reading)
        kinds.add(known.decide(reading).kind)
    assert kinds == {"new"}


def test_near_pages_are_found_on_every_host_that_has_room_for_its_templates() -> None:
    hosts, known = [f"h{i}.example" for i in range(30)], detector(template_bytes=20 * 1800)
    chrome = {host: text(300, n, line=4) for n, host in enumerate(hosts)}  # 75 lines
    for i in range(6):
        for n, host in enumerate(hosts):
            page = f"{chrome[host]}\n{text(60, 100 * n + i)}"
            assert decide(known, f"http://{host}/{i}", page).kind == "new"
    copies = [f"{chrome[host]}\n{text(60, 100 * n + 5)}\nlater" for n, host in enumerate(hosts)]
    kinds = [
        decide(known, f"http://{host}/copy", copy).kind
        for host, copy in zip(hosts, copies, strict=True)
    ]
    assert 15 <= kinds.count("near") < 30
    assert set(kinds) == {"near", "new"}


def test_products_of_a_shop_with_a_heavy_template_are_all_kept() -> None:
    header, footer = text(700, 1, line=3), text(300, 2)
    shop = detector()
    pages = [f"{header}\n{text(75, 100 + i)}\n{footer}" for i in range(40)]
    kinds = [decide(shop, f"http://shop.example/{i}", page).kind for i, page in enumerate(pages)]
    assert kinds == ["new"] * 40
    copy = pages[30].replace(text(75, 130), text(75, 130) + "\nsale")
    assert decide(shop, "http://shop.example/sale/30", copy).original == "http://shop.example/30"
    keeping = detector(boilerplate="keep")
    kinds = [decide(keeping, f"http://shop.example/{i}", p).kind for i, p in enumerate(pages)]
    assert "near" in kinds


def test_a_site_whose_templates_were_lost_in_a_crash_loses_no_page() -> None:
    chrome, before, after = text(900, 1, line=3), detector(), detector()
    for i in range(10):
        decide(before, f"http://a.example/{i}", f"{chrome}\n{text(45, 10 + i)}")
    for id in before.pages.ids().tolist():
        after.restore(before.pages.page(id), indexed=True)
    for i in range(10, 20):
        page = f"{chrome}\n{text(45, 10 + i)}"
        assert decide(after, f"http://a.example/{i}", page).kind == "new"
    copy = f"{chrome}\n{text(45, 28)}\nlater"
    assert decide(after, "http://a.example/copy", copy).original == "http://a.example/18"


def test_a_page_whose_own_text_is_too_short_is_kept_on_a_known_site() -> None:
    chrome, known = text(400, 1, line=4), detector(min_words=20)
    for i in range(5):
        decide(known, f"http://a.example/{i}", f"{chrome}\n{text(60, 10 + i)}")
    first = decide(known, "http://a.example/x", f"{chrome}\nno usage of alpha")
    second = decide(known, "http://a.example/y", f"{chrome}\nno usage of beta")
    assert (first.kind, second.kind) == ("new", "new")


def test_twins_around_the_warm_up_are_found() -> None:
    chrome, known = text(400, 1, line=10), detector()
    pages = [f"{chrome}\n{text(200, 10 + i)}" for i in range(30)]
    for i, page in enumerate(pages):
        assert decide(known, f"http://a.example/{i}", page).kind == "new"
    for i, page in enumerate(pages):
        twin = decide(known, f"http://a.example/twin/{i}", edited(page, 1))
        assert (twin.kind, twin.original) == ("near", f"http://a.example/{i}")


@dataclass
class Plain:
    """The rules of a Detector that keeps templates, over a list of readings: the oracle."""

    judge: Detector
    known: list[tuple[PageReading, str]]  # in the order in which they were remembered

    def decide(self, reading: PageReading) -> str:
        places = [i for i, (r, _) in enumerate(self.known) if r.url == reading.url]
        has_changed = False
        if places and self.known[places[0]][0].digest != reading.digest:
            del self.known[places.pop()]
            has_changed = True
        earlier = self.known[: places[0]] if places else self.known
        others = [(r, kind) for r, kind in earlier if self._same_scope(r, reading)]
        kind = self._kind(reading, others)
        novel = kind in ("new", "too-short")
        if not places and reading.words and (novel or self.judge.admit == "all"):
            self.known.append((reading, kind))
        elif not places and reading.words and has_changed:
            self.known.append((reading, "exact"))  # in no index
        return kind

    def _same_scope(self, first: PageReading, second: PageReading) -> bool:
        return self.judge.scope == "all" or first.site == second.site

    def _kind(self, reading: PageReading, others: list[tuple[PageReading, str]]) -> str:
        limits = self.judge.limits
        if reading.words and any(r.digest == reading.digest for r, _ in others):
            return "exact"
        if reading.signatures.n_words < limits.min_words:
            return "too-short"
        indexed = [(r, reading) for r, kind in others if kind in ("new", "near")]
        return "near" if measure(self.judge, indexed).duplicates(limits).any() else "new"


@settings(max_examples=40, deadline=None)
@given(
    visits=st.lists(
        st.tuples(
            st.sampled_from(["a.example.com/1", "a.example.com/2", "b.example.com/3", "c.org/4"]),
            st.sampled_from([5, 60, 200]),  # words
            st.integers(0, 1),  # which text
            st.integers(0, 4),  # edits
        ),
        max_size=25,
    ),
    scope=st.sampled_from(["site", "all"]),
    admit=st.sampled_from(["novel", "all"]),
    index=st.sampled_from(["scan", "permuted"]),
)
def test_decisions_are_those_of_the_rules_over_a_plain_list(
    visits: list[tuple[str, int, int, int]], scope: Any, admit: Any, index: str
) -> None:
    engine = load_engine("auto", KEYED, SKETCH)
    layout = {"blocks": 7, "distance": 6} if index == "permuted" else {}
    rules: dict[str, Any] = {"scope": scope, "admit": admit, "boilerplate": "keep"}
    known = Detector(engine, load_index(index, **layout), **rules)
    plain = Plain(known, [])
    for path, n_words, seed, edits in visits:
        reading = known.read(f"http://{path}", edited(text(n_words, seed), edits, seed=edits))
        assert known.decide(reading).kind == plain.decide(reading)
        assert len(known) == len(plain.known)
    known.check()


def test_pages_sampled_unlike_are_compared_all_the_same() -> None:
    known = detector(boilerplate="keep")
    page = text(2048, 1)
    decide(known, "http://a.example/1", page)
    decision = decide(known, "http://a.example/2", page + "\n" + text(60, 2))
    assert (decision.kind, decision.words) == ("near", 2108)
    assert decision.similarity == pytest.approx(0.97, abs=0.03)


@pytest.mark.parametrize("n_words", [12_000, 45_000])
@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Answer: granite", "Answer: sandstone"),
        ("It is safe for use", "It is not safe for use"),
        ("Departs from New Castle under Lyme", "Departs from Saint Mary Cray Hill"),
        ("north 51\nsouth 62", "north 62\nsouth 51"),
    ],
)
def test_one_brief_line_tells_long_pages_apart_though_they_are_sampled(
    n_words: int, one: str, other: str
) -> None:
    lost = []
    for seed in range(12):
        known = detector(seed, boilerplate="keep")
        lines = text(n_words, seed).split("\n")
        pages = ("\n".join([*lines[:50], line, *lines[50:]]) for line in (one, other))
        _, decision = (decide(known, f"http://a.example/{n}", page) for n, page in enumerate(pages))
        if decision.kind == "near" and not decision.differs:
            lost += [seed]
    assert not lost


FORGED = json.loads((Path(__file__).parent / "vectors" / "sdbm_twins.json").read_text("utf-8"))


def forged_page() -> str:
    """A page without a word of the victim's, each of its words with the same sdbm as one."""
    return " ".join(FORGED["twins"][word] for word in FORGED["page"].split())


@pytest.mark.parametrize("key", [0, 1, 0xC0FFEE, 2**63 + 12345, 2**64 - 1])
@pytest.mark.parametrize("engine_name", ["reference", "numpy", "auto"])
def test_a_page_forged_without_the_key_is_a_candidate_and_no_more(
    engine_name: str, key: int
) -> None:
    engine = load_engine(engine_name, FingerprintSpec(key=key), replace(SKETCH, key=key))
    known = Detector(engine, load_index("scan"), boilerplate="keep", scope="all")
    assert decide(known, "http://evil.example/", forged_page()).kind == "new"
    assert not set(forged_page().split()) & set(FORGED["page"].split())
    victim = decide(known, "http://news.example/", FORGED["page"])
    assert known.pages.fingerprints[0] == known.pages.fingerprints[1]
    assert (victim.kind, victim.unconfirmed) == ("new", 1)


def test_without_confirmation_a_forged_page_is_taken_for_the_original() -> None:
    known = detector(key=5, confirm_distance=None, boilerplate="keep")
    decide(known, "http://news.example/forged", forged_page())
    assert decide(known, "http://news.example/", FORGED["page"]).kind == "near"


def test_a_candidate_that_is_confirmed_is_not_counted_as_refused() -> None:
    known, page = detector(boilerplate="keep"), text(300, 1)
    decide(known, "http://a.example/1", page)
    found = decide(known, "http://a.example/2", edited(page, 2))
    assert (found.kind, found.unconfirmed) == ("near", 0)


@pytest.mark.parametrize("lines", [("4", "5"), ("★★", "★★★"), ("19.90", "29.90"), ("M", "L")])
def test_a_line_of_one_fact_is_no_template_however_many_pages_have_it(
    lines: tuple[str, str],
) -> None:
    known, kinds = detector(), []
    for n in range(12):
        for line in lines:
            page = f"menu of the shop\n{text(300, n)}\n{line}\nfooter of the shop"
            kinds.append(known.decide(known.read(f"http://h.example/{n}/{line}", page)).kind)
    assert kinds[8::2] == ["new"] * 8
    assert kinds[9::2] == ["near-but-differs"] * 8


@pytest.mark.parametrize("n_words", [300, 2_040, 5_000])
@pytest.mark.parametrize("shared", ["", "the menu of each page\n"])
def test_a_page_read_ahead_is_decided_about_as_any_other(n_words: int, shared: str) -> None:
    known, ahead = detector(boilerplate="learn"), detector(boilerplate="learn")
    first = text(n_words, 1)
    pages = [shared + text(200, seed) for seed in range(10, 16)]
    pages += [shared + first, shared + edited(first, 2), shared + first + "\n" + text(30, 2)]
    for number, page in enumerate(pages):
        url = f"http://h.example/{number}"
        reading = ahead.read(url, page)
        ahead.read_own_part(reading)
        assert ahead.decide(reading) == decide(known, url, page)


def test_templates_learnt_since_a_page_was_read_ahead_count_if_none_was_known() -> None:
    known = detector(boilerplate="learn")
    reading = known.read("http://h.example/long", "the menu of each page\n" + text(500, 1))
    known.read_own_part(reading)
    for seed in range(WARM + 2):
        page = "the menu of each page\n" + text(200, 10 + seed)
        known.decide(known.read(f"http://h.example/{seed}", page))
    assert known.own_part(reading).n_words == 500


@pytest.mark.parametrize("kind", get_args(DecisionKind))
def test_a_duplicate_is_near_unless_it_is_exact(kind: DecisionKind) -> None:
    duplicate = Decision(kind, 0, 100, "http://a.example/", original_id=0)
    assert duplicate.is_near == (duplicate.is_duplicate and kind != "exact")
    assert not Decision("soft-404", 0, 100).is_near


@pytest.mark.parametrize("n_words", [4_000, 12_000])
def test_a_negation_that_one_of_two_whole_pages_has_counts_however_they_are_sampled(
    n_words: int,
) -> None:
    """Of a page that is sampled one shingle in four, five that differ may stand for twenty."""
    kinds = []
    for seed in range(40):
        known = detector(seed, boilerplate="keep", whole_pages=True)
        words = text(n_words, seed, line=n_words).split(" ")
        decide(known, "http://a.example/1", " ".join(words))
        words.insert(n_words // 2, "not")
        kinds.append(decide(known, "http://a.example/2", " ".join(words)).kind)
    assert "near" not in kinds
    assert kinds.count("near-but-differs") > 20
