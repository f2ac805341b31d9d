"""Files that somebody made to fill memory or disk, to write elsewhere, or to end the process."""

import bz2
import gzip
import lzma
import os
import resource
import subprocess
import sys
import tracemalloc
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from scrapy_neardup.commands import WRONG_USE, main
from scrapy_neardup.errors import InputError, StateError
from scrapy_neardup.offline.dedup import packing
from scrapy_neardup.offline.dedup.columns import Fields
from scrapy_neardup.offline.dedup.formats import records, warc
from scrapy_neardup.offline.dedup.inputs import Input, find_inputs
from scrapy_neardup.offline.dedup.job import DedupJob
from scrapy_neardup.offline.dedup.journal import DecidedChunk
from scrapy_neardup.offline.dedup.record import DamagedRecord, InputLimits, Page
from scrapy_neardup.offline.dedup.run import dedup
from scrapy_neardup.offline.dedup.tables import Records, write_damaged
from scrapy_neardup.settings import NearDupSettings

zstandard = pytest.importorskip("zstandard")
pytest.importorskip("warcio")

FREE_BYTES = 2**24  # what an input may unpack to here, whatever its size
BOMB_BYTES = 2**28
PACKINGS: dict[str, Callable[[bytes], bytes]] = {
    ".gz": gzip.compress,
    ".bz2": bz2.compress,
    ".xz": lzma.compress,
    ".zst": zstandard.ZstdCompressor().compress,
}


def read(path: Path, limits: InputLimits | None = None) -> list[Page | DamagedRecord]:
    return [one for source in find_inputs([path]) for one in records(source, Fields(), limits)]


def peak_of(call: Callable[[], object]) -> int:
    """The most bytes that Python had of its own while something ran."""
    tracemalloc.start()
    try:
        call()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("kind", [".jsonl", ".json", ".csv", ".warc"])
@pytest.mark.parametrize("packed", PACKINGS)
def test_a_bomb_is_damage_long_before_memory_is_full(
    tmp_path: Path, kind: str, packed: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if kind == ".warc" and packed in (".bz2", ".xz"):
        pytest.skip("no such files")
    monkeypatch.setattr(packing, "FREE_BYTES", FREE_BYTES)
    monkeypatch.setattr(warc, "FREE_BYTES", FREE_BYTES)
    head = {".jsonl": b'{"text": "', ".json": b'[{"text": "', ".csv": b"url,text\n"}.get(
        kind, b"WARC/1.0 "
    )
    path = tmp_path / f"bomb{kind}{packed}"
    path.write_bytes(PACKINGS[packed](head + b"\r\n" * 9 + bytes(BOMB_BYTES)))
    found: list[Page | DamagedRecord] = []
    limits = InputLimits(record_bytes=2**22, ratio=100)
    assert peak_of(lambda: found.extend(read(path, limits))) < BOMB_BYTES // 2
    assert found
    assert all(isinstance(one, DamagedRecord) for one in found)
    assert any("bomb" in one.error for one in found if isinstance(one, DamagedRecord))


def wacz(path: Path, *names: str) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        for name in names:
            archive.writestr(name, b"WARC/1.0\r\nContent-Length: 1\r\n\r\nx\r\n\r\n" * 50)
    return path


@pytest.mark.parametrize("lies", [False, True])
def test_members_of_a_wacz_that_lie_in_each_other_s_place_are_refused(
    tmp_path: Path, lies: bool
) -> None:
    path = wacz(tmp_path / "a.wacz", "archive/a.warc")
    with zipfile.ZipFile(path, "a") as archive:
        again = archive.infolist() * 1_000
        archive.filelist += again
        if lies:  # of the two sizes of a member that is not compressed, one says nothing
            again[0].compress_size = 0
        archive._didModify = True  # type: ignore[attr-defined]
    with pytest.raises(InputError, match="has two sizes" if lies else "larger together"):
        find_inputs([path])


def test_a_wacz_whose_members_are_compressed_again_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.wacz"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("archive/a.warc", bytes(10_000))
    with pytest.raises(InputError, match="compressed again"):
        find_inputs([path])


@pytest.mark.parametrize("name", ["../../out.warc", "/out.warc", "a/../../out.warc", ".warc"])
def test_a_member_s_name_leads_nowhere(tmp_path: Path, name: str) -> None:
    path = wacz(tmp_path / "a.wacz", name)
    inputs = [one for one in find_inputs([path]) if one.kind == "warc"] if name != ".warc" else []
    assert all("/" not in one.name and one.name == "out.warc" for one in inputs)
    if not inputs:
        return
    before = set(tmp_path.rglob("*"))
    dedup(DedupJob(inputs, tmp_path / "run", NearDupSettings(key=1), Fields(), jobs=1))
    made = {p for p in tmp_path.rglob("*") if p not in before and p.is_file()}
    assert {p.relative_to(tmp_path).parts[0] for p in made} == {"run"}


def test_an_output_folder_that_any_user_may_write_to_is_refused(tmp_path: Path) -> None:
    """Somebody could put links there, to have us write to where they lead."""
    source, out = tmp_path / "a.jsonl", tmp_path / "out"
    source.write_text('{"url": "http://a.example/", "text": "words"}\n')
    out.mkdir(mode=0o777)
    out.chmod(0o777)
    with pytest.raises(StateError, match="chmod o-w"):
        dedup(DedupJob(find_inputs([source]), out, NearDupSettings(key=1), Fields(), jobs=1))


LINES = {
    "a number of a million digits": '{"text": "x", "n": ' + "9" * 10**6 + "}",
    "an exponent beyond all": '{"text": "x", "n": 1e999999999}',
    "nesting": '{"text": ' + "[" * 10**6 + "]" * 10**6 + "}",
    "nested objects": '{"a":' * 10**5 + "1" + "}" * 10**5,
    "a million keys": "{" + ", ".join(f'"{n}": 1' for n in range(10**6)) + ', "text": "x"}',
    "lone surrogates": '{"text": "' + "\\ud800" * 10**5 + '", "url": "http://\\ud800.example/"}',
    "NUL": '{"text": "a\\u0000b", "url": "http://a.example/\\u0000"}',
    "a URL of a megabyte": '{"text": "x", "url": "http://a.example/' + "a/" * 500_000 + '"}',
    "a port beyond all": '{"text": "x", "url": "http://a.example:99999999999999999999/"}',
    "an address with a zone": '{"text": "x", "url": "http://[fe80::1%25eth0]/"}',
    "an address that does not end": '{"text": "x", "url": "http://[::1/"}',
    "a host of xn-- labels": '{"text": "x", "url": "http://' + "xn--a." * 10**4 + 'example/"}',
    "a text of another type": '{"text": {"a": [1, null]}, "url": 7}',
}


@pytest.mark.parametrize("what", LINES)
def test_any_line_is_a_record_or_damage(tmp_path: Path, what: str) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"url": "http://a.example/", "text": "first"}\n' + LINES[what] + "\n")
    out = tmp_path / "out"
    summary = dedup(DedupJob(find_inputs([path]), out, NearDupSettings(key=1), Fields(), jobs=1))
    n_damaged = len((out / "damaged.jsonl").read_text().splitlines())
    assert summary["records"] + n_damaged >= 2 or summary["records"] == 2
    kept = (out / "kept" / "00000-a.jsonl").read_text()
    assert LINES[what] in kept


def test_what_is_said_of_damaged_records_is_not_kept_in_memory(tmp_path: Path) -> None:
    source = Input(Path("a.jsonl"), "jsonl")
    n_records, n_groups = 1_000, 50

    def groups() -> Iterator[DecidedChunk]:
        for number in range(n_groups):
            entries = [{"index": n, "url": None, "error": "x" * 100} for n in range(n_records)]
            yield DecidedChunk((0, number), bytes(n_records), Counter(), damaged=entries)

    places = Records([source], "token")
    for _ in range(n_groups):
        places.add(0, n_records)
    peak = peak_of(lambda: write_damaged(tmp_path, groups(), places))
    path = tmp_path / "damaged.jsonl"
    assert len(path.read_bytes().splitlines()) == n_records * n_groups
    assert peak < path.stat().st_size / 5


def response(url: str, body: bytes) -> bytes:
    """A WARC record of a page."""
    block = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n" + body
    head = b"WARC/1.0\r\nWARC-Type: response\r\nWARC-Target-URI: %s\r\n" % url.encode()
    rest = b"WARC-Date: 2026-01-01T00:00:00Z\r\nWARC-Record-ID: <urn:uuid:%032d>\r\n" % 0
    kind = b"Content-Type: application/http; msgtype=response\r\n"
    return head + rest + kind + b"Content-Length: %d\r\n\r\n" % len(block) + block + b"\r\n\r\n"


@pytest.mark.parametrize("n_words", [100, 10**7])
def test_a_body_in_brotli_is_read_up_to_its_limit(tmp_path: Path, n_words: int) -> None:
    brotli = pytest.importorskip("brotli", minversion="1.2")
    packer = brotli.Compressor()
    parts = [
        packer.process(b"word " * min(n_words, 10**6)) for _ in range(max(1, n_words // 10**6))
    ]
    body = b"".join([*parts, packer.finish()])
    record = response("http://a.example/", body)
    record = record.replace(b"text/html\r\n", b"text/html\r\nContent-Encoding: br\r\n", 1)
    length = int(warc.LENGTH.search(record)[1])  # type: ignore[index]
    record = record.replace(b"%d\r\n\r\nHTTP" % length, b"%d\r\n\r\nHTTP" % (length + 22), 1)
    path = tmp_path / "a.warc"
    path.write_bytes(record)
    limits = InputLimits(record_bytes=2**20)
    (found,) = read(path, limits)
    assert isinstance(found, Page)
    assert found.body == (b"word " * 100 if n_words == 100 else None)
    assert peak_of(lambda: read(path, limits)) < 2**24


@pytest.mark.parametrize("packed", ["", ".gz", ".zst"])
@pytest.mark.parametrize("inner", ["", ".gz", ".zst"])
def test_a_warc_in_a_warc_is_text_of_its_page(tmp_path: Path, packed: str, inner: str) -> None:
    """Nobody who writes a page writes the record of another's."""
    pack = {"": bytes, **PACKINGS}
    forged = pack[inner](response("http://victim.example/", b"<p>words</p>"))
    records_of = [response(f"http://a.example/{n}", b"<p>" + forged) for n in range(2)]
    path = tmp_path / f"a.warc{packed}"
    path.write_bytes(b"".join(map(pack[packed], records_of)))
    found = read(path)
    assert [one.url for one in found if isinstance(one, Page)] == [
        "http://a.example/0",
        "http://a.example/1",
    ]
    assert len(found) == 2


@pytest.mark.parametrize("packed", [".gz", ".zst"])
def test_of_a_record_no_more_is_kept_than_it_may_have(tmp_path: Path, packed: str) -> None:
    path = tmp_path / f"a.warc{packed}"
    path.write_bytes(PACKINGS[packed](response("http://a.example/", bytes(2**27))))
    found: list[Page | DamagedRecord] = []
    peak = peak_of(lambda: found.extend(read(path, InputLimits(record_bytes=2**20))))
    assert found == [Page("")]
    assert peak < 2**27


HEAD_LINES = (
    b'{"url": "http://a.example/1", "text": "first"}\n'
    b'{"url": "http://a.example/2", "text": "second"}\n'
)


@pytest.mark.parametrize("end", [b'"}\n{"url": "http://a.example/4", "text": "last"}\n', b""])
def test_lines_before_one_that_is_too_long_are_read(tmp_path: Path, end: bytes) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(HEAD_LINES + b'{"url": "http://a.example/3", "text": "' + b"a" * 2**23 + end)
    found = read(path, InputLimits(record_bytes=2**20))
    assert [one.text for one in found if isinstance(one, Page)] == [
        "first",
        "second",
        *["last"] * bool(end),
    ]
    (damage,) = (one for one in found if isinstance(one, DamagedRecord))
    assert damage.begin == len(HEAD_LINES)


def test_rows_that_repeat_a_huge_value_are_made_one_at_a_time() -> None:
    pa = pytest.importorskip("pyarrow")
    from scrapy_neardup.offline.dedup.formats.parquet import rows_of

    value = pa.DictionaryArray.from_arrays(pa.array([0] * 100, pa.int32()), ["a" * 2**22])
    rows = rows_of(pa.record_batch({"text": value}))
    assert peak_of(lambda: next(rows)) < 2**25


DICTIONARY = """
import sys
from itertools import islice
from pathlib import Path
import pyarrow as pa, pyarrow.parquet as pq
from scrapy_neardup.offline.dedup.columns import Fields
from scrapy_neardup.offline.dedup.formats import records
from scrapy_neardup.offline.dedup.inputs import Input, find_inputs
from scrapy_neardup.offline.dedup.journal import DecidedChunk
from scrapy_neardup.offline.dedup.record import DamagedRecord
path = Path(sys.argv[1])
value = pa.DictionaryArray.from_arrays(pa.array([0] * 600, pa.int32()), pa.array(["a" * 2**22]))
table = pa.table({"url": ["http://a.example/"] * 600, "text": value})
pq.write_table(table, path, store_schema=sys.argv[2] == "dictionary")
(source,) = find_inputs([path])
n_rows = sum(not isinstance(one, DamagedRecord) for one in islice(records(source, Fields()), 20))
assert n_rows == int(sys.argv[3]), n_rows
"""


@pytest.mark.parametrize(("kind", "n_rows"), [("dictionary", 20), ("text", 0)])
def test_a_dictionary_of_parquet_that_repeats_a_huge_value_ends_no_process(
    tmp_path: Path, kind: str, n_rows: int
) -> None:
    """2.5 GB of text in a file of kilobytes, under a limit of 2 GB: read row by row, or damage."""
    pytest.importorskip("pyarrow")
    path = tmp_path / "a.parquet"
    done = subprocess.run(
        [sys.executable, "-c", DICTIONARY, str(path), kind, str(n_rows)],
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (2**31, 2**31)),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert path.stat().st_size < 2**20


PARQUET = """
import sys, random
from pathlib import Path
from scrapy_neardup.offline.dedup.columns import Fields
from scrapy_neardup.offline.dedup.formats import records
from scrapy_neardup.offline.dedup.inputs import Input, find_inputs
path, seeds = Path(sys.argv[1]), int(sys.argv[2])
sound = path.read_bytes()
for seed in range(seeds):
    chance, data = random.Random(seed), bytearray(sound)
    for _ in range(chance.choice((1, 2, 8))):
        at = chance.randrange(4, len(data))
        data[at] = chance.choice((0, 255, 127, 128, data[at] ^ 1 << chance.randrange(8)))
    path.write_bytes(data)
    for source in find_inputs([path]):
        try:
            for _ in records(source, Fields()):
                pass
        except Exception as error:
            assert "InputError" in type(error).__name__, (seed, error)
"""


def test_a_row_of_parquet_whose_text_is_none_costs_itself_only(tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as pq

    texts = [b"one of a few", b"bad \xff\xfe", b"other words"]
    table = pa.table({"url": ["http://a.example/"] * 3, "text": pa.array(texts).view(pa.string())})
    pq.write_table(table, tmp_path / "a.parquet")
    first, second, third = read(tmp_path / "a.parquet")
    assert isinstance(second, DamagedRecord)
    assert "UnicodeDecodeError" in second.error
    assert [one.text for one in (first, third) if isinstance(one, Page)] == [
        "one of a few",
        "other words",
    ]


def test_parquet_that_lies_is_damage_and_ends_no_process(tmp_path: Path) -> None:
    """Lengths, counts and types in its headers and pages, at random; within 2 GB of memory."""
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as pq

    rows = [{"url": f"http://a.example/{n}", "text": "one of a few texts " * 9} for n in range(300)]
    path = tmp_path / "a.parquet"
    pq.write_table(pa.Table.from_pylist(rows), path, row_group_size=100)

    def limited() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (2**31, 2**31))

    done = subprocess.run(
        [sys.executable, "-c", PARQUET, str(path), "150"],
        preexec_fn=limited,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]


BROKEN = {
    ".gz": b"\x1f\x8b\x08\0" * 50,  # a header, then a block of which the length is wrong
    ".bz2": b"BZh9" + b"\xff" * 50,
    ".xz": lzma.compress(b"a" * 99)[:24] + b"\xff" * 50,
    ".zst": b"\x28\xb5\x2f\xfd" + b"\xff" * 50,
}


@pytest.mark.parametrize("kind", [".jsonl", ".json", ".csv"])
@pytest.mark.parametrize("packed", BROKEN)
def test_a_file_that_cannot_be_unpacked_is_damage(tmp_path: Path, kind: str, packed: str) -> None:
    path = tmp_path / f"a{kind}{packed}"
    path.write_bytes(BROKEN[packed])
    (source,) = find_inputs([path])
    found = [
        one for one in records(source, Fields(has_url=False)) if isinstance(one, DamagedRecord)
    ]
    assert 1 <= len(found) <= 2


def two_members(packed: str, between: bytes = b"", end: int | None = None) -> bytes:
    """A compressed file of 40 JSON lines."""
    rows = [b'{"url": "https://a.example/%d", "text": "%d"}\n' % (n, n) for n in range(40)]
    first, second = (PACKINGS[packed](b"".join(part)) for part in (rows[:20], rows[20:]))
    return first + between + second[:end]


@pytest.mark.parametrize("packed", PACKINGS)
@pytest.mark.parametrize("n_zeros", [0, 4, 40_000])
def test_members_behind_zeros_are_read(tmp_path: Path, packed: str, n_zeros: int) -> None:
    path = tmp_path / f"a.jsonl{packed}"
    path.write_bytes(two_members(packed, bytes(n_zeros)) + bytes(n_zeros))
    assert [one.url for one in read(path) if isinstance(one, Page)] == [
        f"https://a.example/{n}" for n in range(40)
    ]
    assert len(read(path)) == 40


@pytest.mark.parametrize("packed", PACKINGS)
@pytest.mark.parametrize("damage", [(b"", -3), (b"", 5), (b"", 1), (b"no member", None)])
def test_what_is_lost_behind_a_member_is_damage(
    tmp_path: Path, packed: str, damage: tuple[bytes, int | None]
) -> None:
    path = tmp_path / f"a.jsonl{packed}"
    path.write_bytes(two_members(packed, *damage))
    assert isinstance(read(path)[-1], DamagedRecord)
    assert sum(isinstance(one, Page) for one in read(path)) >= 20


def test_marks_in_a_damaged_archive_are_not_searched_without_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(warc, "IN_VAIN_FREE", 2**20)
    path = tmp_path / "a.warc"
    path.write_bytes(b"WARC/1.0\r\n" * 20_000)
    found = read(path)
    assert len(found) < 1_000
    assert isinstance(found[-1], DamagedRecord)
    assert warc.TOO_DAMAGED in found[-1].error


def test_what_an_error_says_of_columns_is_short(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(b'"' * 100_000)
    with pytest.raises(InputError) as error:
        read(path)
    assert len(str(error.value)) < 2_000


def test_what_is_no_file_is_called_by_what_it_is(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    nothing, dangling, itself, pipe = (
        tmp_path / f"{n}.jsonl" for n in ("no", "to", "self", "fifo")
    )
    dangling.symlink_to(nothing)
    itself.symlink_to(itself)
    os.mkfifo(pipe)
    for path, what in (
        (nothing, "no such file"),
        (dangling, "no such file"),
        (itself, "Too many levels of symbolic links"),
        (pipe, "not a regular file; read it as standard input, by -"),
    ):
        assert main(["dedup", str(path), "--out", str(tmp_path / "out")]) == WRONG_USE
        assert capsys.readouterr().err.strip().endswith(f"{path}: {what}")
