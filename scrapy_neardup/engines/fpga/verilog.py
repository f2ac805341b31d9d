"""The Verilog sources: their parameters, and how they are written to a folder for users."""

from __future__ import annotations

import re
import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal

from scrapy_neardup.engines.fpga.design import Counters, Design, Mixer, Output, pack
from scrapy_neardup.engines.fpga.fingerprint_engine import Result, simulate
from scrapy_neardup.engines.fpga.packaging import core_file, ip_xact

SOURCES = Path(__file__).parent / "rtl"
MIXER_CODES: dict[Mixer, int] = {"none": 0, "light": 1, "fmix64": 2}
ANY_MIXER = 3
OUTPUT_CODES: dict[Output, int] = {"latched": 0, "slots": 1}
COUNTERS_CODES: dict[Counters, int] = {"own": 0, "shared": 1}

Bus = Literal["words", "axi", "wishbone", "serial", "any"]
TOPS: dict[Bus, str] = {
    "words": "fingerprint_engine", "axi": "simhash_axi", "wishbone": "simhash_wishbone",
    "serial": "ulx3s",
}  # fmt: skip
STREAM_FILES = (
    "lane_queues.v", "order.sv", "registers.v", "simhash.v", "simhash_stream.v", "stream_in.v",
    "stream_out.v",
)  # fmt: skip
SERIAL_FILES = (
    "Makefile", "crc32.v", "simhash_serial.v", "uart_rx.v", "uart_tx.v", "ulx3s.lpf", "ulx3s.v",
    "ulx3s_simulation.cpp",
)  # fmt: skip
# What only some buses need.
ONLY_FOR: dict[tuple[Bus, ...], tuple[str, ...]] = {
    ("axi", "wishbone", "serial", "any"): STREAM_FILES,
    ("axi", "any"): ("simhash_axi.v",),
    ("wishbone", "any"): ("simhash_wishbone.v",),
    ("serial", "any"): SERIAL_FILES,
}
SAMPLE = (b"school school students teachers", b"", b"a", b"sixteen letters ", b"one  two three")


def parameters(design: Design) -> dict[str, int]:
    """A design as parameters of the Verilog module fingerprint_engine."""
    return {
        "N": design.n_cores,
        "CW": design.counter_bits,
        "BYTES": design.bytes_per_cycle,
        "TIE_GE": int(design.tie == "ge"),
        "MIXER": ANY_MIXER if design.selectable else MIXER_CODES[design.mixer],
        "SLOTS": OUTPUT_CODES[design.output],
        "SHARED": COUNTERS_CODES[design.counters],
    }


def modules(bus: Bus = "any") -> list[Path]:
    """The synthesisable Verilog files: those of a bus, or all."""
    return [path for path in files(bus) if path.suffix == ".v" and path.stem != "testbench"]


def files(bus: Bus) -> list[Path]:
    """All files that somebody gets who asks for a bus."""
    left_out = {
        name for buses, names in ONLY_FOR.items() if bus not in buses for name in names
    }  # fmt: skip
    return sorted(path for path in SOURCES.iterdir() if path.name not in left_out)


def compiled() -> list[Path]:
    """What a library for the engine `rtl` is built from."""
    return [*modules("words"), SOURCES / "harness.cpp"]


def write_rtl(out_dir: str | Path, design: Design, bus: Bus = "words") -> list[Path]:
    """Write the Verilog, its test bench and harness, package files, and a sample with its trace.

    The parameters that the files set by default are the design's; its key is an input of the
    engine, so that the sample's is 0. With a bus, the core behind it is written, too, and
    described: FuseSoC for every bus, IP-XACT for AXI, a Makefile for the board of "serial".
    Creates the folder; overwrites files of these names. README.md there says how to run them.
    Returns the paths written.
    """
    out = Path(out_dir)
    out.mkdir(parents=True, exist_ok=True)
    names = [path.name for path in modules(bus)]
    texts = {
        "sample_words.hex": words_hex(SAMPLE),
        "sample_trace.txt": trace_text(simulate(SAMPLE, replace(design, key=0))),
        f"{TOPS[bus]}.core": core_file(TOPS[bus], names, parameters(design)),
    }
    if bus == "axi":
        texts["simhash_axi.xml"] = ip_xact(names, parameters(design))
    for name, text in texts.items():
        (out / name).write_text(text)
    written = [write_source(source, out, design) for source in files(bus)]
    return [*written, *(out / name for name in texts)]


def write_source(source: Path, out: Path, design: Design) -> Path:
    """A copy of a file in which parameters have the design's values by default."""
    if source.suffix != ".v":
        return Path(shutil.copy(source, out))
    text = source.read_text()
    for name, value in parameters(design).items():
        text = re.sub(rf"(parameter {name} =) \d+", rf"\1 {value}", text)
    (out / source.name).write_text(text)
    return out / source.name


def words_hex(texts: Sequence[bytes]) -> str:
    """Documents as the test bench reads them: a 64-bit word in hexadecimal a line."""
    return "".join(f"{word:016x}\n" for text in texts for word in pack(text))


def trace_text(lanes: list[list[Result]]) -> str:
    """Results as the test bench prints them: cycle, lane, fingerprint; by cycle."""
    results = sorted(result for lane in lanes for result in lane)
    return "".join(f"{r.cycle} {r.lane} {r.fingerprint:016x}\n" for r in results)
