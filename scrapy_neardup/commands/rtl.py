"""Write the FPGA core in Verilog, or build it for the engine `rtl`.

--out writes the Verilog with its test bench and a sample; README.md in the folder says how to
simulate, check and synthesise it. Writing needs no tools. --build compiles what a crawl with
NEARDUP_ENGINE = "rtl" simulates, and keeps it, so that the crawl does not have to; it needs
verilator, make and g++.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from scrapy_neardup.commands.paths import local_path
from scrapy_neardup.commands.terminal import say, say_json
from scrapy_neardup.errors import InputError

if TYPE_CHECKING:
    from scrapy_neardup.engines.fpga.design import Design

EXAMPLES = """\
  scrapy neardup rtl --out core
  scrapy neardup rtl --out core --bus axi --mixer any
  scrapy neardup rtl --out core --bus serial --mixer any && make -C core
  scrapy neardup rtl --out core --lanes 4 --bytes 2 --mixer light
  scrapy neardup rtl --out core --counters shared
  scrapy neardup rtl --build
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What to do, for which design, and the form of the answer."""
    parser.add_argument(
        "--out", metavar="DIR", type=local_path, help="write the Verilog there; created if missing"
    )
    parser.add_argument(
        "--build", action="store_true", help="compile it for the engine `rtl`; takes some 10 s"
    )
    parser.add_argument(
        "--lanes", metavar="N", type=int, help="cores; default: as many as use up a channel"
    )
    parser.add_argument(
        "--bytes", type=int, default=1, choices=(1, 2), help="characters a core takes in a cycle"
    )
    parser.add_argument(
        "--counters",
        default="own",
        choices=("own", "shared"),
        help="shared: eight adders for a core's 64 counters, half the logic for the same values, "
        "up to 17 cycles later; with --bytes 1",
    )
    parser.add_argument(
        "--mixer",
        choices=("none", "light", "fmix64", "any"),
        help="what follows sdbm. Default of --out: none, the paper's; of --build: fmix64, which "
        "a crawl uses unless NEARDUP_MIX is False (none). any: a register or port chooses",
    )
    parser.add_argument(
        "--tie", default="gt", choices=("gt", "ge"), help="as in NEARDUP_TIE; default: gt"
    )
    parser.add_argument(
        "--bus",
        default="words",
        choices=("words", "axi", "wishbone", "serial"),
        help="what --out writes: the bare engine, which takes 64-bit words (default), or the core "
        "behind AXI4-Stream and AXI4-Lite, behind Wishbone, or on a ULX3S board's serial line",
    )
    parser.add_argument("--json", action="store_true", help="one JSON object instead of text")


def run(options: argparse.Namespace) -> int:
    """Write or build or both, and name what was made."""
    if options.out is None and not options.build:
        raise InputError("rtl: say --out DIR to write the Verilog, --build to compile it, or both")
    if options.out == Path():
        raise InputError("--out: names the current folder, or nothing: name a folder for the files")
    if options.build and options.mixer == "any":
        raise InputError("--build: the engine `rtl` simulates one mixer: none, light or fmix64")
    made: dict[str, object] = {}
    if options.out is not None:
        made["files"] = written(options)
    if options.build:
        made["library"] = built(options)
    if options.json:
        say_json(made)
    return 0


def written(options: argparse.Namespace) -> list[str]:
    """The files of --out."""
    from scrapy_neardup.engines.fpga.verilog import write_rtl

    made = design(options, "none")
    try:
        files = [str(path) for path in write_rtl(options.out, made, options.bus)]
    except OSError as error:
        raise InputError(f"--out {options.out}: cannot be written to ({error})") from error
    if not options.json:
        say("\n".join(files))
    return files


def built(options: argparse.Namespace) -> str:
    """The library of --build; its steps are told as they begin."""
    from scrapy_neardup.engines.fpga.rtl_build import library

    path = library(design(options, "fmix64"), (lambda line: None) if options.json else tell)
    if not options.json:
        say(str(path))
    return str(path)


def tell(line: str) -> None:
    """Write a line at once, also into a pipe."""
    say(line)
    sys.stdout.flush()


def design(options: argparse.Namespace, mixer: str) -> Design:
    """The design that the options describe. Raises SpecError."""
    from scrapy_neardup.engines.fpga.design import Design

    chosen = options.mixer or mixer
    return Design(
        mixer="fmix64" if chosen == "any" else chosen,  # type: ignore[arg-type]
        selectable=chosen == "any",
        tie=options.tie,
        n_cores=options.lanes if options.lanes is not None else 8 // options.bytes,
        bytes_per_cycle=options.bytes,
        counters=options.counters,
    )
