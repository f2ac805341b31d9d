"""What changed in a fleet's runs is listed for all workers at once."""

import csv
import io
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from fleets import RunningServer, cluster_url, running_cluster
from mock_site import MockSite, page, redirect
from test_crawl_recrawl import Shop, add_shop, product

pytest.importorskip("redis", reason="the extra `redis` is not installed")

from test_fleet_recrawl import FLEET_SCHEDULER, Fleet

from scrapy_neardup.commands import main
from scrapy_neardup.fleet import visit_scripts as scripts
from scrapy_neardup.fleet.change_log import MAX_WHAT, ChangeLog, log_key, run_key
from scrapy_neardup.fleet.operations import Operator
from scrapy_neardup.fleet.protocol import Call, shard_of_site
from scrapy_neardup.state.visit_file import Change, Status


class Listed(Fleet):
    """A fleet whose changes are listed."""

    def __init__(
        self, site: MockSite, url: str, folder: Path, capsys: pytest.CaptureFixture[str]
    ) -> None:
        super().__init__(site, url, folder)
        self.capsys = capsys

    def out(self, *options: str) -> str:
        self.capsys.readouterr()
        assert main(["changes", self.url, *options]) == 0
        return self.capsys.readouterr().out

    def rows(self, *options: str) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.out("--json", *options).splitlines()]

    def told(self, *options: str) -> list[tuple[str, str]]:
        """Status and path of each row."""
        return [(r["status"], r["url"].removeprefix(self.site.root)) for r in self.rows(*options)]


@pytest.fixture
def fleet(
    server: RunningServer,
    mock_site: MockSite,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> Listed:
    return Listed(mock_site, server.url, tmp_path, capsys)


def test_what_all_workers_found_is_one_list(fleet: Listed) -> None:
    add_shop(fleet.site, 6)
    fleet.crawl_at_once("one", "two", SCHEDULER=FLEET_SCHEDULER)
    assert fleet.told() == [("new", f"/p/{i}") for i in range(6)] + [("new", "/start")]
    fleet.site.add("/p/1", product(1, price="11.00"))
    fleet.site.add("/p/4", product(4, price="11.00"))
    fleet.site.add("/p/2", "gone", status=410)
    fleet.site.pages["/p/3"] = redirect("/q/3", 301)
    fleet.site.add("/q/3", product(3))
    fleet.crawl_at_once("one", "two", SCHEDULER=FLEET_SCHEDULER)
    second = [("new", "/q/3"), ("changed", "/p/1"), ("changed", "/p/4"), ("gone", "/p/2")]
    assert fleet.told() == [*second, ("moved", "/p/3")]
    changed = [row for row in fleet.rows() if row["status"] == "changed"]
    assert [(row["fields"], row["added"]) for row in changed] == [(["price"], ["11.00"])] * 2
    assert fleet.rows("--tombstones")[1]["moved_to"] == fleet.site.url("/q/3")
    fleet.crawl("three")
    assert fleet.told() == []
    assert "finished\n  nothing changed" in fleet.out()


def test_a_list_begins_with_a_run_or_a_day(fleet: Listed) -> None:
    add_shop(fleet.site, 2)
    fleet.crawl("one")
    (first,) = {row["run"] for row in fleet.rows()}
    fleet.site.add("/p/1", product(1, price="11.00"))
    fleet.crawl("two")
    days = datetime.now(UTC).date()
    for since in (str(first), str(days - timedelta(days=1))):
        assert fleet.told("--since", since)[-1] == ("changed", "/p/1")
        assert len(fleet.told("--since", since)) == 4
    (second,) = {row["run"] for row in fleet.rows()}
    assert len(fleet.told("--since", str(second))) == 1
    assert main(["changes", fleet.url, "--since", str(days + timedelta(days=2))]) == 1
    rows = list(csv.DictReader(io.StringIO(fleet.out("--csv"))))
    assert [(row["status"], row["fields"]) for row in rows] == [("changed", "price")]
    text = fleet.out()
    assert "shop, " in text
    assert f"  changed  {fleet.site.url('/p/1')} (price)" in text


def test_a_fleet_that_never_crawled_again_has_no_run(fleet: Listed) -> None:
    assert main(["changes", fleet.url]) == 1
    assert main(["changes", fleet.url, "--due"]) != 0
    assert main(["changes", "redis://127.0.0.1:1/0"]) != 0


def test_what_was_taken_back_is_not_listed(fleet: Listed) -> None:
    add_shop(fleet.site)
    fleet.crawl("one")
    for i in range(8):
        fleet.site.add(f"/p/{i}", page("We are sorry", "down for maintenance"))
    assert fleet.crawl("two").stat("recrawl/reverted") == 1
    assert fleet.told() == []
    assert "the site seemed out of order" in fleet.out()


def test_what_varies_at_every_visit_is_not_listed_in_the_end(fleet: Listed) -> None:
    from test_crawl_recrawl import Titles, noise

    n = 40
    fleet.site.add("/start", page("start", *(f"/p/{i}" for i in range(n))))
    for visit in (1, 2):
        for i in range(n):
            fleet.site.add(f"/p/{i}", product(i, "12.50", noise(visit, i)))
        fleet.crawl("one" if visit == 1 else "two", Titles)
    assert fleet.told() == []


def test_a_run_has_not_ended_until_each_worker_has(fleet: Listed) -> None:
    class Stopped(Shop):
        custom_settings = {"CLOSESPIDER_PAGECOUNT": 2}  # noqa: RUF012

    add_shop(fleet.site)
    fleet.crawl("one", Stopped)
    assert "closespider_pagecount" in fleet.out()
    fleet.crawl("two", Stopped, SCHEDULER=FLEET_SCHEDULER)  # others may go on with its queue
    assert "UTC: not ended" in fleet.out()
    fleet.crawl("three", SCHEDULER=FLEET_SCHEDULER)
    assert "UTC: not ended" in fleet.out()


def test_in_a_cluster_the_list_is_whole(
    mock_site: MockSite, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with running_cluster() as nodes:
        url = cluster_url(nodes)
        fleet = Listed(mock_site, url, tmp_path, capsys)
        add_shop(fleet.site, 3)
        fleet.crawl("one")
        assert len(fleet.rows()) == 4


def test_what_a_stranger_wrote_into_the_list_is_passed_over(fleet: Listed) -> None:
    add_shop(fleet.site, 1)
    fleet.crawl("one")
    run = fleet.rows()[0]["run"]
    operator = Operator(fleet.url, "neardup")
    client, key = operator._client, log_key(shard_of_site("neardup", "x"), "shop", run)
    for name, told in (
        (b"", b"[1.5, null, null]"),
        (b"9x", b"[1.5, null, null]"),
        (b"3x", b"[1e300, null, null]"),
        (b"3x2", b"[NaN, null, null]"),
        (b"3y", b"[1.5, 7, null]"),
        (b"3z", b"[" * 100_000),
        (b"\xff\xfe", b"\xff"),
        (b"3\x1b[2Jok", b'[1.5, null, "[]"]'),
    ):
        client.hset(key, name, told)
    client.hset(run_key("neardup", "shop") + ":" + "9" * 15, "w", "")
    client.hset(run_key("neardup", "shop") + ":x", "w", "")
    client.hset(b"{neardup}:run:\xff:5", "w", "")
    client.hset(f"{run_key('neardup', 'shop')}:{run}", "w", "\x1b[2J")
    operator.close()
    assert len(fleet.rows()) == 3
    assert "\x1b" not in fleet.out()


def test_what_happens_twice_is_listed_once_and_long_pages_in_brief(
    server: RunningServer, fleet: Listed
) -> None:
    operator, calls = Operator(server.url, "neardup"), []
    log = ChangeLog(calls.append, "neardup", "shop", 1_700_000_000_000)
    what = json.dumps({"fields": ["price"], "added": ["x" * 300] * 20, "removed": 3})
    change = Change(1, 1.5, Status.CHANGED, "https://a.example/", None, what)
    log.add("a.example", change)
    log.add("a.example", change)
    log.add("a.example", change._replace(url="https://a.example/2"))
    log.take_back("a.example", Status.CHANGED, "https://a.example/2")
    calls.append(Call(scripts.END, run_key("neardup", "shop"), (1_700_000_000_000, "w", "x"), bool))
    for call in calls:
        operator._client.eval(call.script, 1, call.key, *call.arguments)
    (found,) = operator.changes(operator.runs())
    assert found.url == change.url
    assert found.told == {"fields": ["price"], "removed": 3}
    assert len(found.what or "") <= MAX_WHAT
    operator.close()
