"""simhash-py's README and benchmark: a million fingerprints, a million queries, and its Corpus.

Corpus was deleted upstream in 2016; requirements.txt says how to build its last commit. It takes
and gives lists of Python integers, and returns fingerprints; ours are asked in NumPy arrays, and
one by one where a row says "a call".
"""

import os
from collections.abc import Iterator
from typing import Any

import numpy as np

from benchmarks.peers import peer
from benchmarks.rows import Row, once
from scrapy_neardup.index.pairs import all_pairs
from scrapy_neardup.index.permuted import PermutedIndex

MILLION = 1_000_000
PRINTED_2011 = {"insert": 2.534, "find first": 4.795, "find all": 7.415, "removal": 3.346}
SINGLE_CALLS = 100_000
NO_PEER = dict.fromkeys(PRINTED_2011)


def rows(hashes: Any, queries: Any) -> Iterator[Row]:
    """The README's own run, bench.py --random 1000000 --blocks B --bits 3, in seconds."""
    for blocks in (4, 5, 6):
        theirs = corpus_seconds(blocks, hashes, queries)
        for step, figure in our_seconds(blocks, hashes, queries).items():
            peers = {"README, 2011": PRINTED_2011[step]} if blocks == 5 else {}
            peers["simhash-py Corpus"] = theirs[step]
            yield Row(f"README, {blocks} blocks: {step}", figure, "s", peers=peers)
            if blocks == 4 and step == "find first" and theirs[step]:
                faster = (theirs[step] or 0) / figure
                yield Row("find first, 4 blocks: times faster than Corpus", faster, "x", 6)
    yield from call_rows(hashes, queries)
    yield from join_rows(hashes, queries)
    yield gaoya_row()


def our_seconds(blocks: int, hashes: Any, queries: Any) -> dict[str, float]:
    """CPU seconds of each step of the README's benchmark."""
    ids, index = np.arange(len(hashes)), PermutedIndex(blocks=blocks)
    return {
        "insert": once(lambda: index.add_many(hashes, ids)),
        "find first": once(lambda: index.first_within_many(queries, 3)),
        "find all": once(lambda: index.all_within_many(queries, 3)),
        "removal": once(lambda: index.remove_many(hashes, ids)),
    }


def corpus_seconds(blocks: int, hashes: Any, queries: Any) -> dict[str, float | None]:
    """The same of simhash-py's Corpus."""
    simhash = peer("simhash", "simhash-corpus")
    if not simhash:
        return NO_PEER
    corpus, stored, asked = simhash.Corpus(blocks, 3), hashes.tolist(), queries.tolist()
    return {
        "insert": once(lambda: corpus.insert_bulk(stored)),
        "find first": once(lambda: corpus.find_first_bulk(asked)),
        "find all": once(lambda: corpus.find_all_bulk(asked)),
        "removal": once(lambda: corpus.remove_bulk(stored)),
    }


def call_rows(hashes: Any, queries: Any) -> Iterator[Row]:
    """One query a call, both from Python integers."""
    index, asked = PermutedIndex(), queries[:SINGLE_CALLS].tolist()
    index.add_many(hashes, np.arange(len(hashes)))
    ours = once(lambda: [index.first_within(query, 3) for query in asked]) / len(asked)
    simhash, theirs = peer("simhash", "simhash-corpus"), None
    if simhash:
        corpus = simhash.Corpus(4, 3)
        corpus.insert_bulk(hashes.tolist())
        theirs = once(lambda: [corpus.find_first(query) for query in asked]) / len(asked) * 1e6
    yield Row("find first, 4 blocks, a call", ours * 1e6, "us", peers={"simhash-py Corpus": theirs})


def join_rows(hashes: Any, queries: Any) -> Iterator[Row]:
    """Everything against everything, which is all that newer versions of simhash-py do."""
    every = np.concatenate([hashes, queries])
    pybind = peer("simhash", "simhash-pybind")
    for blocks in (5, 6):
        theirs = None
        if pybind:
            both = set(every.tolist())
            theirs = once(lambda both=both, b=blocks: pybind.find_all(both, b, 3))
        ours = once(lambda b=blocks: list(all_pairs(every, 3, b, memory_bytes=1 << 30)))
        peers = {"simhash-pybind find_all": theirs}
        yield Row(f"all_pairs of two million, {blocks} blocks", ours, "s", peers=peers)


def gaoya_row() -> Row:
    """gaoya takes texts only: texts of one word, so that little but the index is measured.

    Its limit is strict, whatever its documentation says: 4 finds what differs in up to 3 bits.
    """
    os.environ["RAYON_NUM_THREADS"] = "1"  # Read once, when its threads start.
    gaoya = peer("gaoya.simhash")
    words = [f"w{number}" for number in range(MILLION)]
    index = PermutedIndex(blocks=5)
    own = np.random.default_rng(7).integers(0, 2**64, MILLION, dtype=np.uint64)
    index.add_many(own, np.arange(MILLION))
    ours = once(lambda: index.all_within_many(own[:SINGLE_CALLS], 3)) / SINGLE_CALLS * 1e6
    theirs = None
    if gaoya:
        other = gaoya.SimHashStringIndex(64, 5, 4, analyzer="word")
        for number, word in enumerate(words):
            other.insert_document(number, word)
        asked = words[:SINGLE_CALLS]
        theirs = once(lambda: other.par_bulk_query(asked)) / SINGLE_CALLS * 1e6
    return Row("find all, 5 blocks, all stored", ours, "us", peers={"gaoya": theirs})
