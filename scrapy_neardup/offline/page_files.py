"""Files of pages and of labelled pairs: JSON lines, or any other format that dedup reads."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import partial
from math import nan
from pathlib import Path
from typing import Any, NamedTuple

from scrapy_neardup.crawl.pages.extract import content_of_html
from scrapy_neardup.detect.content import PageContent
from scrapy_neardup.detect.detector import Detector
from scrapy_neardup.detect.page_reading import PageReading
from scrapy_neardup.errors import InputError
from scrapy_neardup.offline.dedup.columns import Columns, Fields
from scrapy_neardup.offline.dedup.formats import columns_of, format_of
from scrapy_neardup.offline.dedup.inputs import Input, find_inputs
from scrapy_neardup.offline.dedup.record import DamagedRecord, InputLimits, Page
from scrapy_neardup.offline.line_files import lines_in

SCORED = frozenset({"near", "distinct"})  # labels; pairs of others, such as "grey", are not scored
NEAR, DISTINCT = 0.9, 0.5  # Jaccard of 5-word shingles; between them nobody can say
# The id and the URL of a record, and what its page says; None instead where it has no text.
Record = tuple[Any, str, Callable[[], PageContent | str | None] | None]


class LabelledPair(NamedTuple):
    """Two pages by their ids, and their label: near, distinct, or anything else."""

    first: str
    second: str
    label: str
    stratum: str

    @property
    def near(self) -> bool:
        """Whether the pages are labelled near."""
        return self.label == "near"


def lines_of(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """The objects of a file with their line numbers. Raises InputError."""
    try:
        with path.open("rb") as file:
            for number, line in enumerate(lines_in(file, str(path), InputLimits().record_bytes), 1):
                text = line.decode("utf-8" if number > 1 else "utf-8-sig")
                if text.strip():
                    yield number, _object(path, number, text)
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path} cannot be read: {error}") from error


def _object(path: Path, number: int, line: str) -> dict[str, Any]:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path}, line {number}: not JSON ({error})") from error
    if not isinstance(value, dict):
        raise InputError(f"{path}, line {number}: takes an object, not {type(value).__name__}")
    return value


def read_pages(
    path: Path, detector: Detector, wanted: set[str] | None = None
) -> dict[str, PageReading]:
    """Readings by page id; only of those wanted. Raises InputError, also where an id stands for two
    texts: nobody could say which of them a pair means."""
    readings: dict[str, PageReading] = {}
    for id, reading in readings_in(path, detector, wanted):
        if id in readings and readings[id].digest != reading.digest:
            raise InputError(
                f"{path}: two pages of other texts have the id {id!r}; give each an `id` of its own"
            )
        readings[id] = reading
    return readings


def readings_in(
    path: Path, detector: Detector, wanted: set[str] | None = None
) -> Iterator[tuple[str, PageReading]]:
    """The id and the reading of every page, or of those wanted. Raises InputError.

    A page's id is its `id`; its URL where it has none; the number of its record, from 0, where it
    has neither. Records without text, such as pictures, are no pages.
    """
    for number, (given, url, content) in enumerate(_records_of(path)):
        id = str((url or number) if is_missing(given) else given)
        if content is not None and (wanted is None or id in wanted):
            reading = detector.read(url or id, content() or "")
            reading.let_go_of_markup()
            yield id, reading


def is_missing(value: Any) -> bool:
    """Whether a field says nothing."""
    return value is None or value == ""


def _records_of(path: Path) -> Iterator[Record]:
    """All records of a file."""
    inputs = other_inputs(path)
    if inputs:
        for source in inputs:
            yield from _records_in(source)
        return
    for number, row in lines_of(path):
        url = str(row.get("url") or "")
        yield row.get("id"), url, partial(_content, path, number, row, url)


def other_inputs(path: Path) -> list[Input]:
    """The inputs that a path names, unless it is a file of JSON lines."""
    if not (path.is_dir() or path.is_file()):
        return []
    try:
        found = find_inputs([path])
    except InputError:  # JSON lines may have any name
        return []
    is_lines = found[0].kind == "jsonl" and found[0].packing in ("", ".gz")
    return [] if is_lines and not path.is_dir() else found


def _records_in(source: Input) -> Iterator[Record]:
    """The records of an input."""
    from scrapy_neardup.offline.dedup.said import said_by

    for page in sound_records(source, columns_in(source)):
        row = page.row if isinstance(page.row, dict) else {}
        has_text = page.text is not None or page.body is not None
        yield row.get("id"), page.url, partial(said_by, page) if has_text else None


def columns_in(source: Input) -> Columns:
    """The columns of an input, which needs no URLs here. Raises InputError."""
    try:
        return columns_of(source, Fields(), InputLimits())
    except InputError:
        return columns_of(source, Fields(has_url=False), InputLimits())


def sound_records(source: Input, columns: Columns) -> Iterator[Page]:
    """The records of an input. Raises InputError for a damaged one."""
    form = format_of(source, columns, InputLimits())
    for chunk in form.chunks():
        for frame in form.frames(chunk):
            if frame.filler:
                continue
            page = DamagedRecord(frame.damage) if frame.damage else form.page(frame, chunk)
            if isinstance(page, DamagedRecord):
                raise InputError(f"{source.label}: {page.error}, at byte {frame.begin:,}")
            yield page


def rows_of(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """The rows of a file with their numbers, from 1. Raises InputError."""
    inputs = other_inputs(path)
    if not inputs:
        yield from lines_of(path)
    for source in inputs:
        try:
            names = format_of(source, Columns(None, (), ()), InputLimits()).names() or []
        except InputError:
            raise
        except (OSError, ValueError) as error:  # pyarrow's errors are of these kinds, too
            raise InputError(f"{source.label}: cannot be read: {error}") from error
        every = Columns(None, tuple(names), ())
        for number, page in enumerate(sound_records(source, every), 1):
            yield number, {k: v for k, v in (page.row or {}).items() if v not in (None, "")}


def _content(path: Path, number: int, page: dict[str, Any], url: str) -> PageContent | str:
    """The page's text, or what its HTML says as a crawl would take it."""
    if isinstance(page.get("text"), str):
        return str(page["text"])
    if isinstance(page.get("html"), str):
        return content_of_html(page["html"], url)
    raise InputError(f"{path}, line {number}: a page takes `html` or `text`, as a string")


def read_pairs(path: Path, label: str | None = None, scored: bool = True) -> list[LabelledPair]:
    """The pairs, in order; scored: only those labelled near or distinct. Raises InputError.

    label: the field that has the label. Without it, that of the full visible text (`label_full`),
    else `label`, else what `j5_full` says: 0.9 and more is near, 0.5 and less distinct.
    """
    pairs = []
    for number, row in rows_of(path):
        if not {"a", "b"} <= row.keys():
            raise InputError(
                f"{path}, line {number}: a pair takes the ids of two pages, `a` and `b`"
            )
        found = _label(path, number, row) if label is None else _named(path, number, row, label)
        if not scored or found in SCORED:
            stratum = str(row.get("stratum", "all"))
            pairs.append(LabelledPair(str(row["a"]), str(row["b"]), found, stratum))
    return pairs


def _named(path: Path, number: int, row: dict[str, Any], field: str) -> str:
    if field not in row:
        raise InputError(f"{path}, line {number}: the pair has no field {field!r}")
    return str(row[field])


def _label(path: Path, number: int, row: dict[str, Any]) -> str:
    given = (row.get(name) for name in ("label_full", "label"))
    label = next((one for one in given if not is_missing(one)), None)
    return _label_by_jaccard(path, number, row) if label is None else str(label)


def _label_by_jaccard(path: Path, number: int, row: dict[str, Any]) -> str:
    try:
        jaccard = float(row.get("j5_full"))  # type: ignore[arg-type]  # CSV has it as text
    except (TypeError, ValueError):
        jaccard = nan
    if not 0 <= jaccard <= 1:
        raise InputError(
            f"{path}, line {number}: a pair takes `label_full`, `label` or `j5_full`, from 0 to 1"
        )
    return "near" if jaccard >= NEAR else "distinct" if jaccard <= DISTINCT else "grey"
