"""Registrable domains, beside the package whose list is read."""

from pathlib import Path

import pytest
from publicsuffixlist import PSLFILE, PublicSuffixList

from scrapy_neardup.urls.public_suffixes import MAX_LABELS, registrable

RULES = [
    line
    for line in Path(PSLFILE).read_text("utf-8").splitlines()
    if line and not line.startswith("//")
]
UNKNOWN = ["localhost", "a.example", "a.b.example", "example", "10.0.0.1", "com", "xn--", "xn--x"]
ODD = ["", ".", "a..com", ".com", "A.Co.UK.", "a.co.uk..", "xn--é.com", "b.xn--55qx5d.cn"]


def hosts() -> list[str]:
    """Every rule as a host, and hosts below it, as they are shown and as URLs have them."""
    names = [rule.lstrip("!").removeprefix("*.") for rule in RULES]
    names += [name.encode("idna").decode() for name in names if not name.isascii()]
    return [f"{below}{name}" for name in names for below in ("", "b.", "a.b.")] + UNKNOWN + ODD


@pytest.mark.parametrize("unknown", [False, True])
def test_every_rule_is_read_as_the_package_reads_it(unknown: bool) -> None:
    oracle = PublicSuffixList(accept_unknown=unknown)

    assert [h for h in hosts() if registrable(h, unknown) != oracle.privatesuffix(h)] == []


def test_no_rule_has_more_labels_than_are_looked_at() -> None:
    assert max(rule.count(".") + 1 for rule in RULES) < MAX_LABELS
    assert [rule.lower().split(" ")[0].rstrip() for rule in RULES] == RULES


def test_names_of_many_labels_are_read_by_their_last() -> None:
    assert registrable("a." * 10_000 + "b.co.uk") == "b.co.uk"
