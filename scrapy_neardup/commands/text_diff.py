"""Two texts → the words that differ, with a few words around them."""

from __future__ import annotations

from collections.abc import Iterator
from difflib import SequenceMatcher
from typing import NamedTuple

from scrapy_neardup.commands.terminal import clean, colour, say

CONTEXT_WORDS = 5
MAX_SHOWN = 40
# difflib's time is quadratic in what does not match.
MAX_WORDS = 4_000


class Difference(NamedTuple):
    """Words of the original that others replace; either may be empty."""

    before: str  # context
    removed: str
    added: str
    after: str  # context


def differences(original: str, page: str) -> Iterator[Difference]:
    """What differs between two texts, in order; of each, the first MAX_WORDS words."""
    old, new = original.split()[:MAX_WORDS], page.split()[:MAX_WORDS]
    for tag, i, i_end, j, j_end in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if tag != "equal":
            yield Difference(
                " ".join(old[max(0, i - CONTEXT_WORDS) : i]),
                " ".join(old[i:i_end]),
                " ".join(new[j:j_end]),
                " ".join(old[i_end : i_end + CONTEXT_WORDS]),
            )


def say_differences(original: str, page: str) -> None:
    """Print what differs: removed words as [-words-], added ones as {+words+}."""
    found = list(differences(original, page))
    for before, removed, added, after in found[:MAX_SHOWN]:
        marks = [
            colour(f"[-{clean(removed)}-]", "red") if removed else "",
            colour(f"{{+{clean(added)}+}}", "green") if added else "",
        ]
        say(f"    … {clean(before)} {' '.join(filter(None, marks))} {clean(after)} …")
    if len(found) > MAX_SHOWN:
        say(f"    and {len(found) - MAX_SHOWN:,} more places")
    if not found:
        say("    nothing but punctuation, case or spacing")
