"""The documents say what the code says."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "docs"))

import reference  # noqa: E402


@pytest.mark.parametrize("file", reference.FILES, ids=lambda file: file.name)
def test_settings_stats_and_commands_are_those_of_the_code(file: Path) -> None:
    text = file.read_text(encoding="utf-8")
    assert text == reference.filled(text), "run: python docs/reference.py"


def test_readme_has_every_setting_and_stat() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert reference.settings_table() in readme
    assert reference.stats_table() in readme


@pytest.mark.parametrize(
    ("page", "reference_of"),
    [
        ("settings", reference.settings_table),
        ("stats", reference.stats_table),
        ("commands", reference.commands),
    ],
)
def test_reference_page_has_all_of_it(page: str, reference_of: Callable[[], str]) -> None:
    text = (ROOT / "docs" / f"{page}.md").read_text(encoding="utf-8")
    assert reference_of() in text


def test_sphinx_builds_the_documents_without_a_warning(tmp_path: Path) -> None:
    for module in ("sphinx", "furo", "myst_parser"):
        pytest.importorskip(module, reason="needs the extra: pip install 'scrapy-neardup[docs]'")
    build = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", "-b", "html"]
    done = subprocess.run(
        [*build, ROOT / "docs", tmp_path], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "index.html").exists()
