"""A Spark session for the command, on this machine's Python."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from scrapy_neardup.errors import InputError, SparkFailed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# The last line of Python's traceback.
RAISED = re.compile(r"((?!org\.|java)[\w.]++(?:(?<=Error)|(?<=Exception)): .*)")
CAUSED = re.compile(r"(?:Caused by)?: (.+)")  # by Java
MAX_TOLD = 500  # characters


@contextmanager
def session(master: str | None) -> Iterator[SparkSession]:
    """The active session, or a new one for the duration of the block.

    Raises InputError if Spark is not installed, SparkFailed for what Spark raises in the block.
    """
    try:
        from py4j.protocol import Py4JError
        from pyspark.errors import PySparkException
    except ImportError as error:
        raise InputError(f"Spark: pip install 'scrapy-neardup[spark]' ({error})") from error
    try:
        with _session(master) as spark:
            yield spark
    except (PySparkException, Py4JError) as error:
        raise SparkFailed(f"Spark: {cause_of(str(error))}") from error


def cause_of(said: str) -> str:
    """What of an error of Spark's says why: the end of a worker's traceback, Java's last cause, or
    its beginning."""
    lines = [line for line in said.splitlines() if line.strip()] or ["no reason given"]
    for kind in (RAISED, CAUSED):
        if found := [match[1] for line in lines if (match := kind.match(line))]:
            return found[-1][:MAX_TOLD]
    return lines[0][:MAX_TOLD]


@contextmanager
def _session(master: str | None) -> Iterator[SparkSession]:
    from pyspark.sql import SparkSession

    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    active = SparkSession.getActiveSession()
    if active is not None:
        yield active
        return
    builder = SparkSession.builder.appName("scrapy neardup").config("spark.ui.enabled", "false")
    with (builder.master(master) if master else builder).getOrCreate() as spark:
        spark.sparkContext.setLogLevel("ERROR")
        yield spark
