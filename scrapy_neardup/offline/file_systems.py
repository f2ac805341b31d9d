"""Folders on disks, object storage and HDFS, by pyarrow's file systems."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from scrapy_neardup.errors import InputError


def place(text: str) -> Path | str:
    """A URL of object storage or HDFS as it is, anything else as a path."""
    return text if "://" in text else Path(text)


def shown(place: Path | str) -> str:
    """A path, or a URL without its options, user and password."""
    if isinstance(place, Path):
        return str(place)
    scheme, _, rest = place.partition("?")[0].partition("://")
    host, slash, path = rest.partition("/")
    return f"{scheme}://{host.rpartition('@')[2]}{slash}{path}"


def file_system(url: str) -> tuple[Any, str]:
    """The file system of a URL, and the path on it. Raises InputError."""
    try:
        import pyarrow as pa
        import pyarrow.fs
    except ImportError as error:
        raise InputError(f"{shown(url)}: pip install 'scrapy-neardup[dedup]' ({error})") from error
    scheme, _, rest = url.partition("://")
    scheme = "s3" if scheme in ("s3a", "s3n") else scheme
    try:
        found: tuple[Any, str] = pyarrow.fs.FileSystem.from_uri(f"{scheme}://{rest}")
    except (pa.ArrowException, OSError, ValueError) as error:
        raise InputError(f"{shown(url)}: {error}") from error
    return found
