"""The one table of the FPGA core: what is read from the tools, and that nothing is left out."""

from pathlib import Path

import pytest

from benchmarks.synthesis_table import (
    DEVICES,
    HASHES,
    Measured,
    clock,
    devices,
    exceeded,
    is_missing,
    measure,
    placed,
    table,
    unit_name,
)

ROUTED = """Info: Device utilisation:
Info: 	         ICESTORM_LC:    1711/   7680    22%
Info: 	        ICESTORM_RAM:      12/     32    37%
Info: Max frequency for clock 'clk': 70.00 MHz (FAIL at 150.00 MHz)
Info: Max frequency for clock 'clk$SB_IO_IN': 83.30 MHz (FAIL at 150.00 MHz)
Info: Program finished normally.
"""
TOO_LARGE = """Info: 	         ICESTORM_LC:    7345/   7680    95%
Info: 	        ICESTORM_RAM:      48/     32   150%
ERROR: Unable to place cell 'sums.0.6_RAM', no BELs remaining to implement cell type 'ICESTORM_RAM'
"""


def read(report: str) -> Measured:
    found = Measured(lut=0, ff=1, dsp=0)
    placed(report, DEVICES["ice40"], found)
    return found


def test_clock_is_the_one_after_routing() -> None:
    assert read(ROUTED) == Measured(lut=1711, ff=1, dsp=0, clocks=[83.3])


def test_what_does_not_fit_says_of_what_there_is_too_little() -> None:
    assert exceeded(TOO_LARGE) == ["48 of 32 ICESTORM_RAM"]
    assert read(TOO_LARGE).fails == "does not fit: 48 of 32 ICESTORM_RAM"


@pytest.mark.parametrize(
    ("end", "said"),
    [
        ("ERROR: Failed to route arc 3\n", "not placed: Failed to route arc 3"),
        ("TIMED OUT", "not placed in 20 minutes of CPU"),
        ("Info: Routing..\nTIMED OUT", "not routed in 20 minutes of CPU"),
    ],
)
def test_what_fits_and_has_no_clock_says_why(end: str, said: str) -> None:
    report = "Info: \t ICESTORM_LC:    7345/   7680    95%\n" + end
    assert read(report).fails == said


def test_tool_that_crashed_measures_nothing() -> None:
    with pytest.raises(SystemExit, match="Traceback"):
        read("Traceback (most recent call last)")


def test_unit_that_failed_is_not_tried_again_and_one_with_fewer_seeds_is() -> None:
    device = DEVICES["ice40"]
    assert is_missing(device, None)
    assert is_missing(device, Measured(1, 1, 0, [80.0, 81.0]))
    assert not is_missing(device, Measured(1, 1, 0, [80.0, 81.0, 82.0]))
    assert not is_missing(device, Measured(1, 1, 0, fails="does not fit: 2 of 1 LC"))
    assert not is_missing(DEVICES["virtex6"], Measured(1, 1, 0))


def test_unit_is_synthesised_once_and_routed_with_each_seed_that_is_missing(tmp_path) -> None:
    ran: list[str] = []

    def synthesise(unit: str, script: str, folder: Path) -> str:
        ran.append(unit)
        return "Number of cells: 1"

    def route(*command: str) -> str:
        ran.append(command[-1])
        return ROUTED

    begun = Measured(1711, 1, 0, [80.0])
    found = measure("one", DEVICES["ice40"], begun, tmp_path, synthesise, route)
    assert [len(each.clocks) for each in found] == [2, 3]
    assert ran == ["one", "2", "3"]


def test_clock_is_told_with_its_range_its_seeds_and_why_there_are_not_more() -> None:
    assert clock(Measured(1, 1, 0, [80.2])) == "80, 1 seed"
    assert clock(Measured(1, 1, 0, [80.2, 84.9, 83.0])) == "83 (80 to 85), 3 seeds"
    late = Measured(1, 1, 0, [80.2], fails="not routed in 20 minutes of CPU")
    assert clock(late) == "80, 1 seed, the next not routed in 20 minutes of CPU"


def test_an_engine_stays_in_one_device() -> None:
    device = DEVICES["virtex6"]
    assert devices(32, Measured(14_130, 0, 0), device) == 1
    assert devices(32, Measured(14_994, 0, 0), device) == 2
    assert devices(32, Measured(16_220, 0, 80), device) == 4  # ten by their multipliers


def test_every_device_hash_and_number_of_lanes_has_a_line_whatever_was_measured() -> None:
    found = {
        "ice40": {
            unit_name("plain", "own", 1): Measured(2067, 1866, 0, [83.3]),
            unit_name("plain", "own", 8): Measured(16414, 14464, 0, [], "does not fit: 2 of 1 LC"),
        },
        "virtex6": {unit_name("light", "own", 8): Measured(14_994, 15_272, 0)},
    }
    lines = table(found, {}, cpu=None).splitlines()[2:]
    for device in DEVICES.values():
        for feature_hash in HASHES:
            start = f"| {device.name} | {feature_hash} | own | "
            said = [line.split(" | ")[3] for line in lines if line.startswith(start)]
            assert said[0] == "1 to 256" or said[:3] == ["1", "2", "4"]
            assert said[-1].endswith("256") or "of 8" in said[-1]
    assert any("| 1 | 2,067 | 1,866 | 0 | 83, 1 seed | 83 | 40 |" in line for line in lines)
    assert any(
        "engines of 8 | 16,414 | 14,464 | 0 | does not fit: 2 of 1 LC |" in line for line in lines
    )
    assert any(
        "| 256 | 479,808: 2 devices | 488,704 | 0 | 150, the paper's |" in line for line in lines
    )
