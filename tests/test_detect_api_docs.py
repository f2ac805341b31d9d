"""Classes of API documentation, whose pages share most of their members, never repeat another."""

import builtins
import gzip
import json
import pydoc
from collections.abc import Iterable, Iterator
from pathlib import Path
from random import Random

import pytest
from mock_site import prose

from scrapy_neardup.crawl.pages.extract import content_of_html
from scrapy_neardup.factory import make_detector
from scrapy_neardup.settings import NearDupSettings

Pages = Iterable[tuple[str, str]]  # name of the class or module, HTML


def fallen(pages: Pages, key: int) -> list[tuple[str, str | None]]:
    """Which pages would be dropped at defaults, and for which."""
    detector = make_detector(NearDupSettings(), key)
    decisions = []
    for name, html in pages:
        url = f"http://docs.example/{name}.html"
        decisions.append((name, detector.decide(detector.read(url, content_of_html(html, url)))))
    return [(name, d.original) for name, d in decisions if d.is_duplicate]


@pytest.mark.parametrize("source", ["kafka", "lang3", "sqla"])
def test_no_page_of_one_version_of_real_documentation_falls(shared_data: Path, source: str) -> None:
    with gzip.open(shared_data / "pairs" / "pages.jsonl.gz", "rt", encoding="utf-8") as lines:
        pages = [page for page in map(json.loads, lines) if page["source"] == source]
    newest = pages[-1]["version"]
    of_version = [(page["group"], page["html"]) for page in pages if page["version"] == newest]
    assert len(of_version) > 80
    assert fallen(of_version, key=1) == []


@pytest.mark.parametrize("title", ["{}", "Python"])
def test_no_built_in_class_falls(title: str) -> None:
    """Half of them are exceptions, which differ in a sentence and inherit all else."""
    document, kinds = pydoc.HTMLDoc(), [k for k in vars(builtins).values() if isinstance(k, type)]
    names = [kind.__name__ for kind in kinds]
    bodies = [document.docclass(kind, kind.__name__) for kind in kinds]
    pages = [
        (name, document.page(title.format(name), body))
        for name, body in zip(names, bodies, strict=True)
    ]
    assert len(pages) > 90
    assert fallen(pages, key=2) == []


def inherited(base: int) -> str:
    """The members that all classes of a base have."""
    return "".join(f"<li><code>{prose(f'{base} {m}', 9)}</code>" for m in range(70))


def classes(heading: str) -> Iterator[tuple[str, str]]:
    """Eighty classes of twenty bases, in any order: 630 words of each are its base's."""
    pages = []
    for n in range(80):
        name = f"{prose(f'class {n}', 1).title()}Handler"
        own = f"<p>Class {name}. {prose(f'about {n}', 12)}</p><p>{prose(f'method {n}', 6)}</p>"
        head = heading.format(name=name)
        pages.append((name, f"{head}<nav>API</nav>{own}<ul>{inherited(n % 20)}</ul>"))
    Random(1).shuffle(pages)
    return iter(pages)


def member_lists() -> Iterator[tuple[str, str]]:
    """Eight errors that have all members of their base, listed as Doxygen lists them."""
    for n in range(8):
        name = f"lib::{prose(f'error {n}', 1)}_error"
        title = f'<title>lib: Member List</title><div class="title">{name} Member List</div>'
        about = f"This is the complete list of members for {name}, including all inherited members."
        yield name, f"{title}<p>{about}</p><ul>{inherited(0)}</ul>"


def test_no_list_of_members_falls_whose_class_stands_in_no_heading() -> None:
    others = classes("<title>lib: {name}</title>")
    assert fallen([*others, *member_lists()], key=4) == []


@pytest.mark.parametrize(
    "heading", ["<title>{name} (API)</title>", "<title>API</title><h1>Class {name}</h1>"]
)
@pytest.mark.parametrize("key", [1, 2, 3])
def test_no_class_falls_that_says_little_beside_what_it_inherits(heading: str, key: int) -> None:
    assert fallen(classes(heading), key) == []
