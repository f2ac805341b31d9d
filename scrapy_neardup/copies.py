"""Bodies that were read: a page that is one of them, byte by byte, need not be read again."""

from hashlib import blake2b
from typing import NamedTuple

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


def body_of(response: Response) -> Body:
    """The body of a response, told by a digest (BLAKE2b, 128 bits)."""
    digest = blake2b(response.body, digest_size=16, person=b"neardup-body").digest()
    return Body(digest, type(response), getattr(response, "encoding", None))


class Copies:
    """Which words the last MAX_BODIES bodies had."""

    def __init__(self) -> None:
        self._words: dict[Body, Words] = {}

    def words(self, body: Body) -> Words | None:
        """The words of a body, if it was read."""
        return self._words.get(body)

    def remember(self, body: Body, reading: PageReading) -> None:
        """A body was read; beyond MAX_BODIES the one that was read first is forgotten."""
        self._words[body] = Words(reading.digest, reading.n_words)
        if len(self._words) > MAX_BODIES:
            del self._words[next(iter(self._words))]
