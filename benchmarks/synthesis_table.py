"""The one table: feature hashes and lanes on four FPGAs, beside the paper's and a CPU.

`python -m benchmarks.synthesis --table` measures and prints it. Units are engines of 1 to 8 lanes;
64 and 256 lanes are eight and thirty-two engines of eight, which is arithmetic, not a measurement.
What was not measured says so, and what does not fit says of what there is too little.

Energy is an estimate: each cell switches in an eighth of the cycles, and a switch moves one
picofarad, the cell's and its wires', to the core's voltage; what a device takes when idle is left
out. For the CPU it is ten watts a core. Good for the order of magnitude only.
"""

import json
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from statistics import median

from scrapy_neardup.engines import FINGERPRINT, load_engine

HASHES = {"plain": 0, "light": 1, "fmix64": 2}  # and the Verilog's MIXER
COUNTERS = {"own": 0, "shared": 1}
LANES = (1, 2, 4, 8)
ENGINES = (8, 32)  # of eight lanes: one of the paper's FPGAs, and its four
QUALITY_AT = 3  # bits that may differ
SEEDS = 3
PAPER_MHZ = 150

ACTIVITY = 0.125
FARADS = 1e-12
CPU_WATTS = 10.0

# LUTs that a cell of Virtex-6 takes where it stores.
STORING = {"RAM32M": 4, "RAM64M": 4, "RAM32X1D": 2, "RAM64X1D": 2, "SRL16E": 1, "SRLC32E": 1}

Yosys = Callable[[str, str, Path], str]  # unit, script, folder: what it prints
Place = Callable[..., str]  # a command: what it prints, whether it succeeds or not
Results = dict[str, dict[str, "Measured"]]  # device, unit

MINUTES = 20  # of CPU for one seed; a design that has no room left can take for ever


@dataclass(frozen=True)
class Device:
    """An FPGA: how to synthesise for it and place on it, and how much it holds."""

    name: str
    synth: str  # Yosys; {json} is the netlist's file
    place: tuple[str, ...]  # nextpnr, without netlist and seed; empty: no free tool places on it
    cells: str  # in what nextpnr prints, or Yosys where nothing places
    flip_flops: str  # in what Yosys prints, as are the multipliers
    multipliers: str
    holds: int  # LUTs
    has_multipliers: int
    volts: float
    pins: bool = True  # whether nextpnr finds places for pins itself


DEVICES = {
    "ecp5": Device(
        "ECP5-85F, grade 6", "synth_ecp5 -top {top} -json {json}; stat",
        ("nextpnr-ecp5", "--85k", "--package", "CABGA756", "--speed", "6",
         "--lpf-allow-unconstrained"),
        "TRELLIS_COMB", "TRELLIS_FF", "MULT18X18D", 83_640, 156, 1.1,
    ),
    "ice40": Device(
        "iCE40 HX8K", "synth_ice40 -top {top} -json {json}; stat",
        ("nextpnr-ice40", "--hx8k", "--package", "ct256", "--pcf-allow-unconstrained"),
        "ICESTORM_LC", r"SB_DFF\w*", "SB_MAC16", 7_680, 0, 1.2,
    ),
    "gowin": Device(
        "Gowin GW2A-18", "synth_gowin -noiopads -top {top} -json {json}; stat",
        ("nextpnr-himbaechel-gowin", "--device", "GW2A-LV18PG256C8/I7", "--vopt",
         "family=GW2A-18"),
        "LUT4", r"DFF\w*", r"MULT\w+", 20_736, 48, 1.0, pins=False,
    ),
    "virtex6": Device(
        "Virtex-6 LX760", "synth_xilinx -family xc6v -flatten -noiopad -noclkbuf -top {top}; stat",
        (), r"LUT\d", r"FD[CPRS]E", r"DSP48\w*", 474_240, 864, 1.0,
    ),
}  # fmt: skip


@dataclass
class Measured:
    """A unit on a device: cells, the clocks in MHz of the seeds so far, why it has none."""

    lut: int
    ff: int
    dsp: int
    clocks: list[float] = field(default_factory=list)
    fails: str = ""


def unit_name(feature_hash: str, counters: str, lanes: int) -> str:
    return f"{feature_hash}, {counters} counters, {lanes} {'lane' if lanes == 1 else 'lanes'}"


def units() -> dict[str, tuple[str, dict[str, int], int, bool]]:
    """As in benchmarks.synthesis: top module, parameters, bytes a cycle, whether to place it."""
    return {
        unit_name(h, c, n): (
            "fingerprint_engine",
            {"N": n, "MIXER": HASHES[h], "SHARED": COUNTERS[c]},
            n,
            True,
        )
        for n, h, c in product(LANES, HASHES, COUNTERS)
    }


def synthesised(report: str, device: Device) -> dict[str, int]:
    """Cells that Yosys counts, storing ones as the LUTs that they take."""
    last = report[report.rindex("Number of cells:") :]
    cells = re.findall(r"^ +(\w+) +(\d+)$", last, re.MULTILINE)
    counts = {
        name: sum(int(n) for cell, n in cells if re.fullmatch(pattern, cell))
        for name, pattern in (
            ("lut", device.cells), ("ff", device.flip_flops), ("dsp", device.multipliers),
        )
    }  # fmt: skip
    counts["lut"] += sum(STORING.get(cell, 0) * int(n) for cell, n in cells)
    return counts


def without_pins(netlist: Path) -> None:
    """Cut a netlist off from its pins: nextpnr for Gowin takes none without a place for each."""
    design = json.loads(netlist.read_text())
    for module in design["modules"].values():
        module["ports"] = {}
    netlist.write_text(json.dumps(design))


def placed(report: str, device: Device, found: Measured) -> None:
    """Take logic cells and the clock, or why there is none, from what nextpnr printed."""
    used = re.findall(rf"^Info:\s+{device.cells}:\s+(\d+)/", report, re.MULTILINE)
    if used:
        found.lut = int(used[0])
    clocks = re.findall(r"Max frequency for clock.*?: ([\d.]+) MHz", report)
    if "Program finished normally." in report:
        found.clocks.append(float(clocks[-1]))
    elif over := exceeded(report):
        found.fails = "does not fit: " + ", ".join(over)
    elif "TIMED OUT" in report:
        found.fails = (
            f"not {'routed' if 'Info: Routing' in report else 'placed'} in {MINUTES} minutes of CPU"
        )
    elif error := re.search(r"^ERROR: .*", report, re.MULTILINE):
        found.fails = f"not placed: {error[0][7:]}"
    else:
        raise SystemExit(report[-3000:])


def exceeded(report: str) -> list[str]:
    """What nextpnr needs more of than the device has, with both numbers."""
    used = re.findall(r"^Info:\s+(\w+):\s+(\d+)/\s*(\d+) +\d+%", report, re.MULTILINE)
    return [f"{int(n):,} of {int(has):,} {cell}" for cell, n, has in used if int(n) > int(has)]


def measure(
    unit: str, device: Device, found: Measured | None, folder: Path, yosys: Yosys, place: Place
) -> Iterator[Measured]:
    """One unit on one device, again after each seed; once where no free tool places."""
    netlist = folder / "unit.json"
    report = yosys(unit, device.synth.replace("{json}", str(netlist)), folder)
    found = found or Measured(**synthesised(report, device))
    if not device.place:
        yield found
    elif not device.pins:
        without_pins(netlist)
    while is_missing(device, found):
        options = ("--freq", "150", "--timing-allow-fail", "--seed", str(len(found.clocks) + 1))
        placed(place(*device.place, "--json", str(netlist), *options), device, found)
        yield found


def is_missing(device: Device, found: Measured | None) -> bool:
    """Whether a unit's synthesis, or the clock of one of the seeds, is not there yet."""
    if found is None:
        return True
    return bool(device.place) and not found.fails and len(found.clocks) < SEEDS


def cpu_rate() -> float:
    """MB of text a second that the compiled kernels fingerprint on one core, generated words."""
    engine = load_engine("auto", FINGERPRINT)
    text = b" ".join(b"%x" % (i * 2654435761 % 2**28) for i in range(1_000))
    engine.fingerprint_many([text] * 8)
    start, n = time.perf_counter(), 0
    while time.perf_counter() - start < 0.5:
        engine.fingerprint_many([text] * 100)
        n += 100 * len(text)
    return n / (time.perf_counter() - start) / 1e6


def quality() -> dict[str, list[float]]:
    """Recall and precision of each feature hash on the labelled pairs, without a sketch."""
    from benchmarks.mixers import MIXERS, Corpus, scores

    corpus = Corpus()
    found = {name: scores(corpus, MIXERS[name])[QUALITY_AT] for name in HASHES}
    return {name: [row["recall"], row["precision"]] for name, row in found.items()}


def joules_a_gb(cells: float, lanes: int, device: Device) -> float:
    """Dynamic energy of so many cells for 10**9 bytes at a byte a cycle and lane, estimated."""
    return cells * ACTIVITY * FARADS * device.volts**2 / 2 * 1e9 / lanes


HEAD = (
    "| device | hash | counters | lanes | LUT | FF | DSP | MHz | MB/s | MB/s per 1,000 LUT | J/GB |"
    " recall, precision |\n" + "|---" * 12 + "|"
)


def row(
    device: Device, h: str, c: str, lanes: str, engines: int, found: Measured | None, judged: str
) -> str:
    """A line of the table: so many engines of one kind."""
    head = f"| {device.name} | {h} | {c} | {lanes} | "
    if not found:
        return head + f"not measured | | | | | | | {judged} |"
    lut, ff, dsp = engines * found.lut, engines * found.ff, engines * found.dsp
    if found.fails and not found.clocks:
        return head + f"{lut:,} | {ff:,} | {dsp} | {found.fails} | | | | {judged} |"
    mhz = median(found.clocks) if found.clocks else PAPER_MHZ
    rate = engines * units()[unit_name(h, c, min(int(lanes), 8))][2] * mhz
    needed = devices(engines, found, device)
    figures = [
        f"{lut:,}" + (f": {needed} devices" if needed > 1 else ""), f"{ff:,}", f"{dsp}",
        clock(found), f"{rate:,.0f}", f"{1000 * rate / lut:.0f}",
        f"{joules_a_gb(lut, int(lanes), device):.2f}", judged,
    ]  # fmt: skip
    return head + " | ".join(figures) + " |"


def clock(found: Measured) -> str:
    """The median over the seeds in MHz, their range, how many they are and why not more."""
    n = len(found.clocks)
    if not n:
        return f"{PAPER_MHZ}, the paper's"
    told = f"{median(found.clocks):.0f}"
    if n > 1:
        told += f" ({min(found.clocks):.0f} to {max(found.clocks):.0f})"
    told += f", {n} seed{'s' if n > 1 else ''}"
    return f"{told}, the next {found.fails}" if found.fails else told


def devices(engines: int, found: Measured, device: Device) -> int:
    """Devices that hold so many engines, by LUTs and multipliers; an engine stays in one."""
    each = device.holds // found.lut
    if found.dsp:
        each = min(each, device.has_multipliers // found.dsp)
    return -(-engines // each)


def rows(device: Device, h: str, c: str, results: dict[str, Measured], judged: str) -> list[str]:
    """1 to 256 lanes; one line for all that are made of engines which do not fit."""
    *found, eight = (results.get(unit_name(h, c, n)) for n in LANES)
    if not any((*found, eight)):
        return [row(device, h, c, "1 to 256", 1, None, judged)]
    fewer = zip(LANES[:-1], found, strict=True)
    lines = [row(device, h, c, str(n), 1, figures, judged) for n, figures in fewer]
    if eight is None or (eight.fails and not eight.clocks):
        return [*lines, row(device, h, c, "8 to 256, of engines of 8", 1, eight, judged)]
    return lines + [row(device, h, c, str(8 * n), n, eight, judged) for n in (1, *ENGINES)]


def table(results: Results, judged: dict[str, list[float]], cpu: float | None) -> str:
    """The one table, of what has been measured so far."""
    told = {h: "{:.3f}, {:.3f}".format(*judged[h]) if h in judged else "" for h in HASHES}
    lines = [HEAD]
    for (key, device), h, c in product(DEVICES.items(), HASHES, COUNTERS):
        lines += rows(device, h, c, results.get(key, {}), told[h])
    plain, mixed = told["plain"], told["fmix64"]
    lines.append(f"| the paper, text | plain | own | 256 | | | | 150 | 4,800 | | | {plain} |")
    lines.append(f"| the paper, Table II | plain | own | 256 | | | | 150 | 10,700 | | | {plain} |")
    if cpu:
        energy = CPU_WATTS / cpu * 1000
        lines.append(
            f"| CPU, one core | fmix64 | | | | | | | {cpu:,.0f} | | {energy:.1f} | {mixed} |"
        )
    return "\n".join(lines)
