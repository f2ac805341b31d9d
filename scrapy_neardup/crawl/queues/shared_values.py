"""Warns of requests that share a dict or list: in a queue of JSON each has a copy."""

from __future__ import annotations

import logging
from collections import OrderedDict
from typing import Any

from scrapy.http import Request

from scrapy_neardup.crawl.requests.carrying import HOW_FETCHED

logger = logging.getLogger(__name__)

REMEMBERED = 64  # values of the newest requests; held, so that no other gets the id of one


class SharedValues:
    """The dicts and lists that the newest requests carry for their callbacks."""

    def __init__(self) -> None:
        self._newest: OrderedDict[int, Any] = OrderedDict()
        self._has_warned = False

    def add(self, request: Request) -> None:
        """A request is queued; warns, once, if it shares a value with another."""
        if self._has_warned:
            return
        carried = {**request.meta, **request.cb_kwargs}
        for name, value in carried.items():
            if type(value) in (dict, list) and name not in HOW_FETCHED:
                self._add(name, value, request)

    def _add(self, name: str, value: Any, request: Request) -> None:
        if self._newest.get(id(value)) is not None and not self._has_warned:
            self._has_warned = True
            logger.warning(
                "neardup: requests share the %s under %r in their meta or cb_kwargs, such as that "
                "for %.500r. With FleetScheduler each has a copy, since another worker may make "
                "it: what one callback adds, the others do not see. If callbacks only read it, "
                "nothing is amiss. If they add to it, make "
                "one request after the other and hand it on",
                *(type(value).__name__, name, request.url),
            )
        self._newest[id(value)] = value
        if len(self._newest) > REMEMBERED:
            self._newest.popitem(last=False)
