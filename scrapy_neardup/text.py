"""Visible text → normalised words as bytes: THE definition of what every engine hashes."""

import re
import unicodedata

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
_RUNS = re.compile(f"[{_UNSPACED_CLASS}]+|[^{_UNSPACED_CLASS}]+")


def is_word_char(char: str) -> bool:
    """Whether a character belongs to a word: a letter (L*), a mark (M*) or a decimal digit (Nd)."""
    category = unicodedata.category(char)
    return category[0] in "LM" or category == "Nd"


def normalise(text: str) -> bytes:
    """The words of a text, in order, joined by single spaces, as UTF-8 without NUL.

    NFKC, then case folding; a word is a longest run of letters, marks and decimal digits.
    Runs of scripts that put no spaces between words (UNSPACED) become overlapping character
    bigrams, a single character staying as it is. Everything else separates: punctuation,
    symbols, emoji, control and format characters, lone surrogates. Empty for a text without
    words. The Unicode version is that of the running Python's unicodedata. O(len(text)).
    """
    folded = unicodedata.normalize("NFKC", text).casefold()
    spaced = "".join(c if is_word_char(c) else " " for c in folded)
    words: list[str] = []
    for run in spaced.split():
        for part in _RUNS.findall(run):
            words.extend(_bigrams(part) if _is_unspaced(part[0]) else (part,))
    return " ".join(words).encode("utf-8")


def _is_unspaced(char: str) -> bool:
    return any(low <= ord(char) <= high for low, high in UNSPACED)


def _bigrams(run: str) -> list[str]:
    return [run[i : i + 2] for i in range(len(run) - 1)] or [run]
