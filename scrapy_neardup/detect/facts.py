"""What of a page is a fact: numbers, symbols and negations, each with the words around it.

A fact is found in a sentence: a line, cut after . ! ? ; and : where a space follows. Its *mask*
is a hash of the sentence's other words, its *value* one of its facts in order. So the masks of
"Price: 19 EUR" and "Price: 21 EUR" are equal, and the values are not.

Two pages differ in a fact where their masks are the same and the values are not. What one has
more than the other is no such difference: it is left to similarity, but for pages that are
otherwise all but equal (ONE_SIDED, ONE_SIDED_NEGATION). Nor are the same facts in another order,
but for pages that differ in hardly more than the two that changed places (SWAPPED). Where pages are
the same but for a few places (FEW_PLACES), a fact that stands there in the place of another counts
whatever is around it: "1/2" in that of a check mark.

In a brief line, a label and a value, any other word is a fact: between pages that are the same but
for a few places (FEW_PLACES), unless it is only spelt in another way there (OTHER_WORD).

A page's facts are stored in FACT_WORDS words of 64 bits:

    words  what
    16     table of 64 cells of 16 bits: entries with mask % 64 == cell, their number modulo 16 in
           the upper 4 bits, the sum of their values modulo 4096 in the lower 12
    2      title and first headings: four 16-bit hashes each
    1      sum of hashes of the facts that are in no template, each with its place among them
    1      the same of its negations, each with the word after it
    1      how many words are in no template; in the upper half, the tag of the lines that tell of
           the visit (echoes.py), which are left out; 0 where there are none
    1      how those in brief lines are spelt

A cell whose entries are equally many and whose sums differ holds a fact that was replaced. Where
the numbers differ, facts were added or are gone, or a template was learnt meanwhile.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

import mmh3
import numpy as np

import scrapy_neardup.kernels as kernels
from scrapy_neardup.detect.text import MAX_LINES
from scrapy_neardup.kernels.numpy_twin import BoolArray, F64Array, I64Array, U64Array
from scrapy_neardup.kernels.numpy_twin.facts import CELLS

TABLE_WORDS = CELLS // 4
FACT_WORDS = TABLE_WORDS + 6
ONE_SIDED = 2  # shingles that differ, at most, where a fact that only one page has counts
SWAPPED = 24  # the same where the facts are equal and their order is not: two change ten each
# The same where facts, or words of brief lines, stand in the place of others: without a bound, one
# story in two wordings would differ.
FEW_PLACES = 24
# Bits of spelling that differ, at least, where one word stands for another: of red and blue all do,
# of authorizer and authorizor four.
OTHER_WORD = 7
BRIEF = 8  # words, at most, of a line that is a label and a value, and no part of a text
ONE_SIDED_NEGATION = 16  # the same of "not" and its like: it changes five shingles and adds one

U16Array = np.ndarray[Any, np.dtype[np.uint16]]

SPELT_APART = re.compile(r"(?<=[^\W\d_]) (?=[^\W\d_])")  # "red hat" is "redhat"
TITLE_PARTS = re.compile(r"(?<!\s)\s++[-–—|·:]\s++|[|–—·»:()]")

_TITLE, _HEADING = 0x7469746C65, 0x6831
REASONS = ("title", "heading", "number or symbol", "negation", "word")
_SUM, _NEGATIONS, _N_WORDS, _SPELLING = range(TABLE_WORDS + 2, FACT_WORDS)


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
    facts: Facts, own_lines: I64Array, n_words: int, spelling: int, tag: int = 0
) -> U64Array:
    """The facts of a page as it is stored; shape (FACT_WORDS,).

    facts: those with titles and headings of no template. own_lines: those of the page that are
    of none, ascending. Facts between the first of them and the last count: a template line
    there may be one of the values that vary, such as a rating. n_words: of own lines. spelling: of
    those of them that are brief. tag: of lines that were left out, below 2^32.
    """
    table = kernels.facts.table(*facts, own_lines)
    return np.concatenate([table, np.array([n_words | tag << 32, spelling], dtype=np.uint64)])


def differences(row: U64Array, rows: U64Array, n_differing: F64Array, n_own: F64Array) -> I64Array:
    """In what a page differs from others: 0 in nothing, else 1 + the place in REASONS.

    row: shape (FACT_WORDS,); rows: (n, FACT_WORDS). n_differing: shingles that one of the two
    pages has and the other has not, shape (n,). n_own: the same of what is in no template. O(n).
    """
    found = np.zeros(len(rows), dtype=np.int64)
    few_places = n_own <= FEW_PLACES
    same_length = rows[:, _N_WORDS] == row[_N_WORDS]
    found[few_places & same_length & _other_word(row, rows)] = 5
    found[(row[_NEGATIONS] != rows[:, _NEGATIONS]) & (n_differing <= ONE_SIDED_NEGATION)] = 4
    found[(row[_SUM] != rows[:, _SUM]) & (n_differing <= ONE_SIDED)] = 3
    found[(row[_SUM] != rows[:, _SUM]) & _equal(row, rows) & (n_differing <= SWAPPED)] = 3
    cells = _cells(row), _cells(rows)
    found[few_places & _in_other_words(*cells)] = 3
    found[_replaced(*cells)] = 3
    for reason, column in ((2, TABLE_WORDS + 1), (1, TABLE_WORDS)):
        found[_exchanged(row[column], rows[:, column])] = reason
    # One of them leaves out lines that the other does not: what differs could be hidden.
    found[(rows[:, _N_WORDS] ^ row[_N_WORDS]) >> np.uint64(32) != 0] = 3
    return found


def _other_word(row: U64Array, rows: U64Array) -> BoolArray:
    """Which rows have another word in a brief line, not only another spelling of it."""
    other: BoolArray = np.bitwise_count(rows[:, _SPELLING] ^ row[_SPELLING]) >= OTHER_WORD
    return other


def _equal(row: U64Array, rows: U64Array) -> BoolArray:
    """Which rows have the same facts, in any order."""
    equal: BoolArray = np.logical_and.reduce(rows[:, :TABLE_WORDS] == row[:TABLE_WORDS], axis=1)
    return equal


def _cells(rows: U64Array) -> U16Array:
    """The table of a row or of several, a number a cell."""
    return np.ascontiguousarray(rows[..., :TABLE_WORDS]).view(np.uint16)


def _in_other_words(ours: U16Array, theirs: U16Array) -> BoolArray:
    """Which rows have as many facts, with other values, whatever words are around them.

    So in the place of one fact another stands that looks unlike it: "1/2" in that of a check mark.
    """
    # Below zero both wrap around at 2^16, a multiple of what they are counted modulo.
    n_more = np.add.reduce((theirs >> 12) - (ours >> 12), axis=1)
    value_more = np.add.reduce((theirs & 0xFFF) - (ours & 0xFFF), axis=1)
    other: BoolArray = (n_more & 0xF == 0) & (value_more & 0xFFF != 0)
    return other


def _replaced(ours: U16Array, theirs: U16Array) -> BoolArray:
    """Which rows have a cell of as many entries with another sum."""
    change = theirs ^ ours
    replaced: BoolArray = np.logical_or.reduce((change != 0) & (change >> 12 == 0), axis=1)
    return replaced


def _exchanged(head: np.uint64, heads: U64Array) -> BoolArray:
    """Which heads lack a part of this one and have another that it lacks."""
    ours = np.array([head], dtype=np.uint64).view(np.uint16)
    theirs = np.ascontiguousarray(heads).view(np.uint16).reshape(-1, 4)
    same = ours[None, :, None] == theirs[:, None, :]
    any_of = np.logical_or.reduce
    lacking = any_of((ours != 0) & ~any_of(same, axis=2), axis=1)
    extra = any_of((theirs != 0) & ~any_of(same, axis=1), axis=1)
    exchanged: BoolArray = lacking & extra
    return exchanged
