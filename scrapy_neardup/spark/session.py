"""A Spark session for the command, on this machine's Python."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from scrapy_neardup.errors import InputError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@contextmanager
def session(master: str | None) -> Iterator[SparkSession]:
    """The active session, or a new one for the duration of the block.

    Raises InputError if Spark is not installed.
    """
    try:
        from pyspark.sql import SparkSession
    except ImportError as error:
        raise InputError(f"Spark: pip install 'scrapy-neardup[spark]' ({error})") from error
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    active = SparkSession.getActiveSession()
    if active is not None:
        yield active
        return
    builder = SparkSession.builder.appName("scrapy neardup").config("spark.ui.enabled", "false")
    with (builder.master(master) if master else builder).getOrCreate() as spark:
        spark.sparkContext.setLogLevel("ERROR")
        yield spark
