"""Host → the domain that somebody registered, by the public suffix list."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import publicsuffixlist

MAX_LABELS = 8  # of a rule that is looked for; the longest of the list has 5
MAX_LABEL = 63  # characters; a longer one is no name in Punycode


def registrable(host: str, unknown: bool = False) -> str | None:
    """The part of a host that one person or company has: "a.co.uk" of "www.a.co.uk".

    None of a public suffix itself, and of what is none of a host. Private suffixes (github.io)
    are public, too: what is below them belongs to different people.

    unknown: whether a last label that the list does not know is a public suffix.
    Source: https://publicsuffix.org, as publicsuffixlist reads it.
    """
    labels = host.lower().removesuffix(".").split(".")
    n_public = _n_public([_shown(label) for label in labels], unknown)
    if "" in labels or not 0 < n_public < len(labels):
        return None
    return ".".join(labels[-n_public - 1 :])


def _n_public(labels: list[str], unknown: bool) -> int:
    """How many of the last labels are a public suffix: by the longest rule, or by its exception."""
    rules, n = _rules(), len(labels)
    for n_last in range(min(n, MAX_LABELS), 0, -1):
        name = ".".join(labels[-n_last:])
        if f"!{name}" in rules:
            return n_last - 1
        if f"*.{name}" in rules:
            return min(n_last + 1, n)
        if name in rules:
            return n_last
    return int(unknown)


def _shown(label: str) -> str:
    """A label as the list has it: not in Punycode, in which URLs have it."""
    if not label.startswith("xn--") or len(label) > MAX_LABEL:
        return label
    try:
        return label[4:].encode().decode("punycode")
    except UnicodeError:
        return label


@cache
def _rules() -> frozenset[str]:
    # The list that comes with publicsuffixlist: no download. Read here in 3 ms, there in 30; and
    # as one set of names it gives a crawl's garbage collector nothing to visit.
    text = Path(publicsuffixlist.PSLFILE).read_text("utf-8")
    return frozenset(line for line in text.splitlines() if line and not line.startswith("//"))
