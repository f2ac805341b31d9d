"""A page is done when everything first found on it is: until then a crash must find it again."""

from random import Random

from hypothesis import given
from hypothesis import strategies as st

from scrapy_neardup.crawl.page_lifecycle import Completed, PageLifecycle


class Lifecycle(PageLifecycle):
    """A lifecycle whose completed keys are noted down."""

    def __init__(self, completed: list[bytes]) -> None:
        super().__init__()
        self.completed = completed

    def handled(self, page: int) -> None:
        """The callback is exhausted; no item was yielded."""
        self._note(self.exhausted(page, failed=False))

    def ended(self, page: int | None) -> None:
        """A request found on the page came to nothing."""
        self._note(self.request_ended(page))

    def _note(self, effects) -> None:
        self.completed += [one.key for one in effects if isinstance(one, Completed)]


def test_a_page_without_anything_is_completed_when_it_is_handled() -> None:
    lifecycle = Lifecycle(done := [])
    page = lifecycle.answered(b"a", None)
    assert b"a" in lifecycle
    assert done == []
    lifecycle.handled(page)
    assert b"a" not in lifecycle
    assert done == [b"a"]


def test_a_page_waits_for_what_was_found_on_it_and_on_that() -> None:
    lifecycle = Lifecycle(done := [])
    top = lifecycle.answered(b"top", None)
    lifecycle.requested(top)
    lifecycle.handled(top)
    middle = lifecycle.answered(b"middle", top)
    lifecycle.requested(middle)
    lifecycle.handled(middle)
    assert done == []
    lifecycle.handled(lifecycle.answered(b"leaf", middle))
    assert done == [b"leaf", b"middle", b"top"]
    assert len(lifecycle) == 0


def test_a_request_that_was_dropped_is_not_waited_for() -> None:
    lifecycle = Lifecycle(done := [])
    page = lifecycle.answered(b"a", None)
    lifecycle.requested(page)
    lifecycle.ended(page)
    lifecycle.handled(page)
    assert done == [b"a"]


def test_a_page_that_never_hears_of_its_request_is_never_completed() -> None:
    lifecycle = Lifecycle(done := [])
    page = lifecycle.answered(b"a", None)
    lifecycle.requested(page)
    lifecycle.handled(page)
    assert done == []
    assert b"a" in lifecycle


def test_a_page_without_key_passes_the_wait_on() -> None:
    lifecycle = Lifecycle(done := [])
    top = lifecycle.answered(b"top", None)
    lifecycle.requested(top)
    lifecycle.handled(top)
    error = lifecycle.answered(None, top)
    lifecycle.requested(error)
    lifecycle.handled(error)
    assert done == []
    lifecycle.ended(error)
    assert done == [b"top"]


def test_a_key_waits_for_every_page_of_it() -> None:
    lifecycle = Lifecycle(done := [])
    first = lifecycle.answered(b"a", None)
    lifecycle.requested(first)
    lifecycle.handled(first)
    second = lifecycle.answered(b"a", None)
    lifecycle.requested(second)
    lifecycle.handled(second)
    reopened = Lifecycle(done)
    reopened.restore(lifecycle.arrays())
    for each, last in ((lifecycle, first), (reopened, second)):
        each.ended(first if last == second else second)
        assert done == []
        assert b"a" in each
        each.ended(last)
        assert done == [b"a"]
        assert len(each) == 0
        done.clear()


def test_ids_of_a_crashed_crawl_are_ignored() -> None:
    lifecycle = Lifecycle([])
    stranger = Lifecycle([]).answered(b"a", None)
    lifecycle.ended(stranger)
    lifecycle.ended(None)
    lifecycle.handled(lifecycle.answered(b"b", stranger))
    assert len(lifecycle) == 0


def test_waiting_pages_go_on_in_the_next_crawl() -> None:
    lifecycle = Lifecycle([])
    top = lifecycle.answered(b"top", None)
    lifecycle.requested(top)
    lifecycle.handled(top)
    nameless = lifecycle.answered(None, top)
    lifecycle.requested(nameless)
    lifecycle.handled(nameless)
    reopened = Lifecycle(done := [])
    reopened.restore(lifecycle.arrays())
    assert b"top" in reopened
    reopened.handled(reopened.answered(b"leaf", nameless))
    assert done == [b"leaf", b"top"]


@given(st.lists(st.integers(0, 10**6), max_size=30), st.randoms())
def test_whatever_the_order_no_page_is_completed_before_its_finds(
    parents: list[int], random: Random
) -> None:
    """A random tree, handled in a random order; page i + 1 hangs on one of pages 0..i."""
    finds = {i: [j + 1 for j, p in enumerate(parents) if p % (j + 1) == i] for i in range(31)}
    lifecycle = Lifecycle(done := [])
    requests: list[tuple[int, int | None]] = [(0, None)]
    ends: list[int] = []
    while requests or ends:
        if requests and (not ends or random.random() < 0.5):
            page, parent = requests.pop(random.randrange(len(requests)))
            id = lifecycle.answered(b"%d" % page, parent)
            for find in finds[page]:
                lifecycle.requested(id)
                requests.append((find, id))
            ends.append(id)
        else:
            lifecycle.handled(ends.pop(random.randrange(len(ends))))
    order = {int(key): place for place, key in enumerate(done)}
    assert len(done) == len(parents) + 1
    assert all(order[find] < order[page] for page in order for find in finds[page])
