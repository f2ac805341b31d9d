"""FpgaEngine: the paper's board as an engine of a crawl; ComparedEngine: hardware held to it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from threading import Lock

from scrapy_neardup.engines import FINGERPRINT, SKETCH, FingerprintSpec, Signatures, load_engine
from scrapy_neardup.engines.fpga.board import Board
from scrapy_neardup.engines.fpga.design import check_text, design_for
from scrapy_neardup.kernels.numpy_twin import U64Array


class FpgaEngine:
    """The model in its fast form: values from the fastest kernels, cycles from the lengths.

    The step-by-step form in fingerprint_engine gives the same values and cycles. The sketch
    is not the core's work and costs no cycles. A text so long that the core's counters could
    wrap is answered by the kernels alone, counted in the report and not given to the board.

    words: as text.py makes them. Raises SpecError for a spec that the core cannot compute, and for
    words with a NUL, which would end the document on the channel.
    """

    def __init__(
        self, spec: FingerprintSpec = FINGERPRINT, sketch_spec: FingerprintSpec = SKETCH
    ) -> None:
        self.spec = spec
        self.sketch_spec = sketch_spec
        self.board = Board(design_for(spec))
        self.n_beyond_counters = 0
        self._counting = Lock()
        self._values = load_engine("auto", spec, sketch_spec)

    def fingerprint(self, words: bytes) -> int:
        self._count(words)
        return self._values.fingerprint(words)

    def fingerprint_many(self, texts: Sequence[bytes]) -> U64Array:
        self._count(*texts)
        return self._values.fingerprint_many(texts)

    def signatures(self, words: bytes) -> Signatures:
        self._count(words)
        return self._values.signatures(words)

    def report(self) -> dict[str, float | int | str]:
        """What the board would have taken so far, see Board.report."""
        return self.board.report() | {"beyond_counters": self.n_beyond_counters}

    def _count(self, *texts: bytes) -> None:
        for words in texts:
            check_text(words)
        with self._counting:  # long pages are read in threads
            for words in texts:
                if self.board.design.exact_for(len(words)):
                    self.board.add(len(words))
                else:
                    self.n_beyond_counters += 1


class ComparedEngine(FpgaEngine, ABC):
    """FpgaEngine that also gives every text to hardware, whose fingerprint has to be the same.

    What it returns is always the kernels'. A subclass says in _check what the hardware is.
    """

    def __init__(
        self, spec: FingerprintSpec = FINGERPRINT, sketch_spec: FingerprintSpec = SKETCH
    ) -> None:
        super().__init__(spec, sketch_spec)
        self.n_checked = self.n_mismatches = 0

    def fingerprint(self, words: bytes) -> int:
        value = super().fingerprint(words)
        self._check([words], [value])
        return value

    def fingerprint_many(self, texts: Sequence[bytes]) -> U64Array:
        values = super().fingerprint_many(texts)
        self._check(texts, values[:, 0].tolist())
        return values

    def signatures(self, words: bytes) -> Signatures:
        values = super().signatures(words)
        self._check([words], [values.fingerprint])
        return values

    def report(self) -> dict[str, float | int | str]:
        """Also on how many texts the hardware was compared, and on how many it differed."""
        checks = {"checked": self.n_checked, "mismatches": self.n_mismatches}
        return super().report() | checks

    @abstractmethod
    def _check(self, texts: Sequence[bytes], fingerprints: list[int]) -> None:
        """Compare the hardware's fingerprints with the kernels'."""

    def _count_checked(self, checked: int, mismatches: int) -> None:
        with self._counting:  # long pages are read in threads
            self.n_checked += checked
            self.n_mismatches += mismatches
