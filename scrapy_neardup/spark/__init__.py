"""Near-duplicates of a corpus on Spark: the local detector's decisions under any partitioning.

Needs the extra `spark`. Read in this order: signatures (texts → rows of 700 bytes), cells (which
fingerprints are compared), candidates (rows → near pairs), components (pairs → clusters),
decisions (pairs → which pages are kept), records (files → texts), stored_index (what earlier runs
kept).
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

    from scrapy_neardup.spark.stored_index import StoredIndex


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
    signatures: DataFrame
    first_new: int = 0  # rows before this place are of earlier runs

    @cached_property
    def decisions(self) -> DataFrame:
        """A row for each page: id, kind, original, distance, sketch_distance, similarity, words,
        differs; as detector.Decision has them. With records, also record and original_record.
        """
        from scrapy_neardup.spark.decisions import decided

        new = self.rows.where(f"n >= {self.first_new}")
        return decided(new, self.rows, self.pairs, self.left_out, self.min_words)

    def add_to(self, index: StoredIndex, name: str) -> None:
        """Store the signatures of the pages that are kept, under the name of a version.

        A version of this name is replaced: to be the same again, the run must not have been
        compared with it.
        """
        from pyspark.sql import functions as fn

        from scrapy_neardup.spark.decisions import kept

        n_new = self.rows.where(f"n >= {self.first_new}").count()
        rows = kept(self.rows, self.pairs, self.first_new).select("n")
        stored = self.signatures.join(rows, "n", "left_semi")
        # Another run may have added to the index since this one began.
        begin = max(index.versions(but=name).values(), default=0)
        moved = stored.withColumn("n", fn.col("n") + fn.lit(begin - self.first_new))
        index.add(name, moved, range(begin, begin + n_new))

    @cached_property
    def clusters(self) -> DataFrame:
        """A row for each page that a chain of repeats links to another: cluster, id, and where
        there are records, record.

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
    record: str | None = None,
    spec: FingerprintSpec = FINGERPRINT,
    sketch_spec: FingerprintSpec = SKETCH,
    against: StoredIndex | None = None,
    version: str | None = None,
) -> Deduplicated:
    """Decide for every row whether an earlier one says the same.

    Rows are ordered by `order`, then by `id` (by `id` alone without it); of pages that say the
    same the first is kept. Decisions are those of a local Detector that reads the rows in this
    order with admit="novel" and boilerplate="keep" (templates are learnt page by page, which
    cannot be done in parallel); `elsewhere` is not computed. id: a string, a URL under
    scope="site", where rows without one, of null, are kept and not compared; rows with the same id
    are separate pages. text: a string of visible text, null for none. Raises InputError for other
    types.
    facts: as the Detector's. markup: what pages say outside their text, a column of
    spark.signatures.MARKUP as spark.records.read_pages makes it; without it, only texts are
    compared, and pages of equal texts are copies.

    record: a column of strings that names each row, so that decisions and clusters can tell rows of
    one id apart.

    against: pages that earlier runs kept come before all of these. `version` does not count: the
    one under which this run is stored, if it was begun before (add_to).

    No text is shuffled.
    """
    from scrapy_neardup.spark.candidates import Reach, confirmed_pairs
    from scrapy_neardup.spark.decisions import first_of_each_text
    from scrapy_neardup.spark.signatures import numbered, signed

    versions = {} if against is None else against.versions(but=version)
    first_new = max(versions.values(), default=0)
    signatures = signed(df, text, id, order, scope, spec, sketch_spec, min_words, markup, record)
    signatures = numbered(signatures, first_new)
    if against is not None and versions:
        before = kept_before(signatures, against, [*versions])
        signatures = signatures.unionByName(before, allowMissingColumns=True).persist()
    rows = first_of_each_text(signatures).persist()
    reach = Reach(distance, confirm_distance, similarity, facts=facts)
    pairs, left_out = confirmed_pairs(rows, signatures, min_words, reach, first_new)
    return Deduplicated(rows, pairs, left_out, min_words, signatures, first_new)


def kept_before(signatures: DataFrame, against: StoredIndex, versions: list[str]) -> DataFrame:
    """What earlier runs kept of the sites that these rows are of."""
    from scrapy_neardup.spark.stored_index import MOST_SITES

    sites = signatures.select("site").distinct()
    few = [row["site"] for row in sites.limit(MOST_SITES + 1).collect()]
    chosen = few if len(few) <= MOST_SITES else None
    rows = against.rows(signatures.sparkSession, versions, chosen)
    return rows if chosen is not None else rows.join(sites, "site", "left_semi")
