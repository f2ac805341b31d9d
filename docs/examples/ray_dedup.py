"""Near-duplicate pairs of a corpus on Ray Data, with the same functions as on Spark.

    pip install 'scrapy-neardup[spark]' 'ray[data]'
    python docs/examples/ray_dedup.py PAGES.parquet

PAGES has the columns url and text. Prints every pair of pages within reach, by their places in
the order of their URLs. Signatures and scans run in Ray's workers; the index is built once and
shared by its object store.
"""

import sys

import pyarrow as pa
import ray

from scrapy_neardup.detect.near import CONFIRM_DISTANCE, DISTANCE, SIMILARITY
from scrapy_neardup.engines import FINGERPRINT, SKETCH
from scrapy_neardup.spark.candidates import COLUMNS, Reach, index_bytes, scan
from scrapy_neardup.spark.signatures import signer

REACH = Reach(DISTANCE, CONFIRM_DISTANCE, SIMILARITY, broadcast_bytes=0)


def signed(table: pa.Table) -> pa.Table:
    """Signatures of a batch of pages."""
    rank = pa.array([0] * len(table))
    pages = pa.table({"id": table["url"], "rank": rank, "text": table["text"]})
    sign = signer("site", FINGERPRINT, SKETCH)
    return pa.Table.from_batches(sign(iter(pages.to_batches())))


def main(path: str) -> None:
    """Print the pairs of a Parquet file."""
    pages = ray.data.read_parquet(path, columns=["url", "text"]).sort("url")
    signatures = pages.map_batches(signed, batch_format="pyarrow")
    rows = pa.concat_tables(ray.get(signatures.to_arrow_refs()))
    rows = rows.append_column("n", pa.array(range(len(rows)), pa.int64())).select(list(COLUMNS))
    index = ray.put(index_bytes(rows, DISTANCE))

    def pairs(table: pa.Table) -> pa.Table:
        return pa.Table.from_batches(scan(iter(table.to_batches()), ray.get(index), REACH))

    found = ray.data.from_arrow(rows).map_batches(pairs, batch_format="pyarrow")
    for pair in found.filter(lambda pair: pair["differs"] == 0).iter_rows():
        sys.stdout.write(f"{pair['earlier']}\t{pair['n']}\t{pair['similarity']:.3f}\n")


if __name__ == "__main__":
    main(sys.argv[1])
