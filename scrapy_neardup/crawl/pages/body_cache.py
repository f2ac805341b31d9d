"""Bodies that were read: a page that is one of them, byte by byte, need not be read again."""

from __future__ import annotations

import sys

from scrapy.http import Response

from scrapy_neardup.detect.page_reading import PageReading

MAX_BODIES = 2**16  # at about 330 bytes each
MAX_BODY_BYTES = 2**20  # a longer one takes more than a millisecond to tell

# Where hash() is narrower, not keyed, or its key is public (PYTHONHASHSEED=0), all pages are read.
HASH_TELLS = (
    sys.hash_info.width == 64
    and sys.hash_info.algorithm.startswith("siphash")
    and bool(sys.flags.hash_randomization)
)

# Plain tuples of plain values: what holds more stays with the garbage collector for good.
Body = tuple[int, int, str, str, str | None]  # all that the visible text of a response depends on
# The digest of their text, how many they are, and the row of the page that they are near.
Words = tuple[bytes, int, int | None]


class BodyCache:
    """Which words the last MAX_BODIES bodies had."""

    def __init__(self) -> None:
        self._words: dict[Body, Words] = {}

    def body(self, response: Response) -> Body:
        """The body of a response, told by Python's hash() and its length.

        hash() is SipHash under a secret key of this process: nobody can choose two bodies that
        share one, and of all that are remembered one has a new body's by a chance of at most
        2^-48.
        """
        body, kind = response.body, type(response)
        encoding = getattr(response, "encoding", None)
        return hash(body), len(body), kind.__module__, kind.__qualname__, encoding

    def words(self, body: Body) -> Words | None:
        """The words of a body, if it was read."""
        return self._words.get(body)

    def remember(self, body: Body, reading: PageReading, near: int | None) -> None:
        """A body was read; beyond MAX_BODIES the one that was read first is forgotten."""
        self._words[body] = reading.digest, reading.n_words, near
        if len(self._words) > MAX_BODIES:
            del self._words[next(iter(self._words))]
