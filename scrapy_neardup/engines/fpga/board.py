"""Board: the paper's machine, 8 engines on each of 4 FPGAs, and how its time is spent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import Literal

from scrapy_neardup.engines.fpga.design import WORD_BYTES, Design, channel_words
from scrapy_neardup.engines.fpga.scheduler import Scheduler

CLOCK_HZ = 150_000_000
N_FPGAS = 4
ENGINES_PER_FPGA = 8
N_ENGINES = N_FPGAS * ENGINES_PER_FPGA

# The paper's own figures disagree; these are its text (one byte per engine and cycle) and
# its Table II, which is 27.76 % of what Figures 5 and 6 deliver and charges a byte a page.
TEXT_BYTES_PER_S = N_ENGINES * CLOCK_HZ
TABLE2_BYTES_PER_S = 0.2776 * N_ENGINES * WORD_BYTES * CLOCK_HZ

Order = Literal["as given", "longest first"]


class Board:
    """The cycles of all engines, computed from the documents' lengths as they come.

    Ideal memory and every document resident, as in the paper. Counts from cycle 0 as if
    the whole crawl had been loaded before the start: not a forecast of a crawl's time.
    """

    def __init__(self, design: Design) -> None:
        self.design = design
        self.engines = [Scheduler(design) for _ in range(N_ENGINES)]
        self.n_documents = 0

    def add(self, length: int) -> None:
        """One more document of a crawl: document n goes to engine n mod 32."""
        self.engines[self.n_documents % N_ENGINES].add(length)
        self.n_documents += 1

    def add_collection(self, lengths: Sequence[int], order: Order = "as given") -> None:
        """A whole collection as the paper splits it: one contiguous part for each FPGA.

        Parts are equal in padded words; within a part, documents go to the engines in turn.
        "longest first" instead goes through all engines by decreasing length.
        """
        if order == "longest first":
            for length in sorted(lengths, reverse=True):
                self.add(length)
            return
        dealt = [0] * N_FPGAS
        for length, fpga in zip(lengths, parts(lengths), strict=True):
            engine = fpga * ENGINES_PER_FPGA + dealt[fpga] % ENGINES_PER_FPGA
            self.engines[engine].add(length)
            dealt[fpga] += 1
        self.n_documents += len(lengths)

    @property
    def cycles(self) -> int:
        """Cycles until the last fingerprint of the last engine is out."""
        return max(engine.cycles for engine in self.engines)

    @property
    def n_bytes(self) -> int:
        """Bytes of text, without padding and NULs."""
        return sum(engine.n_bytes for engine in self.engines)

    @property
    def n_words(self) -> int:
        """64-bit words fetched."""
        return sum(engine.n_words for engine in self.engines)

    def breakdown(self) -> dict[str, float]:
        """The cycles by cause; they add up to `cycles`.

        text      all engines busy with text alone
        padding   with NULs, zeros and the floor of seven characters
        engines   waiting for the engine that was given most
        lanes     its lanes waiting for their turns and for the longest document
        """
        text = self.n_bytes / WORD_BYTES / N_ENGINES
        words = self.n_words / N_ENGINES
        most = max(engine.n_words for engine in self.engines)
        return {
            "text": text,
            "padding": words - text,
            "engines": most - words,
            "lanes": self.cycles - most,
        }

    def report(self) -> dict[str, float | int | str]:
        """The board's time for what was added, in the units their names say.

        seconds is the architecture of Figures 5 and 6; seconds_text and seconds_table2 are
        the rates of the paper's text and of its Table II. utilisation and imbalance are
        shares of the input channels' time: carrying text, and not used.
        """
        parts, cycles, n_bytes = self.breakdown(), self.cycles, self.n_bytes
        available = max(cycles, 1) * N_ENGINES
        return {
            "documents": self.n_documents,
            "bytes": n_bytes,
            "padding_bytes": self.n_words * WORD_BYTES - n_bytes,
            "cycles": cycles,
            "seconds": cycles / CLOCK_HZ,
            "seconds_text": n_bytes / TEXT_BYTES_PER_S,
            "seconds_table2": (n_bytes + self.n_documents) / TABLE2_BYTES_PER_S,
            "utilisation": n_bytes / WORD_BYTES / available,
            "imbalance": 1 - self.n_words / available,
            "limited_by": limit(parts),
            "assumes": "all pages resident, as in the paper",
        }


def limit(breakdown: Mapping[str, float]) -> str:
    """The largest cause of a board's cycles; of waiting, the larger part of it.

    Engines and lanes both wait because work is dealt unevenly, so they weigh together
    against text and padding: "text" limits a board only if waiting takes less than the text.
    """
    waiting = {name: breakdown[name] for name in ("engines", "lanes")}
    causes = {
        "text": breakdown["text"],
        "padding": breakdown["padding"],
        max(waiting, key=lambda name: waiting[name]): sum(waiting.values()),
    }
    return max(causes, key=lambda name: causes[name])


def parts(lengths: Sequence[int]) -> list[int]:
    """The FPGA of each document: contiguous parts of about equal padded words."""
    words = [channel_words(length) for length in lengths]
    total = sum(words)
    before = (end - own for end, own in zip(accumulate(words), words, strict=True))
    return [start * N_FPGAS // total for start in before]
