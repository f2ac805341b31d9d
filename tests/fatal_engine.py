"""Engines that end their process at a page that says so, as a crash in C code would, or later."""

import os

from scrapy_neardup.engines import Signatures
from scrapy_neardup.engines.arrays import ArraysEngine


class FatalEngine(ArraysEngine):
    """Ends the process, without a word, at words that contain "fatal"."""

    def signatures(self, words: bytes) -> Signatures:
        if b"fatal" in words:
            os._exit(1)
        return super().signatures(words)


class EndsWhenSent(int):
    """A number that ends the process when it is sent to another, as a lack of memory would."""

    def __reduce__(self) -> tuple[object, ...]:
        os._exit(1)


class FatalToSend(ArraysEngine):
    """Its fingerprints of words that contain "fatal" end the process that sends them."""

    def signatures(self, words: bytes) -> Signatures:
        made = super().signatures(words)
        if b"fatal" in words:
            return made._replace(fingerprint=EndsWhenSent(made.fingerprint))
        return made
