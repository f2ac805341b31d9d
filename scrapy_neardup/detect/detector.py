"""Text → fingerprint → candidates → confirmed Decision. Knows no Scrapy."""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache
from hashlib import blake2b
from typing import Any, Literal, NamedTuple, Self
from urllib.parse import urlsplit

import numpy as np
from publicsuffixlist import PublicSuffixList

from scrapy_neardup.detect import odd_sketch
from scrapy_neardup.detect.content import PageContent
from scrapy_neardup.detect.facts import FACT_WORDS, REASONS, Facts, differences, facts_of, packed
from scrapy_neardup.detect.near import (
    CONFIRM_DISTANCE,
    DISTANCE,
    MIN_WORDS,
    SIMILARITY,
    Limits,
    Measured,
    in_order,
    near,
    own_parts_agree,
)
from scrapy_neardup.detect.odd_sketch import ROW_WORDS
from scrapy_neardup.detect.page_table import Page, PageTable, digest_of, site_number
from scrapy_neardup.detect.templates import NOTHING, TEMPLATE_BYTES, Host, HostTemplates
from scrapy_neardup.detect.text import Blocks, exact_text, words_and_blocks
from scrapy_neardup.engines import Engine, Signatures
from scrapy_neardup.errors import BrokenInvariant, EngineFailed, ScanLimitReached, SnapshotError
from scrapy_neardup.index import Index
from scrapy_neardup.kernels.numpy_twin import BoolArray, F64Array, I64Array, U64Array
from scrapy_neardup.stored_arrays import check_below

DecisionKind = Literal["new", "exact", "near", "near-but-differs", "too-short", "undecided"]
INDEXED: frozenset[DecisionKind] = frozenset(
    {"new", "near", "near-but-differs"}
)  # others may be near it
Scope = Literal["site", "all"]
Admit = Literal["novel", "all"]
Templates = Literal["learn", "keep"]
FactRule = Literal["compare", "ignore"]

DATA_WORDS = 1  # of a row in the page table: what markup and scripts say, before the sketches
SCRIPT_SHARE = 4  # so many times as much unread script as text may hold what the page says

# What most URLs begin with; of any other the whole decides, as urlsplit() reads it.
AUTHORITY = re.compile(r"https?://[a-z0-9.:-]+(?=[/?#]|\Z)")


@dataclass(eq=False)
class PageReading:
    """All that a decision needs of a page; made by Detector.read, in any thread.

    Its signatures are made when they are first asked for: an exact repeat is decided without.
    """

    url: str
    site: int  # site_number
    host: int  # the same of its host, by which templates are learnt
    words: bytes
    blocks: Blocks
    digest: bytes
    data: int  # data_number of what markup and scripts say
    is_mostly_script: bool  # few words beside scripts that may hold the rest: not to be compared
    engine: Engine | None  # None in another process, where every signature comes along
    text: str = ""  # of which facts are taken; empty where they are ignored
    heads: Sequence[str] = ()  # title, then first headings

    @cached_property
    def facts(self) -> Facts:
        """Numbers, symbols and negations, with the words around them."""
        return facts_of(self.text, self.heads)

    @cached_property
    def n_words(self) -> int:
        """How many words the page has."""
        return sum(self.blocks.n_words.tolist())

    def words_of(self, wanted: BoolArray) -> bytes:
        """The words of some of its blocks, in order."""
        spaces = np.flatnonzero(np.frombuffer(self.words, dtype=np.uint8) == ord(" "))
        ends = np.append(spaces, len(self.words))[np.cumsum(self.blocks.n_words) - 1].tolist()
        starts = [0, *(end + 1 for end in ends[:-1])]
        spans = zip(starts, ends, wanted.tolist(), strict=True)
        return b" ".join(self.words[start:end] for start, end, is_wanted in spans if is_wanted)

    @property
    def blocks_and_heads(self) -> Blocks:
        """What templates are learnt from: blocks, and the parts of title and headings."""
        heads = np.concatenate([self.facts.titles, self.facts.headings])
        return Blocks(
            np.concatenate([self.blocks.hashes, heads]),
            np.concatenate([self.blocks.n_words, np.zeros(len(heads), dtype=np.int64)]),
        )

    @cached_property
    def signatures(self) -> Signatures:
        """Fingerprint and sketch, as the engine makes them. Raises EngineFailed."""
        assert self.engine is not None
        try:
            return self.engine.signatures(self.words)
        except Exception as error:
            raise EngineFailed(f"{type(self.engine).__name__} failed: {error!r}") from error

    @cached_property
    def odd_row(self) -> U64Array:
        """What tells how much of two pages is the same; see odd_sketch.py."""
        assert self.engine is not None
        level, key = odd_sketch.level_of(self.n_words), self.engine.sketch_spec.key
        return odd_sketch.odd_row(self.words, level, key)

    @cached_property
    def sketch(self) -> U64Array:
        """Data, the sketch that confirms, the row that measures."""
        return row_of(self.data, self.signatures.sketch, self.odd_row)

    def __getstate__(self) -> dict[str, Any]:
        made = {"signatures": self.signatures, "odd_row": self.odd_row, "facts": self.facts}
        return self.__dict__ | made | {"engine": None, "text": "", "heads": ()}


class Decision(NamedTuple):
    """What the detector says of a page.

    kind             "new", or a duplicate: "exact" (the same text), "near"; "too-short" and
                     "undecided" pages are to be kept, as is one that is "near-but-differs"
    fingerprint      of the page
    words            how many it has
    original         URL of the page it repeats, or nearly repeats; None for other kinds
    original_id      that page's row
    distance         fingerprint bits that differ from the original's
    sketch_distance  sketch bits that differ
    similarity       estimated Jaccard similarity of the 5-word shingles; 1.0 where exact
    page_id          the page's own row, None where it was not admitted
    elsewhere        URL of a page of another site that it repeats; never a reason to drop
    unconfirmed      pages near by fingerprint that the sketches told apart from it
    differs          in what a page that is "near-but-differs" does: one of facts.REASONS
    cold             whether it is "new" only because too little is known of its host's templates
    """

    kind: DecisionKind
    fingerprint: int
    words: int
    original: str | None = None
    original_id: int | None = None
    distance: int | None = None
    sketch_distance: int | None = None
    similarity: float | None = None
    page_id: int | None = None
    elsewhere: str | None = None
    unconfirmed: int = 0
    cold: bool = False
    differs: str | None = None

    @property
    def is_duplicate(self) -> bool:
        """Whether another page of the same scope says the same."""
        return self.kind in ("exact", "near")


class Match(NamedTuple):
    """A stored page that a page repeats."""

    id: int
    distance: int
    sketch_distance: int
    similarity: float
    differs: str | None = None  # the fact that keeps it from being the original


class Detector:
    """Decides page by page whether an earlier page said the same.

    Exact repeats are found by a 128-bit digest of the text, case and symbols included (text.py).
    Of the rest, the fingerprint finds pages within `distance` bits; those whose sketch is within
    `confirm_distance` bits and whose 5-word shingles are at least `similarity` alike (Jaccard,
    estimated: see odd_sketch.py) are confirmed. confirm_distance None: trust the fingerprint.
    Pages of fewer than `min_words` words are compared exactly only; a page without words
    repeats nothing.

    boilerplate  "learn": what a host repeats on its pages has no weight. A page that is near
                 as a whole must also be near in what is left, by the same similarity, and
                 min_words of it must be left. Of the first pages of a host (templates.WARM), and
                 where its templates were forgotten, none is near. It can only keep more pages.
                 "keep": every word counts
    template_bytes  memory for what is learnt of all hosts; a host without room is never warm
    facts        "compare": a page is no copy where title, heading, number, symbol or negation
                 differ from the page that it is near (facts.py); "ignore": they may
    scope        "site": only pages of the same registrable domain count, others are named in
                 `elsewhere`; "all": every page counts
    admit        "novel": only pages that repeat nothing are remembered, so that every duplicate
                 is near a page that was kept; "all": duplicates are remembered, too, and a chain
                 of small changes may lead away from the page that was kept

    A URL never matches itself: read again unchanged it is judged as before, by the pages
    before it; read again with other words, it replaces its earlier self.
    """

    def __init__(
        self,
        engine: Engine,
        index: Index,
        *,
        distance: int = DISTANCE,
        confirm_distance: int | None = CONFIRM_DISTANCE,
        similarity: float = SIMILARITY,
        min_words: int = MIN_WORDS,
        scope: Scope = "site",
        admit: Admit = "novel",
        boilerplate: Templates = "learn",
        facts: FactRule = "compare",
        template_bytes: int = TEMPLATE_BYTES,
    ) -> None:
        self.engine = engine
        self.index = index
        width = DATA_WORDS + engine.sketch_spec.n_words + 2 * ROW_WORDS + FACT_WORDS
        self.pages = PageTable(width)
        self.templates = HostTemplates(template_bytes)
        self.limits = Limits(distance, confirm_distance, similarity, min_words)
        self.scope = scope
        self.admit = admit
        self.boilerplate = boilerplate
        self.facts = facts
        _suffixes()  # read now: 0.1 s, no page waits

    def read(self, url: str, content: PageContent | str) -> PageReading:
        """What a page says. Pure, and safe in any thread: the slow half of a decision."""
        page = PageContent(content) if isinstance(content, str) else content
        words, blocks = words_and_blocks(page.text)
        exact, data, is_mostly_script = exact_text(page.text), page.data, False
        if int(blocks.n_words.sum()) < self.limits.min_words:
            data = data + page.attributes()
            is_mostly_script = page.unread_chars > SCRIPT_SHARE * len(exact)
        if page.heads or data:
            exact = b"\xff".join([exact, encoded(page.heads), encoded(data)])  # never in UTF-8
        reading = PageReading(
            url,
            site_number(site_of(url)),
            site_number(host_of(url)),
            words,
            blocks,
            digest_of(exact),
            data_number(data, self.engine.sketch_spec.key),
            is_mostly_script,
            self.engine,
        )
        if self.facts == "compare":
            reading.text, reading.heads = page.text, page.heads
        return reading

    def decide(self, reading: PageReading, learn: bool = True) -> Decision:
        """Look the page up and remember it, in one step; not safe in several threads.

        Raises EngineFailed; the page is not remembered then.

        learn: whether to learn templates from it, too; else learn() does.
        """
        earlier = self.pages.with_url(reading.url)
        decision = self._decided(reading, self._unchanged(earlier, reading))
        if learn and earlier is None and decision.kind != "exact":
            self.learn(reading)
        return decision

    def decide_copy(self, url: str, digest: bytes, n_words: int) -> Decision | None:
        """The decision about a page of which only the digest and the number of words are known.

        None where they do not suffice, as of a page that is to be remembered: then read it.
        """
        scope = self._scope_of(site_number(site_of(url)))
        same = self.pages.with_digest(digest, scope) if n_words else None
        if same is None or self.admit == "all" or self.pages.with_url(url) is not None:
            return None
        fingerprint, original = int(self.pages.fingerprints[same]), self.pages.url(same)
        return Decision("exact", fingerprint, n_words, original, same, 0, 0, 1.0)

    def _decided(self, reading: PageReading, own: int | None) -> Decision:
        if reading.is_mostly_script:
            fingerprint = reading.signatures.fingerprint
            return Decision("undecided", fingerprint, reading.n_words, page_id=own)
        here = self._scope_of(reading.site)
        exact = self.pages.with_digest(reading.digest, here) if reading.words else None
        if exact is not None and exact != own:
            return self._conclude(reading, "exact", own, Match(exact, 0, 0, 1.0))
        if reading.n_words < self.limits.min_words:
            return self._conclude(reading, "too-short", own)
        try:
            found, n_unconfirmed = self._near(reading, own)
        except ScanLimitReached:
            return self._conclude(reading, "undecided", own)
        match, elsewhere = self._originals(reading, [m for m in found if m.differs is None])
        nearly = self._originals(reading, found)[0] if match is None else None
        cold = bool(match or nearly) and self.boilerplate == "learn" and self.is_cold(reading)
        if cold:
            match = nearly = None
        kind: DecisionKind = "near" if match else "near-but-differs" if nearly else "new"
        decision = self._conclude(reading, kind, own, match, elsewhere)
        decision = decision._replace(unconfirmed=n_unconfirmed, cold=cold)
        return decision if nearly is None else self._differing(decision, nearly)

    def _differing(self, decision: Decision, nearly: Match) -> Decision:
        """The decision with the page that it would repeat if no fact differed."""
        return decision._replace(
            original=self.pages.url(nearly.id),
            distance=nearly.distance,
            sketch_distance=nearly.sketch_distance,
            similarity=nearly.similarity,
            differs=nearly.differs,
        )

    def restore(self, page: Page, indexed: bool) -> int:
        """Remember a page as the state kept it, in place of its URL's earlier one; its id.

        indexed: whether other pages may be near it, as with kinds "new" and "near".
        """
        own = self.pages.with_url(page.url)
        if own is not None:
            if self.pages.page(own).digest == page.digest:
                return own
            self.forget(own)
        return self._add(page, indexed)

    def forget_before(self, time: float) -> int:
        """Forget every page stored before a time (seconds since the epoch); how many."""
        ids = self.pages.ids()
        old = ids[self.pages.times.take(ids) < time]
        if len(old):
            # Only novel pages are in the index by default.
            self.index.discard_many(self.pages.fingerprints.take(old), old)
            self.pages.forget_many(old)
        return len(old)

    def forget(self, page_id: int) -> bool:
        """Forget a page, so that nothing repeats it any more; whether it was known."""
        if not self.pages.forget(page_id):
            return False
        self.index.discard(int(self.pages.fingerprints[page_id]), page_id)
        return True

    def __len__(self) -> int:
        """Pages remembered."""
        return len(self.pages)

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays, the index included."""
        return self.pages.nbytes + self.index.nbytes + self.templates.nbytes

    def arrays(self) -> dict[str, Any]:
        """The state as named arrays, for a snapshot."""
        parts = {
            "pages.": self.pages.arrays(),
            "index.": self.index.arrays(),
            "templates.": self.templates.arrays(),
        }
        return {prefix + name: a for prefix, part in parts.items() for name, a in part.items()}

    @classmethod
    def from_arrays(
        cls, arrays: dict[str, Any], engine: Engine, index: type[Index], **rules: Any
    ) -> Self:
        """The detector that arrays() described; `rules` are the keywords of the class."""
        stored = _under("index.", arrays)
        detector = cls(engine, index.from_arrays(stored), **rules)
        if detector.index.bits != engine.spec.bits:
            raise SnapshotError(f"an index of {detector.index.bits} bits for {engine.spec.bits}")
        n_words = detector.pages.sketch_words
        detector.pages = PageTable.from_arrays(_under("pages.", arrays))
        if detector.pages.sketch_words != n_words:
            raise SnapshotError(f"sketches of {detector.pages.sketch_words} words, not {n_words}")
        for name in stored.keys() & {"ids", "live_ids"}:  # of our indexes, not of others
            check_below(f"index, {name}", stored[name], detector.pages.n_rows)
        learnt, max_bytes = _under("templates.", arrays), detector.templates.max_bytes
        detector.templates = HostTemplates.from_arrays(learnt, max_bytes)
        return detector

    def check(self) -> None:
        """Every invariant, at any cost. Raises BrokenInvariant."""
        self.pages.check()
        self.index.check()
        self.templates.check()
        if len(self.index) > len(self.pages):
            raise BrokenInvariant(
                f"the index holds {len(self.index)} pages, the page table {len(self.pages)}"
            )

    def _unchanged(self, earlier: int | None, reading: PageReading) -> int | None:
        """The row of the page's earlier self; one with other words is forgotten."""
        if earlier is None or self.pages.page(earlier).digest == reading.digest:
            return earlier
        self.forget(earlier)
        return None

    def _scope_of(self, site: int) -> int:
        """The number that pages must share to be compared."""
        return site if self.scope == "site" else 0

    def _originals(
        self, reading: PageReading, found: list[Match]
    ) -> tuple[Match | None, Match | None]:
        """The original of the same scope, and that of other sites."""
        sites, here = self.pages.sites, self._scope_of(reading.site)
        return (
            next((match for match in found if sites[match.id] == here), None),
            next((match for match in found if sites[match.id] != here), None),
        )

    def _near(self, reading: PageReading, own: int | None) -> tuple[list[Match], int]:
        """The pages that a page is near, the original to be named first; and how many more are
        near by fingerprint alone."""
        limits = self.limits
        ids, distances = self.index.all_within(reading.signatures.fingerprint, limits.distance)
        if own is not None:  # read again: only what came before it counts
            earlier = ids < own
            ids, distances = ids[earlier], distances[earlier]
        if not len(ids):
            return [], 0
        stored = self.pages.sketches.take(ids)
        n_candidates = len(ids)
        same_data = stored[:, 0] == np.uint64(reading.data)
        ids, distances, stored = ids[same_data], distances[same_data], stored[same_data]
        rows = stored[:, : -ROW_WORDS - FACT_WORDS]
        bits, similar = self.compare(reading, rows, within=limits.confirm_distance)
        measured = Measured(distances, bits, similar)
        learns = self.boilerplate == "learn"
        own_similar = self.compare_own_parts(reading, stored)
        confirmed = near(
            measured,
            limits,
            (lambda places: self._own_parts_agree(reading, rows[places])) if learns else None,
            own_similar,
        )
        measured = measured._replace(similarity=np.maximum(similar, own_similar))
        ids, measured = ids[confirmed], measured.where(confirmed)
        reasons = self.compare_facts(
            reading, stored[confirmed], similar[confirmed], own_similar[confirmed]
        )
        order = in_order(ids, measured)
        columns = (column[order].tolist() for column in (ids, *measured))
        differ = [(None, *REASONS)[reason] for reason in reasons[order].tolist()]
        found = [Match(*row) for row in zip(*columns, differ, strict=True)]
        return found, n_candidates - len(ids)

    def stored_row(self, reading: PageReading) -> U64Array:
        """What the page table keeps of a page: sketch, odd sketch of its own part, facts."""
        return np.concatenate([reading.sketch, self._own_row(reading), self._facts_row(reading)])

    def _known(self, reading: PageReading) -> Host:
        """What is known of the page's host, nothing where templates do not count."""
        known = self.templates.known(reading.host)
        counts = self.boilerplate == "learn" and not self.is_cold(reading)
        return known if known is not None and counts else NOTHING

    def _facts_row(self, reading: PageReading) -> U64Array:
        return packed(reading.facts, self._known(reading).template, reading.blocks.hashes)

    def _own_row(self, reading: PageReading) -> U64Array:
        """The odd sketch of what templates leave; that of the whole page if they leave all."""
        is_own = ~self._known(reading).template(reading.blocks.hashes)
        if is_own.all():
            return reading.odd_row
        words, n_words = reading.words_of(is_own), int(reading.blocks.n_words[is_own].sum())
        level = odd_sketch.level_of(n_words)
        return odd_sketch.odd_row(words, level, self.engine.sketch_spec.key)

    def compare_own_parts(self, reading: PageReading, stored: U64Array) -> F64Array:
        """How similar the own part of a page is to those of others; shape (n,).

        stored: their stored_row(), shape (n, words). -1 where one is too short, or sampled
        otherwise, or where templates do not count.
        """
        similar = np.full(len(stored), -1.0)
        if self._known(reading) is NOTHING or not len(stored):
            return similar
        row = self._own_row(reading)
        rows = np.ascontiguousarray(stored[:, -ROW_WORDS - FACT_WORDS : -FACT_WORDS])
        least = max(1, self.limits.min_words - odd_sketch.SHINGLE + 1)
        long_enough = odd_sketch.sizes_of(rows) >= least
        if odd_sketch.sizes_of(row.reshape(1, -1))[0] >= least:
            found = odd_sketch.compare(row, rows)[1]
            usable = long_enough & ~np.isnan(found)
            similar[usable] = found[usable]
        return similar

    def compare_facts(
        self, reading: PageReading, stored: U64Array, similar: F64Array, own_similar: F64Array
    ) -> I64Array:
        """In what facts a page differs from others: as facts.differences; shape (n,).

        stored: their stored_row(), shape (n, words); similar, own_similar: as compare() and
        compare_own_parts() tell.
        """
        if self.facts == "ignore" or not len(stored):
            return np.zeros(len(stored), dtype=np.int64)
        whole, own = stored[:, : -ROW_WORDS - FACT_WORDS], stored[:, :-FACT_WORDS]
        n_differing = np.minimum(
            odd_sketch.n_differing(whole, reading.odd_row, similar),
            odd_sketch.n_differing(own, self._own_row(reading), own_similar),
        )
        return differences(self._facts_row(reading), stored[:, -FACT_WORDS:], n_differing)

    def compare(
        self,
        reading: PageReading,
        rows: U64Array,
        share: float = 1.0,
        within: int | None = None,
    ) -> tuple[I64Array, F64Array]:
        """Sketch bits between a page and others, and how similar they are; each of shape (n,).

        A page of other data is not similar at all, whatever its words.
        rows: their PageReading.sketch, shape (n, words). The page is sampled as each of them
        was. share (of its words), within (bits, None for any): see odd_sketch.compare.
        """
        sketches = np.ascontiguousarray(rows[:, DATA_WORDS:])
        own = reading.sketch[DATA_WORDS:]
        bits, similar, n_left = odd_sketch.compare(own, sketches, share, within)
        if n_left:
            self._sample_as_they_are(reading, sketches, share, similar)
        similar[rows[:, 0] != np.uint64(reading.data)] = 0.0
        return bits, similar

    def _sample_as_they_are(
        self, reading: PageReading, rows: U64Array, share: float, similar: F64Array
    ) -> None:
        """Fill in how similar a page is to others that were sampled at other levels."""
        left, levels = np.isnan(similar), odd_sketch.levels_of(rows)
        for level in set(levels[left].tolist()):
            row = odd_sketch.odd_row(reading.words, level, self.engine.sketch_spec.key)
            own = np.concatenate([reading.signatures.sketch, row])
            at = left & (levels == level)
            similar[at] = odd_sketch.compare(own, rows[at], share)[1]

    def is_cold(self, reading: PageReading) -> bool:
        """Whether too little is known of a host to tell its templates from a page's own text.

        So it is with its first pages, and where a crash or the bounds on memory took what was
        learnt.
        """
        return not self.templates.is_warm(reading.host)

    def own_words(self, reading: PageReading) -> int:
        """How many words of a page are its own, not its host's; 0 while that is not known."""
        if self.boilerplate == "keep":
            return reading.n_words
        return (
            0 if self.is_cold(reading) else self.templates.own_words(reading.host, reading.blocks)
        )

    def compare_own(self, reading: PageReading, rows: U64Array) -> tuple[int, F64Array]:
        """Words of a page outside its host's templates, and how similar others are in these."""
        own_words = self.templates.own_words(reading.host, reading.blocks)
        share = own_words / reading.n_words if reading.n_words else 1.0
        return own_words, self.compare(reading, rows, share)[1]

    def _own_parts_agree(self, reading: PageReading, rows: U64Array) -> BoolArray:
        """Which pages are also near in what is left without the host's templates."""
        if self.is_cold(reading):
            return np.ones(len(rows), dtype=bool)
        own_words, similar = self.compare_own(reading, rows)
        return own_parts_agree(np.full(len(rows), own_words), similar, self.limits)

    def _conclude(
        self,
        reading: PageReading,
        kind: DecisionKind,
        own: int | None,
        match: Match | None = None,
        elsewhere: Match | None = None,
    ) -> Decision:
        """The decision in full, and the page remembered where it is admitted."""
        if own is None and reading.words and (match is None or self.admit == "all"):
            own = self._remember(reading, indexed=kind in INDEXED)
        same = match.id if match and kind == "exact" else None
        return Decision(
            kind,
            reading.signatures.fingerprint if same is None else int(self.pages.fingerprints[same]),
            reading.n_words,
            original=self.pages.url(match.id) if match else None,
            original_id=match.id if match else None,
            distance=match.distance if match else None,
            sketch_distance=match.sketch_distance if match else None,
            similarity=match.similarity if match else None,
            page_id=own,
            elsewhere=self.pages.url(elsewhere.id) if elsewhere else None,
        )

    def learn(self, reading: PageReading) -> bool:
        """Learn the host's templates from a page; whether templates are learnt.

        Not for exact repeats: read under many URLs, a page would become a template.
        """
        wanted = self.boilerplate == "learn"
        if wanted:
            self.templates.learn(reading.host, reading.blocks_and_heads)
        return wanted

    def _remember(self, reading: PageReading, indexed: bool) -> int:
        scope, fingerprint = self._scope_of(reading.site), reading.signatures.fingerprint
        page = Page(
            fingerprint, self.stored_row(reading), reading.digest, scope, reading.url, time.time()
        )
        return self._add(page, indexed)

    def _add(self, page: Page, indexed: bool) -> int:
        id = self.pages.add(page)
        try:
            if indexed:
                self.index.add(page.fingerprint, id)
        except BaseException:  # half remembered, its exact copies would be dropped
            self.pages.forget(id)
            raise
        return id


def row_of(data: int, sketch: U64Array, odd_row: U64Array) -> U64Array:
    """A page's row in the page table's sketches."""
    return np.concatenate([np.array([data], dtype=np.uint64), sketch, odd_row])


def encoded(lines: list[str]) -> bytes:
    """Lines as UTF-8."""
    return "\n".join(lines).encode("utf-8", "surrogatepass")


def data_number(lines: list[str], key: int) -> int:
    """A keyed 64-bit digest of data lines; 0 where there are none."""
    if not lines:
        return 0
    secret = key.to_bytes(16, "little")
    digest = blake2b(encoded(lines), digest_size=8, key=secret, person=b"neardup-data").digest()
    return int.from_bytes(digest, "little")


def _under(prefix: str, arrays: dict[str, Any]) -> dict[str, Any]:
    return {name[len(prefix) :]: a for name, a in arrays.items() if name.startswith(prefix)}


@cache
def _suffixes() -> PublicSuffixList:
    # The bundled list, private suffixes (github.io) included: no download. As one set of names
    # it gives a crawl's garbage collector nothing to visit; the trees of others do.
    return PublicSuffixList(accept_unknown=False)


def site_of(url: str) -> str:
    """The registrable domain of a URL, the host where it has none (an address, "localhost")."""
    found = AUTHORITY.match(url)
    return _site_and_host(found[0] if found else url)[0]


def host_of(url: str) -> str:
    """The host of a URL in lower case, without its port; the URL itself where it cannot be read."""
    found = AUTHORITY.match(url)
    return _site_and_host(found[0] if found else url)[1]


@lru_cache(maxsize=4096)
def _site_and_host(url: str) -> tuple[str, str]:
    try:
        host = (urlsplit(url).hostname or "").rstrip(".")
    except ValueError:  # "http://[": no host to speak of, so a site of its own
        return url, url
    is_address = ":" in host or host.rpartition(".")[2].isdigit()
    return host if is_address else _suffixes().privatesuffix(host) or host, host
