"""Template blocks: what is learnt, what is forgotten, what survives a snapshot."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrapy_neardup.detect.templates import (
    MAX_BLOCKS_OF_A_HOST,
    Host,
    HostTemplates,
)
from scrapy_neardup.detect.text import MAX_LINES, Blocks, words_and_blocks
from scrapy_neardup.errors import BrokenInvariant

HOST = 7
CHROME = ["home products about", "all rights reserved"]


def blocks_of(text: str) -> Blocks:
    return words_and_blocks(text)[1]


def page(*lines: str) -> Blocks:
    return blocks_of("\n".join([CHROME[0], *lines, CHROME[1]]))


def test_blocks_on_every_page_have_no_weight_those_of_one_page_have() -> None:
    templates = HostTemplates()
    for i in range(5):
        templates.learn(HOST, page(f"text number {i}"))
    assert templates.own_words(HOST, page("some new words here")) == 4
    assert templates.is_warm(HOST)


def test_a_host_nobody_has_seen_has_no_templates() -> None:
    templates = HostTemplates()
    assert templates.own_words(HOST, page("words")) == 7
    assert not templates.is_warm(HOST)


def test_hosts_learn_apart() -> None:
    templates = HostTemplates()
    for i in range(5):
        templates.learn(HOST, page(f"text number {i}"))
    assert templates.own_words(HOST + 1, page("words")) == 7


def test_a_page_in_five_versions_does_not_become_a_template() -> None:
    templates = HostTemplates()
    for i in range(50):
        templates.learn(HOST, page("version text" if i < 5 else f"text number {i}"))
    assert templates.own_words(HOST, page("version text")) == 2


def test_the_navigation_of_one_section_of_ten_becomes_a_template() -> None:
    templates = HostTemplates()
    for i in range(1000):
        templates.learn(HOST, page(f"section {i % 10}", f"text number {i}"))
    assert templates.own_words(HOST, page("section 3", "more")) == 1


def test_a_repeated_line_counts_once_a_page() -> None:
    templates = HostTemplates()
    templates.learn(HOST, blocks_of("again\n" * 50))
    for i in range(6):
        templates.learn(HOST, blocks_of(f"text number {i}"))
    assert templates.own_words(HOST, blocks_of("again")) == 1


def test_memory_is_bounded_and_frequent_blocks_stay() -> None:
    templates = HostTemplates()
    for i in range(60):
        templates.learn(HOST, page(*(f"line {j} of page {i}" for j in range(200))))
    templates.check()
    assert templates.nbytes <= 12 * MAX_BLOCKS_OF_A_HOST
    assert templates.own_words(HOST, page("new")) == 1


def test_the_host_that_was_unused_longest_is_forgotten_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("scrapy_neardup.detect.templates.MAX_BLOCKS", 10)
    templates = HostTemplates()
    for host in range(6):
        for _ in range(4):
            templates.learn(host, page())
        templates.own_words(0, page())
        templates.check()
    assert len(templates) == 5
    assert templates.is_warm(0)
    assert 1 not in templates
    HostTemplates.from_arrays(templates.arrays()).check()


@given(st.lists(st.tuples(st.integers(0, 3), st.lists(st.integers(0, 30), max_size=8))))
def test_a_snapshot_knows_the_same(pages: list[tuple[int, list[int]]]) -> None:
    templates = HostTemplates()
    for host, lines in pages:
        templates.learn(host, blocks_of("\n".join(f"line {line}" for line in lines)))
    arrays = templates.arrays()
    for array in arrays.values():
        array.flags.writeable = False
    again = HostTemplates.from_arrays(arrays)
    again.check()
    probe = blocks_of("\n".join(f"line {line}" for line in range(31)))
    for host in range(4):
        assert again.own_words(host, probe) == templates.own_words(host, probe)
    again.learn(0, probe)
    again.check()


def test_check_finds_counts_above_the_number_of_pages() -> None:
    templates = HostTemplates()
    templates.learn(HOST, page())
    arrays = templates.arrays()
    arrays["counts"] = np.full(2, 9, dtype=np.uint32)
    with pytest.raises(BrokenInvariant, match="damaged"):
        HostTemplates.from_arrays(arrays).check()


def test_lines_without_words_are_no_blocks() -> None:
    blocks = blocks_of("One, two!\n\n  …\none TWO\n")
    assert blocks.n_words.tolist() == [2, 2]
    assert blocks.hashes[0] == blocks.hashes[1]
    assert len(blocks_of("").hashes) == 0


def test_what_follows_very_many_lines_is_one_block() -> None:
    blocks = blocks_of("word\n" * (MAX_LINES + 500))
    assert len(blocks.hashes) == MAX_LINES + 1
    assert blocks.n_words.sum() == MAX_LINES + 500


def test_a_host_travels_packed() -> None:
    templates, other = HostTemplates(), HostTemplates()
    for i in range(5):
        templates.learn(HOST, page(f"text number {i}"))
    learnt = templates.known(HOST)
    assert learnt is not None
    other.adopt(HOST, Host.unpack(learnt.pack()))
    other.check()
    assert other.own_words(HOST, page("some new words here")) == 4
    other.learn(HOST, page("text number 5"))
    other.check()


@pytest.mark.parametrize("damage", [b"", b"\x00" * 5, b"\x01\x00\x00\x00" + b"\xff" * 12])
def test_a_damaged_host_is_refused(damage: bytes) -> None:
    with pytest.raises(BrokenInvariant, match="templates of"):
        Host.unpack(damage)
