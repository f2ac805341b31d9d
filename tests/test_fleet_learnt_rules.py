"""What one worker has learnt, the others know; what one has withdrawn, none applies."""

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from crawls import Outcome, crawl_requests
from fleets import RunningServer, Worker, wait_until
from mock_site import MockSite, page, prose
from test_fleet_client import USER

from scrapy_neardup.learn.changes import UrlChange
from scrapy_neardup.learn.learner import MAX_RULES, Learner, LearntHost
from scrapy_neardup.learn.rule import Rule, SamePair, Standing
from scrapy_neardup.learn.stored_rules import as_record

pytest.importorskip("redis", reason="the extra `redis` is not installed")

from scrapy_neardup.fleet.learnt_rules import SharedRules

ERROR = 0.1
CHANGE = UrlChange("argument", "print", "1")
RULES = "{neardup}:rules"
PAIR = SamePair("http://a.example/1?print=1", "http://a.example/1")


def trusted(right: int, shape: str = "a.example/*") -> Rule:
    return Rule(shape, CHANGE, Standing.TRUSTED, right=right, examples=[PAIR])


def exchanged(teller: Worker, hearer: Worker, *rules: Rule) -> list[Rule]:
    """What one worker hears after another has told of rules."""
    heard = list[Rule]()
    teller.fleet.exchange_rules(rules)

    def has_heard() -> bool:
        heard.extend(hearer.fleet.exchange_rules(()))
        return bool(heard)

    wait_until(has_heard)
    return heard


def test_a_rule_is_heard_of_and_the_surer_evidence_counts(server: RunningServer) -> None:
    one, other = Worker(server.url), Worker(server.url)
    (heard,) = exchanged(one, other, trusted(40))
    assert (heard.change, heard.right, heard.acts) == (CHANGE, 40, True)
    heard_of_two = exchanged(one, other, trusted(30), trusted(20, "b.example/*"))
    assert sorted(rule.right for rule in heard_of_two) == [20, 40]
    one.close()
    other.close()


def test_the_user_of_the_docs_may_tell_and_hear_of_rules(server: RunningServer) -> None:
    server.command("ACL", "SETUSER", *USER.split())
    url = server.url.replace("//", "//worker:Pass%2Fword1@")
    one, other = Worker(url), Worker(url)
    (heard,) = exchanged(one, other, trusted(40))
    assert heard.right == 40
    one.close()
    other.close()
    assert one.stat("backend/refused") == other.stat("backend/refused") == 0


def test_a_contradiction_is_the_last_word(server: RunningServer) -> None:
    one, other = Worker(server.url), Worker(server.url)
    withdrawn = trusted(40)
    withdrawn.contradicted(PAIR)
    learner = Learner(ERROR, acts=True)
    learner.hear([trusted(59)])
    (heard,) = exchanged(one, other, withdrawn, trusted(59))
    learner.hear([heard])
    assert [rule.standing for rule in learner.rules()] == [Standing.WITHDRAWN]
    learner.hear([trusted(99)])
    assert [rule.standing for rule in learner.rules()] == [Standing.WITHDRAWN]
    one.close()
    other.close()


@pytest.mark.parametrize("step", range(10))
def test_rules_that_come_while_others_are_read_are_not_lost(step: int) -> None:
    """Another answer comes after each step of the interpreter."""
    shared = SharedRules("neardup")
    answer = shared.tell(()).read
    answer([1, [stored(trusted(40))]])
    with called_after(step, SharedRules.heard, lambda: answer([2, [stored(trusted(50))]])):
        heard = shared.heard()
    assert 50 in [rule.right for rule in heard + shared.heard()]


def stored(rule: Rule) -> bytes:
    """A rule as the server has it."""
    return b"%d %s" % (rule.right, json.dumps(as_record(rule)).encode())


@contextmanager
def called_after(step: int, function: Any, call: Callable[[], Any]) -> Iterator[None]:
    """Call something when the interpreter has made so many steps of a function."""
    steps = count()

    def trace(frame: FrameType, event: str, argument: Any) -> Any:
        if frame.f_code is not function.__code__:
            return None
        frame.f_trace_opcodes = True
        if event == "opcode" and next(steps) == step:
            call()
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        yield
    finally:
        sys.settrace(before)


def test_the_server_is_told_again_after_it_lost_its_data(server: RunningServer) -> None:
    worker, other = Worker(server.url), Worker(server.url)
    assert exchanged(worker, other, trusted(40))
    server.command("FLUSHALL")

    def is_told_again() -> bool:
        worker.fleet.exchange_rules([trusted(40)])
        return server.command("HLEN", RULES) == ":2\r\n"  # and the number of changes

    wait_until(is_told_again)
    worker.close()
    other.close()


def items(site: MockSite, numbers: range) -> list[str]:
    for i in numbers:
        for query in ("", "?print=1"):
            site.add(f"/item/{i}{query}", page(prose(f"item {i}")))
    return [f"/item/{i}{query}" for query in ("", "?print=1") for i in numbers]


def run(
    site: MockSite, server: RunningServer, folder: Path | None, numbers: range, **more: Any
) -> Outcome:
    settings = {
        "NEARDUP_BACKEND": server.url,
        "NEARDUP_LEARN": "act",
        "NEARDUP_LEARN_ERROR": ERROR,
        "NEARDUP_STATE_DIR": str(folder or ""),
        "SCRAPER_SLOT_MAX_ACTIVE_SIZE": 1,
        **more,
    }
    return crawl_requests(site, *items(site, numbers), settings=settings)


def test_a_worker_applies_what_another_has_learnt(
    server: RunningServer, mock_site: MockSite, tmp_path: Path
) -> None:
    """Of 20 items, too few to learn a rule from, a worker that heard of it skips the copies."""
    first = run(mock_site, server, tmp_path / "one", range(60))
    assert first.stat("learn/rules/trusted") == 1
    second = run(mock_site, server, tmp_path / "other", range(100, 120))
    assert second.stat("learn/rules/trusted") == 1
    assert second.stat("learn/skipped") > 0
    assert not second.stat("errors/learn")
    assert {mock_site.url(f"/item/{i}") for i in range(100, 120)} <= set(second.urls)


@pytest.mark.parametrize("has_folder", [True, False])
def test_a_worker_takes_nothing_from_a_shared_queue_that_it_cannot_keep(
    server: RunningServer,
    mock_site: MockSite,
    tmp_path: Path,
    has_folder: bool,
    caplog: pytest.LogCaptureFixture,
) -> None:
    folder = tmp_path / "one" if has_folder else None
    scheduler = "scrapy_neardup.scheduler.FleetScheduler"
    outcome = run(mock_site, server, folder, range(60), SCHEDULER=scheduler)
    assert (outcome.stat("learn/skipped") > 0) == has_folder
    assert ("is 'watch' in this worker" in caplog.text) != has_folder


def test_a_host_takes_no_more_rules_of_others_than_it_learns_itself(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """However many are told, they are gone through once."""
    n_indexed, index = 0, Learner._index_acting

    def counted(learner: Learner, host: LearntHost) -> None:
        nonlocal n_indexed
        n_indexed += 1
        index(learner, host)

    monkeypatch.setattr(Learner, "_index_acting", counted)
    learner = Learner(ERROR, acts=True)
    heard = [trusted(59, f"a.example/{n}/*") for n in range(MAX_RULES + 10)]
    learner.hear(heard)
    assert len(learner.rules()) == MAX_RULES
    learner.hear(heard[:MAX_RULES])
    assert n_indexed == 1
