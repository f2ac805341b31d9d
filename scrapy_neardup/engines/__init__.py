"""Engines: normalised words → fingerprint and sketch; found by name, dotted path or class."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from hashlib import blake2b
from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol

from scrapy_neardup.errors import SpecError
from scrapy_neardup.kernels import choose
from scrapy_neardup.named_classes import load_class

if TYPE_CHECKING:
    from scrapy_neardup.kernels.numpy_twin import U64Array
    from scrapy_neardup.kernels.numpy_twin.fingerprint import Arguments

Hash = Literal["sdbm", "siphash"]
Weighting = Literal["count", "set"]
Tie = Literal["gt", "ge"]

MAX_BITS = 1024
MAX_SHINGLE = 16
MAX_KEY = 2**64 - 1
SIPHASH = 2  # as kernels know it; 0 and 1 are sdbm without and with the mix


@dataclass(frozen=True, slots=True)
class FingerprintSpec:
    """How a fingerprint is computed; fingerprints of different specs are never compared.

    bits       width: a multiple of 64, 64 to 1,024
    shingle    words in a feature, 1 to 16; a shorter text is one feature
    hash       of a word: "sdbm", the paper's, which has no key itself; "siphash": SipHash-1-3
               under a key, so that nobody without it can make words or shingles collide
    mix        fmix64 (MurmurHash3) after sdbm; False is the paper's plain sdbm
    weighting  "count": a feature votes as often as it occurs; "set": once
    tie        "gt": bit i is 1 where V[i] > 0 (the paper's text); "ge": where V[i] >= 0
               (its Figure 3). A text without words has fingerprint 0 under both.
    key        secret that keys the mix, or SipHash; 0 for none; needs mix

    Source: Luo, Najjar, Hristidis, Efficient Near-Duplicate Document Detection using
    FPGAs, section II.B. SipHash, the mix, the key, shingles, sets and widths above 64 are ours.
    Raises SpecError.
    """

    bits: int = 64
    shingle: int = 1
    mix: bool = True
    weighting: Weighting = "count"
    tie: Tie = "gt"
    key: int = 0
    hash: Hash = "sdbm"

    def __post_init__(self) -> None:
        if self.hash not in ("sdbm", "siphash"):
            raise SpecError(f"hash={self.hash!r}: take 'sdbm' or 'siphash'")
        if self.hash == "siphash" and not self.mix:
            raise SpecError("mix=False is the paper's plain sdbm; set mix=True for hash='siphash'")
        if self.bits % 64 or not 64 <= self.bits <= MAX_BITS:
            raise SpecError(f"bits={self.bits}: take a multiple of 64 from 64 to {MAX_BITS}")
        if not 1 <= self.shingle <= MAX_SHINGLE:
            raise SpecError(f"shingle={self.shingle}: take 1 to {MAX_SHINGLE} words")
        if self.weighting not in ("count", "set"):
            raise SpecError(f"weighting={self.weighting!r}: take 'count' or 'set'")
        if self.tie not in ("gt", "ge"):
            raise SpecError(f"tie={self.tie!r}: take 'gt' or 'ge'")
        if not 0 <= self.key <= MAX_KEY:
            raise SpecError("key: take a whole number of 64 bits, 0 for none")
        if not self.mix and (self.key or self.shingle > 1 or self.bits > 64):
            raise SpecError(
                "mix=False is the paper's plain sdbm: 64 bits, single words, no key; "
                "set mix=True for anything else"
            )

    @property
    def n_words(self) -> int:
        """Number of uint64 words of a fingerprint."""
        return self.bits // 64

    @property
    def arguments(self) -> Arguments:
        """The fields as kernels take them; their twin in NumPy says how."""
        distinct, tie_ge = self.weighting == "set", self.tie == "ge"
        if self.hash == "siphash":
            return self.n_words, self.shingle, SIPHASH, distinct, tie_ge, siphash_key(self.key)
        return self.n_words, self.shingle, int(self.mix), distinct, tie_ge, self.key

    def describe(self) -> dict[str, int | bool | str]:
        """The fields as plain values; the key as its id, never itself."""
        fields = asdict(self)
        fields["key"] = key_id(self.key)
        return fields


PAPER = FingerprintSpec(mix=False)
FINGERPRINT = FingerprintSpec()
SKETCH = FingerprintSpec(bits=256, shingle=3, weighting="set", hash="siphash")


@lru_cache(maxsize=16)
def siphash_key(key: int) -> int:
    """SipHash's key of 128 bits, made of a secret of 64."""
    made = blake2b(key.to_bytes(8, "little"), digest_size=16, person=b"neardup-siphash")
    return int.from_bytes(made.digest(), "little")


def key_id(key: int) -> str:
    """A name of a key that does not reveal the key; "none" for 0."""
    if not key:
        return "none"
    return blake2b(key.to_bytes(8, "little"), digest_size=6, person=b"neardup-key-id").hexdigest()


class Signatures(NamedTuple):
    """The results of one pass over a page's words."""

    fingerprint: int
    sketch: U64Array  # shape (sketch.n_words,), least significant word first
    n_words: int


class Engine(Protocol):
    """Words as bytes (text.py) in, fingerprints out. All engines of one spec agree bit for bit."""

    spec: FingerprintSpec
    sketch_spec: FingerprintSpec

    def fingerprint(self, words: bytes) -> int:
        """The fingerprint of one text, 0 <= fp < 2**bits."""

    def fingerprint_many(self, texts: Sequence[bytes]) -> U64Array:
        """Fingerprints, shape (len(texts), n_words), least significant word first."""

    def signatures(self, words: bytes) -> Signatures:
        """Fingerprint, sketch and number of words in one pass."""


NAMES = {
    "reference": "scrapy_neardup.engines.reference.ReferenceEngine",
    "numpy": "scrapy_neardup.engines.arrays.ArraysEngine",
    "native": "scrapy_neardup.engines.native.NativeEngine",
    "fpga": "scrapy_neardup.engines.fpga.engine.FpgaEngine",
    "rtl": "scrapy_neardup.engines.fpga.rtl_engine.RtlEngine",
    "board": "scrapy_neardup.engines.fpga.board_engine.BoardEngine",
}


def load_engine(
    name: str | type[Engine],
    spec: FingerprintSpec = FINGERPRINT,
    sketch_spec: FingerprintSpec = SKETCH,
    board: str | None = None,
) -> Engine:
    """The engine of a short name, a dotted path or a class, made for the two specs.

    "auto" is the fastest that is there; "board" asks the one at the serial port `board`.
    Raises SpecError for a name that is neither, EngineUnavailable for one that cannot run here.
    """
    if not isinstance(name, str):
        return name(spec, sketch_spec)  # type: ignore[call-arg]
    short = fastest() if name == "auto" else name
    found = load_class("engine", short, NAMES | {"auto": ""})
    options = {"port": board} if name == "board" else {}
    engine: Engine = found(spec, sketch_spec, **options)
    return engine


def fastest() -> str:
    """The name of the fastest engine that can run here."""
    return choose()
