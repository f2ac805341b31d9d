"""What callbacks leave in a spider's attributes, on which what other pages give may depend."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Collection
from hashlib import blake2b
from types import FunctionType
from typing import Any

from scrapy import signals
from scrapy.crawler import Crawler

from scrapy_neardup.crawl.recrawl.program import own_classes
from scrapy_neardup.state.visit import HostRecord
from scrapy_neardup.state.visits import Visits

logger = logging.getLogger(__name__)

OF_ATTRIBUTES = "//"  # in place of a host: whether callbacks write the spider's attributes
OF_SCRAPY = ("crawler", "settings")  # attributes that hold what is not the spider's
VALUES = (str, bytes, int, float, complex, type(None))
CONTAINERS = (dict, list, tuple, set, frozenset, deque)


class SpiderMemory:
    """Watches whether callbacks write attributes of their spider: a token, a table, a counter.

    The callback of a page that is left unread writes nothing, and other pages may give something
    else for it. So all are read until a whole crawl that read all has shown that none writes any;
    a state that an older version left is no proof of that.

    is_written  whether a callback wrote an attribute in this run
    """

    def __init__(self, visits: Visits, servers: dict[str, HostRecord], crawler: Crawler) -> None:
        """servers: what earlier runs noted, with that of each host."""
        self._visits = visits
        self._crawler = crawler
        known = servers.get(OF_ATTRIBUTES)
        self._was_written = known is not None and known.n_refuted > 0
        # No worker of a fleet can say what the others saw: there all is well until one has seen it.
        self._is_proven = visits.is_shared if known is None else not known.n_refuted
        self.is_written = False
        self._before: dict[str, bytes] | None = None
        self._glance: list[int] = []
        self._was_idle = False
        crawler.signals.connect(self._idle, signal=signals.spider_idle)

    @property
    def lets_pages_go_unread(self) -> bool:
        """Whether pages may be left unread in this run."""
        return self._is_proven and not self.is_written

    def begin(self) -> None:
        """A request is made: from the first one on, what is written is written by callbacks."""
        if self._before is None:
            self._before, self._glance = self._digests(), self._at_a_glance()

    def callback_done(self) -> None:
        """A callback has yielded all: look closer if its spider seems to hold something else."""
        if not self.is_written and self._before is not None:
            glance = self._at_a_glance()
            if glance != self._glance:
                self._glance = glance
                self._look()

    def ended(self, reason: str, is_whole: bool) -> None:
        """The crawl is over. is_whole: it came to all that the spider leads to, by itself."""
        if not self._was_idle or reason != "finished":  # else closed() has written since
            self._look()
        if is_whole and self._before is not None and not self.is_written and not self._is_proven:
            self._visits.put_server(OF_ATTRIBUTES, HostRecord())

    def _idle(self) -> None:
        self._was_idle = True
        self._look()

    def _look(self) -> None:
        """Compare all attributes with what they were before the first callback."""
        before = self._before
        if self.is_written or before is None:
            return
        now = self._digests()
        names = sorted(name for name in before | now if before.get(name) != now.get(name))
        if names:
            self._written(names[0])

    def _written(self, name: str) -> None:
        self.is_written = True
        self._visits.put_server(OF_ATTRIBUTES, HostRecord(n_refuted=1))
        if not self._was_written:
            logger.info(
                "neardup: callbacks of this spider write its attribute %r, on which it may depend "
                "what other pages give: all pages are read in full, until a whole crawl goes by in "
                "which none is written",
                name,
            )

    def _attributes(self) -> dict[str, Any]:
        spider = self._crawler.spider
        own = {name: value for name, value in vars(spider).items() if name not in OF_SCRAPY}
        return _of_classes(type(spider)) | own

    def _digests(self) -> dict[str, bytes]:
        return {name: digest(value) for name, value in self._attributes().items()}

    def _at_a_glance(self) -> list[int]:
        """What differs once an attribute is another object, or one has more or less in it."""
        values = self._attributes().values()
        sizes = [len(value) for value in values if isinstance(value, CONTAINERS)]
        return [*map(id, values), *sizes]


def _of_classes(spider: type) -> dict[str, Any]:
    """What the classes of a project hold for all their spiders, as `seen = set()` does, and what
    their methods hold for all calls, as `def parse(self, response, seen=[])` does.
    """
    found = {}
    for kind in own_classes(spider):
        for name, value in vars(kind).items():
            if isinstance(value, FunctionType):
                value = value.__defaults__
            if isinstance(value, (*CONTAINERS, *VALUES)):
                found[f"{kind.__qualname__}.{name}"] = value
    return found


def digest(value: Any) -> bytes:
    """16 bytes that differ when a value does, at any depth of lists and dicts.

    Of an object that is no container it is told which one it is, and how many it holds.
    """
    found = blake2b(digest_size=16)
    waiting, seen = [value], {id(value)}
    while waiting:
        one = waiting.pop()
        found.update(_told(one))
        for part in _parts(one):
            if isinstance(part, VALUES) or id(part) not in seen:
                seen.add(id(part))
                waiting.append(part)
    return found.digest()


def _parts(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return [*value, *value.values()]
    return [*value] if isinstance(value, (list, tuple, deque)) else []


def _told(value: Any) -> bytes:
    """What of a value is told without its parts."""
    if isinstance(value, VALUES):
        text = repr(value)
    elif isinstance(value, (set, frozenset)):
        text = f"{len(value)} {hash(frozenset(value))}"
    elif isinstance(value, CONTAINERS):
        text = str(len(value))
    else:
        text = f"{id(value)} {_size(value)}"
    return f"{type(value).__qualname__} {len(text)} {text} ".encode("utf-8", "surrogatepass")


def _size(value: Any) -> int:
    try:
        return len(value) if isinstance(value, Collection) else 0
    except Exception:  # of a table that is closed
        return -1
