"""Spiders of scrapy-redis under our schedulers: what they take from redis_key is not lost."""

import os
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from multiprocessing import get_context
from typing import Any

import pytest
from crawls import Outcome, crawl
from fleets import RunningServer
from mock_site import MockSite
from scrapy import Request
from scrapy.exceptions import CloseSpider
from scrapy.http import Response

pytest.importorskip("redis", reason="the extra `redis` is not installed")
pytest.importorskip("scrapy_redis", reason="scrapy-redis is not installed")

from redis import Redis
from scrapy_redis.spiders import RedisSpider
from test_scheduler import SCHEDULER, hub, kept

from scrapy_neardup.crawl.queues.start_messages import TAKE
from scrapy_neardup.errors import SettingsError

KEY, TAKEN = "messages:start_urls", "messages:start_urls:taken"
ALIVE = "0000beef"
KINDS = {
    "RPUSH": {},
    "SADD": {"REDIS_START_URLS_AS_SET": True},
    "ZADD": {"REDIS_START_URLS_AS_ZSET": True},
}


class Messages(RedisSpider):  # type: ignore[misc]  # has no types
    """Follows every link of its start URLs and makes an item of every page."""

    name = "messages"
    outcome: Outcome

    def make_request_from_data(self, data: bytes) -> Any:
        return Request(data.decode(), dont_filter=True)

    def parse(self, response: Response) -> Iterator[Any]:
        yield {"url": response.url}
        yield from response.follow_all(css="a")


def run(server: RunningServer, spider: type[Messages] = Messages, **more: Any) -> Outcome:
    """A crawl; names in capitals are settings, others the spider's attributes."""
    settings = {"NEARDUP_BACKEND": server.url, "REDIS_URL": server.url, "SCHEDULER": SCHEDULER}
    settings |= {"MAX_IDLE_TIME_BEFORE_CLOSE": 1, "CONCURRENT_REQUESTS": 4}
    settings |= {name: value for name, value in more.items() if name.isupper()}
    return crawl(spider, settings, **{name: more[name] for name in more if not name.isupper()})


def push(server: RunningServer, *urls: str, by: str = "RPUSH") -> None:
    for score, url in enumerate(urls):
        server.command(by, KEY, *([str(score)] if by == "ZADD" else []), url)


def keys_left(server: RunningServer) -> str:
    return server.command("EXISTS", KEY, TAKEN)


@pytest.mark.parametrize("by", KINDS)
def test_start_urls_of_a_key_are_crawled_once_and_none_is_left(
    by: str, server: RunningServer, mock_site: MockSite
) -> None:
    pages = [f"/page/{n}" for n in range(6)]
    push(server, hub(mock_site, "/page/7"), *map(mock_site.url, pages), by=by)
    outcome = run(server, **KINDS[by])
    assert kept(outcome, mock_site) == Counter(["/hub", "/page/7", *pages])
    assert keys_left(server) == ":0\r\n"


def test_a_spider_under_scrapys_own_scheduler_keeps_its_start_urls_until_their_pages_are_done(
    server: RunningServer, mock_site: MockSite
) -> None:
    left = []

    class Looking(Messages):
        def parse(self, response: Response) -> Iterator[Any]:
            left.append(keys_left(server))
            yield from super().parse(response)

    push(server, hub(mock_site, "/page/1"))
    run(server, Looking, SCHEDULER="scrapy.core.scheduler.Scheduler")
    assert left == [":1\r\n", ":1\r\n"]
    assert keys_left(server) == ":0\r\n"


class Dying(Messages):
    """Its process is killed while it makes its second request."""

    n_made = 0

    def make_request_from_data(self, data: bytes) -> Any:
        self.n_made += 1
        if self.n_made == 2:
            os._exit(9)
        return super().make_request_from_data(data)


def die(server_url: str) -> None:
    settings = {"NEARDUP_BACKEND": server_url, "REDIS_URL": server_url, "SCHEDULER": SCHEDULER}
    crawl(Dying, settings | {"CONCURRENT_REQUESTS": 4})


def test_start_urls_that_a_killed_worker_had_taken_are_crawled_by_the_next(
    server: RunningServer, mock_site: MockSite
) -> None:
    pages = [f"/page/{n}" for n in range(4)]
    push(server, *map(mock_site.url, pages))
    process = get_context("spawn").Process(target=die, args=(server.url,))
    process.start()
    process.join(60)
    assert process.exitcode == 9
    assert server.command("LLEN", KEY) == ":0\r\n"
    forget_owner(server)
    outcome = run(server)
    assert kept(outcome, mock_site) == Counter(pages)
    assert outcome.stat("start_messages/returned") == 4
    assert keys_left(server) == ":0\r\n"


def forget_owner(server: RunningServer) -> None:
    """End the lease of the one worker that has messages, as four seconds do."""
    with Redis.from_url(server.url) as client:
        (owner,) = {field.split(b"-")[0] for field in client.hkeys(TAKEN)}
        client.delete(b"{neardup}:w:" + owner)


def test_what_a_living_worker_has_taken_is_left_to_it(
    server: RunningServer, mock_site: MockSite
) -> None:
    push(server, mock_site.url("/page/1"))
    server.command("HSET", TAKEN, f"{ALIVE}-1:0", mock_site.url("/page/2"))
    server.command("SET", "{neardup}:w:" + ALIVE, "1")
    assert kept(run(server), mock_site) == Counter(["/page/1"])
    assert keys_left(server) == ":1\r\n"


def test_a_start_url_that_comes_twice_is_crawled_twice(
    server: RunningServer, mock_site: MockSite
) -> None:
    push(server, *(mock_site.url("/page/1") for _ in range(3)))
    outcome = run(server)
    assert mock_site.gets("/page/1") == 3
    assert not outcome.stat("frontier/left")


class Raising(Messages):
    """Cannot make a request of one message."""

    redis_batch_size = 2
    tried: list[str]

    def make_request_from_data(self, data: bytes) -> Any:
        self.tried.append(data.decode()[-7:])
        if data.endswith(b"/page/1"):
            raise ValueError("no such page")
        return super().make_request_from_data(data)


@pytest.mark.parametrize("pages", [[1, 0, 2, 3], [0, 2, 1, 3]])
def test_a_message_of_which_no_request_can_be_made_takes_no_other_along(
    pages: list[int], server: RunningServer, mock_site: MockSite, caplog: pytest.LogCaptureFixture
) -> None:
    push(server, *(mock_site.url(f"/page/{n}") for n in pages))
    outcome = run(server, Raising, tried=[])
    assert kept(outcome, mock_site) == Counter(["/page/0", "/page/2", "/page/3"])
    assert server.command("HVALS", TAKEN).count("/page/1") == 1
    assert outcome.stat("errors/start_messages") == 1
    assert f"can make no request of the message b'{mock_site.url('/page/1')}'" in caplog.text
    assert "ValueError: no such page" in caplog.text
    assert f"1 messages stay in {TAKEN!r}" in caplog.text


def test_such_a_message_is_tried_once_by_the_next_worker_after_those_that_are_new(
    server: RunningServer, mock_site: MockSite
) -> None:
    push(server, mock_site.url("/page/1"))
    run(server, Raising, tried=[])
    forget_owner(server)
    push(server, *(mock_site.url(f"/page/{n}") for n in (4, 5, 6, 7)))
    tried: list[str] = []
    outcome = run(server, Raising, tried=tried)
    assert tried == ["/page/4", "/page/5", "/page/6", "/page/7", "/page/1"]
    assert outcome.stat("start_messages/returned") == 1
    assert keys_left(server) == ":1\r\n"


class Breaking(Messages):
    """Makes a request of each message, and then raises."""

    def make_request_from_data(self, data: bytes) -> Iterator[Request]:
        yield Request(data.decode())
        raise ValueError("no")


def test_a_message_stays_that_fails_after_its_first_request(
    server: RunningServer, mock_site: MockSite
) -> None:
    pages = ["/page/1", "/page/2"]
    push(server, *map(mock_site.url, pages))
    assert kept(run(server, Breaking), mock_site) == Counter(pages)
    assert server.command("HLEN", TAKEN) == ":2\r\n"


def test_a_spider_may_end_its_crawl_when_it_is_asked_for_requests(
    server: RunningServer, mock_site: MockSite
) -> None:
    class Ending(Messages):
        async def start(self) -> AsyncIterator[Any]:
            yield Request(mock_site.url("/page/1"))

        def make_request_from_data(self, data: bytes) -> Any:
            raise CloseSpider("enough")

    push(server, *map(mock_site.url, ["/page/2", "/page/3"]))
    outcome = run(server, Ending)
    assert outcome.stats["finish_reason"] == "enough"
    assert not outcome.stat("errors/start_messages")
    assert server.command("HLEN", TAKEN) == ":2\r\n"


class Several(Messages):
    """Makes several requests of a message, or none."""

    def make_request_from_data(self, data: bytes) -> Any:
        return [Request(url) for url in data.decode().split(",") if url != "none"]


def test_a_message_may_make_several_requests_or_none(
    server: RunningServer, mock_site: MockSite
) -> None:
    push(server, ",".join(map(mock_site.url, ("/page/1", "/page/2"))), "none")
    outcome = run(server, Several)
    assert kept(outcome, mock_site) == Counter(["/page/1", "/page/2"])
    assert keys_left(server) == ":0\r\n"


def test_a_call_that_comes_twice_takes_the_same_messages(server: RunningServer) -> None:
    with Redis.from_url(server.url) as client:
        client.rpush(KEY, *"abcd")
        first, again = (client.eval(TAKE, 2, KEY, TAKEN, "0000beef-1", 2, "LPOP") for _ in "ab")
        assert first == again == [0, [], [b"0000beef-1:0", b"a", b"0000beef-1:1", b"b"]]
        failed = client.eval(TAKE, 2, KEY, TAKEN, "0000beef-2", 1, "LPOP", "0000beef-1")
        assert failed[0] == 1
        assert failed[2][1::2] in ([b"c", b"a"], [b"c", b"b"])
        assert client.hlen(TAKEN) == 3


def test_a_spider_that_takes_start_urls_in_its_own_way_says_so(
    server: RunningServer, mock_site: MockSite, caplog: pytest.LogCaptureFixture
) -> None:
    class Own(Messages):
        def next_requests(self) -> Iterator[Request]:
            for url in self.server.lpop(KEY, 9) or ():
                yield Request(url.decode(), dont_filter=True)

    push(server, mock_site.url("/page/1"))
    assert kept(run(server, Own), mock_site) == Counter(["/page/1"])
    assert "Own takes start URLs from redis_key in a way of its own" in caplog.text


def test_a_dupefilter_that_outlives_its_requests_is_refused(server: RunningServer) -> None:
    with pytest.raises(SettingsError, match="Leave DUPEFILTER_CLASS out"):
        run(server, DUPEFILTER_CLASS="scrapy_redis.dupefilter.RFPDupeFilter")


def test_requests_in_a_queue_of_scrapy_redis_are_not_left_there(server: RunningServer) -> None:
    server.command("ZADD", "messages:requests", "0", "pickle")
    with pytest.raises(SettingsError, match="requests wait in 'messages:requests'"):
        run(server)


def test_start_urls_are_taken_while_another_worker_is_busy(
    server: RunningServer, mock_site: MockSite
) -> None:
    workers, spider = "{neardup}:q:workers", "{neardup}:q:s:messages:workers"

    class Beside(Messages):
        def parse(self, response: Response) -> Iterator[Any]:
            server.command("HSET", spider, "busy", "i")
            yield from super().parse(response)

    server.command("ZADD", workers, "9e15", "busy")
    server.command("HSET", spider, "busy", "b")
    push(server, mock_site.url("/page/1"))
    assert kept(run(server, Beside), mock_site) == Counter(["/page/1"])


@pytest.mark.parametrize(("queue", "first"), [("FifoQueue", 0), ("PriorityQueue", 9)])
def test_the_queue_class_of_scrapy_redis_says_which_request_is_first(
    queue: str, first: int, server: RunningServer, mock_site: MockSite
) -> None:
    pages = [f"/page/{n}" for n in range(10)]
    push(server, hub(mock_site, *pages))
    settings = {"SCHEDULER_QUEUE_CLASS": f"scrapy_redis.queue.{queue}", "CONCURRENT_REQUESTS": 1}
    outcome = run(server, **settings)
    assert outcome.urls[1].endswith(f"/page/{first}")
