"""Crawls the demo and photographs its report for the documents: python docs/screenshots.py.

Needs pip install -e '.[browser]' and Debian's chromium. Run it when the report's looks change.
"""

import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
IMAGES = ROOT / "docs" / "images"
sys.path.insert(0, str(ROOT / "tests"))

from browser import chromium, opened  # noqa: E402

SIZE = {"width": 1280, "height": 1500}
# Those of docs/first-crawl.md, and the key of the README's table.
TRIAL = ("NEARDUP_ACTION=dry-run", "NEARDUP_KEEP_TEXT=True", "NEARDUP_KEY=0")


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        state = Path(folder) / "demo"
        crawl = [sys.executable, "-m", "scrapy", "crawl", "demo"]
        for setting in (f"NEARDUP_STATE_DIR={state}", *TRIAL):
            crawl += ["-s", setting]
        subprocess.run(crawl, cwd=ROOT / "example_project", check=True)
        report = state / "report.html"
        command = [sys.executable, "-m", "scrapy_neardup", "report", str(state), "-o", str(report)]
        subprocess.run(command, check=True)
        with chromium() as browser:
            for scheme in ("light", "dark"):
                photograph(browser, report.as_uri(), scheme)


def photograph(browser: object, url: str, scheme: str) -> None:
    """The top of the report, and its first cluster opened."""
    with opened(browser, url, viewport=SIZE, color_scheme=scheme) as page:
        page.screenshot(path=IMAGES / f"report-{scheme}.png")
        page.set_viewport_size({"width": 1280, "height": 900})
        page.keyboard.press("c")
        page.wait_for_selector("#compare .pair")
        page.screenshot(path=IMAGES / f"report-cluster-{scheme}.png")


if __name__ == "__main__":
    main()
