"""Benchmarks measure the package that is installed."""

import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def test_a_source_tree_without_kernels_does_not_hide_the_installed_package(tmp_path: Path) -> None:
    """Without site packages (-S): there, an editable install comes before every path."""
    clone, installed = tmp_path / "clone", tmp_path / "installed"
    for folder in (clone, installed):
        (folder / "scrapy_neardup").mkdir(parents=True)
        (folder / "scrapy_neardup" / "__init__.py").write_text(f"PLACE = {folder.name!r}")
    (clone / "benchmarks").mkdir()
    shutil.copy(ROOT / "benchmarks" / "__init__.py", clone / "benchmarks")
    (clone / "tests").mkdir()
    (clone / "benchmarks" / "__main__.py").write_text(
        "import subprocess, sys\n"
        "import tests\n"
        "import scrapy_neardup; print(scrapy_neardup.PLACE)\n"
        "program = 'import scrapy_neardup; print(scrapy_neardup.PLACE)'\n"
        "subprocess.run([sys.executable, '-S', '-c', program])\n"
    )

    def place(path: str) -> list[str]:
        done = subprocess.run(
            [sys.executable, "-S", "-u", "-m", "benchmarks"],
            cwd=clone,
            env={"PYTHONPATH": path},
            capture_output=True,
            text=True,
            check=True,
        )
        return done.stdout.split()

    assert place(str(installed)) == ["installed", "installed"]
    native = clone / "scrapy_neardup" / "kernels" / "native"
    native.mkdir(parents=True)
    (native / "bloom.abi3.so").touch()
    assert place(str(installed)) == ["clone", "clone"]


def test_parts_are_listed_and_what_no_part_is_named_is_refused() -> None:
    assert "bloom: sizes" in run_benchmarks("bloom", "--list").stdout.splitlines()
    assert "no part has 'sises' in its name" in run_benchmarks("--only", "sises", fails=True).stderr


def run_benchmarks(*arguments: str, fails: bool = False) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks", *arguments], cwd=ROOT, capture_output=True, text=True
    )
    assert bool(done.returncode) == fails, done.stderr
    return done
