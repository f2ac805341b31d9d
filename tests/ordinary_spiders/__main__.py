"""Print what each spider brings without and with the plugin: python -m ordinary_spiders [NAME …]

In the folder tests/; one row of a Markdown table a spider, all spiders if none is named.
"""

import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from crawls import ADDONS
from mock_site import running_site

from . import CASES
from .compare import count_groups, lost_items
from .crawl import run
from .site import OrdinarySite


def row(name: str, site: OrdinarySite) -> str:
    """A case's row: items without and with the plugin, lost ones, pages kept twice."""
    case = CASES[name]
    case.build(site, f"/{name}")
    with TemporaryDirectory() as one, TemporaryDirectory() as two:
        crawls = run(case, site, Path(one), {}), run(case, site, Path(two), ADDONS)
    lost = lost_items(site, *crawls).total()
    groups, kept_twice = count_groups(site, *crawls, planted=site.copies.keys())
    copies = f"{kept_twice} of {groups}" if groups else ""
    return f"| {name} | {crawls[0].n_items} | {crawls[1].n_items} | {lost} | {copies} |\n"


def main(names: list[str]) -> None:
    sys.stdout.write("| spider | items without | with | lost | pages kept twice |\n")
    sys.stdout.write("|---|---|---|---|---|\n")
    with running_site(OrdinarySite) as site:
        for name in names or CASES:
            sys.stdout.write(row(name, site))
            sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1:])
