"""Whether an item may say what its page does not: its callback has waited for something."""

from __future__ import annotations

import asyncio
import html
import re
from collections.abc import Callable, Iterator
from collections.abc import Set as AbstractSet
from datetime import date
from inspect import iscoroutinefunction, unwrap
from itertools import islice
from typing import Any
from urllib.parse import urlsplit

from scrapy.http import Request, Response, TextResponse
from scrapy.utils.asyncio import call_later
from w3lib.html import replace_tags

from scrapy_neardup.crawl.items.item_data import ADDRESS, OF_THE_VISIT
from scrapy_neardup.crawl.items.item_fields import PLAIN, has_names, named_values

# What a longer page says is not looked at, nor an item of more values.
MAX_PAGE_BYTES, MAX_VALUES = 1 << 16, 32
SMALL = re.compile(r"\W*\d{1,3}\W*")  # a number that a page may say by chance, of anything
DAY = re.compile(r"\d{4}-\d\d?-\d\d?|\d\d?[./]\d\d?[./]\d{4}")
SECONDS = 10**9  # since the epoch: a smaller number is no time of a visit
# What stands between words, a point or a comma at the end of one apart.
BETWEEN = str.maketrans(dict.fromkeys("!\"#$%&'()*+-/:;<=>?@[\\]^`{|}~«»“”„‘’–—…", " "))


class Wait:
    """Notes whether the event loop has gone on: who runs then has waited for something."""

    def __init__(self) -> None:
        self.is_over = False
        try:
            asyncio.get_running_loop().call_soon(self._end)
        except RuntimeError:  # another reactor of Twisted's
            call_later(0, self._end)

    def _end(self) -> None:
        self.is_over = True


def waits_first(callback: Callable[..., Any] | None) -> bool:
    """Whether a callback is a coroutine, which returns its outputs after all that it waits for."""
    return callback is not None and iscoroutinefunction(unwrap(callback))


def is_given_objects(request: Request | None) -> bool:
    """Whether a callback is called with more than plain data: perhaps what a component made for it.

    That may have waited, as scrapy-poet does for page objects and items that ask an interface.
    """
    if request is None or not (given := request.cb_kwargs):
        return False
    return any(type(value) not in PLAIN and type(value) is not dict for value in given.values())


def said_by(response: Response) -> str | None:
    """The words of a page and its URLs: as it came, and as it is shown.

    None for a page of more than MAX_PAGE_BYTES, and where it is no text.
    """
    if not isinstance(response, TextResponse) or len(response.body) > MAX_PAGE_BYTES:
        return None
    asked = response.request.url if response.request is not None else ""
    shown = html.unescape(replace_tags(response.text, " "))
    return _words(f"{asked} {response.url} {response.text} {shown}")


def says_more(item: Any, said: str | None, ignored: AbstractSet[str]) -> bool:
    """Whether an item that item_data() has read has a value that its page does not say.

    True as well where that is not known, and where a value is of a kind that no page says as it
    is, such as True. said: by the page; see said_by(). ignored: names of fields, at any depth.
    """
    values = list(islice(_values(item, ignored), MAX_VALUES + 1))
    if said is None or len(values) > MAX_VALUES:
        return True
    return not all(_is_said(value, said) for value in values)


def _values(item: Any, ignored: AbstractSet[str]) -> Iterator[Any]:
    """The values of an item and of what it holds, but for what is empty or a time of the visit."""
    if has_names(item):
        for name, value in named_values(item, ignored):
            if not (OF_THE_VISIT.search(name) and _is_time(value)):
                yield from _values(value, ignored)
    elif isinstance(item, (list, tuple, AbstractSet)):
        for value in item:
            yield from _values(value, ignored)
    elif item is not None and item != "":
        yield item


def _is_time(value: Any) -> bool:
    if isinstance(value, (int, float)):
        return value >= SECONDS
    return isinstance(value, date) or (isinstance(value, str) and DAY.match(value) is not None)


def _is_said(value: Any, said: str) -> bool:
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        return False
    text = str(value).strip()
    if ADDRESS.fullmatch(text):  # pages link by paths
        text = urlsplit(text).path
    words = _words(text)
    return words != "  " and words in said and not SMALL.fullmatch(text)


def _words(text: str) -> str:
    """The words of a text with a space around each."""
    apart = f"{text.translate(BETWEEN)} ".replace(". ", " ").replace(", ", " ")
    return f" {' '.join(apart.split())} "
