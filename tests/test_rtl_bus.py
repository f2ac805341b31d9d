"""The core behind its buses, in a simulator under cocotb: every cycle, value, id and flag."""

import json
import os
from dataclasses import asdict
from pathlib import Path

import pytest
from rtl_tools import needs

from scrapy_neardup.engines.fpga.design import Design
from scrapy_neardup.engines.fpga.verilog import modules, parameters

cocotb_runner = pytest.importorskip("cocotb_tools.runner")
pytest.importorskip("cocotbext.axi")

TESTS = Path(__file__).parent
SHORT = [
    Design(),
    Design("light", "ge", 3, bytes_per_cycle=2, n_cores=4, counter_bits=6, selectable=True),
    Design("fmix64", "ge", 5, n_cores=3, counters="shared"),
]
LONG = [
    Design("fmix64", n_cores=3, key=0xFEEDFACECAFEBEEF),
    *(Design(n_cores=n) for n in range(1, 8)),
    *(Design("light", key=n, n_cores=n, output="slots") for n in range(1, 9)),
    *(Design("fmix64", "ge", n, n_cores=n, counter_bits=7) for n in range(1, 9)),
    *(Design("fmix64", key=n, n_cores=n, selectable=True) for n in range(1, 9)),
    *(Design("none", n_cores=n, bytes_per_cycle=2, selectable=True) for n in range(1, 5)),
    *(Design("light", "ge", n, n_cores=n, bytes_per_cycle=2) for n in range(1, 5)),
    Design(counters="shared"),
    Design("light", "ge", 2, n_cores=4, counters="shared", counter_bits=6),
    Design("none", n_cores=5, counters="shared", output="slots", selectable=True),
]


def simulate(top: str, bench: str, design: Design, folder: Path, **environment: str) -> None:
    """Run all tests of a bench in Icarus; a failure is the test's."""
    needs("iverilog", "vvp")
    runner = cocotb_runner.get_runner("icarus")
    runner.build(
        sources=modules(), hdl_toplevel=top, parameters=parameters(design),
        build_args=["-g2005"], build_dir=folder, timescale=("1ns", "1ps"),
        log_file=folder / "build.log",
    )  # fmt: skip
    values = {"NEARDUP_DESIGN": json.dumps(asdict(design)), **environment}
    paths = {"PYTHONPATH": os.pathsep.join([str(TESTS), os.environ.get("PYTHONPATH", "")])}
    try:
        runner.test(
            hdl_toplevel=top, test_module=f"cocotb_benches.{bench}", build_dir=folder,
            test_dir=folder, extra_env=values | paths, log_file=folder / "test.log",
        )  # fmt: skip
    except SystemExit:  # a test failed, or there was none
        pytest.fail((folder / "test.log").read_text()[-6000:])


@pytest.mark.parametrize("design", SHORT, ids=str)
def test_axi_core_is_the_model_in_every_cycle(design: Design, tmp_path: Path) -> None:
    simulate("simhash_axi", "axi", design, tmp_path)


@pytest.mark.long
@pytest.mark.parametrize("seed", [2, 3])
@pytest.mark.parametrize("design", SHORT + LONG, ids=str)
def test_axi_core_is_the_model_for_every_size_and_mixer(
    design: Design, seed: int, tmp_path: Path
) -> None:
    simulate(
        "simhash_axi", "axi", design, tmp_path, NEARDUP_SEED=str(seed), NEARDUP_DOCUMENTS="200"
    )


@pytest.mark.parametrize("design", [Design("fmix64", key=5, n_cores=2)], ids=str)
def test_wishbone_bridge_answers_documents(design: Design, tmp_path: Path) -> None:
    simulate("simhash_wishbone", "wishbone", design, tmp_path)
