"""Text → fingerprint → candidates → confirmed Decision. Knows no Scrapy."""

import time
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal, NamedTuple, Self
from urllib.parse import urlsplit

import numpy as np
from tldextract import TLDExtract

from scrapy_neardup import similarity
from scrapy_neardup.engines import Engine, Signatures
from scrapy_neardup.errors import BrokenInvariant, ScanLimitReached
from scrapy_neardup.index import Index
from scrapy_neardup.kernels.numpy_twin import I64Array
from scrapy_neardup.pages import Page, PageTable, digest_of, site_number
from scrapy_neardup.text import normalise

Kind = Literal["new", "exact", "near", "too-short", "undecided"]
Scope = Literal["site", "all"]
Admit = Literal["novel", "all"]

DISTANCE = 4
CONFIRM_DISTANCE = 36
MIN_WORDS = 20


class PageReading(NamedTuple):
    """All that a decision needs of a page; made by Detector.read, in any thread."""

    url: str
    site: int
    digest: bytes
    signatures: Signatures


@dataclass(frozen=True, slots=True)
class Decision:
    """What the detector says of a page.

    kind             "new", or a duplicate: "exact" (the same words), "near"; "too-short" and
                     "undecided" pages are to be kept
    fingerprint      of the page
    words            how many it has
    original         URL of the page it repeats, None unless exact or near
    original_id      that page's row
    distance         fingerprint bits that differ from the original's
    sketch_distance  sketch bits that differ
    similarity       estimated Jaccard similarity of the shingles; 1.0 where exact
    page_id          the page's own row, None where it was not admitted
    elsewhere        URL of a page of another site that it repeats; never a reason to drop
    """

    kind: Kind
    fingerprint: int
    words: int
    original: str | None = None
    original_id: int | None = None
    distance: int | None = None
    sketch_distance: int | None = None
    similarity: float | None = None
    page_id: int | None = None
    elsewhere: str | None = None

    @property
    def is_duplicate(self) -> bool:
        """Whether another page of the same scope says the same."""
        return self.kind in ("exact", "near")


class Match(NamedTuple):
    """A stored page that a page repeats."""

    id: int
    distance: int
    sketch_distance: int


class Detector:
    """Decides page by page whether an earlier page said the same.

    Exact repeats are found by a 128-bit digest of the words. Of the rest, the fingerprint
    finds pages within `distance` bits, the sketch confirms those within `confirm_distance`
    bits (None: trust the fingerprint). Pages of fewer than `min_words` words are compared
    exactly only; a page without words repeats nothing.

    scope  "site": only pages of the same registrable domain count, others are named in
           `elsewhere`; "all": every page counts
    admit  "novel": only pages that repeat nothing are remembered, so that every duplicate
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
        min_words: int = MIN_WORDS,
        scope: Scope = "site",
        admit: Admit = "novel",
    ) -> None:
        self.engine = engine
        self.index = index
        self.pages = PageTable(engine.sketch_spec.n_words)
        self.distance = distance
        self.confirm_distance = confirm_distance
        self.min_words = min_words
        self.scope = scope
        self.admit = admit

    def read(self, url: str, text: str) -> PageReading:
        """The page's signatures. Pure, and safe in any thread: the slow half of a decision."""
        words = normalise(text)
        site = site_number(site_of(url)) if self.scope == "site" else 0
        return PageReading(url, site, digest_of(words), self.engine.signatures(words))

    def decide(self, reading: PageReading) -> Decision:
        """Look the page up and remember it, in one step; not safe in several threads."""
        signatures = reading.signatures
        own = self._own_row(reading)
        exact = self.pages.with_digest(reading.digest, reading.site) if signatures.n_words else None
        if exact is not None and exact != own:
            return self._conclude(reading, "exact", own, Match(exact, 0, 0))
        if signatures.n_words < self.min_words:
            return self._conclude(reading, "too-short", own)
        try:
            match, elsewhere = self._matches(reading, own)
        except ScanLimitReached:
            return self._conclude(reading, "undecided", own)
        return self._conclude(reading, "near" if match else "new", own, match, elsewhere)

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
        return sum(self.forget(id) for id in old.tolist())

    def forget(self, page_id: int) -> bool:
        """Forget a page, so that nothing repeats it any more; whether it was known."""
        if not self.pages.forget(page_id):
            return False
        self.index.remove(int(self.pages.fingerprints[page_id]), page_id)
        return True

    def __len__(self) -> int:
        """Pages remembered."""
        return len(self.pages)

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays, the index included."""
        return self.pages.nbytes + self.index.nbytes

    def arrays(self) -> dict[str, Any]:
        """The state as named arrays, for a snapshot."""
        pages = {f"pages.{name}": array for name, array in self.pages.arrays().items()}
        return pages | {f"index.{name}": array for name, array in self.index.arrays().items()}

    @classmethod
    def from_arrays(
        cls, arrays: dict[str, Any], engine: Engine, index: type[Index], **rules: Any
    ) -> Self:
        """The detector that arrays() described; `rules` are the keywords of the class."""
        detector = cls(engine, index.from_arrays(_under("index.", arrays)), **rules)
        detector.pages = PageTable.from_arrays(_under("pages.", arrays))
        return detector

    def check(self) -> None:
        """Every invariant, at any cost. Raises BrokenInvariant."""
        self.pages.check()
        self.index.check()
        if len(self.index) > len(self.pages):
            raise BrokenInvariant(
                f"the index holds {len(self.index)} pages, the page table {len(self.pages)}"
            )

    def _own_row(self, reading: PageReading) -> int | None:
        """The row of the same URL with the same words; one with other words is forgotten."""
        own = self.pages.with_url(reading.url)
        if own is None or self.pages.page(own).digest == reading.digest:
            return own
        self.forget(own)
        return None

    def _matches(self, reading: PageReading, own: int | None) -> tuple[Match | None, Match | None]:
        """The nearest confirmed page of the same site, and that of other sites."""
        ids, distances = self.index.all_within(reading.signatures.fingerprint, self.distance)
        sketches = self.pages.sketches.take(ids)
        bits = np.bitwise_count(sketches ^ reading.signatures.sketch).sum(axis=1, dtype=np.int64)
        confirmed = np.ones(len(ids), dtype=bool) if own is None else ids < own
        if self.confirm_distance is not None:
            confirmed &= bits <= self.confirm_distance
        same_site = self.pages.sites.take(ids) == reading.site
        return (
            _nearest(ids, distances, bits, confirmed & same_site),
            _nearest(ids, distances, bits, confirmed & ~same_site),
        )

    def _conclude(
        self,
        reading: PageReading,
        kind: Kind,
        own: int | None,
        match: Match | None = None,
        elsewhere: Match | None = None,
    ) -> Decision:
        """The decision in full, and the page remembered where it is admitted."""
        signatures = reading.signatures
        if own is None and signatures.n_words and (match is None or self.admit == "all"):
            own = self._remember(reading, indexed=kind in ("new", "near"))
        return Decision(
            kind,
            signatures.fingerprint,
            signatures.n_words,
            original=self.pages.url(match.id) if match else None,
            original_id=match.id if match else None,
            distance=match.distance if match else None,
            sketch_distance=match.sketch_distance if match else None,
            similarity=self._similarity(match) if match else None,
            page_id=own,
            elsewhere=self.pages.url(elsewhere.id) if elsewhere else None,
        )

    def _remember(self, reading: PageReading, indexed: bool) -> int:
        fingerprint, sketch, _ = reading.signatures
        page = Page(fingerprint, sketch, reading.digest, reading.site, reading.url, time.time())
        return self._add(page, indexed)

    def _add(self, page: Page, indexed: bool) -> int:
        id = self.pages.add(page)
        if indexed:
            self.index.add(page.fingerprint, id)
        return id

    def _similarity(self, match: Match) -> float:
        return similarity.jaccard(match.sketch_distance, self.engine.sketch_spec.bits).similarity


def _nearest(
    ids: I64Array, distances: I64Array, bits: I64Array, wanted: "np.typing.NDArray[np.bool_]"
) -> Match | None:
    """The wanted id with the fewest sketch bits, then fingerprint bits, then the smallest."""
    rows = np.flatnonzero(wanted)
    if not len(rows):
        return None
    best = rows[np.lexsort((distances[rows], bits[rows]))[0]]
    return Match(int(ids[best]), int(distances[best]), int(bits[best]))


def _under(prefix: str, arrays: dict[str, Any]) -> dict[str, Any]:
    return {name[len(prefix) :]: a for name, a in arrays.items() if name.startswith(prefix)}


# The bundled list of public suffixes, private ones (github.io) included: no download, no cache.
_extract = TLDExtract(suffix_list_urls=(), cache_dir=None, include_psl_private_domains=True)


@lru_cache(maxsize=4096)
def _site_of_host(host: str) -> str:
    return _extract(host).top_domain_under_public_suffix or host


def site_of(url: str) -> str:
    """The registrable domain of a URL, the host where it has none (an address, "localhost")."""
    try:
        host = urlsplit(url).hostname or ""
    except ValueError:  # "http://[": no host to speak of, so a site of its own
        return url
    return _site_of_host(host.rstrip("."))
