"""Visible text → what exact copies share, and the sentences that state facts; in NumPy.

A fact is a token between spaces, without EDGE punctuation around it, that has a number, an operator
of mathematics or an @, has a symbol at one of its ends or one of MARKS in front, or is one of
FACTS_ALONE. The word behind one, of UNIT letters at most, says what it counts, and so does the next
behind a slash: 10 mg/kg is not 10 mg/l. It counts with the fact, as does a word of VALUES wherever
it stands: "two rooms", "part IV", "on Monday". A sentence is a line, or the part of one up to a
character of ENDERS that a space follows.
"""

from __future__ import annotations

import re
import unicodedata
from functools import cache
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from scrapy_neardup.kernels.numpy_twin import BoolArray, F64Array, I64Array, U32Array, U64Array
from scrapy_neardup.kernels.numpy_twin.fact_words import NEGATIONS, VALUES
from scrapy_neardup.kernels.numpy_twin.mix import GOLDEN, fmix64
from scrapy_neardup.kernels.numpy_twin.words import WORD_CATEGORIES, composing, normal_pieces

EDGE = frozenset(".,;:!?¡¿\"'`´‘’“”„«»‹›()[]{}…·•—|¶")  # punctuation around a word
# One of these in front of what is left counts, and makes it a fact: .5, .NET, ./run, !x, :=.
MARKS = frozenset(".,!:")
ENDERS = frozenset(".!?;:…。！？")  # of sentences, where a space follows
# Of these every one in a token counts, as a digit does: "Rome→Oslo" denies "Rome←Oslo", and "@"
# makes an address. SYMBOLS are those that Unicode calls punctuation.
SYMBOL_CATEGORIES = frozenset({"Sc", "Sm", "So", "Co"})  # Co: icons of a font, or hidden digits
SYMBOLS = frozenset("#%&*@^\\§†‡‰‱′″‴※")
AT_ENDS = frozenset("-/=")  # count at the ends of a token only: co-op, and/or, name=value
# What is a fact where it stands alone: C (or C++), size M, vitamin D, a < b, α. The other letters
# are words of some language: a, i, e, y, Polish w and z, Czech k and v, Greek η and ω, Russian ж.
FACTS_ALONE = frozenset(
    "bcdfghjlmnpqrstx<>αβγδεζθικλμνξπρσςτυφχψгдлмнпртфхцчшщэюאבגדהוזחטיכלמנסעפצקרשת"
)
NO_SYMBOLS = frozenset("<>|")  # "Map<K, V>" says the same wherever its line is broken
NUMBER_CATEGORIES = frozenset({"Nd", "Nl", "No"})  # 5, Ⅷ and ²
# The only format characters that change what is read: joiners, and the letters that tell the flags
# of England and Wales apart. Letters that follow no emoji count, too: hardly anybody writes such.
JOINERS = frozenset("\u200c\u200d")
TAGS = frozenset(map(chr, range(0xE0020, 0xE007F)))
AT_ONCE = 1 << 14  # characters that a pattern is replaced in: the GIL is held for 2 ms
# Format characters that nobody sees. The joiners and tags change what is shown.
INVISIBLE = re.compile("[\u00ad\u061c\u180e\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f\ufeff]")
CELLS = 64
TABLE_WORDS = CELLS // 4
FACT_WORDS = TABLE_WORDS + 11
_TITLE, _HEADINGS, _SUM, _NEGATED, _COUNT, _OWN, _BRIEF, _WORDS, _ORDER = (
    TABLE_WORDS + at for at in (0, 1, 2, 3, 4, 5, 6, 8, 10)
)
# Where in a page's facts begins what is said of words; where the hash of its brief lines is, the
# sum of its facts by their order, and what is said of negations, long lines and all words.
SPELLING_AT, ORDER_AT, SUM_AT, NEGATED_AT = _OWN, _ORDER, _SUM, _NEGATED
UNIT = 5  # letters, at most, of the word behind a fact that says what it counts: mg, EUR, weeks
MAX_OF_A_FACT = 2  # words of a block that is hardly more: "19.90" has two
# Words, at most, of a line that is a label and a value, and no part of a text. Two pairs of
# characters count as one: where no spaces stand, 17 characters are 16 pairs, and about eight words.
BRIEF = 8
# The same of lines whose words are counted: a line that grows to more than BRIEF words is no other.
COUNTED = 2 * BRIEF
ONE_SIDED = 2  # shingles that differ, at most, where a fact that only one page has counts
SWAPPED = 24  # the same where the facts are equal and their order is not: two change ten each
# The same where facts, or words of brief lines, stand in the place of others: without a bound, one
# story in two wordings would differ.
FEW_PLACES = 24
TWO_PLACES = 30  # the same of pages that are reworded: a town of three words twice for one of two
# Cells of spelling that differ, at least, where one word stands for another: of red and blue all
# do, of authorizer and authorizor four.
OTHER_WORD = 7
OTHERWISE, REPLACED = 1, 2  # what reworded() says
ONE_SIDED_NEGATION = 16  # the same of "not" and its like: it changes five shingles and adds one
SHORT = 4  # characters of a word, at most, that is known as a whole, as is one with a digit
WHOLE_CELLS, FIRST_CELLS = 8, 2  # of such a word; of the first letter of another one
THREE_BYTES = 0xE0  # the least first byte of a character of three bytes or more
LANES = 2  # bits of a cell of words and their spelling
_LOW = 0x5555_5555_5555_5555  # the lower bit of each such cell
# Bits of _ORDER: how many facts and negations there are, modulo 16, those in templates included, a
# sum of them, what title and headings say, and the order of brief lines.
N_STATED, ALL_STATED, ALL_HEADS = 0xF, 0xFF_FFF0, 0xFFFF << 24
BRIEF_ORDER = 0xFF_FFFF << 40

# Bits of _NEGATED: a sum of negations in own lines; one of all lines that are not brief, and a hash
# of these in order; a sum of all words; one of the values in words alone, and their number modulo
# 16.
NEGATIONS_IN, LONG_LINES, LONG_ORDER, ALL_WORDS, IN_WORDS = (0xFFF << 12 * i for i in range(5))
N_IN_WORDS = 0xF << 60

# Bits of what a character is; above them stands the character as it is compared.
CODE_SHIFT = 11
SPACE, FEED, WORD, DIGIT, SYMBOL, EDGES, ENDS, FORMAT, HIDDEN, CONTEXT, ALONE = (
    1 << i for i in range(CODE_SHIFT)
)

# With r = GOLDEN, a hash of characters c0 c1 … is (c0 + 1) r^0 + (c1 + 1) r^1 + … modulo 2^64, so
# that those of all words of a page are differences of one running sum. Not keyed: who forges
# equal hashes writes the page.

U16Array = np.ndarray[Any, np.dtype[np.uint16]]
Runs = tuple[I64Array, I64Array]  # where they begin and end (exclusive)
Sentences = tuple[I64Array, U64Array, U64Array, I64Array, U64Array]


def read(
    text: str, max_lines: int
) -> tuple[bytes, I64Array, U64Array, U64Array, I64Array, U64Array]:
    """What exact copies of a text share; its sentences that state facts; its negations.

    The first is exact_text in detect/text.py. Of each sentence, in order: its line, from 0, all
    after max_lines line feeds being one; its mask, a hash of its words that are neither facts nor
    units, or of what its facts look like where it has no other words, and 0 where it states nothing
    but VALUES; its value, a hash of its facts, units, VALUES and negations in order. Of each
    negation: its line, and a hash of it and the word after it. Characters are compared in case
    folding, full width as half. O(len(text)).
    """
    shown = canonical(text)
    exact = " ".join(shown.split()).encode("utf-8", "surrogatepass")
    lines, masks, values, negation_lines, negations = _sentences(_entries(shown))
    lines, negation_lines = (np.minimum(at, max_lines) for at in (lines, negation_lines))
    return exact, lines, masks, values, negation_lines, negations


def packed(
    words: bytes,
    hashes: U64Array,
    ends: I64Array,
    block_lines: I64Array,
    n_words: I64Array,
    are_own: BoolArray,
    lines: I64Array,
    masks: U64Array,
    values: U64Array,
    negation_lines: I64Array,
    negations: U64Array,
    titles: U64Array,
    headings: U64Array,
    tag: int,
) -> U64Array:
    """The facts of a page as it stores them, shape (FACT_WORDS,); detect/facts.py says how.

    words, hashes, ends, block_lines, n_words: its words, and of each line that has some a hash of
    them, where they end among all, which line it is, ascending, and how many they are. are_own:
    which of these blocks, then of the parts of title and headings, are of no template.

    Sentences from the first own line to the last are in the cells: a template line there may be one
    of the values that vary, such as a rating. The two sums are of the sentences and negations in
    own lines, that of the sentences by their order. A line that is hardly more than a fact, but no
    negation, is its page's own however many pages have the same: else "5" for "4" would be no
    difference. O(n).
    """
    is_own, own_titles, own_headings = np.split(are_own, [len(ends), len(ends) + len(titles)])
    row = np.zeros(FACT_WORDS, dtype=np.uint64)
    row[_TITLE], row[_HEADINGS] = _four(titles[own_titles]), _four(headings[own_headings])
    row[_COUNT] = int(n_words[is_own].sum()) | tag << 32
    row[SPELLING_AT:], are_long = _wording(words, ends, n_words, is_own)
    row[_NEGATED] = _long_lines(hashes[are_long]) | _sum_of_words(words)
    in_words = masks == 0
    row[_NEGATED] |= _values_in_words(values[in_words])
    lines, masks, values = lines[~in_words], masks[~in_words], values[~in_words]
    stated = np.append(_in_order(values), negations)
    heads = fmix64(np.append(titles, headings)).sum(dtype=np.uint64)
    row[_ORDER] &= _u(BRIEF_ORDER)
    row[_ORDER] |= _u(len(stated) & N_STATED) | (heads & _u(ALL_HEADS))
    row[_ORDER] |= stated.sum(dtype=np.uint64) & _u(ALL_STATED)
    own_lines = _with_brief_facts(block_lines, n_words, is_own, lines, negation_lines)
    if not len(own_lines):
        return row
    within = (lines >= own_lines[0]) & (lines <= own_lines[-1])
    row[:TABLE_WORDS] = _filled_cells(masks[within], values[within])
    own = _among(lines, own_lines)
    row[_SUM] = _in_order(masks[own] + fmix64(values[own])).sum(dtype=np.uint64)
    negated = negations[_among(negation_lines, own_lines)].sum(dtype=np.uint64)
    row[_NEGATED] |= negated & _u(NEGATIONS_IN)
    return row


def _in_order(hashes: U64Array) -> U64Array:
    """Hashes of hashes, each with its place among them."""
    return fmix64(hashes + np.arange(len(hashes), dtype=np.uint64) * _u(GOLDEN))


def _with_brief_facts(
    block_lines: I64Array,
    n_words: I64Array,
    is_own: BoolArray,
    lines: I64Array,
    negation_lines: I64Array,
) -> I64Array:
    """The own lines, and those that are hardly more than a fact, ascending."""
    stated = lines[~_among(lines, negation_lines)] if len(negation_lines) else lines
    if not len(stated) or not len(block_lines):
        return block_lines[is_own]
    at = block_lines.searchsorted(stated).clip(max=len(block_lines) - 1)
    has_words = block_lines[at] == stated
    is_brief = ~has_words | (n_words[at] <= MAX_OF_A_FACT)
    return np.sort(np.concatenate([block_lines[is_own], stated[is_brief]]))


def _long_lines(hashes: U64Array) -> np.uint64:
    """A sum of the lines that are not brief, and a hash of them in order, as bits of _NEGATED."""
    order = 0
    for hash in hashes.tolist():
        order = fmix64((order + hash) % 2**64)
    return _u(int(hashes.sum(dtype=np.uint64)) & LONG_LINES | order & LONG_ORDER)


def _values_in_words(values: U64Array) -> np.uint64:
    """Their sum and their number, as bits of _NEGATED."""
    total = int(values.sum(dtype=np.uint64)) & IN_WORDS
    return _u(total | len(values) << 60 & N_IN_WORDS)


def _sum_of_words(words: bytes) -> np.uint64:
    """A sum of all words, each by its first and last eight bytes, as bits of _NEGATED."""
    total = 0
    for word in words.split(b" "):
        first, last = (int.from_bytes(part, "little") for part in (word[:8], word[-8:]))
        total += fmix64((first + last * GOLDEN) % 2**64)
    return _u(total & ALL_WORDS)


def _wording(
    words: bytes, ends: I64Array, n_words: I64Array, is_own: BoolArray
) -> tuple[U64Array, BoolArray]:
    """What is said of the words in a page's short lines, from SPELLING_AT on in its facts; which
    lines are not brief.

    How those of all its brief lines are spelt: 64 cells of LANES bits, each the number modulo 4 of
    what falls on it: pairs of letters and first letters, or the whole word if it has SHORT
    characters at most, or a digit. So the cells in which two pages differ are those of the
    words in which they do. The same of its own brief lines, of which a bit tells whether the number
    is odd, comes before. Then as many cells for the words in lines of COUNTED words at most, each
    in one of the first 32 and in one of the others. Then a hash of the brief lines in order. ends:
    as in templates.own_words(). O(words).
    """
    own, brief, counted = np.zeros((3, 64), dtype=np.int64)
    order, start, are_long = 0, 0, []
    for end, n, own_line in zip(ends.tolist(), n_words.tolist(), is_own.tolist(), strict=True):
        line, start = words[start:end], end + 1
        n -= n <= 2 * COUNTED and sum(map(_is_pair, line.split())) // 2
        are_long.append(n > BRIEF)
        for word in line.split() if n <= COUNTED else ():
            hash = _hash_of(word)
            counted[[hash >> 59, 32 + hash % 32]] += 1
            if n <= BRIEF:
                cells = _spelling_of(word)
                np.add.at(brief, cells, 1)
                np.add.at(own, cells, int(own_line))
        if n <= BRIEF:
            order = fmix64((order + _hash_of(line)) % 2**64)
    odd = sum(n % 2 << i for i, n in enumerate(own.tolist()))
    row = np.array([odd, *_in_lanes(brief), *_in_lanes(counted), order], np.uint64)
    return row, np.array(are_long, dtype=bool)


def _is_pair(word: bytes) -> bool:
    """Whether a word is a pair of characters, as a text without spaces is cut into."""
    return word[0] >= THREE_BYTES and len(word.decode("utf-8", "surrogatepass")) == 2


def _in_lanes(cells: I64Array) -> list[int]:
    """64 numbers modulo 4, as two words."""
    lanes = [n % 4 << LANES * (i % 32) for i, n in enumerate(cells.tolist())]
    return [sum(lanes[:32]), sum(lanes[32:])]


def _spelling_of(word: bytes) -> list[int]:
    """The cells on which a word falls."""
    n_chars = sum(byte & 0xC0 != 0x80 for byte in word)
    if n_chars <= SHORT or re.search(rb"[0-9]", word):
        return _cells_of(word, WHOLE_CELLS)
    pairs = [(a << 8 | b) * GOLDEN % 2**64 >> 58 for a, b in pairwise(b" %b " % word)]
    return _cells_of(word[: 1 if word[0] < 0x80 else 3], FIRST_CELLS) + pairs


def _cells_of(letters: bytes, n: int) -> list[int]:
    """The cells of some letters: n of 64."""
    hash = _hash_of(letters)
    return [hash >> 6 * i & 63 for i in range(n)]


def _hash_of(letters: bytes) -> int:
    hash = 0
    for letter in letters:
        hash = (hash + letter + 1) * GOLDEN % 2**64
    return fmix64(hash)


def _four(hashes: U64Array) -> int:
    """Up to four hashes of 16 bits, none of them 0; of more, the fourth is the sum of the rest."""
    short = [1 + h % 0xFFFF for h in hashes.tolist()]
    if len(short) > 4:
        short[3:] = [1 + sum(short[3:]) % 0xFFFF]
    return sum(h << 16 * i for i, h in enumerate(short))


def _filled_cells(masks: U64Array, values: U64Array) -> U64Array:
    cells = (masks % _u(CELLS)).astype(np.int64)
    numbers = np.bincount(cells, minlength=CELLS) % 16
    sums = np.bincount(cells, (values & _u(0xFFF)).astype(np.float64), CELLS) % 4096
    packed = (numbers << 12 | sums.astype(np.int64)).astype("<u2")
    words: U64Array = packed.view("<u8").astype(np.uint64)
    return words


def differences(row: U64Array, rows: U64Array, n_differing: F64Array, n_own: F64Array) -> I64Array:
    """In what a page differs from others: 0 in nothing, else 1 + the place in
    detect.facts.REASONS.

    row: shape (FACT_WORDS,); rows: (n, FACT_WORDS). n_differing: shingles that one of the two
    pages has and the other has not, shape (n,). n_own: the same of what is in no template. O(n).
    """
    found = np.zeros(len(rows), dtype=np.int64)
    few_places = n_own <= FEW_PLACES
    same_length = rows[:, _COUNT] == row[_COUNT]
    found[few_places & same_length & _other_word(row, rows)] = 5
    change = rows[:, _NEGATED] ^ row[_NEGATED]
    found[(change & _u(NEGATIONS_IN) != 0) & (n_differing <= ONE_SIDED_NEGATION)] = 4
    found[(row[_SUM] != rows[:, _SUM]) & (n_differing <= ONE_SIDED)] = 3
    found[(row[_SUM] != rows[:, _SUM]) & _equal(row, rows) & (n_differing <= SWAPPED)] = 3
    cells = _cells(row), _cells(rows)
    found[few_places & (_in_other_words(*cells) | _other_values_in_words(change))] = 3
    found[_replaced(*cells)] = 3
    for reason, column in ((2, _HEADINGS), (1, _TITLE)):
        found[_exchanged(row[column], rows[:, column])] = reason
    # One of them leaves out lines that the other does not: what differs could be hidden.
    found[(rows[:, _COUNT] ^ row[_COUNT]) >> np.uint64(32) != 0] = 3
    return found


def reworded(row: U64Array, rows: U64Array, n_differing: F64Array) -> I64Array:
    """What pages say else in brief lines, templates' included: 0 nothing, REPLACED where words
    stand in the place of others, OTHERWISE where one page has words or lines more than the other,
    or words are only spelt in another way: then each page has some that the other lacks, and few
    cells of their spelling differ; shape (n,). So it is with all facts and negations: REPLACED
    where there are as many, and others, else OTHERWISE; and OTHERWISE with title and headings.
    All that between pages that are the same but for TWO_PLACES, or in the words of brief lines.
    REPLACED also, however much differs, where the same words, words of brief lines, facts of own
    lines, or long lines stand in another order: who beat whom, values handed round among their
    labels, steps of a recipe; or where as many values in words are others. row, rows, n_differing:
    as in differences(). O(n).
    """
    words = slice(_WORDS, _ORDER)
    other_word = _apart(row[_BRIEF:_WORDS], rows[:, _BRIEF:_WORDS]) >= OTHER_WORD
    both = _both_have_more(row[words], rows[:, words])
    equal = np.logical_and.reduce(rows[:, _BRIEF:_ORDER] == row[_BRIEF:_ORDER], axis=1)
    found = np.where(np.where(both, other_word, equal), REPLACED, OTHERWISE)
    comparable = (n_differing <= TWO_PLACES) | equal
    change = rows[:, _ORDER] ^ row[_ORDER]
    found[change & _u(BRIEF_ORDER) == 0] = OTHERWISE
    found[(change & _u(ALL_STATED) != 0) & (change & _u(N_STATED) == 0)] = REPLACED
    found[(change == 0) | ~comparable] = 0
    found[(rows[:, _SUM] != row[_SUM]) & _equal(row, rows)] = REPLACED
    change = rows[:, _NEGATED] ^ row[_NEGATED]
    found[(change & _u(LONG_LINES) == 0) & (change & _u(LONG_ORDER) != 0)] = REPLACED
    found[(change & _u(ALL_WORDS) == 0) & (n_differing > 0)] = REPLACED
    found[_other_values_in_words(change)] = REPLACED
    return found


def _other_values_in_words(change: U64Array) -> BoolArray:
    """Which rows have as many values in words, and others; change: in _NEGATED."""
    others: BoolArray = (change & _u(N_IN_WORDS) == 0) & (change & _u(IN_WORDS) != 0)
    return others


def _both_have_more(row: U64Array, rows: U64Array) -> BoolArray:
    """Which rows have more than another one in some cells, and less in others, or may have."""
    high = _u(_LOW << 1)
    more = ((rows | high) - (row & ~high)) ^ ((rows ^ ~row) & high)  # modulo 4, cell by cell
    odd, upper = more & _u(_LOW), more >> _u(1) & _u(_LOW)
    we, they, twice = (
        (part != 0).any(axis=1) for part in (odd & upper, odd & ~upper, upper & ~odd)
    )
    both: BoolArray = (we & they) | twice
    return both


def _other_word(row: U64Array, rows: U64Array) -> BoolArray:
    """Which rows have another word in an own brief line, not only another spelling of it."""
    other: BoolArray = np.bitwise_count(rows[:, _OWN] ^ row[_OWN]) >= OTHER_WORD
    return other


def _apart(row: U64Array, rows: U64Array) -> I64Array:
    """In how many cells of LANES bits rows differ from another one."""
    change = rows ^ row
    bits = np.bitwise_count((change | change >> _u(1)) & _u(_LOW))
    n_cells: I64Array = bits.sum(axis=1, dtype=np.int64)
    return n_cells


def _equal(row: U64Array, rows: U64Array) -> BoolArray:
    """Which rows have the same facts, in any order."""
    equal: BoolArray = np.logical_and.reduce(rows[:, :TABLE_WORDS] == row[:TABLE_WORDS], axis=1)
    return equal


def _cells(rows: U64Array) -> U16Array:
    """The table of a row or of several, a number a cell."""
    return np.ascontiguousarray(rows[..., :TABLE_WORDS]).view(np.uint16)


def _in_other_words(ours: U16Array, theirs: U16Array) -> BoolArray:
    """Which rows have facts that the other lacks and lack some that it has, with other values,
    whatever words are around them.

    So in the place of one fact another stands that looks unlike it: "1/2" in that of a check mark.
    Or their sentences end elsewhere: "5 Jan. 2027" makes two entries, "6 May 2027" one.
    """
    # Below zero both wrap around at 2^16, a multiple of what they are counted modulo.
    n_more = ((theirs >> 12) - (ours >> 12)) & 0xF  # of 8 either page may have more
    value_more = np.add.reduce((theirs & 0xFFF) - (ours & 0xFFF), axis=1)
    we = np.logical_or.reduce(n_more >= 8, axis=1)
    they = np.logical_or.reduce((n_more != 0) & (n_more <= 8), axis=1)
    other: BoolArray = we & they & (value_more & 0xFFF != 0)
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


def canonical(text: str) -> str:
    """The text as it is shown: without INVISIBLE, in stream-safe NFC."""
    if text.isascii():
        return text
    parts = (text[at : at + AT_ONCE] for at in range(0, len(text), AT_ONCE))
    shown = "".join(INVISIBLE.sub("", part) for part in parts)
    return "".join(normal_pieces(shown, "NFC"))


def entry(char: str) -> int:
    """What a character is, as bits, and the one as which it is compared above them."""
    own_kind = CONTEXT if _depends_on_company(char) else 0
    if INVISIBLE.match(char):
        own_kind |= HIDDEN | FORMAT
    narrow = _narrow(char)
    folded = narrow.casefold()
    code = ord(folded) if len(folded) == 1 else ord(narrow)
    own_kind |= ALONE if folded in FACTS_ALONE else 0
    return own_kind | _kind(narrow) | code << CODE_SHIFT


def _narrow(char: str) -> str:
    """A character of full or half width in the usual one; an en dash, as in –5, as a hyphen."""
    if char == "–":
        return "-"
    form, _, code = unicodedata.decomposition(char).partition(" ")
    return chr(int(code, 16)) if form in ("<wide>", "<narrow>") else char


def _depends_on_company(char: str) -> bool:
    """Whether canonical() may make something else of a character."""
    parts = unicodedata.normalize("NFKD", char)
    moves = unicodedata.combining(parts[0]) > 0 or parts[0] in composing()
    return moves or not unicodedata.is_normalized("NFC", char)


def _kind(char: str) -> int:
    category = unicodedata.category(char)
    is_symbol = char in SYMBOLS or char in TAGS or category in SYMBOL_CATEGORIES
    kind = 0
    if char == "\n":
        kind |= FEED
    elif char.isspace():
        kind |= SPACE
    elif category in NUMBER_CATEGORIES or (is_symbol and char not in AT_ENDS | NO_SYMBOLS):
        kind |= DIGIT
    elif category in WORD_CATEGORIES:
        kind |= WORD
    elif category == "Cf" and char not in JOINERS:
        kind |= FORMAT
    elif char in EDGE:
        kind |= EDGES
    elif char in AT_ENDS:
        kind |= SYMBOL
    return kind | ENDS if char in ENDERS else kind


def _entries(text: str) -> U32Array:
    """The entry of each character but format ones."""
    codes = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), dtype="<u4")
    entries = _table()
    for code in set(codes[entries[codes] == 0].tolist()):
        entries[code] = entry(chr(code))
    found = entries[codes]
    plain: U32Array = found[found & FORMAT == 0]
    return plain


@cache
def _table() -> U32Array:
    return np.zeros(0x110000, dtype=np.uint32)  # 0: not looked up yet, or NUL


class _Text(NamedTuple):
    """Characters, what their prefixes sum up to, and where lines end and sentences begin."""

    codes: U64Array
    kinds: U32Array
    sums: U64Array  # of _running_sums()
    line_ends: I64Array
    sentences: I64Array  # where they begin, but the first

    def hashes(self, runs: Runs) -> U64Array:
        return _hashes(self.sums, *runs)


class _Words(NamedTuple):
    """Words, as runs of characters, in order."""

    runs: Runs
    hashes: U64Array
    negate: BoolArray  # which are "not" and its like
    are_values: BoolArray  # which say what a fact counts, or are one of VALUES
    are_plain: BoolArray  # which are neither, nor parts of facts


def _sentences(entries: U32Array) -> Sentences:
    """Line, mask and value of each sentence with facts; line and hash of each negation."""
    if not len(entries):
        return _none()
    text = _text_of(entries)
    facts = _facts(text.codes, text.kinds)
    words = _words(text, facts)
    at, values = _values(text, facts, words)
    if not len(at):
        return _none()
    sentences = np.searchsorted(text.sentences, at)
    masks = fmix64(_masks(text, facts, words, sentences))
    masks[_are_in_words(text, facts, words, sentences)] = 0
    lines = np.searchsorted(text.line_ends, at)
    return lines, masks, fmix64(values), *_negations(text, words)


def _text_of(entries: U32Array) -> _Text:
    kinds = entries & np.uint32((1 << CODE_SHIFT) - 1)
    codes = (entries >> CODE_SHIFT).astype(np.uint64)
    feeds = kinds & FEED != 0
    after_end = np.append(False, kinds[:-1] & ENDS != 0)
    begin = np.flatnonzero(feeds | ((kinds & SPACE != 0) & after_end))
    return _Text(codes, kinds, _running_sums(codes), np.flatnonzero(feeds), begin)


def _facts(codes: U64Array, kinds: U32Array) -> Runs:
    """The tokens that state facts."""
    tokens = _runs(kinds & (SPACE | FEED) == 0)
    starts, ends = _stripped(tokens, kinds)
    state = _any_within(kinds & DIGIT != 0, starts, ends)
    state |= (kinds[starts] | kinds[ends - 1]) & SYMBOL != 0
    state |= (ends - starts == 1) & (kinds[starts] & ALONE != 0)
    marked = _marked(codes, starts, tokens[0])
    state |= marked
    return (starts - marked)[state], ends[state]


def _marked(codes: U64Array, starts: I64Array, tokens: I64Array) -> BoolArray:
    """Which runs have one of MARKS in front of them in their token, and only one."""
    are_marks = np.concatenate([[False, False], _among(codes, _codes_of(MARKS))])
    begins = tokens[np.searchsorted(tokens, starts, "right") - 1]
    one = are_marks[starts + 1] & (starts - 1 >= begins)
    two = are_marks[starts] & (starts - 2 >= begins)
    marked: BoolArray = one & ~two
    return marked


@cache
def _codes_of(chars: frozenset[str]) -> U64Array:
    """What characters are compared as, ascending."""
    return np.array(sorted(map(ord, chars)), dtype=np.uint64)


def _words(text: _Text, facts: Runs) -> _Words:
    runs = _runs(text.kinds & (WORD | DIGIT) != 0)
    hashes = text.hashes(runs)
    fact_before = np.searchsorted(facts[0], runs[0], "right") - 1
    in_fact = (fact_before >= 0) & (runs[0] < np.append(facts[1], 0)[fact_before])
    negate = (_among(hashes, negation_hashes()) | _contracted(text.codes, *runs)) & ~in_fact
    units = _units(text, runs, in_fact, fact_before, facts[0], negate)
    values = (units | _among(hashes, value_hashes())) & ~(in_fact | negate)
    return _Words(runs, hashes, negate, values, ~(in_fact | negate | values))


def _values(text: _Text, facts: Runs, words: _Words) -> tuple[I64Array, U64Array]:
    """Where the first fact, unit or negation of each sentence is, and a hash of all in order."""
    stated = words.negate | words.are_values
    at = np.concatenate([facts[0], words.runs[0][stated]])
    if not len(at):
        return at, np.empty(0, np.uint64)
    hashes = np.concatenate([text.hashes(facts), words.hashes[stated]])
    order = np.argsort(at, kind="stable")
    at, hashes = at[order], hashes[order]
    sentences = np.searchsorted(text.sentences, at)
    first = np.flatnonzero(np.append(True, sentences[1:] != sentences[:-1]))
    place = np.arange(len(at)) - np.repeat(first, np.diff(np.append(first, len(at))))
    placed = fmix64(hashes + fmix64(place.astype(np.uint64) + _u(1)))
    return at[first], np.add.reduceat(placed, first)


def _are_in_words(text: _Text, facts: Runs, words: _Words, sentences: I64Array) -> BoolArray:
    """Which sentences state nothing but VALUES."""
    are_in_words = np.ones(len(text.sentences) + 1, dtype=bool)
    for at in (facts[0], words.runs[0][words.negate]):
        are_in_words[np.searchsorted(text.sentences, at)] = False
    found: BoolArray = are_in_words[sentences]
    return found


def _masks(text: _Text, facts: Runs, words: _Words, sentences: I64Array) -> U64Array:
    """Of each sentence the sum of its plain words; where it has none, of its facts' looks."""
    starts = words.runs[0][words.are_plain]
    of_word = np.searchsorted(text.sentences, starts)
    masks, n_words = _sums_of(fmix64(words.hashes[words.are_plain]), of_word, sentences)
    is_bare = n_words == 0
    if is_bare.any():
        of_fact = np.searchsorted(text.sentences, facts[0])
        alone = _among(of_fact, sentences[is_bare])
        shapes = _shapes(text.codes, text.kinds, facts[0][alone], facts[1][alone])
        masks[is_bare], _ = _sums_of(shapes, of_fact[alone], sentences[is_bare])
    return masks


def _sums_of(hashes: U64Array, sentences: I64Array, asked: I64Array) -> tuple[U64Array, I64Array]:
    """Of each sentence asked for, the sum of its hashes, and how many they are.

    sentences: of each hash, ascending.
    """
    sums = np.append(_u(0), np.cumsum(hashes, dtype=np.uint64))
    low, high = np.searchsorted(sentences, asked), np.searchsorted(sentences, asked, "right")
    return sums[high] - sums[low], high - low


def _negations(text: _Text, words: _Words) -> tuple[I64Array, U64Array]:
    """Of each negation its line, and a hash of it and the word after it."""
    lines = np.searchsorted(text.line_ends, words.runs[0][words.negate])
    following = np.append(words.hashes[1:], _u(0))[words.negate]
    return lines, fmix64(words.hashes[words.negate] + fmix64(following))


def _units(
    text: _Text,
    words: Runs,
    in_fact: BoolArray,
    fact_before: I64Array,
    facts: I64Array,
    negate: BoolArray,
) -> BoolArray:
    """Which words say what a fact counts: the first behind it in its sentence, if it is short, and
    those behind a slash after such a one."""
    starts, ends = words
    if not len(starts) or not len(facts):
        return np.zeros(len(starts), dtype=bool)
    is_first = np.append(True, in_fact[:-1] | (fact_before[1:] != fact_before[:-1]))
    sentence, of_fact = (np.searchsorted(text.sentences, at) for at in (starts, facts))
    may_be = (ends - starts <= UNIT) & ~(in_fact | negate)
    first: BoolArray = is_first & may_be & (fact_before >= 0)
    first &= sentence == of_fact[fact_before]
    behind_slash = text.codes[ends[:-1]] == ord("/")
    behind_slash &= may_be[:-1] & (sentence[1:] == sentence[:-1])
    goes_on = np.append(False, behind_slash) & may_be
    root = np.maximum.accumulate(np.where(goes_on, 0, np.arange(len(starts))))
    found: BoolArray = first | (goes_on & first[root])
    return found


def _none() -> Sentences:
    none, numbers = np.empty(0, np.int64), np.empty(0, np.uint64)
    return none, numbers, numbers, none, numbers


def _runs(inside: BoolArray) -> Runs:
    """The runs of True."""
    padded = np.zeros(len(inside) + 2, dtype=bool)
    padded[1:-1] = inside
    edges = np.flatnonzero(padded[1:] != padded[:-1])
    return edges[::2], edges[1::2]


def _stripped(tokens: Runs, kinds: U32Array) -> Runs:
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


def _among(numbers: np.ndarray[Any, Any], known: np.ndarray[Any, Any]) -> BoolArray:
    """Which numbers are among the known ones, which ascend and are some."""
    # Not np.isin(): it imports numpy.ma, in the middle of a crawl.
    found: BoolArray = known[known.searchsorted(numbers).clip(max=len(known) - 1)] == numbers
    return found


def _contracted(codes: U64Array, starts: I64Array, ends: I64Array) -> BoolArray:
    """Which words are the t of "isn't", with any apostrophe."""
    is_t: BoolArray = (ends - starts == 1) & (codes[starts] == ord("t")) & (starts >= 2)
    quote, n = codes[np.maximum(starts - 1, 0)], codes[np.maximum(starts - 2, 0)]
    contracted: BoolArray = is_t & (n == ord("n")) & ((quote == ord("'")) | (quote == ord("’")))
    return contracted


def _shapes(codes: U64Array, kinds: U32Array, starts: I64Array, ends: I64Array) -> U64Array:
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
    steps = np.where(looks != before, fmix64((before << _u(32)) | looks), _u(0))
    sums = np.append(_u(0), np.cumsum(steps, dtype=np.uint64))
    full = end > begin
    begin, end = inner[begin[full]], inner[end[full] - 1]
    shapes[full] = fmix64(looks[begin]) + sums[end + 1] - sums[begin + 1]
    return shapes


@cache
def _powers(n: int) -> tuple[U64Array, U64Array]:
    """r^0 … r^n and their inverses, modulo 2^64."""
    base, inverse = np.full(n, GOLDEN, np.uint64), np.full(n, pow(GOLDEN, -1, 2**64), np.uint64)
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


@cache
def negation_hashes() -> U64Array:
    """The hashes of NEGATIONS, ascending."""
    return _sorted_hashes(NEGATIONS)


@cache
def value_hashes() -> U64Array:
    """The hashes of VALUES, ascending."""
    return _sorted_hashes(VALUES)


def _sorted_hashes(words: frozenset[str]) -> U64Array:
    codes = (np.array([ord(c) for c in word], dtype=np.uint64) for word in words)
    return np.sort(np.array([_running_sums(word)[-1] for word in codes], dtype=np.uint64))


def _u(number: int) -> np.uint64:
    return np.uint64(number)
