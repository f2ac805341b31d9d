"""Whether an item of a page that repeats another says something new; what is kept is remembered."""

from __future__ import annotations

import re
import time
from collections import Counter, OrderedDict
from collections.abc import Set as AbstractSet
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, NamedTuple

from scrapy.http import HtmlResponse, Request, Response

from scrapy_neardup import stats
from scrapy_neardup.crawl.counts import Counts
from scrapy_neardup.crawl.fail_open import FailOpen
from scrapy_neardup.crawl.items.elsewhere import said_by, says_more
from scrapy_neardup.crawl.items.item_data import (
    ItemData,
    Provenance,
    fields_apart,
    is_long,
    item_data,
    stated,
    without_layout,
)
from scrapy_neardup.crawl.items.offers import Offers
from scrapy_neardup.crawl.items.source_page import CrawledPage, OfferedItem
from scrapy_neardup.crawl.pages.extract import is_whole, shown_by, text_without_navigation
from scrapy_neardup.crawl.pages.long_bodies import SHORT_BYTES
from scrapy_neardup.detect.item_table import KeptItem
from scrapy_neardup.detect.page_table import site_number
from scrapy_neardup.detect.sites import host_of
from scrapy_neardup.errors import ItemTooLarge, ItemUnreadable
from scrapy_neardup.factory import make_rules
from scrapy_neardup.fleet.futures import answer_of
from scrapy_neardup.settings import NearDupSettings
from scrapy_neardup.state import State

if TYPE_CHECKING:
    from scrapy_neardup.fleet.worker import FleetWorker

EQUAL = -1  # no sketch is nearer: long texts have to be equal
# Items whose fields are remembered, to name a field that differs: of each cluster, and of all.
OF_A_CLUSTER, OF_ALL_CLUSTERS = 16, 8192
MAX_ASKED_FOR = 2**14  # URLs of which it is known that the spider asked for them, filter or not
DOCUMENT = re.compile(rb"<(?:!doctype|html|head|title|body)\b", re.IGNORECASE)


class ItemReading(NamedTuple):
    """What reading an item gave.

    found   its data and what to remember, None where it cannot be read
    within  sketch bits by which its long text may differ from that of a kept item
    is_completed  see ItemJudge.is_completed(); only of a page that says nothing new
    """

    found: tuple[ItemData, KeptItem] | None
    within: int = EQUAL
    is_completed: bool = False


class ItemJudge:
    """Compares the data of items with those of the items that were kept of the same page.

    An item that the pipelines have not let through yet counts as kept: of two copies under way
    the first one's items stand for both. If they are dropped in the end, neither page is
    completed, and the next crawl reads both again (page_lifecycle.py).

    A long item is read in a thread, one after the other: items are compared in the order in which
    they came, or of two copies both might be kept.
    """

    def __init__(
        self,
        settings: NearDupSettings,
        media: AbstractSet[str],
        state: State,
        fleet: FleetWorker | None,
        attempt: FailOpen,
        count: Counts,
    ) -> None:
        self._state = state
        self._fleet = fleet
        self._attempt = attempt
        self._count = count
        self._rules = make_rules(settings)
        self._ignored = frozenset(settings.ignore_fields)
        self._media = media  # see Provenance
        self._within = settings.confirm_distance or 0
        self._min_words = settings.min_words
        self._key = state.key.to_bytes(8, "little")
        self._began = time.time()
        self.thread = ThreadPoolExecutor(1, thread_name_prefix="neardup-items")
        self._n_ahead = 0  # items in the thread
        self._offers = Offers()
        self._fields: OrderedDict[int, list[dict[str, int]]] = OrderedDict()
        self._n_fields = 0  # items in it
        self._asked_for: OrderedDict[int, None] = OrderedDict()  # hashes of URLs, the oldest first
        self.only_difference: Counter[str] = Counter()  # field → repeating items it alone kept

    def is_slow(self, item: Any, page: CrawledPage) -> bool:
        """Whether read_ahead() is to be called before repeated() and is_completed()."""
        if row_of(page) is None and not page.says_nothing_new:
            return False
        # A short item may have its page stored, which is read for it.
        reads_page = self._media or is_near(page)
        if self._n_ahead > 0 or (reads_page and len(page.response.body) >= SHORT_BYTES):
            return True
        return bool(self._attempt("item_data", is_long, item))

    async def read_ahead(self, item: Any, page: CrawledPage) -> ItemReading:
        """Read an item in the thread; in the order of the calls."""
        self._n_ahead += 1
        try:
            read = partial(self._count.collected, lambda: self._read_all(item, page))
            reading, counted = await answer_of(self.thread.submit(read))
        finally:
            self._n_ahead -= 1
        self._count.add(counted)
        return reading

    def repeated(
        self, item: Any, page: CrawledPage, reading: ItemReading | None = None
    ) -> int | None:
        """The row of the page that stands for an item of this one.

        None for an item that is to be kept; its data are remembered then. reading: what
        read_ahead() gave, where it was called. None where the page repeats nothing, too, and where
        there are no data or they cannot be read.
        """
        request = page.response.request
        is_again = (
            request is not None and request.dont_filter and self._is_read_again(request, page)
        )
        name = self._name(page)
        if name is None:
            return None
        found, within, _ = self._read(item, page) if reading is None else reading
        if found is None:
            return None
        data, kept = found[0], found[1]._replace(page=name)
        if not data.fields:  # nothing to compare: a doubt
            return None
        original = page.repeated_row
        # What a page says that said something else before is news of its own URL, though another
        # page had said it: a price that two products of a daily crawl show in turn.
        has_changed = page.judged is not None and page.judged.has_changed
        if original is not None and not (is_again or has_changed):
            row = self._row_of_same(kept, within, original)
            if row is not None:
                return row
        if original is not None:
            self._count(stats.ITEMS_KEPT_BY_DATA)
            self._note_difference(page, name, data.fields)
            if not page.gives_several:  # what follows are rows of a page that says something else
                page.gives_several, page.provenance = True, None
        else:
            self._remember_fields(name, data.fields)
        self._offers.add(page.own_row, kept)
        page.offered.setdefault(id(item), OfferedItem(item, [])).data.append(kept)
        return None

    def was_kept(self, item: Any, page: CrawledPage, reading: ItemReading | None = None) -> bool:
        """Whether an item with the same data was kept of the page; see repeated() for `reading`."""
        name = self._name(page)
        found = (self._read(item, page) if reading is None else reading).found
        if name is None or found is None or not found[0].fields:
            return False
        return self._state.items.has(found[1]._replace(page=name))

    def is_completed(self, item: Any, page: CrawledPage) -> bool:
        """Whether an item says something else than when its callback yielded it, under
        NEARDUP_RECRAWL: a component may have looked up a price for it.
        """
        yielded = page.as_yielded.get(id(item))
        return yielded is not None and self.fields_of(item, page) != yielded

    def fields_of(self, item: Any, page: CrawledPage) -> dict[str, int] | None:
        """A digest of each of an item's fields, to compare them with those of the page's earlier
        self; None, counted, where they cannot be read. The same whenever it is asked for.
        """
        return self._attempt("item_data", self._fields_of, item, page)

    def _fields_of(self, item: Any, page: CrawledPage) -> dict[str, int] | None:
        data = self._data_of(item, self._own_provenance(page), stable=True)
        return None if data is None else data.fields

    def _name(self, page: CrawledPage) -> int | None:
        """What the items of a page and of its copies are remembered by, None for nothing."""
        row = row_of(page)
        return None if row is None else self._state.detector.pages.name(row) ^ page.version

    def _read_all(self, item: Any, page: CrawledPage) -> ItemReading:
        reading = self._read(item, page)
        if not page.says_nothing_new:
            return reading
        return reading._replace(is_completed=self.is_completed(item, page))

    def _read(self, item: Any, page: CrawledPage) -> ItemReading:
        """An item's data, as of no page. Safe in a thread: touches no structure of the crawl."""
        found = self._attempt("item_data", self._found, item, page)
        if found is None or not is_near(page):
            return ItemReading(found)
        data, kept = found
        is_all = bool(data.text) and self._attempt("item_data", self._is_all_shown, data.text, page)
        if is_all or data.holds_page:
            apart = told_apart(page, data.holds_page)
            found = data, kept._replace(values=kept.values ^ apart)
        return ItemReading(found, self._within if is_all else EQUAL)

    def _found(self, item: Any, page: CrawledPage) -> tuple[ItemData, KeptItem] | None:
        data = self._read_data(item, page)
        if data is None:
            return None
        values = data.values ^ (self._stated_by(page) if data.holds_page else 0)
        return data, self._with_text(KeptItem(0, values), data.text)

    def _stated_by(self, page: CrawledPage) -> int:
        """A digest of a page's facts.

        Pages are compared by those in few other places only. Those around its own text do not
        count: a print version lacks them. Nor do lines that tell of the visit.
        """
        if page.stated is None:
            # A copy: the spider may be using the tree of the response.
            shown = text_without_navigation(page.response.replace())
            host = site_number(host_of(page.response.url))
            told, _ = self._state.detector.echoes.left_out(host, shown, time.time())
            page.stated = stated(told, self._key)
        return page.stated

    def _read_data(self, item: Any, page: CrawledPage) -> ItemData | None:
        data = self._data_of(item, self._provenance(page))
        if data is None or not page.has_waited or page.says_more or not self._says_more(item, page):
            return data
        page.says_more, page.provenance = True, None
        return self._data_of(item, self._provenance(page))

    def _data_of(self, item: Any, echoed: Provenance, stable: bool = False) -> ItemData | None:
        try:
            return item_data(item, echoed, self._rules, self._ignored, self._key, stable)
        except ItemTooLarge:
            self._count(stats.ITEMS_TOO_LARGE)
        except ItemUnreadable:
            self._count(stats.ITEMS_UNREADABLE)
        return None

    def _says_more(self, item: Any, page: CrawledPage) -> bool:
        if page.said is None:
            page.said = said_by(page.response)
        return says_more(item, page.said, self._ignored)

    def _provenance(self, page: CrawledPage) -> Provenance:
        """What an item of a page may echo."""
        if page.provenance is None:
            is_few = page.judged is not None and page.judged.words < self._min_words
            is_named = is_few and is_no_document(page.response)
            names_items = bool(page.gives_several) or page.says_more or is_named
            times = self._began, page.asked_at
            page.provenance = Provenance.of(
                page.response, self._rules, *times, self._media, names_items
            )
        page.provenance.until = time.time()
        return page.provenance

    def _own_provenance(self, page: CrawledPage) -> Provenance:
        """What an item of a page may echo where it is compared with the page's earlier self.

        That has the same URL, whatever the item is. What redirects to it may be news.
        """
        if page.own_provenance is None:
            response, times = page.response, (self._began, page.asked_at)
            urls = frozenset((response.url, (response.request or response).url))
            page.own_provenance = Provenance(urls, self._rules, response, *times, 0.0, self._media)
        page.own_provenance.until = time.time()
        return page.own_provenance

    def _with_text(self, item: KeptItem, text: str) -> KeptItem:
        """The item with what tells its long text; a text of few words only has a digest."""
        if not text:
            return item
        encoded = without_layout(text).encode("utf-8", "surrogatepass")
        digest = blake2b(encoded, digest_size=8, key=self._key, person=b"neardup-item").digest()
        item = item._replace(text=int.from_bytes(digest, "little"))
        reading = self._state.detector.read("", text)
        if reading.n_words < self._min_words:
            return item
        return item._replace(sketch=reading.signatures.sketch)

    def _is_all_shown(self, text: str, page: CrawledPage) -> bool:
        """Whether a long text of an item is all that its page shows, and nothing from elsewhere.

        Such a text was compared with the page. Of one that the spider has chosen from the page, or
        has from elsewhere, any word may be what matters.
        """
        if page.shown is None:
            # A copy: the spider may be using the tree of the response.
            page.shown = shown_by(page.response.replace())
        return is_whole(text, page.shown)

    def _is_read_again(self, request: Request, page: CrawledPage) -> bool:
        """Whether the spider has asked for a URL again, on purpose, by dont_filter.

        What the page says may be what it said the time before last, as a price that returns, and
        what a copy of it says, too.
        """
        if page.is_read_again is None:  # the first of its items
            url = hash(request.url)
            page.is_read_again = url in self._asked_for
            self._asked_for[url] = None
            self._asked_for.move_to_end(url)
            if len(self._asked_for) > MAX_ASKED_FOR:
                self._asked_for.popitem(last=False)
        return page.is_read_again

    def _row_of_same(self, item: KeptItem, within: int, original: int) -> int | None:
        """The row of the page of which an item that says the same was kept, or is under way.

        None, too, for a doubt, which is counted.
        """
        is_kept = self._state.items.has_near(item, within)
        if is_kept:
            return original
        row = self._offers.row_of(item, within)
        if row is None and (is_kept is None or self._offers.are_many(item, within)):
            self._count(stats.ITEMS_UNDECIDED)
        return row

    # --- what becomes of the items

    def withdrawn(self, item: Any, page: CrawledPage) -> None:
        """A later pipeline dropped an item, or raised."""
        offered = page.offered.get(id(item))
        if offered is None:
            return
        self._offers.remove(offered.data.pop())  # the last: those before it may have left
        if not offered.data:
            del page.offered[id(item)]

    def without_file(self, item: Any, page: CrawledPage) -> None:
        """An item has left the pipelines, but is to pass again for its file.

        Where a pipeline has put it in the place of another, nobody knows of which: then all of the
        page's are.
        """
        offered = page.offered.values()
        all_of_page = [one.item for one in offered for _ in one.data]
        for one in [item] if id(item) in page.offered else all_of_page:
            self.withdrawn(one, page)

    def keep(self, items: list[KeptItem]) -> None:
        """Items that were offered and not withdrawn are stored."""
        for item in items:
            self._offers.remove(item)
            self._state.keep_item(item)
            if self._fleet is not None:
                self._fleet.pages.keep_item(item)

    # --- which field makes items differ

    def _remember_fields(self, name: int, fields: dict[str, int]) -> None:
        of_cluster = self._fields.setdefault(name, [])
        if len(of_cluster) < OF_A_CLUSTER:
            of_cluster.append(fields)
            self._n_fields += 1
        while self._n_fields > OF_ALL_CLUSTERS:
            self._n_fields -= len(self._fields.popitem(last=False)[1])

    def _note_difference(self, page: CrawledPage, name: int, fields: dict[str, int]) -> None:
        page.differing = page.differing or set()
        others = self._fields.get(name)
        if others is None:
            return
        # A page may have several items: the most similar one is this item's earlier self.
        differing = min((fields_apart(other, fields) for other in others), key=len)
        page.differing.update(differing)
        if len(differing) == 1:
            self.only_difference[differing[0]] += 1


def is_no_document(response: Response) -> bool:
    """Whether a response is no HTML page, but data or a piece of one, for its URL to name."""
    return not isinstance(response, HtmlResponse) or DOCUMENT.search(response.body) is None


def row_of(page: CrawledPage) -> int | None:
    """The row by which the items of a page and of its copies are remembered, None for nothing."""
    judged = page.judged
    if judged is None:
        return None
    return judged.original_id if judged.is_duplicate else judged.page_id


def told_apart(page: CrawledPage, by_markup: bool) -> int:
    """What tells an item that holds a near page as a whole from those that hold its original.

    by_markup: whether it holds what the page's markup says besides.
    """
    judged = page.judged
    if judged is None:
        return 0
    return (judged.wording or 0) ^ ((judged.markup or 0) if by_markup else 0)


def is_near(page: CrawledPage) -> bool:
    """Whether a page repeats another whose text is not the same.

    Of pages with equal text, what differs in their items' texts comes from elsewhere.
    """
    return page.applied is not None and page.applied.is_near
