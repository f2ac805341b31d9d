"""Template blocks: what is learnt, what is forgotten, what survives a snapshot."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrapy_neardup.detect.templates import (
    MAX_BLOCKS_OF_A_HOST,
    NOTHING,
    HostBlocks,
    HostTemplates,
)
from scrapy_neardup.detect.text import MAX_LINES, Blocks, words_and_blocks
from scrapy_neardup.errors import BrokenInvariant, SnapshotError

HOST = 7
CHROME = ["home products about", "all rights reserved"]


def blocks_of(text: str) -> Blocks:
    return words_and_blocks(text)[1]


def page(*lines: str) -> Blocks:
    return blocks_of("\n".join([CHROME[0], *lines, CHROME[1]]))


def own_words(templates: HostTemplates, host: int, blocks: Blocks) -> int:
    """How many words of a page stand outside the templates of its host."""
    known = templates.known(host) or NOTHING
    return int(blocks.n_words[~known.template(blocks.hashes)].sum())


def test_blocks_on_every_page_have_no_weight_those_of_one_page_have() -> None:
    templates = HostTemplates()
    for i in range(5):
        templates.learn(HOST, page(f"text number {i}").hashes)
    assert own_words(templates, HOST, page("some new words here")) == 4
    assert templates.is_warm(HOST)


def test_a_host_nobody_has_seen_has_no_templates() -> None:
    templates = HostTemplates()
    assert own_words(templates, HOST, page("words")) == 7
    assert not templates.is_warm(HOST)


def test_hosts_learn_apart() -> None:
    templates = HostTemplates()
    for i in range(5):
        templates.learn(HOST, page(f"text number {i}").hashes)
    assert own_words(templates, HOST + 1, page("words")) == 7


def test_a_page_in_five_versions_does_not_become_a_template() -> None:
    templates = HostTemplates()
    for i in range(50):
        templates.learn(HOST, page("version text" if i < 5 else f"text number {i}").hashes)
    assert own_words(templates, HOST, page("version text")) == 2


def test_the_navigation_of_one_section_of_ten_becomes_a_template() -> None:
    templates = HostTemplates()
    for i in range(1000):
        templates.learn(HOST, page(f"section {i % 10}", f"text number {i}").hashes)
    assert own_words(templates, HOST, page("section 3", "more")) == 1


def test_a_repeated_line_counts_once_a_page() -> None:
    templates = HostTemplates()
    templates.learn(HOST, blocks_of("again\n" * 50).hashes)
    for i in range(6):
        templates.learn(HOST, blocks_of(f"text number {i}").hashes)
    assert own_words(templates, HOST, blocks_of("again")) == 1


def test_memory_is_bounded_and_frequent_blocks_stay() -> None:
    templates = HostTemplates()
    for i in range(60):
        templates.learn(HOST, page(*(f"line {j} of page {i}" for j in range(200))).hashes)
    templates.check()
    assert templates.nbytes <= 12 * MAX_BLOCKS_OF_A_HOST
    assert own_words(templates, HOST, page("new")) == 1


def learnt_in_turn(templates: HostTemplates, n_hosts: int, n_lines: int = 100) -> float:
    """Share of hosts that are warm after six rounds of a page of each, with a template of lines."""
    chrome = [" ".join(f"menu {i}" for i in range(n_lines)).replace(" menu", "\nmenu")]
    for n in range(6):
        for host in range(n_hosts):
            templates.learn(host, blocks_of("\n".join([*chrome, f"text {n} of {host}"])).hashes)
    templates.check()
    return sum(map(templates.is_warm, range(n_hosts))) / n_hosts


def test_more_hosts_than_fit_cost_no_other_host_its_templates() -> None:
    room_for = 40
    shares = {}
    for n_hosts in (30, 44, 60, 80):
        templates = HostTemplates(room_for * (12 * 102 + 512))
        shares[n_hosts] = learnt_in_turn(templates, n_hosts)
        assert templates.nbytes <= templates.max_bytes
        assert (templates.n_without_room > 0) == (shares[n_hosts] < 1)
    assert shares[30] == 1
    assert all(share >= 0.85 * room_for / n for n, share in shares.items() if n >= room_for)


def test_lines_of_single_pages_make_room_before_a_host_is_refused() -> None:
    templates = HostTemplates(200_000)
    for i in range(100):
        for host in range(10):
            templates.learn(host, page(*(f"line {j} of page {i}" for j in range(30))).hashes)
    templates.learn(10, page().hashes)
    templates.check()
    assert 10 in templates
    assert templates.n_without_room == 0
    assert all(own_words(templates, host, page("new")) == 1 for host in range(10))


def test_a_section_is_learnt_though_memory_is_short() -> None:
    templates = HostTemplates(200_000)
    for i in range(400):
        for host in range(5):
            lines = (f"line {j} of page {i}" for j in range(30))
            templates.learn(host, page(f"section {i % 5}", *lines).hashes)
    assert own_words(templates, 0, page("section 3", "more")) == 1


def test_a_host_that_has_no_room_to_grow_is_forgotten_itself() -> None:
    templates = HostTemplates(20_000)
    for i in range(4):
        templates.learn(HOST, page(f"text number {i}").hashes)
    for _ in range(4):
        templates.learn(1, blocks_of("\n".join(f"line {i}" for i in range(1700))).hashes)
    templates.check()
    assert 1 not in templates
    assert templates.is_warm(HOST)
    assert templates.n_without_room == 4


def test_a_host_of_which_no_page_came_for_long_gives_way(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scrapy_neardup.detect.templates.UNUSED_PAGES", 10)
    templates = HostTemplates(5 * 600)
    for i in range(20):
        templates.learn(i, page().hashes)
        templates.learn(HOST + 100, page().hashes)
        templates.check()
    assert 17 in templates
    assert 0 not in templates
    assert templates.is_warm(HOST + 100)
    HostTemplates.from_arrays(templates.arrays()).check()


def test_a_template_of_more_lines_than_half_the_bound_is_known_whole() -> None:
    templates = HostTemplates()
    chrome = "\n".join(f"menu {i}" for i in range(1500))
    for i in range(60):
        own = "\n".join(f"line {j} of page {i}" for j in range(40))
        templates.learn(HOST, blocks_of(f"{chrome}\n{own}").hashes)
    templates.check()
    assert own_words(templates, HOST, blocks_of(f"{chrome}\nthree new words")) == 3


def test_a_host_whose_template_has_too_many_lines_is_never_warm() -> None:
    templates = HostTemplates()
    chrome = "\n".join(f"menu {i}" for i in range(MAX_BLOCKS_OF_A_HOST + 1))
    for _ in range(10):
        templates.learn(HOST, blocks_of(chrome).hashes)
        templates.check()
        assert not templates.is_warm(HOST)


def test_a_snapshot_of_more_than_the_bound_is_read_and_made_smaller() -> None:
    templates = HostTemplates()
    learnt_in_turn(templates, 40)
    again = HostTemplates.from_arrays(templates.arrays(), max_bytes=20_000)
    again.check()
    assert again.is_warm(3)
    again.learn(99, page().hashes)
    again.check()
    assert 99 not in again


@given(st.lists(st.tuples(st.integers(0, 3), st.lists(st.integers(0, 30), max_size=8))))
def test_a_snapshot_knows_the_same(pages: list[tuple[int, list[int]]]) -> None:
    templates = HostTemplates()
    for host, lines in pages:
        templates.learn(host, blocks_of("\n".join(f"line {line}" for line in lines)).hashes)
    arrays = {name: np.array(array) for name, array in templates.arrays().items()}
    for array in arrays.values():
        array.flags.writeable = False
    again = HostTemplates.from_arrays(arrays)
    again.check()
    probe = blocks_of("\n".join(f"line {line}" for line in range(31)))
    for host in range(4):
        assert own_words(again, host, probe) == own_words(templates, host, probe)
    again.learn(0, probe.hashes)
    again.check()


def test_counts_above_the_number_of_pages_are_refused() -> None:
    templates = HostTemplates()
    templates.learn(HOST, page().hashes)
    arrays = templates.arrays()
    arrays["counts"] = np.full(2, 9, dtype=np.uint32)
    with pytest.raises(SnapshotError, match="ascend"):
        HostTemplates.from_arrays(arrays)


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
        templates.learn(HOST, page(f"text number {i}").hashes)
    learnt = templates.known(HOST)
    assert learnt is not None
    other.adopt(HOST, HostBlocks.unpack(learnt.pack()))
    other.check()
    assert own_words(other, HOST, page("some new words here")) == 4
    other.learn(HOST, page("text number 5").hashes)
    other.check()


@pytest.mark.parametrize("damage", [b"", b"\x00" * 5, b"\x01\x00\x00\x00" + b"\xff" * 12])
def test_a_damaged_host_is_refused(damage: bytes) -> None:
    with pytest.raises(BrokenInvariant, match="templates of"):
        HostBlocks.unpack(damage)
