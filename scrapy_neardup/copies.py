"""Bodies that were read: a page that is one of them, byte by byte, need not be read again."""

from __future__ import annotations

from secrets import token_bytes
from typing import NamedTuple

from cryptography.hazmat.primitives.poly1305 import Poly1305
from scrapy.http import Response

from scrapy_neardup.detector import PageReading

MAX_BODIES = 2**16  # at about 300 bytes each
MAX_BODY_BYTES = 2**20  # a longer one takes more than a millisecond to tell


class Body(NamedTuple):
    """All that the visible text of a response depends on."""

    digest: bytes  # 16 bytes
    kind: type[Response]
    encoding: str | None


class Words(NamedTuple):
    """What tells the words of a page from those of another."""

    digest: bytes  # pages.digest_of
    n_words: int


class Copies:
    """Which words the last MAX_BODIES bodies had."""

    def __init__(self) -> None:
        self._key = token_bytes(32)
        self._words: dict[Body, Words] = {}

    def body(self, response: Response) -> Body:
        """The body of a response, told by a digest: Poly1305 under a key of this crawl.

        The key never leaves and the digests are not shown, so no two bodies of up to
        MAX_BODY_BYTES, however chosen, share one but by a chance of 2^-87 (Bernstein 2005,
        theorem 3.3). A seventh of the time of BLAKE2b. Raises
        cryptography.exceptions.UnsupportedAlgorithm where OpenSSL may not use it.
        """
        digest = Poly1305.generate_tag(self._key, response.body)
        return Body(digest, type(response), getattr(response, "encoding", None))

    def words(self, body: Body) -> Words | None:
        """The words of a body, if it was read."""
        return self._words.get(body)

    def remember(self, body: Body, reading: PageReading) -> None:
        """A body was read; beyond MAX_BODIES the one that was read first is forgotten."""
        self._words[body] = Words(reading.digest, reading.n_words)
        if len(self._words) > MAX_BODIES:
            del self._words[next(iter(self._words))]
