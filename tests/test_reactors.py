"""The whole plugin under each of the loops that Scrapy runs on."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from crawls import ADDONS
from fleets import RunningServer
from mock_site import MockSite, page, prose

MODES = {
    "asyncio": {},
    "reactorless": {"TWISTED_REACTOR_ENABLED": "False"},
    "select": {"TWISTED_REACTOR": "twisted.internet.selectreactor.SelectReactor"},
}
COMMAND = (sys.executable, "-m", "scrapy", "runspider", "spider.py", "-O", "items.jsonl")
SPIDER = '''
import scrapy


class Everything(scrapy.Spider):
    """Follows every link and makes one item of every page."""

    name = "everything"

    async def start(self):
        yield scrapy.Request(self.root)

    def parse(self, response):
        yield {"url": response.url}
        yield from response.follow_all(css="a")
'''


@pytest.mark.parametrize("mode", MODES)
def test_a_crawl_keeps_each_page_once(mode: str, mock_site: MockSite, tmp_path: Path) -> None:
    # Read off the loop's thread. The second one is found on the first: were both under way at
    # once, an item of the copy might come before the original's, and be kept.
    long_page = page(prose("long", n_words=60_000), "/long/0", "/long/1")
    for n in range(2):
        mock_site.add(f"/long/{n}", long_page)
    paths = ("/long/0", "/page/1", "/copy/1", "/near/1", "/flaky", "/moved")
    links = [mock_site.url(path) for path in paths]
    root = mock_site.add("/root", page(prose("root"), *links))
    # A site of so few pages has no templates that could be known yet.
    items, log = run(
        root, tmp_path, MODES[mode] | {"NEARDUP_BOILERPLATE": "keep", "NEARDUP_KEY": "0"}
    )
    kept = sorted(url.removeprefix(mock_site.root).split("/")[1] for url in items)
    assert len(items) == 5, log
    assert {"flaky", "moved", "long", "root"} < set(kept)
    assert "neardup/items/dropped" in log


@pytest.mark.parametrize("mode", ["asyncio", "select"])
def test_a_worker_asks_its_fleet(
    mode: str, server: RunningServer, mock_site: MockSite, tmp_path: Path
) -> None:
    pytest.importorskip("redis", reason="the extra `redis` is not installed")
    settings = MODES[mode] | {"NEARDUP_BACKEND": server.url}
    kept: list[str] = []
    for worker, paths in enumerate((("page/1", "page/2"), ("page/1", "copy/2", "page/3"))):
        links = [mock_site.url(f"/{path}") for path in paths]
        root = mock_site.add(f"/seed/{worker}", page(prose(worker), *links))
        items, log = run(root, tmp_path, settings)
        kept += [url.removeprefix(mock_site.root) for url in items]
        assert "neardup/errors" not in log
    assert sorted(kept) == ["/page/1", "/page/2", "/page/3", "/seed/0", "/seed/1"]
    assert mock_site.gets("/page/1") == 1


def run(root: str, folder: Path, settings: dict[str, str]) -> tuple[list[str], str]:
    """A crawl in a process of its own: URLs of its items, and its log."""
    (folder / "spider.py").write_text(SPIDER)
    settings = settings | {"ADDONS": json.dumps(ADDONS), "LOG_LEVEL": "INFO"}
    options = [part for k, v in settings.items() for part in ("-s", f"{k}={v}")]
    done = subprocess.run(
        [*COMMAND, "-a", f"root={root}", *options],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=300,
    )
    lines = (folder / "items.jsonl").read_text().splitlines()
    return [json.loads(line)["url"] for line in lines], done.stderr
