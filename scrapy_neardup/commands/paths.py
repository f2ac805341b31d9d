"""Files of this machine on the command line."""

from __future__ import annotations

import argparse
from pathlib import Path


def local_path(given: str) -> Path:
    """A type for argparse: a path. A URL, which would name a folder called `s3:`, is refused."""
    scheme, is_url, _ = given.partition("://")  # behind it there may be a password
    if is_url:
        raise argparse.ArgumentTypeError(
            f"{scheme}://… is a URL, and this is read and written on this machine: copy it first, "
            f"or use spark-dedup, which takes URLs"
        )
    return Path(given)
