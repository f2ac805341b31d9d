"""The documents say what the code says."""

import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from test_layers import RANKS

import scrapy_neardup

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "scrapy_neardup"
sys.path.insert(0, str(ROOT / "docs"))

import reference  # noqa: E402


@pytest.mark.parametrize("file", reference.FILES, ids=lambda file: file.name)
def test_settings_stats_and_commands_are_those_of_the_code(file: Path) -> None:
    text = file.read_text(encoding="utf-8")
    assert text == reference.filled(text), "run: python docs/reference.py"


def test_readme_is_short_and_needs_no_picture() -> None:
    """Pictures by relative paths are broken on a package index."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert len(readme.splitlines()) <= 150
    assert not re.search(r"!\[|<img|<picture", readme)


@pytest.mark.parametrize("name", ["example command", "test command"])
def test_readme_has_one_line_to_paste(name: str) -> None:
    assert re.fullmatch(r"```sh\npython3 -m venv .*\n```\n", marked("README.md", name))


def test_links_between_documents_lead_somewhere() -> None:
    for page in (*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")):
        for link in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
            assert (page.parent / link).exists(), f"{page.name}: {link}"


@pytest.mark.parametrize(
    ("page", "reference_of"),
    [
        ("settings", reference.settings_table),
        ("stats", reference.stats_table),
        ("commands", reference.commands),
    ],
)
def test_reference_page_has_all_of_it(page: str, reference_of: Callable[[], str]) -> None:
    text = (ROOT / "docs" / f"{page}.md").read_text(encoding="utf-8")
    assert reference_of() in text


def marked(page: str, name: str) -> str:
    """What a page has between `<!-- name -->` and the next `<!-- end -->`."""
    text = (ROOT / page).read_text(encoding="utf-8")
    return text.partition(f"<!-- {name} -->\n")[2].partition("<!-- end -->")[0]


def drawn_paths() -> Iterator[str]:
    """Paths below the package in the drawing of rooms, by their indentation; `crawl/` a folder."""
    folders: list[str] = []
    for indent, name in re.findall(
        r"^( +)([\w/.]+)", marked("docs/architecture.md", "rooms"), re.M
    ):
        del folders[len(indent) // 2 - 1 :]
        yield "".join(folders) + name
        folders.append(name)


def test_architecture_draws_every_module_and_nothing_else() -> None:
    sources = [*PACKAGE.rglob("*.py"), *PACKAGE.rglob("*.pyx")]
    modules = {path for path in sources if not path.stem.startswith("__")}
    folders = {path.parent for path in sources} - {PACKAGE}
    drawn = {PACKAGE / path for path in drawn_paths()}
    missing = sorted(str(path.relative_to(PACKAGE)) for path in (modules | folders) - drawn)
    assert not missing, f"draw these in docs/architecture.md: {missing}"
    assert not [str(path) for path in drawn if not path.exists()]


def test_architecture_has_the_ranks_of_imports() -> None:
    rows = re.findall(r"^\|.*\| (`.*) \|$", marked("docs/architecture.md", "ranks"), re.M)
    assert [set(re.findall(r"`(\w+)`", row)) for row in rows] == list(RANKS)


def test_every_test_that_the_threat_model_names_exists() -> None:
    named = set(re.findall(r"`(test_\w+)`", (ROOT / "docs" / "security.md").read_text("utf-8")))
    files = (ROOT / "tests").glob("test_*.py")
    defined = {n for f in files for n in re.findall(r"def (test_\w+)\(", f.read_text("utf-8"))}
    assert named
    assert named <= defined


def test_every_public_name_is_in_the_page_on_the_library() -> None:
    text = (ROOT / "docs" / "library.md").read_text(encoding="utf-8").partition("## All public")[2]
    assert set(re.findall(r"`(\w+)`", text)) >= set(scrapy_neardup.__all__)


@pytest.mark.parametrize("page", ["library", "url-filter"])
def test_programs_of_a_page_run_one_after_the_other(page: str, tmp_path: Path) -> None:
    text = (ROOT / "docs" / f"{page}.md").read_text(encoding="utf-8")
    program = tmp_path / "program.py"
    program.write_text("\n".join(re.findall(r"^```python\n(.*?)^```", text, re.M | re.S)), "utf-8")
    done = subprocess.run([sys.executable, program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_sphinx_builds_the_documents_without_a_warning(tmp_path: Path) -> None:
    for module in ("sphinx", "furo", "myst_parser"):
        pytest.importorskip(module, reason="needs the extra: pip install 'scrapy-neardup[docs]'")
    build = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", "-b", "html"]
    done = subprocess.run(
        [*build, ROOT / "docs", tmp_path], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "index.html").exists()
