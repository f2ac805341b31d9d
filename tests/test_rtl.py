"""The Verilog against the model, in value, lane and cycle."""

import gzip
import json
import os
import re
import select
import shutil
import subprocess
import sys
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from random import Random

import numpy as np
import pytest
from rtl_tools import needs, needs_verilator, run

from scrapy_neardup.detect.text import normalise
from scrapy_neardup.engines import FINGERPRINT, PAPER, load_engine
from scrapy_neardup.engines.fpga.design import Design, pack
from scrapy_neardup.engines.fpga.fingerprint_engine import simulate
from scrapy_neardup.engines.fpga.packaging import REGISTERS
from scrapy_neardup.engines.fpga.rtl_build import run_tool
from scrapy_neardup.engines.fpga.rtl_engine import RtlEngine, Verilated, load
from scrapy_neardup.engines.fpga.scheduler import schedule
from scrapy_neardup.engines.fpga.verilog import (
    MIXER_CODES,
    SAMPLE,
    SOURCES,
    modules,
    parameters,
    trace_text,
    words_hex,
    write_rtl,
)
from scrapy_neardup.errors import EngineUnavailable, HardwareMismatch, SpecError

pytestmark = pytest.mark.xdist_group("rtl")  # one worker builds what all tests share

MIXED = Design(mixer="fmix64")
SHARED = Design(counters="shared")
DESIGNS = [
    Design(),
    MIXED,
    Design(mixer="light", tie="ge", key=0xFEEDFACECAFEBEEF),
    Design(output="slots", n_cores=3, counter_bits=6),
    Design(mixer="light", output="slots"),
    Design(bytes_per_cycle=2, n_cores=4),
    Design(bytes_per_cycle=2, n_cores=4, mixer="fmix64", key=3, output="slots"),
    Design(bytes_per_cycle=2, n_cores=1, tie="ge"),
    Design(mixer="light", n_cores=5, selectable=True, key=5),
    Design(mixer="none", bytes_per_cycle=2, n_cores=3, selectable=True),
    SHARED,
    Design("light", "ge", 7, n_cores=3, counters="shared", counter_bits=5),
    Design("fmix64", output="slots", n_cores=2, selectable=True, counters="shared"),
]
EDGES = [*SAMPLE, b"       ", b"1234567", b"12345678", b" a b c d e f ", b"\xff" * 40, b"x " * 40]


def icarus(design: Design, words: str, folder: Path, *options: str) -> str:
    """The trace that the test bench prints for documents in hexadecimal words."""
    program, stimulus = folder / "testbench", folder / "words.hex"
    stimulus.write_text(words)
    sources = map(str, [*modules(), SOURCES / "testbench.v"])
    values = [f"-Ptestbench.{name}={value}" for name, value in parameters(design).items()]
    run("iverilog", "-g2005", "-s", "testbench", "-o", str(program), *values, *sources)
    count = len(words.splitlines())
    arguments = [f"+words={stimulus}", f"+count={count}", f"+key={design.key:x}", *options]
    arguments.append(f"+select={MIXER_CODES[design.mixer]}")
    return run("vvp", "-n", str(program), *arguments)


def random_texts(seed: int, count: int) -> list[bytes]:
    """Short texts of few different letters, so that words, ties and spaces meet often."""
    random = Random(seed)
    sizes = [0, 1, 6, 7, 8, 9, 15, 16, 17, 40, 100]
    return [bytes(random.choices(b"ab\xff  c", k=random.choice(sizes))) for _ in range(count)]


@pytest.fixture(scope="module")
def built(tmp_path_factory) -> Iterator[list[str]]:
    """A cache of our own, so that a stale library of the user's cannot pass for ours; the lines of
    the command that builds there what a crawl simulates."""
    needs_verilator()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        yield run(sys.executable, "-m", "scrapy_neardup", "rtl", "--build").splitlines()


@pytest.fixture(scope="module")
def pages(shared_data) -> list[bytes]:
    """The normalised words of 200 real pages."""
    with gzip.open(shared_data / "pairs" / "pages.jsonl.gz", "rt", encoding="utf-8") as lines:
        rows = [json.loads(line)["html"] for _, line in zip(range(2000), lines, strict=False)]
    return [normalise(re.sub(r"<[^>]*>", " ", html)) for html in rows[::10]]


@pytest.mark.parametrize("design", DESIGNS, ids=str)
@pytest.mark.parametrize("bus", ["simhash_axi", "simhash_wishbone", "ulx3s"])
def test_lint_finds_nothing(design, bus):
    needs("verilator")
    values = [f"-G{name}={value}" for name, value in parameters(design).items()]
    top = ("--top-module", bus)
    assert run("verilator", "--lint-only", "-Wall", *top, *values, *map(str, modules())) == ""


@pytest.mark.parametrize(
    ("values", "refusal"),
    [
        ({"N": 9}, "N_must_be_1_to_8_divided_by_BYTES"),
        ({"N": 0}, "N_must_be_1_to_8_divided_by_BYTES"),
        ({"N": 8, "BYTES": 2}, "N_must_be_1_to_8_divided_by_BYTES"),
        ({"BYTES": 3, "N": 1}, "BYTES_must_be_1_or_2"),
        ({"MIXER": 7}, "MIXER_must_be_0_to_3"),
        ({"CW": 65}, "CW_must_be_2_to_64"),
        ({"CW": 1}, "CW_must_be_2_to_64"),
        ({"TIE_GE": 2}, "TIE_GE_and_SLOTS_must_be_0_or_1"),
        ({"SLOTS": 2}, "TIE_GE_and_SLOTS_must_be_0_or_1"),
        ({"SHARED": 2}, "SHARED_must_be_0_or_1"),
        ({"SHARED": 1, "BYTES": 2, "N": 4}, "SHARED_works_with_BYTES_1_and_CW_5_to_64"),
        ({"SHARED": 1, "CW": 4}, "SHARED_works_with_BYTES_1_and_CW_5_to_64"),
    ],
)
def test_parameters_that_do_not_work_are_refused_at_elaboration(values, refusal):
    needs("iverilog")
    options = [f"-Pfingerprint_engine.{name}={value}" for name, value in values.items()]
    sources = map(str, modules())
    top = ("-s", "fingerprint_engine")
    command = ["iverilog", "-g2005", *top, "-t", "null", *options, *sources]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert f"Unknown module type: {refusal}" in done.stderr


@pytest.mark.parametrize("dispatch", ["queue", "static"])
@pytest.mark.parametrize("design", DESIGNS, ids=str)
def test_icarus_gives_the_models_trace(design, dispatch, tmp_path):
    needs("iverilog", "vvp")
    texts = EDGES + random_texts(7, 40)
    options = ["+static"] if dispatch == "static" else []
    trace = icarus(design, words_hex(texts), tmp_path, *options)
    assert trace == trace_text(simulate(texts, design, dispatch))


@pytest.mark.parametrize(("output", "lost"), [("latched", True), ("slots", False)])
def test_without_the_floor_the_multiplexer_loses_fingerprints_and_slots_do_not(
    output, lost, tmp_path
):
    needs("iverilog", "vvp")
    texts = [b"abcdefg"] * 8 + [b""] * 8
    words = "".join(f"{word:016x}\n" for text in texts for word in pack(text, floor=0))
    trace = icarus(Design(output=output), words, tmp_path)
    assert trace.endswith("overflow: a fingerprint was lost\n") is lost
    assert (len(trace.splitlines()) == 16) is not lost


@pytest.mark.parametrize("design", [Design(), Design("light", n_cores=2, bytes_per_cycle=2)])
def test_written_rtl_reproduces_its_sample(design, tmp_path):
    needs("iverilog", "vvp")
    written = write_rtl(tmp_path / "rtl", design)
    words, trace = tmp_path / "rtl" / "sample_words.hex", tmp_path / "rtl" / "sample_trace.txt"
    sources = [str(path) for path in written if path.suffix == ".v"]
    run("iverilog", "-g2005", "-s", "testbench", "-o", str(tmp_path / "sample"), *sources)
    count = len(words.read_text().splitlines())
    printed = run("vvp", "-n", str(tmp_path / "sample"), f"+words={words}", f"+count={count}")
    assert printed == trace.read_text()


def test_written_rtl_is_complete_without_any_tool(tmp_path):
    names = {path.name for path in write_rtl(tmp_path, Design())}
    assert {"README.md", "testbench.v", "no_loss.sv", "harness.cpp", "lanes.v"} <= names
    assert not names & {"simhash.v", "simhash_axi.v", "simhash_serial.v", "Makefile", "ulx3s.v"}
    assert "36 0 0024228508310ab0\n" in (tmp_path / "sample_trace.txt").read_text()


@pytest.mark.parametrize(
    ("design", "spec"), [(Design(), PAPER), (MIXED, FINGERPRINT), (SHARED, PAPER)]
)
def test_verilator_agrees_with_model_and_kernels_on_real_pages(design, spec, pages, built):
    needs_verilator()
    results = Verilated(design).run(pages)
    emissions = schedule([len(page) for page in pages], design)
    assert [(r.lane, r.cycle) for r in results] == [(e.lane, e.cycle) for e in emissions]
    values = load_engine("auto", spec).fingerprint_many(pages)[:, 0]
    assert [r.fingerprint for r in results] == values.tolist()


@pytest.mark.parametrize("design", [Design(), MIXED], ids=["plain", "mixed"])
def test_every_way_in_which_two_lanes_end_takes_the_cycles_of_the_model(design, built):
    """All ways in which two documents in a row can end on each of two lanes, 8**4.

    A sequence in which every pair of rounds occurs; the other six lanes end at random.
    """
    needs_verilator()
    random = Random(5)
    ends = list(product(range(8), repeat=2))
    rounds = [r for i, a in enumerate(ends) for b in ends[i:] for r in (a, b)] + [ends[0]]
    texts = [b"y" * (8 + end) for r in rounds for end in (*r, *random.choices(range(8), k=6))]
    results = Verilated(design).run(texts, "static")
    emissions = schedule([len(text) for text in texts], design, "static")
    assert [(r.lane, r.cycle) for r in results] == [(e.lane, e.cycle) for e in emissions]


def test_engine_gives_the_reference_signatures(built):
    engine, oracle = load_engine("rtl"), load_engine("reference")
    for words in EDGES:
        given, expected = engine.signatures(words), oracle.signatures(words)
        assert (given.fingerprint, given.n_words) == (expected.fingerprint, expected.n_words)
        np.testing.assert_array_equal(given.sketch, expected.sketch)
    np.testing.assert_array_equal(engine.fingerprint_many(EDGES), oracle.fingerprint_many(EDGES))
    assert engine.report()["documents"] == 2 * len(EDGES)


def test_engine_counts_what_it_compared_and_that_nothing_differs(built):
    engine = load_engine("rtl")
    engine.fingerprint_many(EDGES)
    engine.fingerprint(b"one page")
    engine.signatures(b"another page")
    report = engine.report()
    assert report["checked"] == report["documents"] == len(EDGES) + 2
    assert report["mismatches"] == 0


FAULTS = {
    "value": ("simhash_core.v", "((hash << 16) | char)", "((hash << 16) | (char & 64'h7f))"),
    "cycle": ("output_stage.v", "driven    <= chosen;", "driven    <= slot[0] ? chosen : 0;"),
    "lane": ("output_stage.v", "out_lane        <= lane;", "out_lane        <= lane & 3'd6;"),
}


WHERE = "from lane 2 in cycle 34"


def planted(fault: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> RtlEngine:
    """The engine built from Verilog with a fault."""
    name, right, wrong = FAULTS[fault]
    shutil.copytree(SOURCES, folder / "rtl")
    source = folder / "rtl" / name
    assert source.read_text().count(right) == 1
    source.write_text(source.read_text().replace(right, wrong))
    monkeypatch.setattr("scrapy_neardup.engines.fpga.verilog.SOURCES", folder / "rtl")
    return RtlEngine()


def test_planted_fault_is_an_error_that_names_text_lane_and_cycle(built, tmp_path, monkeypatch):
    needs_verilator()
    engine = planted("value", tmp_path, monkeypatch)
    texts = [b"plain words", b"more of them", b"f\xe4lle sind selten"]
    right = load_engine("reference").fingerprint(texts[2])
    with pytest.raises(HardwareMismatch) as error:
        engine.fingerprint_many(texts)
    assert re.search(
        r"text 3 of 3 \(17 bytes, b'f\\xe4lle sind selten'\): "
        rf"0x[0-9a-f]{{16}} {WHERE} instead of 0x{right:016x} {WHERE}$",
        str(error.value),
    )
    assert (engine.report()["checked"], engine.report()["mismatches"]) == (3, 1)
    engine.fingerprint(b"plain words again")
    assert (engine.report()["checked"], engine.report()["mismatches"]) == (4, 1)


@pytest.mark.long
@pytest.mark.parametrize("fault", ["cycle", "lane"])
def test_planted_fault_of_timing_is_found(fault, built, tmp_path, monkeypatch):
    engine = planted(fault, tmp_path, monkeypatch)
    with pytest.raises(HardwareMismatch, match=r"the Verilog (differs|gave a fingerprint)"):
        engine.fingerprint_many(EDGES)
    assert engine.report()["mismatches"] > 0


def test_build_tells_its_steps_and_what_is_built_is_not_built_again(built):
    assert built[0] == f"translating {len(modules('words'))} Verilog files with Verilator"
    steps = [line for line in built if " is at work for " not in line]
    assert steps[1].startswith("compiling ")
    assert Path(built[-1]).is_file()
    assert run(sys.executable, "-m", "scrapy_neardup", "rtl", "--build").splitlines() == built[-1:]


def test_tool_that_takes_long_says_that_it_is_at_work(monkeypatch):
    needs("verilator")
    monkeypatch.setattr("scrapy_neardup.engines.fpga.rtl_build.PROGRESS_S", 0.0001)
    lines: list[str] = []
    assert "Verilator" in run_tool("verilator", "--version", progress=lines.append)
    assert lines[0].startswith("verilator is at work for ")


def test_text_with_a_nul_is_refused_and_counts_nothing(built):
    engine = load_engine("rtl")
    for call in (
        engine.fingerprint,
        engine.signatures,
        lambda text: engine.fingerprint_many([text]),
    ):
        with pytest.raises(SpecError, match="replace it in the text by a space"):
            call(b"one\0two")
    assert (engine.report()["documents"], engine.report()["checked"]) == (0, 0)


def test_without_the_tools_the_engine_says_what_to_install(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(EngineUnavailable, match="apt-get install verilator"):
        RtlEngine()


def test_without_a_cache_folder_the_engine_says_which_to_set(monkeypatch, tmp_path):
    needs_verilator()
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    with pytest.raises(EngineUnavailable, match="set XDG_CACHE_HOME"):
        RtlEngine()


@pytest.mark.parametrize("content", [b"", b"no library"])
def test_damaged_library_in_the_cache_is_an_error_that_names_it(content, tmp_path):
    path = tmp_path / "rtl-0.so"
    path.write_bytes(content)
    with pytest.raises(EngineUnavailable, match=f"{path} is damaged.*: remove it"):
        load(path)


def test_library_without_our_function_is_damaged(tmp_path):
    needs("g++")
    path, source = tmp_path / "rtl-0.so", tmp_path / "empty.cpp"
    source.write_text("")
    run("g++", "-shared", "-o", str(path), str(source))
    with pytest.raises(EngineUnavailable, match=f"{path} is damaged"):
        load(path)


def test_core_is_built_where_paths_have_spaces(tmp_path, monkeypatch):
    needs_verilator()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "the cache"))
    monkeypatch.setattr("scrapy_neardup.engines.fpga.verilog.SOURCES", tmp_path / "the sources")
    shutil.copytree(SOURCES, tmp_path / "the sources")
    (result,) = Verilated(Design(n_cores=1)).run([b"plain words"])
    assert result is not None
    (kept,) = (tmp_path / "the cache" / "scrapy_neardup").iterdir()
    assert kept.suffix == ".so"


def test_interrupted_build_leaves_no_compiler_at_work(tmp_path, monkeypatch):
    """`sleep`, which make has started, holds the pipe open until it is ended."""
    needs("make")
    monkeypatch.setattr("scrapy_neardup.engines.fpga.rtl_build.PROGRESS_S", 0.5)
    alive, makefile = tmp_path / "alive", tmp_path / "Makefile"
    os.mkfifo(alive)
    makefile.write_text(f"all:\n\t@true; sleep 600 > {alive}\n")

    def interrupt(line: str) -> None:
        try:
            os.read(end, 1)
        except BlockingIOError as held:
            raise KeyboardInterrupt from held

    end = os.open(alive, os.O_RDONLY | os.O_NONBLOCK)
    try:
        with pytest.raises(KeyboardInterrupt):
            run_tool("make", "-f", str(makefile), progress=interrupt)
        assert select.select([end], [], [], 30)[0]
        assert os.read(end, 1) == b""
    finally:
        os.close(end)


@pytest.mark.parametrize(
    ("bus", "top"),
    [("axi", "simhash_axi"), ("wishbone", "simhash_wishbone"), ("serial", "ulx3s")],
)
def test_written_core_of_a_bus_is_complete_and_described(bus, top, tmp_path):
    needs("iverilog")
    written = write_rtl(tmp_path, Design("light", n_cores=3), bus)
    described = (tmp_path / f"{top}.core").read_text()
    (listed,) = re.findall(r"files: \[(.*)\]", described)
    sources = [str(tmp_path / name) for name in listed.split(", ")]
    run("iverilog", "-g2005", "-Wall", "-Wno-timescale", "-s", top, "-t", "null", *sources)
    assert {Path(name) for name in sources} == {p for p in written if p.suffix == ".v"} - {
        tmp_path / "testbench.v"
    }


def test_described_registers_and_ports_are_those_of_the_verilog(tmp_path):
    write_rtl(tmp_path, Design(), "axi")
    described = (tmp_path / "simhash_axi.xml").read_text()
    head = (tmp_path / "registers.v").read_text().partition("`default_nettype")[0]
    named = {name: int(at, 16) for at, name in re.findall(r"0x([0-9a-f]{2}) ([A-Z_]+)\b", head)}
    assert {name: at for name, (at, _) in REGISTERS.items()} == named
    top = (tmp_path / "simhash_axi.v").read_text()
    found = re.findall(r"(?m)^    (input|output) +(?:wire|reg) +(?:\[.*?\])? *(\w+)", top)
    listed = re.findall(r"port>\s*<ipxact:name>(\w+)</ipxact:name>\s*<ipxact:wire>\s*"
                        r"<ipxact:direction>(in|out)<", described)  # fmt: skip
    assert dict(listed) == {name: way[:-3] for way, name in found}
