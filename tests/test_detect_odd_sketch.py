"""Odd sketches: what they say of two pages, within the error they state."""

import random

import numpy as np
import pytest

from scrapy_neardup.detect import odd_sketch
from scrapy_neardup.detect.odd_sketch import (
    BITS,
    LEVELS_NEAR,
    MAX_TAKEN,
    OddRows,
    compare,
    estimate,
    level_of,
    odd_row,
)


def words_of(n: int, seed: int) -> list[str]:
    chance = random.Random(seed)
    return [f"w{chance.randrange(10**9)}" for _ in range(n)]


def row(words: list[str], level: int = 0, key: int = 5) -> np.ndarray:
    return odd_row(" ".join(words).encode(), level, key)


def exact(a: list[str], b: list[str]) -> float:
    first, second = ({tuple(t[i : i + 5]) for i in range(len(t) - 4)} for t in (a, b))
    return len(first & second) / len(first | second)


@pytest.mark.parametrize("n_words", [300, 1_000, 2_048, 4_000, 30_000])
@pytest.mark.parametrize("share", [0.0, 0.03, 0.05, 0.07])
def test_the_estimate_is_within_its_error(n_words: int, share: float) -> None:
    errors, level = [], level_of(n_words)
    for seed in range(30):
        page = words_of(n_words, seed)
        other = page[: int(n_words * (1 - share))] + words_of(int(n_words * share), seed + 1000)
        told = estimate(row(page, level), row(other, level))
        errors.append((told.similarity - exact(page, other)) / max(told.error, 0.005))
        assert told.error < 0.025
    assert np.sqrt(np.mean(np.square(errors))) < 1.5


def test_at_the_default_similarity_the_error_is_a_hundredth_at_any_length() -> None:
    for n_words in (500, 1_000, 2_000, 2_100, 4_000, 50_000):
        page, share = words_of(n_words, 1), 0.06
        other = page[: int(n_words * (1 - share))] + words_of(int(n_words * share), 2)
        level = level_of(n_words)
        assert estimate(row(page, level), row(other, level)).error < 0.0125


def test_equal_pages_are_wholly_similar_and_unlike_ones_hardly() -> None:
    page, other = row(words_of(500, 1)), row(words_of(500, 2))
    assert estimate(page, page) == (1.0, 0.0)
    assert compare(page, other.reshape(1, -1))[1][0] < 0.35


def test_a_page_inside_a_much_longer_one_is_not_similar() -> None:
    page = words_of(3_000, 1)
    assert estimate(row(page[:300]), row(page)).similarity < 0.2


@pytest.mark.parametrize("n_words", [1_000, 3_000, 12_000, 45_000])
def test_the_fewest_shingles_that_may_differ_are_no_more_than_do(n_words: int) -> None:
    told, level = [], level_of(n_words)
    for seed in range(40):
        page = words_of(n_words, seed)
        rows = row([*page[:500], "other", *page[501:]], level, seed).reshape(1, -1)
        own = row(page, level, seed)
        differing = odd_sketch.n_differing(rows, own, compare(own, rows)[1])
        told += [odd_sketch.least_differing(differing, rows)[0]]
        assert 0 <= told[-1] <= differing[0]
    assert max(told) < 11  # ten do
    assert level or min(told) > 6  # of twenty places in a sketch some may be the same


def test_of_pages_unlike_each_other_the_fewest_shingles_that_differ_are_many() -> None:
    level = level_of(45_000)
    own, other = row(words_of(45_000, 1), level), row(words_of(45_000, 2), level).reshape(1, -1)
    differing = odd_sketch.n_differing(other, own, compare(own, other)[1])
    assert odd_sketch.least_differing(differing, other)[0] > 20_000
    unknown = odd_sketch.n_differing(other, own, np.array([-1.0]))
    assert odd_sketch.least_differing(unknown, other).tolist() == [np.inf]


def exchanging(page: list[str], other: list[str]) -> bool:
    """Whether one has text in the place of the other's."""
    first, rows = row(page, level_of(len(page))), row(other, level_of(len(other))).reshape(1, -1)
    similar = compare(row(page, level_of(len(other))), rows)[1]
    return bool(odd_sketch.exchange(rows, first, odd_sketch.n_differing(rows, first, similar))[0])


@pytest.mark.parametrize("n_words", [600, 3_000, 12_000])
def test_pages_exchange_text_where_each_has_much_that_the_other_lacks(n_words: int) -> None:
    for seed in range(5):
        page, menu = words_of(n_words, seed), words_of(24, seed + 100)
        assert exchanging([*menu, *page], [*words_of(24, seed + 200), *page])
        assert exchanging([*menu, *page], [*words_of(12, seed + 300), *page])


def test_a_page_with_text_more_or_little_for_much_exchanges_none() -> None:
    page, menu = words_of(600, 1), words_of(60, 2)
    assert not exchanging([*menu, *page], page)
    assert not exchanging(page, [*menu, *page])
    assert not exchanging([*menu, *page], [*words_of(8, 3), *page])


def test_pages_sampled_unlike_may_exchange_text_and_those_of_unknown_likeness_do_not() -> None:
    page = words_of(MAX_TAKEN - 20, 1)
    longer = [*page, *words_of(60, 2)]
    assert exchanging(page, longer)
    rows, unknown = row(page).reshape(1, -1), np.array([np.inf])
    assert not odd_sketch.exchange(rows, row(page), unknown).any()


def share_held(page: list[str], other: list[str]) -> float:
    longer, rows = row(page, level_of(len(page))), row(other, level_of(len(page))).reshape(1, -1)
    return float(odd_sketch.held(rows, longer, compare(longer, rows)[1])[0])


def test_a_page_holds_another_where_almost_all_of_it_stands_in_it() -> None:
    article, comments, other = words_of(800, 1), words_of(300, 2), words_of(800, 3)
    assert 0.9 < share_held(article + comments, article) <= 1
    assert share_held(article[:400] + comments + other[:400], article) < 0.6
    assert share_held(other, article) == 0
    assert 0.9 < share_held(words_of(3000, 1) + comments, words_of(3000, 1)) <= 1


def test_much_beside_a_short_page_hides_that_it_is_held() -> None:
    assert share_held(words_of(100, 1) + words_of(4000, 2), words_of(100, 1)) == 0


def test_what_both_pages_share_can_be_left_out_afterwards() -> None:
    template, first, second = words_of(900, 1), words_of(100, 2), words_of(100, 3)
    pages = row(template + first), row(template + second).reshape(1, -1)
    assert compare(*pages)[1][0] == pytest.approx(0.8, abs=0.05)
    assert compare(*pages, share=0.1)[1][0] == pytest.approx(0.0, abs=0.1)


def test_long_pages_are_sampled_to_what_a_sketch_can_tell() -> None:
    assert [level_of(n) for n in (0, 1, MAX_TAKEN, MAX_TAKEN + 1, 4 * MAX_TAKEN + 1)] == [
        *(0, 0, 0),
        *(1, 3),
    ]
    sampled = row(words_of(40_000, 1), level_of(40_000))
    assert MAX_TAKEN / 4 < int(sampled[0] & np.uint64(2**32 - 1)) < MAX_TAKEN


def test_places_depend_on_the_key() -> None:
    page = words_of(200, 1)
    differ = np.bitwise_count(row(page, key=1)[1:] ^ row(page, key=2)[1:]).sum()
    assert differ > BITS / 5


def test_pages_without_shingles_are_not_similar() -> None:
    nothing = odd_row(b"", 0, 0)
    assert estimate(nothing, nothing) == (0.0, 0.0)
    assert odd_sketch.levels_of(nothing.reshape(1, -1)).tolist() == [0]


def test_sketches_that_were_made_ahead_are_those_of_their_levels_and_no_others() -> None:
    words = " ".join(f"word{n}" for n in range(9_000)).encode()
    ahead, later = OddRows(words), OddRows(words)
    ahead.make(3, key=5)
    for level in range(12):
        made = ahead.at(level, key=5)
        assert (made is None) == (abs(level - 3) > LEVELS_NEAR)
        if made is not None:
            assert made.tolist() == odd_row(words, level, 5).tolist()
        assert later.at(level, key=5) is not None


@pytest.mark.parametrize("n_menu", [0, 50, 200])
@pytest.mark.parametrize("n_lacking", [0, 60, 300, 3_000])
def test_it_is_told_under_other_menus_whether_another_page_lacks_some_of_a_part(
    n_menu: int, n_lacking: int
) -> None:
    told = []
    for seed in range(20):
        own, part = words_of(100, seed), words_of(max(300, n_lacking), 1000 + seed)
        page = words_of(n_menu, 2000 + seed) + own + part
        other = words_of(n_menu, 3000 + seed) + own + part[n_lacking:]
        other += words_of(n_lacking, 4000 + seed)
        level = level_of(len(page))
        ours, rest, theirs = (row(words, level) for words in (page, page[: -len(part)], other))
        rows = theirs.reshape(1, -1)
        pairs = ((each, compare(each, rows)[1]) for each in (ours, rest))
        told.append(odd_sketch.n_lacking(rows, *pairs)[0])
    if n_lacking:
        assert 20 < np.median(told) <= n_lacking
    else:
        assert np.mean(np.array(told) > 12) < 0.1  # by chance
