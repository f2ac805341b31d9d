"""The whole plugin under each of the loops that Scrapy runs on."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from crawls import ADDONS
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
    long_page = page(prose("long", n_words=60_000))  # read off the loop's thread
    links = [mock_site.add(f"/long/{n}", long_page) for n in range(2)]
    links += [mock_site.url(p) for p in ("/page/1", "/copy/1", "/near/1", "/flaky", "/moved")]
    root = mock_site.add("/root", page(prose("root"), *links))
    (tmp_path / "spider.py").write_text(SPIDER)
    settings = MODES[mode] | {"ADDONS": json.dumps(ADDONS), "LOG_LEVEL": "INFO"}
    options = [part for k, v in settings.items() for part in ("-s", f"{k}={v}")]
    done = subprocess.run(
        [*COMMAND, "-a", f"root={root}", *options],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
    )
    lines = (tmp_path / "items.jsonl").read_text().splitlines()
    items = [json.loads(line)["url"] for line in lines]
    kept = sorted(url.removeprefix(mock_site.root).split("/")[1] for url in items)
    assert len(items) == 5, done.stderr
    assert {"flaky", "moved", "long", "root"} < set(kept)
    assert "neardup/items/dropped" in done.stderr
