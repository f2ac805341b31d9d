"""Options that name the columns of files of pages."""

from __future__ import annotations

import argparse


def add_columns(parser: argparse.ArgumentParser) -> None:
    """--url, --text, --html, --no-url."""
    by_path = "name, or path such as metadata.url (default: url, link, …)"
    parser.add_argument("--url", metavar="COLUMN", help=by_path)
    parser.add_argument("--text", metavar="COLUMN", help="default: text or content")
    parser.add_argument("--html", metavar="COLUMN", help="default: html or body")
    parser.add_argument(
        "--no-url", action="store_true", help="take all records for pages of one site"
    )
