"""Crawl the real site in ../shared/data with the plugin's defaults, and hold it against the truth.

    python benchmarks/real_site.py [--json FILE]

The truth (../shared/data/site/urls_truth.jsonl.gz) puts every URL into a cluster of pages that
say the same: single link over pairs whose word 5-shingles have a Jaccard similarity (J5) of at
least 0.9, in `cl_full` by the whole visible text, in `cl_main` by the main text without
navigation. J5 is measured by ../shared/data/tools/measure.py, which shares no code with us.

    outside cluster  drops whose named original is in another cluster than the dropped page:
      wrong            J5 of the two is at most 0.5: different pages
      grey             J5 is between 0.5 and 0.9: alike, but by the data's own rule not scored
      alike            J5 is at least 0.9 after all (never, if clusters and texts agree)
    lost             clusters of which no page was kept
    duplicates kept  kept pages in a cluster of which another page was kept, too
"""

import argparse
import gzip
import json
import runpy
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from local_site import DATA, crawl_settings, served, start_argument, unpacked
from scrapy import signals
from scrapy.crawler import AsyncCrawlerProcess

MEASURE = runpy.run_path(str(DATA.parent / "tools" / "measure.py"))
DISTINCT, NEAR = 0.5, 0.9
Truth = Mapping[str, Mapping[str, Any]]


class Outcome:
    """Paths of pages that were kept, and the decision on each page that was dropped."""

    def __init__(self) -> None:
        self.kept: list[str] = []
        self.dropped: dict[str, Any] = {}

    def item_scraped(self, item: Any) -> None:
        self.kept.append(path_of(item.url))

    def item_dropped(self, item: Any, exception: Any) -> None:
        self.dropped[path_of(item.url)] = exception.decision

    @property
    def originals(self) -> dict[str, str]:
        return {path: path_of(decision.original) for path, decision in self.dropped.items()}


def crawl(root: str) -> tuple[Outcome, Mapping[str, Any], float]:
    """What became of the pages, Scrapy's stats, and seconds of CPU of the whole crawl."""
    process = AsyncCrawlerProcess(crawl_settings())
    crawler = process.create_crawler("demo")
    outcome = Outcome()
    crawler.signals.connect(outcome.item_scraped, signal=signals.item_scraped)
    crawler.signals.connect(outcome.item_dropped, signal=signals.item_dropped)
    begin = time.process_time()
    process.crawl(crawler, start=start_argument(root))
    process.start()
    assert crawler.stats is not None
    return outcome, crawler.stats.get_stats(), time.process_time() - begin


def read_truth() -> Truth:
    with gzip.open(DATA / "urls_truth.jsonl.gz", "rt", encoding="utf-8") as lines:
        return {row["url"]: row for row in map(json.loads, lines)}


def path_of(url: str) -> str:
    return urlsplit(url).path


def full_text(page: bytes, path: str) -> str:
    return str(MEASURE["full_text"](page))


def main_text(page: bytes, path: str) -> str:
    return str(MEASURE["main_text"](page, "javadoc" if path.startswith("/lang3/") else "httpd"))


READINGS: Mapping[str, Callable[[bytes, str], str]] = {"cl_full": full_text, "cl_main": main_text}


def jaccard(folder: Path, truth: Truth, paths: tuple[str, str], text: Callable[..., str]) -> float:
    """J5 of two pages by one reading of their text."""
    pages = ((folder / truth[path]["file"]).read_bytes() for path in paths)
    texts = (text(page, path) for page, path in zip(pages, paths, strict=True))
    a, b = (MEASURE["shingles"](MEASURE["tokens"](text)) for text in texts)
    return float(MEASURE["jaccard"](a, b))


def score(folder: Path, truth: Truth, reading: str, outcome: Outcome) -> dict[str, Any]:
    """The counts of one reading of the truth, as the module's docstring defines them."""
    cluster = {path: row[reading] for path, row in truth.items()}
    outside = [p for p in outcome.originals.items() if cluster[p[0]] != cluster[p[1]]]
    likeness = {pair: jaccard(folder, truth, pair, READINGS[reading]) for pair in outside}
    kept = [cluster[path] for path in outcome.kept]
    return {
        "clusters": len({*cluster.values()}),
        "lost": len({*cluster.values()} - {*kept}),
        "outside_cluster": len(outside),
        "wrong": sum(j <= DISTINCT for j in likeness.values()),
        "grey": sum(DISTINCT < j < NEAR for j in likeness.values()),
        "alike": sum(j >= NEAR for j in likeness.values()),
        "duplicates_kept": repeated(kept),
        "least_alike": [
            {"j5": round(j, 3), "page": pair[0], "original": pair[1]}
            | {"similarity": outcome.dropped[pair[0]].similarity}
            | {"sketch_distance": outcome.dropped[pair[0]].sketch_distance}
            for pair, j in sorted(likeness.items(), key=lambda entry: entry[1])
        ],
    }


def repeated(values: Iterable[object]) -> int:
    """How many values have been there before."""
    return sum(count - 1 for count in Counter(values).values())


def measure() -> dict[str, Any]:
    truth = read_truth()
    with unpacked() as folder, served(folder) as root:
        outcome, stats, cpu_s = crawl(root)
        pages = [*outcome.kept, *outcome.dropped]
        kinds = Counter(decision.kind for decision in outcome.dropped.values())
        return {
            "responses": stats["downloader/response_count"],
            "html_fetched": len(pages),
            "html_in_truth": len(truth),
            "in_truth_not_fetched": len(truth.keys() - set(pages)),
            "fetched_not_in_truth": len(set(pages) - truth.keys()),
            "kept": len(outcome.kept),
            "dropped_exact": kinds["exact"],
            "dropped_near": kinds["near"],
            "same_bytes_kept": repeated(truth[path]["bytes_md5"] for path in outcome.kept),
            "same_text_kept": repeated(truth[path]["text_md5"] for path in outcome.kept),
            "crawl_cpu_s": round(cpu_s, 2),
            **{reading: score(folder, truth, reading, outcome) for reading in READINGS},
            "stats": {key: value for key, value in stats.items() if key.startswith("neardup/")},
        }


def report(figures: Mapping[str, Any]) -> Iterable[str]:
    for name, value in figures.items():
        if isinstance(value, (int, float)):
            yield f"{name.replace('_', ' '):<24}{value:>8,}"
    columns = ("clusters", "lost", "outside_cluster", "wrong", "grey", "alike", "duplicates_kept")
    yield ""
    yield "truth   " + "".join(f"{column.replace('_', ' '):>16}" for column in columns)
    for reading in READINGS:
        yield f"{reading:<8}" + "".join(f"{figures[reading][column]:>16,}" for column in columns)
    for reading in READINGS:
        yield f"\n{reading}, drops outside their cluster, least alike first: J5, page, original"
        for pair in figures[reading]["least_alike"][:5]:
            yield f"  {pair['j5']:.3f}  {pair['page']}  {pair['original']}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", type=Path, help="write all figures to this file, too")
    file = parser.parse_args().json
    file = file and file.resolve()
    figures = measure()
    print("\n".join(report(figures)))
    if file:
        file.write_text(json.dumps(figures, indent=1) + "\n")


if __name__ == "__main__":
    main()
