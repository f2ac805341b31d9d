"""The link between a worker and its server: what shares a round trip, what is sent again."""

from collections.abc import Sequence
from typing import Any

import pytest

pytest.importorskip("redis", reason="the extra `redis` is not installed")

from fleets import PATIENCE_S, wait_until
from redis.exceptions import ReadOnlyError, ResponseError

from scrapy_neardup.fleet import link as module
from scrapy_neardup.fleet.client import NodeDown, ServerFull
from scrapy_neardup.fleet.link import Link, Refused, Unanswered
from scrapy_neardup.fleet.protocol import Call, _marked

BEAT = Call("", "beat", (), int)


def message(number: int) -> Call:
    return Call("", str(number), (), int)


@pytest.fixture(autouse=True)
def one_sign_of_life(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that no other takes a place in a round trip that a test counts."""
    monkeypatch.setattr(module, "BEAT_S", 600.0)


class Recorder:
    """Carries out calls, but fails some of them once; keeps the keys of each round trip."""

    def __init__(self, failing: dict[str, Any]) -> None:
        """failing: key → error, or another answer."""
        self.round_trips: list[list[str]] = []
        self.failing = failing

    def send(self, calls: Sequence[Call]) -> list[Any]:
        self.round_trips.append([call.key for call in calls if call is not BEAT])
        return [self.failing.pop(call.key, 1) for call in calls]

    @property
    def sent(self) -> list[str]:
        return [key for keys in self.round_trips for key in keys]


class OneCallFull:
    """Carries out calls, but has no room for the first about one subject."""

    def __init__(self, full: str) -> None:
        self.full = full
        self.done: list[tuple[str, str]] = []

    def send(self, calls: Sequence[Call]) -> list[Any]:
        return [1 if call is BEAT else self._answer(call) for call in calls]

    def _answer(self, call: Call) -> Any:
        if not call.script and call.subject.decode() == self.full:
            return ServerFull("used memory > 'maxmemory'")
        self.done.append((call.subject.decode(), call.script))
        return 1


def test_messages_stay_in_order_where_some_have_to_be_sent_again() -> None:
    recorder = Recorder({"105": ReadOnlyError("a replica")})
    link = Link(recorder.send, BEAT)
    with link._changed:  # all in one
        for number in range(100, 110):
            link.tell(message(number))
    link.close(30)
    assert recorder.sent == [*map(str, range(100, 110)), *map(str, range(105, 110))]
    assert link.n_lost == link.n_refused == 0


def test_after_a_failure_one_call_finds_out_and_then_twice_as_many() -> None:
    recorder = Recorder({"0": ConnectionError("gone")})
    link = Link(recorder.send, BEAT)
    with link._changed:
        for number in range(20):
            link.tell(message(number))
    link.close(30)
    assert [len(keys) for keys in recorder.round_trips if keys] == [20, 1, 2, 4, 8, 5]


def test_questions_are_turned_away_while_the_server_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "FIRST_PAUSE_S", 600.0)
    link = Link(Recorder({"1": ConnectionError("gone")}).send, BEAT)
    with pytest.raises(Unanswered, match="gone"):
        link.ask(message(1)).result(PATIENCE_S)
    with pytest.raises(Unanswered, match="a moment ago"):
        link.ask(message(2)).result(PATIENCE_S)
    link.close(0)
    with pytest.raises(Unanswered):
        link.ask(message(3)).result(PATIENCE_S)


def test_what_is_refused_for_good_is_given_up() -> None:
    recorder = Recorder({"1": ResponseError("WRONGTYPE")})
    link = Link(recorder.send, BEAT)
    link.tell(message(1))
    link.close(30)
    assert (link.n_refused, link.n_lost) == (1, 0)
    assert recorder.sent == ["1"]


def test_an_answer_that_cannot_be_read_harms_its_asker_only() -> None:
    link = Link(Recorder({}).send, BEAT)
    unreadable = message(1)._replace(read=lambda answer: {}[answer])
    with pytest.raises(Refused, match="cannot be read: KeyError"):
        link.ask(unreadable).result(PATIENCE_S)
    assert link.ask(message(2)).result(PATIENCE_S) == 1
    link.close(30)


def test_more_messages_than_there_is_room_for_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_WAITING", 10)
    link = Link(Recorder({}).send, BEAT)
    with link._changed:
        for number in range(15):
            link.tell(message(number))
    link.close(30)
    assert link.n_lost == 5


def test_what_needs_the_queue_is_withheld_after_a_failure_until_the_queue_is_known() -> None:
    recorder = Recorder({"0": ConnectionError("gone")})
    link = Link(recorder.send, BEAT)
    with link._changed:
        for number in range(4):
            link.tell(message(number)._replace(needs_queue=number in (1, 2)))
    wait_until(lambda: link.n_failures == 1)
    link.tell(message(4)._replace(needs_queue=True))
    link.release(0)  # asked before the failure: says nothing of what was lost by it
    wait_until(lambda: recorder.sent.count("3") == 2)
    assert recorder.sent[-2:] == ["0", "3"]
    link.release(link.n_failures)
    link.close(30)
    assert recorder.sent[-3:] == ["1", "2", "4"]
    assert link.n_lost == 0


def test_what_needs_the_queue_is_withheld_after_only_its_node_of_a_cluster_failed() -> None:
    beat = Call("", "{f}:w", (), int)
    recorder = Recorder({"{f}:q": NodeDown("gone"), "{f:p:1}": NodeDown("gone")})
    link = Link(recorder.send, beat)
    with pytest.raises(Unanswered, match="gone"):
        link.ask(Call("", "{f:p:1}", (), int)).result(PATIENCE_S)
    link.tell(message(1)._replace(needs_queue=True))
    wait_until(lambda: "1" in recorder.sent)  # the queue's node did not fail
    with pytest.raises(Unanswered, match="gone"):
        link.ask(Call("", "{f}:q", (), int)).result(PATIENCE_S)
    link.tell(message(2)._replace(needs_queue=True))
    link.release(0)  # asked before the failure
    assert link.ask(message(3)).result(PATIENCE_S) == 1
    assert "2" not in recorder.sent
    link.release(link.n_failures)
    link.close(30)
    assert recorder.sent[-1] == "2"
    assert link.n_lost == 0


def test_what_a_full_server_does_not_take_holds_up_nothing_else() -> None:
    recorder = Recorder({"0": ServerFull("used memory > 'maxmemory'")})
    link = Link(recorder.send, BEAT)
    with link._changed:
        for number in range(3):
            link.tell(message(number)._replace(needs_queue=number == 2))
    link.close(30)
    assert recorder.round_trips[-2:] == [["0", "1", "2"], ["0"]]
    assert link.n_lost == link.n_failures == 0


def about(subject: str) -> Call:
    return Call("", "site", (), int, subject=subject.encode())


def test_what_follows_a_message_that_a_full_server_does_not_take_waits_with_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "FIRST_PAUSE_S", 600.0)
    server = OneCallFull("1")
    link = Link(server.send, BEAT)
    with link._changed:  # all in one
        for subject in "12":
            link.tell(about(subject))
            link.tell(about(subject)._replace(script="then"))
    wait_until(lambda: len(server.done) == 3)
    link.tell(about("1")._replace(script="last"))
    link.tell(about("3"))
    wait_until(lambda: ("3", "") in server.done)
    server.full = ""
    link.close(30)
    of_the_first = [script for subject, script in server.done if subject == "1"]
    assert of_the_first[-3:] == ["", "then", "last"]
    assert server.done.count(("1", "last")) == 1  # it was not sent in vain
    assert link.n_lost == link.n_refused == link.n_failures == 0


def test_what_is_held_back_goes_before_what_is_told_next_if_that_is_asked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "FIRST_PAUSE_S", 600.0)
    recorder = Recorder({"0": ServerFull("used memory > 'maxmemory'")})
    link = Link(recorder.send, BEAT)
    link.tell(message(0))
    wait_until(lambda: "0" in recorder.sent)
    link.try_held()
    link.tell(message(1))
    wait_until(lambda: "1" in recorder.sent)
    link.close(30)
    assert recorder.sent == ["0", "0", "1"]


def test_a_url_that_is_not_marked_since_a_call_is_forgotten_is_counted_as_lost() -> None:
    link = Link(Recorder({"0": 3}).send, BEAT)
    link.tell(message(0)._replace(read=_marked))
    link.tell(message(1)._replace(read=_marked))
    link.close(30)
    assert (link.n_lost, link.n_refused) == (1, 0)


def test_at_its_end_a_link_does_not_wait_for_a_pause_to_be_over(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "FIRST_PAUSE_S", 3600.0)
    link = Link(Recorder({"0": ConnectionError("gone")}).send, BEAT)
    link.tell(message(0))
    wait_until(lambda: link.n_failures == 1)
    link.close(30)
    assert link.n_lost == 0


def test_what_needs_a_queue_that_is_lost_is_not_sent() -> None:
    recorder = Recorder({"0": ConnectionError("gone")})
    link = Link(recorder.send, BEAT)
    with link._changed:
        link.tell(message(0))
        link.tell(message(1)._replace(needs_queue=True))
    wait_until(lambda: recorder.sent.count("0") == 2)
    link.drop_withheld()
    link.tell(message(2)._replace(needs_queue=True))
    link.close(30)
    assert recorder.sent[-1] == "2"
    assert link.n_lost == 0
