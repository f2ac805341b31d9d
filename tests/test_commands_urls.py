"""`scrapy neardup urls`: what a list of URLs would become."""

import gzip
import json
from pathlib import Path

import pytest

from scrapy_neardup import commands

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
