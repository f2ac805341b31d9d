"""What of a page is a fact: numbers, symbols and negations, each with the words around it.

A fact is found in a sentence: a line, cut after . ! ? ; and : where a space follows. Its *mask*
is a hash of the sentence's other words, its *value* one of its facts in order, each with the short
word behind it (UNIT). So the masks of "now 19 EUR" and "now 21 EUR" are equal, and the values are
not.

Two pages differ in a fact where their masks are the same and the values are not. What one has
more than the other is no such difference: it is left to similarity, but for pages that are
otherwise all but equal (ONE_SIDED, ONE_SIDED_NEGATION). Nor are the same facts in another order,
but for pages that differ in hardly more than the two that changed places (SWAPPED). Where pages are
the same but for a few places (FEW_PLACES), a fact that stands there in the place of another counts
whatever is around it, "1/2" in that of a check mark, and wherever its sentence ends: "5 Jan. 2027"
are two, "6 May 2027" is one.

In a brief line, a label and a value, any other word is a fact: between pages that are the same but
for a few places (FEW_PLACES), unless it is only spelt in another way there (OTHER_WORD). In a line
that is a template's it is none: many pages say "Sold out", and many menus differ in a word. But
near pages that are the same but for such words or lines (TWO_PLACES) are reworded(), and where a
word is spelt in another way, too: of an item that is the page as a whole a brief line may be all
that matters, and of a record another word in it. So are those with the same words in brief lines,
or the same facts, in another order, however much else differs: a duty roster, a list of prices.
So, too, are those that differ in a fact or negation that stands in a template's line, or in a title
or heading of one.

A page's facts are stored in FACT_WORDS words of 64 bits, and the limits named here are those of
kernels/numpy_twin/facts.py:

    words  what
    16     table of 64 cells of 16 bits: entries with mask % 64 == cell, their number modulo 16 in
           the upper 4 bits, the sum of their values modulo 4096 in the lower 12
    2      title and first headings: four 16-bit hashes each
    1      sum of hashes of the facts that are in no template, each with its place among them
    1      the same of its negations, each with the word after it
    1      how many words are in no template; in the upper half, the tag of the lines that tell of
           the visit (echoes.py), which are left out; 0 where there are none
    1      how those in brief lines are spelt
    2      how the words of all brief lines are spelt, templates included
    2      how many words there are in lines of COUNTED words at most
    1      what the page says as a whole, templates included: in the lower 4 bits how many facts and
           negations, in the next 20 a sum of their hashes, each sentence's with its place among
           them, in 16 one of title and headings, in 24 one of the brief lines, each with the one
           before it

A cell whose entries are equally many and whose sums differ holds a fact that was replaced. Where
the numbers differ, facts were added or are gone, or a template was learnt meanwhile; where one page
has more entries in some cells and the other in others, facts stand in the place of others.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

import mmh3
import numpy as np

import scrapy_neardup.kernels as kernels
from scrapy_neardup.detect.decision import WORDING
from scrapy_neardup.detect.text import MAX_LINES, Blocks
from scrapy_neardup.kernels.numpy_twin import BoolArray, F64Array, I64Array, U64Array
from scrapy_neardup.kernels.numpy_twin.facts import (
    NEGATED_AT,
    ORDER_AT,
    REPLACED,
    SPELLING_AT,
    SUM_AT,
)

SPELT_APART = re.compile(r"(?<=[^\W\d_]) (?=[^\W\d_])")  # "red hat" is "redhat"
TITLE_PARTS = re.compile(r"(?<!\s)\s++[-–—|·:]\s++|[|–—·»:()]")

_TITLE, _HEADING = 0x7469746C65, 0x6831
REASONS = ("title", "heading", "number or symbol", "negation", "word", WORDING)


class Facts(NamedTuple):
    """What a page states: sentences with facts, negations, title and first headings, in order."""

    lines: I64Array  # of the text, from 0; shape (sentences,)
    masks: U64Array
    values: U64Array
    negation_lines: I64Array
    negations: U64Array  # with the word after it; shape (negations,)
    titles: U64Array  # hashes of the title's parts
    headings: U64Array


_NO_LINES, _NO_HASHES = np.empty(0, dtype=np.int64), np.empty(0, dtype=np.uint64)
NO_FACTS = Facts(_NO_LINES, _NO_HASHES, _NO_HASHES, _NO_LINES, _NO_HASHES, _NO_HASHES, _NO_HASHES)


def exact_text_and_facts(text: str, heads: Sequence[str] = ()) -> tuple[bytes, Facts]:
    """exact_text() of a visible text, and its facts. O(len(text)), one pass.

    heads: the page's title, then its first headings; of none, nothing is compared.
    """
    exact, lines, masks, values, at, negations = kernels.facts.read(text, MAX_LINES)
    titles = TITLE_PARTS.split(heads[0]) if heads else []
    parts = _hashed(titles, _TITLE), _hashed(heads[1:], _HEADING)
    return exact, Facts(lines, masks, values, at, negations, *parts)


def _hashed(parts: Sequence[str], kind: int) -> U64Array:
    if not parts:
        return _NO_HASHES
    words = (SPELT_APART.sub("", " ".join(part.casefold().split())) for part in parts)
    hashes = [_hash_of(word) ^ kind for word in words if word]
    return np.array(hashes, dtype=np.uint64)


def _hash_of(word: str) -> int:
    return mmh3.hash64(word.encode("utf-8", "surrogatepass"), signed=False)[0]


def packed(
    words: bytes, blocks: Blocks, facts: Facts, are_own: BoolArray, tag: int = 0
) -> U64Array:
    """The facts of a page as it is stored; shape (FACT_WORDS,).

    are_own: which of the blocks, then of the parts of title and headings, are of no template. tag:
    of lines that were left out, below 2^32.
    """
    row: U64Array = kernels.facts.packed(
        words, blocks.hashes, blocks.ends, blocks.lines, blocks.n_words, are_own, *facts, tag
    )
    if facts is NO_FACTS:
        row[SPELLING_AT:] = row[NEGATED_AT] = 0  # spelling and the order of lines are facts, too
    return row


def differences(row: U64Array, rows: U64Array, n_differing: F64Array, n_own: F64Array) -> I64Array:
    """In what a page differs from others: 0 in nothing, else 1 + the place in REASONS.

    row: shape (FACT_WORDS,); rows: (n, FACT_WORDS). n_differing: shingles that one of the two
    pages has and the other has not, shape (n,). n_own: the same of what is in no template. O(n).
    """
    found: I64Array = kernels.facts.differences(row, rows, n_differing, n_own)
    return found


def differences_of_wholes(
    row: U64Array, rows: U64Array, n_differing: F64Array, found: I64Array
) -> I64Array:
    """What differences() found, and of pages that differ in nothing whether words of a brief line
    are replaced. Lines that one page has more are none: versions of a site have other menus."""
    is_other = (found == 0) & (reworded(row, rows, n_differing) == REPLACED)
    return np.where(is_other, len(REASONS), found)


def reworded(row: U64Array, rows: U64Array, n_differing: F64Array) -> I64Array:
    """What pages say else in brief lines, as the twin has it; shape (n,). O(n)."""
    found: I64Array = kernels.facts.reworded(row, rows, n_differing)
    return found


def wording_of(row: U64Array) -> int:
    """What tells a page's words, lines and facts, in their order, from those of others: 64 bits."""
    return int(row[ORDER_AT] ^ row[SUM_AT] ^ row[NEGATED_AT])
