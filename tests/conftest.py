"""Fixtures shared by all tests."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from fleets import RunningServer, running_server
from hypothesis import settings
from mock_site import MockSite, running_site

# Examples have no deadline, for machines are busy; where CI is set, they are the same in each run.
settings.register_profile("steady", deadline=None, derandomize=bool(os.environ.get("CI")))
settings.load_profile("steady")

SHARED_DATA = Path(__file__).resolve().parents[2] / "shared" / "data"


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of real pages and URLs beside the project; skips where it is absent."""
    if not SHARED_DATA.is_dir():
        pytest.skip(f"real pages and URLs are not at {SHARED_DATA}")
    return SHARED_DATA


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
