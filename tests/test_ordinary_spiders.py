"""Ordinary spiders lose nothing that says something new, with one ADDONS line and no setting.

What a spider has to bring is never written down here: it is what it brings without the plugin,
less the copies that its site has planted (see ordinary_spiders/).
"""

import asyncio
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from crawls import ADDONS
from mock_site import running_site
from ordinary_spiders import CASES
from ordinary_spiders.compare import count_groups, lost_items
from ordinary_spiders.crawl import SETTINGS, Crawl, run
from ordinary_spiders.repeats import news
from ordinary_spiders.site import OrdinarySite
from scrapy.crawler import AsyncCrawlerRunner

pytestmark = pytest.mark.filterwarnings("ignore:FormRequest.from_response")
REPEATING = [name for name, each in CASES.items() if each.repeats]

# Spiders that lose items today, and why. Strict: whoever mends one has to take it out.
LOSES: dict[str, str] = {}


@pytest.fixture(scope="module")
def site() -> Iterator[OrdinarySite]:
    with running_site(OrdinarySite) as site:
        yield site


@pytest.fixture(scope="module")
def crawls(
    site: OrdinarySite, tmp_path_factory: pytest.TempPathFactory
) -> Callable[[str], tuple[Crawl, Crawl]]:
    """A case's crawls without and with the plugin; each is run once."""

    @cache
    def both(name: str) -> tuple[Crawl, Crawl]:
        case = CASES[name]
        for module in case.needs:
            pytest.importorskip(module)
        case.build(site, f"/{name}")
        folders: list[Path] = [tmp_path_factory.mktemp(name) for _ in range(2)]
        return run(case, site, folders[0], {}), run(case, site, folders[1], ADDONS)

    return both


def case(name: str, *marks: Any) -> Any:
    """A parameter for the case. Its tests share crawls, and so run in one worker."""
    group = "copies" if name in REPEATING else name  # one test looks at all that plant copies
    return pytest.param(name, marks=[pytest.mark.xdist_group(group), *marks])


def marks_of(name: str) -> list[Any]:
    """What expects the case to fail where it loses items today."""
    return [pytest.mark.xfail(strict=True, reason=LOSES[name])] if name in LOSES else []


@pytest.mark.parametrize("name", [case(name, *marks_of(name)) for name in CASES])
def test_nothing_is_lost_that_says_something_new(name, site, crawls) -> None:
    without, with_plugin = crawls(name)
    assert without.n_items, "the spider brings no items at all"
    lost = lost_items(site, without, with_plugin)
    assert lost.total() <= CASES[name].may_lose * without.n_items, list(lost.items())[:5]
    assert with_plugin.files == without.files


@pytest.mark.parametrize("name", [case(name) for name in CASES])
def test_nothing_is_added_or_changed(name, crawls) -> None:
    without, with_plugin = crawls(name)
    for page, items in with_plugin.pages.items():
        assert items <= without.of(page)


@pytest.mark.parametrize("name", [case(name) for name in CASES])
def test_no_callback_and_no_part_of_the_plugin_fails(name, crawls) -> None:
    for crawl in crawls(name):
        failed = ("spider_exceptions/", "neardup/errors/", "log_count/ERROR", "log_count/CRITICAL")
        assert not {key: n for key, n in crawl.stats.items() if key.startswith(failed)}


@pytest.mark.parametrize("name", [case(name) for name in REPEATING])
def test_copies_say_without_the_plugin_what_their_original_says(name, site, crawls) -> None:
    without, _ = crawls(name)
    for copy in site.copies.keys() - site.print_versions:
        assert without.of(f"GET {copy}") == without.of(f"GET {site.copies[copy]}")


@pytest.mark.parametrize("name", [case(name) for name in REPEATING])
def test_of_pages_equal_in_all_bytes_one_is_kept(name, site, crawls) -> None:
    both = crawls(name)  # first: it is what plants the copies
    equal = site.copies.keys() - site.print_versions
    n_groups, kept_twice = count_groups(site, *both, planted=equal)
    assert n_groups
    assert kept_twice == 0


@pytest.mark.xdist_group("copies")
def test_of_five_print_versions_four_are_dropped(site, crawls) -> None:
    """Of all cases together: which are found depends on the key, and one case has only ten."""
    counts = [
        count_groups(site, *crawls(name), planted=site.print_versions)
        for name in REPEATING
        if CASES[name].build is news
    ]
    n_groups, kept_twice = (sum(column) for column in zip(*counts, strict=True))
    assert n_groups
    assert kept_twice <= n_groups / 5


def test_spiders_of_one_process_write_the_same_feeds_with_the_plugin(
    site: OrdinarySite, tmp_path: Path
) -> None:
    names = ["item-attrs", "two-requests-cb-kwargs", "gathered-answers", "several-items-a-page"]
    for name in names:
        CASES[name].build(site, f"/{name}")
    for folder, addons in (("without", {}), ("with", ADDONS)):
        asyncio.run(crawl_together(names, site, tmp_path / folder, addons))
    without, with_plugin = (feeds(tmp_path / folder) for folder in ("without", "with"))
    assert len(without) == 2 * len(names), "two feeds a spider"
    assert with_plugin == without


async def crawl_together(
    names: list[str], site: OrdinarySite, folder: Path, addons: dict[str, int]
) -> None:
    """Run spiders at the same time in this process, each with feeds of its own."""
    exporters = {"lines": "scrapy.exporters.PprintItemExporter"}
    written = {str(folder / "%(name)s.csv"): "csv", str(folder / "%(name)s.lines"): "lines"}
    own = {"FEED_EXPORTERS": exporters, "ADDONS": addons}
    own["FEEDS"] = {path: {"format": kind} for path, kind in written.items()}
    runner = AsyncCrawlerRunner(SETTINGS | own)
    for name in names:
        runner.crawl(CASES[name].spider, root=site.url(f"/{name}"))
    await runner.join()


def feeds(folder: Path) -> dict[str, list[bytes]]:
    """The lines of each feed, in any order."""
    return {path.name: sorted(path.read_bytes().splitlines()) for path in folder.iterdir()}
