"""The board: how work is split, what its time is made of, what it reports."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrapy_neardup.engines.fpga.board import N_ENGINES, Board, limit, parts
from scrapy_neardup.engines.fpga.design import Design
from scrapy_neardup.engines.fpga.scheduler import schedule

pages = st.lists(st.integers(0, 3000), min_size=1, max_size=150)


def board_of(lengths: list[int]) -> Board:
    board = Board(Design())
    for length in lengths:
        board.add(length)
    return board


@given(pages)
def test_crawl_goes_round_the_engines_and_lasts_as_long_as_the_slowest(lengths):
    slowest = max(
        max(e.cycle + 1 for e in schedule(lengths[i::N_ENGINES], Design()))
        for i in range(min(N_ENGINES, len(lengths)))
    )
    assert board_of(lengths).cycles == slowest


@given(pages)
def test_breakdown_adds_up_to_the_cycles(lengths):
    board = board_of(lengths)
    assert sum(board.breakdown().values()) == pytest.approx(board.cycles)
    assert all(cycles >= 0 for cycles in board.breakdown().values())


@given(pages)
def test_collection_is_split_in_contiguous_parts(lengths):
    fpgas = parts(lengths)
    assert fpgas == sorted(fpgas)
    assert set(fpgas) <= {0, 1, 2, 3}


def test_parts_of_a_collection_are_equal_in_padded_words():
    assert parts([100] * 50 + [50] * 100) == sorted(parts([100] * 50 + [50] * 100))
    assert [parts([15] * 400).count(fpga) for fpga in range(4)] == [100] * 4


@pytest.mark.parametrize("order", ["as given", "longest first"])
def test_collection_reaches_the_board_whole(order):
    board = Board(Design())
    board.add_collection(range(500), order)
    assert (board.n_documents, board.n_bytes) == (500, sum(range(500)))


def test_longest_first_removes_most_of_the_imbalance():
    lengths = [20] * 20_000 + [1500]
    as_given, longest_first = Board(Design()), Board(Design())
    as_given.add_collection(lengths)
    longest_first.add_collection(lengths, "longest first")
    assert as_given.breakdown()["lanes"] > 1000
    assert longest_first.breakdown()["lanes"] < 40


def test_report_of_nothing_is_all_zero():
    report = Board(Design()).report()
    assert (report["cycles"], report["seconds"], report["utilisation"]) == (0, 0, 0)


def test_report_says_what_it_assumes_and_what_limited_it():
    report = board_of([8000] + [20] * 1000).report()
    assert report["assumes"] == "all pages resident, as in the paper"
    assert report["limited_by"] == "lanes"
    assert board_of([4095] * 4096).report()["limited_by"] == "text"


@pytest.mark.parametrize(
    ("breakdown", "cause"),
    [
        ({"text": 47.4, "padding": 0.0, "engines": 20.0, "lanes": 32.6}, "lanes"),
        ({"text": 47.4, "padding": 0.0, "engines": 32.6, "lanes": 20.0}, "engines"),
        ({"text": 52.0, "padding": 0.0, "engines": 16.0, "lanes": 32.0}, "text"),
        ({"text": 20.0, "padding": 50.0, "engines": 16.0, "lanes": 14.0}, "padding"),
    ],
)
def test_waiting_of_engines_and_lanes_weighs_together(breakdown, cause):
    assert limit(breakdown) == cause


@pytest.mark.parametrize(
    ("n_documents", "length", "text_s", "table2_s"),
    [(4_017_414, 4431, 3.71, 1.67), (1_634_249, 2346, 0.80, 0.36), (114_333_421, 48, 1.14, 0.53)],
)
def test_presets_are_the_papers_seconds(n_documents, length, text_s, table2_s):
    scale = 1000
    report = board_of([length] * (n_documents // scale)).report()
    assert report["seconds_text"] * scale == pytest.approx(text_s, abs=0.006)
    assert report["seconds_table2"] * scale == pytest.approx(table2_s, abs=0.006)
