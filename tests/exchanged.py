"""A state written on one machine and read on another: python -m tests.exchanged write|read FOLDER.

Writing also prints a digest of all fingerprints and sketches, the same on every machine.
"""

import hashlib
import sys
from pathlib import Path

from scrapy_neardup import kernels
from scrapy_neardup.factory import make_state_factory
from scrapy_neardup.settings import NearDupSettings
from scrapy_neardup.state import State
from tests.mock_site import prose

PAGES, URLS = range(300), range(5_000)
INDEXES = ("permuted", "slices", "scan")


def key_of(number: int) -> bytes:
    return b"site.example/%d" % number


def opened(folder: Path, index: str) -> State:
    settings = NearDupSettings(index=index, key=5, url_capacity=1_000, boilerplate="keep")
    return State.open(folder / index, make_state_factory(settings), key=settings.key, fsync="no")


def write(folder: Path, index: str) -> str:
    """The digest of what was found in the pages; half of the state is in the journal only."""
    state, digest = opened(folder, index), hashlib.sha256()
    for page in PAGES:
        if page == len(PAGES) // 2:
            state.snapshot()
        reading = state.detector.read(f"https://site.example/{page}", prose(page, n_words=300))
        digest.update(repr(state.detector.engine.signatures(reading.words)).encode())
        page_id = state.decide(reading)[0].page_id
        assert page_id is not None
        state.keep(page_id)
    for url in URLS:
        state.url_done(key_of(url))
    state.close()
    return digest.hexdigest()


def read(folder: Path, index: str) -> str:
    """What the state knows; raises where that is not what was written."""
    state = opened(folder, index)
    assert all(key_of(url) in state.urls for url in URLS)
    assert not any(key_of(-1 - url) in state.urls for url in URLS)
    for page in PAGES:
        copy = f"{prose(page, n_words=300)} changed"
        reading = state.detector.read(f"https://site.example/copy/{page}", copy)
        assert state.decide(reading)[0].is_duplicate
        other = state.detector.read(
            f"https://site.example/new/{page}", prose(1_000 + page, n_words=300)
        )
        assert not state.decide(other)[0].is_duplicate
    state.close()
    return f"{len(PAGES)} pages and {len(URLS)} URLs"


if __name__ == "__main__":
    done = {"write": write, "read": read}[sys.argv[1]]
    sys.stdout.write(f"{kernels.implementation} kernels\n")
    for index in INDEXES:
        sys.stdout.write(f"{index} {done(Path(sys.argv[2]), index)}\n")
