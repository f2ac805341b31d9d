"""Folders on disks, object storage and HDFS, by pyarrow's file systems."""

from __future__ import annotations

import errno
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from scrapy_neardup.errors import InputError
from scrapy_neardup.own_files import sync_new_files

HDFS = "hdfs://"
S3 = {"s3a": "s3", "s3n": "s3"}  # Hadoop's names
MAX_TOLD = 300  # characters: some libraries tell all that they tried
# Up to the last @, because a password may have / or ? as they are. Of a port and a path with @ too
# little is shown then, rather than a secret.
USER = re.compile(r"[^/?:]*:[^?]*@|[^/?:@]*:[^/?@]*\?.*@|[^/?]*@", re.DOTALL)
LEAST_SECRET = 3  # characters: shorter ones stand in any word
NEXT_LINE = re.compile(r"\n|\\n")  # a server's traceback in Java begins there


def place(text: str) -> Path | str:
    """A URL of object storage or HDFS as it is, anything else as a path."""
    return text if "://" in text else Path(text)


def shown(place: Path | str) -> str:
    """A path, or a URL without its options, user and password."""
    if isinstance(place, Path):
        return str(place)
    return f"{place.partition('://')[0]}://{parts_of(place)[1]}"


def parts_of(url: str) -> tuple[str, str, str]:
    """User and password of a URL up to their @, host and path, and options; empty if not there."""
    rest = url.partition("://")[2]
    found = USER.match(rest)
    user = found[0] if found else ""
    place, _, options = rest.removeprefix(user).partition("?")
    return user, place, options


def file_system(url: str) -> tuple[Any, str]:
    """The file system of a URL, and the path on it. Raises InputError."""
    extra = "hdfs" if url.startswith(HDFS) else "dedup"
    try:
        import pyarrow as pa

        return _opened(url)
    except ImportError as error:
        raise InputError(
            f"{shown(url)}: pip install 'scrapy-neardup[{extra}]' ({error})"
        ) from error
    except (pa.ArrowException, OSError, RuntimeError, ValueError) as error:
        raise InputError(f"{shown(url)}: {brief(error, url)}") from error


def _opened(url: str) -> tuple[Any, str]:
    if url.startswith(HDFS):
        from scrapy_neardup.offline.hdfs import hdfs

        return hdfs(url)
    from pyarrow.fs import FileSystem

    scheme, _, rest = url.partition("://")
    found: tuple[Any, str] = FileSystem.from_uri(f"{S3.get(scheme, scheme)}://{rest}")
    return found


@contextmanager
def naming(place: Path | str) -> Iterator[None]:
    """For the block, what a file system raises as an OSError that names the place."""
    import pyarrow as pa

    try:
        yield
    except (pa.ArrowException, OSError, RuntimeError) as error:  # the last: hdfs-native
        if isinstance(error, OSError) and error.filename:
            raise
        number = error.errno if isinstance(error, OSError) else None
        raise OSError(number or errno.EIO, brief(error, place), shown(place)) from error


def sync(files: Any, path: str) -> None:
    """A file that was written to a disk is there when this returns, also after a loss of power.

    Storage has what it has taken.
    """
    from pyarrow.fs import LocalFileSystem

    if isinstance(files, LocalFileSystem):
        sync_new_files([Path(path)], Path(path).parent)


def brief(error: Exception, place: Path | str) -> str:
    """The beginning of what an error says of a place, without the secrets of its URL."""
    text = NEXT_LINE.split(str(error), maxsplit=1)[0]
    if isinstance(place, str):
        text = without_secrets(text, place)
    return text if len(text) <= MAX_TOLD else f"{text[:MAX_TOLD]} …"


def without_secrets(text: str, url: str) -> str:
    """A text with … in place of a URL's options, user and password, as libraries repeat them."""
    user, _, options = parts_of(url)
    password = user.removesuffix("@").partition(":")[2]
    for secret in (options, user, password, unquote(password)):
        if len(secret) >= LEAST_SECRET:
            text = text.replace(secret, "…")
    return text
