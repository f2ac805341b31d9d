"""SerialBoard: the core on a board at a serial port, asked as rtl/simhash_serial.v says."""

from __future__ import annotations

import os
import select
import struct
import sys
import weakref
from collections.abc import Sequence
from typing import NamedTuple
from zlib import crc32

from scrapy_neardup.engines.fpga.design import Design
from scrapy_neardup.engines.fpga.packaging import REGISTERS
from scrapy_neardup.engines.fpga.verilog import ANY_MIXER, MIXER_CODES
from scrapy_neardup.errors import BoardFailed, EngineUnavailable

BITS_PER_S = 1_000_000
SILENCE_S = 5.0  # after which a board counts as gone
WINDOW = 32  # documents that may be unanswered: places for results in simhash_stream.v
IDENTITY = 0x4E445550
READ_BYTES = 4096
MOST_SKIPPED = 20_000  # bytes or frames that a board may still send when it is reset

# What a text's bytes become on the line; 0x00 ends it.
ESCAPED = ((b"\x01", b"\x01L"), (b"\x00", b"\x01Z"))
END = b"\x00"
# Ends whatever the board may be in the middle of: five bytes of a command, and a document.
FLUSH = END * 6

FRAME = struct.Struct("<cBBQI")  # kind, id or address, flags, value, CRC-32 of the text
CHECK = struct.Struct("<I")
FRAME_BYTES = FRAME.size + CHECK.size
DOCUMENT, WRITTEN, READ = b"D", b"W", b"R"


class Garbled(BoardFailed):
    """A frame whose check is wrong."""


class Frame(NamedTuple):
    """What the board sends."""

    kind: bytes
    id: int  # of a document; or the address of a register
    flags: int
    value: int
    text_crc: int


class SerialBoard:
    """A board that was reset and knows the design's key and mixer.

    A failure leaves it as it is; the next call resets it first. Used by one thread at a time.
    """

    def __init__(self, port: str, design: Design) -> None:
        """Raises EngineUnavailable for a port that cannot be used, a board that does not answer
        or one whose core computes something else."""
        self.port = port
        self.counter_bits = 0
        self._design = design
        self._fd = opened(port)
        self._close = weakref.finalize(self, os.close, self._fd)
        self._received = self._last = b""
        self._next_id = 0
        self._in_step = False
        try:
            self._restart()
        except BoardFailed as error:
            self.close()
            raise EngineUnavailable(f"engine 'board': {error}") from error

    def close(self) -> None:
        """Give the port back; closing twice is no error."""
        self._close()

    def fingerprints(self, texts: Sequence[bytes]) -> list[int]:
        """The board's fingerprints. Raises BoardFailed: no answer, or one that is not of this text.

        What the board received is compared with what was sent by its CRC-32.
        """
        try:
            if not self._in_step:
                self._restart()
            found: list[int] = []
            for start in range(0, len(texts), WINDOW):
                found += self._exchange(texts[start : start + WINDOW])
        except OSError as error:
            self._in_step = False
            raise BoardFailed(f"the board at {self.port} is gone ({error})") from error
        except BoardFailed:
            self._in_step = False
            raise
        return found

    def _exchange(self, texts: Sequence[bytes]) -> list[int]:
        """Send some texts, then take their answers, which come in any order."""
        first = self._next_id
        self._send(b"".join(on_the_line(text) for text in texts))
        self._next_id = (first + len(texts)) % 256
        found = [-1] * len(texts)
        for _ in texts:
            frame = self._frame(DOCUMENT)
            i = (frame.id - first) % 256
            if i >= len(texts) or found[i] >= 0 or frame.text_crc != crc32(texts[i]):
                raise BoardFailed(f"the board at {self.port} received another text than was sent")
            if frame.flags:
                raise BoardFailed(f"the board at {self.port} flags a text with {frame.flags}")
            found[i] = frame.value
        return found

    def _restart(self) -> None:
        """Reset the board, whatever it is in the middle of; give it key and mixer."""
        self._in_step = False
        try:
            self._send(FLUSH + command(WRITTEN, "CONTROL", 1))
            self._skip_to(WRITTEN, "CONTROL")
            self._send(command(READ, "IDENTITY"))
            if self._skip_to(READ, "IDENTITY").value != IDENTITY:
                raise BoardFailed(f"what answers at {self.port} is not this core")
            self._configure()
        except OSError as error:
            raise BoardFailed(f"the board at {self.port} is gone ({error})") from error
        self._next_id = 0
        self._in_step = True

    def _configure(self) -> None:
        """Set key and mixer, if the board was built for what the design says."""
        built, design = self.read("DESIGN"), self._design
        tie, mixer = "ge" if built >> 12 & 1 else "gt", built >> 8 & 3
        if tie != design.tie or mixer not in (ANY_MIXER, MIXER_CODES[design.mixer]):
            raise BoardFailed(
                f"the board at {self.port} was built for another fingerprint: build the bitstream "
                f"with --tie {design.tie} --mixer any"
            )
        self.counter_bits = built >> 16 & 0xFF
        self.write("KEY_LOW", design.key & 0xFFFFFFFF)
        self.write("KEY_HIGH", design.key >> 32)
        if mixer == ANY_MIXER:
            self.write("MIXER", MIXER_CODES[design.mixer])

    def _skip_to(self, kind: bytes, register: str) -> Frame:
        """The answer to a command, after whatever the board was still sending."""
        for _ in range(MOST_SKIPPED):
            try:
                frame = self._any_frame()
            except Garbled:
                self._received = self._last[1:] + self._received  # it may begin a byte later
                continue
            if (frame.kind, frame.id) == (kind, REGISTERS[register][0]):
                return frame
        raise BoardFailed(f"what answers at {self.port} is not this core")

    def read(self, register: str) -> int:
        """The value of a register. Raises BoardFailed."""
        self._send(command(READ, register))
        return self._reply(READ, register).value

    def write(self, register: str, value: int) -> None:
        """Set a register. Raises BoardFailed if the board refuses."""
        self._send(command(WRITTEN, register, value))
        if self._reply(WRITTEN, register).flags:
            raise BoardFailed(f"the board at {self.port} refuses to set {register}")

    def _reply(self, kind: bytes, register: str) -> Frame:
        frame = self._frame(kind)
        if frame.id != REGISTERS[register][0]:
            raise BoardFailed(f"the board at {self.port} answered for register {frame.id:#04x}")
        return frame

    def _frame(self, kind: bytes) -> Frame:
        frame = self._any_frame()
        if frame.kind != kind:
            raise BoardFailed(f"the board at {self.port} sent {frame.kind!r} instead of {kind!r}")
        return frame

    def _any_frame(self) -> Frame:
        while len(self._received) < FRAME_BYTES:
            self._wait(reads=True)
            came = os.read(self._fd, READ_BYTES)
            if not came:
                raise BoardFailed(f"the board at {self.port} is gone")
            self._received += came
        self._last, self._received = self._received[:FRAME_BYTES], self._received[FRAME_BYTES:]
        body = self._last[: FRAME.size]
        if CHECK.unpack(self._last[FRAME.size :])[0] != crc32(body):
            raise Garbled(f"an answer of the board at {self.port} is garbled")
        return Frame._make(FRAME.unpack(body))

    def _send(self, data: bytes) -> None:
        while data:
            self._wait(reads=False)
            data = data[os.write(self._fd, data) :]

    def _wait(self, *, reads: bool) -> None:
        """Until the port can be read, or written to."""
        ports = [self._fd]
        ready = select.select(ports if reads else [], [] if reads else ports, [], SILENCE_S)
        if not any(ready):
            raise BoardFailed(f"the board at {self.port} has been silent for {SILENCE_S:g} s")


def on_the_line(text: bytes) -> bytes:
    """A document as it is sent."""
    for byte, escaped in ESCAPED:
        text = text.replace(byte, escaped)
    return text + END


def command(kind: bytes, register: str, value: int = 0) -> bytes:
    """A register to read, or to write."""
    data = CHECK.pack(value) if kind == WRITTEN else b""
    return b"\x01" + kind + bytes([REGISTERS[register][0]]) + data


def opened(port: str) -> int:
    """The descriptor of a serial port that is ours alone: eight bits, no echo, no flow control."""
    if sys.platform == "win32":
        raise EngineUnavailable("engine 'board' needs a POSIX system: Windows has no termios")
    import fcntl
    import termios
    import tty

    try:
        fd = os.open(port, os.O_RDWR | os.O_NOCTTY | os.O_NONBLOCK)
    except OSError as error:
        raise EngineUnavailable(
            f"NEARDUP_BOARD={port!r} cannot be opened ({error}): name the board's serial port, "
            "such as /dev/ttyUSB0, which you may read and write"
        ) from error
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        tty.setraw(fd, termios.TCSANOW)
        mode = termios.tcgetattr(fd)
        mode[2] |= termios.CLOCAL | termios.CREAD
        mode[4] = mode[5] = getattr(termios, f"B{BITS_PER_S}", BITS_PER_S)
        termios.tcsetattr(fd, termios.TCSANOW, mode)
    except (OSError, termios.error) as error:
        os.close(fd)
        raise EngineUnavailable(
            f"NEARDUP_BOARD={port!r} is no serial port that is free ({error}): one crawl at a time "
            "uses a board"
        ) from error
    return fd
