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
_UNSPACED = re.compile(f"[{_UNSPACED_CLASS}]")
_RUNS = re.compile(f"[{_UNSPACED_CLASS}]+|[^{_UNSPACED_CLASS}]+")


def is_word_char(char: str) -> bool:
    """Whether a character belongs to a word: a letter (L*), a mark (M*) or a decimal digit (Nd)."""
    category = unicodedata.category(char)
    return category[0] in "LM" or category == "Nd"


class _Separators(dict[int, int]):
    """Code point → itself in a word, a space elsewhere; each looked up once and kept."""

    def __missing__(self, code: int) -> int:
        self[code] = kept = code if is_word_char(chr(code)) else ord(" ")
        return kept


_SEPARATORS = _Separators()
# bytes.translate takes tables of 256; the upper half is never asked for.
_ASCII_TABLE = bytes(
    ord(chr(c).lower()) if c < 128 and chr(c).isalnum() else 32 for c in range(256)
)


def normalise(text: str) -> bytes:
    """The words of a text, in order, joined by single spaces, as UTF-8 without NUL.

    NFKC, then case folding; a word is a longest run of letters, marks and decimal digits.
    Runs of scripts that put no spaces between words (UNSPACED) become overlapping character
    bigrams, a single character staying as it is. Everything else separates: punctuation,
    symbols, emoji, control and format characters, lone surrogates. Empty for a text without
    words. The Unicode version is that of the running Python's unicodedata. O(len(text)).
    """
    # A line break ends a word and composes with nothing, so lines may be taken one by one; most
    # are ASCII even in pages that are not, and those take a fifth of the time.
    lines = (_ascii_words(ln) if ln.isascii() else _unicode_words(ln) for ln in text.split("\n"))
    return b" ".join(filter(None, lines))


def _ascii_words(line: str) -> bytes:
    return b" ".join(line.encode().translate(_ASCII_TABLE).split())


def _unicode_words(line: str) -> bytes:
    folded = unicodedata.normalize("NFKC", line).casefold()
    words = folded.translate(_SEPARATORS).split()
    if _UNSPACED.search(folded):
        words = [word for run in words for part in _RUNS.findall(run) for word in _split(part)]
    return " ".join(words).encode()


def _split(part: str) -> list[str]:
    """The words of a run that is all of unspaced scripts, or all of others."""
    if not _UNSPACED.match(part):
        return [part]
    return [part[i : i + 2] for i in range(len(part) - 1)] or [part]
