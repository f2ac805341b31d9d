"""What an operator does with a fleet: `scrapy neardup fleet …` against a real server."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from crawls import PagesSpider, crawl
from fleets import PATIENCE_S, RunningServer, Worker, cluster_url, running_cluster, running_server
from mock_site import MockSite, page, prose
from scrapy import Request
from scrapy.http import Response

pytest.importorskip("redis", reason="the extra `redis` is not installed")

import redis

from scrapy_neardup.commands import main
from scrapy_neardup.errors import FleetError
from scrapy_neardup.fleet import dump_file
from scrapy_neardup.fleet.frontier import SharedFrontier
from scrapy_neardup.fleet.operations import FleetStatus, troubles


def frontier(worker: Worker) -> SharedFrontier:
    return worker.fleet.frontier("a spider")


def take(worker: Worker) -> int:
    given = frontier(worker).take(1, 1, {}, (), is_idle=False, rest_s=0.0).result(PATIENCE_S)
    return len(given.requests)


def push(worker: Worker, n: int) -> None:
    shared = frontier(worker)
    shared.start().result(PATIENCE_S)
    shared.push([shared.queued(b"", "h", None, 0, "oldest") for _ in range(n)]).result(PATIENCE_S)


def test_status_tells_workers_and_what_waits(
    server: RunningServer, capsys: pytest.CaptureFixture[str]
) -> None:
    worker = Worker(server.url)
    push(worker, 3)
    assert take(worker) == 1
    assert main(["fleet", "status", server.url, "--json"]) == 0
    status = json.loads(capsys.readouterr().out)
    assert status["workers"] == 1
    queue = {"spider": "a spider", "waiting": 2, "leased": 1, "failed": 0}
    queue |= {"busy": 1, "idle": 0, "dead": 0, "lost": 0, "stranded": 0}
    assert status["queues"] == [queue]
    assert main(["fleet", "status", server.url]) == 0
    assert "a spider        2       1" in capsys.readouterr().out
    worker.close()


def test_check_names_what_could_lose_data(
    server: RunningServer, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    server.command("CONFIG", "SET", "maxmemory", "100mb")
    server.command("CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
    assert main(["fleet", "check", server.url]) == 1
    said = capsys.readouterr().out
    assert "there is no fleet under this prefix" in said
    assert "maxmemory-policy is allkeys-lru: set noeviction" in said
    assert "appendonly is no" in said
    with running_server(appendonly="yes", dir=tmp_path) as durable:
        Worker(durable.url).close()
        assert main(["fleet", "check", durable.url]) == 0
    assert "nothing is wrong" in capsys.readouterr().out


@pytest.mark.parametrize("action", ["status", "check", "export", "rotate-key"])
def test_a_prefix_without_a_fleet_is_said_and_leaves_no_file(
    server: RunningServer, capsys: pytest.CaptureFixture[str], tmp_path: Path, action: str
) -> None:
    Worker(server.url).close()
    command = ["fleet", action, server.url, "--prefix", "nerdup", "--file", str(tmp_path / "file")]
    assert main(command) == 1
    assert "there is no fleet under this prefix" in "".join(capsys.readouterr())
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("forgotten", ["s:a%20spider:free", "workers"])
def test_check_names_hosts_that_no_worker_comes_by(
    forgotten: str, server: RunningServer, capsys: pytest.CaptureFixture[str]
) -> None:
    worker = Worker(server.url)
    push(worker, 3)
    if forgotten == "workers":
        assert take(worker) == 1  # the host is the worker's
    main(["fleet", "check", server.url])
    assert "hosts of" not in capsys.readouterr().out
    server.command("DEL", "{neardup}:q:" + forgotten)
    assert main(["fleet", "check", server.url]) == 1
    assert "1 hosts of 'a spider' have requests that wait" in capsys.readouterr().out
    worker.close()


def test_check_names_requests_that_the_server_has_lost(
    server: RunningServer, capsys: pytest.CaptureFixture[str]
) -> None:
    worker = Worker(server.url)
    push(worker, 3)
    main(["fleet", "check", server.url])
    assert "are lost" not in capsys.readouterr().out
    server.command("DEL", "{neardup}:q:s:a%20spider:requests")
    assert main(["fleet", "check", server.url]) == 1
    assert "3 requests of 'a spider' that wait are lost" in capsys.readouterr().out
    worker.close()


@pytest.mark.parametrize(
    ("words", "key"),
    [
        (("HSET", "{neardup:u:0}", "slices", "many"), "b'{neardup:u:0}'"),
        (("SADD", "{neardup}:q:spiders", b"\xff"), "'{neardup}:q:spiders'"),
        (("SET", "{neardup}:q:s:a%20spider:n", "many"), "'{neardup}:q:s:a%20spider:n'"),
    ],
)
def test_status_names_what_no_worker_wrote(
    words: tuple[Any, ...], key: str, server: RunningServer, capsys: pytest.CaptureFixture[str]
) -> None:
    worker = Worker(server.url)
    push(worker, 1)
    with redis.Redis.from_url(server.url) as client:
        client.execute_command(*words)
    assert main(["fleet", "status", server.url]) == 2
    said = capsys.readouterr().err
    assert f"{key} on the server holds b'" in said
    assert "under another NEARDUP_BACKEND_PREFIX" in said
    worker.close()


@pytest.mark.parametrize("what", ["aof_last_write_status", "rdb_last_bgsave_status"])
def test_check_names_a_server_that_cannot_write_its_file(what: str) -> None:
    info = {"aof_enabled": 1, what: "err"}
    assert troubles(FleetStatus(True, 1, 0, [], [info])) == [
        f"{what} is err: what is told now is lost in a restart"
    ]


def test_what_was_exported_is_imported_elsewhere(
    server: RunningServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "fleet.dump"
    worker = Worker(server.url, key=None)
    for number in range(100):
        worker.decide(f"https://site.example/{number}", prose(number))
    worker.fleet.mark(b"site.example/1")
    push(worker, 2)
    worker.close()
    server.command("SET", "another", "key")
    assert main(["fleet", "export", server.url, "--file", str(file)]) == 0
    assert "1 workers live, or did four seconds ago" in capsys.readouterr().err
    assert main(["fleet", "export", server.url, "--file", str(file)]) == 2  # is there already
    with running_server() as other:
        assert main(["fleet", "import", other.url, "--file", str(file)]) == 0
        assert other.command("EXISTS", "another") == ":0\r\n"
        again = Worker(other.url, key=None)
        assert again.decide("https://site.example/x", prose(7)).kind == "exact"
        assert again.seen(b"site.example/1")
        assert take(again) == 1
        again.close()
        capsys.readouterr()
        assert main(["fleet", "import", other.url, "--file", str(file)]) == 2
        assert "has data of the fleet" in capsys.readouterr().err


def exported(server: RunningServer, file: Path, n_pages: int) -> bytes:
    """The file of a fleet that knows some pages."""
    worker = Worker(server.url, key=None)
    for number in range(n_pages):
        worker.decide(f"https://site{number}.example/", prose(number))
    worker.close()
    assert main(["fleet", "export", server.url, "--file", str(file)]) == 0
    return file.read_bytes()


@pytest.mark.parametrize("cut", [1, 16, 17, 40, 400])
def test_a_file_that_is_not_whole_is_not_imported(
    server: RunningServer, tmp_path: Path, capsys: pytest.CaptureFixture[str], cut: int
) -> None:
    file = tmp_path / "fleet.dump"
    whole = exported(server, file, 3)
    file.write_bytes(whole[:-cut])
    with running_server() as other:
        assert main(["fleet", "import", other.url, "--file", str(file)]) == 2
        assert "is not whole" in capsys.readouterr().err
        assert other.command("DBSIZE") == ":0\r\n"


def test_keys_between_which_some_are_missing_are_not_whole(
    server: RunningServer, tmp_path: Path
) -> None:
    file = tmp_path / "fleet.dump"
    exported(server, file, 3)
    first, *others = dump_file.read(file)
    (tmp_path / "part").write_bytes(file.read_bytes().replace(first.name + first.dump, b""))
    with pytest.raises(FleetError, match="is not whole"):
        list(dump_file.read(tmp_path / "part"))
    assert dump_file.write(tmp_path / "others", others) == len(others)
    assert list(dump_file.read(tmp_path / "others")) == others


def test_a_file_with_a_flipped_bit_is_not_whole(server: RunningServer, tmp_path: Path) -> None:
    whole = exported(server, tmp_path / "whole", 1)
    damaged = tmp_path / "damaged"
    for at in range(len(dump_file.MAGIC), len(whole)):
        damaged.write_bytes(whole[:at] + bytes([whole[at] ^ 1 << at % 8]) + whole[at + 1 :])
        with pytest.raises(FleetError, match="is not whole"):
            list(dump_file.read(damaged))


def test_an_export_whose_server_dies_leaves_no_file(
    server: RunningServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    exported(server, tmp_path / "whole", 20)
    pttl, left = redis.Redis.pttl, [5]

    def last_words(self: Any, name: bytes) -> Any:
        left[0] -= 1
        if not left[0]:
            server.kill()
        return pttl(self, name)

    monkeypatch.setattr(redis.Redis, "pttl", last_words)
    assert main(["fleet", "export", server.url, "--file", str(tmp_path / "part")]) == 2
    assert [path.name for path in tmp_path.iterdir()] == ["whole"]


def test_an_import_that_fails_leaves_nothing(
    server: RunningServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "fleet.dump"
    exported(server, file, 400)
    with running_server() as small:
        used = redis.Redis.from_url(small.url).info("memory")["used_memory"]
        small.command("CONFIG", "SET", "maxmemory", str(used + 200_000))
        assert main(["fleet", "import", small.url, "--file", str(file)]) == 2
        assert "what had come is removed" in capsys.readouterr().err
        assert small.command("DBSIZE") == ":0\r\n"
        small.command("CONFIG", "SET", "maxmemory", "0")
        assert main(["fleet", "import", small.url, "--file", str(file)]) == 0
        again = Worker(small.url, key=None)
        assert again.decide("https://site7.example/x", prose(7)).kind == "exact"
        again.close()


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("missing", "No such file"),
        ("", "Is a directory"),
        ("text", "was not written by this version's `fleet export`"),
    ],
)
def test_what_is_no_file_of_a_fleet_is_said_also_where_there_is_a_fleet(
    server: RunningServer, tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, told: str
) -> None:
    (tmp_path / "text").write_text("root:x:0:0\n", encoding="ascii")
    Worker(server.url).close()
    assert main(["fleet", "import", server.url, "--file", str(tmp_path / name)]) == 2
    assert told in capsys.readouterr().err


def test_an_import_without_a_server_is_said(
    server: RunningServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "fleet.dump"
    exported(server, file, 1)
    assert main(["fleet", "import", "redis://127.0.0.1:1/0", "--file", str(file)]) == 2
    assert "the server fails or refuses" in capsys.readouterr().err


def test_the_secret_comes_last(server: RunningServer, tmp_path: Path) -> None:
    """A worker that joins meanwhile is not taken into half a fleet."""
    file = tmp_path / "fleet.dump"
    exported(server, file, 3)
    with running_server() as other:
        link = redis.Redis.from_url(other.url)
        with link.monitor() as monitor:
            assert main(["fleet", "import", other.url, "--file", str(file)]) == 0
            link.ping()
            said = iter(lambda: monitor.next_command()["command"], "PING")
            restored = [line.split()[1] for line in said if line.startswith("RESTORE")]
    assert len(restored) > 3
    assert restored[-1] == "{neardup}:fleet"


@pytest.mark.parametrize(
    "site", ["bücher.example", "http://bücher.example:8080/x", "BÜCHER.example"]
)
def test_a_site_may_be_named_in_any_letters(
    server: RunningServer, site: str, capsys: pytest.CaptureFixture[str]
) -> None:
    worker = Worker(server.url)
    worker.decide("http://xn--bcher-kva.example/", prose(1))
    worker.close()
    assert main(["fleet", "forget", server.url, "--site", "other.example"]) == 1
    assert "no page of 'other.example' was known" in capsys.readouterr().err
    assert main(["fleet", "forget", server.url, "--site", site]) == 0
    assert capsys.readouterr().out == "1 pages forgotten\n"


def test_pages_of_a_site_are_forgotten_and_no_others(server: RunningServer) -> None:
    worker = Worker(server.url)
    for site in ("one", "two"):
        for number in range(100):
            worker.decide(f"https://{site}.example/{number}", prose(number))
    worker.close()
    assert main(["fleet", "forget", server.url, "--site", "one.example"]) == 0
    other = Worker(server.url)
    assert other.decide("https://one.example/x", prose(7)).kind == "new"
    assert other.decide("https://two.example/x", prose(7)).kind == "exact"
    other.close()


class Offers(PagesSpider):
    name = "offers"

    def parse(self, response: Response) -> Iterator[Any]:
        yield {"url": response.url, "price": response.url.rpartition("=")[2]}


@pytest.mark.parametrize("recrawl", ["", "changed"])
def test_items_of_a_site_that_was_forgotten_are_kept_again(
    server: RunningServer, mock_site: MockSite, tmp_path: Path, recrawl: str
) -> None:
    urls = [mock_site.add(f"/offer?price={i}", page(prose("an offer"))) for i in range(4)]
    settings = {"NEARDUP_BACKEND": server.url, "NEARDUP_RECRAWL": recrawl}
    settings |= {"NEARDUP_STATE_DIR": str(tmp_path)} if recrawl else {}

    def prices() -> list[str]:
        requests = [
            Request(url, priority=-i, meta={"neardup_refresh": True}) for i, url in enumerate(urls)
        ]
        seed = mock_site.url("/page/seed")
        outcome = crawl(Offers, settings, seed=seed, requests=lambda: iter(requests))
        return sorted(item["price"] for item in outcome.items)

    assert prices() == ["0", "1", "2", "3"]
    assert prices() == ["0"]  # of the first page, which is asked for on purpose
    assert main(["fleet", "forget", server.url, "--site", mock_site.root]) == 0
    assert prices() == ["0", "1", "2", "3"]


def test_what_expires_while_it_is_exported_is_left_out(
    server: RunningServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker = Worker(server.url)
    worker.decide("https://one.example/", prose(1))
    worker.close()
    pttl, file = redis.Redis.pttl, tmp_path / "file"
    (expired,) = redis.Redis.from_url(server.url).keys("*:since:*")

    def gone_by(self: Any, name: bytes) -> Any:
        """Between DUMP and PTTL a key may go."""
        if name == expired:
            self.delete(name)
        return pttl(self, name)

    monkeypatch.setattr(redis.Redis, "pttl", gone_by)
    assert main(["fleet", "export", server.url, "--file", str(file)]) == 0
    with running_server() as other:
        assert main(["fleet", "import", other.url, "--file", str(file)]) == 0
        assert not redis.Redis.from_url(other.url).exists(expired)


def test_another_secret_is_drawn_and_what_waits_stays(
    server: RunningServer, capsys: pytest.CaptureFixture[str]
) -> None:
    worker = Worker(server.url, key=None)
    old = worker.fleet.key
    worker.fleet.mark(b"site.example/1")
    assert worker.decide("https://site.example/1", prose(1)).kind == "new"
    push(worker, 3)
    assert main(["fleet", "rotate-key", server.url]) != 0
    assert "1 workers live: stop them" in capsys.readouterr().err
    worker.close()
    server.command("DEL", worker.sign_of_life)  # it expires after four seconds
    assert main(["fleet", "rotate-key", server.url]) == 0
    other = Worker(server.url, key=None)
    assert other.fleet.key != old
    assert not other.seen(b"site.example/1")
    assert other.decide("https://site.example/2", prose(1)).kind == "new"
    assert take(other) == 1
    other.close()


def test_a_prefix_may_have_what_patterns_are_made_of(server: RunningServer) -> None:
    names = "shop[1]*", "shop1"
    options = [server.url, "--prefix", names[0]]
    for worker in (Worker(server.url, backend_prefix=name) for name in names):
        worker.decide("https://one.example/1", prose(1))
        worker.close()
    assert main(["fleet", "forget", *options, "--site", "one.example"]) == 0
    ours, theirs = (Worker(server.url, backend_prefix=name) for name in names)
    assert ours.decide("https://one.example/2", prose(1)).kind == "new"
    assert theirs.decide("https://one.example/2", prose(1)).kind == "exact"
    theirs.close()
    assert main(["fleet", "rotate-key", *options]) != 0  # ours lives
    ours.close()


def test_a_prefix_may_begin_with_that_of_another_fleet(
    server: RunningServer, capsys: pytest.CaptureFixture[str]
) -> None:
    others = Worker(server.url, key=None, backend_prefix="neardup:shop")
    others.decide("https://one.example/1", prose(1))
    others.fleet.mark(b"one.example/1")
    ours = Worker(server.url, key=None)
    ours.close()
    server.command("DEL", ours.sign_of_life)
    assert main(["fleet", "rotate-key", server.url]) == 0  # the secret; when the lease began
    assert capsys.readouterr().out == "2 keys of the server forgotten\n"
    others.close()
    again = Worker(server.url, key=None, backend_prefix="neardup:shop")
    assert again.fleet.key == others.fleet.key
    assert again.seen(b"one.example/1")
    again.close()


def test_a_cluster_is_looked_at_as_a_whole(capsys: pytest.CaptureFixture[str]) -> None:
    with running_cluster() as nodes:
        url = cluster_url(nodes)
        worker = Worker(url)
        push(worker, 2)
        assert main(["fleet", "status", url, "--json"]) == 0
        status = json.loads(capsys.readouterr().out)
        assert status["workers"] == 1
        assert status["queues"][0]["waiting"] == 2
        assert len(status["used_memory"]) == 3
        assert main(["fleet", "check", url]) == 1
        said = capsys.readouterr().out.splitlines()
        named = sorted(line.split(": ")[0] for line in said if "appendonly is no: " in line)
        assert named == sorted(f"127.0.0.1:{node.port}" for node in nodes)
        worker.close()


def test_what_is_missing_or_does_not_answer_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["fleet", "export", "redis://127.0.0.1:1/0"]) == 2
    assert "needs --file" in capsys.readouterr().err
    assert main(["fleet", "status", "redis://127.0.0.1:1/0"]) == 2
    assert "the server fails or refuses" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("scheme", "query", "name"),
    [
        ("redis", "nonsense=1", "nonsense"),
        ("redis", "socket_timeout=x", "socket_timeout"),
        ("redis", "ssl_ca_certs=x", "ssl_ca_certs"),
        ("redis+cluster", "socket_timeout=x", "socket_timeout"),
        ("redis+sentinel", "nonsense=1", "nonsense"),
    ],
)
def test_what_a_url_asks_of_redis_py_in_vain_is_named(
    capsys: pytest.CaptureFixture[str], scheme: str, query: str, name: str
) -> None:
    path = "shop/0" if scheme.endswith("sentinel") else "0"
    url = f"{scheme}://:secret@127.0.0.1:1/{path}?{query}"
    assert main(["fleet", "status", url]) == 2
    said = capsys.readouterr().err
    assert name in said
    assert "secret" not in said


def test_a_site_that_is_none_is_named(
    server: RunningServer, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["fleet", "forget", server.url, "--site", "http://["]) == 2
    assert "'http://['" in capsys.readouterr().err


def test_a_file_that_cannot_be_written_is_named(
    server: RunningServer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "missing" / "fleet.dump"
    Worker(server.url).close()
    assert main(["fleet", "export", server.url, "--file", str(file)]) == 2
    said = capsys.readouterr().err
    assert str(file) in said
    assert "the server" not in said
