"""Whether the workers of a shared queue have the same arguments: each reads pages with its own."""

from __future__ import annotations

import json
import logging
from hashlib import blake2b

from scrapy import Spider

from scrapy_neardup import stats
from scrapy_neardup.crawl.fail_open import Count
from scrapy_neardup.fleet.frontier import Begun

logger = logging.getLogger(__name__)

KEY = ""  # no attribute has this name: its digest tells of the key, which `rotate-key` replaces

OF_THE_RUN = (
    "neardup: this run of the spider was begun by a worker with another %.500s. A page is read by "
    "whichever worker is given its request, with that worker's arguments, and not again for those "
    "of others. Give all workers of a spider the same arguments, and others another "
    "NEARDUP_BACKEND_PREFIX or a spider of another name"
)
# Not a warning: an argument that changes with each run, such as the day, is ordinary.
OF_AN_EARLIER_ONE = (
    "neardup: the last run of this spider had another %.500s. Pages of which it has items are "
    "known, and without NEARDUP_RECRAWL they are not read again. To read them with these "
    "arguments, set another NEARDUP_BACKEND_PREFIX, or crawl with a spider of another name"
)


class SpiderArguments:
    """The arguments with which a worker's spider begins.

    Arguments of `-a` are strings that the spider has as attributes, beside those that it sets
    itself. Those of scrapyd (`_job`) begin with an underscore: they differ by design.
    """

    def __init__(self, spider: Spider, secret: int) -> None:
        """secret: the fleet's. It keys what the server gets, for an argument may be a password."""
        named = {KEY: ""} | {
            name: value
            for name, value in sorted(vars(spider).items())
            if isinstance(value, str) and name != "name" and not name.startswith("_")
        }
        self._digests = {name: _digest(value, secret) for name, value in named.items()}

    @property
    def packed(self) -> bytes:
        """What the server keeps: a digest of each."""
        return json.dumps(self._digests).encode("ascii")

    def compare(self, begun: Begun, count: Count) -> None:
        """Say by which arguments the worker differs from that which began its run, or the last."""
        ours, others = self._digests, json.loads(begun.arguments or b"{}")
        names = [name for name in ours | others if ours.get(name) != others.get(name)]
        if not names or KEY in names:  # nothing is known of others, or under another key
            return
        told = " and ".join(map(repr, names))
        if begun.goes_on:
            count(stats.FRONTIER_FOREIGN)
            logger.warning(OF_THE_RUN, told)
        else:
            logger.info(OF_AN_EARLIER_ONE, told)


def _digest(value: str, secret: int) -> str:
    key = secret.to_bytes(8, "little")
    return blake2b(value.encode("utf-8", "replace"), digest_size=4, key=key).hexdigest()
