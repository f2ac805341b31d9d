"""What the whole plugin costs a crawl: CPU time with it over CPU time without.

    python benchmarks/crawl_overhead.py [--site links] [--rounds 5] [--pages 0]
                                        [--set NAME=VALUE …] [--json FILE]

    --site   pages
    links    the real site, dense in links, by the example's spider
    few      600 real pages, two links each are followed
    bare     the same, read without selectors
    jobdir   the same by selectors, with a JOBDIR in both crawls
    json     600 JSON records of 3 KB
    tiny     600 pages of 600 bytes
    large    600 pages of 300 KB

Each crawl runs in a process of its own, with the plugin and without in turn; the site is served
from another process. Counted is the CPU time (user and system, all threads) of the crawling
process from the moment its spider opens to the moment it closes, divided by the responses it
got; start-up is told apart, with the most memory that the process held. The ratio is taken
round by round between neighbours in time, whose hashes have the same seed so that dictionaries
are laid out alike, and its median reported; what Python's garbage collector takes of the time
is told apart. The plugin runs with its defaults; where a crawl without it stops, so does the
crawl with it: they fetch the same pages.

What the plugin takes apart from what its request fingerprints save, which Scrapy's then replace:

    python benchmarks/crawl_overhead.py \
        --set REQUEST_FINGERPRINTER_CLASS=scrapy.utils.request.RequestFingerprinter

Where the time goes, with the site served at URL by `python -m http.server`:

    py-spy record -r 400 -f raw -o FILE -- \
        python benchmarks/crawl_overhead.py --crawl links URL 1 0
"""

import argparse
import gc
import json
import os
import platform
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from random import randrange
from tempfile import TemporaryDirectory
from typing import Any

from local_site import crawl_settings, served, start_argument, unpacked
from overhead_sites import PAGES, SPIDERS, SelectorSpider, write
from scrapy import signals
from scrapy.crawler import AsyncCrawlerProcess

TARGET = 1.05


def crawl_once(
    site: str, start: str, with_plugin: bool, pages: int, assignments: Sequence[str]
) -> dict[str, float]:
    """Crawl in this process; CPU seconds between opening and closing, and responses."""
    changes: dict[str, Any] = dict(assignment.split("=", 1) for assignment in assignments)
    if pages:
        changes["CLOSESPIDER_PAGECOUNT"] = pages
        changes["EXTENSIONS"] = {"scrapy.extensions.closespider.CloseSpider": 0}
    if not with_plugin:
        changes["ADDONS"] = {}
    process = AsyncCrawlerProcess(crawl_settings(**changes))
    crawler = process.create_crawler(
        "demo" if site == "links" else SPIDERS.get(site, SelectorSpider)
    )
    clock: dict[str, float] = {}
    collector = Collector()

    def note(name: str) -> Any:
        return lambda: clock.update(
            {
                name: time.process_time(),
                f"{name}_gc": collector.cpu_s,
                f"{name}_objects": len(gc.get_objects()),
            }
        )

    opened, closed = note("opened"), note("closed")  # signals hold their receivers weakly
    crawler.signals.connect(opened, signal=signals.spider_opened)
    crawler.signals.connect(closed, signal=signals.spider_closed)
    if site == "links":
        process.crawl(crawler, start=start)
    else:
        process.crawl(crawler, start_urls=[start])
    process.start()
    assert crawler.stats is not None
    return {
        "cpu_s": clock["closed"] - clock["opened"],
        "collector_s": clock["closed_gc"] - clock["opened_gc"],
        "objects": clock["opened_objects"],
        "start_s": clock["opened"],
        "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "responses": crawler.stats.get_value("downloader/response_count"),
    }


class Collector:
    """The CPU time of this process's garbage collections from now on."""

    def __init__(self) -> None:
        self.cpu_s = self._started = 0.0
        gc.callbacks.append(self._note)

    def _note(self, phase: str, info: Mapping[str, int]) -> None:
        now = time.thread_time()
        if phase == "stop":
            self.cpu_s += now - self._started
        self._started = now


def crawl_in_process(
    start: str, with_plugin: bool, options: argparse.Namespace, hash_seed: int
) -> dict[str, float]:
    """The same in a fresh process."""
    environment = os.environ | {"PYTHONHASHSEED": str(hash_seed)}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)  # what is installed has its bytecode
    with TemporaryDirectory() as folder:
        job = [f"JOBDIR={folder}"] if options.site == "jobdir" else []
        asked = [options.site, start, str(int(with_plugin)), str(options.pages)]
        command = [sys.executable, __file__, "--crawl", *asked, *options.set, *job]
        done = subprocess.run(
            command, stdout=subprocess.PIPE, text=True, check=True, env=environment
        )
    figures: dict[str, float] = json.loads(done.stdout)
    return figures


@contextmanager
def site_served(site: str) -> Iterator[str]:
    """Serve a site; where to start."""
    if site == "links":
        with unpacked() as folder, served(folder) as root:
            yield start_argument(root)
    else:
        with TemporaryDirectory() as name:
            path = write(site, Path(name))
            with served(Path(name)) as root:
                yield root + path


def measure(options: argparse.Namespace) -> dict[str, Any]:
    with site_served(options.site) as start:
        crawl_in_process(start, True, options, 1)  # warms caches: file system, compiled bytecode
        rounds = []
        for number in range(options.rounds):
            both, seed = {}, randrange(1, 2**32)  # 0 would give the hashes' key away
            for with_plugin in (False, True) if number % 2 else (True, False):
                both[with_plugin] = crawl_in_process(start, with_plugin, options, seed)
            rounds.append({"without": both[False], "with": both[True]})
    ratios = [per_response(r["with"]) / per_response(r["without"]) for r in rounds]
    return {
        "ratio": round(statistics.median(ratios), 4),
        "ratios": [round(ratio, 4) for ratio in sorted(ratios)],
        "target": TARGET,
        "ms_per_response_without": milliseconds(rounds, "without"),
        "ms_per_response_with": milliseconds(rounds, "with"),
        "collector_ms_without": milliseconds(rounds, "without", "collector_s"),
        "collector_ms_with": milliseconds(rounds, "with", "collector_s"),
        "objects_without": round(statistics.median(r["without"]["objects"] for r in rounds)),
        "objects_with": round(statistics.median(r["with"]["objects"] for r in rounds)),
        **{
            f"{name}_{which}": round(statistics.median(r[which][name] for r in rounds), 3)
            for name in ("start_s", "peak_mb")
            for which in ("without", "with")
        },
        "rounds": rounds,
        "python": platform.python_version(),
        "machine": platform.machine(),
    }


def per_response(figures: Mapping[str, float], name: str = "cpu_s") -> float:
    return figures[name] / figures["responses"]


def milliseconds(
    rounds: list[dict[str, dict[str, float]]], which: str, name: str = "cpu_s"
) -> float:
    return round(1000 * statistics.median(per_response(each[which], name) for each in rounds), 3)


def report(figures: Mapping[str, Any]) -> str:
    ratios = figures["ratios"]
    verdict = "met" if figures["ratio"] <= TARGET else "missed"
    fetched = {int(each[w]["responses"]) for each in figures["rounds"] for w in ("with", "without")}
    return "\n".join(
        (
            f"responses in a crawl    {min(fetched):,} to {max(fetched):,}",
            f"CPU ms per response     {figures['ms_per_response_without']:.3f} without, "
            f"{figures['ms_per_response_with']:.3f} with",
            f"of it the collector     {figures['collector_ms_without']:.3f} without, "
            f"{figures['collector_ms_with']:.3f} with",
            f"objects at its start    {figures['objects_without']:,} without, "
            f"{figures['objects_with']:,} with",
            f"CPU s until it opens    {figures['start_s_without']:.2f} without, "
            f"{figures['start_s_with']:.2f} with",
            f"peak MB                 {figures['peak_mb_without']:.0f} without, "
            f"{figures['peak_mb_with']:.0f} with",
            f"ratio                   {figures['ratio']:.3f}, median of {len(ratios)} rounds "
            f"({ratios[0]:.3f} to {ratios[-1]:.3f})",
            f"target                  {TARGET}: {verdict}",
        )
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--site", choices=["links", *PAGES], default="links", help="default links")
    parser.add_argument("--rounds", type=int, default=5, help="pairs of crawls, default 5")
    parser.add_argument("--pages", type=int, default=0, help="stop after so many pages; 0: all")
    parser.add_argument("--set", action="append", default=[], help="NAME=VALUE: for both crawls")
    parser.add_argument("--json", type=Path, help="write all figures to this file, too")
    options = parser.parse_args()
    figures = measure(options)
    print(report(figures))
    if options.json:
        options.json.write_text(json.dumps(figures, indent=1) + "\n")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--crawl"]:
        site, start, plugin, n_pages, *given = sys.argv[2:]
        print(json.dumps(crawl_once(site, start, plugin == "1", int(n_pages), given)))
    else:
        main()
