"""An engine that ends its process at a page that says so, as a crash in C code would."""

import os

from scrapy_neardup.engines import Signatures
from scrapy_neardup.engines.arrays import ArraysEngine


class FatalEngine(ArraysEngine):
    """Ends the process, without a word, at words that contain "fatal"."""

    def signatures(self, words: bytes) -> Signatures:
        if b"fatal" in words:
            os._exit(1)
        return super().signatures(words)
