"""What a callback depends on besides its page."""

import importlib
import sys
from pathlib import Path

import pytest

from scrapy_neardup.crawl.recrawl.program import code_of


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


@pytest.mark.parametrize("helper", ["shopbot/prices.py", "common/prices.py", "prices.py"])
def test_the_code_of_a_project_is_all_that_lies_beside_the_spiders_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, helper: str
) -> None:
    module = helper.removesuffix(".py").replace("/", ".")
    write(tmp_path / "shopbot/__init__.py", "")
    write(tmp_path / helper, "RATE = 1\n")
    spider = (
        f"import scrapy\nfrom {module} import RATE\nclass Shop(scrapy.Spider):\n    name = 'a'\n"
    )
    write(tmp_path / "shopbot/spiders.py", spider)
    write(tmp_path / ".venv/lib/site-packages/library.py", "")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.syspath_prepend(tmp_path / ".venv/lib/site-packages")
    importlib.import_module("library")
    try:
        shop = importlib.import_module("shopbot.spiders").Shop
        before = code_of(shop)
        write(tmp_path / ".venv/lib/site-packages/library.py", "NEWER = True\n")
        assert code_of(shop) == before
        write(tmp_path / helper, "RATE = 2\n")
        assert code_of(shop) != before
    finally:
        for name in ("shopbot", "shopbot.spiders", "common", module, "library"):
            sys.modules.pop(name, None)
