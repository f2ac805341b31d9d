"""Writes settings, stats and commands from the code: `python docs/reference.py`.

They go where a file says `<!-- settings -->`, `<!-- first settings -->`, `<!-- stats -->` or
`<!-- commands -->`, up to `<!-- end -->`.
"""

import argparse
import re
from collections.abc import Iterator, Sequence
from dataclasses import fields
from functools import partial
from pathlib import Path

from scrapy_neardup import stats
from scrapy_neardup.commands import add_subcommands
from scrapy_neardup.settings import PREFIX, NearDupSettings

ROOT = Path(__file__).resolve().parents[1]
PAGES = ("README.md", "docs/settings.md", "docs/stats.md", "docs/commands.md")
FILES = tuple(ROOT / page for page in PAGES)


# What most people touch, in the order in which they ask.
FIRST_SETTINGS = (
    *("action", "state_dir", "similarity", "min_words", "ignore_fields", "extractor", "scope"),
    *("follow_duplicates", "url_ignore_params", "url_filter"),
)


def settings_table(names: Sequence[str] = ()) -> str:
    """Name, default and meaning of some settings, or of every one."""
    known = {f.name: f for f in fields(NearDupSettings)}
    rows = (
        f"| `{PREFIX}{f.name.upper()}` | `{f.default!r}` | {cell(f.metadata['doc'])} |"
        for f in (known[name] for name in names or known)
    )
    return "\n".join(("| setting | default | what it does |", "|---|---|---|", *rows))


def cell(text: str) -> str:
    """A text as a table's cell takes it."""
    return text.replace("|", r"\|")


def stats_table() -> str:
    """Key and meaning of every stat."""
    rows = (f"| `{key.replace('{}', '…')}` | {doc} |" for key, doc in stats.DOCS.items())
    return "\n".join(("| key | what it counts |", "|---|---|", *rows))


def commands() -> str:
    """Every subcommand: its help, its arguments and its examples."""
    parser = argparse.ArgumentParser()
    add_subcommands(parser, "scrapy neardup")
    # Its own layout of --help differs between versions of Python; what it holds does not.
    (group,) = (a for a in parser._actions if isinstance(a, argparse._SubParsersAction))
    return "\n".join(section(name, sub) for name, sub in group.choices.items())


def section(name: str, parser: argparse.ArgumentParser) -> str:
    """One subcommand."""
    summary, _, details = (parser.description or "").partition("\n")
    _, _, examples = (parser.epilog or "").partition("\n")
    rows = "\n".join(argument_rows(parser))
    shown = "\n".join(line.strip() for line in examples.strip().splitlines())
    explained = f"{summary}\n{details}".strip()
    table = f"| argument | what it is |\n|---|---|\n{rows}"
    return f"\n## {name}\n\n{explained}\n\n{table}\n\n```sh\n{shown}\n```"


def argument_rows(parser: argparse.ArgumentParser) -> Iterator[str]:
    """Name and help of every argument but --help."""
    for action in parser._actions:
        if "--help" not in action.option_strings:
            value = value_of(action)
            names = [f"{option} {value}".strip() for option in action.option_strings] or [value]
            needed = "" if action.option_strings == [] or not action.required else " (required)"
            yield f"| `{cell(', '.join(names))}`{needed} | {cell(action.help or '')} |"


def value_of(action: argparse.Action) -> str:
    """What stands for an argument's value; empty for a switch."""
    if action.nargs == 0:
        return ""
    if action.choices:
        return "|".join(map(str, action.choices))
    name = action.metavar if isinstance(action.metavar, str) else action.dest.upper()
    return f"{name} ..." if action.nargs == "+" else name


TABLES = {
    "settings": settings_table,
    "first settings": partial(settings_table, FIRST_SETTINGS),
    "stats": stats_table,
    "commands": commands,
}


def filled(text: str) -> str:
    """A text with its tables as the code has them now."""
    for name, table in TABLES.items():
        place = re.compile(rf"(<!-- {name} -->\n).*?(<!-- end -->)", re.DOTALL)
        text = place.sub(lambda found: f"{found[1]}{table()}\n{found[2]}", text)  # noqa: B023
    return text


if __name__ == "__main__":
    for file in FILES:
        file.write_text(filled(file.read_text(encoding="utf-8")), encoding="utf-8")
