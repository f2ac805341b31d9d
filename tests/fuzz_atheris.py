"""Feeds bytes to all that reads pages, URLs and files: `python -m tests.fuzz_atheris [OPTION …]`.

Needs `pip install atheris`, which finds inputs by the branches that they take; options are
libFuzzer's, as `-max_total_time=3600`. The first byte says what reads the rest. Stops at an
exception that is no refusal of ours, at kernels that disagree, and at a crash.
"""

import struct
import sys
from collections.abc import Callable
from pathlib import Path
from tempfile import NamedTemporaryFile

import atheris

with atheris.instrument_imports(include=["scrapy_neardup", "w3lib"]):
    from scrapy_neardup.crawl.items.item_data import item_data
    from scrapy_neardup.crawl.pages.extract import content_of_html
    from scrapy_neardup.detect.templates import HostBlocks
    from scrapy_neardup.detect.text import exact_text
    from scrapy_neardup.errors import NearDupError
    from scrapy_neardup.factory import make_detector
    from scrapy_neardup.kernels.numpy_twin import markup as markup_twin
    from scrapy_neardup.kernels.numpy_twin import words as words_twin
    from scrapy_neardup.offline.dedup.columns import Fields
    from scrapy_neardup.offline.dedup.formats import records
    from scrapy_neardup.offline.dedup.inputs import find_inputs
    from scrapy_neardup.settings import NearDupSettings
    from scrapy_neardup.state.journal import read_journal
    from scrapy_neardup.state.records import unpack_item, unpack_page, unpack_url
    from scrapy_neardup.state.snapshot import open_snapshot
    from scrapy_neardup.urls.key import UrlKeyRules, url_key
    from scrapy_neardup.urls.site_rules import read_rules

import contextlib
import json

import scrapy_neardup.kernels as kernels

COLLECTIONS = (".jsonl", ".json", ".csv", ".tsv", ".warc", ".warc.gz", ".jsonl.gz", ".wacz")
RULES = UrlKeyRules()
DETECTOR = make_detector(NearDupSettings(), 1)


def read_page(data: bytes) -> None:
    content = content_of_html(data.decode("utf-8", "replace"), "http://h.example/")
    reading = DETECTOR.read("http://h.example/", content)
    assert reading.signatures is not None
    assert reading.odd_row is not None
    assert reading.facts is not None


def read_words(data: bytes) -> None:
    text = data.decode("utf-8", "surrogatepass")
    exact_text(text)
    assert kernels.words.normalise(text) == words_twin.normalise(text)
    assert kernels.markup.count_attributes(data) == markup_twin.count_attributes(data)


def read_url(data: bytes) -> None:
    text = data.decode("utf-8", "surrogatepass")
    url_key(text)
    url_key(f"http://{text}")
    url_key(f"http://h.example/{text}")


def read_site_rules(data: bytes) -> None:
    read_rules(data.decode("utf-8"))


def read_records(data: bytes) -> None:
    for unpack in (unpack_url, unpack_page, unpack_item, HostBlocks.unpack):
        unpack(data)


def read_files(data: bytes) -> None:
    with NamedTemporaryFile() as file:
        file.write(data)
        file.flush()
        for read in (open_snapshot, read_journal):
            read(Path(file.name), None)


def read_item(data: bytes) -> None:
    item_data({"a": json.loads(data), "b": data.decode("utf-8", "replace")}, None, RULES)


def read_collection(data: bytes) -> None:
    """Of any format; damage is what records() says of it, not an exception."""
    kind = COLLECTIONS[data[0] % len(COLLECTIONS)] if data else ".jsonl"
    with NamedTemporaryFile(suffix=kind) as file:
        file.write(data[1:])
        file.flush()
        for source in find_inputs([Path(file.name)]):
            for _ in records(source, Fields()):
                pass


READERS: tuple[tuple[Callable[[bytes], None], tuple[type[Exception], ...]], ...] = (
    (read_page, (NearDupError,)),
    (read_words, (NearDupError, UnicodeDecodeError)),
    (read_url, (UnicodeDecodeError,)),
    (read_site_rules, (NearDupError, UnicodeDecodeError)),
    (read_records, (NearDupError, ValueError, struct.error)),
    (read_files, (NearDupError,)),
    (read_item, (NearDupError, ValueError, RecursionError)),
    (read_collection, (NearDupError,)),
)


def read(data: bytes) -> None:
    """Refused, or read."""
    reader, refusals = READERS[data[0] % len(READERS)] if data else READERS[0]
    with contextlib.suppress(refusals):
        reader(data[1:])


if __name__ == "__main__":
    atheris.Setup(sys.argv, read)
    atheris.Fuzz()
