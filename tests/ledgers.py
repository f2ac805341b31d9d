"""Made-up ledgers for tests of what reads them."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from random import Random

from scrapy_neardup.ledger.schema import Entry
from scrapy_neardup.ledger.writer import LedgerWriter

RULES = {
    "NEARDUP_DISTANCE": 6,
    "NEARDUP_CONFIRM_DISTANCE": 44,
    "NEARDUP_SIMILARITY": 0.88,
    "NEARDUP_MIN_WORDS": 20,
    "spec": {"bits": 64, "key": "3f2a9c"},
}
# A page that tries everything: markup, script, terminal control, formulas, direction marks.
HOSTILE_URL = "http://evil.example/</script><script>window.owned=1</script>?a=\"'&b=\x1b[2J\u202e"
HOSTILE_TEXT = (
    "<img src=x onerror=window.owned=1> </script><script>window.owned=1</script> {{7*7}} \u2028"
    " <!-- <svg/onload=window.owned=1> ${window.owned=1} \x1b]0;owned\x07\n"
    + "words and words "
    * 30
)


def write(state: Path, entries: Iterable[Entry], **options: object) -> Path:
    """Write a ledger into a state folder; the folder."""
    ledger = LedgerWriter(state / "ledger", "all", **({"rules": RULES} | options))  # type: ignore[arg-type]
    for entry in entries:
        ledger.record(entry)
    ledger.close()
    assert ledger.lost == 0
    return state


def page(url: str, **more: object) -> Entry:
    """A kept page of 30 kB that took 100 ms."""
    kept = Entry(url, "new", "kept", fingerprint=1, words=500, size_bytes=30_000, latency_ms=100)
    return kept._replace(**more)


def near(url: str, original: str, sketch_distance: int = 12, **more: object) -> Entry:
    """A dropped near-duplicate."""
    return page(
        url,
        kind="near",
        action="dropped",
        original=original,
        distance=2,
        sketch_distance=sketch_distance,
        similarity=1 - 0.12 * sketch_distance / 44,
    )._replace(**more)


def shop(n_pages: int, seed: int = 1) -> Iterator[Entry]:
    """A crawl of a shop: items with session copies, printer versions and repeated URLs."""
    rng = Random(seed)
    for i in range(n_pages):
        host = f"www{rng.randrange(3)}.shop.example"
        url = f"https://{host}/item/{i}"
        chance = rng.random()
        origin = f"https://{host}/item/{rng.randrange(i + 1) // 10 * 10}"
        if chance < 0.6:
            yield page(url, words=rng.randrange(20, 2000), size_bytes=rng.randrange(5_000, 90_000))
        elif chance < 0.8:
            distance = min(44, round(rng.expovariate(0.12)))
            yield near(f"{origin}?print={i}", origin, distance, distance=rng.randrange(7))
        elif chance < 0.9:
            yield near(f"{origin}?sid={i}", origin, 0, kind="exact", distance=0, similarity=1.0)
        elif chance < 0.97:
            yield Entry(url, "seen", "dropped")
        else:
            yield page(url, kind="too-short", words=rng.randrange(20))
