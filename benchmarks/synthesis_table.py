"""The one table: feature hashes and lanes on four FPGAs, beside the paper's and a CPU.

`python -m benchmarks.synthesis --table` measures and prints it. Units are engines of 1 to 8 lanes;
64 and 256 lanes are eight and thirty-two engines of eight, which is arithmetic, not a measurement.
What was not measured says so.

Energy is an estimate: each cell switches in an eighth of the cycles, and a switch moves one
picofarad, the cell's and its wires', to the core's voltage; what a device takes when idle is left
out. For the CPU it is ten watts a core. Good for the order of magnitude only.
"""

import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from statistics import median

from scrapy_neardup.engines import FINGERPRINT, load_engine

HASHES = {"plain": 0, "light": 1, "fmix64": 2}  # and the Verilog's MIXER
COUNTERS = {"own": 0, "shared": 1}
LANES = (1, 2, 4, 8)
ENGINES = (8, 32)  # of eight lanes: one of the paper's FPGAs, and its four
QUALITY_AT = 3  # bits that may differ

ACTIVITY = 0.125
FARADS = 1e-12
CPU_WATTS = 10.0

# LUTs that a cell of Virtex-6 or Gowin takes where it stores.
STORING = {"RAM32M": 4, "RAM64M": 4, "RAM32X1D": 2, "RAM64X1D": 2, "SRL16E": 1, "SRLC32E": 1,
           "RAM16SDP1": 4, "RAM16SDP2": 4, "RAM16SDP4": 4}  # fmt: skip

Yosys = Callable[[str, str, Path], str]  # unit, script, folder: what it prints
Run = Callable[..., str]
Figures = dict[str, float]


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
        "Gowin GW2A-18", "synth_gowin -top {top} -json {json}; stat",
        ("nextpnr-himbaechel-gowin", "--device", "GW2A-LV18PG256C8/I7", "--vopt",
         "family=GW2A-18"),
        "LUT4|ALU", r"DFF\w*", r"MULT\w+", 20_736, 48, 1.0,
    ),
    "virtex6": Device(
        "Virtex-6 LX760", "synth_xilinx -family xc6v -flatten -noiopad -noclkbuf -top {top}; stat",
        (), r"LUT\d", r"FD[CPRS]E", r"DSP48\w*", 474_240, 864, 1.0,
    ),
}  # fmt: skip


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
        for n, h, c in product((1, 8, 2, 4), HASHES, COUNTERS)
    }


def synthesised(report: str, device: Device) -> Figures:
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
    return dict(counts)


def placed(reports: list[str], device: Device) -> Figures:
    """Logic cells, and the median clock over the seeds in MHz, as nextpnr prints them."""
    used = re.findall(rf"^Info:\s+(?:{device.cells}):\s+(\d+)/", reports[0], re.MULTILINE)
    storing = re.findall(r"^Info:\s+(RAM16SDP\d):\s+(\d+)/", reports[0], re.MULTILINE)
    clocks = [
        float(re.findall(r"Max frequency for clock.*?: ([\d.]+) MHz", report)[-1])
        for report in reports
    ]
    cells = sum(map(int, used)) + sum(STORING[cell] * int(n) for cell, n in storing)
    return {"lut": cells, "mhz": median(clocks), "seeds": len(clocks)}


def measured(
    unit: str, device: Device, seeds: tuple[int, ...], folder: Path, yosys: Yosys, run: Run,
    tool: Callable[[str], str],
) -> Figures:  # fmt: skip
    """One unit on one device; no clock where no free tool places."""
    netlist = folder / "unit.json"
    script = device.synth.replace("{json}", str(netlist))
    report = yosys(unit, script, folder)
    counted = synthesised(report, device)
    if not device.place:
        return counted
    command = [tool(device.place[0]), *device.place[1:], "--json", str(netlist)]
    options = ("--freq", "150", "--timing-allow-fail")
    if counted["lut"] > device.holds:
        return {"failed": 1.0}
    try:
        reports = [run(*command, *options, "--seed", str(seed)) for seed in seeds]
    except SystemExit as error:
        if "nable to " not in str(error):
            raise
        return {"failed": 1.0}
    return counted | placed(reports, device)


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


def row(device: Device, h: str, c: str, lanes: int, figures: Figures, judged: str) -> str:
    """A line of the table; with 64 lanes and more, whole engines are counted."""
    engines = max(lanes // 8, 1)
    head = f"| {device.name} | {h} | {c} | {lanes} | "
    if not figures or figures.get("failed"):
        return head + f"{'does not fit' if figures else 'not measured'} | | | | | | | {judged} |"
    lut, ff, dsp = (int(figures[name]) * engines for name in ("lut", "ff", "dsp"))
    fits = lut <= device.holds and dsp <= device.has_multipliers
    mhz = figures.get("mhz")
    rate = lanes * (mhz or 150.0)
    clock = f"{mhz:.0f}" if mhz else "150, the paper's"
    if mhz and figures["seeds"] < 3:
        clock += f", {figures['seeds']:.0f} seed{'s' if figures['seeds'] > 1 else ''}"
    size = f"{lut:,}" if fits else f"{lut:,}: {device_count(lut, dsp, device)} devices"
    return head + (
        f"{size} | {ff:,} | {dsp} | {clock} | {rate:,.0f} | {1000 * rate / lut:.0f} | "
        f"{joules_a_gb(lut, lanes, device):.2f} | {judged} |"
    )


def device_count(lut: int, dsp: int, device: Device) -> int:
    """Devices that hold so much, by their LUTs and multipliers."""
    by_dsp = -(-dsp // device.has_multipliers) if device.has_multipliers else 0
    return max(-(-lut // device.holds), by_dsp)


def table(results: dict[str, dict[str, Figures]], judged: dict[str, list[float]]) -> str:
    """The one table, of what has been measured so far."""
    told = {h: "{:.3f}, {:.3f}".format(*judged[h]) if h in judged else "" for h in HASHES}
    lines = [HEAD]
    for (key, device), h, c in product(DEVICES.items(), HASHES, COUNTERS):
        for lanes in (*LANES, *(8 * n for n in ENGINES)):
            figures = results.get(unit_name(h, c, min(lanes, 8)), {}).get(key, {})
            lines.append(row(device, h, c, lanes, figures, told[h]))
    plain, mixed = told["plain"], told["fmix64"]
    lines.append(f"| the paper, text | plain | own | 256 | | | | 150 | 4,800 | | | {plain} |")
    lines.append(f"| the paper, Table II | plain | own | 256 | | | | 150 | 10,700 | | | {plain} |")
    rate = results.get("CPU", {}).get("native", {}).get("rate")
    if rate:
        energy = CPU_WATTS / rate * 1000
        lines.append(
            f"| CPU, one core | fmix64 | | | | | | | {rate:,.0f} | | {energy:.1f} | {mixed} |"
        )
    return "\n".join(lines)
