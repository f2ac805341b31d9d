"""What a page costs that thousands of sites have, with a word of its own each.

    python -m benchmarks.many_sites --sites 100000

As servers show it before anybody has written a page, and as domains that are for sale do. Reads
one page of each site and decides about it, under the default settings. Prints CPU microseconds a
page, since the line before.
"""

import argparse
import time

from benchmarks.scale import WORDS, words_of
from scrapy_neardup.detect.detector import Detector
from scrapy_neardup.factory import make_detector
from scrapy_neardup.settings import NearDupSettings

PAGE = " ".join(words_of(1))
LINES = (1_000, 3_000, 10_000, 30_000, 100_000, 300_000, 1_000_000)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.many_sites", description=__doc__)
    parser.add_argument("--sites", type=int, default=30_000)
    options = parser.parse_args()
    detector = make_detector(NearDupSettings(), 1)
    print(f"{'sites':>10} {'us/page':>10}")
    before = 0
    for n in (*(n for n in LINES if n < options.sites), options.sites):
        print(f"{n:>10,} {microseconds(detector, range(before, n)):>10.0f}", flush=True)
        before = n


def microseconds(detector: Detector, sites: range) -> float:
    """Of CPU, for the page of each site."""
    begin = time.process_time()
    for site in sites:
        text = f"{PAGE} {WORDS[site % len(WORDS)]}"
        detector.decide(detector.read(f"http://www.site-{site}.example/", text))
    return (time.process_time() - begin) / len(sites) * 1e6


if __name__ == "__main__":
    main()
