"""The parameters of core and engine, the layout of documents, and the fixed delays.

Every choice that the paper leaves open is made here; docs/fpga.md has them as a table.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from scrapy_neardup.engines import FingerprintSpec, Tie
from scrapy_neardup.errors import SpecError

SPACE = 0x20
NUL = 0
WORD_BYTES = 8  # a memory channel is 64 bits wide
FLOOR = 7  # characters; with its NUL no document is shorter than "at least eight characters"

Mixer = Literal["none", "light", "fmix64"]
Output = Literal["latched", "slots"]
Counters = Literal["own", "shared"]

# Registers between a word's hash and the counters.
MIXER_STAGES: dict[Mixer, int] = {"none": 0, "light": 3, "fmix64": 10}


@dataclass(frozen=True, slots=True)
class Design:
    """One fingerprint engine (FE): how its cores are built and how it hands over results.

    mixer            what happens to a word's sdbm before it is counted, see MIXER_STAGES
    tie              as in FingerprintSpec; "gt" is Figure 8's sign bit
    key              xored to the hash before the mixer; 0 for mixer "none"
    counters         "own": each of the 64 has an adder, Figure 7; "shared": eight adders in turn,
                     for one byte a cycle and five bits or more; the same values, 9 to 17 cycles
                     later
    selectable       the mixer is chosen by a register: all three are built, and each takes the
                     registers of the longest
    counter_bits     width of the 64 signed counters; they wrap like two's complement
    n_cores          cores (lanes) behind one 64-bit channel, 8 / bytes_per_cycle at most
    bytes_per_cycle  characters that a core takes in a cycle, 1 (the paper) or 2
    output           "latched": results wait, the lowest lane goes first, Figure 6;
                     "slots": a lane hands over only in its own cycle of the rotation

    Source: sections III.A and III.B of the paper. Mixer, key, two bytes and slots are ours.
    """

    mixer: Mixer = "none"
    tie: Tie = "gt"
    key: int = 0
    counter_bits: int = 24
    n_cores: int = 8
    bytes_per_cycle: int = 1
    output: Output = "latched"
    selectable: bool = False
    counters: Counters = "own"

    def __post_init__(self) -> None:
        if self.bytes_per_cycle not in (1, 2):
            raise SpecError(f"bytes_per_cycle={self.bytes_per_cycle}: take 1 or 2")
        if not 1 <= self.n_cores <= self.rotation:
            raise SpecError(
                f"n_cores={self.n_cores}: {self.rotation} cores of {self.bytes_per_cycle} bytes a "
                f"cycle use up a channel; take 1 to {self.rotation}"
            )
        if not 2 <= self.counter_bits <= 64:
            raise SpecError(f"counter_bits={self.counter_bits}: take 2 to 64")
        if self.counters == "shared" and (self.bytes_per_cycle != 1 or self.counter_bits < 5):
            raise SpecError(
                "counters='shared' adds up at most four votes in eight cycles: take "
                f"bytes_per_cycle=1, not {self.bytes_per_cycle}, and counter_bits=5 to 64, "
                f"not {self.counter_bits}"
            )
        if self.mixer == "none" and self.key:
            raise SpecError("mixer='none' is the paper's plain sdbm, which takes no key")

    @property
    def rotation(self) -> int:
        """Cycles between two turns of a lane at the channel."""
        return WORD_BYTES // self.bytes_per_cycle

    @property
    def shares_mixer(self) -> bool:
        """Whether lanes 2i and 2i + 1 take turns at one mixer.

        A word of one byte and its space take a one-byte core two cycles, so half of a
        mixer is enough for it.
        """
        return self.mixer_stages > 0 and self.bytes_per_cycle == 1

    @property
    def mixer_stages(self) -> int:
        """Registers between a word's hash and the counters."""
        return MIXER_STAGES["fmix64" if self.selectable else self.mixer]

    @property
    def max_words(self) -> int:
        """The most words in a document whose counters cannot wrap."""
        return (1 << self.counter_bits - 1) - 1

    def exact_for(self, length: int) -> bool:
        """Whether no text of so many bytes can make a counter wrap."""
        return (length + 1) // 2 <= self.max_words

    def nul_after(self, length: int) -> int:
        """Cycles from a document's first fetch to the cycle that consumes its NUL."""
        word, byte = divmod(padded_length(length), WORD_BYTES)
        return word * self.rotation + 1 + byte // self.bytes_per_cycle

    def ready(self, nul_cycle: int, lane: int) -> int:
        """The first cycle in which the fingerprint can leave, unless has_slots.

        Four cycles after NUL: registers for the word's hash, the counters, the sign and
        the output. A mixer adds its stages, and a cycle more where the other lane of the two
        that share it goes first.
        """
        hashed = nul_cycle + 1
        if self.shares_mixer and (hashed - lane) % 2 == 0:
            hashed += 1
        return hashed + self.mixer_stages + 3

    @property
    def has_slots(self) -> bool:
        """Whether a result leaves so many cycles after the fetch of its document's last word.

        With shared counters it does even with a "latched" output: lanes are done in turn.
        """
        return self.output == "slots" or self.counters == "shared"

    @property
    def slot_delay(self) -> int:
        """Cycles from the fetch of a document's last word to its result, if has_slots.

        Shared counters are read in the eight cycles after the word's last vote, and then signed.
        """
        shared = 9 if self.counters == "shared" else 0
        return self.rotation + self.mixer_stages + 4 + shared


def design_for(spec: FingerprintSpec) -> Design:
    """The design that computes a spec's fingerprints. Raises SpecError if there is none."""
    if (spec.bits, spec.shingle, spec.weighting, spec.hash) != (64, 1, "count", "sdbm"):
        raise SpecError(
            f"the FPGA core counts single words into 64 bits; it cannot compute bits={spec.bits}, "
            f"shingle={spec.shingle}, weighting={spec.weighting!r}, hash={spec.hash!r}: choose "
            "another engine, or bits=64, shingle=1, weighting='count', hash='sdbm'"
        )
    return Design(mixer="fmix64" if spec.mix else "none", tie=spec.tie, key=spec.key)


def padded_length(length: int) -> int:
    """Characters before the NUL, at least seven, so that a lane's results are a rotation apart."""
    return max(length, FLOOR)


def channel_words(length: int) -> int:
    """64-bit words of a document of this many bytes, with its NUL and padding."""
    return padded_length(length) // WORD_BYTES + 1


def pack(text: bytes, floor: int = FLOOR) -> list[int]:
    """A document as the channel delivers it: little-endian 64-bit words.

    The text, spaces up to `floor` characters, NUL, zeros to a whole word. text: no NUL
    inside; only 0x20 separates words, so its trailing spaces never change a fingerprint.
    Raises SpecError for a NUL.
    """
    check_text(text)
    padded = text.ljust(floor, b" ") + b"\0"
    padded += bytes(-len(padded) % WORD_BYTES)
    return [
        int.from_bytes(padded[i : i + WORD_BYTES], "little")
        for i in range(0, len(padded), WORD_BYTES)
    ]


def check_text(text: bytes) -> None:
    """Raises SpecError for a text that would end before its last byte."""
    if NUL in text:
        raise SpecError("NUL ends a document on the channel: replace it in the text by a space")
