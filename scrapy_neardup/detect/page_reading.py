"""A page as it was read, and what its host's templates leave of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any, Generic, TypeVar

import numpy as np

import scrapy_neardup.kernels as kernels
from scrapy_neardup.detect import odd_sketch
from scrapy_neardup.detect.content import no_lines
from scrapy_neardup.detect.facts import NO_FACTS, Facts, packed
from scrapy_neardup.detect.odd_sketch import OddRows
from scrapy_neardup.detect.page_row import NO_ATTRIBUTES, attribute_bits
from scrapy_neardup.detect.page_table import digest_of
from scrapy_neardup.detect.templates import NOTHING, HostBlocks, each_once
from scrapy_neardup.detect.text import Blocks
from scrapy_neardup.engines import Engine, Signatures
from scrapy_neardup.errors import EngineFailed
from scrapy_neardup.kernels.numpy_twin import BoolArray, U64Array
from scrapy_neardup.kernels.numpy_twin.facts import BRIEF

T = TypeVar("T")

# Where markup cannot be kept until templates are known, the attributes of longer pages are let go.
MAX_AROUND = 500  # words


class lazy(Generic[T]):  # noqa: N801 - used as property is
    """functools.cached_property without a lock.

    Up to Python 3.11 that has one, and taking it costs more than most of these values.
    """

    def __init__(self, make: Callable[[Any], T]) -> None:
        self._make = make
        self._name = make.__name__

    def __get__(self, instance: Any, owner: type) -> T:
        value = instance.__dict__[self._name] = self._make(instance)
        return value


@dataclass(eq=False)
class PageReading:
    """All that a decision needs of a page; made by Detector.read, in any thread.

    Its signatures are made when they are first asked for: an exact repeat is decided without.
    """

    url: str
    site: int  # site_number
    host: int  # the same of its host, by which templates are learnt
    words: bytes
    n_words: int
    blocks: Blocks
    digest: bytes  # of text, headings, data, details; where they count, of attributes too
    data: U64Array  # page_row.data_row of what markup and scripts say
    attributes: Callable[[], list[str]]  # see PageContent
    is_mostly_script: bool  # few words beside scripts that may hold the rest: not to be compared
    engine: Engine | None  # None in another process, where every signature comes along
    facts: Facts = NO_FACTS  # where they are ignored
    tag: int = 0  # of lines that tell of the visit, which are left out of all but the digest
    own: OwnPart | None = None  # see Detector.read_own_part

    @lazy
    def blocks_and_heads(self) -> U64Array:
        """What templates are made of: blocks, and the parts of title and headings."""
        return np.concatenate([self.blocks.hashes, self.facts.titles, self.facts.headings])

    @lazy
    def learnt(self) -> U64Array:
        """What a journal keeps for templates: blocks_and_heads, ascending, each once."""
        return each_once(self.blocks_and_heads)

    def count_attributes(self) -> None:
        """Tell the page apart by its attributes too, from now on."""
        if not self.counts_attributes:
            self.digest = self.digest_with(attributes=True)
            self.data = self.data.copy()
            self.data[-1] |= np.uint64(self.attribute_bits)
            self.__dict__.pop("row", None)  # which holds the data

    @property
    def counts_attributes(self) -> bool:
        """Whether the page is told apart by its attributes."""
        return bool(int(self.data[-1]) >> 32)

    def digest_with(self, attributes: bool) -> bytes:
        """The digest with or without attributes; where they count already, always with them.

        Where there are none it is the same: a host's first page, of which they count, and a copy.
        """
        if self.counts_attributes or not attributes or self.attribute_bits == NO_ATTRIBUTES:
            return self.digest
        return digest_of(self.digest + self.attribute_bits.to_bytes(8, "little"))

    @lazy
    def attribute_bits(self) -> int:
        """What its attributes say, as page_row.attribute_bits has it."""
        assert self.engine is not None
        lines, self.attributes = self.attributes(), no_lines
        return attribute_bits(lines, self.engine.sketch_spec.key)

    def let_go_of_markup(self) -> None:
        """Make what needs the page's markup, which is in memory for as long as it may be needed."""
        if self.n_words >= MAX_AROUND:
            self.attributes = no_lines
        _ = self.attribute_bits

    @lazy
    def signatures(self) -> Signatures:
        """Fingerprint and sketch, as the engine makes them. Raises EngineFailed."""
        assert self.engine is not None
        try:
            return self.engine.signatures(self.words)
        except Exception as error:
            raise EngineFailed(f"{type(self.engine).__name__} failed: {error!r}") from error

    @lazy
    def odd_row(self) -> U64Array:
        """What tells how much of two pages is the same; see odd_sketch.py."""
        assert self.engine is not None
        return self.odd_rows.own(self.n_words, self.engine.sketch_spec.key)

    @lazy
    def odd_rows(self) -> OddRows:
        """The same at any level."""
        return OddRows(self.words)

    @lazy
    def whole(self) -> U64Array:
        """Sketch and odd sketch, as PageRows.whole has them of other pages."""
        return np.concatenate([self.signatures.sketch, self.odd_row])

    @lazy
    def all_facts(self) -> U64Array:
        """The page's facts as if no template were known; shape (FACT_WORDS,)."""
        every = np.ones(len(self.blocks_and_heads), dtype=bool)
        return packed(self.words, self.blocks, self.facts, every, self.tag)

    @lazy
    def row(self) -> U64Array:
        """What the page table keeps of the page if no template is known; see page_row.py."""
        fingerprint = np.array([self.signatures.fingerprint], dtype=np.uint64)
        return np.concatenate([fingerprint, self.data, self.whole, self.odd_row, self.all_facts])

    def signed_by(self, engine: Engine) -> PageReading:
        """The same page with the signatures of another engine, as under another key."""
        known = {field.name: getattr(self, field.name) for field in fields(self)}
        again = PageReading(**known | {"engine": engine, "own": None})
        again.__dict__["attribute_bits"] = self.attribute_bits
        return again


class OwnPart:
    """What a host's templates leave of a page; each part is made when it is first asked for."""

    def __init__(
        self, page: PageReading, known: HostBlocks, engine: Engine, min_words: int
    ) -> None:
        """known: the host's templates; min_words: fewer are too little to compare pages by."""
        self.reading = page
        self.known = known
        self._engine = engine
        self._min_words = min_words

    @lazy
    def _are_own(self) -> BoolArray:
        """Which of blocks_and_heads are of no template."""
        own: BoolArray = ~self.known.template(self.reading.blocks_and_heads)
        return own

    @lazy
    def _is_own(self) -> BoolArray:
        return self._are_own[: len(self.reading.blocks.hashes)]

    @lazy
    def is_without_templates(self) -> bool:
        """Whether neither a line nor a part of title and headings is a template's."""
        return bool(self._are_own.all())

    @lazy
    def is_whole(self) -> bool:
        """Whether no line of the page is a template's."""
        return self.is_without_templates or bool(self._is_own.all())

    @property
    def n_words(self) -> int:
        """How many words are left."""
        return self._words[1]

    @property
    def is_all_that_counts(self) -> bool:
        """Whether no template of the host is known, or none is to count."""
        return self.known is NOTHING

    @property
    def is_long_enough(self) -> bool:
        """Whether enough is left to compare pages by it."""
        return self.n_words >= self._min_words

    @property
    def words(self) -> bytes:
        """The words that are left, in order."""
        return self._words[0]

    @lazy
    def _words(self) -> tuple[bytes, int]:
        page = self.reading
        if self.is_whole:
            return page.words, page.n_words
        blocks, is_own = page.blocks, self._is_own
        left: tuple[bytes, int] = kernels.templates.own_words(
            page.words, blocks.ends, blocks.n_words, is_own
        )
        return left

    @lazy
    def _are_paragraphs(self) -> BoolArray:
        """Which lines are a template's, and too long for a menu's: standard paragraphs."""
        paragraphs: BoolArray = ~self._is_own & (self.reading.blocks.n_words > BRIEF)
        return paragraphs

    @lazy
    def has_paragraphs(self) -> bool:
        """Whether a standard paragraph stands on the page."""
        return bool(self._are_paragraphs.any())

    @lazy
    def rows_without_paragraphs(self) -> OddRows:
        """The odd sketches of the page without its standard paragraphs."""
        page, blocks, are_left = self.reading, self.reading.blocks, ~self._are_paragraphs
        left = kernels.templates.own_words(page.words, blocks.ends, blocks.n_words, are_left)
        return OddRows(left[0])

    @lazy
    def row_without_paragraphs(self) -> U64Array:
        """The one at the level of the whole page."""
        key = self._engine.sketch_spec.key
        return self.rows_without_paragraphs.own(self.reading.n_words, key)

    @lazy
    def fingerprint(self) -> int:
        """That of the words that are left; the page's if they are all or too few."""
        if self.is_whole or not self.is_long_enough:
            return self.reading.signatures.fingerprint
        return self._engine.fingerprint(self.words)

    @lazy
    def odd_row(self) -> U64Array:
        """The odd sketch of the words that are left."""
        if self.is_whole:
            return self.reading.odd_row
        return self.odd_rows.own(self.n_words, self._engine.sketch_spec.key)

    @lazy
    def odd_rows(self) -> OddRows:
        """The same at any level."""
        return self.reading.odd_rows if self.is_whole else OddRows(self.words)

    @lazy
    def facts(self) -> U64Array:
        """The page's facts without those of templates; shape (FACT_WORDS,)."""
        page = self.reading
        if self.is_without_templates:
            return page.all_facts
        return packed(page.words, page.blocks, page.facts, self._are_own, page.tag)

    def read(self, key: int) -> None:
        """Make all that takes time linear in the page, in any thread. key: of the sketches."""
        for text in (self.reading, self):
            text.odd_rows.make(odd_sketch.level_of(text.n_words), key)
        if self.has_paragraphs:
            self.rows_without_paragraphs.make(odd_sketch.level_of(self.reading.n_words), key)
        _ = self.fingerprint, self.odd_row, self.facts, self.reading.all_facts

    @lazy
    def row(self) -> U64Array:
        """What the page table keeps of the page; see page_row.py."""
        page = self.reading
        if self.is_without_templates:
            return page.row
        own = np.array([self.fingerprint], dtype=np.uint64)
        return np.concatenate([own, page.data, page.whole, self.odd_row, self.facts])
