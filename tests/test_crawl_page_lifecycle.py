"""The states of a page: what is kept, what is forgotten, and when its URL counts as seen."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from random import Random

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from scrapy_neardup.crawl.pages.page_lifecycle import (
    Completed,
    Effect,
    Fate,
    LeaseEnded,
    PageLifecycle,
    ReadAgain,
    RowForgotten,
    RowKept,
    RowKeptInPart,
    RowPending,
    Settled,
    Stage,
)
from scrapy_neardup.errors import BrokenInvariant


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

    def _note(self, effects: Iterable[Effect]) -> None:
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


def with_item(lifecycle: PageLifecycle, key: bytes, row: int | None, original: int | None) -> int:
    """A page that was judged and handed out one item."""
    page = lifecycle.answered(key, None)
    lifecycle.reading(page)
    lifecycle.judged(page, row, original)
    lifecycle.item_out(page)
    if original is not None:
        lifecycle.item_repeats(page, original)
    return page


def ended(lifecycle: PageLifecycle, page: int, fate: Fate) -> list[Effect]:
    """The effects of a page whose callback ends and whose item meets its fate."""
    return lifecycle.exhausted(page, failed=False) + lifecycle.item_done(page, fate)


def test_a_page_goes_through_its_stages() -> None:
    lifecycle = PageLifecycle()
    page = lifecycle.answered(b"a", None)
    stages = [lifecycle.stage(page)]
    for event in (
        lambda: lifecycle.requested(page),
        lambda: lifecycle.reading(page),
        lambda: lifecycle.judged(page, 1, None),
        lambda: lifecycle.item_out(page),
        lambda: ended(lifecycle, page, Fate.KEPT),
        lambda: lifecycle.request_ended(page),
    ):
        event()
        stages.append(lifecycle.stage(page))
    assert [stage.name for stage in stages] == [
        *("ANSWERED", "ANSWERED", "READING", "JUDGED", "ITEMS_OUT", "WAITING", "COMPLETED")
    ]


def test_a_page_cannot_skip_or_repeat_a_stage() -> None:
    lifecycle = PageLifecycle()
    page = lifecycle.answered(b"a", None)
    with pytest.raises(BrokenInvariant, match="cannot go from ANSWERED to JUDGED"):
        lifecycle.judged(page, 1, None)
    lifecycle.requested(page)
    lifecycle.exhausted(page, failed=False)
    with pytest.raises(BrokenInvariant, match="is WAITING: its items are done"):
        lifecycle.item_out(page)


def test_the_row_is_kept_before_the_url_is_completed() -> None:
    lifecycle = PageLifecycle()
    page = with_item(lifecycle, b"a", 1, None)
    effects = ended(lifecycle, page, Fate.KEPT)
    assert effects == [Settled(page, False), RowKept(1), Completed(b"a")]


def test_a_page_of_which_no_item_was_kept_is_forgotten() -> None:
    lifecycle = PageLifecycle()
    page = with_item(lifecycle, b"a", 1, None)
    effects = ended(lifecycle, page, Fate.DROPPED)
    assert effects == [Settled(page, False), RowForgotten(1), Completed(b"a")]


def test_a_page_that_failed_is_never_completed() -> None:
    lifecycle = PageLifecycle()
    page = with_item(lifecycle, b"a", 1, None)
    assert ended(lifecycle, page, Fate.FAILED) == [Settled(page, True), RowForgotten(1)]
    assert lifecycle.stage(page) is Stage.FAILED
    assert b"a" in lifecycle


def test_a_page_without_a_file_is_kept_and_never_completed() -> None:
    lifecycle = PageLifecycle()
    page = with_item(lifecycle, b"a", 1, None)
    effects = ended(lifecycle, page, Fate.WITHOUT_FILE)
    assert effects == [Settled(page, True), RowKeptInPart(1)]
    assert b"a" in lifecycle


def test_a_copy_is_completed_when_its_original_is_kept() -> None:
    lifecycle = PageLifecycle()
    original = with_item(lifecycle, b"a", 1, None)
    copy = with_item(lifecycle, b"b", None, 1)
    assert ended(lifecycle, copy, Fate.REPEATED) == [Settled(copy, False)]
    assert ended(lifecycle, original, Fate.KEPT) == [
        *(Settled(original, False), RowKept(1), Completed(b"b"), Completed(b"a"))
    ]


@pytest.mark.parametrize("copy_ends_first", [True, False])
@pytest.mark.parametrize("others", [[], [Fate.KEPT]])
def test_a_copy_is_read_again_when_an_item_of_its_original_is_lost(
    copy_ends_first: bool, others: list[Fate]
) -> None:
    lifecycle = PageLifecycle()
    original = with_item(lifecycle, b"a", 1, None)
    for fate in others:
        lifecycle.item_out(original)
        lifecycle.item_done(original, fate)
    copy = with_item(lifecycle, b"b", None, 1)
    lifecycle.item_repeats(copy, 1)
    effects = []
    for page in (copy, original) if copy_ends_first else (original, copy):
        effects += ended(lifecycle, page, Fate.REPEATED if page == copy else Fate.DROPPED)
    assert effects.count(ReadAgain(copy, 1)) == 1
    assert b"a" not in lifecycle
    assert lifecycle.stage(copy) is Stage.WAITING
    again = lifecycle.answered(b"b", copy)
    assert lifecycle.exhausted(again, failed=False)[-1] == Completed(b"b")


@pytest.mark.parametrize("judged_first", [True, False])
def test_a_copy_stands_in_for_an_original_without_items(judged_first: bool) -> None:
    lifecycle = PageLifecycle()
    original, copy = (lifecycle.answered(key, None) for key in (b"a", b"b"))
    for page in (original, copy):
        lifecycle.reading(page)
    lifecycle.judged(original, 1, None)
    if judged_first:
        lifecycle.judged(copy, None, 1)
    assert RowPending(1) in lifecycle.exhausted(original, failed=False)
    if not judged_first:
        lifecycle.judged(copy, None, 1)
    assert lifecycle.item_out(copy)
    assert not lifecycle.item_out(copy)
    lifecycle.item_done(copy, Fate.KEPT)
    assert RowKeptInPart(1) in ended(lifecycle, copy, Fate.DROPPED)


@pytest.mark.parametrize("copy_ends_first", [True, False])
def test_a_copy_is_read_again_when_its_original_ends_without_an_item(copy_ends_first: bool) -> None:
    lifecycle = PageLifecycle()
    original = lifecycle.answered(b"a", None)
    lifecycle.reading(original)
    lifecycle.judged(original, 1, None)
    copy = with_item(lifecycle, b"b", None, 1)
    effects = ended(lifecycle, copy, Fate.REPEATED) if copy_ends_first else []
    effects += lifecycle.exhausted(original, failed=False)
    assert RowPending(1) in effects
    if not copy_ends_first:
        effects += ended(lifecycle, copy, Fate.REPEATED)
    assert effects.count(ReadAgain(copy, 1)) == 1
    again = lifecycle.answered(b"b", copy)
    lifecycle.reading(again)
    lifecycle.judged(again, None, 1)
    assert lifecycle.item_out(again)
    assert ended(lifecycle, again, Fate.KEPT)[-2:] == [RowKept(1), Completed(b"b")]


@pytest.mark.parametrize("failed", [False, True])
def test_a_page_whose_callback_failed_is_kept_in_part(failed: bool) -> None:
    lifecycle = PageLifecycle()
    page = with_item(lifecycle, b"a", 1, None)
    lifecycle.item_done(page, Fate.KEPT)
    kept = RowKeptInPart(1) if failed else RowKept(1)
    assert kept in lifecycle.exhausted(page, failed=failed)


def test_a_page_of_a_queue_whose_callback_stopped_the_crawl_ends_unseen() -> None:
    """Like all that it was found on."""
    lifecycle = PageLifecycle()
    top = lifecycle.answered(b"top", lifecycle.leased(7, None))
    lifecycle.requested(top)
    lifecycle.exhausted(top, failed=False)
    page = lifecycle.answered(b"a", top)
    twin = lifecycle.answered(b"a", None)
    lifecycle.exhausted(page, failed=False)
    effects = lifecycle.exhausted(twin, failed=False, stopped=True)
    assert effects == [Settled(twin, True), LeaseEnded(7)]
    assert len(lifecycle) == 0


def test_a_page_whose_callback_stopped_the_crawl_is_found_again_where_no_queue_has_it() -> None:
    lifecycle = PageLifecycle()
    page = lifecycle.answered(b"a", None)
    assert lifecycle.exhausted(page, failed=False, stopped=True) == [Settled(page, True)]
    assert lifecycle.stage(page) is Stage.FAILED


def test_the_lease_of_a_page_that_stopped_the_crawl_ends_after_what_was_found_on_it() -> None:
    lifecycle = PageLifecycle()
    page = lifecycle.answered(b"a", lifecycle.leased(7, None))
    lifecycle.requested(page)
    assert lifecycle.exhausted(page, failed=False, stopped=True) == [Settled(page, True)]
    assert lifecycle.request_ended(page) == [LeaseEnded(7)]


def test_a_page_that_stopped_the_crawl_is_kept_in_part_and_its_lease_stays_if_an_item_failed() -> (
    None
):
    for fate, expected in ((Fate.KEPT, RowKeptInPart(1)), (Fate.FAILED, RowForgotten(1))):
        lifecycle = PageLifecycle()
        page = lifecycle.answered(b"a", lifecycle.leased(7, None))
        lifecycle.reading(page)
        lifecycle.judged(page, 1, None)
        lifecycle.item_out(page)
        effects = lifecycle.exhausted(page, failed=False, stopped=True)
        effects += lifecycle.item_done(page, fate)
        assert expected in effects
        assert (LeaseEnded(7) in effects) == (fate is Fate.KEPT)


# --- every interleaving, against a plain model


def test_a_page_that_was_cut_off_is_never_completed_nor_what_led_to_it() -> None:
    lifecycle = PageLifecycle()
    first = lifecycle.answered(b"first", None)
    lifecycle.requested(first)
    second = lifecycle.answered(b"second", first)
    lifecycle.cut_off(second)
    for page in (first, second):
        assert all(isinstance(one, Settled) for one in lifecycle.exhausted(page, failed=False))
    assert b"first" in lifecycle
    assert b"second" in lifecycle


def test_the_oldest_that_wait_are_let_go_where_too_many_pages_are_under_way() -> None:
    lifecycle = PageLifecycle(max_pages=5)
    found_on = None
    for number in range(20):
        page = lifecycle.answered(b"%d" % number, found_on)
        lifecycle.requested(page)
        lifecycle.exhausted(page, failed=False)
        found_on = page
    assert len(lifecycle) == 5
    assert lifecycle.n_let_go == 15
    assert b"14" not in lifecycle
    assert b"15" in lifecycle
    again = lifecycle.answered(b"3", None)
    assert lifecycle.exhausted(again, failed=False) == [Settled(again, False)]  # not Completed
    leaf = lifecycle.answered(b"leaf", found_on)
    assert lifecycle.exhausted(leaf, failed=False) == [
        Settled(leaf, False),
        Completed(b"leaf"),
        *(Completed(b"%d" % number) for number in range(19, 15, -1)),
    ]


def test_a_copy_that_was_let_go_is_not_missed_when_its_original_is_settled() -> None:
    for fate in (Fate.KEPT, Fate.DROPPED):
        lifecycle = PageLifecycle(max_pages=2)
        original = with_item(lifecycle, b"a", 1, None)
        copy = with_item(lifecycle, b"b", None, 1)
        lifecycle.item_repeats(copy, 1)
        ended(lifecycle, copy, Fate.REPEATED)
        lifecycle.answered(b"c", None)
        assert b"b" not in lifecycle
        assert ended(lifecycle, original, fate)[-1] == Completed(b"a")


@dataclass(eq=False)
class Model:
    """A page as one would describe it: what happened to it, and no bookkeeping."""

    id: int
    key: bytes | None  # None where an earlier page of the key is under way
    original: int | None = None
    copy_of: set[int] = field(default_factory=set)  # rows on which it depends
    missed: set[int] = field(default_factory=set)  # of those: rows whose pages brought no item
    is_read_again: bool = False
    rows: set[int] = field(default_factory=set)
    finds: list["Found"] = field(default_factory=list)
    twins: list["Model"] = field(default_factory=list)
    judged: bool = False
    out: int = 0
    fates: list[Fate] = field(default_factory=list)
    repeats: int = 0
    exhausted: bool = False
    failed: bool = False

    @property
    def is_settled(self) -> bool:
        return self.exhausted and len(self.fates) == self.out

    @property
    def is_kept(self) -> bool:
        return not {Fate.KEPT, Fate.WITHOUT_FILE}.isdisjoint(self.fates)


@dataclass(eq=False)
class Found:
    """A request found on a page: queued, dropped on purpose, or answered."""

    ended: bool = False
    page: Model | None = None


def runs(page: Model) -> bool:
    return not page.exhausted


def gives_more_items(page: Model) -> bool:
    return not page.exhausted and page.out > 0


def can_be_judged(page: Model) -> bool:
    return not page.exhausted and not page.judged


def has_items_under_way(page: Model) -> bool:
    return len(page.fates) < page.out


KEPT = RowKept, RowKeptInPart


def some(wanted: Callable[[Model], bool]) -> Callable[["Crawl"], bool]:
    """Whether a rule has a page to be about."""
    return lambda crawl: any(wanted(page) for page in crawl.pages)


class Crawl(RuleBasedStateMachine):
    """Items, errors, drops, copies under way, overrides, crashes and restarts, in any order."""

    def __init__(self) -> None:
        super().__init__()
        self.lifecycle = PageLifecycle()
        self.pages: list[Model] = []
        self.queue: list[Found] = []  # requests that are neither answered nor dropped
        self.finder: dict[int, int] = {}  # id() of a request → page it was found on
        self.next_row = 0
        self.kept: set[int] = set()  # rows
        self.lost: set[int] = set()  # rows of pages that lost an item, kept or not
        self.gone: set[int] = set()  # rows that were forgotten, or lost
        self.pending: set[int] = set()  # rows whose pages brought no item
        self.completed: set[bytes] = set()

    def pick(self, choice: int, wanted: Callable[[Model], bool]) -> Model:
        fitting = [page for page in self.pages if wanted(page)]
        return fitting[choice % len(fitting)]

    def carry_out(self, effects: Iterable[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, KEPT):
                assert effect.row not in self.kept | self.gone
                self.kept.add(effect.row)
                self.pending.discard(effect.row)
            elif isinstance(effect, RowForgotten):
                assert effect.row not in self.kept | self.gone
                self.gone.add(effect.row)
            elif isinstance(effect, RowPending):
                self.pending.add(effect.row)
            elif isinstance(effect, ReadAgain):
                self.read_again(effect)
            elif isinstance(effect, Completed):
                page = next(one for one in self.pages if one.key == effect.key and self.done(one))
                assert self.is_said(page)
                self.completed.add(effect.key)
                self.pages = [one for one in self.pages if one.key != effect.key]
        self.pages = [one for one in self.pages if one.key is not None or not self.done(one)]

    def done(self, page: Model) -> bool:
        """Whether nothing is left for a page to wait for, by definition."""
        return (
            page.is_settled
            and not page.failed
            and self.is_said(page)
            and all(
                one.ended or (one.page is not None and self.done(one.page)) for one in page.finds
            )
            and all(self.done(twin) for twin in page.twins)
        )

    def is_said(self, page: Model) -> bool:
        """Whether what of a page was dropped is kept elsewhere, or the page is read again."""
        lost = page.copy_of & self.lost | page.missed
        return page.copy_of - lost <= self.kept and (page.is_read_again or not lost)

    def read_again(self, effect: ReadAgain) -> None:
        page = next(one for one in self.pages if one.id == effect.page)
        assert effect.row in page.copy_of & self.lost | page.missed
        assert page.repeats
        assert not page.is_read_again
        page.is_read_again = True
        request = Found()  # for which the page waits as for one found on it
        page.finds.append(request)
        self.queue.append(request)
        self.finder[id(request)] = page.id

    def is_done(self, page: Model | None) -> bool:
        return page is not None and self.done(page)

    @precondition(lambda self: sum(not page.is_settled for page in self.pages) < 4)
    @rule(number=st.integers(0, 3) | st.none(), choice=st.integers(0, 99), found=st.booleans())
    def answer(self, number: int | None, choice: int, found: bool) -> None:
        key = None if number is None else b"%d" % number
        request = self.queue.pop(choice % len(self.queue)) if found and self.queue else Found()
        first = next((one for one in self.pages if key is not None and one.key == key), None)
        new = self.lifecycle.answered(key, self.finder.get(id(request)))
        request.page = Model(new, None if first else key)
        if first:
            first.twins.append(request.page)
        self.pages.append(request.page)

    @precondition(some(runs))
    @rule(choice=st.integers(0, 99))
    def find(self, choice: int) -> None:
        page, request = self.pick(choice, runs), Found()
        self.lifecycle.requested(page.id)
        page.finds.append(request)
        self.queue.append(request)
        self.finder[id(request)] = page.id

    @precondition(lambda self: self.queue)
    @rule(choice=st.integers(0, 99))
    def drop_request(self, choice: int) -> None:
        request = self.queue.pop(choice % len(self.queue))
        request.ended = True
        self.carry_out(self.lifecycle.request_ended(self.finder[id(request)]))

    @precondition(some(can_be_judged))
    @rule(choice=st.integers(0, 99))
    def judge_a_new_page(self, choice: int) -> None:
        page = self.pick(choice, can_be_judged)
        page.judged = True
        page.rows.add(self.next_row)
        self.lifecycle.reading(page.id)
        self.lifecycle.judged(page.id, self.next_row, None)
        self.next_row += 1

    @precondition(lambda self: self.known)
    @precondition(some(can_be_judged))
    @rule(choice=st.integers(0, 99), original=st.integers(0, 99))
    def judge_a_copy(self, choice: int, original: int) -> None:
        page, known = self.pick(choice, can_be_judged), self.known
        page.judged = True
        page.original = known[original % len(known)] if original < 90 else None  # undone
        self.lifecycle.reading(page.id)
        self.lifecycle.judged(page.id, None, page.original)
        if page.original is not None and page.original not in self.kept:
            page.copy_of.add(page.original)

    @rule(settles=st.booleans())
    def drop_an_item_for_one_under_way(self, settles: bool) -> None:
        """What single steps seldom add up to."""
        original, copy = self.begun(), self.begun()
        self.lifecycle.judged(original.id, self.next_row, None)
        original.rows.add(self.next_row)
        self.lifecycle.judged(copy.id, None, self.next_row)
        copy.original = self.next_row
        copy.copy_of.add(self.next_row)
        self.next_row += 1
        for page in (original, copy):
            self.lifecycle.item_out(page.id)
            page.out += 1
        self.lifecycle.item_repeats(copy.id, copy.original)
        copy.repeats += 1
        copy.fates.append(Fate.REPEATED)
        self.settle(copy, lambda: self.lifecycle.item_done(copy.id, Fate.REPEATED))
        if settles:
            copy.exhausted = True
            self.settle(copy, lambda: self.lifecycle.exhausted(copy.id, False))

    def begun(self) -> Model:
        """A page without a key that is being read."""
        page = Model(self.lifecycle.answered(None, None), None, judged=True)
        self.lifecycle.reading(page.id)
        self.pages.append(page)
        return page

    @property
    def known(self) -> list[int]:
        """Rows that a page may repeat; only those not kept where there are any."""
        rows = set(range(self.next_row)) - self.gone
        return sorted(rows - self.kept or rows)

    @precondition(some(runs))
    @rule(choice=st.integers(0, 99))
    def hand_out_an_item(self, choice: int) -> None:
        page = self.pick(choice, runs)
        stands_in = self.lifecycle.item_out(page.id)
        page.out += 1
        assert stands_in == (page.out == 1 and page.original in self.pending)
        if stands_in and page.original is not None:
            self.pending.discard(page.original)
            page.rows.add(page.original)
            page.copy_of.discard(page.original)
            page.original = None

    @precondition(some(gives_more_items))
    @rule(choice=st.integers(0, 99))
    def offer_an_item(self, choice: int) -> None:
        """Items of others may be dropped for one of a page that is a copy, but says more."""
        page = self.pick(choice, gives_more_items)
        self.lifecycle.remembered(page.id, self.next_row)
        page.rows.add(self.next_row)
        self.next_row += 1

    @precondition(some(has_items_under_way))
    @rule(choice=st.integers(0, 99), lost=st.integers(0, 7), other=st.integers(0, 99))
    def end_an_item(self, choice: int, lost: int, other: int) -> None:
        page = self.pick(choice, has_items_under_way)
        fates = {4: Fate.DROPPED, 5: Fate.FAILED, 6: Fate.WITHOUT_FILE}
        fate = fates.get(lost, Fate.KEPT)
        if page.original is not None and lost < 4:  # dropped by us, for another's sake
            page.repeats += 1
            known = self.known
            row = known[other % len(known)] if known and other < 50 else page.original
            self.lifecycle.item_repeats(page.id, row)
            if row not in self.kept | self.gone | page.rows:
                page.copy_of.add(row)
            fate = Fate.REPEATED
        page.fates.append(fate)
        page.failed |= fate in (Fate.FAILED, Fate.WITHOUT_FILE)
        self.settle(page, lambda: self.lifecycle.item_done(page.id, fate))

    @precondition(some(runs))
    @rule(choice=st.integers(0, 99), raises=st.integers(0, 7))
    def exhaust(self, choice: int, raises: int) -> None:
        page = self.pick(choice, runs)
        page.exhausted = True
        page.failed |= raises > 5
        self.settle(page, lambda: self.lifecycle.exhausted(page.id, raises == 7, raises == 6))

    def settle(self, page: Model, event: Callable[[], list[Effect]]) -> None:
        if page.is_settled and not page.repeats:
            page.copy_of.clear()
            page.missed.clear()
        if page.is_settled and not page.out:
            for copy in self.pages:
                missed = page.rows & copy.copy_of if copy.out else set()
                copy.missed |= missed
                copy.copy_of -= missed
        if page.is_settled and page.out:
            is_lost = not page.is_kept or {Fate.DROPPED, Fate.FAILED} & {*page.fates}
            self.lost |= page.rows if is_lost else set()
        effects = event()
        others = (Settled, Completed, ReadAgain)
        rows = {type(one): one.row for one in effects if not isinstance(one, others)}
        if page.is_settled and page.rows:
            is_whole = not page.failed and Fate.DROPPED not in page.fates
            kept = RowKept if is_whole else RowKeptInPart
            fate = RowPending if not page.out else kept if page.is_kept else RowForgotten
            assert set(rows) == {fate}
        # What an event completes may wait for what it completes first.
        self.kept |= {one.row for one in effects if isinstance(one, KEPT)} - self.kept
        self.carry_out([one for one in effects if not isinstance(one, KEPT)])
        self.pending -= self.kept

    @rule(chance=st.integers(1, 30))
    def crash(self, chance: int) -> None:
        if chance < 30:  # else there is no time for much to happen
            return
        self.lose_rows()
        self.lifecycle = PageLifecycle()
        self.pages, self.queue, self.finder = [], [], {}

    @precondition(lambda self: all(page.is_settled for page in self.pages))
    @rule(chance=st.integers(1, 30))
    def stop_and_go_on(self, chance: int) -> None:
        """A clean stop waits for what is under way, and keeps the queue of requests."""
        if chance < 30:
            return
        self.lose_rows()
        arrays = self.lifecycle.arrays()
        self.lifecycle = PageLifecycle()
        self.lifecycle.restore(arrays)

    def lose_rows(self) -> None:
        """Rows that were neither kept nor forgotten are in no file."""
        self.gone |= set(range(self.next_row)) - self.kept
        self.pending.clear()

    @invariant()
    def exactly_what_waits_is_under_way(self) -> None:
        assert not [page for page in self.pages if self.done(page)]
        for number in range(4):
            key = b"%d" % number
            assert (key in self.lifecycle) == any(page.key == key for page in self.pages)
        for page in self.pages:
            stage = self.lifecycle.stage(page.id)
            if stage is not Stage.COMPLETED:  # a failed page that nothing waits for is let go
                assert (stage in (Stage.WAITING, Stage.FAILED)) == page.is_settled
            else:
                assert page.failed
                assert page.key is None


Crawl.TestCase.settings = hypothesis_settings(max_examples=200, stateful_step_count=50)
TestCrawl = Crawl.TestCase
