"""The entry point of `scrapy neardup …`.

Scrapy loads it with every call of any command, so it imports nothing but Scrapy's own base.
"""

from __future__ import annotations

import argparse

from scrapy.commands import ScrapyCommand
from scrapy.exceptions import UsageError


class NearDupCommand(ScrapyCommand):
    """`scrapy neardup SUBCOMMAND …`; works outside a project too, where STATE must be named."""

    requires_crawler_process = False

    def syntax(self) -> str:
        """What follows the command's name."""
        return "[global options] SUBCOMMAND [options]"

    def short_desc(self) -> str:
        """One line for Scrapy's list of commands."""
        return "See, explain and undo what scrapy_neardup decided"

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        """Scrapy's global options and our subcommands."""
        from scrapy_neardup.commands import add_subcommands

        super().add_options(parser)
        add_subcommands(parser, "scrapy neardup")

    def process_options(self, args: list[str], opts: argparse.Namespace) -> None:
        """Refuse what no subcommand knows; Scrapy would ignore it."""
        if args:
            raise UsageError(f"unrecognized arguments: {' '.join(args)}", print_help=False)
        super().process_options(args, opts)

    def run(self, args: list[str], opts: argparse.Namespace) -> None:
        """Run the subcommand."""
        from scrapy_neardup.commands import run_subcommand

        opts.scrapy_settings = self.settings
        self.exitcode = run_subcommand(opts)
