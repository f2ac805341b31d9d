"""Visible text → normalised words, in Python: NumPy has nothing to add."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from functools import cache
from itertools import chain
from typing import Literal

import mmh3
import numpy as np

from scrapy_neardup.kernels.numpy_twin import I64Array, U64Array

# Scripts written without spaces between words. Their runs become character bigrams: a run
# taken whole would change with every edit anywhere in the sentence.
UNSPACED = (
    (0x0E00, 0x0EFF),  # Thai, Lao
    (0x1000, 0x109F),  # Myanmar
    (0x1780, 0x17FF),  # Khmer
    (0x1A20, 0x1AAF),  # Tai Tham
    (0x2E80, 0x2FDF),  # CJK and Kangxi radicals
    (0x3005, 0x312F),  # iteration marks, Hiragana, Katakana, Bopomofo
    (0x31A0, 0x31FF),  # extended Bopomofo and Katakana
    (0x3400, 0x4DBF),  # Han, extension A
    (0x4E00, 0x9FFF),  # Han
    (0xA9E0, 0xA9FF),  # Myanmar, extension B
    (0xAA60, 0xAA7F),  # Myanmar, extension A
    (0xF900, 0xFAFF),  # Han, compatibility
    (0x1AFF0, 0x1B16F),  # Kana, supplements and extensions
    (0x20000, 0x3FFFF),  # Han, extensions B and later
)
# Whatever a run of MAX_NON_STARTERS is of, it has so many characters, and none below U+0300.
MAY_BE_LONG = re.compile(r"[^\0-\u02ff]{14}")
_UNSPACED_CLASS = "".join(f"{chr(low)}-{chr(high)}" for low, high in UNSPACED)
UNSPACED_RUN = re.compile(f"[{_UNSPACED_CLASS}]+")
# Letters, marks and decimal digits.
WORD_CATEGORIES = frozenset({"Ll", "Lm", "Lo", "Lt", "Lu", "Mc", "Me", "Mn", "Nd"})
# Combining marks, decomposed, that may follow each other in Unicode's stream-safe text format
# (UAX #15, section 13). unicodedata.normalize sorts them in quadratic time, with the GIL held.
MAX_NON_STARTERS = 30
JOINER = "\u034f"  # COMBINING GRAPHEME JOINER, which ends a run of them
PIECE = 1 << 13  # characters normalised at once: the GIL is held for 30 ms at worst (U+FDFA)
DECOMPOSING = 0x30000  # no character from here on has a canonical decomposition
# Their compositions are a formula (Unicode, section 3.12), not in unicodedata.
HANGUL_VOWELS_AND_TAILS = frozenset(map(chr, [*range(0x1161, 0x1176), *range(0x11A8, 0x11C3)]))
# bytes.translate takes tables of 256; the upper half is never asked for.
_ASCII_TABLE = bytes(
    ord(chr(c).lower()) if c < 128 and chr(c).isalnum() else 32 for c in range(256)
)


class _Separators(dict[int, int]):
    """Code point → itself in a word, a space elsewhere; each looked up once and kept."""

    def __missing__(self, code: int) -> int:
        self[code] = kept = code if is_word_char(chr(code)) else ord(" ")
        return kept


_SEPARATORS = _Separators()


def normalise(text: str) -> bytes:
    """The words of a text, in order, joined by single spaces, as UTF-8: see text.py.

    O(len(text)).
    """
    return b" ".join(filter(None, map(_words, text.split("\n"))))


def blocks(text: str, max_lines: int) -> tuple[bytes, U64Array, I64Array, I64Array, I64Array]:
    """normalise(text); hash, number of words, line and end of each line with words; shape (n,).

    Lines end at line feeds and are counted from 0; what follows max_lines of them is one more
    line. The hash is the first half of MurmurHash3_x64_128, seed 0. An end is where a line's
    words end in those of the text. O(len(text)).
    """
    *lines, rest = text.split("\n", max_lines)
    words = [*map(_words, lines), normalise(rest)]
    at = [i for i, line in enumerate(words) if line]
    found = [words[i] for i in at]
    hashes = [mmh3.hash64(line, signed=False)[0] for line in found]
    n_words = [line.count(b" ") + 1 for line in found]
    ends = np.cumsum([len(line) + 1 for line in found], dtype=np.int64) - 1
    counts, numbers = np.array(n_words, np.int64), np.array(at, np.int64)
    return b" ".join(found), np.array(hashes, np.uint64), counts, numbers, ends


def _words(line: str) -> bytes:
    """The words of a line."""
    # A line break ends a word and composes with nothing, so lines may be taken one by one; most
    # are ASCII even in pages that are not, and those take a fifth of the time.
    return _ascii_words(line) if line.isascii() else _unicode_words(line)


def _ascii_words(line: str) -> bytes:
    return b" ".join(line.encode().translate(_ASCII_TABLE).split())


def _unicode_words(line: str) -> bytes:
    pieces = normal_pieces(line)
    folded = "".join(piece.casefold().translate(_SEPARATORS) for piece in pieces)
    return " ".join(UNSPACED_RUN.sub(_bigrams, folded).split()).encode()


def normal_pieces(text: str, form: Literal["NFC", "NFKC"] = "NFKC") -> Iterator[str]:
    """The normal form of the text in stream-safe format, piece by piece; see stream_safe().

    PIECE characters are normalised at once, and those after them that may combine with
    them. O(len(text)).
    """
    for piece in _cut(text):
        for part in _cut(stream_safe(piece)):
            yield unicodedata.normalize(form, part)


def _cut(text: str) -> Iterator[str]:
    """The text in pieces whose normal forms, joined, are that of the whole."""
    start = 0
    while start < len(text):
        end, boundary = start + PIECE, None
        while boundary is None and end < len(text):  # step by step: a search holds the GIL
            boundary = _boundary().search(text, end, end + PIECE)
            end = boundary.start() if boundary else end + PIECE
        yield text[start:end]
        start = end


def stream_safe(text: str) -> str:
    """The text, with JOINER where more than MAX_NON_STARTERS would follow each other.

    Source: UAX #15, definition UAX15-D4 (Stream-Safe Text Process). O(len(text)).
    """
    if not MAY_BE_LONG.search(text):  # in most texts, where the table is not even made
        return text
    return _long_run().sub(_with_joiners, text)


def _with_joiners(match: re.Match[str]) -> str:
    marks_of, start = _marks_at_the_ends(), match.start()
    _, n = marks_of.get(match.string[start - 1 : start], (0, 0))
    pieces = []
    for at in range(start, match.end(), PIECE):  # to join millions of characters holds the GIL
        safe = []
        for char in match.string[at : min(at + PIECE, match.end())]:
            initial, final = marks_of.get(char, (0, 0))
            if n + initial > MAX_NON_STARTERS:
                safe.append(JOINER)
                n = 0
            safe.append(char)
            n = n + final if initial else final
        pieces.append("".join(safe))
    return "".join(pieces)


@cache
def _long_run() -> re.Pattern[str]:
    """Runs that may exceed MAX_NON_STARTERS: a character decomposes to two of them at most,
    and the one before the run ends with three at most."""
    # Above U+FFFF re tries one range after the other, so all is taken, as one; and by a set at
    # the front it skips what cannot match.
    marks = (c for c, (initial, _) in _marks_at_the_ends().items() if initial)
    low = "".join(c for c in marks if c < "\U00010000")
    one, others = f"[{low}\U00010000-\U0010ffff]", (MAX_NON_STARTERS - 3) // 2
    return re.compile(f"{one}{one}{{{others},}}")


@cache
def _boundary() -> re.Pattern[str]:
    """A character that combines with nothing before it."""
    return re.compile(f"[^{continuing()}]")


@cache
def continuing() -> str:
    """Characters that may combine, or change places, with what is before them."""
    seconds, marks_of = composing(), _marks_at_the_ends()
    moving = (c for c in _moving() if marks_of.get(c, (0,))[0] or _decomposed(c)[0] in seconds)
    return "".join(HANGUL_VOWELS_AND_TAILS.union(moving))


@cache
def _marks_at_the_ends() -> dict[str, tuple[int, int]]:
    """With how many combining marks a character begins and ends, decomposed; if with any."""
    found, marks = {}, _marks()
    for char in _moving():
        whole = _decomposed(char)
        without = len(whole.lstrip(marks)), len(whole.rstrip(marks))
        if min(without) < len(whole):
            found[char] = len(whole) - without[0], len(whole) - without[1]
    return found


@cache
def composing() -> frozenset[str]:
    """Characters that can be the second of a canonical composition."""
    composed = (page for page in _pages() if not unicodedata.is_normalized("NFD", page))
    decompositions = map(unicodedata.decomposition, chain.from_iterable(composed))
    parts = [d.split() for d in decompositions if d and d[0] != "<"]
    seconds = {chr(int(p[1], 16)) for p in parts if len(p) == 2}
    return frozenset(seconds | HANGUL_VOWELS_AND_TAILS)


@cache
def _moving() -> str:
    """All characters that decompose or have a combining class, with their neighbours."""
    still, order = unicodedata.is_normalized, unicodedata.combining
    return "".join(p for p in _pages() if not still("NFKD", p) or any(map(order, p)))


def _pages() -> Iterator[str]:
    """Every character below DECOMPOSING, 256 at once."""
    ranges = np.arange(0xD800, dtype="<u4"), np.arange(0xE000, DECOMPOSING, dtype="<u4")
    every = "".join(codes.tobytes().decode("utf-32-le") for codes in ranges)
    return (every[i : i + 256] for i in range(0, len(every), 256))


@cache
def _marks() -> str:
    return "".join(filter(unicodedata.combining, _moving()))


def _decomposed(char: str) -> str:
    return unicodedata.normalize("NFKD", char)


def is_word_char(char: str) -> bool:
    """Whether a character belongs to a word: a letter (L*), a mark (M*) or a decimal digit (Nd)."""
    return unicodedata.category(char) in WORD_CATEGORIES


def is_unspaced(char: str) -> bool:
    """Whether a character is of a script that puts no spaces between words."""
    return UNSPACED_RUN.match(char) is not None


def _bigrams(match: re.Match[str]) -> str:
    run = match[0]
    pairs = [run[i : i + 2] for i in range(len(run) - 1)] or [run]
    return f" {' '.join(pairs)} "
