"""Run Scrapy's own tests of crawls with and without the add-on: python -m tests.scrapy_suite

Downloads the source distribution of the installed Scrapy and what its tests need, both into a
temporary folder, and lists every test whose outcome differs. The add-on is switched on in the
defaults of the second copy's settings, so that crawls in processes of their own have it, too.
Further arguments go to pytest, such as -k or a path of a test file instead of those below.
Exits with 1 if an outcome differs.
"""

import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path
from xml.etree import ElementTree

import scrapy

FILES = (
    *("crawl*", "closespider", "core_scraper", "engine*", "signals"),
    *("spider", "spider_*", "request_attribute_binding", "request_cb_kwargs", "request_left"),
    *("spidermiddleware*", "downloadermiddleware*", "pipeline*", "exporters", "feedexport*"),
    *("scheduler*", "dupefilters", "pqueues", "squeues*"),
)
NEEDED = (
    "pytest-twisted>=1.14.3",
    "sybil",
    "testfixtures",
    "pyftpdlib>=2.0.1",
    "pexpect",
    "pillow",
)
SWITCH = '\nADDONS = {"scrapy_neardup.NearDupAddon": 500}\n'
ROOT = Path(__file__).resolve().parents[1]


def pip(*arguments: str) -> None:
    subprocess.run([sys.executable, "-m", "pip", "--quiet", *arguments], check=True)


def unpack(folder: Path) -> tuple[Path, Path]:
    """Two copies of Scrapy's source beside its tests; the second switches the add-on on."""
    pip(
        "download",
        "--no-deps",
        "--no-binary=scrapy",
        f"--dest={folder}",
        f"scrapy=={scrapy.__version__}",
    )
    with tarfile.open(next(folder.glob("scrapy-*.tar.gz"))) as archive:
        archive.extractall(folder, filter="data")
    without = next(path for path in folder.glob("scrapy-*") if path.is_dir())
    with_addon = Path(shutil.copytree(without, folder / "with_addon"))
    with (with_addon / "scrapy/settings/default_settings.py").open("a") as defaults:
        defaults.write(SWITCH)
    return without, with_addon


def outcomes(source: Path, needed: Path, arguments: list[str]) -> dict[str, str]:
    """Test → passed, skipped, failure or error; expected failures are skipped."""
    report = source / "report.xml"
    path = os.pathsep.join(map(str, (source, ROOT, needed)))
    files = [
        str(f.relative_to(source))
        for g in FILES
        for f in sorted((source / "tests").glob(f"test_{g}.py"))
    ]
    if any(argument.startswith("tests/") for argument in arguments):
        files = []
    options = ["-p", "twisted", "-p", "no:cacheprovider", f"--junitxml={report}", "-q"]
    subprocess.run(
        [sys.executable, "-m", "pytest", *options, *files, *arguments],
        cwd=source,
        env=os.environ | {"PYTHONPATH": path, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        check=False,
    )
    cases = ElementTree.parse(report).iter("testcase")  # noqa: S314 - pytest has written it
    return {f"{c.get('classname')}::{c.get('name')}": outcome(c) for c in cases}


def outcome(test: ElementTree.Element) -> str:
    tags = [child.tag for child in test]
    return next((tag for tag in ("error", "failure", "skipped") if tag in tags), "passed")


def main(arguments: list[str]) -> int:
    with tempfile.TemporaryDirectory() as name:
        needed = Path(name, "needed")
        pip("install", "--target", str(needed), *NEEDED)
        without, with_addon = (outcomes(source, needed, arguments) for source in unpack(Path(name)))
    differing = sorted(
        t for t in without.keys() | with_addon if without.get(t) != with_addon.get(t)
    )
    lines = [f"{without.get(t)} -> {with_addon.get(t)}  {t}" for t in differing]
    lines.append(f"{len(without)} tests of Scrapy {scrapy.__version__}: {len(differing)} differ")
    sys.stdout.write("\n".join(lines) + "\n")
    return bool(differing)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
