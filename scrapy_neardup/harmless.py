"""Crawled text without what acts on a terminal or a spreadsheet."""

from __future__ import annotations

import unicodedata

# A spreadsheet takes a cell that begins so for a formula, or runs it as a command.
FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r", "\n", "|", "%")


def clean(text: str) -> str:
    """Crawled text, safe to show on a terminal: control and format characters become U+FFFD.

    Otherwise a page's URL could move the cursor, recolour the screen or reverse the reading
    direction. Spaces of any kind become one space, and lone surrogates U+FFFD too.
    """
    spaced = (" " if char.isspace() else char for char in text)
    return "".join("\ufffd" if unicodedata.category(c)[0] == "C" else c for c in spaced)


def harmless_cell(cell: object) -> object:
    """A cell without control characters that no spreadsheet takes for a formula."""
    if not isinstance(cell, str):
        return cell
    return f"'{clean(cell)}" if cell.startswith(FORMULA_STARTS) else clean(cell)
