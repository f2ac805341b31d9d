"""docs/indexes.md: its examples run as printed."""

import re
import subprocess
import sys
from pathlib import Path

PAGE = Path(__file__).resolve().parents[1] / "docs" / "indexes.md"


def blocks(kind: str) -> list[str]:
    return re.findall(rf"^```python{kind}\n(.*?)^```", PAGE.read_text("utf-8"), re.M | re.S)


def output_of(example: str, folder: Path) -> str:
    """What a program prints; it must end well. Files, for processes start from one."""
    (folder / "example.py").write_text(example, "utf-8")
    command = [sys.executable, folder / "example.py"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_examples_on_the_page_run_one_after_the_other(tmp_path):
    examples = blocks("")
    assert len(examples) == 4
    assert "5 blocks: 10 tables" in output_of("\n".join(examples), tmp_path)


def test_the_example_of_many_processes_runs(tmp_path):
    (example,) = blocks(" multiprocessing")
    assert output_of(example, tmp_path) == "3 processes found 10000 fingerprints\n"
