"""The multi-layer paper's experiment, with what it left out: python -m benchmarks.layered_paper

Inserts 1, 1.5, 2, 2.5 and 3 of every 3.53738 URLs, as the paper did with its 3,537,380, and
asks for URL + ID (Figure 5), for real URLs never inserted, and for the worst case: URLs whose
host, directories and last segment were all inserted, only not together. Sizes are scaled to
what the file holds, so that fill and rates are those of the paper's sizes.
"""

import argparse
import gzip
import json
import random
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol

from benchmarks.charts import line_chart
from benchmarks.rows import SHARED_DATA
from scrapy_neardup.urls.filters.exact import ExactUrlFilter
from scrapy_neardup.urls.filters.layered import LayeredBloomFilter
from scrapy_neardup.urls.filters.paper import PaperBloomFilter, PaperLayeredBloomFilter
from scrapy_neardup.urls.key import url_key

PAPER_URLS = 3_537_380
PAPER_BITS = 16_829_152
PAPER_INSERTS = (1_000_000, 1_500_000, 2_000_000, 2_500_000, 3_000_000)

Figures = dict[str, Any]


class Filter(Protocol):
    def add(self, key: bytes) -> object: ...
    def __contains__(self, key: bytes) -> bool: ...


def main() -> None:
    options = parsed()
    with gzip.open(options.urls, "rt", encoding="utf-8") as lines:
        keys = list(dict.fromkeys(url_key(line.strip()) for line in lines))
    random.Random(1).shuffle(keys)
    print(f"{len(keys):,} distinct URLs in {options.urls}; the paper had {PAPER_URLS:,}")
    figures = experiment(keys)
    print("\n".join(as_table(figures)))
    if options.json:
        Path(options.json).write_text(json.dumps(figures, indent=1), encoding="utf-8")
    if options.charts:
        draw(figures, Path(options.charts), len(keys))


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.layered_paper", description=__doc__)
    parser.add_argument("urls", nargs="?", default=SHARED_DATA / "urls" / "gov_stream.txt.gz")
    parser.add_argument("--json", metavar="FILE", help="write the figures as JSON, too")
    parser.add_argument("--charts", metavar="FOLDER", help="draw Figures 5 to 7 there, as SVG")
    return parser.parse_args()


def filters(size_bits: int, capacity: int) -> dict[str, Callable[[], Filter]]:
    """What is compared. The paper's filter has four arrays of m bits and one of 2^n >= m."""
    same_memory = PaperLayeredBloomFilter(size_bits).nbytes * 8
    return {
        "classic, m bits": lambda: PaperBloomFilter(size_bits),
        "layered, paper": lambda: PaperLayeredBloomFilter(size_bits),
        "classic, same memory, k=3": lambda: PaperBloomFilter(same_memory),
        "classic, same memory, k=17": lambda: PaperBloomFilter(same_memory, 17),
        "layered 1e-6": lambda: LayeredBloomFilter(capacity, 1e-6, seed=1),
        "exact": lambda: ExactUrlFilter(capacity, seed=1),
    }


def experiment(keys: Sequence[bytes]) -> list[Figures]:
    """One record for each filter and number of URLs."""
    scale = len(keys) / PAPER_URLS
    steps = [round(n * scale) for n in PAPER_INSERTS]
    queries = {n: list(worst_cases(keys[:n])) for n in steps}
    unseen, real = keys[steps[-1] :], set(keys)
    found = []
    for name, make in filters(round(PAPER_BITS * scale), steps[-1]).items():
        known, done = make(), 0
        for n in steps:
            insert_s = seconds(known.add, keys[done:n])
            appended = [
                one for i, key in enumerate(keys[:n]) if (one := key + b"%d" % i) not in real
            ]
            asked = time.process_time()
            false = sum(key in known for key in appended)
            query_s = time.process_time() - asked
            record = {"filter": name, "inserted": n, "insert_us": insert_s / (n - done) * 1e6}
            record |= {
                "query_us": query_s / len(appended) * 1e6,
                "url_id_false": false,
                "url_id": false / len(appended),
            }
            record |= {"unseen": rate(known, unseen), "worst": rate(known, queries[n])}
            record |= {"n_unseen": len(unseen), "n_worst": len(queries[n])}
            record["forgotten"] = sum(key not in known for key in keys[:n])
            record["bits_per_url"] = known.nbytes * 8 / n  # type: ignore[attr-defined]
            found.append(record)
            done = n
    return found


def seconds(call: Callable[[bytes], object], keys: Sequence[bytes]) -> float:
    start = time.process_time()
    for key in keys:
        call(key)
    return time.process_time() - start


def rate(known: Filter, queries: Sequence[bytes]) -> float:
    return sum(key in known for key in queries) / len(queries)


def worst_cases(keys: Sequence[bytes]) -> Iterator[bytes]:
    """A directory of a host with the last segment of another of its pages, where that is new."""
    chance, present = random.Random(2), set(keys)
    names = defaultdict(list)
    for key in keys:
        names[key.partition(b"/")[0], key.partition(b"?")[0].count(b"/")].append(key)
    for key in keys:
        path, mark, _ = key.partition(b"?")
        siblings = names[key.partition(b"/")[0], path.count(b"/")]
        other = chance.choice(siblings).partition(b"?")[0].rpartition(b"/")[2]
        crossed = path.rpartition(b"/")[0] + b"/" + other
        # At most four segments: what is longer is one new segment to the paper's filter.
        if crossed not in present and not mark and path.count(b"/") <= 3:
            yield crossed


def as_table(figures: list[Figures]) -> Iterator[str]:
    yield "| filter | inserted | bits a URL | URL+ID | unseen URLs | worst case | forgotten |"
    yield "|---|---|---|---|---|---|---|"
    for one in figures:
        yield (
            f"| {one['filter']} | {one['inserted']:,} | {one['bits_per_url']:.1f} "
            f"| {one['url_id']:.2g} | {one['unseen']:.2g} | {one['worst']:.2g} "
            f"| {one['forgotten']} |"
        )


def draw(figures: list[Figures], folder: Path, n_urls: int) -> None:
    """The paper's Figures 5 to 7, and the worst case that it left out."""
    lines: dict[str, list[Figures]] = defaultdict(list)
    for one in figures:
        lines[one["filter"]].append(one)
    scale = f"{n_urls:,} real URLs instead of {PAPER_URLS:,}"
    paper = {name: lines[name] for name in ("classic, m bits", "layered, paper")}
    timed = {**paper, "layered 1e-6 (ours)": lines["layered 1e-6"]}
    for file, title, unit, shown, field, log in (
        ("figure5", "False positives, URL + ID", "false positives", paper, "url_id_false", False),
        ("figure6", "Insertion", "us a URL", timed, "insert_us", False),
        ("figure7", "Query", "us a URL", timed, "query_us", False),
        ("worst-case", "Error rate, all segments known", "error rate", lines, "worst", True),
        ("unseen", "Error rate, real URLs never inserted", "error rate", lines, "unseen", True),
    ):
        points = {
            name: [(one["inserted"], one[field]) for one in records]
            for name, records in shown.items()
        }
        title = f"{title}; {scale}"
        line_chart(folder / f"url-filter-{file}.svg", title, "URLs inserted", unit, points, log)


if __name__ == "__main__":
    main()
