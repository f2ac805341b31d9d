"""What a server's user may not do is said before a worker writes anything."""

from collections import Counter
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from crawls import crawl
from fleets import RunningServer, Worker
from mock_site import MockSite
from scrapy.http import Response

pytest.importorskip("redis", reason="the extra `redis` is not installed")

from test_fleet_client import FRONTIER_USER, RECRAWL_USER, USER
from test_scheduler import SCHEDULER, Links, hub, kept

from scrapy_neardup.errors import FleetError
from scrapy_neardup.fleet import frontier_scripts, scripts, unlinked_scripts, visit_scripts
from scrapy_neardup.fleet.futures import pause
from scrapy_neardup.fleet.permissions import commands_of


def allow(server: RunningServer, user: str) -> str:
    """The server's URL for a user that may do no more than is said."""
    server.command("ACL", "SETUSER", *user.split())
    return server.url.replace("//", "//worker:Pass%2Fword1@")


def allowed(user: str) -> set[str]:
    return {word[1:].upper() for word in user.split() if word.startswith("+")}


def test_the_user_of_the_docs_may_run_what_the_scripts_run() -> None:
    for_visits = commands_of(visit_scripts, unlinked_scripts)
    assert {"HGET", "PEXPIRE", "TIME"} < set(for_visits)
    assert allowed(USER) >= set(commands_of(scripts))
    assert allowed(USER + " " + RECRAWL_USER) >= set(for_visits)
    assert allowed(USER + " " + FRONTIER_USER) >= set(commands_of(frontier_scripts))


@pytest.mark.parametrize("key", [None, 5])
def test_a_worker_whose_user_may_not_do_all_is_refused_and_told_what(
    key: int | None, server: RunningServer
) -> None:
    url = allow(server, USER.replace(" +get ", " ").replace("+hvals", ""))
    with pytest.raises(FleetError, match=r"may not run .* ACL SETUSER <user> \+get \+hvals\."):
        Worker(url, key=key)
    assert server.command("DBSIZE") == ":0\r\n"


def test_a_worker_is_told_what_crawling_again_needs(server: RunningServer) -> None:
    url = allow(server, USER)
    Worker(url).close()
    with pytest.raises(FleetError, match=r"\+hgetall \+zadd \+zcount \+zrangebyscore \+zrem"):
        Worker(url, recrawl="changed")
    allow(server, f"worker {RECRAWL_USER}")
    Worker(url, recrawl="changed").close()


def test_a_worker_that_may_not_take_requests_is_refused_and_finds_all_once_it_may(
    server: RunningServer, mock_site: MockSite
) -> None:
    root = hub(mock_site, "/page/1", "/page/2")
    settings = {"NEARDUP_BACKEND": allow(server, USER), "SCHEDULER": SCHEDULER}
    with pytest.raises(FleetError, match=r"\+decr \+decrby .* \+zscore"):
        crawl(Links, settings, root=root)
    assert server.command("DBSIZE") == ":0\r\n"
    allow(server, f"worker {FRONTIER_USER}")
    outcome = crawl(Links, settings, root=root)
    assert kept(outcome, mock_site) == Counter(["/hub", "/page/1", "/page/2"])
    assert outcome.stats["finish_reason"] == "finished"


class Forbidding(Links):
    """The server's user may not do something any more, from a page on."""

    server: RunningServer
    path: str
    forbidden: str

    def parse(self, response: Response, **kwargs: Any) -> Iterator[Any]:
        if response.url.endswith(self.path):
            self.server.command("ACL", "SETUSER", "worker", f"-{self.forbidden}")
        yield from super().parse(response)


def test_a_worker_that_may_not_take_requests_any_more_makes_its_own_and_says_so(
    server: RunningServer, mock_site: MockSite, caplog: pytest.LogCaptureFixture
) -> None:
    class Now(Forbidding):
        pass

    Now.server, Now.path, Now.forbidden = server, "/hub", "zadd"
    url = allow(server, f"{USER} {FRONTIER_USER}")
    root = hub(mock_site, "/page/1", "/page/2")
    outcome = crawl(Now, {"NEARDUP_BACKEND": url, "SCHEDULER": SCHEDULER}, root=root)
    assert kept(outcome, mock_site) == Counter(["/hub", "/page/1", "/page/2"])
    assert outcome.stats["finish_reason"] == "requests_lost"
    assert "refuses to give requests" in caplog.text
    assert "Allow the server's user" in caplog.text


@pytest.mark.parametrize("forbidden", ["get", "sadd", "hdel", "del", "decrby", "zrem", "zscore"])
def test_a_permission_that_was_taken_away_leaves_the_rest_to_the_next_run(
    forbidden: str, server: RunningServer, mock_site: MockSite
) -> None:
    class Now(Forbidding):
        pass

    Now.server, Now.path, Now.forbidden = server, "/page/3", forbidden
    paths = [f"/page/{n}" for n in range(1, 9)]
    settings = {"NEARDUP_BACKEND": allow(server, f"{USER} {FRONTIER_USER}"), "SCHEDULER": SCHEDULER}
    settings |= {"CONCURRENT_REQUESTS": 1, "CLOSESPIDER_TIMEOUT": 20}
    root = hub(mock_site, *paths)
    first = crawl(Now, settings, root=root)
    allow(server, f"worker +{forbidden}")
    second = crawl(Links, settings, root=root)
    assert first.stats["finish_reason"] == "requests_lost"
    assert second.stats["finish_reason"] == "finished"
    assert {*kept(first, mock_site), *kept(second, mock_site)} == {"/hub", *paths}


class Damaging(Links):
    """Another program writes where the queue counts its requests, while a page is read for long."""

    server: RunningServer

    async def parse(self, response: Response, **kwargs: Any) -> AsyncIterator[Any]:
        if response.url.endswith("/page/3"):
            self.server.command("SET", "{neardup}:q:s:links:n", "9.5")
            await pause(1.5)
        for found in super().parse(response):
            yield found


def test_a_worker_that_was_refused_requests_ends_though_it_is_given_none_later(
    server: RunningServer, mock_site: MockSite, caplog: pytest.LogCaptureFixture
) -> None:
    class Now(Damaging):
        pass

    Now.server = server
    settings = {"NEARDUP_BACKEND": server.url, "SCHEDULER": SCHEDULER, "CONCURRENT_REQUESTS": 1}
    root = hub(mock_site, "/page/1", "/page/2", "/page/3")
    outcome = crawl(Now, settings | {"CLOSESPIDER_TIMEOUT": 15}, root=root)
    assert outcome.stats["finish_reason"] == "requests_lost"
    assert "under another NEARDUP_BACKEND_PREFIX" in caplog.text
    assert "Allow the server's user" not in caplog.text
