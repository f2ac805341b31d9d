"""A state that crawls of one process share is saved by the last of them, as it ended."""

from pathlib import Path

from scrapy_neardup.crawl.shared_state import hold_state
from scrapy_neardup.factory import make_state_factory
from scrapy_neardup.settings import NearDupSettings
from scrapy_neardup.state import State

FACTORY = make_state_factory(NearDupSettings())


def test_a_crawl_that_gave_its_part_back_says_nothing_of_how_the_other_ended(
    tmp_path: Path,
) -> None:
    """Its crawler is garbage while the other goes on."""
    first, second = (hold_state(tmp_path, "alike", lambda: opened(tmp_path)) for _ in range(2))
    first.close(None, True)
    first.release()
    second.close(None, True)
    assert not has_crashed(tmp_path)


def test_a_crawl_that_was_cut_off_counts_for_all_that_share_the_state(tmp_path: Path) -> None:
    first, second = (hold_state(tmp_path, "alike", lambda: opened(tmp_path)) for _ in range(2))
    first.release()
    second.close(None, True)
    assert has_crashed(tmp_path)


def opened(folder: Path) -> State:
    state = State.open(folder, FACTORY, key=5)
    state.begin("spider")
    return state


def has_crashed(folder: Path) -> bool:
    state = State.open(folder, FACTORY, key=5)
    state.release()
    return state.crashed
