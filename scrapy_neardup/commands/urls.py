"""What a list of URLs would become: which of them count as the same, largest groups first.

Applies the project's NEARDUP_URL_* settings, as a crawl does, and fetches nothing.
"""

from __future__ import annotations

import argparse
import sys
from codecs import BOM_UTF8
from collections.abc import Iterable, Iterator
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from scrapy_neardup.commands.numbers import at_least
from scrapy_neardup.commands.paths import local_path
from scrapy_neardup.commands.terminal import colour, say, say_json
from scrapy_neardup.harmless import clean
from scrapy_neardup.offline.line_files import lines_in

if TYPE_CHECKING:
    from scrapy_neardup.urls.key import UrlKeyRules

PIPE = Path("-")
MAX_LINE = 1 << 20  # bytes
EXAMPLES = """\
  scrapy neardup urls urls.txt
  scrapy neardup urls urls.txt.gz --profiles mobile,lenient --groups 100
  scrapy neardup urls - --json < urls.txt
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The file, what to try, and form."""
    parser.add_argument(
        "file", metavar="FILE", type=local_path, help="URLs, one a line; may be gzipped; - is stdin"
    )
    parser.add_argument(
        "--profiles", metavar="NAMES", help="try these instead of NEARDUP_URL_PROFILES"
    )
    parser.add_argument(
        "--groups", metavar="N", type=at_least(1), default=20, help="groups to print (default: 20)"
    )
    parser.add_argument("--json", action="store_true", help="all groups as one JSON object")


def run(options: argparse.Namespace) -> int:
    """Read, group, tell."""
    keys = grouped(lines_of(options.file), rules_of(options))
    groups = {key: urls for key, urls in keys.items() if len(urls) > 1}
    groups = dict(sorted(groups.items(), key=lambda group: -len(group[1])))
    n_urls = sum(map(len, keys.values()))
    if options.json:
        say_json({"urls": n_urls, "different": len(keys), "groups": groups})
        return 0
    for key, urls in list(groups.items())[: options.groups]:
        say(colour(clean(key), "bold"))
        for url in urls:
            say(f"  {clean(url)}")
    if len(groups) > options.groups:
        say(f"… and {len(groups) - options.groups:,} more groups; --groups shows more")
    say(f"{n_urls:,} URLs become {len(keys):,}; {len(groups):,} groups are merged")
    return 0


def rules_of(options: argparse.Namespace) -> UrlKeyRules:
    """The project's rules for URLs, with the profiles that are to be tried."""
    from scrapy.utils.project import get_project_settings

    from scrapy_neardup.factory import make_rules
    from scrapy_neardup.settings import NearDupSettings
    from scrapy_neardup.settings.readers import profiles

    settings = getattr(options, "scrapy_settings", None) or get_project_settings()
    rules = make_rules(NearDupSettings.from_settings(settings))
    if options.profiles is None:
        return rules
    return replace(rules, profiles=profiles("URL_PROFILES", options.profiles))


def lines_of(path: Path) -> Iterator[str]:
    """The URLs in a file; bytes that are no UTF-8 stay apart. Raises OSError, InputError."""
    with nullcontext(sys.stdin.buffer) if path == PIPE else path.open("rb") as file:
        for number, line in enumerate(lines_in(file, str(path), MAX_LINE)):
            text = line.removeprefix(BOM_UTF8) if number == 0 else line
            if url := text.decode("utf-8", "surrogateescape").strip():
                yield url


def grouped(urls: Iterable[str], rules: UrlKeyRules) -> dict[str, list[str]]:
    """Key → the URLs that have it, each once."""
    from scrapy_neardup.urls.key import url_key

    found: dict[str, list[str]] = {}
    for url in dict.fromkeys(urls):
        found.setdefault(url_key(url, rules).decode("utf-8", "surrogateescape"), []).append(url)
    return found
