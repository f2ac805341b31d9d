"""Two texts → the words that differ, with a few words around them."""

from __future__ import annotations

from collections.abc import Iterator
from difflib import SequenceMatcher
from typing import NamedTuple

CONTEXT_WORDS = 5
# difflib's time is quadratic in what does not match.
MAX_WORDS = 4_000
MAX_CHARS = 500  # of a line


class WordDifference(NamedTuple):
    """Words of the original that others replace; either may be empty."""

    before: str  # context
    removed: str
    added: str
    after: str  # context


def differences(original: str, page: str) -> Iterator[WordDifference]:
    """What differs between two texts, in order; of each, the first MAX_WORDS words."""
    old, new = original.split()[:MAX_WORDS], page.split()[:MAX_WORDS]
    for tag, i, i_end, j, j_end in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if tag != "equal":
            yield WordDifference(
                " ".join(old[max(0, i - CONTEXT_WORDS) : i]),
                " ".join(old[i:i_end]),
                " ".join(new[j:j_end]),
                " ".join(old[i_end : i_end + CONTEXT_WORDS]),
            )


def marked(difference: WordDifference) -> list[str]:
    """Removed words as [-words-], added ones as {+words+}."""
    removed, added = difference.removed, difference.added
    return [f"[-{removed}-]"] * bool(removed) + [f"{{+{added}+}}"] * bool(added)


def difference_line(original: str, page: str) -> str:
    """What differs, as [-removed-]{+added+}; …, cut between two places at MAX_CHARS."""
    said: list[str] = []
    left = MAX_CHARS
    for difference in differences(original, page):
        mark = "".join(marked(difference))
        left -= len(mark) + 2
        if left < 0:
            return "; ".join([*said, "…"])
        said.append(mark)
    return "; ".join(said)
