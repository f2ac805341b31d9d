"""What of a page is a fact: numbers, symbols and negations, each with the words around it.

A fact is found in a sentence: a line, cut after . ! ? ; and : where a space follows. Its *mask*
is a hash of the sentence's other words, its *value* one of its facts in order. So the masks of
"Price: 19 EUR" and "Price: 21 EUR" are equal, and the values are not.

Two pages differ in a fact where their masks are the same and the values are not. What one has
more than the other is no such difference: it is left to similarity, but for pages that are
otherwise all but equal (ONE_SIDED, ONE_SIDED_NEGATION).

A page's facts are stored in FACT_WORDS words of 64 bits:

    words  what
    16     table of 64 cells of 16 bits: entries with mask % 64 == cell, their number modulo 16 in
           the upper 4 bits, the sum of their values modulo 4096 in the lower 12
    2      title and first headings: four 16-bit hashes each
    1      sum of hashes of the facts that are in no template
    1      the same of its negations, each with the word after it

A cell whose entries are equally many and whose sums differ holds a fact that was replaced. Where
the numbers differ, facts were added or are gone, or a template was learnt meanwhile.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Sequence
from functools import cache
from typing import NamedTuple

import numpy as np

from scrapy_neardup.detect.templates import located
from scrapy_neardup.kernels.numpy_twin import BoolArray, F64Array, I64Array, U64Array
from scrapy_neardup.kernels.numpy_twin.words import WORD_CATEGORIES, normal_pieces

CELLS = 64
TABLE_WORDS = CELLS // 4
FACT_WORDS = TABLE_WORDS + 4
ONE_SIDED = 2  # shingles that differ, at most, where a fact that only one page has counts
ONE_SIDED_NEGATION = 16  # the same of "not" and its like: it changes five shingles and adds one

EDGE = frozenset(".,;:!?¡¿\"'`´‘’“”„«»‹›()[]{}…·•–—|¶")  # punctuation around a word
ENDERS = frozenset(".!?;:。！？")  # of sentences, where a space follows
ASCII_SYMBOLS = frozenset("#%&@*+=^~-−/\\")
# Letters that are facts where they stand alone: C (or C++), size M, vitamin D. The others are words
# of some language: a, i, e, y, Polish w and z, Czech k and v.
LONE_LETTERS = frozenset("bcdfghjlmnpqrstx")
SYMBOL_CATEGORIES = frozenset({"Sc", "Sm", "So", "No", "Nl"})
NO_SYMBOLS = frozenset("<>|")  # "Map<K, V>" says the same wherever its line is broken
JOINERS = frozenset("\u200c\u200d")  # the only format characters that change what is read
NEGATIONS = frozenset(
    {
        *("not", "no", "never", "none", "without", "cannot", "neither", "nor"),
        *("nicht", "kein", "keine", "keinen", "nie", "ohne", "niet", "geen"),
        *("pas", "non", "jamais", "sans", "ne", "ni", "sin", "nunca", "nao", "senza", "mai"),
        *("не", "нет", "без", "ない", "不", "没", "无"),
    }
)
TITLE_PARTS = re.compile(r"\s+[-–—|·:]\s+|[|–—·»:()]")

# Bits of what a character is.
SPACE, FEED, WORD, DIGIT, SYMBOL, EDGES, ENDS, FORMAT, LETTER, KNOWN = (1 << i for i in range(10))

# A hash of characters c0 c1 … is c0 r^0 + c1 r^1 + … modulo 2^64, so that those of all words of a
# page are differences of one running sum. Not keyed: who forges equal hashes writes the page.
_BASE = 0x9E3779B97F4A7C15
_TITLE, _HEADING = 0x7469746C65, 0x6831
REASONS = ("title", "heading", "number or symbol", "negation")


class Facts(NamedTuple):
    """The sentences of a page that state facts, in order, and its title and first headings."""

    word_lines: I64Array  # lines of the text, from 0, that have words: those that are blocks
    lines: I64Array  # of the text, from 0; shape (n,)
    masks: U64Array
    values: U64Array
    negation_lines: I64Array  # of each negation
    negations: U64Array  # with the word after it; shape (negations,)
    titles: U64Array  # hashes of the title's parts
    headings: U64Array


Sentences = tuple[I64Array, I64Array, U64Array, U64Array, I64Array, U64Array]  # as Facts has them


def facts_of(text: str, heads: Sequence[str] = ()) -> Facts:
    """The facts of a visible text. O(len(text)), all of it in arrays.

    heads: the page's title, then its first headings; of none, nothing is compared.
    """
    titles = TITLE_PARTS.split(heads[0]) if heads else []
    parts = _hashed(titles, _TITLE), _hashed(heads[1:], _HEADING)
    return Facts(*_sentences(_codes(text)), *parts)


def _hashed(parts: Sequence[str], kind: int) -> U64Array:
    words = (" ".join(part.casefold().split()) for part in parts)
    hashes = [_hash_of(word) ^ kind for word in words if word]
    return np.array(hashes, dtype=np.uint64)


def _codes(text: str) -> U64Array:
    """The code points of a text in normal form, folded, without format characters."""
    if not text.isascii():
        text = "".join(normal_pieces(text))
    folded = text.casefold().encode("utf-32-le", "surrogatepass")
    codes = np.frombuffer(folded, dtype="<u4")
    plain: U64Array = codes[_kinds()[_known(codes)] & FORMAT == 0].astype(np.uint64)
    return plain


def _known(codes: U64Array) -> U64Array:
    """The same, after what each is has been looked up."""
    kinds = _kinds()
    for code in set(codes[kinds[codes] == 0].tolist()):
        kinds[code] = _kind(chr(code))
    return codes


@cache
def _kinds() -> np.ndarray[tuple[int], np.dtype[np.uint16]]:
    return np.zeros(0x110000, dtype=np.uint16)  # 0: not looked up yet


def _kind(char: str) -> int:
    """What a character is, as bits."""
    category = unicodedata.category(char)
    kind = KNOWN
    if char == "\n":
        kind |= FEED
    elif char.isspace():
        kind |= SPACE
    elif category in WORD_CATEGORIES:
        kind |= DIGIT if category == "Nd" else WORD
        kind |= LETTER if char in LONE_LETTERS else 0
    elif category == "Cf" and char not in JOINERS:
        kind |= FORMAT
    elif char in EDGE:
        kind |= EDGES
    elif char in ASCII_SYMBOLS or (category in SYMBOL_CATEGORIES and char not in NO_SYMBOLS):
        kind |= SYMBOL
    return kind | ENDS if char in ENDERS else kind


def _sentences(codes: U64Array) -> Sentences:
    """Lines with words; line, mask and value of each sentence with facts; negations."""
    if not len(codes):
        return _none(np.empty(0, np.int64))
    kinds = _kinds()[codes.astype(np.int64)]
    feeds = kinds & FEED != 0
    blank = feeds | (kinds & SPACE != 0)
    after_end = np.append(False, kinds[:-1] & ENDS != 0)
    sentence_starts = np.flatnonzero(feeds | (blank & after_end))
    sums = _running_sums(codes)

    starts, ends = _stripped(_runs(~blank), kinds)
    is_fact = _any_within(kinds & DIGIT != 0, starts, ends) | (
        ((kinds[starts] | kinds[ends - 1]) & SYMBOL) != 0
    )
    is_fact |= (ends - starts == 1) & (kinds[starts] & LETTER != 0)
    starts, ends = starts[is_fact], ends[is_fact]

    words = _runs(kinds & (WORD | DIGIT) != 0)
    hashes = _hashes(sums, *words)
    negates = located(hashes, _negations())[1] | _contracted(codes, *words)
    fact_before = np.searchsorted(starts, words[0], "right") - 1
    in_fact = (fact_before >= 0) & (words[0] < np.append(ends, 0)[fact_before])
    negates &= ~in_fact

    line_ends = np.flatnonzero(feeds)
    word_lines = _each_once(np.searchsorted(line_ends, words[0]))
    at = np.concatenate([starts, words[0][negates]])
    if not len(at):
        return _none(word_lines)
    event = np.concatenate([_hashes(sums, starts, ends), hashes[negates]])
    order = np.argsort(at, kind="stable")
    at, event = at[order], event[order]
    found = np.searchsorted(sentence_starts, at)
    first = np.flatnonzero(np.append(True, found[1:] != found[:-1]))
    place = np.arange(len(at)) - np.repeat(first, np.diff(np.append(first, len(at))))
    values = np.add.reduceat(_mixed(event + _mixed(place.astype(np.uint64) + _u(1))), first)

    rest = ~in_fact & ~negates
    around = np.append(_u(0), np.cumsum(_mixed(hashes[rest]), dtype=np.uint64))
    of_word, stated = np.searchsorted(sentence_starts, words[0][rest]), found[first]
    low, high = np.searchsorted(of_word, stated), np.searchsorted(of_word, stated, "right")
    masks = around[high] - around[low]
    bare = high == low
    if bare.any():
        of_fact = np.searchsorted(sentence_starts, starts)
        alone = located(of_fact, stated[bare])[1]
        shapes = _shapes(codes, kinds, starts[alone], ends[alone])
        sums = np.append(_u(0), np.cumsum(shapes, dtype=np.uint64))
        low = np.searchsorted(of_fact[alone], stated[bare])
        high = np.searchsorted(of_fact[alone], stated[bare], "right")
        masks[bare] = sums[high] - sums[low]
    lines = np.searchsorted(line_ends, at[first])
    negation_lines = np.searchsorted(line_ends, words[0][negates])
    negations = _mixed(hashes[negates] + _mixed(np.append(hashes[1:], _u(0))[negates]))
    return word_lines, lines, _mixed(masks), _mixed(values), negation_lines, negations


def _none(word_lines: I64Array) -> Sentences:
    none, numbers = np.empty(0, np.int64), np.empty(0, np.uint64)
    return word_lines, none, numbers, numbers, none, numbers


def _each_once(ascending: I64Array) -> I64Array:
    once: I64Array = ascending[np.append(True, ascending[1:] != ascending[:-1])[: len(ascending)]]
    return once


def _runs(inside: BoolArray) -> tuple[I64Array, I64Array]:
    """Where runs of True begin and end (exclusive); shape (runs,) each."""
    padded = np.zeros(len(inside) + 2, dtype=bool)
    padded[1:-1] = inside
    edges = np.flatnonzero(padded[1:] != padded[:-1])
    return edges[::2], edges[1::2]


def _stripped(
    tokens: tuple[I64Array, I64Array], kinds: np.ndarray[tuple[int], np.dtype[np.uint16]]
) -> tuple[I64Array, I64Array]:
    """The tokens without punctuation at their edges; those of nothing else are left out."""
    core = np.flatnonzero(kinds & (SPACE | FEED | EDGES) == 0)
    low, high = np.searchsorted(core, tokens[0]), np.searchsorted(core, tokens[1])
    full = high > low
    return core[low[full]], core[high[full] - 1] + 1


def _any_within(marked: BoolArray, starts: I64Array, ends: I64Array) -> BoolArray:
    """Which runs hold a marked character."""
    places = np.flatnonzero(marked)
    within: BoolArray = np.searchsorted(places, ends) > np.searchsorted(places, starts)
    return within


def _contracted(codes: U64Array, starts: I64Array, ends: I64Array) -> BoolArray:
    """Which words are the t of "isn't", with any apostrophe."""
    is_t: BoolArray = (ends - starts == 1) & (codes[starts] == ord("t")) & (starts >= 2)
    quote, n = codes[np.maximum(starts - 1, 0)], codes[np.maximum(starts - 2, 0)]
    contracted: BoolArray = is_t & (n == ord("n")) & ((quote == ord("'")) | (quote == ord("’")))
    return contracted


def _shapes(
    codes: U64Array,
    kinds: np.ndarray[tuple[int], np.dtype[np.uint16]],
    starts: I64Array,
    ends: I64Array,
) -> U64Array:
    """What facts look like: letters as one, digits as one, symbols at the edges left out.

    £19.99 and $5.00 look alike, 19.99 and 978-0 do not.
    """
    lengths = ends - starts
    first = np.cumsum(lengths) - lengths
    places = np.arange(lengths.sum()) + np.repeat(starts - first, lengths)
    of = np.repeat(np.arange(len(starts)), lengths)
    codes, kinds = codes[places], kinds[places]
    looks = np.where(kinds & WORD, _u(1), np.where(kinds & DIGIT, _u(2), codes + _u(3)))
    inner = np.flatnonzero(kinds & (WORD | DIGIT))
    shapes = np.ones(len(starts), dtype=np.uint64)
    if not len(inner):
        return shapes
    begin, end = np.searchsorted(of[inner], [np.arange(len(starts)), np.arange(1, len(starts) + 1)])
    before = np.append(_u(0), looks[:-1])
    steps = np.where(looks != before, _mixed((before << _u(32)) | looks), _u(0))
    sums = np.append(_u(0), np.cumsum(steps, dtype=np.uint64))
    full = end > begin
    begin, end = inner[begin[full]], inner[end[full] - 1]
    shapes[full] = _mixed(looks[begin]) + sums[end + 1] - sums[begin + 1]
    return shapes


@cache
def _powers(n: int) -> tuple[U64Array, U64Array]:
    """r^0 … r^n and their inverses, modulo 2^64."""
    base, inverse = np.full(n, _BASE, np.uint64), np.full(n, pow(_BASE, -1, 2**64), np.uint64)
    one = np.ones(1, np.uint64)
    powers = (np.concatenate([one, np.multiply.accumulate(part)]) for part in (base, inverse))
    first, second = powers
    return first, second


def _powers_for(n: int) -> tuple[U64Array, U64Array]:
    return _powers(1 << max(14, n.bit_length()))


def _running_sums(codes: U64Array) -> U64Array:
    powers = _powers_for(len(codes))[0][: len(codes)]
    return np.append(_u(0), np.cumsum((codes + _u(1)) * powers, dtype=np.uint64))


def _hashes(sums: U64Array, starts: I64Array, ends: I64Array) -> U64Array:
    inverses = _powers_for(len(sums))[1]
    hashes: U64Array = (sums[ends] - sums[starts]) * inverses[starts]
    return hashes


def _hash_of(word: str) -> int:
    codes = np.array([ord(c) for c in word], dtype=np.uint64)
    whole = np.array([0]), np.array([len(word)])
    return int(_mixed(_hashes(_running_sums(codes), *whole))[0])


@cache
def _negations() -> U64Array:
    codes = (np.array([ord(c) for c in word], dtype=np.uint64) for word in sorted(NEGATIONS))
    return np.sort(np.array([_running_sums(word)[-1] for word in codes], dtype=np.uint64))


def _u(number: int) -> np.uint64:
    return np.uint64(number)


def _mixed(numbers: U64Array) -> U64Array:
    """MurmurHash3's finaliser: every bit of a number changes about half of the result's."""
    x = (numbers ^ numbers >> _u(33)) * _u(0xFF51AFD7ED558CCD)
    x = (x ^ x >> _u(33)) * _u(0xC4CEB9FE1A85EC53)
    mixed: U64Array = x ^ x >> _u(33)
    return mixed


def packed(
    facts: Facts, is_template: Callable[[U64Array], BoolArray], blocks: U64Array
) -> U64Array:
    """The facts of a page as it is stored; shape (FACT_WORDS,).

    is_template: which of some hashes, of blocks or of heads, are of a template. blocks: of the
    page. Facts between its first own line and the last one count: a template line there may be
    one of the values that vary, such as a rating.
    """
    row = np.zeros(FACT_WORDS, dtype=np.uint64)
    for i, heads in enumerate((facts.titles, facts.headings)):
        row[TABLE_WORDS + i] = _four(heads[~is_template(heads)])
    # Of very long texts, the last block is all the lines that are left.
    block_of = np.arange(len(facts.word_lines)).clip(max=len(blocks) - 1)
    own_lines = facts.word_lines[~is_template(blocks)[block_of]]
    if not len(own_lines) or not len(facts.lines):
        return row
    within = (facts.lines >= own_lines[0]) & (facts.lines <= own_lines[-1])
    row[:TABLE_WORDS] = _table(facts.masks[within], facts.values[within])
    own = located(facts.lines, own_lines)[1]
    row[-2] = _mixed(facts.masks + _mixed(facts.values))[own].sum(dtype=np.uint64)
    row[-1] = facts.negations[located(facts.negation_lines, own_lines)[1]].sum(dtype=np.uint64)
    return row


def _table(masks: U64Array, values: U64Array) -> U64Array:
    cells = (masks % _u(CELLS)).astype(np.int64)
    numbers = np.bincount(cells, minlength=CELLS) % 16
    sums = np.bincount(cells, (values & _u(0xFFF)).astype(np.float64), CELLS) % 4096
    table = (numbers << 12 | sums.astype(np.int64)).astype("<u2")
    words: U64Array = table.view("<u8").astype(np.uint64)
    return words


def _four(hashes: U64Array) -> int:
    """Up to four hashes of 16 bits, none of them 0; of more, the fourth is the sum of the rest."""
    short = [1 + h % 0xFFFF for h in hashes.tolist()]
    if len(short) > 4:
        short[3:] = [1 + sum(short[3:]) % 0xFFFF]
    return sum(h << 16 * i for i, h in enumerate(short))


def differences(row: U64Array, rows: U64Array, n_differing: F64Array) -> I64Array:
    """In what a page differs from others: 0 in nothing, else 1 + the place in REASONS.

    row: shape (FACT_WORDS,); rows: (n, FACT_WORDS). n_differing: shingles that one of the two
    pages has and the other has not, shape (n,). O(n).
    """
    found = np.zeros(len(rows), dtype=np.int64)
    found[(row[-1] != rows[:, -1]) & (n_differing <= ONE_SIDED_NEGATION)] = 4
    found[(row[-2] != rows[:, -2]) & (n_differing <= ONE_SIDED)] = 3
    found[_replaced(row, rows)] = 3
    for reason, column in ((2, TABLE_WORDS + 1), (1, TABLE_WORDS)):
        found[_exchanged(row[column], rows[:, column])] = reason
    return found


def _replaced(row: U64Array, rows: U64Array) -> BoolArray:
    """Which rows have a cell of as many entries with another sum."""
    table = np.ascontiguousarray(rows[:, :TABLE_WORDS]).view(np.uint16)
    change = table ^ np.ascontiguousarray(row[:TABLE_WORDS]).view(np.uint16)
    replaced: BoolArray = ((change != 0) & (change >> 12 == 0)).any(axis=1)
    return replaced


def _exchanged(head: np.uint64, heads: U64Array) -> BoolArray:
    """Which heads lack a part of this one and have another that it lacks."""
    ours = np.array([head], dtype=np.uint64).view(np.uint16)
    theirs = np.ascontiguousarray(heads).view(np.uint16).reshape(-1, 4)
    same = ours[None, :, None] == theirs[:, None, :]
    lacking = ((ours != 0) & ~same.any(axis=2)).any(axis=1)
    extra = ((theirs != 0) & ~same.any(axis=1)).any(axis=1)
    exchanged: BoolArray = lacking & extra
    return exchanged
