"""A visit as the workers of a fleet find it on the server: bytes under the fleet's key."""

from __future__ import annotations

import json
import math
import struct
import zlib
from hashlib import blake2b
from typing import Any, NamedTuple

import numpy as np

from scrapy_neardup.detect.revision import MAX_LINES
from scrapy_neardup.sqlite_files import MAX_COUNT, is_count, is_time
from scrapy_neardup.state.mac import MAC_BYTES, VISIT, is_mac, mac_of
from scrapy_neardup.state.visit import ORIGINAL_BYTES, Hint, Visit, unambiguous
from scrapy_neardup.state.visit_file import Status

MAX_RECORD = 1 << 16  # bytes; of a page with more, less is remembered
TOLD_BYTES = 8 + 1 + 8  # of one reader: whose, status, version
_HEAD = struct.Struct(">d4sBQH")  # run, worker, status, version, originals; then those
HEAD_BYTES = _HEAD.size
_LENGTH = struct.Struct(">i")  # -1 for None
_HINT = struct.Struct(">dd")

_SCALARS = {"time": float, "url": str, "links": int, "depth": int, "n_visits": int}
_SCALARS |= {"n_changes": int, "since": float, "n_new": int, "due": float, "trusted": int}
_BYTES = ("text", "data", "items")
_OPTIONAL = ("lines", "copy_of", "found_on", "etag", "modified", "program", "requests")
# What is left out of a large record, one after the other. Without its items a page is changed.
_LARGE = (
    {"requests": None, "etag": None, "modified": None, "program": None},
    {"lines": None},
    {"items": b""},
)


class PageReader(NamedTuple):
    """Who reads a page: a spider's callback."""

    spider: str
    callback: str

    @property
    def id(self) -> bytes:
        """Eight bytes."""
        parts = unambiguous(self.spider, self.callback)
        return blake2b(b"".join(parts), digest_size=8).digest()


class Told(NamedTuple):
    """What the server says of a page for one reader."""

    status: int
    version: int


def pack(visit: Visit, reader: PageReader, worker: bytes, run: int, first: int, key: int) -> bytes:
    """A visit of the fleet's run `run`, of a page found in `first`, at most MAX_RECORD bytes.

    worker: who writes it. key: the fleet's secret.
    """
    record = _packed(visit, worker, run, first)
    for change in _LARGE:
        if len(record) + MAC_BYTES > MAX_RECORD:
            visit = visit._replace(**change)
            record = _packed(visit, worker, run, first)
    return record + _mac(key, visit.key, reader, record)


def _packed(visit: Visit, worker: bytes, run: int, first: int) -> bytes:
    n_originals = len(visit.repeats) // ORIGINAL_BYTES
    head = _HEAD.pack(run, worker, visit.status, visit.version, n_originals)
    scalars = {name: getattr(visit, name) for name in _SCALARS} | {"first": first}
    if visit.lines is not None:
        visit = visit._replace(lines=_folded(visit.lines))
    parts = [json.dumps(scalars).encode(), *(getattr(visit, n) for n in _BYTES + _OPTIONAL)]
    body = b"".join(_LENGTH.pack(-1 if p is None else len(p)) + (p or b"") for p in parts)
    return head + visit.repeats + body


def _folded(lines: bytes) -> bytes:
    """Lines as Lines.pack() gave them; one hash instead of two where nothing in a line varies."""
    exact, masked = np.frombuffer(lines, "<u4").reshape(2, -1)
    return zlib.compress(np.concatenate([exact, exact ^ masked]).tobytes(), 1)


def _unfolded(folded: bytes) -> bytes:
    lines = zlib.decompressobj().decompress(folded, 8 * MAX_LINES)
    exact, differing = np.frombuffer(lines, "<u4").reshape(2, -1)
    return np.concatenate([exact, exact ^ differing]).tobytes()


def _mac(key: int, url_key: bytes, reader: PageReader, record: bytes) -> bytes:
    return mac_of(key, VISIT, *_signed(url_key, reader, record))


def _signed(url_key: bytes, reader: PageReader, record: bytes) -> list[bytes]:
    return [*unambiguous(b"shared", *reader, url_key, record)]


def unpack(record: bytes, url_key: bytes, reader: PageReader, key: int) -> tuple[Visit, int, int]:
    """What pack() was given, and run and first. Raises ValueError for what pack() did not make.

    spider, linked and done of the visit say nothing.
    """
    signed, code = record[:-MAC_BYTES], record[-MAC_BYTES:]
    if len(record) > 2 * MAX_RECORD:  # the URL may be long
        raise ValueError(f"a record of {len(record):,} bytes")
    if not is_mac(code, key, VISIT, *_signed(url_key, reader, signed)):
        raise ValueError("not written under the fleet's key")
    try:
        return _unpacked(signed, url_key, reader)
    except (struct.error, zlib.error, LookupError, TypeError, RecursionError) as error:
        raise ValueError(str(error)) from error


def _unpacked(signed: bytes, url_key: bytes, reader: PageReader) -> tuple[Visit, int, int]:
    run, _, status, version, n_originals = _HEAD.unpack_from(signed)
    if not (0 <= run < MAX_COUNT and is_count(version)):
        raise ValueError("a run or version that is none")
    at = _HEAD.size + n_originals * ORIGINAL_BYTES
    repeats = signed[_HEAD.size : at]
    parts: list[bytes | None] = []
    for _ in range(1 + len(_BYTES) + len(_OPTIONAL)):
        (n,) = _LENGTH.unpack_from(signed, at)
        at += _LENGTH.size
        parts.append(None if n < 0 else signed[at : at + n])
        at += max(n, 0)
    scalars = _checked(json.loads(parts[0] or b""))
    first = scalars.pop("first")
    values: dict[str, Any] = dict(zip(_BYTES + _OPTIONAL, parts[1:], strict=True))
    if at != len(signed) or any(values[name] is None for name in _BYTES):
        raise ValueError("a record of another length")
    if values["lines"] is not None:
        values["lines"] = _unfolded(values["lines"])
    visit = Visit(
        key=url_key, spider=0, callback=reader.callback, run=0, first=0, done=b"", linked=0,
        status=Status(status), version=version, repeats=repeats, **scalars, **values,
    )  # fmt: skip
    return visit, int(run), first


def _checked(scalars: dict[str, Any]) -> dict[str, Any]:
    for name, kind in (_SCALARS | {"first": int}).items():
        value = scalars[name]
        if type(value) is not kind or not (kind is str or is_time(value) or is_count(value)):
            raise ValueError(f"{name} is none that a worker writes")
    return scalars


def unpack_told(packed: bytes) -> dict[bytes, Told]:
    """By reader, what the server says of a page. Raises ValueError."""
    if len(packed) % TOLD_BYTES:
        raise ValueError(f"{len(packed)} bytes")
    parts = struct.iter_unpack(">8sBQ", packed)
    return {reader: Told(status, version) for reader, status, version in parts}


def pack_hint(hint: Hint) -> bytes:
    """What a sitemap says of a page, in 16 bytes; NaN stands for what it does not say."""
    return _HINT.pack(*(math.nan if value is None else value for value in hint))


def unpack_hint(packed: bytes) -> Hint | None:
    """What pack_hint() was given; None for no bytes. Raises struct.error."""
    if not packed:
        return None
    modified, period = (v if math.isfinite(v) else None for v in _HINT.unpack(packed))
    return Hint(modified, period)
