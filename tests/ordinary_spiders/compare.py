"""What the plugin dropped of a crawl: what it should not have, and what it should."""

from collections import Counter, defaultdict
from collections.abc import Set

from .crawl import Crawl
from .site import OrdinarySite


def copies_of(site: OrdinarySite, crawl: Crawl) -> dict[str, list[str]]:
    """The crawl's pages by their original; the original is one of them."""
    groups = defaultdict(list)
    for page in crawl.pages:
        method, _, path = page.partition(" ")
        groups[f"{method} {site.copies.get(path, path)}"].append(page)
    return groups


def lost_items(site: OrdinarySite, without: Crawl, with_plugin: Crawl) -> Counter[tuple[str, str]]:
    """Items that the plugin dropped, but for those of copies whose group has a page kept whole."""
    lost: Counter[tuple[str, str]] = Counter()
    for pages in copies_of(site, without).values():
        missing = {page: without.pages[page] - with_plugin.of(page) for page in pages}
        if len(pages) == 1 or all(missing.values()):
            # Of a group that was lost as a whole one page's items would have been enough.
            page = min(pages, key=lambda page: missing[page].total())
            lost.update({(page, item): count for item, count in missing[page].items()})
    return lost


def count_groups(
    site: OrdinarySite, without: Crawl, with_plugin: Crawl, planted: Set[str]
) -> tuple[int, int]:
    """Groups of a page and its copies of the kind, and how many are kept more than once."""
    groups = [
        pages
        for pages in copies_of(site, without).values()
        if any(page.partition(" ")[2] in planted for page in pages)
    ]
    kept = [sum(page in with_plugin.pages for page in pages) for pages in groups]
    return len(groups), sum(n > 1 for n in kept)
