"""The documents say what the code says."""

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "docs"))

import reference  # noqa: E402


@pytest.mark.parametrize("file", reference.FILES, ids=lambda file: file.name)
def test_tables_of_settings_and_stats_are_those_of_the_code(file: Path) -> None:
    text = file.read_text(encoding="utf-8")
    assert text == reference.filled(text), "run: python docs/reference.py"


def test_readme_has_every_setting_and_stat() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert reference.settings_table() in readme
    assert reference.stats_table() in readme
