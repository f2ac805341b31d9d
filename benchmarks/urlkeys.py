"""The key of a request beside Scrapy's fingerprint(), and that made quicker; real and made URLs."""

import gzip
import json
from collections.abc import Iterator, Sequence

from scrapy import Request
from scrapy.utils.request import fingerprint
from w3lib.url import canonicalize_url

from benchmarks.rows import ROUNDS, SHARED_DATA, Part, Row, cpu_seconds
from scrapy_neardup.urls.key import recognised, request_key, url_key
from scrapy_neardup.urls.request_fingerprinter import QuickRequestFingerprinter

N_URLS = 20_000


def real_urls() -> list[str]:
    with gzip.open(SHARED_DATA / "urls" / "gov_stream.txt.gz", "rt", encoding="utf-8") as lines:
        urls = list(dict.fromkeys(line.strip() for line in lines))
    return urls[:: len(urls) // N_URLS]


def variants() -> list[str]:
    """URLs made to be normalised, most of them in need of w3lib."""
    with gzip.open(SHARED_DATA / "urls" / "variants.jsonl.gz", "rt", encoding="utf-8") as lines:
        return [json.loads(line)["url"] for line in lines]


def key_rows(name: str, urls: Sequence[str], target: float | None) -> Iterator[Row]:
    """Scrapy keeps a request's fingerprint, so that each round gets new requests."""
    requests = iter([[Request(url) for url in urls] for _ in range(2 * (ROUNDS + 1))])
    mine, quick = [Request(url) for url in urls], QuickRequestFingerprinter()
    seconds = cpu_seconds(
        {
            "request_key": lambda: [request_key(request) for request in mine],
            "url_key": lambda: [url_key(url) for url in urls],
            "quick": lambda: [quick.fingerprint(one) for one in next(requests)],
            "Scrapy's fingerprint()": lambda: [fingerprint(one) for one in next(requests)],
            "w3lib's canonicalize_url()": lambda: [canonicalize_url(url) for url in urls],
        }
    )
    times = {what: (s or 0) / len(urls) * 1e6 for what, s in seconds.items()}
    ours, quicker = times.pop("request_key"), times.pop("quick")
    scrapys = times["Scrapy's fingerprint()"]
    yield Row(f"URL key, {name}", ours, "us", peers=times)
    yield Row(f"URL key / fingerprint(), {name}", ours / scrapys, "ratio", target, True)
    yield Row(f"QuickRequestFingerprinter / fingerprint(), {name}", quicker / scrapys, "ratio")
    share = sum(recognised(url) is not None for url in urls) / len(urls)
    yield Row(f"URL key, recognised as canonical, {name}", share, "share")


PARTS = (  # us
    Part("real URLs", lambda: key_rows("real URLs", real_urls(), 0.25), 0.2),
    Part("variants", lambda: key_rows("variants", variants(), None), 0.3),
)
