"""The body of a response in a WARC record → bytes without chunks and compression.

warcio alone gives the first member of a body in gzip, the beginning of a torn one, and one in an
encoding that it does not know as it is stored. Pages that differ in the rest would be copies. So
would those that differ in what follows the end of a deflated body.
"""

from __future__ import annotations

import gzip
import io
import zlib
from collections.abc import Callable
from typing import Any

from scrapy_neardup.offline.dedup.packing import packing_of


class NotDecoded(ValueError):
    """A body that cannot be decoded to its end."""


def body_of(record: Any, n_bytes: int) -> bytes:
    """The first bytes of a response's body, decoded. Raises NotDecoded, OSError, EOFError,
    zlib.error, and ImportError where the package for Brotli or Zstandard is not there."""
    headers = record.http_headers
    codings = (headers.get_header("Content-Encoding") or "").lower().split(",")
    headers.remove_header("Content-Encoding")
    if (headers.get_header("Transfer-Encoding") or "").strip().lower() == "chunked":
        headers.replace_header("Transfer-Encoding", "chunked")  # warcio takes no other case
    body = bytes(record.content_stream().read(n_bytes))
    for coding in reversed(codings):
        if coding.strip() not in DECODERS:
            raise NotDecoded(f"in {coding.strip()!r}, which is not known")
        body = DECODERS[coding.strip()](body, n_bytes)
    if packing_of(body[:8]):
        raise NotDecoded("compressed, and no header says how often")
    return body


def _as_it_is(body: bytes, n_bytes: int) -> bytes:
    return body


def _gunzipped(body: bytes, n_bytes: int) -> bytes:
    if packing_of(body[:8]) != ".gz":  # some archives unpack bodies and leave the header
        return body
    with gzip.GzipFile(fileobj=io.BytesIO(body)) as members:
        return members.read(n_bytes)


def _inflated(body: bytes, n_bytes: int) -> bytes:
    """With the header that the standard asks for, or without, as some servers send it."""
    unpacker = zlib.decompressobj()
    try:
        unpacked = unpacker.decompress(body, n_bytes)
    except zlib.error:
        unpacker = zlib.decompressobj(wbits=-zlib.MAX_WBITS)
        unpacked = unpacker.decompress(body, n_bytes)
    if unpacker.unused_data:
        raise NotDecoded("more follows the end of its compression")
    return _whole(unpacked, n_bytes, unpacker.eof)


def _of_brotli(body: bytes, n_bytes: int) -> bytes:
    import brotli  # some archives only

    unpacker = brotli.Decompressor()
    unpacked = bytes(unpacker.process(body, output_buffer_limit=n_bytes))
    return _whole(unpacked, n_bytes, unpacker.is_finished())


def _of_zstandard(body: bytes, n_bytes: int) -> bytes:
    import zstandard

    packed = io.BytesIO(body)
    return bytes(
        zstandard.ZstdDecompressor().stream_reader(packed, read_across_frames=True).read(n_bytes)
    )


def _whole(unpacked: bytes, n_bytes: int, has_end: bool) -> bytes:
    if not has_end and len(unpacked) < n_bytes:
        raise NotDecoded("torn: its compression has no end")
    return unpacked


DECODERS: dict[str, Callable[[bytes, int], bytes]] = {
    **dict.fromkeys(("", "identity"), _as_it_is),
    **dict.fromkeys(("gzip", "x-gzip"), _gunzipped),
    "deflate": _inflated,
    "br": _of_brotli,
    "zstd": _of_zstandard,
}
