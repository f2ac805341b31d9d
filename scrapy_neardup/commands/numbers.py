"""Whole numbers on the command line."""

from __future__ import annotations

import argparse
from collections.abc import Callable


def at_least(least: int) -> Callable[[str], int]:
    """A type for argparse: a whole number with a minimum."""

    def whole(given: str) -> int:
        if int(given) < least:
            raise argparse.ArgumentTypeError(f"{given}: must be {least} or more")
        return int(given)

    whole.__name__ = "whole number"
    return whole
