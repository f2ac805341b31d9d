"""Visible text → normalised words, in Python: NumPy has nothing to add."""

from __future__ import annotations

import re
import unicodedata

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
_UNSPACED_CLASS = "".join(f"{chr(low)}-{chr(high)}" for low, high in UNSPACED)
UNSPACED_RUN = re.compile(f"[{_UNSPACED_CLASS}]+")
# Letters, marks and decimal digits.
WORD_CATEGORIES = frozenset({"Ll", "Lm", "Lo", "Lt", "Lu", "Mc", "Me", "Mn", "Nd"})
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
    return b" ".join(_lines(text.split("\n")))


def blocks(text: str, max_lines: int) -> tuple[bytes, U64Array, I64Array]:
    """normalise(text); of each line with words the hash of its words, and how many; shape (n,).

    Lines end at line feeds; what follows max_lines of them is one more line. The hash is the
    first half of MurmurHash3_x64_128, seed 0. O(len(text)).
    """
    *lines, rest = text.split("\n", max_lines)
    found = [*_lines(lines), *filter(None, [normalise(rest)])]
    hashes = [mmh3.hash64(line, signed=False)[0] for line in found]
    n_words = [line.count(b" ") + 1 for line in found]
    return b" ".join(found), np.array(hashes, np.uint64), np.array(n_words, np.int64)


def _lines(lines: list[str]) -> list[bytes]:
    """The words of each line that has any."""
    # A line break ends a word and composes with nothing, so lines may be taken one by one; most
    # are ASCII even in pages that are not, and those take a fifth of the time.
    words = (_ascii_words(ln) if ln.isascii() else _unicode_words(ln) for ln in lines)
    return [line for line in words if line]


def _ascii_words(line: str) -> bytes:
    return b" ".join(line.encode().translate(_ASCII_TABLE).split())


def _unicode_words(line: str) -> bytes:
    folded = unicodedata.normalize("NFKC", line).casefold().translate(_SEPARATORS)
    return " ".join(UNSPACED_RUN.sub(_bigrams, folded).split()).encode()


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
