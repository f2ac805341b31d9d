"""Headless Chromium for tests of pages; what the browser complains of fails the test."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.resources import files
from typing import Any

import pytest

# Without these Chromium talks to its maker's servers, and as root it needs no sandbox.
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]

BARRIERS = """async () => (await axe.run()).violations.flatMap(
  rule => rule.nodes.map(node => `${rule.impact} ${rule.id}: ${node.target.join(" ")}`))"""


def missing(what: str) -> None:
    """Skip, or fail where NEARDUP_REQUIRE_BROWSER says that a browser must be there."""
    if os.environ.get("NEARDUP_REQUIRE_BROWSER") == "1":
        pytest.fail(f"NEARDUP_REQUIRE_BROWSER=1, but {what}")
    pytest.skip(what)


@contextmanager
def chromium() -> Iterator[Any]:
    """A running browser."""
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        missing("playwright is not installed: pip install 'scrapy-neardup[browser]'")
    path = shutil.which("chromium") or shutil.which("chromium-browser")
    if path is None:
        missing("no chromium is installed: apt-get install chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=FLAGS)
        yield browser
        browser.close()


def axe() -> str:
    """The program axe-core, which finds what keeps people with impairments out."""
    try:
        return (files("axe_playwright_python") / "axe.min.js").read_text("utf-8")
    except ImportError:
        missing("axe-core is not installed: pip install 'scrapy-neardup[browser]'")
        raise


def barriers(page: Any) -> list[str]:
    """What axe-core finds on a page that was opened with bypass_csp=True: rule and element."""
    page.evaluate(f"{axe()}; 0")
    found: list[str] = page.evaluate(BARRIERS)
    return found


@contextmanager
def opened(browser: Any, url: str, **options: Any) -> Iterator[Any]:
    """A page, drawn; fails if it logs an error or asks for anything but itself."""
    complaints: list[str] = []
    context = browser.new_context(**({"viewport": {"width": 1280, "height": 900}} | options))
    page = context.new_page()
    page.on("console", lambda message: complaints.append(message.text))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.goto(url)
    page.wait_for_selector("#foot:not(:empty)", state="attached")
    yield page
    assert complaints == []
    assert page.evaluate("window.owned") is None
    context.close()
