"""HDFS as one of pyarrow's file systems, by hdfs-native: neither Java nor Hadoop is needed."""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from hdfs_native.fsspec import HdfsFileSystem
from pyarrow.fs import FSSpecHandler, PyFileSystem


def hdfs(url: str) -> tuple[PyFileSystem, str]:
    """The file system of hdfs://host:port/path?setting=value, and the path on it.

    Settings are Hadoop's, and go before those of the files in HADOOP_CONF_DIR. Raises ValueError.
    """
    parts = urlsplit(url)
    if parts.username:
        raise ValueError(f"A user in a URL ({parts.username}) is not read. Set HADOOP_USER_NAME")
    files = _Files(parts.hostname, parts.port, **dict(parse_qsl(parts.query)))
    return PyFileSystem(FSSpecHandler(files)), unquote(parts.path).rstrip("/")


class _Files(HdfsFileSystem):
    """Of the library's own methods, one ends a path at its first ? or #, and one leaves out of a
    folder what could not be listed."""

    # fsspec would end those that it keeps after a fork, in a child without the threads to end them:
    # whoever starts Java as pyspark does would wait for ever.
    cachable = False

    @classmethod
    def _strip_protocol(cls, path: str) -> str:
        return path

    def find(
        self, path: str, maxdepth: int | None = None, **_options: Any
    ) -> dict[str, dict[str, Any]]:
        listed = self.client.list_status(path, maxdepth is None)
        return {one.path: self._convert_file_status(one) for one in listed}
