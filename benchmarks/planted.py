"""A made corpus with planted duplicates: Parquet files, and what is a copy of what.

Words are drawn by Zipf's law from a made vocabulary, so that fingerprints are as unevenly spread
as those of language. A copy follows its source at any later place, on the same site.
"""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from scrapy_neardup.kernels.numpy_twin import I64Array, U64Array
from scrapy_neardup.kernels.numpy_twin.mix import fmix64

VOCABULARY = 50_000
DRAWS = 2**20  # as finely as words' frequencies are told
SHORTEST, LONGEST = 100, 120  # words of a page
PAGES_A_SITE = 500
LARGE_SITE = 0.1  # share of all pages that one site has
FILE_PAGES = 125_000
AT_ONCE = 5_000

# What a page is, and its share. Of 110 words one that is replaced changes 5 shingles of 106
# (similarity 0.91), eight change about 38 (0.47): a page of its own.
KINDS = {"new": 0.70, "exact": 0.10, "appended": 0.05, "replaced": 0.10, "rewritten": 0.05}
REPLACED = {"replaced": 1, "rewritten": 8}


class Planted:
    """Of each page, by its number: its kind (a place in KINDS), its source, its site."""

    def __init__(self, n_pages: int, seed: int = 1) -> None:
        rng = np.random.default_rng(seed)
        self.kinds = rng.choice(len(KINDS), n_pages, p=list(KINDS.values())).astype(np.int8)
        self.kinds[0] = 0
        originals = np.flatnonzero(self.kinds == 0)
        before = np.searchsorted(originals, np.arange(n_pages))
        drawn = originals[(rng.random(n_pages) * before).astype(np.int64)]
        self.sources = np.where(self.kinds == 0, np.arange(n_pages), drawn)
        sites = rng.integers(1, max(2, n_pages // PAGES_A_SITE), n_pages)
        self.sites = np.where(rng.random(n_pages) < LARGE_SITE, 0, sites)[self.sources]

    def __len__(self) -> int:
        return len(self.kinds)

    def are(self, kind: str) -> Any:
        """Which pages are of a kind."""
        return self.kinds == list(KINDS).index(kind)


def write(planted: Planted, folder: Path) -> list[Path]:
    """The pages as Parquet files (place, url, text), in order; files that are there stay."""
    folder.mkdir(parents=True, exist_ok=True)
    starts = range(0, len(planted), FILE_PAGES)
    paths = [folder / f"{start:010}.parquet" for start in starts]
    for start, path in zip(starts, paths, strict=True):
        if not path.exists():
            places = np.arange(start, min(start + FILE_PAGES, len(planted)))
            partial = path.with_suffix(".partial")
            pq.write_table(pages(planted, places), partial)
            partial.rename(path)
    return paths


def pages(planted: Planted, places: I64Array) -> pa.Table:
    """Some pages as a table."""
    sites = planted.sites[places].tolist()
    urls = [f"https://s{site:07}.example/{i}" for site, i in zip(sites, places, strict=True)]
    words = vocabulary()
    texts: list[str] = []
    for part in np.array_split(places, max(1, len(places) // AT_ONCE)):
        lengths, drawn = drawn_words(planted, part)
        texts += [" ".join(words[row[:n]]) for row, n in zip(drawn, lengths, strict=True)]
    return pa.table({"place": places, "url": urls, "text": texts})


def vocabulary() -> Any:
    """VOCABULARY words of letters, an array of str; common ones are short."""
    letters = str.maketrans("0123456789abcdef", "aeioulnrstdmkpbg")
    return np.array([f"{w:x}".translate(letters) for w in range(VOCABULARY)], dtype=object)


def drawn_words(planted: Planted, places: I64Array) -> tuple[I64Array, I64Array]:
    """How many words each page has, and which: a row a page, LONGEST + 1 wide."""
    sources = planted.sources[places].astype(np.uint64)
    rows = by_frequency(fmix64(sources[:, None] << np.uint64(8) | columns(LONGEST + 1)))
    lengths = SHORTEST + (fmix64(~sources) % np.uint64(LONGEST - SHORTEST + 1)).astype(np.int64)
    own = fmix64(~(places.astype(np.uint64)[:, None] << np.uint64(8) | columns(16)))
    new_words, at = own[:, :8] % np.uint64(VOCABULARY), own[:, 8:] % lengths[:, None].astype("u8")
    for kind, n_replaced in REPLACED.items():
        which = np.flatnonzero(planted.are(kind)[places])[:, None]
        rows[which, at[which, np.arange(n_replaced)]] = new_words[which, np.arange(n_replaced)]
    appended = np.flatnonzero(planted.are("appended")[places])
    rows[appended, lengths[appended]] = new_words[appended, 0]
    lengths[appended] += 1
    return lengths, rows


def columns(n: int) -> U64Array:
    return np.arange(n, dtype=np.uint64)


def by_frequency(drawn: U64Array) -> I64Array:
    """64 random bits → a word's number, by Zipf's law."""
    shares = np.cumsum(1 / np.arange(1, VOCABULARY + 1))
    words = np.searchsorted(shares / shares[-1], (np.arange(DRAWS) + 0.5) / DRAWS)
    found: I64Array = words[(drawn >> np.uint64(44)).astype(np.int64)]
    return found
