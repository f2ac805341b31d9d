"""Fixtures shared by all tests."""

import gzip
import json
import logging
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fleets import RunningServer, running_server
from hypothesis import settings
from mock_site import MockSite, running_site

# Examples have no deadline, for machines are busy; where CI is set, they are the same in each run.
settings.register_profile("steady", deadline=None, derandomize=bool(os.environ.get("CI")))
settings.load_profile("steady")

# What a crawl that could not start leaves open is told when the garbage collector comes: within
# any test, of which some look at the log.
logging.getLogger("asyncio").addFilter(lambda record: "Unclosed" not in record.getMessage())

SHARED_DATA = Path(__file__).resolve().parents[2] / "shared" / "data"


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of real pages and URLs beside the project; skips where it is absent."""
    if not SHARED_DATA.is_dir():
        pytest.skip(f"real pages and URLs are not at {SHARED_DATA}")
    return SHARED_DATA


@pytest.fixture(scope="session")
def real_urls(shared_data: Path) -> list[str]:
    """One in twelve of the real URLs, and all that have escapes or several arguments."""
    with gzip.open(shared_data / "urls" / "gov_stream.txt.gz", "rt") as lines:
        urls = dict.fromkeys(line.strip() for line in lines)
    return [url for i, url in enumerate(urls) if i % 12 == 0 or "%" in url or "&" in url]


@pytest.fixture(scope="session")
def variants(shared_data: Path) -> list[dict[str, Any]]:
    """Variants of real URLs, and what makes them so."""
    with gzip.open(shared_data / "urls" / "variants.jsonl.gz", "rt") as lines:
        return [json.loads(line) for line in lines]


@pytest.fixture(scope="module")
def one_key() -> Iterator[None]:
    """Folders draw keys, and decisions near the limit depend on them: commands take one_key.py."""
    paths = [str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")]
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("PYTHONPATH", os.pathsep.join(filter(None, paths)))
        patched.setenv("SCRAPY_SETTINGS_MODULE", "one_key")
        yield


@pytest.fixture
def mock_site() -> Iterator[MockSite]:
    """A small site on loopback that counts its hits; see MockSite for its routes."""
    with running_site() as site:
        yield site


@pytest.fixture
def server() -> Iterator[RunningServer]:
    """A Valkey or Redis server for a fleet."""
    with running_server() as server:
        yield server
