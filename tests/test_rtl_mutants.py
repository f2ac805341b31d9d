"""Faults planted in the Verilog one by one: a trace beside the model's, or a proof, finds each."""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest
from rtl_tools import needs

from scrapy_neardup.engines.fpga.design import Design, pack
from scrapy_neardup.engines.fpga.fingerprint_engine import simulate
from scrapy_neardup.engines.fpga.verilog import (
    MIXER_CODES,
    SOURCES,
    modules,
    parameters,
    trace_text,
)

pytestmark = pytest.mark.xdist_group("rtl")

# Between them they elaborate every branch of the Verilog.
DESIGNS = [
    Design(),
    Design("light", "ge", 0xFEEDFACECAFEBEEF, n_cores=3),
    Design("fmix64", "ge", 7, n_cores=4, bytes_per_cycle=2, output="slots"),
    Design("none", n_cores=3, bytes_per_cycle=1, selectable=True, counter_bits=5),
    Design("light", key=9, n_cores=2, bytes_per_cycle=2, selectable=True),
    Design("light", "ge", 3, n_cores=3, counters="shared", counter_bits=5, output="slots"),
    Design(n_cores=8, counters="shared"),
]

# File, what stands there once, what is put there instead.
MUTANTS = json.loads((Path(__file__).parent / "vectors" / "rtl_mutants.json").read_text())


def texts() -> list[bytes]:
    """Short texts of few letters, in which words, ties, spaces and ends meet in every way."""
    random = Random(11)
    sizes = [0, 1, 6, 7, 8, 9, 15, 16, 17, 30]
    made = [bytes(random.choices(b"ab\xff  c", k=random.choice(sizes))) for _ in range(40)]
    return [b"school school students teachers", b"yyyyyyy", b" " * 9, b"a b", *made]


def with_garbage(text: bytes, random: Random) -> Iterator[int]:
    """A document's words; what follows the NUL in the last one is anything."""
    *words, last = pack(text)
    yield from words
    used = last.to_bytes(8, "little").index(b"\0") + 1
    end = last.to_bytes(8, "little")[:used] + bytes(random.choices(b"ab \0", k=8 - used))
    yield int.from_bytes(end, "little")


def run(*command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, check=False)


def trace(design: Design, folder: Path, words: list[int]) -> str | None:
    """What the test bench prints, from the Verilog of a folder; None if it does not compile."""
    values = [f"-Ptestbench.{name}={value}" for name, value in parameters(design).items()]
    sources = [str(folder / path.name) for path in modules("words")]
    program, stimulus = str(folder / "program"), folder / "words.hex"
    stimulus.write_text("".join(f"{word:016x}\n" for word in words))
    command = ["iverilog", "-g2005", "-s", "testbench", "-o", program, *values, *sources]
    if run(*command, str(folder / "testbench.v")).returncode:
        return None
    options = [f"+words={stimulus}", f"+count={len(words)}", f"+key={design.key:x}", "+before=75"]
    return run("vvp", "-n", program, *options, f"+select={MIXER_CODES[design.mixer]}").stdout


def is_proved(folder: Path, *values: str) -> bool:
    """Whether the values of the core in a folder are proved to be the paper's."""
    chosen = f"chparam {' '.join(values)} values_core; " if values else ""
    files = f"{folder}/values.sv {folder}/simhash_core.v {folder}/own_counters.v"
    done = run(
        "yosys", "-p",
        f"read_verilog -formal {files}; {chosen}"
        "prep -top values_core -flatten; async2sync; opt -full; "
        "sat -tempinduct -maxsteps 4 -prove-asserts -set-assumes -verify values_core",
    )  # fmt: skip
    return done.returncode == 0


def shares_adders(folder: Path) -> bool:
    """Whether eight adders in a folder are proved to give the signs of 64 counters."""
    files = f"{folder}/shared.sv {folder}/shared_counters.v"
    done = run(
        "yosys", "-p",
        f"read_verilog -formal -mem2reg {files}; chparam -set TIE_GE 1 shared_sums; "
        "prep -top shared_sums -flatten; async2sync; opt -full; "
        "sat -tempinduct -maxsteps 2 -prove-asserts -set-assumes -verify shared_sums",
    )  # fmt: skip
    return done.returncode == 0


def is_found(folder: Path) -> bool:
    """Whether a trace or a proof tells the Verilog of a folder from the right one."""
    random = Random(5)
    for design in DESIGNS:
        words = [word for text in texts() for word in with_garbage(text, random)]
        if trace(design, folder, words) != trace_text(simulate(texts(), design)):
            return True
    too_short = [word for text in [b"abcdefg"] * 8 + [b""] * 8 for word in pack(text, floor=0)]
    lost = trace(Design(), folder, too_short)
    if lost is None or not lost.endswith("overflow: a fingerprint was lost\n"):
        return True
    two_bytes = ("-set", "BYTES", "2", "-set", "TIE_GE", "1")
    return not (is_proved(folder) and is_proved(folder, *two_bytes) and shares_adders(folder))


def copied(folder: Path) -> Path:
    for source in SOURCES.glob("*v"):
        (folder / source.name).write_text(source.read_text())
    return folder


def test_verilog_as_it_is_passes(tmp_path: Path) -> None:
    needs("iverilog", "vvp", "yosys")
    assert not is_found(copied(tmp_path))


@pytest.mark.parametrize("number", range(len(MUTANTS)))
def test_planted_fault_is_found(number: int, tmp_path: Path) -> None:
    needs("iverilog", "vvp", "yosys")
    name, right, wrong = MUTANTS[number]
    source = copied(tmp_path) / name
    assert source.read_text().count(right) == 1, right
    source.write_text(source.read_text().replace(right, wrong))
    assert is_found(tmp_path)
