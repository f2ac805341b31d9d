"""Which bodies are read off the loop's thread: those that could hold up the crawl."""

from __future__ import annotations

import numpy as np

import scrapy_neardup.kernels as kernels

# Whatever a shorter body holds, it is read on the loop's thread; of a longer one, what a crawl that
# comes again compares, and an item on a near page, never is: they take several times as long.
SHORT_BYTES = 100_000
# A thread costs a crawl more than most bodies take: both wait for Python's lock again and again.
LOOP_NS = 50_000_000
# What takes longest in the worst bodies that `python -m tests.fuzz_cost 60 "on the loop"` finds:
# a byte in ASCII, or of a character that may have to be composed; a tag or an attribute; a value
# of JSON, or a reference to a character; where JSON may begin in a script, or a string.
NS_A_BYTE, NS_BEYOND_ASCII, NS_A_TAG = 100, 250, 3_000
NS_OF_MARKS = {
    **{",": 2_000, "&": 2_000},
    **{"[": 12_000, "{": 12_000, "(": 12_000},
    **{"'": 700, '"': 700},
}


def takes_long(body: bytes) -> bool:
    """Whether reading a body could take longer than LOOP_NS. O(n), 0.5 ns a byte."""
    n = len(body)
    if n < SHORT_BYTES:
        return False
    left = LOOP_NS - NS_A_BYTE * n
    if left < 0:
        return True
    codes = np.frombuffer(body, dtype=np.uint8)  # bytes.count() takes ten times as long
    left -= NS_BEYOND_ASCII * int(np.count_nonzero(codes > 127))
    left -= NS_A_TAG * kernels.markup.tags_and_attributes(body)
    for mark, ns in NS_OF_MARKS.items():
        left -= ns * int(np.count_nonzero(codes == ord(mark)))
    return left < 0
