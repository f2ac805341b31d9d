"""The connection to the server: one thread that batches calls, fails open and resends.

States: up; backing off after a failure (no question is sent until the pause is over); trying (the
first round trip after a pause holds a single call beside the heartbeat); left (the heartbeat found
another fleet on the server: nothing is sent any more); closing (sends what waits until a deadline);
ended. Beside them, from a failure on: in doubt, until the server is known to have lost no requests.
`_changed` guards everything that both threads touch. A message leaves the queue only after the
server has answered it, so one may be sent twice: every call is idempotent.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from itertools import islice
from typing import Any

from scrapy_neardup.errors import FleetError
from scrapy_neardup.fleet.client import NodeDown, ServerFull, WrongAnswer, is_passing, read
from scrapy_neardup.fleet.membership import OtherFleet
from scrapy_neardup.fleet.protocol import Call, CallForgotten, TooManyEntries

logger = logging.getLogger(__name__)

FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.2, 30.0
BEAT_S = 1.0
MAX_BATCH = 512  # calls in a round trip
MAX_WAITING = 1_000_000  # messages to be told; at a few hundred bytes each

FAILED = (
    "neardup: the server of NEARDUP_BACKEND failed (%s). The crawl goes on with what this worker "
    "remembers, and tries again; further failures are only counted"
)
QUEUE_FAILED = (
    "neardup: the server of NEARDUP_BACKEND, where the requests wait, failed (%s). This worker "
    "makes those that it has, and then waits until the server is back; further failures are only "
    "counted. Ctrl-C ends the crawl: the next run makes what the server still has, and reads again "
    "the pages of which it was not told"
)
LACKS_NODE = (
    "neardup: a node of NEARDUP_BACKEND's cluster failed (%s). What it holds is not asked for "
    "until it is back; further failures are only counted"
)
FULL = (
    "neardup: the server of NEARDUP_BACKEND is full (%s). What this worker has to tell it waits "
    "here, and so do the requests that it finds, if the queue is shared: once nothing else is "
    "left, it waits for room. Raise maxmemory, or stop the crawl by Ctrl-C: the next run goes on"
)

Send = Callable[[Sequence[Call]], list[Any]]
Question = tuple[Call, Future[Any]]
Answered = tuple[Call, Any]


class Unanswered(FleetError):
    """The server could not be asked, or gave no answer."""


class Refused(Unanswered):
    """The server refuses a question for good: to ask it again is in vain."""


class HeldBack:
    """Messages that wait for a node of the cluster, or for room on it, in order."""

    def __init__(self, calls: Iterable[Call] = ()) -> None:
        self.calls = deque(calls)
        self._n_about = Counter(map(_about, self.calls))

    def has_before(self, call: Call) -> bool:
        """Whether one is among them that a message must not overtake."""
        return _about(call) in self._n_about

    def sort_out(self, answered: Iterable[Answered]) -> list[Answered]:
        """Append messages that are to wait; the others, with their answers."""
        others: list[Answered] = []
        for call, answer in answered:
            is_done = isinstance(answer, Exception) or not self.has_before(call)
            if isinstance(answer, NodeDown) or not is_done:
                self.append(call)
            else:
                others.append((call, answer))
        return others

    def append(self, call: Call) -> None:
        self.calls.append(call)
        self._n_about[_about(call)] += 1

    def popleft(self) -> None:
        about = _about(self.calls.popleft())
        self._n_about[about] -= 1
        if not self._n_about[about]:
            del self._n_about[about]

    def extend(self, others: HeldBack, in_front: bool) -> None:
        """Add others behind these, or in front of them."""
        if in_front:
            self.calls.extendleft(reversed(others.calls))
        else:
            self.calls.extend(others.calls)
        self._n_about.update(others._n_about)


class Link:
    """Questions and messages from the crawl's thread, sent by a thread of its own.

    While one round trip is under way, the next batch collects: the more is asked at once, the
    more questions share a round trip. Questions go first. Messages are kept, in order, until the
    server has them; beyond MAX_WAITING the newest is dropped and counted. A message that the
    server refuses for good (wrong type, no permission) is dropped and counted as well.

    Nothing waits for a server that failed: until the pause is over, every question is
    Unanswered at once. Then a single call tests the server, in case the batch was what took too
    long; the size of a batch doubles again with every success.

    A server that failed, or the node of a cluster that has the queue, may come back without the
    requests that it had. Of a page on which some of them were found it must not hear that it was
    seen. A message that the server cannot compare with the requests that it has (Call.needs_queue)
    is withheld from then on, until release() or drop_withheld().

    If one node of a cluster fails, only what it holds waits: questions to it are Unanswered,
    messages to it are held back, in order, and the node is tried again after a pause. So it is with
    what a full server does not take: what makes room there must not wait behind that. But a message
    waits with an earlier one that is held back and has the same key and subject: without what the
    earlier one tells, the server may take it for done and do nothing.

    Each round trip begins with the heartbeat in `beats_along`, else one round trip a second does.

    has_left    whether the heartbeat found another fleet
    n_lost      messages dropped because too many waited, or no time was left, or the link has left
    n_refused   questions and messages that the server refused for good
    n_failures  how often the server failed
    """

    def __init__(
        self,
        send: Send,
        beat: Call,
        beats_along: bool = False,
        try_again: Callable[[], None] = lambda: None,
        has_queue: bool = False,
    ) -> None:
        """send, try_again: of a Server. beat: the heartbeat; may raise OtherFleet.

        has_queue: whether requests wait on the server.
        """
        self.n_lost = self.n_refused = self.n_failures = 0
        self._send = send
        self._beat, self._beats_along = beat, beats_along
        self.has_left = False
        self._try_again, self._has_queue = try_again, has_queue
        self._held = HeldBack()  # told before all that is in _waiting
        self._lacks_nodes = False
        self._retry_at, self._retry_pause = 0.0, FIRST_PAUSE_S
        self._next_beat = 0.0
        self._asked: deque[Question] = deque()
        self._waiting: deque[Call] = deque()
        self._withheld: list[Call] = []
        self._is_in_doubt = False
        self._changed = threading.Condition()
        self._closing_at: float | None = None
        self._ended = False
        self._pause = FIRST_PAUSE_S
        self._down_until = 0.0
        self._most = MAX_BATCH
        self._logged: set[str] = set()
        self._thread = threading.Thread(target=self._run, name="neardup-fleet", daemon=True)
        self._thread.start()

    def ask(self, call: Call) -> Future[Any]:
        """A future of the server's answer, read by call.read; Unanswered if there is none."""
        answer: Future[Any] = Future()
        with self._changed:
            if self._ended or time.monotonic() < self._down_until:
                answer.set_exception(Unanswered("the server failed a moment ago, or is left"))
            else:
                self._asked.append((call, answer))
                self._changed.notify()
        return answer

    def tell(self, call: Call) -> None:
        """Send a message as soon as the server takes it."""
        with self._changed:
            n_waiting = len(self._waiting) + len(self._withheld) + len(self._held.calls)
            if self.has_left or n_waiting >= MAX_WAITING:
                self.n_lost += 1
            elif self._is_in_doubt and call.needs_queue:
                self._withheld.append(call)
            else:
                self._waiting.append(call)
                self._changed.notify()

    def release(self, n_failures: int) -> None:
        """The server has all requests that it had, by an answer to what was asked after as many
        failures: send what was withheld, unless it has failed since.
        """
        with self._changed:
            if self._is_in_doubt and n_failures == self.n_failures:
                self._is_in_doubt = False
                self._waiting.extend(self._withheld)
                self._withheld.clear()
                self._changed.notify()

    def drop_withheld(self) -> None:
        """The server has lost requests, and what is told from now on takes that into account."""
        with self._changed:
            self._is_in_doubt = False
            self._withheld.clear()

    def try_held(self) -> None:
        """Send what is held back once more, before all that is told from now on."""
        with self._changed:
            self._retry_at = 0.0
            self._changed.notify()

    def _n_untold(self) -> int:
        return len(self._held.calls) + len(self._waiting) + len(self._withheld)

    @property
    def is_down(self) -> bool:
        """Whether the server failed a moment ago, or is left."""
        return self.has_left or time.monotonic() < self._down_until

    def close(self, patience_s: float) -> None:
        """Send what waits, for at most patience_s seconds; count what is left as lost."""
        with self._changed:
            self._closing_at = time.monotonic() + patience_s
            self._down_until = self._retry_at = 0.0  # it may be back: there is no later
            self._changed.notify()
        self._thread.join()
        self.n_lost += self._n_untold()

    def _run(self) -> None:
        try:
            while calls := self._gathered():
                self._take_round(*calls)
        finally:
            with self._changed:
                self._ended = True
                self._turn_away("the link is closed")

    def _gathered(self) -> tuple[list[Question], list[Call]] | None:
        """Questions and messages for the next round trip; None at the end."""
        with self._changed:
            while (rest := self._rest()) > 0:
                self._changed.wait(rest)
            if self._is_over():
                return None
            if self._lacks_nodes and time.monotonic() >= self._retry_at:
                self._lacks_nodes = False
                self._try_again()
            asked = [self._asked.popleft() for _ in range(min(self._most, len(self._asked)))]
            return asked, self._next_to_tell(self._most - len(asked))

    @property
    def _tells_held(self) -> bool:
        """Whether those held back are next: they go first, if they may go."""
        return bool(self._held.calls) and not self._lacks_nodes

    def _next_to_tell(self, room: int) -> list[Call]:
        if self._held.calls and self._lacks_nodes:
            self._hold_what_follows(room)
        return list(islice(self._held.calls if self._tells_held else self._waiting, room))

    def _hold_what_follows(self, room: int) -> None:
        """Hold back, of the next messages, those that follow one that is held back."""
        others: list[Call] = []
        while self._waiting and len(others) < room:
            call = self._waiting.popleft()
            if self._held.has_before(call):
                self._held.append(call)
            else:
                others.append(call)
        self._waiting.extendleft(reversed(others))

    def _rest(self) -> float:
        """Seconds until there is something to do."""
        if self._is_over():
            return 0
        due = self._next_beat
        if self._asked or self._waiting or self._tells_held:
            due = 0.0
        elif self._held.calls:
            due = min(due, self._retry_at)
        due = max(due, self._down_until)
        if self._closing_at is not None:
            due = min(due, self._closing_at)
        return max(due - time.monotonic(), 0)

    def _is_over(self) -> bool:
        if self.has_left:
            return True
        if self._closing_at is None:
            return False
        has_work = self._asked or self._waiting or self._held.calls
        return not has_work or time.monotonic() >= self._closing_at

    def _take_round(self, asked: list[Question], told: list[Call]) -> None:
        are_held = self._tells_held  # before an answer says which nodes are down
        beats = self._beats_along or time.monotonic() >= self._next_beat
        calls = [*[self._beat][:beats], *(call for call, _ in asked), *told]
        answers = self._send(calls)
        if beats and self._hears_of_another_fleet(answers[0], asked):
            return
        failures = [a for a in answers if isinstance(a, Exception) and not isinstance(a, NodeDown)]
        self._note_nodes([a for a in answers if isinstance(a, NodeDown)])
        passing = next((error for error in failures if is_passing(error)), None)
        lacks_queue = self._lacks_queue(calls, answers)
        answers = answers[beats:]
        done = self._cross_off(told, answers[len(asked) :], are_held)
        self._note_refusals([error for error in failures if not is_passing(error)])
        if not_done := list(_not_done(done)):
            self._note_not_done(not_done)
        if passing is not None:
            self._sit_out(passing)
        else:
            self._pause, self._most = FIRST_PAUSE_S, min(2 * self._most, MAX_BATCH)
        if lacks_queue:
            with self._changed:
                self._withhold()
        for (call, answer), got in zip(asked, answers, strict=False):
            _resolve(call, answer, got)

    def _hears_of_another_fleet(self, answer: Any, asked: list[Question]) -> bool:
        """Read the heartbeat's answer; if it is of another fleet, leave, and answer nobody."""
        self._next_beat = time.monotonic() + BEAT_S
        if isinstance(answer, Exception):
            return False
        try:
            read(self._beat, answer)
        except OtherFleet as error:
            self._leave(error)
            for call, unanswered in asked:
                _resolve(call, unanswered, Unanswered(str(error)))
            return True
        except WrongAnswer as error:
            self._note_refusals([error])
        return False

    def _leave(self, error: OtherFleet) -> None:
        with self._changed:
            self.has_left = True
            self.n_lost += self._n_untold()
            self._held = HeldBack()
            self._waiting.clear()
            self._withheld.clear()
        logger.warning(
            "neardup: this worker has left its fleet and goes on alone: %s. If the server lost "
            "its data and another worker drew a new secret: end this crawl and start it again, "
            "with a new NEARDUP_STATE_DIR if it has one",
            error,
        )

    def _cross_off(self, told: list[Call], answers: list[Any], are_held: bool) -> list[Answered]:
        """Remove messages up to the first that has to be sent again, so that order is kept.

        Those to a node that is down, and what follows them, are held back, so that others need not
        wait. Returns the rest of those removed, with their answers.

        are_held: whether all of them were held back before.
        """
        n_done = next((n for n, a in enumerate(answers) if is_to_be_sent_again(a)), len(answers))
        done = list(zip(told[:n_done], answers, strict=False))
        with self._changed:
            for _ in range(n_done):
                (self._held if are_held else self._waiting).popleft()
            if any(isinstance(answer, NodeDown) for answer in answers):
                done = self._hold_back(done, are_held)
        return done

    def _hold_back(self, answered: list[Answered], are_held: bool) -> list[Answered]:
        held = HeldBack()
        done = held.sort_out(answered)
        self._held.extend(held, in_front=are_held)
        return done

    def _lacks_queue(self, calls: list[Call], answers: list[Any]) -> bool:
        """Whether the cluster's node failed that has the queue, which is in the heartbeat's slot.

        Calls of that node's other slots do not show it: the link does not know which these are.
        """
        slot = self._beat.key.partition("}")[0] + "}"
        return any(
            isinstance(answer, NodeDown)
            and not isinstance(answer, ServerFull)
            and call.key.startswith(slot)
            for call, answer in zip(calls, answers, strict=True)
        )

    def _note_nodes(self, errors: list[NodeDown]) -> None:
        """Leave nodes that are down alone for a pause, which doubles while they stay down."""
        if not errors:
            self._retry_pause = self._retry_pause if self._lacks_nodes else FIRST_PAUSE_S
        elif not self._lacks_nodes:
            self._lacks_nodes = True
            self._retry_at = time.monotonic() + self._retry_pause
            self._retry_pause = min(2 * self._retry_pause, LONGEST_PAUSE_S)
            if isinstance(errors[0], ServerFull):
                self._log_once("full", FULL, errors[0])
            else:
                self._log_once("node", LACKS_NODE, errors[0])

    def _note_not_done(self, errors: list[FleetError]) -> None:
        forgotten = [error for error in errors if isinstance(error, CallForgotten)]
        with self._changed:
            self.n_lost += len(forgotten)
        self._note_refusals([error for error in errors if not isinstance(error, CallForgotten)])

    def _note_refusals(self, errors: Sequence[Exception]) -> None:
        self.n_refused += len(errors)
        for error in errors:
            self._log_once(
                "refused",
                "neardup: the server of NEARDUP_BACKEND refuses (%s). What it refused is given "
                "up: pages may be fetched and kept twice. Further refusals are only counted",
                error,
            )

    def _sit_out(self, error: Exception) -> None:
        with self._changed:
            self._down_until = time.monotonic() + self._pause
            self._pause = min(2 * self._pause, LONGEST_PAUSE_S)
            self._most = 1
            self._next_beat = 0.0  # the first thing to ask: the server may have lost its data
            self._withhold()
            self._turn_away(str(error))
        self._log_once("failed", QUEUE_FAILED if self._has_queue else FAILED, error)

    def _withhold(self) -> None:
        self.n_failures += 1
        self._is_in_doubt = True
        held, waiting = list(self._held.calls), list(self._waiting)
        self._withheld += [call for call in held + waiting if call.needs_queue]
        self._waiting = deque(call for call in waiting if not call.needs_queue)
        self._held = HeldBack(call for call in held if not call.needs_queue)

    def _turn_away(self, reason: str) -> None:
        while self._asked:
            call, answer = self._asked.popleft()
            _resolve(call, answer, Unanswered(reason))

    def _log_once(self, what: str, message: str, error: Exception) -> None:
        if what not in self._logged:
            self._logged.add(what)
            logger.warning(message, error)


def _about(call: Call) -> tuple[str, bytes]:
    """What a message is about: those about the same are to come to the server in order."""
    return call.key, call.subject


def _not_done(answered: Iterable[Answered]) -> Iterator[FleetError]:
    """What messages that the server took say was not done."""
    for call, answer in answered:
        if not isinstance(answer, Exception):
            try:
                read(call, answer)
            except TooManyEntries:
                pass  # the page was admitted
            except FleetError as error:
                yield error


def is_to_be_sent_again(answer: Any) -> bool:
    """Whether a message and those behind it have to be sent again."""
    return isinstance(answer, Exception) and not isinstance(answer, NodeDown) and is_passing(answer)


def _resolve(call: Call, answer: Future[Any], got: Any) -> None:
    """Set the answer, unless the asker has cancelled it."""
    if not answer.set_running_or_notify_cancel():
        return
    if isinstance(got, Unanswered):
        answer.set_exception(got)
        return
    if isinstance(got, Exception):
        answer.set_exception((Unanswered if is_passing(got) else Refused)(str(got)))
        return
    try:
        answer.set_result(read(call, got))
    except WrongAnswer as error:
        answer.set_exception(Refused(str(error)))
    except FleetError as error:  # raised where the answer is awaited
        answer.set_exception(error)
