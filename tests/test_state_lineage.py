"""A page is done when everything first found on it is: until then a crash must find it again."""

from hypothesis import given
from hypothesis import strategies as st

from scrapy_neardup.state.lineage import Lineage


def test_a_page_without_anything_is_done_when_it_is_handled() -> None:
    done: list[bytes] = []
    lineage = Lineage(done.append)
    page = lineage.begin(b"a", None)
    assert b"a" in lineage
    assert done == []
    lineage.settle(page)
    assert b"a" not in lineage
    assert done == [b"a"]


def test_a_page_waits_for_what_was_found_on_it_and_on_that() -> None:
    done: list[bytes] = []
    lineage = Lineage(done.append)
    top = lineage.begin(b"top", None)
    lineage.expect(top)
    lineage.settle(top)
    middle = lineage.begin(b"middle", top)
    lineage.expect(middle)
    lineage.settle(middle)
    assert done == []
    lineage.settle(lineage.begin(b"leaf", middle))
    assert done == [b"leaf", b"middle", b"top"]
    assert len(lineage) == 0


def test_a_request_that_was_dropped_is_not_waited_for() -> None:
    done: list[bytes] = []
    lineage = Lineage(done.append)
    page = lineage.begin(b"a", None)
    lineage.expect(page)
    lineage.settle(page)
    lineage.settle(page)
    assert done == [b"a"]


def test_a_page_that_never_hears_of_its_request_is_never_done() -> None:
    done: list[bytes] = []
    lineage = Lineage(done.append)
    page = lineage.begin(b"a", None)
    lineage.expect(page)
    lineage.settle(page)
    assert done == []
    assert b"a" in lineage


def test_a_page_without_key_passes_the_wait_on() -> None:
    done: list[bytes] = []
    lineage = Lineage(done.append)
    top = lineage.begin(b"top", None)
    lineage.expect(top)
    lineage.settle(top)
    error = lineage.begin(None, top)
    lineage.expect(error)
    lineage.settle(error)
    assert done == []
    lineage.settle(error)
    assert done == [b"top"]


def test_a_key_waits_for_every_page_of_it() -> None:
    done: list[bytes] = []
    lineage = Lineage(done.append)
    first = lineage.begin(b"a", None)
    lineage.expect(first)
    lineage.settle(first)
    second = lineage.begin(b"a", None)
    lineage.expect(second)
    lineage.settle(second)
    reopened = Lineage(done.append)
    reopened.restore(lineage.arrays())
    for each, last in ((lineage, first), (reopened, second)):
        each.settle(first if last == second else second)
        assert done == []
        assert b"a" in each
        each.settle(last)
        assert done == [b"a"]
        assert len(each) == 0
        done.clear()


def test_ids_of_a_crashed_crawl_are_ignored() -> None:
    lineage = Lineage(lambda _: None)
    stranger = Lineage(lambda _: None).begin(b"a", None)
    lineage.settle(stranger)
    lineage.settle(None)
    lineage.settle(lineage.begin(b"b", stranger))
    assert len(lineage) == 0


def test_waiting_pages_go_on_in_the_next_crawl() -> None:
    lineage = Lineage(lambda _: None)
    top = lineage.begin(b"top", None)
    lineage.expect(top)
    lineage.settle(top)
    nameless = lineage.begin(None, top)
    lineage.expect(nameless)
    lineage.settle(nameless)
    done: list[bytes] = []
    reopened = Lineage(done.append)
    reopened.restore(lineage.arrays())
    assert b"top" in reopened
    reopened.settle(reopened.begin(b"leaf", nameless))
    assert done == [b"leaf", b"top"]


@given(st.lists(st.integers(0, 10**6), max_size=30), st.randoms())
def test_whatever_the_order_no_page_is_done_before_its_finds(parents: list[int], random) -> None:
    """A random tree, handled in a random order; page i + 1 hangs on one of pages 0..i."""
    finds = {i: [j + 1 for j, p in enumerate(parents) if p % (j + 1) == i] for i in range(31)}
    done: list[bytes] = []
    lineage = Lineage(done.append)
    requests, ends = [(0, None)], []
    while requests or ends:
        if requests and (not ends or random.random() < 0.5):
            page, parent = requests.pop(random.randrange(len(requests)))
            id = lineage.begin(b"%d" % page, parent)
            for find in finds[page]:
                lineage.expect(id)
                requests.append((find, id))
            ends.append(id)
        else:
            lineage.settle(ends.pop(random.randrange(len(ends))))
    order = {int(key): place for place, key in enumerate(done)}
    assert len(done) == len(parents) + 1
    assert all(order[find] < order[page] for page in order for find in finds[page])
