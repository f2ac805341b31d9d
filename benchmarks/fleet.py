"""URLs and pages a second of workers that share a server: `python benchmarks/fleet.py`.

With --recrawl, what a crawl under NEARDUP_RECRAWL asks and tells of known pages.

Starts redis-server (or valkey-server) on loopback. Each worker is a process with 16 questions in
flight, as many as Scrapy's CONCURRENT_REQUESTS; it asks the server as a crawl does, without
the crawl. Pages are random fingerprints of 50 sites, so what is timed is the server and the way to
it, not engines.
"""

import argparse
import asyncio
import json
import multiprocessing
import re
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random
from secrets import token_bytes
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from fleets import RunningServer, Worker, running_server

from scrapy_neardup.crawl.recrawl.visit_items import packed_fields
from scrapy_neardup.detect.page_row import width
from scrapy_neardup.detect.page_table import PageRow
from scrapy_neardup.detect.revision import Lines
from scrapy_neardup.engines import SKETCH
from scrapy_neardup.fleet.change_log import ChangeLog
from scrapy_neardup.fleet.client import Server
from scrapy_neardup.fleet.futures import answer_of
from scrapy_neardup.fleet.link import Link
from scrapy_neardup.fleet.protocol import Call, IndexOptions, Questions, SharedPage, beat
from scrapy_neardup.fleet.visits import SharedVisits
from scrapy_neardup.state.records import KeptPage
from scrapy_neardup.state.visit import PageKey, Visit, key_of
from scrapy_neardup.state.visit_file import Change, Status

IN_FLIGHT = 16
ROW_WORDS = width(SKETCH.n_words)
ANSWER_S = 20.0
N_LINES = 289  # of a page that is known, as the manuals have on average
RECRAWL = "known pages"
LAST, LOOKS = 10_000, 2_000  # pages of a large site that are timed, and looks among them
LOOK_UP = "complete = complete and look_through(entry)"
IF_SEALED = "if not is_sealed() then return {3} end"
MEMORY = ((2_000, 2_000), (20_000, 2_000), (20_000, 200), (20_000, 20), (60_000, 6), (100_000, 1))


def questions(n_urls: int) -> Questions:
    return Questions("bench", 1, capacity=n_urls, error_rate=1e-6, index=IndexOptions(6, 7, 20_000))


def page(rng: Random, n: int, n_sites: int = 50, mask: int = -1) -> SharedPage:
    """A random page whose URL has 75 bytes; mask: of the fingerprint."""
    sketch = np.frombuffer(rng.randbytes(8 * ROW_WORDS), "<u8")
    site, url = rng.randrange(n_sites), f"https://site.example/{n:054}"
    row = PageRow(rng.getrandbits(64) & mask, sketch, rng.randbytes(16), site, url, 0.0)
    return SharedPage(token_bytes(8), KeptPage(row, True))


def work(url: str, what: str, number: int, n: int, n_all: int, gate: Any, done: Any) -> None:
    """One worker: its questions, timed between two gates."""
    asks, server, rng = questions(n_all), Server(url), Random(number)
    keys = [b"site%d.example/%d/%d" % (i % 50, number, i) for i in range(n)]
    pages = [page(rng, i) for i in range(n)]
    pairs = [
        (asks.seen(keys[i]), asks.mark(keys[i]))
        if what == "urls"
        else (asks.admit(pages[i]), asks.keep(pages[i]))
        for i in range(n)
    ]
    server.send([asks.seen(b"a/")])
    gate.wait()
    start, cpu, round_trips = time.perf_counter(), time.process_time(), server.n_round_trips
    lease = beat("bench", number.to_bytes(4, "big"), b"", lambda *found: found)
    link = Link(server.send, lease)
    asyncio.run(ask_and_tell(link, iter(pairs)))
    link.close(60)
    seconds, cpu = time.perf_counter() - start, time.process_time() - cpu
    done.put((seconds, cpu, server.n_round_trips - round_trips))


async def ask_and_tell(link: Link, pairs: Iterator[tuple[Call, Call]]) -> None:
    """Each question, and when it is answered the message that follows; so many at once."""

    async def one_after_another() -> None:
        for question, message in pairs:
            await answer_of(link.ask(question))
            link.tell(message)

    await asyncio.gather(*(one_after_another() for _ in range(IN_FLIGHT)))


def visits_of(rng: Random, number: int, n: int) -> list[Visit]:
    """Pages of 289 lines and one item of four fields, as they are remembered."""
    found = []
    for i in range(n):
        url = f"https://site{i % 50}.example/{number}/{i:054}"
        exact = np.frombuffer(rng.randbytes(4 * N_LINES), "<u4")
        items = packed_fields([{name: rng.getrandbits(32) for name in ("url", "a", "b", "c")}])
        said = rng.randbytes(16), rng.randbytes(16), items, Lines(exact, exact).pack()
        head = (key_of(url.encode()), 1, "parse", 1, 1, b"", 1, Status.NEW, time.time(), url)
        found.append(Visit(*head, *said, 9, None, None, 1))
    return found


def crawl_again(url: str, number: int, n: int, gate: Any, done: Any) -> None:
    """One worker that reads its pages in one run, and once more in the next, which is timed."""
    pages, worker = visits_of(Random(number), number, n), Worker(url)
    with TemporaryDirectory() as folder:
        visits = worker.fleet.take_part(Path(folder), "bench")
        asyncio.run(read_all(worker, visits, pages))
        visits.end("finished")
        asyncio.run(worker.fleet.bring_visit(PageKey(b"", "parse", url)))  # told before
        gate.wait()  # all have ended
        visits.close()
        visits, server = worker.fleet.take_part(Path(folder), "bench"), worker.fleet._server
        gate.wait()
        start, cpu, round_trips = time.perf_counter(), time.process_time(), server.n_round_trips
        asyncio.run(read_all(worker, visits, pages))
        seconds, cpu = time.perf_counter() - start, time.process_time() - cpu
        done.put((seconds, cpu, server.n_round_trips - round_trips))
        visits.close()
        worker.close()


async def read_all(worker: Worker, visits: SharedVisits, pages: list[Visit]) -> None:
    """What a run asks and tells of each page, so many at once; back when the server has it."""
    rest = iter(enumerate(pages))

    async def one_after_another() -> None:
        for i, page in rest:
            visits.linked(page.key, page.url)
            assert not await worker.fleet.bring_visit(PageKey(page.key, "parse", page.url))
            visits.put(page._replace(run=visits.run, spider=visits.spider))
            visits.done(page.key)
            if i % 1000 == 0:  # a crawl does once a second
                visits.flush()

    await asyncio.gather(*(one_after_another() for _ in range(IN_FLIGHT)))
    last = PageKey(pages[-1].key, "parse", pages[-1].url)
    while not await worker.fleet.bring_visit(last):
        pass


def used(server: RunningServer) -> tuple[float, int]:
    """The server's CPU seconds and bytes of data."""
    info = dict(
        line.split(":", 1)
        for section in ("cpu", "memory")
        for line in server.command("INFO", section).splitlines()
        if ":" in line
    )
    cpu = float(info["used_cpu_user"]) + float(info["used_cpu_sys"])
    return cpu, int(info["used_memory"])


def measure(what: str, n_workers: int, n: int) -> dict[str, float | str]:
    """A row of the table."""
    context = multiprocessing.get_context("spawn")
    with running_server() as server:
        _, size = used(server)
        gate, done = context.Barrier(n_workers + 1), context.Queue()
        targets = [
            (crawl_again, (server.url, i, n, gate, done))
            if what == RECRAWL
            else (work, (server.url, what, i, n, n * n_workers, gate, done))
            for i in range(n_workers)
        ]
        workers = [context.Process(target=target, args=args) for target, args in targets]
        for worker in workers:
            worker.start()
        if what == RECRAWL:
            gate.wait()
        gate.wait()
        cpu, _ = used(server)
        seconds, worker_cpus, round_trips = zip(*(done.get() for _ in workers), strict=True)
        cpu_after, size_after = used(server)
        for worker in workers:
            worker.join()
    total = n * n_workers
    return {
        "what": what,
        "workers": n_workers,
        "a_second": total / max(seconds),
        "server_us_each": 1e6 * (cpu_after - cpu) / total,
        "worker_us_each": 1e6 * sum(worker_cpus) / total,
        "round_trips_each": sum(round_trips) / total,
        "bytes_each": (size_after - size) / total,
    }


def measure_log(n: int) -> Iterator[dict[str, float | str]]:
    """What the server keeps of each page that is new, and of one that changed in a field."""
    what = json.dumps({"status": "changed", "fields": ["price"], "added": ["11.00"], "removed": 1})
    with running_server() as running:
        server = Server(running.url)
        for status, told in ((Status.NEW, None), (Status.CHANGED, what)):
            calls: list[Call] = []
            log = ChangeLog(calls.append, "bench", "shop", 1_700_000_000_000)
            for i in range(n):
                url = f"https://site.example/{i:054}"
                log.add(f"site{i % 50}.example", Change(1, time.time(), status, url, None, told))
            server.send(calls[:1])
            _, before = used(running)
            for at in range(1, n, 500):
                server.send(calls[at : at + 500])
            yield {"what": status.word, "bytes_each": (used(running)[1] - before) / n}
        server.close()


KINDS = {  # what a key's name says of its contents; the rest are pages
    r"\{bench:u:\d+\}.*": "URLs",
    r".*:(fresh|[lo]:.*)": "fingerprints (index)",
    r".*:(short|open)": "digests of short pages",
    r"\{bench:p:.*\}": "pages (sketches, URL)",
}


def memory_by_kind(url: str) -> dict[str, int]:
    """Bytes of the keys of each kind, their names and the server's own tables included."""
    import redis

    sizes: Counter[str] = Counter()
    with redis.Redis.from_url(url) as client:
        names = list(client.scan_iter(count=10_000))
        with client.pipeline(transaction=False) as pipe:
            for name in names:
                pipe.memory_usage(name, samples=0)
            for name, size in zip(names, pipe.execute(), strict=True):
                kind = next(k for form, k in KINDS.items() if re.fullmatch(form, name.decode()))
                sizes[kind] += size
    return dict(sizes)


def measure_memory(n: int, n_sites: int) -> dict[str, float | str]:
    """Bytes a page of n pages of so many sites."""
    with running_server() as running:
        asks, server, rng = questions(n), Server(running.url), Random(n)
        _, before = used(running)
        for start in range(0, n, 500):
            server.send([asks.admit(page(rng, i, n_sites)) for i in range(start, start + 500)])
        _, after = used(running)
        sizes = memory_by_kind(running.url)
        server.close()
    return {
        "pages": n,
        "sites": n_sites,
        "index_bytes_each": sizes["fingerprints (index)"] / n,
        "page_bytes_each": sizes["pages (sketches, URL)"] / n,
        "used_memory_each": (after - before) / n,
    }


def measure_look_up(n: int) -> dict[str, float | str]:
    """The longest look-up: server time of one that compares n entries, all in one node.

    Their fingerprints are equal in the three blocks by which a tree is split.
    """
    with running_server() as running:
        asks, server, rng = questions(n), Server(running.url), Random(n)
        for start in range(0, n, 500):
            batch = (page(rng, i, 1, mask=~0x7FFFFFF) for i in range(start, start + 500))
            server.send([asks.admit(one) for one in batch])
        probes = [page(rng, n + i, 1, mask=~0x7FFFFFF) for i in range(20)]
        cpu, _ = used(running)
        server.send([asks.admit(probe) for probe in probes])
        cpu_after, _ = used(running)
        server.close()
    return {"entries": n, "look_up_ms": 1e3 * (cpu_after - cpu) / len(probes)}


def measure_site(sizes: Sequence[int]) -> Iterator[dict[str, float | str]]:
    """What the last pages of one site cost when it has so many: admitted, an item kept; and what
    a look among them takes, as each sealed shard of a site is asked for one.

    Those before are stored without a look-up, which would find nothing among random pages.
    """
    with TemporaryDirectory() as folder:
        options = {"appendonly": "yes", "auto_aof_rewrite_percentage": 0, "dir": folder}
        with running_server(**options) as running:
            server, rng, n = Server(running.url), Random(1), 0
            timed, stored = questions(1), questions(1)
            stored._admit = timed._admit.replace(LOOK_UP, "")
            looking = questions(1)
            looking._look = timed._look.replace(IF_SEALED, "")
            assert stored._admit != timed._admit
            assert looking._look != timed._look
            for size in sizes:
                while n < size:
                    if n == size - LAST:
                        cpu, written = used(running)[0], file_bytes(folder)
                    asks = stored if n < size - LAST else timed
                    batch = [page(rng, i, 1) for i in range(n, n + 500)]
                    server.send([ask(one) for one in batch for ask in (asks.admit, asks.keep)])
                    n += len(batch)
                after = used(running)[0]
                for start in range(0, LOOKS, 500):
                    batch = [page(rng, n + i, 1) for i in range(start, start + 500)]
                    server.send([looking.look(one) for one in batch])
                yield {
                    "pages": n,
                    "server_ms_each": 1e3 * (after - cpu) / LAST,
                    "look_ms_each": 1e3 * (used(running)[0] - after) / LOOKS,
                    "file_bytes_each": (file_bytes(folder) - written) / LAST,
                    "memory_bytes_each": used(running)[1] / n,
                }
            server.close()


def measure_sizes(n: int) -> Iterator[dict[str, float | str]]:
    """What a URL, and a request that waits, takes in the server's memory and append-only file."""
    with TemporaryDirectory() as folder:
        options = {"appendonly": "yes", "auto_aof_rewrite_percentage": 0, "dir": folder}
        with running_server(**options) as running:
            worker = Worker(running.url, url_capacity=2 * n)
            frontier = worker.fleet.frontier("bench")
            frontier.start().result(ANSWER_S)
            request = b'{"url": "https://site.example/item/%d", "callback": "parse"}'

            def mark(first: int) -> None:
                asks, server = questions(2 * n), Server(running.url)
                server.send([asks.mark(b"site.example/%d" % i) for i in range(first, first + 500)])
                server.close()

            def push(first: int) -> None:
                numbers = range(first, first + 500)
                queued = [
                    frontier.queued(request % i, f"{i % 50}", b"%d" % i, 0, "newest")
                    for i in numbers
                ]
                frontier.push(queued).result(ANSWER_S)

            for what, add in (("URL", mark), ("request", push)):
                add(0)  # what is made once
                _, memory = used(running)
                written = file_bytes(folder)
                for first in range(500, n + 500, 500):
                    add(first)
                yield {
                    "what": what,
                    "memory_bytes_each": (used(running)[1] - memory) / n,
                    "file_bytes_each": (file_bytes(folder) - written) / n,
                }
            worker.close()


def file_bytes(folder: str) -> int:
    return sum(file.stat().st_size for file in Path(folder).rglob("*") if file.is_file())


FORMS = {
    "what": "",
    "a_second": ",.0f",
    "round_trips_each": ".2f",
    "look_up_ms": ".2f",
    "server_ms_each": ".3f",
    "look_ms_each": ".3f",
}


def print_table(rows: list[dict[str, float | str]]) -> None:
    """The rows, which have the same columns."""
    print("".join(f"{name:>18}" for name in rows[0]))
    for row in rows:
        cells = (f"{value:{FORMS.get(name, ',.0f')}}" for name, value in row.items())
        print("".join(f"{cell:>18}" for cell in cells))
    print()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--n", type=int, default=10_000, help="URLs and pages of each worker")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--site", type=int, nargs="+", help="only: pages of one site, ascending")
    parser.add_argument("--recrawl", action="store_true", help="only: pages that are known")
    parser.add_argument("--sizes", action="store_true", help="only: bytes of URLs and requests")
    arguments = parser.parse_args()
    if arguments.sizes:
        print_table(list(measure_sizes(arguments.n)))
        return
    if arguments.recrawl:
        print_table([measure(RECRAWL, k, arguments.n) for k in (1, 2)])
        print_table(list(measure_log(arguments.n)))
        return
    if arguments.site:
        for row in measure_site(arguments.site):
            print_table([row])
        return
    tables = {
        "speed": [
            measure(what, k, arguments.n) for what in ("urls", "pages") for k in (1, 2, 4, 8)
        ],
        "memory": [measure_memory(n, n_sites) for n, n_sites in MEMORY],
        "look-ups": [measure_look_up(n) for n in (1_000, 5_000)],
    }
    for rows in tables.values():
        print_table(rows)
    if arguments.json:
        arguments.json.write_text(json.dumps(tables, indent=1))


if __name__ == "__main__":
    main()
