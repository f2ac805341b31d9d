"""What learnt rules skip is saved, and made after all where a rule turns out to be wrong."""

import json
import logging
import os
import signal
from collections.abc import Callable, Iterator
from multiprocessing import get_context
from pathlib import Path
from typing import Any, ClassVar

import pytest
from crawls import Outcome, PagesSpider, crawl, crawl_requests
from mock_site import MockSite, page, prose
from scrapy import Request
from scrapy.http import Response

from scrapy_neardup import commands
from scrapy_neardup.crawl.learning import url_skipping
from scrapy_neardup.crawl.learning.url_skipping import RequestSkipped
from scrapy_neardup.learn import learner
from scrapy_neardup.own_files import NotOurFile
from scrapy_neardup.state.mac import SKIPPED, signed_json
from scrapy_neardup.state.skipped import (
    FILE,
    SkippedRequest,
    SkippedRequests,
    examine,
    repair,
)

N = 60
NEVER = 10**9
ACT = {"NEARDUP_LEARN": "act", "NEARDUP_LEARN_ERROR": 0.1}
IN_TURN = {"SCRAPER_SLOT_MAX_ACTIVE_SIZE": 1}  # no request is under way when a page is judged
NEEDED = 29 + 5


def add_items(site: MockSite, numbers: range, differ: bool = False) -> list[str]:
    """Paths of items, then of their print versions; differ: which say something else."""
    for i in numbers:
        site.add(f"/item/{i}", page(prose(f"item {i}")))
        site.add(f"/item/{i}?print=1", page(prose(f"print {i}" if differ else f"item {i}")))
    return [f"/item/{i}{query}" for query in ("", "?print=1") for i in numbers]


def run(site: MockSite, paths: list[str], **settings: Any) -> Outcome:
    return crawl_requests(site, *paths, settings=ACT | IN_TURN | settings)


@pytest.fixture
def unchecked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing that would be skipped is downloaded."""
    monkeypatch.setattr(learner, "VERIFIED", NEVER)
    monkeypatch.setattr(url_skipping, "MAX_CHECKED", 0)


def test_copies_are_skipped_once_their_rule_is_trusted(
    mock_site: MockSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(url_skipping, "MAX_CHECKED", 0)
    outcome = run(mock_site, add_items(mock_site, range(N)))
    skipped, verified = outcome.stat("learn/skipped"), outcome.stat("learn/verified")
    assert skipped + verified == N - NEEDED
    assert skipped > verified
    assert outcome.urls == [mock_site.url(f"/item/{i}") for i in range(N)]
    assert sum(mock_site.hits.values()) == 2 * N - skipped + 2  # and a seed, and robots.txt


def test_a_share_of_what_would_be_skipped_is_downloaded(
    mock_site: MockSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(learner, "VERIFIED", 1)
    outcome = run(mock_site, add_items(mock_site, range(N)))
    assert outcome.stat("learn/verified") == N - NEEDED
    assert not outcome.stat("learn/skipped")


@pytest.mark.parametrize("n_last", [1, 9])
def test_what_was_skipped_last_is_checked_before_the_end(
    mock_site: MockSite, monkeypatch: pytest.MonkeyPatch, n_last: int
) -> None:
    """Print versions differ from some item on, and none of those is drawn to be downloaded."""
    monkeypatch.setattr(learner, "VERIFIED", NEVER)
    last = range(N, N + n_last)
    outcome = run(mock_site, add_items(mock_site, range(N)) + add_items(mock_site, last, True))
    assert outcome.stat("learn/rules/withdrawn") == 1
    assert {mock_site.url(f"/item/{i}?print=1") for i in last} <= set(outcome.urls)


def test_what_is_made_to_check_a_rule_is_not_called_saved(
    mock_site: MockSite, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(learner, "VERIFIED", NEVER)
    caplog.set_level(logging.INFO, "scrapy_neardup")
    outcome = run(mock_site, add_items(mock_site, range(N)), LOG_LEVEL="INFO")
    checks = outcome.stat("learn/verified")
    assert checks > 0
    n_saved = N - NEEDED - checks
    assert f"saved {n_saved} downloads; {checks} more made to check them" in caplog.text


def test_each_section_is_checked_before_the_end(
    mock_site: MockSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    """?v=2 means nothing in 26 sections and something in one, which is not the last."""
    monkeypatch.setattr(learner, "VERIFIED", NEVER)
    paths = []
    for section in [*"abcdefghijklmnopqrstuvwxy", "zz", "last"]:
        for i in range(3):
            path = f"/shop/{section}/{i}"
            mock_site.add(path, page(prose(path)))
            mock_site.add(f"{path}?v=2", page(prose(path + "other" * (section == "zz"))))
            paths += [path, f"{path}?v=2"]
    outcome = run(mock_site, paths)
    assert outcome.stat("learn/skipped") > 0
    assert {mock_site.url(f"/shop/zz/{i}?v=2") for i in range(3)} <= set(outcome.urls)


def test_a_wrong_rule_gives_back_what_it_skipped(
    mock_site: MockSite, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Print versions differ from the 60th item on; one in three is downloaded all the same."""
    monkeypatch.setattr(learner, "VERIFIED", 3)
    paths = add_items(mock_site, range(N)) + add_items(mock_site, range(N, 2 * N), differ=True)
    caplog.set_level(logging.INFO, "scrapy_neardup")
    outcome = run(mock_site, paths, LOG_LEVEL="INFO")
    n_given_back = outcome.stat("learn/given_back")
    assert n_given_back > 0
    assert "0 learnt rules saved 0 downloads; " in caplog.text
    assert f"; {n_given_back} made after all since their rule was withdrawn" in caplog.text
    assert outcome.stat("learn/rules/withdrawn") == 1
    prints = {mock_site.url(f"/item/{i}?print=1") for i in range(N, 2 * N)}
    assert prints <= set(outcome.urls)


@pytest.mark.usefixtures("unchecked")
def test_a_later_crawl_gives_back_what_an_earlier_one_skipped(
    mock_site: MockSite, tmp_path: Path
) -> None:
    state = {"NEARDUP_STATE_DIR": str(tmp_path), "NEARDUP_KEY": None}
    paths = add_items(mock_site, range(N)) + add_items(mock_site, range(N, N + 9), differ=True)
    first = run(mock_site, paths, **state)
    assert first.stat("learn/skipped") == N - NEEDED + 9
    commands.main(["rules", str(tmp_path), "--forget", "1"])
    second = run(mock_site, ["/page/other"], **state)
    assert second.stat("learn/given_back") == N - NEEDED + 9
    prints = {mock_site.url(f"/item/{i}?print=1") for i in range(N, N + 9)}
    assert prints <= set(second.urls)
    assert not run(mock_site, ["/page/third"], **state).stat("learn/given_back")


def test_a_job_gives_back_what_it_skipped(
    mock_site: MockSite, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(learner, "VERIFIED", 3)
    paths = add_items(mock_site, range(N)) + add_items(mock_site, range(N, 2 * N), differ=True)
    outcome = run(mock_site, paths, JOBDIR=str(tmp_path))
    assert outcome.stat("learn/given_back") > 0
    prints = {mock_site.url(f"/item/{i}?print=1") for i in range(N, 2 * N)}
    assert prints <= set(outcome.urls)


@pytest.mark.usefixtures("unchecked")
def test_undo_fetches_what_a_rule_skipped(
    mock_site: MockSite, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run(mock_site, add_items(mock_site, range(N)), NEARDUP_STATE_DIR=str(tmp_path))
    url = mock_site.url(f"/item/{N - 1}?print=1")
    assert mock_site.gets(f"/item/{N - 1}?print=1") == 0
    assert commands.main(["explain", url, "--state", str(tmp_path)]) == 0
    told = capsys.readouterr().out
    assert "dropped: not fetched: it shows what its original shows, says a learnt rule" in told
    assert f"original               {mock_site.url(f'/item/{N - 1}')}" in told
    assert "otherwise by           NEARDUP_LEARN='watch'; undo fetches the page" in told
    assert "fetched as" not in told
    assert commands.main(["undo", url, "--state", str(tmp_path)]) == 0
    outcome = run(mock_site, ["/page/other"], NEARDUP_STATE_DIR=str(tmp_path))
    assert url in outcome.urls


class Listening(PagesSpider):
    """Notes what its errback hears."""

    heard: ClassVar[list[BaseException]] = []

    def requests(self) -> Iterator[Request]:
        for n, url in enumerate(self.urls):
            yield Request(url, errback=self.failed, priority=-n)

    def failed(self, failure: Any) -> None:
        self.heard.append(failure.value)


def test_the_errback_of_a_skipped_request_hears_that_its_page_was_not_fetched(
    mock_site: MockSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(learner, "VERIFIED", NEVER)
    Listening.heard.clear()
    urls = [mock_site.url(path) for path in add_items(mock_site, range(N))]
    crawl(Listening, ACT, seed=mock_site.url("/page/seed"), urls=urls)
    assert {type(error) for error in Listening.heard} == {RequestSkipped}
    assert f"a copy of {urls[N - 1]}, says a learnt rule: {urls[-1]}" in str(Listening.heard[-1])


@pytest.mark.usefixtures("unchecked")
def test_pages_that_are_read_again_are_skipped_and_given_back_alike(
    mock_site: MockSite, tmp_path: Path
) -> None:
    """Under NEARDUP_RECRAWL, each crawl skips copies; none is taken for changed or gone."""
    daily = {"NEARDUP_STATE_DIR": str(tmp_path), "NEARDUP_RECRAWL": "all", "NEARDUP_KEY": None}
    paths = add_items(mock_site, range(N))
    first, second = (run(mock_site, paths, **daily) for _ in range(2))
    originals = {mock_site.url(f"/item/{i}") for i in range(N)}
    for outcome in (first, second):
        assert originals <= set(outcome.urls)
        assert not outcome.stat("recrawl/gone")
        assert not outcome.stat("recrawl/changed")
        assert not outcome.stat("errors/recrawl")
    assert first.stat("learn/skipped") == N - NEEDED
    assert second.stat("learn/skipped") == N  # the rule is trusted from the start
    commands.main(["rules", str(tmp_path), "--forget", "1"])
    third = run(mock_site, ["/page/other"], **daily)
    assert third.stat("learn/given_back") == N
    assert not third.stat("errors/learn")


class Killed(PagesSpider):
    """Dies when its last page comes."""

    def parse(self, response: Response) -> Iterator[Any]:
        if response.url.endswith("/last"):
            os.kill(os.getpid(), signal.SIGKILL)
        yield {"url": response.url}


def crawl_until_killed(root: str, folder: str, paths: list[str]) -> None:
    """To be run in a process of its own."""
    learner.VERIFIED = NEVER
    made = [Request(root + path, priority=-i) for i, path in enumerate(paths)]
    state = {"NEARDUP_STATE_DIR": folder}
    crawl(Killed, ACT | IN_TURN | state, seed=f"{root}/page/seed", requests=lambda: iter(made))


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs a signal that kills at once")
def test_a_crawl_after_a_kill_gives_back_what_was_skipped(
    mock_site: MockSite, tmp_path: Path
) -> None:
    paths = add_items(mock_site, range(N)) + add_items(mock_site, range(N, N + 9), differ=True)
    arguments = (mock_site.root, str(tmp_path), [*paths, "/page/last"])
    process = get_context("spawn").Process(target=crawl_until_killed, args=arguments)
    process.start()
    process.join()
    assert process.exitcode == -signal.SIGKILL
    prints = {f"/item/{i}?print=1" for i in range(N, N + 9)}
    assert not any(mock_site.gets(path) for path in prints)
    n_skipped = (tmp_path / FILE).read_bytes().count(b'"skipped"')
    assert n_skipped >= len(prints)
    second = run(mock_site, ["/page/other"], NEARDUP_STATE_DIR=str(tmp_path))
    assert second.stat("learn/given_back") == n_skipped
    assert set(map(mock_site.url, prints)) <= set(second.urls)


class LastCarries(PagesSpider):
    """Makes the last request in another way than all others."""

    def requests(self) -> Iterator[Request]:
        *others, last = (self.site.url(path) for path in self.paths)
        yield from (Request(url, priority=1) for url in others)
        yield self.last(last)

    def parse(self, response: Response, **carried: Any) -> Iterator[Any]:
        item = {"url": response.url, "text": response.css("p::text").get()}
        yield item | response.meta.get("item", {}) | carried

    def parse_price(self, response: Response) -> Iterator[Any]:
        yield {"url": response.url, "price": "7.50 by its own callback"}


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize(
    "last",
    [
        lambda _, url: Request(url, cb_kwargs={"price": "7.50"}),
        lambda _, url: Request(url, meta={"item": {"price": "7.50"}}),
        lambda spider, url: Request(url, spider.parse_price),
    ],
    ids=["cb_kwargs", "meta", "callback"],
)
def test_no_rule_skips_a_request_that_brings_more_than_its_twin(
    mock_site: MockSite, last: Callable[[Any, str], Request], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(LastCarries, "last", last, raising=False)
    paths, seed = add_items(mock_site, range(N)), mock_site.url("/page/seed")
    settings = ACT | IN_TURN
    outcome = crawl(LastCarries, settings, site=mock_site, seed=seed, paths=paths)
    assert outcome.stat("learn/skipped") == N - NEEDED - 1
    assert [item["url"] for item in outcome.items if "price" in item] == [mock_site.url(paths[-1])]


class Carrying(PagesSpider):
    """Requests that a file can or cannot hold."""

    def requests(self) -> Iterator[Request]:
        for priority, path in enumerate(reversed(self.paths)):
            yield self.request(path, priority)

    def request(self, path: str, priority: int) -> Request:
        return Request(
            self.site.url(path),
            self.parse_item,
            meta={"playwright_page_methods": [path]},
            headers={"X-Carried": path},
            priority=priority,
        )

    def parse_item(self, response: Response) -> Iterator[Any]:
        header = response.request.headers["X-Carried"].decode()
        carried = response.meta["playwright_page_methods"]
        yield {"url": response.url, "header": header, "carried": carried}


def test_a_request_is_given_back_with_all_that_it_carried(
    mock_site: MockSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(learner, "VERIFIED", 3)
    paths = add_items(mock_site, range(N)) + add_items(mock_site, range(N, 2 * N), differ=True)
    settings = ACT | {"NEARDUP_IGNORE_FIELDS": ["header", "carried"]}
    seed = mock_site.url("/page/seed")
    outcome = crawl(Carrying, settings, site=mock_site, seed=seed, paths=paths)
    assert outcome.stat("learn/given_back") > 0
    for item in outcome.items:
        path = item["url"].removeprefix(mock_site.root)
        assert item["header"] == path
        assert item["carried"] == [path]


@pytest.mark.usefixtures("unchecked")
def test_a_crawl_ends_that_cannot_make_what_was_skipped(
    mock_site: MockSite, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its spider has the callback no more; a later one, which has it, makes the requests."""
    settings = ACT | IN_TURN | {"NEARDUP_STATE_DIR": str(tmp_path), "NEARDUP_KEY": None}
    settings["NEARDUP_IGNORE_FIELDS"] = ["header", "carried"]
    paths, seed = add_items(mock_site, range(N)), mock_site.url("/page/seed")
    first = crawl(Carrying, settings, site=mock_site, seed=seed, paths=paths)
    n_skipped = first.stat("learn/skipped")
    assert n_skipped > 2
    commands.main(["rules", str(tmp_path), "--forget", "1"])
    monkeypatch.setattr(url_skipping, "AT_ONCE", n_skipped - 1)
    second = run(mock_site, ["/page/2"], **settings, CLOSESPIDER_TIMEOUT=60)
    assert second.stats["finish_reason"] == "finished"
    assert second.stat("errors/learn") == n_skipped
    assert not second.stat("learn/given_back")
    third = crawl(Carrying, settings, site=mock_site, seed=seed, paths=["/page/3"])
    assert third.stat("learn/given_back") == n_skipped


@pytest.mark.usefixtures("unchecked")
def test_undo_makes_a_request_with_all_that_it_carried(mock_site: MockSite, tmp_path: Path) -> None:
    settings = ACT | IN_TURN | {"NEARDUP_IGNORE_FIELDS": ["header", "carried"]}
    settings |= {"NEARDUP_STATE_DIR": str(tmp_path)}
    seed, paths = mock_site.url("/page/seed"), add_items(mock_site, range(N))
    crawl(Carrying, settings, site=mock_site, seed=seed, paths=paths)
    assert mock_site.gets(paths[-1]) == 0
    url = mock_site.url(paths[-1])
    assert commands.main(["undo", url, "--state", str(tmp_path)]) == 0
    outcome = crawl(Carrying, settings, site=mock_site, seed=seed, paths=[])
    assert outcome.items == [{"url": url, "header": paths[-1], "carried": [paths[-1]]}]


class Uncarried(Carrying):
    """Requests with something in meta that no JSON holds."""

    def request(self, path: str, priority: int) -> Request:
        request = super().request(path, priority)
        request.meta["playwright_page"] = object()
        return request


def test_a_request_that_no_file_can_hold_is_made(mock_site: MockSite) -> None:
    seed, paths = mock_site.url("/page/seed"), add_items(mock_site, range(N))
    settings = ACT | {"NEARDUP_IGNORE_FIELDS": ["header", "carried"]}
    outcome = crawl(Uncarried, settings, site=mock_site, seed=seed, paths=paths)
    assert outcome.stat("learn/rules/trusted") == 1
    assert not outcome.stat("learn/skipped")


# --- the file

KEY = 2**64 - 3


def skipped(number: int, rule: str = "rule") -> SkippedRequest:
    return SkippedRequest(f"http://a.example/{number}", "http://a.example/", [rule], {"url": "x"})


def test_skipped_requests_outlive_a_torn_line(tmp_path: Path) -> None:
    requests = SkippedRequests(tmp_path, KEY)
    requests.add(skipped(1))
    requests.add(skipped(2, "another"))
    requests.close()
    with (tmp_path / FILE).open("ab") as file:
        file.write(b'{"skipped": ["http://a.ex')
    requests = SkippedRequests(tmp_path, KEY)
    requests.add(skipped(3))
    requests.fetched(skipped(1).url)
    assert list(requests.to_make({"another"})) == [skipped(3)]
    assert list(requests.to_make(set())) == [skipped(2, "another"), skipped(3)]
    requests.close()


def test_lines_that_somebody_else_wrote_neither_make_nor_cancel_a_request(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    requests = SkippedRequests(tmp_path, KEY)
    requests.add(skipped(1))
    requests.close()
    theirs = SkippedRequests(tmp_path, KEY ^ 1)
    theirs.add(skipped(2))
    theirs.fetched(skipped(1).url)
    theirs.close()
    with (tmp_path / FILE).open("ab") as file:
        file.write(b'{"fetched": "http://a.example/1"}\n' + b"[" * 50_000 + b"\n")
    assert "4 lines are damaged" in str(examine(tmp_path, KEY))
    requests = SkippedRequests(tmp_path, KEY)
    assert list(requests.to_make(set())) == [skipped(1)]
    assert requests.n_foreign == 4
    assert "4 lines are damaged, or were not written under this folder's key" in caplog.text
    requests.close()
    aside = repair(tmp_path, KEY)
    assert len(aside.read_bytes().splitlines()) == 5
    assert examine(tmp_path, KEY) is None


@pytest.mark.skipif(os.name == "nt", reason="links need rights there")
def test_a_link_in_the_place_of_the_file_is_not_followed(tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.write_bytes(b"of another program")
    (tmp_path / FILE).symlink_to(other)
    with pytest.raises(OSError, match="is a link"):
        SkippedRequests(tmp_path, KEY)
    assert other.read_bytes() == b"of another program"


@pytest.mark.parametrize(
    "entry",
    [
        *({"skipped": 5}, {"skipped": [1, 2, 3]}, {"skipped": ["u", "t", [], {}]}, {}, [], 5),
        *({"skipped": ["u", "t", [[]], {}]}, {"skipped": ["u", "t", "rule", {}]}),
        *({"skipped": ["u", "t", ["rule"], 5]}, {"fetched": 5}, {"fetched": None}),
    ],
)
def test_what_no_crawl_writes_is_left_out_though_its_code_is_right(
    tmp_path: Path, entry: object
) -> None:
    line = signed_json(7, SKIPPED, json.dumps(entry).encode()) + b"\n"
    if entry in ([], 5):
        line = json.dumps(entry).encode() + b"\n"
    (tmp_path / FILE).write_bytes(line)
    skipped = SkippedRequests(tmp_path, 7)
    assert list(skipped.to_make([])) == []
    assert skipped.n_foreign == 1
    skipped.close()


@pytest.mark.skipif(os.name == "nt", reason="links need rights there")
@pytest.mark.parametrize("link", [Path.symlink_to, Path.hardlink_to])
def test_requests_are_not_written_through_a_link(
    tmp_path: Path, link: Callable[[Path, Path], None]
) -> None:
    (tmp_path / "of another program").touch()
    link(tmp_path / FILE, tmp_path / "of another program")
    with pytest.raises(NotOurFile):
        SkippedRequests(tmp_path, KEY)
