"""What a callback depends on besides its page."""

import importlib
import sys
from pathlib import Path

import pytest

from scrapy_neardup.crawl.recrawl.program import code_of, constants_of


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


@pytest.mark.parametrize(
    ("module", "read"),
    [
        ("shopbot.spiders", "BRANDS = {}"),
        ("shopbot.spiders", "    brands = {}"),
    ],
)
def test_data_that_the_spiders_module_reads_when_it_is_loaded_are_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, module: str, read: str
) -> None:
    data = "set(json.loads((Path(__file__).parent / 'brands.json').read_text()))"
    shop = "import shopbot.brands\nclass Shop(scrapy.Spider):\n    name = 'shop'\n"
    write(tmp_path / "shopbot/__init__.py", "")
    for name in ("spiders", "brands"):
        code = "import json\nimport scrapy\nfrom pathlib import Path\n"
        code += shop if name == "spiders" else ""
        code += read.format(data) if module.endswith(name) else ""
        write(tmp_path / f"shopbot/{name}.py", code + "\n")
    monkeypatch.syspath_prepend(tmp_path)
    told = []
    for brands in ('["a", "b"]', '["b", "a"]', '["a", "c"]'):
        write(tmp_path / "shopbot/brands.json", brands)
        try:
            told.append(constants_of(importlib.import_module("shopbot.spiders").Shop))
        finally:
            for name in ("shopbot", "shopbot.spiders", "shopbot.brands"):
                sys.modules.pop(name, None)
    assert told[0] == told[1] != told[2]
