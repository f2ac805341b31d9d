"""The real site of ../shared/data on loopback: unpacked, served by http.server, crawled."""

import os
import re
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from scrapy.settings import Settings
from scrapy.utils.project import get_project_settings

ROOT = Path(__file__).resolve().parents[1]
DATA = ROOT.parent / "shared" / "data" / "site"
STARTS = ("/httpd/", "/httpd-2.4.68/en/", "/lang3/")
# The example project's settings with the plugin's own defaults, and no waiting on loopback.
SETTINGS = {
    "EXTENSIONS": {},
    "NEARDUP_FOLLOW_DUPLICATES": True,
    "DEPTH_LIMIT": 0,
    "DOWNLOAD_DELAY": 0,
    "CONCURRENT_REQUESTS_PER_DOMAIN": 8,
    "LOG_LEVEL": "WARNING",
}


@contextmanager
def unpacked() -> Iterator[Path]:
    """The site's files in a temporary folder; its symbolic links are its exact copies."""
    with TemporaryDirectory() as folder:
        with tarfile.open(DATA / "site.tar.gz") as archive:
            archive.extractall(folder, filter="data")
        yield Path(folder)


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """Serve a folder from a process of its own, on a free port; the root URL without slash."""
    command = ["-u", "-m", "http.server", "0", "--bind", "127.0.0.1", "--directory", str(folder)]
    with subprocess.Popen(
        [sys.executable, *command], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as server:
        assert server.stdout is not None
        port = re.search(r"port (\d+)", server.stdout.readline())
        assert port is not None
        try:
            yield f"http://127.0.0.1:{port[1]}"
        finally:
            server.terminate()


def crawl_settings(**changes: object) -> Settings:
    """The example project's settings for the real site; its spiders become importable."""
    os.chdir(ROOT / "example_project")
    settings = get_project_settings()
    settings.setdict(SETTINGS | changes, priority="cmdline")
    return settings


def start_argument(root: str) -> str:
    """The spider's `start` argument."""
    return ",".join(root + path for path in STARTS)
