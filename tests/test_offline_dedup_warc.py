"""Records of WARC are compared by all that they say, or not at all."""

import gzip
import zlib
from pathlib import Path

import pytest
from test_offline_dedup import KEPT, TEXTS, URL, kept, piped, run, warc_ids, warc_record

from scrapy_neardup.offline.dedup.columns import Fields
from scrapy_neardup.offline.dedup.formats import records
from scrapy_neardup.offline.dedup.inputs import find_inputs
from scrapy_neardup.offline.dedup.record import Page

zstandard = pytest.importorskip("zstandard", reason="the extra [dedup] is not installed")
pytest.importorskip("warcio", reason="the extra [dedup] is not installed")

pytestmark = pytest.mark.usefixtures("one_key")

BODY = b"<p>" + b" ".join(b"word%d" % n for n in range(500))


def without_header(body: bytes) -> bytes:
    packer = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    return packer.compress(body) + packer.flush()


WHOLE = {
    "none": ("", BODY),
    "identity": ("identity", BODY),
    "gzip": ("gzip", gzip.compress(BODY)),
    "gzip by its old name": ("x-gzip", gzip.compress(BODY)),
    "gzip in capitals": (" GZIP ", gzip.compress(BODY)),
    "gzip in two members": ("gzip", gzip.compress(BODY[:99]) + gzip.compress(BODY[99:])),
    "gzip that the archive undid": ("gzip", BODY),
    "deflate": ("deflate", zlib.compress(BODY)),
    "deflate without its header": ("deflate", without_header(BODY)),
    "zstd": ("zstd", zstandard.compress(BODY)),
    "two, one over the other": ("gzip, zstd", zstandard.compress(gzip.compress(BODY))),
}
NOT_WHOLE = {
    "torn gzip": ("gzip", gzip.compress(BODY)[:-20]),
    "torn deflate": ("deflate", zlib.compress(BODY)[:-20]),
    "torn deflate without its header": ("deflate", without_header(BODY)[:-20]),
    "deflate with another one behind it": ("deflate", zlib.compress(BODY) + zlib.compress(BODY)),
    "deflate without its header and more": ("deflate", without_header(BODY) + b"more"),
    "zstd with more behind it": ("zstd", zstandard.compress(BODY) + b"more"),
    "an unknown one": ("dcz", BODY),
    "gzip of which no header tells": ("", gzip.compress(BODY)),
}


def chunked(body: bytes, size: int = 77) -> bytes:
    parts = [body[at : at + size] for at in range(0, len(body), size)]
    return b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in (*parts, b""))


def page_of(folder: Path, encoding: str, body: bytes, transfer: str = "") -> Page:
    """What is read of a response with such a body."""
    head = "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n"
    head += f"Content-Encoding: {encoding}\r\n" * bool(encoding)
    head += f"Transfer-Encoding: {transfer}\r\n" * bool(transfer)
    path = folder / "a.warc"
    path.write_bytes(warc_record("response", URL.format(0), f"{head}\r\n".encode() + body))
    (source,) = find_inputs([path])
    (found,) = records(source, Fields())
    assert isinstance(found, Page)
    return found


@pytest.mark.parametrize("transfer", ["", "chunked", "Chunked"])
@pytest.mark.parametrize("what", [*WHOLE, *NOT_WHOLE])
def test_a_body_is_read_to_its_end_or_not_compared(
    tmp_path: Path, what: str, transfer: str
) -> None:
    encoding, body = {**WHOLE, **NOT_WHOLE}[what]
    found = page_of(tmp_path, encoding, chunked(body) if transfer else body, transfer)
    assert found.body == (BODY if what in WHOLE else None)


@pytest.mark.parametrize("is_whole", [True, False])
def test_a_body_in_brotli_is_read_to_its_end_or_not_compared(
    tmp_path: Path, is_whole: bool
) -> None:
    brotli = pytest.importorskip("brotli", minversion="1.2")
    packed = brotli.compress(BODY)
    found = page_of(tmp_path, "br", packed if is_whole else packed[:-20])
    assert found.body == (BODY if is_whole else None)


def segments(number: int, text: str) -> bytes:
    """A page in two records: the second is what tells it from others."""
    http = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n<p>" + BODY
    first = warc_record("response", URL.format(number), http)
    rest = warc_record("continuation", URL.format(number), text.encode())
    at = b"WARC-Date"
    return b"".join(
        record.replace(at, b"WARC-Segment-Number: %d\r\n" % n + at, 1)
        for n, record in ((1, first), (2, rest))
    )


def test_records_in_segments_are_kept(tmp_path: Path) -> None:
    content = segments(0, "ends so") + segments(1, "ends otherwise")
    (tmp_path / "a.warc").write_bytes(content)
    assert run(tmp_path / "out", tmp_path / "a.warc") == 0
    assert (tmp_path / "out" / "kept" / "00000-a.warc").read_bytes() == content


PACKINGS = {"": bytes, ".gz": gzip.compress, ".zst": zstandard.compress}


def wet(packing: str, texts: list[str]) -> bytes:
    """As Common Crawl has it: what made the archive, and texts."""
    parts = [warc_record("warcinfo", "", b"software: test\r\n" + b"isPartOf: test\r\n" * 300)]
    for number, text in enumerate(texts):
        record = warc_record("conversion", URL.format(number), text.encode())
        parts.append(record.replace(b"application/http", b"text/plain", 1))
    return b"".join(map(PACKINGS[packing], parts))


@pytest.mark.parametrize("name", ["a.wet", "a.warc.wet.gz", "a.wet.zst"])
def test_texts_of_pages_in_wet_files_are_compared(tmp_path: Path, name: str) -> None:
    packing = Path(name).suffix.replace(".wet", "")
    (tmp_path / name).write_bytes(wet(packing, TEXTS))
    assert run(tmp_path / "out", tmp_path / name) == 0
    assert kept(tmp_path / "out", lambda path: warc_ids(path, "conversion")) == KEPT


@pytest.mark.parametrize("packing", PACKINGS)
def test_texts_of_pages_on_standard_input_are_compared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, packing: str
) -> None:
    assert piped(monkeypatch, wet(packing, TEXTS), tmp_path / "out") == 0
    assert (tmp_path / "out" / f"stdin.wet{packing}").is_file()
    assert kept(tmp_path / "out", lambda path: warc_ids(path, "conversion")) == KEPT


def test_an_archive_of_which_nobody_can_say_what_it_holds_is_warc(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As it is torn before its first text."""
    head = wet(".gz", [])
    torn = wet(".gz", TEXTS[:1])[: len(head) + 20]
    assert piped(monkeypatch, torn, tmp_path) == 0
    assert (tmp_path / "stdin.warc.gz").is_file()
