"""The FPGA paper's tables beside the model, the contradictions, and our engines on this machine.

    python -m benchmarks.fpga [--json FILE] [--svg docs/images/fpga.svg]

The paper: Luo, Najjar, Hristidis, Efficient Near-Duplicate Document Detection using FPGAs.
The model's columns are the presets of scrapy_neardup.engines.fpga.board; "simulated" deals
1/1000 of the paper's documents, with invented lengths of the right mean, to the board and
multiplies. Engines are measured on one core, on ../shared/data/pairs.
"""

import argparse
import json
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np

from benchmarks.rows import cpu_seconds, html_pages, one_core
from scrapy_neardup.crawl.pages.extract import visible_text_of_html
from scrapy_neardup.detect.text import normalise
from scrapy_neardup.engines import FINGERPRINT, Engine, load_engine
from scrapy_neardup.engines import PAPER as PLAIN
from scrapy_neardup.engines.arrays import ArraysEngine
from scrapy_neardup.engines.fpga.board import (
    CLOCK_HZ,
    N_ENGINES,
    TABLE2_BYTES_PER_S,
    TEXT_BYTES_PER_S,
    Board,
)
from scrapy_neardup.engines.fpga.design import WORD_BYTES, Design
from scrapy_neardup.engines.fpga.scheduler import Scheduler
from scrapy_neardup.errors import EngineUnavailable

GIB = 2**30
FIGURES_BYTES_PER_S = N_ENGINES * WORD_BYTES * CLOCK_HZ
SCALE = 1000
PAIRS_FOR_REFERENCE = 20  # pages that the slow engine gets


class Collection(NamedTuple):
    """A row of the paper's tables."""

    name: str
    size_gb: float  # after preprocessing
    documents: int
    words: int  # "average number of words per document"
    cpu_s: float
    fpga_s: float
    speed_up: int
    log2_fingerprints: int
    log2_probes: int
    matching_s: float
    total_cpu_s: float
    total_fpga_s: float
    saved_percent: float

    @property
    def n_bytes(self) -> int:
        """Of text, reading Table I's words as bytes."""
        return self.documents * self.words

    def lengths(self, documents: int) -> list[int]:
        """Invented lengths: lognormal, sigma 1; for posts of 48 bytes uniform from 8 to 88."""
        random = np.random.default_rng(7)
        if self.words < 100:
            return random.integers(8, 89, documents).tolist()
        drawn = random.lognormal(np.log(self.words) - 0.5, 1.0, documents)
        return (drawn * self.words / drawn.mean()).astype(int).tolist()


PAPER = (
    Collection("Wikipedia", 17, 4_017_414, 4431, 605, 1.67, 362, 23, 7, 8.11, 613, 9.78, 98.4),
    Collection("TREC", 3.6, 1_634_249, 2346, 130, 0.36, 361, 25, 9, 3.12, 133, 3.48, 97.4),
    Collection("Twitter", 5.1, 114_333_421, 48, 192, 0.53, 362, 28, 12, 276.0, 468, 276.53, 40.9),
)


def table(title: str, header: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Print a Markdown table."""
    print(f"\n## {title}\n\n| {' | '.join(header)} |\n|{'---|' * len(header)}")
    for row in rows:
        print(f"| {' | '.join(map(str, row))} |")


def table1() -> None:
    rows = [
        (c.name, c.size_gb, f"{c.documents:,}", c.words, f"{c.n_bytes / GIB:.2f}") for c in PAPER
    ]
    header = ("", "GB (paper)", "documents", '"words" a document', "GiB if they are bytes")
    table("Table I", header, rows)
    print(
        "\nContradiction: the words are bytes. Documents times words give the size column when a"
        "\nword is a byte and a GB 2^30; 48 words would not fit into a tweet's 140 characters."
    )


def simulated_s(collection: Collection) -> float:
    """Seconds of the board, simulated on 1/SCALE of the documents and multiplied."""
    board = Board(Design())
    board.add_collection(collection.lengths(collection.documents // SCALE))
    # What does not grow with the collection must not be multiplied: its longest documents' tail.
    tail = board.breakdown()["lanes"] + board.breakdown()["engines"]
    bytes_share = collection.n_bytes / board.n_bytes
    return ((board.cycles - tail) * bytes_share + tail) / CLOCK_HZ


def table2() -> None:
    rows = []
    for c in PAPER:
        text = c.n_bytes / TEXT_BYTES_PER_S
        calibrated = (c.n_bytes + c.documents) / TABLE2_BYTES_PER_S
        peak = c.n_bytes / FIGURES_BYTES_PER_S
        rows.append(
            (
                c.name, c.cpu_s, c.fpga_s, f"{c.speed_up} ({c.cpu_s / c.fpga_s:.1f})",
                f"{text:.2f}", f"{peak:.3f}", f"{simulated_s(c):.3f}", f"{calibrated:.2f}",
                f"{c.n_bytes / c.fpga_s / 1e9:.2f}", f"{c.n_bytes / c.cpu_s / 1e6:.1f}",
            )
        )  # fmt: skip
    header = (
        "", "CPU s", "FPGA s", "speed-up (recomputed)", "`text` s", "`figures` s",
        "`figures`, simulated s", "`table2` s", "Table II in GB/s", "CPU in MB/s",
    )  # fmt: skip
    table("Table II", header, rows)
    share = PAPER[0].n_bytes / PAPER[0].fpga_s / FIGURES_BYTES_PER_S
    print(
        f"\nContradictions: the text's {TEXT_BYTES_PER_S / 1e9:.1f} GB/s needs 2.2 times Table II's"
        f"\nseconds; Figures 5 and 6 deliver {FIGURES_BYTES_PER_S / 1e9:.1f} GB/s, and Table II is"
        f"\n{share:.1%} of that. No number in the paper explains the share: `table2` is calibrated."
        "\nThe CPU column is eight threads: 3.7 MB/s each. The conclusion calls it a four core CPU;"
        "\nthe set-up has two of four cores. On four Opterons Twitter takes 380 s instead of 192,"
        "\nthough the times are said to decrease with the number of cores."
    )


def table3() -> None:
    rows = []
    for c in PAPER:
        smallest = (c.documents - 1).bit_length()
        per_query = c.matching_s / c.documents * 1e6
        probes = 4 * 2**c.log2_probes * c.documents / c.matching_s / 1e9
        rows.append(
            (
                c.name, f"2^{c.log2_fingerprints}", f"2^{smallest}", f"2^{c.log2_probes}",
                f"2^{c.log2_fingerprints - 16}", c.matching_s, f"{per_query:.2f}",
                f"{probes:.2f}",
            )
        )  # fmt: skip
    header = (
        "", "fingerprints (paper)", "next power of two", "probes (paper)",
        "fingerprints / 2^16", "s", "microseconds a page", "10^9 probes a second, four tables",
    )  # fmt: skip
    table("Table III", header, rows)
    print(
        "\nContradictions: the fingerprints are not the next power of two above the documents:"
        "\nTREC has the fewest documents and four times Wikipedia's fingerprints. The probes fit"
        "\nthe printed fingerprints (a bucket of 2^16). At Twitter's rate a probe takes 0.15 ns."
    )


def table4() -> None:
    rows = []
    for c in PAPER:
        cpu, fpga = c.cpu_s + c.matching_s, c.fpga_s + c.matching_s
        saved = 100 * (1 - fpga / cpu)
        matching = c.matching_s / fpga
        rows.append(
            (
                c.name, c.total_cpu_s, f"{cpu:.2f}", c.total_fpga_s, f"{fpga:.2f}",
                c.saved_percent, f"{saved:.1f}", f"{matching:.0%}",
            )
        )  # fmt: skip
    header = (
        "", "CPU s", "recomputed", "FPGA s", "recomputed", "saved %", "recomputed",
        "matching's share with the FPGA",
    )  # fmt: skip
    table("Table IV", header, rows)
    print(
        "\nThe sums are right; what they add up is not, see above. The first stage does not"
        "\ndominate for Twitter: 192 s of hashing, 276 s of matching."
    )


def distributions(pages: list[bytes]) -> None:
    """Where the board's time goes, by the lengths of the documents."""
    collections = {c.name + ", invented": c.lengths(20_000) for c in PAPER}
    collections["real pages, `../shared/data/pairs`"] = [len(page) for page in pages]
    rows = []
    for name, lengths in collections.items():
        for order in ("as given", "longest first"):
            board = Board(Design())
            board.add_collection(lengths, order)
            shares = [f"{cycles / board.cycles:.1%}" for cycles in board.breakdown().values()]
            rate = board.n_bytes / board.cycles * CLOCK_HZ / 1e9
            rows.append((name, f"{len(lengths):,}", order, f"{rate:.1f}", *shares))
    header = ("documents", "how many", "order", "GB/s", "text", "padding", "engines", "lanes")
    table("Throughput by length distribution", header, rows)
    one_engine(pages)


def one_engine(pages: list[bytes]) -> None:
    given, sorted_ = Scheduler(Design()), Scheduler(Design())
    lengths = [len(page) for page in pages]
    for scheduler, order in ((given, lengths), (sorted_, sorted(lengths, reverse=True))):
        for length in order:
            scheduler.add(length)
    print(
        f"\nOne engine, the real pages: {given.n_words:,} words take {given.cycles:,} cycles as"
        f" given,\n{sorted_.cycles:,} longest first."
    )


class ModelOnNumpy:
    """The fpga engine's bookkeeping over the NumPy kernels, whatever else is installed."""

    def __init__(self) -> None:
        self.board, self.values = Board(Design(mixer="fmix64")), ArraysEngine()

    def fingerprint_many(self, texts: Sequence[bytes]) -> object:
        for text in texts:
            self.board.add(len(text))
        return self.values.fingerprint_many(texts)


def engine_rates(pages: list[bytes]) -> dict[str, float | None]:
    """Bytes a second on one core, by engine; None for one that cannot run here."""
    made: dict[str, float | None] = {}
    for name in (
        "native", "fpga", "numpy", "fpga on NumPy",
        "rtl", "rtl, page by page", "rtl, mix=False", "reference",
    ):  # fmt: skip
        texts = pages[::100][:PAIRS_FOR_REFERENCE] if name == "reference" else pages
        run = runner(name, texts)
        with one_core():
            seconds = cpu_seconds({name: run}, rounds=3 if name != "reference" else 1)[name]
        made[name] = sum(map(len, texts)) / seconds if seconds else None
    return made


def runner(name: str, texts: list[bytes]) -> Callable[[], object] | None:
    if name == "fpga on NumPy":
        return partial(ModelOnNumpy().fingerprint_many, texts)
    kind, _, form = name.partition(", ")
    try:
        engine: Engine = load_engine(kind, PLAIN if form == "mix=False" else FINGERPRINT)
    except (EngineUnavailable, ImportError) as error:
        print(f"{name}: {error}")
        return None
    if form == "page by page":
        return lambda: [engine.fingerprint(text) for text in texts]
    return partial(engine.fingerprint_many, texts)


TARGETS = {"fpga": 200e6, "fpga on NumPy": 60e6, "rtl": 20e6}


def engines(rates: dict[str, float | None]) -> None:
    rows = []
    for name, rate in rates.items():
        if rate is None:
            rows.append((name, "not here", "", "", ""))
            continue
        target = TARGETS.get(name)
        verdict = "" if target is None else "met" if rate >= target else "MISSED"
        wanted = "" if target is None else f"{target / 1e6:.0f}"
        board = FIGURES_BYTES_PER_S * 0.2776 / rate
        rows.append((name, f"{rate / 1e6:,.1f}", wanted, verdict, f"{board:,.0f}"))
    header = ("engine", "MB/s, one core", "target", "", "cores to equal Table II")
    table("Our engines on this machine, default fingerprint", header, rows)


def chart(rates: dict[str, float | None]) -> str:
    """Bars on a logarithmic axis: the paper's figures and our engines, as SVG."""
    bars = [
        ("paper: CPU, eight threads", PAPER[0].n_bytes / PAPER[0].cpu_s, "paper"),
        ("paper: text, 4.8 GB/s", TEXT_BYTES_PER_S, "paper"),
        ("paper: Table II", PAPER[0].n_bytes / PAPER[0].fpga_s, "paper"),
        ("paper: Figures 5 and 6", FIGURES_BYTES_PER_S, "paper"),
        *((f"engine {name}, one core", rate, "ours") for name, rate in rates.items() if rate),
    ]
    low, high, left, width, step = 5.0, 11.0, 260, 420, 26
    height = step * len(bars) + 50
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {left + width + 90} {height}" '
        'font-family="sans-serif" font-size="13" role="img">',
        "<title>Text hashed per second: the paper's figures and this package's engines</title>",
        "<style>text{fill:#333}.grid{stroke:#ccc}.paper{fill:#b9770e}.ours{fill:#2471a3}"
        "@media(prefers-color-scheme:dark){text{fill:#ddd}.grid{stroke:#555}}</style>",
    ]
    units = ("100 kB/s", "1 MB/s", "10 MB/s", "100 MB/s", "1 GB/s", "10 GB/s", "100 GB/s")
    for i, unit in enumerate(units):
        x = left + width * i / (high - low)
        lines.append(f'<path class="grid" d="M{x:.0f} 8V{height - 34}"/>')
        lines.append(f'<text x="{x:.0f}" y="{height - 16}" text-anchor="middle">{unit}</text>')
    for i, (name, rate, kind) in enumerate(bars):
        y, length = 12 + step * i, width * (np.log10(rate) - low) / (high - low)
        label = f"{rate / 1e9:.3g} GB/s" if rate >= 1e9 else f"{rate / 1e6:.3g} MB/s"
        lines.append(f'<text x="{left - 8}" y="{y + 13}" text-anchor="end">{name}</text>')
        size = f'x="{left}" y="{y}" width="{length:.0f}" height="17"'
        lines.append(f'<rect class="{kind}" {size}/>')
        lines.append(f'<text x="{left + length + 6:.0f}" y="{y + 13}">{label}</text>')
    return "\n".join([*lines, "</svg>\n"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", type=Path, help="write the engines' rates, bytes a second")
    parser.add_argument("--svg", type=Path, help="write the chart")
    arguments = parser.parse_args()
    for show in (table1, table2, table3, table4):
        show()
    pages = [normalise(visible_text_of_html(page)) for page in html_pages()]
    distributions(pages)
    rates = engine_rates(pages)
    engines(rates)
    if arguments.json:
        arguments.json.write_text(json.dumps(rates, indent=1))
    if arguments.svg:
        arguments.svg.parent.mkdir(parents=True, exist_ok=True)
        arguments.svg.write_text(chart(rates))


if __name__ == "__main__":
    main()
