"""A crawl whose queue fails does not end as if it had fetched everything."""

from pathlib import Path
from typing import Any

import pytest
from scrapy.squeues import PickleLifoDiskQueue

from tests.crawls import crawl
from tests.mock_site import MockSite
from tests.test_state_crawls import Follower, add_branch


class TornQueue(PickleLifoDiskQueue):  # type: ignore[misc,valid-type]
    """Takes three requests and fails from then on, as on a full disk."""

    n_pushed = 0

    def push(self, request: Any) -> None:
        type(self).n_pushed += 1
        if self.n_pushed > 3:
            raise OSError(28, "No space left on device")
        super().push(request)


class Unreadable(PickleLifoDiskQueue):  # type: ignore[misc,valid-type]
    """Gives nothing back that it took, as a torn file does."""

    def pop(self) -> Any:
        super().pop()
        raise ValueError("unpack requires a buffer of 4 bytes")


@pytest.mark.parametrize("queue", [TornQueue, Unreadable])
def test_a_queue_that_fails_is_said_counted_and_not_the_end_of_a_finished_crawl(
    mock_site: MockSite, tmp_path: Path, caplog: pytest.LogCaptureFixture, queue: type
) -> None:
    add_branch(mock_site)
    job = {"JOBDIR": str(tmp_path), "SCHEDULER_DISK_QUEUE": queue}
    outcome = crawl(Follower, job, seed=mock_site.url("/start"))
    assert outcome.stat("requests/lost") > 0
    assert outcome.stats["finish_reason"] == "requests_lost"
    assert caplog.text.count("the scheduler's queue failed") == 1


def test_what_was_lost_is_found_again(mock_site: MockSite, tmp_path: Path) -> None:
    add_branch(mock_site)
    urls = []
    for _ in range(6):
        TornQueue.n_pushed = 0
        outcome = crawl(
            Follower,
            {"JOBDIR": str(tmp_path), "SCHEDULER_DISK_QUEUE": TornQueue},
            seed=mock_site.url("/start"),
        )
        urls += outcome.urls
    assert {mock_site.url(f"/leaf/{number}") for number in range(3)} <= set(urls)
