"""Items on their way to the pipelines, and the pages they come from."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from scrapy.http import Response

from scrapy_neardup.crawl.items.item_data import Provenance
from scrapy_neardup.crawl.pages.body_cache import Body
from scrapy_neardup.crawl.pages.extract import Shown
from scrapy_neardup.crawl.recrawl.visit_comparison import Revisit
from scrapy_neardup.detect.content import PageContent
from scrapy_neardup.detect.decision import Decision
from scrapy_neardup.detect.item_table import KeptItem
from scrapy_neardup.detect.text import Blocks
from scrapy_neardup.state.visit import FIRST, Original
from scrapy_neardup.urls.key import UrlKeyRules, url_key


class OfferedItem(NamedTuple):
    """An item that our pipeline let through and that has not left the others.

    data  each time that it was: a spider may yield one object several times
    """

    item: Any
    data: list[KeptItem]


@dataclass(eq=False, slots=True)
class CrawledPage:
    """A response whose callback is running or whose items are under way, and what it says."""

    id: int  # of the page in the lifecycle
    response: Response
    is_tracked: bool  # whether what is found on it is waited for
    asked_fleet: bool = False  # whether the fleet was asked for its URL
    is_of_form: bool = False  # whether a form led to it
    body: Body | None = None  # where it may tell a copy
    content: PageContent | str | None = None  # what was extracted of it
    is_extracted: bool = False  # whether that was tried
    revisit: Revisit | None = None  # how it compares with its earlier self, under NEARDUP_RECRAWL
    # The same: a digest of each field of an item, by its id(), as the callback yielded it.
    as_yielded: dict[int, dict[str, int]] = field(default_factory=dict)
    original: Original | None = None  # the page that it repeats, as it was when they were compared
    originals: dict[bytes, int] = field(default_factory=dict)  # for which its items were dropped
    version: int = FIRST  # of the page by whose name its items are remembered
    was_kept: bool = False  # whether items of its earlier self were kept
    n_links: int = 0  # requests that its callback yielded, counted there, too
    n_new_links: int = 0  # of those, to URLs that nobody knew (NEARDUP_REVISIT)
    new_links: dict[bytes, str] = field(default_factory=dict)  # of which a fleet is to be asked
    text: str = ""  # where texts are recorded
    is_read_again: bool | None = None  # see ItemJudge; None: not known yet
    # Whether a page that repeats another gives several items, and says something else: then its
    # URL tells of what they are. Of exact copies known from the first item on that is new.
    gives_several: bool | None = None
    # Whether its callback waited for something before an item of it; None: it has given none yet.
    has_waited: bool | None = None
    said: str | None = None  # by the page, where that is to be known
    says_more: bool = False  # whether such an item says what the page does not
    shown: Shown | None = None  # its texts, where an item may hold all of it
    stated: int | None = None  # a digest of its facts, where an item holds it
    # Of pages whose text repeats none: what they say, in words and line by line.
    words: bytes = b""
    blocks: Blocks | None = None
    claimed: int | None = None  # row of the page that it names as its canonical one
    near_row: int | None = None  # of the page that a page of the same bytes was near
    judged: Decision | None = None  # what the detector said
    applied: Decision | None = None  # the same, None where it is overruled
    is_new: bool = False  # whether the page is remembered from now on
    is_read: bool = False  # whether it was judged, or could not be
    # Whether its items are remembered with no visit: those of an error, or without a file.
    is_beside: bool = False
    brought_item: bool = False  # whether its callback gave one
    is_put_out: bool = False  # whether one has left the pipelines
    is_reread: bool = False  # whether an earlier run, which was cut off, put out what it says
    handed: list[int] = field(default_factory=list)  # id() of items the pipeline has not seen
    provenance: Provenance | None = None  # what its items may echo, made with the first of them
    own_provenance: Provenance | None = None  # the same beside those of the page's earlier self
    offered: dict[int, OfferedItem] = field(default_factory=dict)  # by id() of the item
    leads_on: bool = False  # whether a request found on it is new, and of no kind
    leads_to: Counter[str] | None = None  # how many new URLs were found on it, by kind
    kind: str | None = None  # of its URL, once that was asked for; "" for none
    own_words: int | None = None  # counted when a link of it is to be pruned
    n_repeating: int = 0  # items that were dropped, tagged or counted
    # Fields by which items were kept though the page repeats another; None if none was kept so.
    differing: set[str] | None = None
    begun_at: float = field(default_factory=time.time)  # when its callback began
    _key: bytes | None = None

    @property
    def own_row(self) -> int:
        """By which others wait for its items: its row, or a number below those of all rows.

        A copy has no row, but its items may be kept for what they say.
        """
        row = self.judged.page_id if self.judged is not None and self.is_new else None
        return -2 - self.id if row is None else row

    @property
    def says_nothing_new(self) -> bool:
        """Whether it says what an earlier run has put out, under NEARDUP_RECRAWL."""
        return self.revisit is not None and self.revisit.says_nothing_new

    @property
    def repeated_row(self) -> int | None:
        """The row of the page that it repeats, None where it repeats nothing."""
        decision = self.applied
        return decision.original_id if decision is not None and decision.is_duplicate else None

    @property
    def asked_at(self) -> float:
        """When the page was asked for, in seconds since the epoch; no earlier, but for retries."""
        latency: float = self.response.meta.get("download_latency", 0.0)
        return self.begun_at - latency

    def key(self, rules: UrlKeyRules) -> bytes:
        """The key of the response's URL, made once; rules: always those of the crawl."""
        if self._key is None:
            self._key = url_key(self.response.url, rules)
        return self._key


class Repeat(NamedTuple):
    """Why an item is to be dropped, and for whose sake.

    row  of the page, or of the single item, that stands for it
    """

    decision: Decision
    row: int | None


class HandedItems:
    """Pipelines get an item without its response: its identity leads back to its page."""

    def __init__(self) -> None:
        self._pages: dict[int, tuple[Any, CrawledPage]] = {}  # by id() of the item

    def hand_over(self, item: Any, page: CrawledPage) -> None:
        """The callback yielded an item."""
        page.handed.append(id(item))
        self._pages[id(item)] = (item, page)

    def take_over(self, item: Any) -> CrawledPage | None:
        """The page an item came from; None if it came from none or was replaced on its way."""
        handed, page = self._pages.get(id(item), (None, None))
        if page is None or handed is not item:
            return None
        page.handed.remove(id(item))
        if id(item) not in page.handed:  # a spider may yield one object several times
            del self._pages[id(item)]
        return page

    def forget(self, page: CrawledPage) -> int:
        """All items of a page are done; how many of them the pipeline never saw."""
        for identity in page.handed:
            if self._pages.get(identity, (None, None))[1] is page:
                del self._pages[identity]
        return len(page.handed)
