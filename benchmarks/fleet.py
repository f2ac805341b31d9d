"""URLs and pages a second of workers that share a server: `python benchmarks/fleet.py`.

Starts redis-server (or valkey-server) on loopback. Each worker is a process with 6 questions in
flight, as a crawl on two cores has; it asks the server as a crawl does, without the crawl. Pages
are random fingerprints of 50 sites, so what is timed is the server and the way to it, not engines.
"""

import argparse
import json
import multiprocessing
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random
from secrets import token_bytes
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from fleets import RunningServer, running_server

from scrapy_neardup.fleet.server import Rules, Server, SharedPage
from scrapy_neardup.pages import Page
from scrapy_neardup.state.records import KeptPage

IN_FLIGHT = 6
SKETCH_WORDS = 13


def client(url: str, n_urls: int) -> Server:
    server = Server(url, "bench", capacity=n_urls, error_rate=1e-6, rules=Rules(6, 7, 20_000))
    server.use_key(1)
    return server


def page(rng: Random, n: int) -> SharedPage:
    sketch = np.frombuffer(rng.randbytes(8 * SKETCH_WORDS), "<u8")
    site, url = rng.randrange(50), f"https://site.example/{n:054}"
    row = Page(rng.getrandbits(64), sketch, rng.randbytes(16), site, url, 0.0)
    return SharedPage(token_bytes(8), KeptPage(row, True))


def work(url: str, what: str, number: int, n: int, n_all: int, gate: Any, done: Any) -> None:
    """One worker: its questions, timed between two gates."""
    server, rng = client(url, n_all), Random(number)
    keys = [b"site%d.example/%d/%d" % (i % 50, number, i) for i in range(n)]
    pages = [page(rng, i) for i in range(n)]

    def one_url(i: int) -> None:
        server.seen(keys[i])
        server.mark(keys[i])

    def one_page(i: int) -> None:
        server.admit(pages[i])
        server.keep(pages[i])

    server.seen(b"a/")
    gate.wait()
    start = time.perf_counter()
    with ThreadPoolExecutor(IN_FLIGHT) as threads:
        list(threads.map(one_url if what == "urls" else one_page, range(n)))
    done.put(time.perf_counter() - start)


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
        workers = [
            context.Process(target=work, args=(server.url, what, i, n, n * n_workers, gate, done))
            for i in range(n_workers)
        ]
        for worker in workers:
            worker.start()
        gate.wait()
        cpu, _ = used(server)
        seconds = max(done.get() for _ in workers)
        cpu_after, size_after = used(server)
        for worker in workers:
            worker.join()
    total = n * n_workers
    return {
        "what": what,
        "workers": n_workers,
        "a_second": total / seconds,
        "server_us_each": 1e6 * (cpu_after - cpu) / total,
        "bytes_each": (size_after - size) / total,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--n", type=int, default=10_000, help="URLs and pages of each worker")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    rows = [measure(what, k, arguments.n) for what in ("urls", "pages") for k in (1, 2, 4)]
    print(f"{'':8}{'workers':>8}{'a second':>12}{'server us':>12}{'bytes':>10}")
    for row in rows:
        print(
            f"{row['what']:8}{row['workers']:8}{row['a_second']:12,.0f}"
            f"{row['server_us_each']:12.0f}{row['bytes_each']:10.0f}"
        )
    if arguments.json:
        arguments.json.write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
