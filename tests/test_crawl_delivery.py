"""What waits for sinks is carried out in order, and never before it is stored."""

import gc
import weakref

from hypothesis import given
from hypothesis import strategies as st

from scrapy_neardup.crawl.delivery import Delivery
from scrapy_neardup.crawl.fail_open import FailOpen

BATCHES = st.integers(0, 3)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(["hold", "stored"]), BATCHES),
        st.tuples(st.sampled_from(["put", "release"]), st.none()),
    ),
    max_size=60,
)


def new_delivery() -> tuple[Delivery, list[int], list[str]]:
    """One that carries out nothing yet; what it has carried out; the stats it has counted."""
    counted: list[str] = []
    return Delivery(FailOpen(lambda key, n=1: counted.append(key))), [], counted


@given(STEPS, st.booleans())
def test_what_is_held_and_all_behind_it_waits(
    steps: list[tuple[str, int | None]], is_buffered: bool
) -> None:
    delivery, done, _ = new_delivery()
    delivery.is_buffered = is_buffered
    held: dict[int | None, set[int]] = {}  # batch → actions put since it was held
    n_put = n_flushed = 0
    for step, batch in steps:
        n_done = len(done)
        if step == "put":
            for actions in held.values():
                actions.add(n_put)
            delivery.put(done.append, n_put)
            n_put += 1
        elif step == "hold":
            held.setdefault(batch, set())
            delivery.hold(batch)
        elif step == "stored":
            held.pop(batch, None)
            delivery.stored(batch)
        else:
            n_flushed = n_put
            delivery.release()
        free = min((min(actions) for actions in held.values() if actions), default=n_put)
        stored = n_flushed if is_buffered else n_put
        assert done == list(range(len(done)))  # in order, each once
        assert len(done) == max(n_done, min(free, stored))
        assert len(delivery) == n_put - len(done)


def test_what_was_flushed_while_it_was_held_waits_for_no_other_flush() -> None:
    delivery, done, _ = new_delivery()
    delivery.is_buffered = True
    delivery.hold("a commit")
    delivery.put(done.append, 1)
    delivery.release()
    delivery.put(done.append, 2)
    delivery.stored("a commit")
    assert done == [1]


def test_what_an_action_puts_comes_behind_those_that_wait() -> None:
    delivery, done, _ = new_delivery()
    delivery.is_buffered = True
    delivery.put(lambda: delivery.put(done.append, 3))
    delivery.put(done.append, 1)
    delivery.put(done.append, 2)
    delivery.release()
    assert done == [1, 2]
    delivery.release()
    assert done == [1, 2, 3]


def test_without_sinks_that_hold_back_nothing_waits() -> None:
    delivery, done, _ = new_delivery()
    delivery.after(done.append)(1)
    assert done == [1]


def test_after_a_failed_feed_nothing_is_carried_out_any_more() -> None:
    delivery, done, _ = new_delivery()
    delivery.is_buffered = True
    delivery.put(done.append, 1)
    delivery.hold_for_good()
    delivery.put(done.append, 2)
    delivery.release()
    assert not done
    assert len(delivery) == 2


def test_after_a_failed_feed_no_action_stays_in_memory() -> None:
    delivery, _, _ = new_delivery()
    delivery.is_buffered = True
    before, after = (new_delivery()[0] for _ in range(2))  # whatever an action may be about
    refs = [weakref.ref(before), weakref.ref(after)]
    delivery.put(before.release)
    delivery.hold_for_good()
    delivery.put(after.release)
    del before, after
    gc.collect()
    assert [ref() for ref in refs] == [None, None]


def test_an_action_that_fails_is_counted_and_keeps_back_no_other() -> None:
    delivery, done, counted = new_delivery()
    delivery.put(done.remove, 1)
    delivery.put(done.append, 2)
    assert done == [2]
    assert counted == ["neardup/errors/state"]
