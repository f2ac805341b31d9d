"""How much longer a crawl takes if its fleet's server is far away.

    python benchmarks/fleet_delay.py [--pages 400] [--round-trip-ms 100] [--concurrent 16]

One worker crawls a site on loopback, with Scrapy's own scheduler and with FleetScheduler: once at a
server on loopback, once at the same server through a proxy that holds each byte back for half the
round trip. Prints seconds and their ratio.
"""

import argparse
import queue
import socket
import sys
import time
from contextlib import suppress
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from crawls import PagesSpider, crawl
from fleets import RunningServer, Wire, running_server
from mock_site import MockSite, running_site
from scrapy import Request

SCHEDULERS = {
    "Scrapy's": "scrapy.core.scheduler.Scheduler",
    "FleetScheduler": "scrapy_neardup.scheduler.FleetScheduler",
}


class LongWire(Wire):
    """A wire on which each byte is under way for a while; any number of them at once."""

    def __init__(self, port: int, seconds: float) -> None:
        self._seconds = seconds
        super().__init__(port)

    def _pass_on(self, source: socket.socket, target: socket.socket) -> None:
        under_way: queue.Queue[tuple[float, bytes]] = queue.Queue()
        self._start(self._deliver, under_way, target)
        with suppress(OSError):
            while data := source.recv(2**16):
                under_way.put((time.monotonic() + self._seconds, data))
        under_way.put((0.0, b""))

    def _deliver(
        self, under_way: "queue.Queue[tuple[float, bytes]]", target: socket.socket
    ) -> None:
        with suppress(OSError):
            while (next_one := under_way.get())[1]:
                time.sleep(max(0.0, next_one[0] - time.monotonic()))
                target.sendall(next_one[1])
            target.shutdown(socket.SHUT_RDWR)


def seconds(
    site: MockSite, options: argparse.Namespace, server: RunningServer, scheduler: str, url: str
) -> float:
    """How long a crawl of all pages takes, by a server that has nothing stored."""
    server.command("FLUSHALL")
    settings = {
        "NEARDUP_BACKEND": url,
        "SCHEDULER": scheduler,
        "CONCURRENT_REQUESTS": options.concurrent,
        "ROBOTSTXT_OBEY": False,
    }
    start = time.perf_counter()
    urls = [site.url(f"/page/{n}") for n in range(options.pages)]
    seed = site.url("/page/seed")
    outcome = crawl(PagesSpider, settings, seed=seed, requests=lambda: map(Request, urls))
    took = time.perf_counter() - start
    assert len(outcome.items) == options.pages, len(outcome.items)
    return took


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pages", type=int, default=400)
    parser.add_argument("--round-trip-ms", type=float, default=100.0)
    parser.add_argument("--concurrent", type=int, default=16, help="CONCURRENT_REQUESTS")
    options = parser.parse_args()
    with running_server() as server, running_site() as site:
        wire = LongWire(server.port, options.round_trip_ms / 2000)
        try:
            for name, scheduler in SCHEDULERS.items():
                near, far = (
                    seconds(site, options, server, scheduler, url) for url in (server.url, wire.url)
                )
                print(f"{name:16} {near:6.1f} s, far {far:6.1f} s: {far / near:.1f} times")
        finally:
            wire.close()


if __name__ == "__main__":
    main()
