"""Reads the files of Scrapy's own disk queues, which jobs of earlier versions left in JOBDIR."""

from __future__ import annotations

import json
import struct
from array import array
from collections.abc import Iterator
from pathlib import Path

_LENGTH = struct.Struct(">L")
PICKLE = b"\x80\x04"  # how each request begins in a queue of the kind that Scrapy has by default


class DamagedQueue(Exception):
    """A queue's file does not hold what its size says, or requests in another form."""


def read_queue(path: Path) -> Iterator[bytes]:
    """The pickled requests in the order of their pushes; none if there is no such queue.

    A file is a queue whose newest comes first, a folder one whose oldest does. Changes nothing.
    Raises DamagedQueue before the first request where it can be told; OSError.
    """
    if path.is_dir():
        requests = _read_fifo(path)
    elif path.is_file():
        requests = _read_lifo(path)
    else:
        return
    for request in requests:
        if not request.startswith(PICKLE):
            raise DamagedQueue(f"{path} holds no pickled requests")
        yield request


def _read_lifo(path: Path) -> Iterator[bytes]:
    """File: number of requests, then each request with its length behind it."""
    with path.open("rb") as file:
        (n_requests,) = _LENGTH.unpack(_exactly(file.read(_LENGTH.size), _LENGTH.size, path))
        ends, at = array("Q"), file.seek(0, 2)
        while at > _LENGTH.size:
            at -= _LENGTH.size
            ends.append(at)
            file.seek(at)
            (length,) = _LENGTH.unpack(file.read(_LENGTH.size))
            at -= length
        if at != _LENGTH.size or len(ends) != n_requests:
            raise DamagedQueue(f"{path} was not closed, or is damaged")
        start = _LENGTH.size
        for end in reversed(ends):
            file.seek(start)
            yield file.read(end - start)
            start = end + _LENGTH.size


def _read_fifo(path: Path) -> Iterator[bytes]:
    """Folder: info.json, and files of requests with their length before each."""
    try:
        info = json.loads((path / "info.json").read_bytes())
        number, _, at = info["tail"]
        last, n_requests = info["head"][0], info["size"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise DamagedQueue(f"{path} was not closed, or is damaged") from error
    for chunk in range(number, last + 1):
        file_path = path / f"q{chunk:05d}"
        with file_path.open("rb") as file:
            file.seek(at if chunk == number else 0)
            while n_requests and (head := file.read(_LENGTH.size)):
                (length,) = _LENGTH.unpack(_exactly(head, _LENGTH.size, path))
                yield _exactly(file.read(length), length, path)
                n_requests -= 1
    if n_requests:
        raise DamagedQueue(f"{path} lacks {n_requests} requests")


def _exactly(data: bytes, n_bytes: int, path: Path) -> bytes:
    if len(data) != n_bytes:
        raise DamagedQueue(f"{path} ends too early")
    return data
