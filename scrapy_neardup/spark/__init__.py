"""Near-duplicates of a corpus on Spark: the local detector's decisions under any partitioning.

Needs the extra `spark`. Read in this order: signatures (texts → rows of 700 bytes), cells (which
fingerprints are compared), candidates (rows → near pairs), components (pairs → clusters),
decisions (pairs → which pages are kept), records (files → texts).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from scrapy_neardup.detect.detector import FactRule, Scope
from scrapy_neardup.detect.near import CONFIRM_DISTANCE, DISTANCE, MIN_WORDS, SIMILARITY
from scrapy_neardup.engines import FINGERPRINT, SKETCH, FingerprintSpec

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True)
class Deduplicated:
    """What dedup found: every page, near pairs, and the pages not compared with all others.

    pairs: of k pages that are all near each other, stars and small buckets instead of k**2 / 2
    pairs, where k is in the hundreds or more. left_out: pages of which such a crowd hides with
    which others they are near; "undecided" unless they are dropped.
    """

    rows: DataFrame
    pairs: DataFrame
    left_out: DataFrame
    min_words: int

    @cached_property
    def decisions(self) -> DataFrame:
        """A row for each page: id, kind, original, distance, sketch_distance, similarity, words,
        differs; as detector.Decision has them.
        """
        from scrapy_neardup.spark.decisions import decided

        return decided(self.rows, self.pairs, self.left_out, self.min_words)

    @cached_property
    def clusters(self) -> DataFrame:
        """A row for each page that a chain of repeats links to another: cluster, id.

        cluster is the id of the chain's first page, which is kept. Computed when first used, in
        rounds of Spark jobs (components.py).
        """
        from scrapy_neardup.spark.decisions import clustered

        return clustered(self.rows, self.pairs)


def dedup(
    df: DataFrame,
    text: str = "text",
    id: str = "url",
    *,
    order: str | None = None,
    scope: Scope = "site",
    distance: int = DISTANCE,
    confirm_distance: int = CONFIRM_DISTANCE,
    similarity: float = SIMILARITY,
    min_words: int = MIN_WORDS,
    facts: FactRule = "compare",
    markup: str | None = None,
    spec: FingerprintSpec = FINGERPRINT,
    sketch_spec: FingerprintSpec = SKETCH,
) -> Deduplicated:
    """Decide for every row whether an earlier one says the same.

    Rows are ordered by `order`, then by `id` (by `id` alone without it); of pages that say the
    same the first is kept. Decisions are those of a local Detector that reads the rows in this
    order with admit="novel" and boilerplate="keep" (templates are learnt page by page, which
    cannot be done in parallel); `elsewhere` is not computed. id: a string, a URL under
    scope="site"; rows with the same id are separate pages. text: visible text, null for none.
    facts: as the Detector's. markup: what pages say outside their text, a column of
    spark.signatures.MARKUP as spark.records.read_pages makes it; without it, only texts are
    compared, and pages of equal texts are copies.

    No text is shuffled.
    """
    from scrapy_neardup.spark.candidates import Reach, confirmed_pairs
    from scrapy_neardup.spark.decisions import first_of_each_text
    from scrapy_neardup.spark.signatures import numbered, signed

    signatures = numbered(signed(df, text, id, order, scope, spec, sketch_spec, min_words, markup))
    rows = first_of_each_text(signatures).persist()
    reach = Reach(distance, confirm_distance, similarity, facts=facts)
    return Deduplicated(rows, *confirmed_pairs(rows, signatures, min_words, reach), min_words)
