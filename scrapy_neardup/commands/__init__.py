"""`scrapy neardup …` and `python -m scrapy_neardup …`: one module per subcommand.

Such a module has a docstring whose first line is its help, EXAMPLES, add_arguments(parser)
and run(options) -> exit code. It is imported with every call of the command, so what is
heavy is imported inside run.
"""

from __future__ import annotations

import argparse
import sys
from importlib import import_module

from scrapy_neardup.commands.terminal import complain, replace_closed_streams
from scrapy_neardup.errors import NearDupError

SUBCOMMANDS = (
    *("stats", "explain", "changes", "undo", "export", "report", "best"),  # of a crawl
    *("check", "repair"),  # of its files
    "fleet",  # of several workers
    *("dedup", "spark-dedup"),  # of files
    *("evaluate", "calibrate"),  # of the detector
    *("urls", "rules"),  # of the rules for URLs
    "rtl",  # of the FPGA core
)

DONE = 0
NOTHING_FOUND = 1
WRONG_USE = 2
INTERRUPTED = 130  # as shells have it for Ctrl-C

DESCRIPTION = "See, explain and undo what scrapy_neardup decided; judge it on your own pages."
EPILOG = """\
exit codes:
  0    done
  1    nothing found: no such URL, no decision to undo, no such site to forget; damage found by
       check, or what could lose data by fleet check
  2    wrong use, or a file that cannot be read or written; the message says which
  130  interrupted by Ctrl-C

examples:
  scrapy neardup stats crawls/shop
  scrapy neardup explain https://shop.example/item?id=7 --state crawls/shop
  scrapy neardup report crawls/shop -o report.html
"""


def add_subcommands(parser: argparse.ArgumentParser, prog: str) -> None:
    """Add every subcommand to a parser; their usage lines begin with `prog`."""
    parser.description = DESCRIPTION
    parser.epilog = EPILOG
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    subparsers = parser.add_subparsers(
        title="subcommands", metavar="SUBCOMMAND", required=True, prog=prog
    )
    for name in SUBCOMMANDS:
        module = import_module(f"scrapy_neardup.commands.{name.replace('-', '_')}")
        summary, _, details = (module.__doc__ or "").partition("\n")
        subparser = subparsers.add_parser(
            name,
            help=summary,
            description=f"{summary}\n{details.rstrip()}",
            epilog=f"examples:\n{module.EXAMPLES}",
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        module.add_arguments(subparser)
        subparser.set_defaults(run_subcommand=module.run)


def run_subcommand(options: argparse.Namespace) -> int:
    """Run the parsed subcommand and return its exit code; errors become one line."""
    replace_closed_streams()
    try:
        exit_code: int = options.run_subcommand(options)
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader, such as `head`, has seen enough; Python must not complain at exit.
        sys.stdout = None
        return DONE
    except NearDupError as error:
        complain(str(error))
        return WRONG_USE
    except OSError as error:
        output = getattr(options, "output", None) or getattr(options, "out", None)
        complain(f"{error.filename or output or 'standard output'}: {error.strerror or error}")
        return WRONG_USE
    except KeyboardInterrupt:
        complain("interrupted")
        return INTERRUPTED
    return exit_code


def main(arguments: list[str] | None = None) -> int:
    """The command without Scrapy's command line: parse, run, return the exit code."""
    prog = "python -m scrapy_neardup"
    parser = argparse.ArgumentParser(prog=prog)
    add_subcommands(parser, prog)
    return run_subcommand(parser.parse_args(arguments))
