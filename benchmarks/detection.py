"""How well duplicates are told from different pages, ours beside peers: same pages, one run.

    python -m benchmarks.detection [--json FILE]

Pairs: the labelled pairs of ../shared/data/pairs (label_full; grey pairs are not scored), each
method by its own default or the settings named. Peers get the same visible text. CPU time is
that of making the signatures; bytes are those kept for a page, without ids and indexes.
Corpus: all pages streamed through the Detector one by one, against allpairs.jsonl.gz.
Sites: made by rule (made_sites.py), streamed in order.
"""

import argparse
import hashlib
import json
import re
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.made_sites import SITES, Author
from benchmarks.peers import peer
from benchmarks.rows import SHARED_DATA
from scrapy_neardup.crawl.pages.extract import visible_text_of_html
from scrapy_neardup.detect.detector import Detector
from scrapy_neardup.detect.near import NearLimits
from scrapy_neardup.engines import load_engine
from scrapy_neardup.index import load_index
from scrapy_neardup.offline.evaluation import Score, measure
from scrapy_neardup.offline.page_files import NEAR, LabelledPair, lines_of, read_pairs

PAIRS = SHARED_DATA / "pairs"
WORD = re.compile(r"\w+")
CORPUS_RULES: dict[str, dict[str, Any]] = {
    "templates learnt": {"boilerplate": "learn"},
    "templates kept": {"boilerplate": "keep"},
    "templates learnt, pages as records": {"boilerplate": "learn", "whole_pages": True},
}


class Method(NamedTuple):
    """A way to sign pages and to compare two signatures."""

    name: str
    sign: Callable[[str], Any]
    same: Callable[[Any, Any], bool]
    n_bytes: int


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.detection", description=__doc__)
    parser.add_argument("--json", metavar="FILE", help="write everything as JSON, too")
    options = parser.parse_args()
    texts = {
        p["id"]: visible_text_of_html(p["html"]) for _, p in lines_of(PAIRS / "pages.jsonl.gz")
    }
    report = {
        "pairs": on_pairs(texts, read_pairs(PAIRS / "pairs.jsonl.gz")),
        "corpus": {what: on_corpus(texts, what, **rules) for what, rules in CORPUS_RULES.items()},
        "sites": {name: on_site(name) for name in SITES},
    }
    if options.json:
        Path(options.json).write_text(json.dumps(report, indent=1), encoding="utf-8")


def detector(**rules: Any) -> Detector:
    index = load_index("permuted", blocks=7, distance=6)
    return Detector(load_engine("auto"), index, **rules)


def on_pairs(texts: dict[str, str], pairs: list[LabelledPair]) -> list[dict[str, Any]]:
    """Recall and precision of every method."""
    print(f"{'':44}recall  precision      F1  us/page  bytes/page")
    scores = []
    for method in methods():
        start = time.process_time()
        signed = {id: method.sign(text) for id, text in texts.items()}
        micros = (time.process_time() - start) / len(texts) * 1e6
        same = [method.same(signed[pair.first], signed[pair.second]) for pair in pairs]
        score = scored(same, [pair.near for pair in pairs])
        print(
            f"{method.name:44}{score.recall.value:.4f}     {score.precision.value:.4f}  "
            f"{score.f1:.4f}{micros:9.0f}{method.n_bytes:12}",
            flush=True,
        )
        scores.append(
            {"method": method.name, "us_per_page": micros, "bytes_per_page": method.n_bytes}
            | score.as_dict()
        )
    return scores


def scored(same: Sequence[bool], near: Sequence[bool]) -> Score:
    counts = Counter(zip(same, near, strict=True))
    return Score(*(counts[key] for key in ((1, 1), (0, 1), (1, 0), (0, 0))))


def methods() -> Iterable[Method]:
    """Ours, then the peers that are installed."""
    yield from ours()
    for made in (simhash_peer, gaoya_peer, datasketch_peer, text_dedup_peer):
        found = list(made())
        if not found:
            print(f"{made.__name__.replace('_', ' ')}: not installed")
        yield from found
    yield Method("Nutch TextProfileSignature", text_profile, lambda a, b: a == b, 16)


def ours() -> Iterable[Method]:
    reader = detector(facts="ignore")
    everything = 8 + 16 + 8 * reader.pages.sketch_words
    for name, rules, n_bytes in (
        ("scrapy_neardup", NearLimits(), everything),
        ("  its fingerprint alone, k = 3", NearLimits(distance=3, confirm_distance=None), 8),
        ("  with its sketch, k = 6, b = 36", NearLimits(confirm_distance=36, similarity=0), 8 + 32),
    ):
        yield Method(
            name,
            lambda text: reader.read("http://a.example/", text),
            lambda a, b, rules=rules: bool(measure(reader, [(a, b)]).duplicates(rules)[0]),
            n_bytes,
        )


def words(text: str) -> list[str]:
    return WORD.findall(text.lower())


def word_shingles(text: str, size: int = 5) -> set[str]:
    found = words(text)
    return {" ".join(found[i : i + size]) for i in range(max(1, len(found) - size + 1))}


def character_shingles(text: str, size: int = 4) -> list[str]:
    joined = "".join(words(text))
    return [joined[i : i + size] for i in range(max(1, len(joined) - size + 1))]


def simhash_peer() -> Iterable[Method]:
    module = peer("simhash", "simhash") or peer("simhash")
    if module is None or not hasattr(module, "Simhash"):
        return
    near = lambda a, b: a.distance(b) <= 3  # noqa: E731
    # Its default, but each part given as often as it occurs: under NumPy 2, version 2.1.2
    # raises OverflowError for a part that occurs more than 255 times.
    yield Method(
        "simhash, its default (4 characters), k = 3",
        lambda text: module.Simhash(character_shingles(text)),
        near,
        8,
    )
    yield Method("simhash on words, k = 3", lambda t: module.Simhash(words(t)), near, 8)


def gaoya_peer() -> Iterable[Method]:
    module = peer("gaoya.simhash")
    if module is None:
        return
    # Its limit is exclusive, whatever its documentation says: 4 finds distances up to 3.
    index = module.SimHashStringIndex(
        hash_size=64, num_blocks=6, hamming_distance=4, analyzer="word", lowercase=True
    )
    texts: list[str] = []

    def sign(text: str) -> int:
        index.insert_document(len(texts), text)
        texts.append(text)
        return len(texts) - 1

    found: dict[int, set[int]] = {}

    def same(a: int, b: int) -> bool:
        if a not in found:
            found[a] = set(index.query(texts[a]))
        return b in found[a]

    yield Method("gaoya SimHash on words, k = 3", sign, same, 8)


def datasketch_peer() -> Iterable[Method]:
    module = peer("datasketch")
    if module is None:
        return
    index = module.MinHashLSH(threshold=0.9, num_perm=128)
    signed: list[Any] = []

    def sign(text: str) -> int:
        signature = module.MinHash(num_perm=128)
        signature.update_batch([shingle.encode() for shingle in word_shingles(text)])
        index.insert(len(signed), signature)
        signed.append(signature)
        return len(signed) - 1

    yield Method(
        "datasketch MinHashLSH 0.9, 5-word shingles",
        sign,
        lambda a, b: b in index.query(signed[a]),
        128 * 8,
    )


def text_dedup_peer() -> Iterable[Method]:
    """Its simhash; its minhash is a program over a whole dataset, by the method of datasketch."""
    simhash = peer("text_dedup.simhash")
    if simhash is None:
        return

    def sign(text: str) -> Any:
        parts = {"".join(gram).lower().encode() for gram in simhash.ngrams(list(text), n=3)}
        return simhash.compute(
            [simhash._unsigned_hash(part, simhash.xxh3_64_digest) for part in parts]
        )

    near = lambda a, b: (a ^ b).count(1) <= 3  # noqa: E731
    yield Method("text-dedup simhash, its default, k = 3", sign, near, 8)


def text_profile(text: str) -> bytes:
    """Nutch's TextProfileSignature: frequent words, their counts rounded down; equal or not."""
    counts = Counter(word for word in words(text) if len(word) > 2)
    most = max(counts.values(), default=0)
    quantum = max(round(most * 0.01), 2 if most > 1 else 1)
    profile = [(word, n // quantum * quantum) for word, n in counts.items() if n >= quantum]
    profile.sort(key=lambda entry: (-entry[1], entry[0]))
    return hashlib.md5(repr(profile).encode(), usedforsecurity=False).digest()


def on_corpus(texts: dict[str, str], what: str, **rules: Any) -> dict[str, int]:
    """Each page after all before it: drops by what their pair is, and near pages missed."""
    known, kept = detector(scope="all", **rules), set()
    jaccard: dict[frozenset[str], float] = {}
    near: dict[str, set[str]] = {}
    for _, row in lines_of(PAIRS / "allpairs.jsonl.gz"):
        jaccard[frozenset((row["a"], row["b"]))] = row["j5_full"]
        if row["j5_full"] >= NEAR:
            near.setdefault(row["a"], set()).add(row["b"])
            near.setdefault(row["b"], set()).add(row["a"])
    counts = Counter(dropped_near=0, dropped_grey=0, dropped_distinct=0, missed=0)
    for id, text in texts.items():
        decision = known.decide(known.read(id, text))
        if not decision.is_duplicate:
            kept.add(id)
            counts["missed"] += bool(near.get(id, set()) & kept)
            continue
        alike = (
            1.0 if decision.kind == "exact" else jaccard.get(frozenset((id, decision.original)), 0)
        )
        label = "near" if alike >= NEAR else "grey" if alike > 0.5 else "distinct"
        counts[f"dropped_{label}"] += 1
    print(f"\n{len(texts)} pages streamed, {what}: {dict(counts)}", flush=True)
    return dict(counts)


def on_site(name: str) -> dict[str, dict[str, int]]:
    """Pages of a made site dropped rightly and wrongly, and duplicates kept."""
    pages = list(SITES[name](Author(1)))
    n_words = sum(len(text.split()) for _, text in pages) // len(pages)
    n_distinct = len({says for says, _ in pages})
    print(f"\n{name}: {len(pages)} pages of {n_words} words, {n_distinct} distinct")
    found = {templates: on_pages(pages, templates) for templates in ("learn", "keep")}
    for templates, counts in found.items():
        print(f"  templates {templates}: {counts}", flush=True)
    return found


def on_pages(pages: list[tuple[str, str]], templates: str) -> dict[str, int]:
    known, said = detector(boilerplate=templates), {}
    counts = Counter(dropped_rightly=0, dropped_wrongly=0, kept_twice=0)
    for place, (says, text) in enumerate(pages):
        url = f"http://made.example/{place}"
        decision = known.decide(known.read(url, text))
        if not decision.is_duplicate:
            counts["kept_twice"] += says in said.values()
            said[url] = says
        elif said[decision.original] == says:
            counts["dropped_rightly"] += 1
        else:
            counts["dropped_wrongly"] += 1
    return dict(counts)


if __name__ == "__main__":
    main()
