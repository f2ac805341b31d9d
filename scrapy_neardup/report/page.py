"""The report's page: one HTML file with its style, its program and its data; no network.

Crawled strings reach the page only as JSON inside an element that is not executed, and the
page's program sets text, never markup. A content security policy lets nothing run but the
one script and the one style whose hashes it names.
"""

from __future__ import annotations

import json
import re
from base64 import b64encode
from collections.abc import Iterator
from hashlib import sha256
from importlib.resources import files
from pathlib import Path

from scrapy_neardup.ledger.reader import Tell
from scrapy_neardup.own_files import replacing
from scrapy_neardup.report.data import ROWS, Collected

PART_ITEMS = 500  # of a list, made into JSON at once: about a millisecond
SELF, NOBODY = "'self'", "'none'"
SCRIPTS = ("dom", "charts", "diff", "clusters", "decisions", "changed", "rules", "main")
# A parser of HTML ends the element at "</", some take "<!--" for a comment, and JavaScript
# once took U+2028 for the end of a line.
UNSAFE = {ord(char): f"\\u{ord(char):04x}" for char in "<>&\u2028\u2029"}


def write_report(state: Path, output: Path, rows: int = ROWS, tell: Tell | None = None) -> int:
    """Write the report of a state folder; returns its bytes. Raises LedgerError, OSError.

    tell: as for LedgerReader.
    """
    collected = Collected(state, rows, tell)
    collected.refresh()
    page = render(collected.as_dict())
    with replacing(output) as part:
        return part.write_bytes(page)


def render(data: dict[str, object], live_s: float = 0) -> bytes:
    """The page of the data; with live_s it asks its server for new data every live_s seconds."""
    style, script = asset("style.css"), program()
    policy = (
        f"default-src 'none'; script-src {_hash(script)}; style-src {_hash(style)}; "
        f"connect-src {SELF if live_s else NOBODY}; base-uri 'none'; form-action 'none'"
    )
    parts = {
        "policy": policy,
        "style": style,
        "data": as_json_in_html({**data, "live_s": live_s}),
        "script": script,
    }
    template = asset("template.html")
    page = re.sub(r"\{\{(\w+)\}\}", lambda match: parts[match[1]], template)
    return page.encode("utf-8", "replace")


def as_json_in_html(value: object) -> str:
    """JSON that is safe inside a script element, whatever strings it holds."""
    return "".join(json_parts(value))


def json_parts(value: object) -> Iterator[str]:
    """The same in parts of PART_ITEMS at most, of any list or dict.

    Python's lock is not given away while a part is made, and a crawl's loop waits for it: the rows
    of a live view at once took 32 ms.
    """
    if isinstance(value, dict):
        for n, (name, entry) in enumerate(value.items()):
            yield f"{',' if n else '{'}{_json(str(name))}:"
            yield from json_parts(entry)
        yield "}" if value else "{}"
    elif isinstance(value, (list, tuple)) and len(value) > PART_ITEMS:
        for start in range(0, len(value), PART_ITEMS):
            yield ("," if start else "[") + _json(value[start : start + PART_ITEMS])[1:-1]
        yield "]"
    else:
        yield _json(value)


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).translate(UNSAFE)


def program() -> str:
    """The page's scripts as one, in their own scope."""
    body = "\n".join(asset(f"{name}.js") for name in SCRIPTS)
    return f'"use strict";\n(() => {{\n{body}\n}})();\n'


def asset(name: str) -> str:
    """One of the files that the page is made of."""
    return (files("scrapy_neardup.report") / "assets" / name).read_text("utf-8")


def _hash(content: str) -> str:
    digest = sha256(content.encode("utf-8")).digest()
    return f"'sha256-{b64encode(digest).decode()}'"
