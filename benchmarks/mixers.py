"""What a mixer does for precision and recall: the FPGA core's mixers on real, labelled pairs.

    python -m benchmarks.mixers [--json FILE]

Pairs, labels, visible text and scores are those of `scrapy neardup evaluate`; no sketch
confirms, so that only the fingerprint is judged. A keyed mixer is a family of functions:
figures are means over KEYS keys, with the worst. First, the correlation of two bits over the
vocabulary: 1 / sqrt(words) is what independent bits would show.
"""

import argparse
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np

from benchmarks.rows import SHARED_DATA
from scrapy_neardup.crawl.pages.extract import visible_text_of_html
from scrapy_neardup.detect.text import normalise
from scrapy_neardup.kernels.numpy_twin import I64Array, U64Array
from scrapy_neardup.kernels.numpy_twin.fingerprint import sdbm_words
from scrapy_neardup.kernels.numpy_twin.mix import fmix64
from scrapy_neardup.offline.evaluation import Score
from scrapy_neardup.offline.page_files import lines_of, read_pairs

DISTANCES = (0, 2, 3, 4, 5, 6, 8)
KEYS = 16

Mixer = Callable[[U64Array], U64Array]


def rotated(h: U64Array, bits: int) -> U64Array:
    return h << np.uint64(bits) | h >> np.uint64(64 - bits)


def light(h: U64Array) -> U64Array:
    """As in scrapy_neardup.engines.fpga.core, on arrays."""
    h = h ^ rotated(h, 17) ^ rotated(h, 41)
    h = h + (h << np.uint64(32))
    return h ^ rotated(h, 27) ^ rotated(h, 15)


def exclusive_or(h: U64Array) -> U64Array:
    """One layer of exclusive-or alone: what the addition in the middle is for."""
    return h ^ rotated(h, 17) ^ rotated(h, 41)


def plain(h: U64Array) -> U64Array:
    return h


MIXERS: dict[str, Mixer] = {
    "plain": plain,
    "exclusive or": exclusive_or,
    "light": light,
    "fmix64": fmix64,
}


class Corpus:
    """Pages as different words with their counts, and the labelled pairs of them."""

    def __init__(self) -> None:
        pairs = read_pairs(SHARED_DATA / "pairs" / "pairs.jsonl.gz")
        wanted = {id for pair in pairs for id in (pair.first, pair.second)}
        rows, words, counts = {}, [], []
        for _, page in lines_of(SHARED_DATA / "pairs" / "pages.jsonl.gz"):
            if page["id"] in wanted:
                rows[page["id"]] = len(rows)
                hashes = sdbm_words(normalise(visible_text_of_html(page["html"])))
                own, count = np.unique(hashes, return_counts=True)
                words.append(own)
                counts.append(count)
        self.starts = np.cumsum([0, *map(len, words)])[:-1]
        self.words, self.counts = np.concatenate(words), np.concatenate(counts)
        self.first = np.array([rows[pair.first] for pair in pairs])
        self.second = np.array([rows[pair.second] for pair in pairs])
        self.near = np.array([pair.near for pair in pairs])

    def distances(self, mixer: Mixer, key: int) -> I64Array:
        """Bits that differ between the two pages of each pair."""
        bits = as_signs(mixer(self.words ^ np.uint64(key)))
        votes = np.add.reduceat(bits * self.counts[:, None], self.starts, axis=0)
        fingerprints = np.packbits(votes > 0, axis=1).view("<u8")[:, 0]
        return np.bitwise_count(fingerprints[self.first] ^ fingerprints[self.second])

    def correlation(self, mixer: Mixer) -> tuple[float, float]:
        """Root mean square and largest correlation of two bits over all different words."""
        signs = as_signs(mixer(np.unique(self.words))).astype(np.float64)
        signs -= signs.mean(axis=0)
        spread = np.maximum(signs.std(axis=0), 1e-9)
        matrix = signs.T @ signs / len(signs) / np.outer(spread, spread)
        others = matrix[~np.eye(64, dtype=bool)]
        return float(np.sqrt((others**2).mean())), float(np.abs(others).max())


def as_signs(features: U64Array) -> I64Array:
    """+1 for each bit that is set, -1 for the others; shape (n, 64)."""
    bits = np.unpackbits(features.astype("<u8").view(np.uint8).reshape(-1, 8), axis=1)
    return 2 * bits.astype(np.int64) - 1


def scores(corpus: Corpus, mixer: Mixer) -> dict[int, dict[str, float]]:
    """By distance: mean and worst recall and precision over the keys, 0 among them."""
    keys = [0, *np.random.default_rng(1).integers(1, 2**64, KEYS - 1, dtype=np.uint64).tolist()]
    found = np.array(
        [
            [(score.recall.value, score.precision.value) for score in by_distance(corpus, mixer, k)]
            for k in keys
        ]
    )
    return {
        distance: {
            "recall": means[0], "precision": means[1], "worst_recall": worst[0],
            "worst_precision": worst[1], "f1": 2 * means[0] * means[1] / (means[0] + means[1]),
        }
        for distance, means, worst in zip(
            DISTANCES, found.mean(axis=0).tolist(), found.min(axis=0).tolist(), strict=True
        )
    }  # fmt: skip


def by_distance(corpus: Corpus, mixer: Mixer, key: int) -> list[Score]:
    distances = corpus.distances(mixer, key)
    return [Score.of(distances <= limit, corpus.near) for limit in DISTANCES]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    corpus, report = Corpus(), {}
    n_words = len(np.unique(corpus.words))
    near, distinct = corpus.near.sum(), (~corpus.near).sum()
    print(f"{near} near pairs, {distinct} distinct; {n_words:,} different words, so independent")
    print(f"bits would correlate by {n_words**-0.5:.4f}; means over {KEYS} keys\n")
    heads = " | ".join(f"R, P at {distance}" for distance in DISTANCES)
    print(f"| mixer | bits correlate, rms / most | {heads} |\n|---|---|{'---|' * len(DISTANCES)}")
    for name, mixer in MIXERS.items():
        rms, most = corpus.correlation(mixer)
        table = scores(corpus, mixer)
        report[name] = {"rms": rms, "most": most, "by_distance": table}
        cells = " | ".join(f"{s['recall']:.3f}, {s['precision']:.3f}" for s in table.values())
        print(f"| {name} | {rms:.4f} / {most:.3f} | {cells} |", flush=True)
    if arguments.json:
        arguments.json.write_text(json.dumps(report, indent=1))


if __name__ == "__main__":
    main()
