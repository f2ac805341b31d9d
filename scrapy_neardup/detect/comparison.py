"""How far a page is from others: as wholes, in their own parts, in data and in facts."""

from __future__ import annotations

import numpy as np

from scrapy_neardup.detect import odd_sketch
from scrapy_neardup.detect.facts import REASONS, differences, differences_of_wholes, reworded
from scrapy_neardup.detect.near import Measured, NearLimits, own_parts_agree
from scrapy_neardup.detect.odd_sketch import ROW_WORDS, OddRows, exchange, least_differing
from scrapy_neardup.detect.page_reading import OwnPart
from scrapy_neardup.detect.page_row import PageRows
from scrapy_neardup.kernels.numpy_twin import BoolArray, F64Array, I64Array, U64Array
from scrapy_neardup.kernels.numpy_twin.facts import COUNTED, REPLACED, TWO_PLACES

# Shingles of standard paragraphs, at most, that a copy may lack: a banner of one line, such as
# "these are the docs of an old version", is no paragraph.
MAX_LACKING = COUNTED + odd_sketch.SHINGLE - 1
# The same beside a longer own part: so many of its words to one. A print version lacks the menu and
# the footer of its article, and is a copy of it.
OWN_TO_PARAGRAPHS = 4
NEGATION = 1 + REASONS.index("negation")  # as facts.differences has it


class Comparison:
    """Measures one page against the rows of others; the rule that decides is in near.py.

    limits         of the detector: own parts of fewer than min_words words are not compared
    compare_facts  False: pages never differ in facts
    whole_pages    True: pages that are reworded differ, too, as facts.differences_of_wholes has it
    key            of the sketches
    """

    def __init__(
        self, limits: NearLimits, compare_facts: bool, whole_pages: bool, key: int
    ) -> None:
        self.limits = limits
        self.compare_facts = compare_facts
        self.whole_pages = whole_pages
        self.key = key

    def measure(
        self, page: OwnPart, fingerprints: U64Array, rows: PageRows, within: int | None = None
    ) -> Measured:
        """How far a page is from others, as wholes and in their own parts.

        Own parts are compared where templates count and both are long enough, and for nothing
        where the pages consist of other standard paragraphs; with confirm_distance None they are
        not. within: sketch bits, as odd_sketch.compare has them.
        """
        reading = page.reading
        distances = _bits(fingerprints ^ np.uint64(reading.signatures.fingerprint))
        bits, similar = self.similar(reading.odd_rows, reading.whole, rows.whole, within=within)
        own_similar = np.full(len(distances), -1.0)
        if not page.is_all_that_counts and self.limits.confirm_distance is not None:
            own_distances = _bits(rows.own_fingerprints ^ np.uint64(page.fingerprint))
            distances = np.minimum(distances, own_distances)
            self._compare_own_parts(page, rows, own_similar)
            limit = self.limits.similarity
            alone = (own_similar >= limit) & (similar < limit)
            if True in alone and page.has_paragraphs:
                alone[alone] = self._lacks_paragraphs(page, rows.whole[alone])
                own_similar[alone] = -1.0
        return Measured(distances, bits, similar, own_similar)

    def _compare_own_parts(self, page: OwnPart, rows: PageRows, similar: F64Array) -> None:
        """Fill in how similar own parts are where both have min_words words."""
        usable = odd_sketch.sizes_of(rows.own) >= self.least_shingles
        if page.is_long_enough and usable.any():
            similar[usable] = self.similar(page.odd_rows, page.odd_row, rows.own[usable])[1]

    def _lacks_paragraphs(self, page: OwnPart, wholes: U64Array) -> BoolArray:
        """Which pages lack a standard paragraph of this one, by more than chance; shape (n,).

        Menus vary around one text. Standard paragraphs are what a contract or a course consists of,
        however many pages have each.
        """
        reading, row = page.reading, page.row_without_paragraphs
        similar = self.similar(reading.odd_rows, reading.whole, wholes)[1]
        without = np.concatenate([reading.signatures.sketch, row])
        rest_similar = self.similar(page.rows_without_paragraphs, without, wholes)[1]
        n_lacking = odd_sketch.n_lacking(wholes, (reading.odd_row, similar), (row, rest_similar))
        lacks: BoolArray = n_lacking > max(MAX_LACKING, page.n_words / OWN_TO_PARAGRAPHS)
        return lacks

    @property
    def least_shingles(self) -> int:
        """Of an own part by which pages are compared: what min_words words have."""
        return max(1, self.limits.min_words - odd_sketch.SHINGLE + 1)

    def similar(
        self,
        text: OddRows,
        row: U64Array,
        rows: U64Array,
        share: float = 1.0,
        within: int | None = None,
    ) -> tuple[I64Array, F64Array]:
        """Sketch bits between texts, and their similarity, whatever levels they are sampled at.

        text, row: of one; rows: of the others. share, within: see odd_sketch.compare. 0 for pages
        of other levels than those that were made ahead: they are far longer or shorter.
        """
        bits, similar, n_left = odd_sketch.compare(row, rows, share, within)
        if n_left:
            left, levels = np.isnan(similar), odd_sketch.levels_of(rows)
            similar[left & (levels > odd_sketch.MAX_LEVEL)] = 0.0  # made up: no page is
            for level in set(levels[left & (levels <= odd_sketch.MAX_LEVEL)].tolist()):
                again, at = text.at(level, self.key), left & (levels == level)
                if again is None:
                    similar[at] = 0.0
                    continue
                one = np.concatenate([row[:-ROW_WORDS], again])
                similar[at] = odd_sketch.compare(one, rows[at], share)[1]
        return bits, similar

    def n_differing(self, page: OwnPart, rows: PageRows, measured: Measured) -> F64Array:
        """How many shingles a page has and others have not, or these and it has not; shape (n,)."""
        return odd_sketch.n_differing(rows.whole, page.reading.odd_row, measured.similarity)

    def differing_facts(
        self,
        page: OwnPart,
        rows: PageRows,
        measured: Measured,
        n_differing: F64Array,
        is_least: bool = False,
    ) -> I64Array:
        """In what facts a page differs from others: as facts.differences; shape (n,).

        With pages that were read when no template of theirs was known, all facts are compared.
        is_least: whether n_differing is least_differing(), and so are own parts to be compared.
        """
        if not self.compare_facts or not len(rows.data):
            return np.zeros(len(rows.data), dtype=np.int64)
        own = odd_sketch.n_differing(rows.own, page.odd_row, measured.own_similarity)
        if is_least:
            own = least_differing(own, rows.own)
        found = self._differences(page, rows, n_differing, own)
        if not self.whole_pages:
            return found
        least = least_differing(n_differing, rows.whole)
        if least is not n_differing:
            found = or_negations(found, self._differences(page, rows, least, own))
        return differences_of_wholes(page.facts, rows.facts, n_differing, found)

    def _differences(
        self, page: OwnPart, rows: PageRows, n_differing: F64Array, own: F64Array
    ) -> I64Array:
        """As facts.differences, by the differing shingles of wholes or own parts, the fewer."""
        found = np.zeros(len(rows.data), dtype=np.int64)
        fewest = np.minimum(n_differing, own)
        plain = rows.have_no_own_part
        if not plain.all():
            found = differences(page.facts, rows.facts, fewest, own)
        if plain.any():
            facts = page.reading.all_facts, rows.facts[plain]
            found[plain] = differences(*facts, fewest[plain], n_differing[plain])
        return found

    def reworded(
        self, page: OwnPart, rows: PageRows, measured: Measured, n_differing: F64Array
    ) -> BoolArray:
        """Which pages say something else in a brief line, as facts.reworded has it; shape (n,).

        However much differs, also those with other words in the place of words in brief lines, and
        about as much other text as they lack: a menu of the day, whose lines are what differs.
        Print versions lack lines of menus and have others, but fewer.

        Of long pages, which are sampled, also those that may differ in a fact: to call them
        different for it would cost recall. None where whole pages are compared: nobody asks any
        more after that.
        """
        if not self.compare_facts or self.whole_pages:
            return np.zeros(len(rows.facts), dtype=bool)
        least = least_differing(n_differing, rows.whole)
        found: BoolArray = reworded(page.facts, rows.facts, least) != 0
        if True in (least > TWO_PLACES):
            found |= self._replaces_lines(page, rows, n_differing)
        if least is not n_differing:
            found |= self.differing_facts(page, rows, measured, least, is_least=True) != 0
        return found

    @staticmethod
    def _replaces_lines(page: OwnPart, rows: PageRows, n_differing: F64Array) -> BoolArray:
        as_if_all_else_were_equal = np.zeros(len(n_differing))
        found: BoolArray = reworded(page.facts, rows.facts, as_if_all_else_were_equal) == REPLACED
        if True in found:
            found &= exchange(rows.whole, page.reading.odd_row, n_differing)
        return found

    def rest_similarity(self, page: OwnPart, wholes: U64Array) -> F64Array:
        """How similar pages are in what is left of both without templates of this one.

        wholes: PageRows.whole of the others.
        """
        reading = page.reading
        share = page.n_words / reading.n_words if reading.n_words else 1.0
        return self.similar(reading.odd_rows, reading.whole, wholes, share)[1]

    def rest_agrees(self, page: OwnPart, rows: PageRows, places: I64Array) -> BoolArray:
        """Which of some pages are also near in what is left without the host's templates."""
        similar = self.rest_similarity(page, rows.whole[places])
        return own_parts_agree(np.full(len(places), page.n_words), similar, self.limits)


def _bits(words: U64Array) -> I64Array:
    return np.bitwise_count(words).astype(np.int64)


def or_negations(found: I64Array, of_least: I64Array) -> I64Array:
    """In what pages differ, a negation included that only the fewest differing shingles tell of.

    found, of_least: as facts.differences, by n_differing() and by least_differing(). Of long pages,
    which are sampled, one that is added may count for more shingles than a negation is one of.
    """
    return np.where((found == 0) & (of_least == NEGATION), NEGATION, found)
