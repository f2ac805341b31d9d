"""What the detector says of a page."""

from __future__ import annotations

from typing import Literal, NamedTuple

DecisionKind = Literal[
    "new",
    "exact",
    "near",
    "near-but-differs",
    "contains",
    "too-short",
    "undecided",
    "soft-404",
    "claimed",
]
# Others may be near a page of these kinds.
INDEXED: frozenset[DecisionKind] = frozenset({"new", "near", "near-but-differs", "contains"})
VISIT, WORDING = "what tells of the visit", "a brief line"  # in what near pages may differ


class Decision(NamedTuple):
    """What the detector says of a page.

    kind             "new", or a duplicate: "exact" (the same text), "near"; "too-short" and
                     "undecided" pages are to be kept, as is one that is "near-but-differs", or
                     that "contains" an earlier page whole and says more. A crawl calls both pages
                     that are new and copies "soft-404" where the site shows the same for any path,
                     and "claimed" a copy that says so itself, where that is trusted
    fingerprint      of the page
    words            how many it has
    original         URL of the page it repeats, nearly repeats or contains; None for other kinds
    original_id      that page's row
    distance         fingerprint bits that differ from the original's
    sketch_distance  sketch bits that differ
    similarity       estimated Jaccard similarity of the 5-word shingles, of the pages or of what
                     templates leave of them, whichever is higher; 1.0 where exact
    page_id          the page's own row, None where it was not admitted
    elsewhere        URL of a page of another site that it repeats; never a reason to drop
    unconfirmed      pages near by fingerprint that the sketches told apart from it
    differs          in what a page that is "near-but-differs" does: one of facts.REASONS. Of one
                     that is "near", WORDING where it says something else in a brief line,
                     or VISIT where lines that tell of the visit were left out
    cold             whether it is "new" only because too little is known of its host's templates
    wording          of a page that differs in WORDING, what tells its brief lines from others
    markup           of a page that is "near", what tells its data and the details of its markup
                     from those of its original, where they differ
    has_changed      whether a duplicate said something else when it was read before, and was
                     remembered then
    """

    kind: DecisionKind
    fingerprint: int
    words: int
    original: str | None = None
    original_id: int | None = None
    distance: int | None = None
    sketch_distance: int | None = None
    similarity: float | None = None
    page_id: int | None = None
    elsewhere: str | None = None
    unconfirmed: int = 0
    cold: bool = False
    differs: str | None = None
    wording: int | None = None
    markup: int | None = None
    has_changed: bool = False

    @property
    def is_duplicate(self) -> bool:
        """Whether another page of the same scope says the same."""
        if self.kind == "soft-404":
            return self.original_id is not None  # it was exact or near
        return self.kind in ("exact", "near", "claimed")

    @property
    def is_near(self) -> bool:
        """Whether a duplicate may say something else than its original.

        A soft 404 counts as one even if it is exact, which its decision does not tell any more.
        """
        if self.kind == "soft-404":
            return self.original_id is not None
        return self.kind in ("near", "claimed")
