"""Writes the tables of settings and of stats from the code: `python docs/reference.py`.

They go where a file says `<!-- settings -->` or `<!-- stats -->`, up to `<!-- end -->`.
"""

import re
from dataclasses import fields
from pathlib import Path

from scrapy_neardup import stats
from scrapy_neardup.settings import PREFIX, NearDupSettings

ROOT = Path(__file__).resolve().parents[1]
FILES = (ROOT / "README.md",)


def settings_table() -> str:
    """Name, default and meaning of every setting."""
    rows = (
        f"| `{PREFIX}{f.name.upper()}` | `{f.default!r}` | {cell(f.metadata['doc'])} |"
        for f in fields(NearDupSettings)
    )
    return "\n".join(("| setting | default | what it does |", "|---|---|---|", *rows))


def cell(text: str) -> str:
    """A text as a table's cell takes it."""
    return text.replace("|", r"\|")


def stats_table() -> str:
    """Key and meaning of every stat."""
    rows = (f"| `{key.replace('{}', '…')}` | {doc} |" for key, doc in stats.DOCS.items())
    return "\n".join(("| key | what it counts |", "|---|---|", *rows))


TABLES = {"settings": settings_table, "stats": stats_table}


def filled(text: str) -> str:
    """A text with its tables as the code has them now."""
    for name, table in TABLES.items():
        place = re.compile(rf"(<!-- {name} -->\n).*?(<!-- end -->)", re.DOTALL)
        text = place.sub(lambda found: f"{found[1]}{table()}\n{found[2]}", text)  # noqa: B023
    return text


if __name__ == "__main__":
    for file in FILES:
        file.write_text(filled(file.read_text(encoding="utf-8")), encoding="utf-8")
