"""Visible text → normalised words, which every engine hashes, and what exact copies share."""

from __future__ import annotations

import unicodedata
from itertools import groupby, pairwise
from typing import NamedTuple

import scrapy_neardup.kernels as kernels
from scrapy_neardup.errors import OverBudget
from scrapy_neardup.kernels.numpy_twin import I64Array, U64Array
from scrapy_neardup.kernels.numpy_twin.words import is_unspaced, is_word_char

# Words that take more bytes than so many times those of the text, and so many more, are too many.
MAX_GROWTH, GROWTH_BYTES = 4, 1 << 16  # bigrams take 7 bytes for 3
MAX_LINES = 10_000  # of a page: what follows is no template, and must not hold up the crawl


class Blocks(NamedTuple):
    """The lines of a page that have words, in order; shape (n,) each."""

    hashes: U64Array
    n_words: I64Array
    lines: I64Array  # of the text, from 0
    ends: I64Array  # where their words end in those of the page


def normalise(text: str) -> bytes:
    """The words of a text, in order, joined by single spaces, as UTF-8 without NUL.

    Stream-safe text format (UAX #15: at most 30 combining marks follow each other, then
    U+034F comes between, which belongs to the word), NFKC, case folding; a word is a
    longest run of letters, marks and decimal digits.
    Runs of scripts that put no spaces between words (UNSPACED in kernels/numpy_twin/words.py)
    become overlapping character bigrams, a single character staying as it is. Everything else
    separates: punctuation, symbols, emoji, control and format characters, lone surrogates.
    Empty for a text without words. The Unicode version is that of the running Python's
    unicodedata. O(len(text)).

    Raises OverBudget where the words take more than MAX_GROWTH times the bytes of the text, and
    GROWTH_BYTES: one character can stand for 18 (U+FDFA), and that should not multiply the cost.
    """
    words: bytes = kernels.words.normalise(text)
    return _within_budget(words, text)


def _within_budget(words: bytes, text: str) -> bytes:
    if len(words) > GROWTH_BYTES + MAX_GROWTH * len(text):
        n_bytes = len(text.encode("utf-8", "replace"))
        if len(words) > GROWTH_BYTES + MAX_GROWTH * n_bytes:
            raise OverBudget(f"{len(words)} bytes of words in {n_bytes} of text")
    return words


def words_and_blocks(text: str) -> tuple[bytes, Blocks]:
    """normalise(text), and its lines with words; those past MAX_LINES are one. One pass."""
    words, hashes, n_words, lines, ends = kernels.words.blocks(text, MAX_LINES)
    return _within_budget(words, text), Blocks(hashes, n_words, lines, ends)


def without_numbers(words: bytes) -> list[str]:
    """The words that are letters only, of those that normalise() gave: what pages say that differ
    in dates and counts."""
    return [word for word in words.decode("utf-8", "replace").split() if word.isalpha()]


def exact_text(text: str) -> bytes:
    """What two texts share if one is an exact copy of the other, as UTF-8.

    Case, punctuation and symbols count. Left out are characters that nobody sees (INVISIBLE in
    kernels/numpy_twin/facts.py); whitespace becomes single spaces, and each character its
    canonical form: stream-safe NFC, so that composed and decomposed accents are the same but ² is
    not 2. O(len(text)).
    """
    exact: bytes = kernels.facts.read(text, MAX_LINES)[0]
    return exact


def normalise_plainly(text: str) -> bytes:
    """The same, word for word as it is defined: slow, the oracle of all kernels."""
    folded = unicodedata.normalize("NFKC", stream_safe_plainly(text)).casefold()
    words: list[str] = []
    for is_word, chars in groupby(folded, is_word_char):
        if is_word:
            for unspaced, part in groupby(chars, is_unspaced):
                run = "".join(part)
                words += _bigrams(run) if unspaced else [run]
    return " ".join(words).encode("utf-8")


def stream_safe_plainly(text: str) -> str:
    """The text with U+034F where more than 30 non-starters would follow each other: UAX15-D4."""
    safe, n = "", 0
    for char in text:
        parts = [unicodedata.combining(c) > 0 for c in unicodedata.normalize("NFKD", char)]
        initial = parts.index(False) if False in parts else len(parts)
        final = parts[::-1].index(False) if False in parts else len(parts)
        if n + initial > 30:
            safe, n = safe + "\u034f", 0
        safe += char
        n = final if False in parts else n + final
    return safe


def _bigrams(run: str) -> list[str]:
    return [a + b for a, b in pairwise(run)] or [run]
