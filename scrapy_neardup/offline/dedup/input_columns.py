"""The columns of each input, as a worker finds them: a file may crash its reader."""

from __future__ import annotations

from contextlib import closing

from scrapy_neardup.errors import InputError
from scrapy_neardup.offline.dedup.columns import Columns, Fields
from scrapy_neardup.offline.dedup.inputs import Input
from scrapy_neardup.offline.dedup.job import DedupJob
from scrapy_neardup.offline.dedup.reading import Work
from scrapy_neardup.offline.dedup.workers import Worker, WorkerEnded

TEXT_KINDS = ("jsonl", "json", "csv", "parquet")


def columns_of(job: DedupJob) -> list[Columns]:
    """The columns of each input. Raises InputError where one is missing."""
    with closing(Worker(Work(job.settings, 1, job.inputs, job.limits, ""))) as worker:
        found = [columns_in(worker, number, job.fields) for number in range(len(job.inputs))]
    if job.paragraphs == "remove":
        for source, columns in zip(job.inputs, found, strict=True):
            check_removable(source, columns)
    return found


def check_removable(source: Input, columns: Columns) -> None:
    """Raises InputError where texts are not in columns of their own."""
    is_nested = source.kind == "parquet" and any("." in name for name in columns.text)
    if source.kind not in TEXT_KINDS or is_nested or (columns.html and not columns.text):
        raise InputError(
            f"{source.label}: --paragraphs remove takes columns of text"
            f"{', not nested ones' if is_nested else ', not HTML'}; use --paragraphs list"
        )


def columns_in(worker: Worker, number: int, fields: Fields) -> Columns:
    """The columns of an input; none of one that crashes its reader."""
    try:
        columns: Columns = worker.call("columns", number, fields)
    except WorkerEnded:
        return Columns(None, (), ())
    return columns
