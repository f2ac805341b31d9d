"""Prose from a grammar and a seed: the same words for the same seed, everywhere."""

import re
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from random import Random

Grammar = Mapping[str, Sequence[str]]

FOLDER = Path(__file__).with_name("grammar")
SLOT = re.compile(r"\{(\w+|\d+-\d+)\}")
ARTICLE = re.compile(r"\b([Aa]) (?=[aeiou])")
WORD_LIST_FOCUS = 5  # a text on one subject uses few of the words a language has
EDITABLE = re.compile(r"\b(?:Mon|Tues|Wednes|Thurs|Fri|Satur)day\b|\d+")


@cache
def load_grammar(*names: str) -> Grammar:
    """Symbols and their alternatives, read from grammar/NAME.txt; later files win.

    A line `symbol:` begins a symbol; indented lines below it hold alternatives, separated
    by ` | `. In an alternative, {symbol} is replaced by one of its own and {2-9} by a number.
    """
    grammar: dict[str, list[str]] = {}
    for name in names:
        text = (FOLDER / f"{name}.txt").read_text(encoding="utf-8")
        for symbol, lines in re.findall(r"^(\w+):\n((?: .*\n)+)", text, re.MULTILINE):
            grammar[symbol] = [part.strip() for part in re.split(r" \| |\n", lines.rstrip())]
    return grammar


class Writer:
    """Writes texts on one subject: of every list of words it uses only a few."""

    def __init__(self, names: Sequence[str], seed: str) -> None:
        self.rng = Random(seed)
        grammar = load_grammar(*names)
        self._grammar = {
            symbol: self.rng.sample(words, len(words) if symbol == "sentence" else focus(words))
            for symbol, words in grammar.items()
        }

    def write(self, symbol: str) -> str:
        """One alternative of a symbol, its slots filled, beginning with a capital letter."""
        return sentence_case(self._fill(self.rng.choice(self._grammar[symbol])))

    def word(self, symbol: str) -> str:
        """One alternative of a symbol as it would stand within a sentence."""
        return self._fill(self.rng.choice(self._grammar[symbol]))

    def paragraphs(self, n_paragraphs: int, n_sentences: int, space: str = " ") -> list[str]:
        """Paragraphs of so many sentences; a pattern comes again only after all the others."""
        patterns: list[str] = []
        paragraphs = []
        for _ in range(n_paragraphs):
            if len(patterns) < n_sentences:
                patterns = self.rng.sample(self._grammar["sentence"], self._n_patterns)
            filled = [self._fill(patterns.pop()) for _ in range(n_sentences)]
            paragraphs.append(space.join(map(sentence_case, filled)))
        return paragraphs

    @property
    def _n_patterns(self) -> int:
        return len(self._grammar["sentence"])

    def _fill(self, pattern: str) -> str:
        return SLOT.sub(lambda slot: self._slot(slot[1]), pattern)

    def _slot(self, name: str) -> str:
        low, dash, high = name.partition("-")
        return str(self.rng.randint(int(low), int(high))) if dash else self.word(name)


def sentence_case(text: str) -> str:
    """With a capital at the beginning, and "an" before vowels."""
    return ARTICLE.sub(r"\1n ", text[:1].upper() + text[1:])


def focus(words: Sequence[str]) -> int:
    return min(WORD_LIST_FOCUS, len(words))


def edited(paragraphs: Sequence[str], note: str, rng: Random) -> list[str]:
    """The same text after a small correction: up to three days or numbers and a note changed."""
    text = "\n".join(paragraphs)
    places = [match.span() for match in EDITABLE.finditer(text)]
    for start, end in sorted(rng.sample(places, min(3, len(places))), reverse=True):
        other = str(rng.randint(10, 99)) if text[start].isdigit() else "Sunday"
        text = text[:start] + other + text[end:]
    return [*text.split("\n"), note]
