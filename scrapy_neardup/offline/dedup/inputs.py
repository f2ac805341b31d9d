"""Paths → inputs: files of records, archives inside WACZ, folders of HTML, standard input."""

from __future__ import annotations

import os
import re
import shutil
import stat
import sys
import zipfile
from collections.abc import Iterable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, NoReturn

from scrapy_neardup.errors import InputError
from scrapy_neardup.offline.dedup.packing import Unpacked, packing_of
from scrapy_neardup.offline.dedup.progress import FILE as PROGRESS
from scrapy_neardup.offline.dedup.record import MIB, InputLimits
from scrapy_neardup.own_files import (
    make_folder,
    refuse_links_below,
    require_own,
    sync_file,
    sync_folder,
)
from scrapy_neardup.state.lock import FolderLock

LOCKED = "Wait for that run, or name another folder with --out"

HTML_SUFFIXES = (".html", ".htm", ".xhtml")
PACKINGS = (".gz", ".bz2", ".xz", ".zst")
KINDS = {
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".jl": "jsonl",
    ".json": "json",
    ".csv": "csv",
    ".tsv": "csv",
    ".warc": "warc",
    ".wet": "wet",
    ".parquet": "parquet",
}
PACKED_KINDS = {
    "warc": (".gz", ".zst"),
    "wet": (".gz", ".zst"),
    "parquet": (),
}  # the others: all PACKINGS
MAX_MEMBERS = 100_000  # of a WACZ
ARCHIVE_HEAD_BYTES = 2**16
HOLDS_SOMETHING = re.compile(
    rb"^WARC-Type:[ \t]*(response|resource|revisit|conversion)\b", re.IGNORECASE | re.MULTILINE
)


class Input(NamedTuple):
    """A file of records, or a folder of HTML files; `kind` names its format.

    start, size: of an archive that lies in another file, such as WACZ, in bytes; or of a part of
    JSON lines or Parquet, whose records are those that begin there: lines, rows of row groups.
    without: what of a folder is no input.
    """

    path: Path
    kind: str
    packing: str = ""
    name: str = ""
    start: int = 0
    size: int | None = None
    without: Path | None = None

    @property
    def n_bytes(self) -> int:
        """Size on disk; for a folder, the size of its HTML files."""
        if self.size is not None:
            return self.size
        if self.kind == "html":
            return sum(path.stat().st_size for path in html_files(self.path, self.without))
        return self.path.stat().st_size

    @property
    def files(self) -> Iterable[Path]:
        """The files that are read."""
        return html_files(self.path, self.without) if self.kind == "html" else (self.path,)

    @property
    def version(self) -> list[Any]:
        """What tells it from other inputs, and from itself before it was changed."""
        changed = max((path.stat().st_mtime_ns for path in self.files), default=0)
        return [self.label, self.n_bytes, changed]

    @property
    def label(self) -> str:
        """What messages and tables call it."""
        return f"{self.path}!{self.name}" if self.size is not None else str(self.path)


def find_inputs(paths: list[Path], out: Path | None = None) -> list[Input]:
    """The inputs that the paths name, in order; folders are searched. Raises InputError.

    out: the output folder, which may lie in one of them, and is no input.
    """
    for path in paths:
        _require_readable(path)
    if out is not None and out.resolve() in (path.resolve() for path in paths):
        raise InputError(f"{out}: is an input; name another folder with --out")
    found = [one for path in paths for one in _inputs_of(path, _inside(path, out))]
    if not found:
        raise InputError(f"{', '.join(map(str, paths))}: no file of a known format: {known()}")
    return found


def _require_readable(path: Path) -> None:
    """Raises InputError for what is neither a file nor a folder, and says which way it is not."""
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        raise InputError(f"{path}: no such file") from None
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}") from error
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
        raise InputError(f"{path}: not a regular file; read it as standard input, by -")


def refuse_as_output(paths: Iterable[Path], inputs: Iterable[Path]) -> None:
    """Raises InputError where a file that is to be written is read, or its folder is not there."""
    read = {(found.st_dev, found.st_ino) for found in (path.stat() for path in inputs)}
    for path in paths:
        if path.exists() and (path.stat().st_dev, path.stat().st_ino) in read:
            raise InputError(f"{path}: is an input, and would be written over; name another file")
        if not path.parent.is_dir():
            raise InputError(f"{path}: there is no folder {path.parent}")


def not_read(
    paths: list[Path], inputs: list[Input], out: Path | None = None
) -> tuple[list[Path], list[Path]]:
    """What is in folders and is not read: files of no known format; and, whatever their format,
    links to folders and to nothing, pipes and other special files."""
    found = {source.path for source in inputs}
    others: list[Path] = []
    no_files: list[Path] = []
    for path in _all_in(paths, out):
        if not os.path.isfile(path):
            no_files.append(path)
        elif path not in found and not _is_html(path):
            others.append(path)
    return others, no_files


def known() -> str:
    """The formats, in words."""
    return (
        f"{', '.join(KINDS)} (all but .parquet also as .gz or .zst, text also as .bz2 or .xz), "
        f".wacz, {', '.join(HTML_SUFFIXES)}"
    )


def _inside(path: Path, out: Path | None) -> Path | None:
    """The output folder as files in a folder are named, if it lies in that one."""
    if out is None or not out.resolve().is_relative_to(path.resolve()):
        return None
    return path / out.resolve().relative_to(path.resolve())


def _all_in(paths: list[Path], out: Path | None) -> Iterator[Path]:
    folders = (path for path in paths if path.is_dir())
    return (one for path in folders for one in _entries_in(path, _inside(path, out)))


def _files_in(folder: Path, without: Path | None) -> Iterator[Path]:
    """The files in a folder and those inside it, in order."""
    return (path for path in _entries_in(folder, without) if os.path.isfile(path))


def _entries_in(folder: Path, without: Path | None) -> Iterator[Path]:
    """Whatever is in a folder and those inside it, but these, in order.

    Links to folders are not followed, since they may lead back. Raises InputError for a folder
    that cannot be read: what is in it would be missed.
    """
    found: list[Path] = []
    for inside, folders, names in os.walk(folder, onerror=_refuse_unread):
        found += (Path(inside, name) for name in names)
        found += (path for name in folders if (path := Path(inside, name)).is_symlink())
    return (path for path in sorted(found) if without is None or not path.is_relative_to(without))


def _refuse_unread(error: OSError) -> NoReturn:
    raise InputError(
        f"{error.filename}: {error.strerror}; make it readable, or name the others as inputs"
    ) from error


def _inputs_of(path: Path, without: Path | None) -> Iterator[Input]:
    if path.is_dir():
        for inside in _files_in(path, without):
            _refuse_output(inside)
            yield from of_file(inside)
        if next(html_files(path, without), None):
            yield Input(path, "html", name=path.name, without=without)
        return
    found = list(of_file(path)) if path.is_file() else []
    if not found and _is_html(path):
        raise InputError(f"{path}: HTML is read a folder at a time; name its folder, {path.parent}")
    if not found:
        raise InputError(f"{path}: not a file of a known format: {known()}")
    yield from found


def _refuse_output(file: Path) -> None:
    """Raises InputError for a file by which a folder is known for what dedup wrote."""
    folder = file.parent
    if file.name == PROGRESS and (folder / "lock").exists():
        raise InputError(
            f"{folder}: is what an earlier run of dedup wrote; name the inputs beside it, or "
            f"{folder / 'kept'} for what that run kept"
        )


def of_file(path: Path) -> Iterator[Input]:
    """The input that a file is by its name; those in a WACZ; none of an unknown format."""
    if path.suffix.lower() == ".wacz":
        yield from _archives_in(path)
        return
    packing = path.suffix.lower() if path.suffix.lower() in PACKINGS else ""
    stem = Path(path.stem) if packing else path
    kind = KINDS.get(stem.suffix.lower())
    if kind and packing in ("", *PACKED_KINDS.get(kind, PACKINGS)):
        yield Input(path, kind, packing, path.name)


def _archives_in(path: Path) -> Iterator[Input]:
    """The WARC files in a WACZ, which the standard has stored and not compressed again."""
    try:
        with zipfile.ZipFile(path) as archive, path.open("rb") as file:
            members = archive.infolist()[:MAX_MEMBERS]
            # Members may lie in each other's place: a thousand times the same gigabyte.
            if sum(member.compress_size for member in members) > path.stat().st_size:
                raise InputError(f"{path}: its members are larger together than the file")
            for member in members:
                name = Path(member.filename).name
                inner = next(of_file(Path(name)), None)
                if inner is None or inner.kind != "warc":
                    continue
                if member.compress_type != zipfile.ZIP_STORED:
                    raise InputError(f"{path}: {name} is compressed again; unpack the file first")
                if member.file_size != member.compress_size:  # the sum above is of the second
                    raise InputError(f"{path}: {name} has two sizes, though it is not compressed")
                start = _data_start(file, member.header_offset)
                yield inner._replace(path=path, name=name, start=start, size=member.file_size)
    except (zipfile.BadZipFile, OSError, ValueError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"{path}: not a whole WACZ file ({error})") from error


def _data_start(file: object, header: int) -> int:
    """Where a stored member's bytes begin: behind its local header, name and extra field."""
    file.seek(header + 26)  # type: ignore[attr-defined]
    lengths: bytes = file.read(4)  # type: ignore[attr-defined]
    return (
        header + 30 + int.from_bytes(lengths[:2], "little") + int.from_bytes(lengths[2:], "little")
    )


def html_files(folder: Path, without: Path | None) -> Iterator[Path]:
    """HTML files of a folder and those inside it."""
    return filter(_is_html, _files_in(folder, without))


def _is_html(file: Path) -> bool:
    return file.suffix.lower() in HTML_SUFFIXES


def stored_stdin(folder: Path) -> Path:
    """Standard input as a file in a folder, named by what it looks like; once it is whole there.

    A run reads its input twice, and again after a kill: what an earlier run stored is taken again,
    and standard input must have the same, or nothing. Raises InputError where it has something
    else, and for an unknown format, StateError for a folder of somebody else or where another run
    is, NotOurFile for a link in it.
    """
    make_folder(folder)
    require_own(folder)
    refuse_links_below(folder)
    with closing(FolderLock(folder, LOCKED)):
        there = sorted(folder.glob("stdin.*"))
        if not there:
            return _stored(sys.stdin.buffer, folder)
    if not sys.stdin.isatty():  # a terminal would be waited for
        _require_same(there[0], sys.stdin.buffer)
    return there[0]


def _stored(given: BinaryIO, folder: Path) -> Path:
    partial = folder / "stdin-partial"
    with partial.open("wb") as file:
        shutil.copyfileobj(given, file)
    path = folder / f"stdin{_suffix_of(partial)}"
    sync_file(partial)  # a run that goes on takes it for whole by its name
    partial.replace(path)
    sync_folder(folder)
    return path


def _require_same(stored: Path, given: BinaryIO) -> None:
    """Raises InputError unless a stream has nothing, or just what a file has."""
    if not (block := given.read(MIB)):
        return
    with stored.open("rb") as file:
        while block and file.read(len(block)) == block:
            block = given.read(MIB)
        if block or file.read(1):
            raise InputError(
                f"{stored.parent}: holds a run over another standard input; name a new folder with "
                f"--out"
            )


def _suffix_of(path: Path) -> str:
    """The suffix that a file's first bytes call for. Raises InputError."""
    with path.open("rb") as file:
        packing = packing_of(file.read(8))
    with Unpacked(path, packing, InputLimits()) as unpacked:
        head = unpacked.block(4096).removeprefix(b"\xef\xbb\xbf").lstrip()
        if head.startswith(b"WARC/") and _has_conversions(unpacked, head):
            return ".wet" + packing
    beginnings = {b"{": ".jsonl", b"[": ".json", b"WARC/": ".warc", b"PAR1": ".parquet"}
    kind = next((suffix for begin, suffix in beginnings.items() if head.startswith(begin)), ".csv")
    return kind + packing


def _has_conversions(archive: Unpacked, head: bytes) -> bool:
    """Whether the first record of an archive that holds something is a text that was taken from a
    page, as all are in WET. Archives of which that is unknown are WARC: they keep such records."""
    try:
        while len(head) < ARCHIVE_HEAD_BYTES and (block := archive.block(ARCHIVE_HEAD_BYTES)):
            head += block
    except (OSError, EOFError):
        pass  # damage behind what was read so far
    found = HOLDS_SOMETHING.search(head)
    return found is not None and found[1].lower() == b"conversion"
