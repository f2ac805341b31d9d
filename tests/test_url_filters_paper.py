"""urls/filters/paper.py: the paper's filter does what the paper says, defects and all."""

import itertools

from scrapy_neardup.urls.filters.layered import LayeredBloomFilter
from scrapy_neardup.urls.filters.paper import PaperBloomFilter, PaperLayeredBloomFilter

M = 1 << 24


def test_neither_filter_of_the_paper_forgets() -> None:
    keys = [b"h%d.example/%d/%d" % (i % 7, i % 50, i) for i in range(2_000)]
    for known in (PaperBloomFilter(9_999), PaperLayeredBloomFilter(9_999)):
        for key in keys:
            known.add(key)
        assert all(key in known for key in keys)


def test_the_papers_xor_cancels_and_ours_does_not() -> None:
    """/a/b sets every bit that /b/a has in the last layer, and most segments are known soon."""
    pairs = [b"h.example/%d/%d" % pair for pair in itertools.permutations(range(40), 2)]
    literal, ours = PaperLayeredBloomFilter(M), LayeredBloomFilter(10_000, seed=1)
    lost = 0
    for key in pairs:
        lost += key in literal
        literal.add(key)
    assert 0.45 * len(pairs) < lost <= 0.5 * len(pairs)
    assert not any(ours.add(key) for key in pairs)


def test_the_papers_appended_id_flatters_its_filter() -> None:
    """An unknown last segment is what the layers catch; known segments are what crawls bring."""
    literal = PaperLayeredBloomFilter(20_000)
    for i in range(8_000):
        literal.add(b"h.example/%d/%d" % (i % 100, i))
    appended = sum(b"h.example/%d/%d-id" % (i % 100, i) in literal for i in range(4_000))
    worst = sum(b"h.example/%d/%d" % ((i + 1) % 100, i) in literal for i in range(4_000))
    assert 0 < appended < 0.7 * worst


def test_memory_said_is_the_memory_taken() -> None:
    """The last array has a power of two of bits, up to twice the others."""
    m = 2**16 + 8
    known = PaperLayeredBloomFilter(m)
    assert known.nbytes == 4 * (m // 8 + 1) + 2**17 // 8
