"""Write the FPGA core in Verilog, with its test bench and a sample.

README.md in the folder says how to simulate, check and synthesise it. Writing it needs no tools.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from scrapy_neardup.commands.terminal import say, say_json
from scrapy_neardup.errors import InputError

EXAMPLES = """\
  scrapy neardup rtl --out core
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Folder and form."""
    parser.add_argument(
        "--out", metavar="DIR", type=Path, required=True, help="folder to write; created if missing"
    )
    parser.add_argument("--json", action="store_true", help="one JSON object instead of text")


def run(options: argparse.Namespace) -> int:
    """Write, and name what was written."""
    from scrapy_neardup.engines.fpga.rtl_engine import write_rtl

    try:
        files = [str(path) for path in write_rtl(options.out)]
    except OSError as error:
        raise InputError(f"--out {options.out}: cannot be written to ({error})") from error
    if options.json:
        say_json({"files": files})
    else:
        say("\n".join(files))
    return 0
