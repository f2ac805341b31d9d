"""Judging a page: its words read, compared with the pages before it, the decision counted."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple, get_args

from scrapy.utils.misc import load_object

from scrapy_neardup import stats
from scrapy_neardup.crawl.counts import Counts
from scrapy_neardup.crawl.fail_open import FailOpen
from scrapy_neardup.crawl.items.source_page import CrawledPage
from scrapy_neardup.crawl.pages import extract
from scrapy_neardup.crawl.pages.body_cache import HASH_TELLS, MAX_BODY_BYTES, BodyCache
from scrapy_neardup.crawl.pages.long_bodies import takes_long
from scrapy_neardup.crawl.pages.page_lifecycle import PageLifecycle
from scrapy_neardup.crawl.recorder import Recorder
from scrapy_neardup.crawl.requests.request_tracker import is_cut_off
from scrapy_neardup.detect.content import PageContent
from scrapy_neardup.detect.decision import VISIT, Decision, DecisionKind
from scrapy_neardup.detect.echoes import VisitEchoes
from scrapy_neardup.detect.near import FEW_WORDS
from scrapy_neardup.detect.page_reading import PageReading
from scrapy_neardup.settings import NearDupSettings
from scrapy_neardup.settings.readers import loading
from scrapy_neardup.state import State
from scrapy_neardup.state.visit import PageKey

if TYPE_CHECKING:
    from scrapy.http import Response

    from scrapy_neardup.fleet.worker import FleetWorker

# What pages of these kinds say is looked at once more when they are done.
SAYS_MORE = frozenset({"new", "contains", "near-but-differs", "too-short"})

PAGES_OF_KIND = {
    kind: stats.PAGES_BY_KIND.format(kind.replace("-", "_")) for kind in get_args(DecisionKind)
}


class TextReading(NamedTuple):
    """A long text of an item, and its reading; None where it cannot be compared."""

    text: str
    reading: PageReading | None


class PageJudge:
    """Reads texts and decides about them. Whatever fails keeps the page and is counted."""

    def __init__(
        self,
        settings: NearDupSettings,
        state: State,
        lifecycle: PageLifecycle,
        is_shared: Callable[[], bool],
        recorder: Recorder,
        fleet: FleetWorker | None,
        attempt: FailOpen,
        count: Counts,
    ) -> None:
        self._max_page_bytes = settings.max_page_bytes
        self._state = state
        self._lifecycle = lifecycle
        self._is_shared = is_shared
        self._recorder = recorder
        self._fleet = fleet
        self._attempt = attempt
        self._count = count
        self._extractor = load_extractor(settings.extractor)
        self._bodies = BodyCache()
        # Another extractor may look at the URL, and a fleet must hear of each page.
        reads_bodies = self._extractor is extract.page_content
        # Elsewhere somebody waits for items of a page that is read again.
        once = settings.action == "drop" and settings.ttl is None and settings.recrawl == "new"
        self._puts_out_once = once and fleet is None
        self._copies_tell = HASH_TELLS and reads_bodies and fleet is None

    async def judge(self, page: CrawledPage) -> None:
        """Fill in what is decided about a page.

        From the look-up until the page is remembered nothing else runs, so that of two twins
        under way one is the copy. Error pages of a site say the same, each of another URL, which
        is what their items report: they are not compared. Nor are pages of which only a part came:
        that may be the menu, which all pages of the site begin with.
        """
        response = page.response
        if response.status >= 300:
            self._count(stats.PAGES_ERROR)
            return
        if page.revisit is not None:  # now: a page with other words takes its earlier self's place
            page.was_kept = self._state.has_kept(response.url)
        if (response.flags or response.status != 200) and is_cut_off(response):
            return
        judged = self._decision_of_copy(page)
        if judged is None and (reading := await self._reading(page)) is not None:
            judged = await self._decision(reading, page)
        if judged is not None:
            page.judged = judged
            page.applied = self.applied(response.url, judged)
            page.is_reread = self._puts_out_once and self._is_reread(page, judged)

    def _is_reread(self, page: CrawledPage, judged: Decision) -> bool:
        """Whether a page is what it was for an earlier run, which read it and was cut off.

        Only to find what waited then is it read again: nobody asked for it. If several spiders
        crawl with the state, any of them may have read it.
        """
        row = judged.page_id
        if not page.is_tracked or len(self._state.spiders) > 1:
            return False
        if page.is_new or row is None or row >= self._state.n_restored or judged.is_duplicate:
            return False
        meta = page.response.meta
        if meta.get("neardup_refresh") or meta.get("is_start_request"):
            return False
        request = page.response.request
        assert request is not None  # it has meta
        # A retry has dont_filter, too: then an item comes once more than it has to.
        return not (request.dont_filter or self._recorder.wanted(page.response))

    @property
    def echoes(self) -> VisitEchoes:
        """Which lines tell of the visit, of the crawl's hosts."""
        return self._state.detector.echoes

    async def bring_original(self, decision: Decision, original: PageKey) -> bool:
        """Whether it is known what the page is that another one repeats: the fleet is asked."""
        if self._fleet is None:
            return True
        return await self._fleet.bring_original(self._state, decision, original)

    def forget(self, url: str) -> None:
        """What the page of a URL said is there no longer."""
        self._attempt("state", self._state.forget_page, url)

    def move(self, url: str, target: str) -> None:
        """What the page of a URL said is at another one now."""
        self._attempt("state", self._state.move_page, url, target)

    async def words(self, page: CrawledPage) -> bytes | None:
        """The words of a page; None where it cannot be compared."""
        reading = await self._reading(page)
        return None if reading is None else reading.words

    def has_own_content(self, page: CrawledPage) -> bool:
        """Whether a page has FEW_WORDS that are not its host's, or that is not known.

        It is not looked for in one that would hold up the loop.
        """
        reading = None if takes_long(page.response.body) else self._read(page)
        if reading is None or self._state.detector.is_cold(reading):
            return True
        return self._state.detector.own_words(reading) >= FEW_WORDS

    async def own_words(self, page: CrawledPage) -> int:
        """How many words of a page are its own, not its host's; 0 where that is not known."""
        reading = await self._reading(page)
        return 0 if reading is None else self._state.detector.own_words(reading)

    # --- reading

    async def _reading(self, page: CrawledPage) -> PageReading | None:
        """The page's reading, made off the event loop's thread if that takes long."""
        if takes_long(page.response.body):
            return await self._count.in_thread(lambda: self._sign(self._read(page)))
        return self._read(page)

    def _read(self, page: CrawledPage) -> PageReading | None:
        """The words of a page; None where it cannot be compared.

        Safe in a thread: touches no structure of the crawl.
        """
        response = page.response
        if len(response.body) > self._max_page_bytes:
            self._count(stats.PAGES_TOO_LONG)
            return None
        content = self._content(page)
        page.content, page.is_extracted = None, False  # it holds the tree of the page
        if content is None:
            return None
        if self._recorder.keeps_text:
            page.text = content if isinstance(content, str) else content.text
        return self._read_content(response.url, content)

    async def content(self, page: CrawledPage) -> PageContent | str | None:
        """What a page says, extracted once; None where it says nothing or is too long."""
        body = page.response.body
        if len(body) > self._max_page_bytes:
            return None
        if takes_long(body):
            return await self._count.in_thread(lambda: self._content(page))
        return self._content(page)

    def _content(self, page: CrawledPage) -> PageContent | str | None:
        if not page.is_extracted:
            page.content = self._attempt("extract", self._extract, page.response)
            page.is_extracted = True
        return page.content

    def _extract(self, response: Response) -> PageContent | str | None:
        content = self._extractor(response)
        if content is None:
            self._count(stats.PAGES_WITHOUT_TEXT)
        return content

    def _read_content(
        self, url: str, content: PageContent | str, is_page: bool = True
    ) -> PageReading | None:
        return self._attempt("words", self._state.detector.read, url, content, is_page)

    def _sign(self, reading: PageReading | None) -> PageReading | None:
        """The reading with its signatures made; None, counted, where the engine fails."""
        if reading is None:
            return None
        return reading if self._attempt("engine", self._signatures, reading) else None

    def _signatures(self, reading: PageReading) -> tuple[object, ...]:
        """All that takes long of what the decision asks of a reading."""
        self._state.detector.read_own_part(reading)
        if self._state.detector.may_count_attributes(reading):
            _ = reading.attribute_bits
        return reading.signatures, reading.odd_row

    # --- deciding

    def _decision_of_copy(self, page: CrawledPage) -> Decision | None:
        """The decision about a page that is, byte by byte, one that was read; counted.

        None for any other, and where the text is wanted or may depend on more than the body.
        """
        response = page.response
        if not self._copies_tell or self._recorder.keeps_text:
            return None
        if len(response.body) > MAX_BODY_BYTES:
            return None
        page.body = self._attempt("copies", self._bodies.body, response)
        words = page.body and self._bodies.words(page.body)
        if words is None:
            return None
        digest, n_words, page.near_row = words
        decide = self._state.detector.decide_copy
        decision = self._attempt("index", decide, response.url, digest, n_words)
        return decision and self._counted(decision)

    async def _decision(self, reading: PageReading, page: CrawledPage) -> Decision | None:
        """The decision about a page, with other workers where they may know it."""
        if self._fleet is None:
            # Items of a near page are known by its original: so are those of its copies.
            original = page.near_row if page.claimed is None else page.claimed
            decided = self._attempt("index", self._state.decide, reading, True, original)
        else:
            decided = await self._decided_with_fleet(self._fleet, reading, page)
        if decided is None:
            return None
        decision, page.is_new = decided
        page.judged = decision  # at once: whatever fails from here on, the row is the page's
        if self._fleet is None and page.body and not reading.is_mostly_script:
            near = decision.original_id if decision.kind == "near" else None
            self._bodies.remember(page.body, reading, near)
        if decision.kind in SAYS_MORE:
            page.words, page.blocks = reading.words, reading.blocks
        if reading.is_mostly_script:
            self._count(stats.PAGES_MOSTLY_SCRIPT)
        return self._counted(decision)

    async def _decided_with_fleet(
        self, fleet: FleetWorker, reading: PageReading, page: CrawledPage
    ) -> tuple[Decision, bool] | None:
        try:
            return await fleet.pages.decide(self._state, reading, page.asked_fleet)
        except Exception:
            self._attempt.failed("backend")
            return None

    async def read_text(self, url: str, text: str) -> TextReading:
        """A long text of an item, read off the loop's thread. url: of a page of its site."""
        read = await self._count.in_thread(lambda: self._sign(self._read_content(url, text, False)))
        return TextReading(text, read)

    def decide_text(
        self, url: str, text: str, read: TextReading | None
    ) -> tuple[Decision, bool] | None:
        """The decision about a single item's text, and whether it is remembered; counted.

        read: what read_text() gave; None if it was not called.
        """
        reading = self._read_content(url, text, False) if read is None else read.reading
        if reading is None:
            return None
        reading.url = url
        decided = self._attempt("index", self._state.decide, reading)
        if decided is not None:
            self._counted(decided[0])
        return decided

    def applied(self, url: str, decision: Decision) -> Decision | None:
        """The decision as it is to be applied.

        None where a person has undone it, or the original's items are under way in another crawl
        that shares the state: no page of this one can wait for them.
        """
        if not decision.is_duplicate:
            return decision
        if self._is_shared() and self._is_foreign(decision.original_id):
            return None
        if not self._recorder.keeps(url):
            return decision
        self._count(stats.PAGES_UNDONE)
        return None

    def _is_foreign(self, row: int | None) -> bool:
        return self._state.is_unkept(row) and not self._lifecycle.is_unkept(row)

    def _counted(self, decision: Decision) -> Decision:
        self._count(stats.PAGES_READ)
        self._count(PAGES_OF_KIND[decision.kind])
        if decision.kind == "near":
            self._count(stats.PAGES_NEAR_BY_DISTANCE.format(decision.distance))
        if decision.differs == VISIT:
            self._count(stats.PAGES_BUT_FOR_THE_VISIT)
        if decision.unconfirmed:
            self._count(stats.PAGES_UNCONFIRMED, decision.unconfirmed)
        if decision.cold:
            self._count(stats.PAGES_COLD)
        if decision.elsewhere is not None:
            self._count(stats.PAGES_ELSEWHERE)
        if not decision.words:
            self._count(stats.PAGES_WITHOUT_WORDS)
        return decision


def load_extractor(given: str | type | None) -> extract.Extractor:
    """The extractor of a dotted path, or the one of all that a page says. Raises SettingsError."""
    if given is None:
        return extract.page_content
    with loading("EXTRACTOR", given):
        extractor: extract.Extractor = load_object(given)
        if not callable(extractor):
            raise TypeError(f"{type(extractor).__name__} is not callable")
        return extractor
