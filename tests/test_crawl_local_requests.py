"""Requests that stay in a worker's memory until their hosts are the worker's."""

from urllib.parse import urlsplit

import pytest
from scrapy.http import Request
from scrapy.squeues import FifoMemoryQueue

from scrapy_neardup.crawl.queues.local_requests import MOST_HOSTS, LocalRequests


class Worker:
    """Has hosts, and requests in its memory."""

    def __init__(self) -> None:
        self.hosts: set[str] = set()
        self.n_asked = 0
        self.requests = LocalRequests(
            FifoMemoryQueue(),
            host_of=lambda request: urlsplit(request.url).netloc,
            is_ours=self.hosts.__contains__,
            ask=self.ask,
        )

    def ask(self) -> None:
        self.n_asked += 1

    def push(self, *urls: str) -> None:
        for url in urls:
            self.requests.push(Request(f"http://{url}"))

    def pop(self) -> str | None:
        request = self.requests.pop()
        return request and request.url.removeprefix("http://")


@pytest.fixture
def worker() -> Worker:
    return Worker()


def test_a_request_waits_until_its_host_is_given(worker: Worker) -> None:
    worker.push("a/1", "a/2", "b/1")
    assert worker.n_asked == 3
    assert worker.pop() is None
    assert len(worker.requests) == 3
    worker.requests.given(["a"])
    assert [worker.pop() for _ in range(3)] == ["a/1", "a/2", None]
    assert worker.requests.waits
    worker.requests.given_all()
    assert worker.pop() == "b/1"
    assert not worker.requests.waits


def test_a_request_for_a_host_of_ones_own_is_ready_at_once(worker: Worker) -> None:
    worker.hosts.add("a")
    worker.push("a/1")
    assert worker.requests.ready == {"a": 1}
    assert worker.pop() == "a/1"
    assert not worker.requests.ready
    assert not worker.n_asked


def test_a_slot_that_changes_while_a_request_is_ready_keeps_no_host(worker: Worker) -> None:
    worker.hosts.add("a")
    request = Request("http://a/1")
    worker.requests.push(request)
    request._set_url("http://b/1")
    assert worker.requests.pop() is request
    assert worker.pop() is None
    assert not worker.requests.ready


def test_of_many_hosts_each_is_asked_for_in_turn(worker: Worker) -> None:
    hosts = [f"h{n}" for n in range(MOST_HOSTS + 2)]
    worker.push(*hosts)
    assert worker.requests.wanted() == hosts[:MOST_HOSTS]
    assert worker.requests.wanted()[:3] == [*hosts[MOST_HOSTS:], "h0"]
    worker.requests.given(hosts[:MOST_HOSTS])
    assert worker.requests.wanted() == []  # not before some are made
