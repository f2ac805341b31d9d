"""`scrapy neardup urls`: what a list of URLs would become."""

import gzip
import io
import json
from pathlib import Path

import pytest

from scrapy_neardup import commands
from scrapy_neardup.errors import InputError
from scrapy_neardup.offline.line_files import lines_in

URLS = """\
http://shop.example/a?utm_source=x
https://shop.example/a

http://m.shop.example/a
http://m.shop.example/b\x1b[2J
http://shop.example/c
http://shop.example/c
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "urls.txt.gz"
    path.write_bytes(gzip.compress(URLS.encode()))
    return path


def test_urls_that_count_as_the_same_are_grouped(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert commands.main(["urls", str(file)]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "shop.example/a",
        "  http://shop.example/a?utm_source=x",
        "  https://shop.example/a",
        "5 URLs become 4; 1 groups are merged",
    ]


def test_urls_in_no_utf_8_stay_apart_and_a_byte_order_mark_is_no_part_of_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "urls.txt"
    lines = [b"http://a.example/1", b"http://a.example/caf\xe9", b"http://a.example/caf\xe8"]
    path.write_bytes(b"\xef\xbb\xbf" + b"\n".join([*lines, lines[0], b"https://a.example/1"]))
    assert commands.main(["urls", str(path)]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "a.example/1",
        "  http://a.example/1",
        "  https://a.example/1",
        "4 URLs become 3; 1 groups are merged",
    ]


def test_profiles_are_tried_before_they_are_switched_on(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert commands.main(["urls", str(file), "--profiles", "mobile", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["urls"], told["different"]) == (5, 3)
    assert len(told["groups"]["shop.example/a"]) == 3
    assert commands.main(["urls", str(file), "--profiles", "mobil"]) == 2
    assert "take some of lenient, mobile, platforms" in capsys.readouterr().err


def test_only_so_many_groups_are_printed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "urls.txt"
    path.write_text("\n".join(f"{s}://h.example/{i}" for i in range(3) for s in ("http", "https")))
    assert commands.main(["urls", str(path), "--groups", "1"]) == 0
    assert "… and 2 more groups" in capsys.readouterr().out


def test_a_file_that_is_not_there_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert commands.main(["urls", str(tmp_path / "none")]) == 2
    assert "none: No such file" in capsys.readouterr().err


class Counting(io.BytesIO):
    """A file that knows how far it was read."""

    furthest = 0

    def read(self, size: int | None = -1, /) -> bytes:
        found = super().read(size)
        self.furthest = max(self.furthest, self.tell())
        return found


def test_a_bomb_of_one_line_is_given_up_long_before_it_is_unpacked(tmp_path: Path) -> None:
    packed = gzip.compress(b"x" * (1 << 26))
    bomb = Counting(packed)
    file = io.BufferedReader(bomb)
    with pytest.raises(InputError, match="line 1: has more than 1,000 bytes"):
        list(lines_in(file, "urls.gz", 1_000))
    assert bomb.furthest < len(packed)


@pytest.mark.parametrize(
    "data",
    [
        gzip.compress(URLS.encode())[:-9],
        gzip.compress(URLS.encode())[:12] + b"\xff" * 20,
        b"\x1f\x8b",
        b"http://h.example/" + b"a" * (1 << 20),
    ],
    ids=["torn", "damaged", "no more than a mark", "a long line"],
)
def test_a_file_that_is_no_list_of_urls_is_an_exit_code(
    tmp_path: Path, data: bytes, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "urls.txt"
    path.write_bytes(data)
    assert commands.main(["urls", str(path)]) == 2
    assert "urls.txt" in capsys.readouterr().err


def test_urls_are_read_from_a_pipe(
    file: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with file.open("rb") as packed:
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(packed))
        assert commands.main(["urls", "-"]) == 0
    assert "5 URLs become 4" in capsys.readouterr().out
