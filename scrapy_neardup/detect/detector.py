"""Text → fingerprint → candidates → confirmed Decision. Knows no Scrapy."""

from __future__ import annotations

import time
from typing import Any, Literal, NamedTuple, Self, TypeVar

import numpy as np

from scrapy_neardup.detect import odd_sketch
from scrapy_neardup.detect.comparison import Comparison
from scrapy_neardup.detect.content import PageContent
from scrapy_neardup.detect.decision import INDEXED, VISIT, WORDING, Decision, DecisionKind
from scrapy_neardup.detect.echoes import VisitEchoes
from scrapy_neardup.detect.facts import (
    NO_FACTS,
    REASONS,
    exact_text_and_facts,
    wording_of,
)
from scrapy_neardup.detect.id_table import IdTable
from scrapy_neardup.detect.near import (
    CONFIRM_DISTANCE,
    DISTANCE,
    FEW_WORDS,
    MIN_WORDS,
    SIMILARITY,
    NearLimits,
    in_order,
    near,
)
from scrapy_neardup.detect.page_reading import OwnPart, PageReading
from scrapy_neardup.detect.page_row import (
    TITLE,
    PageRows,
    attributes_count,
    data_row,
    markup_of,
    other_markup,
    say_the_same,
    width,
)
from scrapy_neardup.detect.page_table import PageRow, PageTable, digest_key, digest_of, site_number
from scrapy_neardup.detect.sites import host_of, site_of
from scrapy_neardup.detect.templates import NOTHING, TEMPLATE_BYTES, HostBlocks, HostTemplates
from scrapy_neardup.detect.text import exact_text, words_and_blocks
from scrapy_neardup.detect.titles import TitleIndex
from scrapy_neardup.engines import Engine
from scrapy_neardup.errors import BrokenInvariant, ScanLimitReached, SnapshotError
from scrapy_neardup.index import Index
from scrapy_neardup.kernels.numpy_twin import I64Array, U64Array
from scrapy_neardup.stored_arrays import check_below, under, whole

Scope = Literal["site", "all"]
Admit = Literal["novel", "all"]
Templates = Literal["learn", "keep"]
FactRule = Literal["compare", "ignore"]
Contained = Literal["keep", "drop"]

N = TypeVar("N", int, U64Array)

MAX_NAMED = 1 << 20  # pages that may be named in `elsewhere`: 16 MB
DIFFERS = np.array((None, *REASONS), dtype=object)  # by what differing_facts() says
HELD = 0.9  # share of an earlier page that a page must hold to contain it
SCRIPT_SHARE = 4  # so many times as much unread script as text may hold what the page says


class Match(NamedTuple):
    """A stored page that a page repeats."""

    id: int
    distance: int
    sketch_distance: int
    similarity: float
    differs: str | None = None  # the fact that keeps it from being the original
    is_reworded: bool = False  # says something else in a brief line
    has_other_markup: bool = False  # has other data, or other details of its markup


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
    whole_pages  True: a page is all that is kept of itself, so that it is no copy either where
                 other words stand in a brief line, or other facts in any, templates' included
                 (facts.py);
                 False: Decision.wording says so of a copy, whose items decide
    contained    "keep": a page that holds an earlier one whole and says more is named and kept,
                 as kind "contains"; "drop": it is near that page. Found among pages of the same
                 site and title
    scope        "site": only pages of the same registrable domain count, an equal one of another
                 is named in `elsewhere`; "all": every page counts
    admit        "novel": only pages that repeat nothing are remembered, so that every duplicate
                 is near a page that was kept; "all": duplicates are remembered, too, and a chain
                 of small changes may lead away from the page that was kept

    A URL never matches itself: read again unchanged it is judged as before, by the pages
    before it; read again with other words, it replaces its earlier self. If it repeats another page
    then, that is said (`has_changed`), and it is remembered, in no index, for its next change.

    Under scope "site" a look-up costs what the site holds: the index keeps sites apart. So of other
    sites only pages of equal text are named in `elsewhere`, of those remembered since the detector
    was made, while it has MAX_NAMED rows at most.
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
        whole_pages: bool = False,
        contained: Contained = "keep",
        template_bytes: int = TEMPLATE_BYTES,
    ) -> None:
        self.engine = engine
        self.index = index
        self.pages = PageTable(width(engine.sketch_spec.n_words))
        self.templates = HostTemplates(template_bytes)
        self.echoes = VisitEchoes()
        self.limits = NearLimits(distance, confirm_distance, similarity, min_words)
        self.scope = scope
        self.admit = admit
        self.boilerplate = boilerplate
        self.facts = facts
        self.contained = contained
        self.comparison = Comparison(
            self.limits, facts == "compare", whole_pages, engine.sketch_spec.key
        )
        self._titles = TitleIndex()
        self._texts = IdTable()  # digests → the first page, to name pages of other sites
        self._last: OwnPart | None = None  # asked for more than once in a decision

    def read(self, url: str, content: PageContent | str, is_page: bool = True) -> PageReading:
        """What a page says. Safe in any thread: the slow half of a decision.

        is_page: False for a text that is no page as it was fetched, and tells of no visit.
        """
        page, host = PageContent(content) if isinstance(content, str) else content, host_of(url)
        text, tag = page.text, 0
        if is_page and self.facts == "compare":
            text, tag = self.echoes.left_out(site_number(host), text, time.time())
        words, blocks = words_and_blocks(text)
        exact, facts = exact_text_and_facts(text, page.heads)
        if tag:
            exact = exact_text(page.text)
        n_words = sum(blocks.n_words.tolist())
        is_short = n_words < self.limits.min_words
        is_mostly_script = is_short and page.unread_chars > SCRIPT_SHARE * len(exact)
        if page.heads or page.data or page.details:
            parts = exact, encoded(page.heads), encoded(page.data), encoded(page.details)
            exact = b"\xff".join(parts)  # never in UTF-8
        return PageReading(
            url,
            site_number(site_of(url)),
            site_number(host),
            words,
            n_words,
            blocks,
            digest_of(exact),
            data_row(page.data, page.details, self.engine.sketch_spec.key),
            page.attributes,
            is_mostly_script,
            self.engine,
            facts if self.facts == "compare" else NO_FACTS,
            tag,
        )

    def decide(
        self,
        reading: PageReading,
        learn: bool = True,
        claimed: int | None = None,
        is_first: bool = False,
    ) -> Decision:
        """Look the page up and remember it, in one step; not safe in several threads.

        Raises EngineFailed; the page is not remembered then.

        learn: whether to learn templates from it, too; else learn() does.
        claimed: the row of the page that it names as its own. Where that says the same, it is the
        original, and no other page is looked for.
        is_first: no page was ever remembered under its URL, so that none is looked for.
        """
        earlier = None if is_first else self.pages.with_url(reading.url)
        self.count_attributes(reading, earlier)
        own_part, own = self.own_part(reading), self._unchanged(earlier, reading)
        decision = self._decided(own_part, own, claimed)
        if learn and earlier is None and decision.kind != "exact":
            self.learn(reading)
        if earlier is None or own is not None or not decision.is_duplicate:
            return decision
        own = decision.page_id
        if own is None:  # remembered, so that the next change is seen, too
            own = self._remember(own_part, indexed=False)
        return decision._replace(page_id=own, has_changed=True)

    def count_attributes(self, reading: PageReading, earlier: int | None = None) -> None:
        """Tell a page apart by its attributes too, if it has FEW_WORDS of its own.

        So it is with a host's first pages, of which is not known what is their own. earlier: the
        row of the page's earlier self; if the page is unchanged, it is told apart as that was.
        """
        counts = self.is_cold(reading) or self.own_part(reading).n_words < FEW_WORDS
        if earlier is not None:
            before = attributes_count(self.pages.sketches.take(np.array([earlier]))[0])
            if reading.digest_with(attributes=before) == self.pages.page(earlier).digest:
                counts = before
        if counts:
            reading.count_attributes()

    def read_own_part(self, reading: PageReading) -> None:
        """Make a long page's own part before it is decided about, in any thread.

        Templates that are learnt meanwhile do not count for it, but for a host's first.
        """
        reading.own = self._own_part(reading, self._templates_of(reading))
        reading.own.read(self.engine.sketch_spec.key)

    def may_count_attributes(self, reading: PageReading) -> bool:
        """Whether count_attributes() would count them now; safe in any thread."""
        own = reading.own or self._own_part(reading, self._templates_of(reading))
        return self.is_cold(reading) or own.n_words < FEW_WORDS

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

    def _decided(self, page: OwnPart, own: int | None, claimed: int | None = None) -> Decision:
        reading = page.reading
        if reading.is_mostly_script:
            fingerprint = reading.signatures.fingerprint
            return Decision("undecided", fingerprint, reading.n_words, page_id=own)
        here = self._scope_of(reading.site)
        exact = self.pages.with_digest(reading.digest, here) if reading.words else None
        if claimed is not None and not self._may_repeat(reading, own, claimed):
            claimed = None
        if exact is not None and exact != own:
            if claimed is not None and self.pages.page(claimed).digest == reading.digest:
                exact = claimed
            return self._conclude(page, "exact", own, Match(exact, 0, 0, 1.0))
        if reading.n_words < self.limits.min_words:
            return self._conclude(page, "too-short", own)
        try:
            found, n_unconfirmed = self._near(page, own, claimed)
        except ScanLimitReached:
            return self._conclude(page, "undecided", own)
        match = next((m for m in found if m.differs is None), None)
        nearly = found[0] if found and match is None else None
        is_cold = self.is_cold(reading)
        cold = is_cold and bool(match or nearly)
        if cold:
            match = nearly = None
        held = None if match or nearly or is_cold else self._held(page, own)
        if held is not None and self.contained == "drop":
            match, held = held, None
        kind: DecisionKind = (
            "near" if match else "near-but-differs" if nearly else "contains" if held else "new"
        )
        decision = self._conclude(page, kind, own, match, n_unconfirmed, cold)
        named = nearly or held
        return decision if named is None else self._named(decision, named)

    def _named(self, decision: Decision, nearly: Match) -> Decision:
        """The decision of a page that is kept, with the page that it nearly repeats or contains."""
        return decision._replace(
            original=self.pages.url(nearly.id),
            distance=nearly.distance,
            sketch_distance=nearly.sketch_distance,
            similarity=nearly.similarity,
            differs=nearly.differs,
        )

    def restore(self, page: PageRow, indexed: bool) -> int:
        """Remember a page as the state kept it, in place of its URL's earlier one; its id.

        indexed: whether other pages may be near it, as with kinds "new" and "near".
        """
        own = self.pages.with_url(page.url)
        if own is not None:
            if self.pages.page(own).digest == page.digest:
                return own
            self.forget(own)
        return self._add(page, indexed)

    def is_indexed(self, page_id: int) -> bool:
        """Whether other pages may be near a page, as restore() has it."""
        page = self.pages.page(page_id)
        found_by = np.array([self._indexed(page.fingerprint, page.site)], np.uint64)
        return bool(self.index.holds_many(found_by, np.array([page_id], np.int64))[0])

    def forget_before(self, time: float) -> int:
        """Forget every page stored before a time (seconds since the epoch); how many."""
        ids = self.pages.ids()
        old = ids[self.pages.times.take(ids) < time]
        if len(old):
            # Only novel pages are in the index by default.
            sites = self.pages.sites.take(old)
            for found_by in (
                self.pages.fingerprints.take(old),
                self.pages.sketches.take(old)[:, 0],
            ):
                self.index.discard_many(self._indexed(found_by, sites), old)
            self.pages.forget_many(old)
        return len(old)

    def forget(self, page_id: int) -> bool:
        """Forget a page, so that nothing repeats it any more; whether it was known."""
        if not self.pages.forget(page_id):
            return False
        self._discard(page_id)
        return True

    def _discard(self, page_id: int) -> None:
        page = self.pages.page(page_id)
        for fingerprint in self._fingerprints(page):
            self.index.discard(fingerprint, page_id)
        self._titles.remove(page, page_id)

    def _fingerprints(self, page: PageRow) -> set[int]:
        """What a page is found by: its fingerprint, and that of its own part."""
        found_by = (page.fingerprint, int(page.sketch[0]))
        return {self._indexed(fingerprint, page.site) for fingerprint in found_by}

    def _indexed(self, fingerprint: N, scope: N) -> N:
        """A fingerprint as the index has it.

        Each site moves its fingerprints by a number of its own: they stay as far from each other as
        they were, and those of other sites are near them by chance only.
        """
        return fingerprint ^ scope

    def __len__(self) -> int:
        """Pages remembered."""
        return len(self.pages)

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays, the index included."""
        tables = self.pages.nbytes + self.index.nbytes + self.templates.nbytes
        return tables + self._titles.nbytes

    def arrays(self) -> dict[str, Any]:
        """The state as named arrays, for a snapshot."""
        parts = {
            "pages.": self.pages.arrays(),
            "index.": self.index.arrays(),
            "templates.": self.templates.arrays(),
            "echoes.": self.echoes.arrays(),
            "titles.": self._titles.arrays(),
        }
        return {prefix + name: a for prefix, part in parts.items() for name, a in part.items()}

    @classmethod
    def from_arrays(
        cls, arrays: dict[str, Any], engine: Engine, index: type[Index], **rules: Any
    ) -> Self:
        """The detector that arrays() described; `rules` are the keywords of the class."""
        stored = under("index.", arrays)
        detector = cls(engine, index.from_arrays(stored), **rules)
        if detector.index.bits != engine.spec.bits:
            raise SnapshotError(f"an index of {detector.index.bits} bits for {engine.spec.bits}")
        n_words = detector.pages.sketch_words
        detector.pages = PageTable.from_arrays(under("pages.", arrays))
        if detector.pages.sketch_words != n_words:
            raise SnapshotError(f"sketches of {detector.pages.sketch_words} words, not {n_words}")
        for name in stored.keys() & {"ids", "live_ids"}:  # of our indexes, not of others
            check_below(f"index, {name}", whole(stored[name]), detector.pages.n_rows)
        titles = under("titles.", arrays)
        detector._titles = TitleIndex.from_arrays(titles, detector.pages.n_rows)
        learnt, max_bytes = under("templates.", arrays), detector.templates.max_bytes
        detector.templates = HostTemplates.from_arrays(learnt, max_bytes)
        detector.echoes = VisitEchoes.from_arrays(under("echoes.", arrays))
        return detector

    def check(self) -> None:
        """Every invariant, at any cost. Raises BrokenInvariant."""
        self.pages.check()
        self.index.check()
        self.templates.check()
        if len(self.index) > 2 * len(self.pages):
            raise BrokenInvariant(
                f"the index holds {len(self.index)} fingerprints, two at most of each page, "
                f"and the page table {len(self.pages)} pages"
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

    def _may_repeat(self, reading: PageReading, own: int | None, claimed: int) -> bool:
        """Whether a page could be the copy of the one that it names."""
        if not self.pages.is_known(claimed) or (own is not None and claimed >= own):
            return False
        return self.scope != "site" or int(self.pages.sites[claimed]) == reading.site

    def _near(
        self, page: OwnPart, own: int | None, claimed: int | None = None
    ) -> tuple[list[Match], int]:
        """The pages that a page is near, the original to be named first; and how many more are
        near by fingerprint alone."""
        if claimed is not None:
            found, n_unconfirmed = self._compared(page, np.array([claimed]))
            if found and found[0].differs is None:
                return found, n_unconfirmed
        ids = self._candidates(page)
        if own is not None:  # read again: only what came before it counts
            ids = ids[ids < own]
        return self._compared(page, ids)

    def _compared(self, page: OwnPart, ids: I64Array) -> tuple[list[Match], int]:
        """The same, of these pages."""
        if not len(ids):
            return [], 0
        rows = PageRows.of(self.pages.sketches.take(ids))
        within = self.limits.confirm_distance
        measured = self.comparison.measure(page, self.pages.fingerprints.take(ids), rows, within)
        rest_agrees = self.comparison.rest_agrees
        template_rule = None if page.is_all_that_counts else lambda at: rest_agrees(page, rows, at)
        confirmed = near(measured, self.limits, template_rule)
        n_found = int(np.count_nonzero(measured.distances <= self.limits.distance))
        if not confirmed.any():
            return [], n_found
        if not confirmed.all():
            ids, rows, measured = ids[confirmed], rows.where(confirmed), measured.where(confirmed)
        n_differing = self.comparison.n_differing(page, rows, measured)
        same = say_the_same(page.reading.data, rows.data, n_differing)
        if not same.all():
            ids, rows, measured = ids[same], rows.where(same), measured.where(same)
            n_differing = n_differing[same]
        n_unconfirmed = n_found - len(ids)
        reasons = self.comparison.differing_facts(page, rows, measured, n_differing)
        reworded = self.comparison.reworded(page, rows, measured, n_differing)
        order = in_order(ids, measured)
        similar = np.maximum(measured.similarity, measured.own_similarity)
        differ = DIFFERS[reasons]
        bits = measured.distances, measured.sketch_distances
        columns = ids, *bits, similar, differ, reworded, other_markup(page.reading.data, rows.data)
        parts = (column[order].tolist() for column in columns)
        return [Match(*row) for row in zip(*parts, strict=True)], n_unconfirmed

    def own_part(self, reading: PageReading) -> OwnPart:
        """What the templates of a page's host leave of it; all of it where they do not count."""
        known, last = self._templates_of(reading), self._last
        if reading.own is not None and (reading.own.known is NOTHING) == (known is NOTHING):
            return reading.own
        if last is None or last.reading is not reading or last.known is not known:
            self._last = last = self._own_part(reading, known)
        return last

    def _own_part(self, reading: PageReading, known: HostBlocks) -> OwnPart:
        return OwnPart(reading, known, self.engine, self.limits.min_words)

    def _templates_of(self, reading: PageReading) -> HostBlocks:
        """The templates of a page's host, as far as they count."""
        known = self.templates.known(reading.host)
        if known is None or not known.is_warm or self.boilerplate == "keep":
            return NOTHING
        return known

    def _held(self, page: OwnPart, own: int | None) -> Match | None:
        """The page of the same site and title that a page holds most of, if it is HELD."""
        title, scope = int(page.facts[TITLE]), self._scope_of(page.reading.site)
        ids = self._titles.newest(self.pages, title, scope)
        ids = ids[ids < (self.pages.n_rows if own is None else own)]
        if not len(ids):
            return None
        rows = PageRows.of(self.pages.sketches.take(ids))
        similar = self.comparison.similar(page.odd_rows, page.odd_row, rows.own)[1]
        shares = odd_sketch.held(rows.own, page.odd_row, similar)
        shares[odd_sketch.sizes_of(rows.own) < self.comparison.least_shingles] = 0.0
        best = np.array([shares.argmax()], dtype=np.int64)
        if shares.item(best[0]) < HELD:
            return None
        ids, rows = ids[best], rows.where(best)
        measured = self.comparison.measure(page, self.pages.fingerprints.take(ids), rows)
        n_differing = self.comparison.n_differing(page, rows, measured)
        differs = self.comparison.differing_facts(page, rows, measured, n_differing)
        if differs or not say_the_same(page.reading.data, rows.data, n_differing):
            return None
        bits = int(measured.distances[0]), int(measured.sketch_distances[0])
        return Match(int(ids[0]), *bits, float(similar[best][0]))

    def _candidates(self, page: OwnPart) -> I64Array:
        """The pages whose fingerprints are near that of the page or that of its own part."""
        whole, distance = page.reading.signatures.fingerprint, self.limits.distance
        here = self._scope_of(page.reading.site)
        ids = self.index.all_within(self._indexed(whole, here), distance).ids
        if page.fingerprint != whole and self.limits.confirm_distance is not None:
            own_ids = self.index.all_within(self._indexed(page.fingerprint, here), distance).ids
            ids = np.fromiter(sorted({*ids.tolist(), *own_ids.tolist()}), np.int64)
        return ids[self.pages.sites.take(ids) == np.uint64(here)] if len(ids) else ids

    def is_cold(self, reading: PageReading) -> bool:
        """Whether too little is known of a host to tell its templates from a page's own text.

        So it is with its first pages, and where a crash or the bounds on memory took what was
        learnt. Never where every word counts.
        """
        return self.boilerplate == "learn" and not self.templates.is_warm(reading.host)

    def own_words(self, reading: PageReading) -> int:
        """How many words of a page are its own, not its host's; 0 while that is not known."""
        if self.is_cold(reading):
            return 0
        return self.own_part(reading).n_words

    def _conclude(
        self,
        page: OwnPart,
        kind: DecisionKind,
        own: int | None,
        match: Match | None = None,
        n_unconfirmed: int = 0,
        cold: bool = False,
    ) -> Decision:
        """The decision in full, and the page remembered where it is admitted."""
        reading = page.reading
        if own is None and reading.words and (match is None or self.admit == "all"):
            own = self._remember(page, indexed=kind in INDEXED)
        looks_elsewhere = match is None and self.scope == "site"
        same = match.id if match and kind == "exact" else None
        reworded = match is not None and match.is_reworded
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
            elsewhere=self._elsewhere(reading.digest, own) if looks_elsewhere else None,
            unconfirmed=n_unconfirmed,
            cold=cold,
            differs=WORDING if reworded else VISIT if kind == "near" and reading.tag else None,
            wording=wording_of(page.facts) if reworded else None,
            markup=markup_of(reading.data) if match and match.has_other_markup else None,
        )

    def _elsewhere(self, digest: bytes, own: int | None) -> str | None:
        """URL of the first page with a text that no other page of the site has.

        Where there is none, this page is the first from now on. own: its row, None where it is not
        remembered.
        """
        key = digest_key(digest, 0)
        for id in self._texts.candidates(key):
            if self.pages.is_known(id) and self.pages.digests[id].tobytes() == digest:
                return None if id == own else self.pages.url(id)
        if own is not None and own < MAX_NAMED:
            self._texts.put(key, own)
        return None

    def learn(self, reading: PageReading) -> bool:
        """Learn the host's templates from a page; whether templates are learnt.

        Not for exact repeats: read under many URLs, a page would become a template.
        """
        wanted = self.boilerplate == "learn"
        if wanted:
            self.templates.learn(reading.host, reading.blocks_and_heads)
        return wanted

    def _remember(self, page: OwnPart, indexed: bool) -> int:
        reading = page.reading
        scope, fingerprint = self._scope_of(reading.site), reading.signatures.fingerprint
        row = PageRow(fingerprint, page.row, reading.digest, scope, reading.url, time.time())
        return self._add(row, indexed)

    def _add(self, page: PageRow, indexed: bool) -> int:
        id = self.pages.add(page)
        try:
            for fingerprint in self._fingerprints(page) if indexed else ():
                self.index.add(fingerprint, id)
            if indexed:
                self._titles.add(page, id)
        except BaseException:  # half remembered, its exact copies would be dropped
            self.forget(id)
            raise
        return id


def encoded(lines: list[str]) -> bytes:
    """Lines as UTF-8."""
    return "\n".join(lines).encode("utf-8", "surrogatepass") if lines else b""
