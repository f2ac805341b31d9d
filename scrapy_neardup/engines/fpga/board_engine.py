"""BoardEngine: a real board in a crawl, held to the kernels; without it the crawl goes on."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from threading import Lock

from scrapy_neardup.engines import FINGERPRINT, SKETCH, FingerprintSpec
from scrapy_neardup.engines.fpga.design import design_for
from scrapy_neardup.engines.fpga.engine import ComparedEngine
from scrapy_neardup.engines.fpga.serial_board import SerialBoard
from scrapy_neardup.errors import BoardFailed, EngineUnavailable

logger = logging.getLogger(__name__)

MOST_FAILURES = 3  # in a row, after which the board is not asked again


class BoardEngine(ComparedEngine):
    """FpgaEngine that also asks a board at a serial port, and compares.

    Fingerprints are always the kernels', which make the sketch in the same pass: a board that is
    wrong, silent or unplugged changes no decision. It is counted, and after MOST_FAILURES calls in
    a row without an answer the board is not asked again.

    A call waits for the board, some 10 µs a byte at 1 Mbit/s. One process at a time has the port.
    """

    def __init__(
        self,
        spec: FingerprintSpec = FINGERPRINT,
        sketch_spec: FingerprintSpec = SKETCH,
        port: str | None = None,
    ) -> None:
        """Raises EngineUnavailable where no board answers at the port."""
        super().__init__(spec, sketch_spec)
        if port is None:
            raise EngineUnavailable("engine 'board': set NEARDUP_BOARD to the board's serial port")
        self._serial = SerialBoard(port, design_for(spec))
        self._asking = Lock()
        self._failures = 0  # in a row
        self.n_unanswered = 0

    def report(self) -> dict[str, float | int | str]:
        """Also for how many texts the board gave no answer."""
        return super().report() | {"unanswered": self.n_unanswered}

    def _check(self, texts: Sequence[bytes], fingerprints: list[int]) -> None:
        most = (1 << self._serial.counter_bits) - 2
        fitting = [i for i, text in enumerate(texts) if len(text) <= most]
        found = self._answers([texts[i] for i in fitting])
        if found is None:
            return
        different = [i for i, value in zip(fitting, found, strict=True) if value != fingerprints[i]]
        self._count_checked(len(fitting), len(different))
        if different and self.n_mismatches == len(different):
            i = different[0]
            logger.error(
                "neardup: the board gives another fingerprint than the kernels, of a text of %d "
                "bytes, %r...; the kernels' counts, and others are only counted, under "
                "neardup/fpga/mismatches",
                len(texts[i]),
                texts[i][:60],
            )

    def _answers(self, texts: list[bytes]) -> list[int] | None:
        """The board's fingerprints, or None: it failed now, or too often before."""
        with self._asking:
            if self._failures < MOST_FAILURES:
                try:
                    found = self._serial.fingerprints(texts)
                except BoardFailed as error:
                    self._failed(error)
                else:
                    self._failures = 0
                    return found
            self.n_unanswered += len(texts)
            return None

    def _failed(self, error: BoardFailed) -> None:
        self._failures += 1
        is_last = self._failures == MOST_FAILURES
        logger.warning(
            "neardup: %s; the kernels' fingerprint counts%s",
            error,
            ", and the board is not asked again" if is_last else "",
        )
