"""Every URL of the demo site: the page it answers with and what is true about that page."""

from collections.abc import Iterator, Mapping
from functools import cached_property

from example.site.asia import asian_pages
from example.site.events import month_page
from example.site.frame import NAVIGATION, framed
from example.site.manual import dead_range, manual_pages
from example.site.news import news_pages
from example.site.page import Kind, Page, links, prose
from example.site.shop import CATEGORIES, shop_pages

SEED = 7
DISALLOWED = "/account/"
ROBOTS = f"User-agent: *\nDisallow: {DISALLOWED}\n"
WELCOME = (
    "Harbour and Hill began as a bulletin for two valleys and a shed full of tools. Today it "
    "prints the news of the coast, sells what its members make and looks after the control units "
    "that keep their mills turning. On these pages you find all three under one roof.",
    "Everything you read here was written for this site, and everything you can order was drawn, "
    "turned, sewn or cast within a day's walk of it.",
)
ABOUT = (
    "We are four hundred members, nine of whom keep the books. Meetings are open and so are the "
    "accounts: whoever wants to know what a lantern costs us may ask at any store. The paper comes "
    "out on working days, the catalogue twice a year, the manual whenever a unit changes.",
    "Write to us about mistakes. We correct them in the text and say so at its end.",
)
SORRY = (
    "We are sorry, but the page you were looking for is not here any more. It may have moved, or "
    "the link that brought you here may be old. Try the navigation above, or begin "
    "at the front page.",
)


class Plan:
    """The site as a function from path (with query) to Page.

    `pages` are those that can be listed; the calendar goes on for ever, and any unknown path
    gets the same apology with status 200, as on many real sites.
    """

    def __init__(self, seed: int = SEED) -> None:
        self.seed = seed

    @cached_property
    def pages(self) -> Mapping[str, Page]:
        return {page.path: page for page in self._listed()}

    def page(self, path: str) -> Page:
        """The page a URL shows; never fails."""
        return self.pages.get(path) or month_page(self.seed, path) or missing(path)

    def moved(self, path: str) -> str | None:
        """Where a page has moved to; None where it has not."""
        return None

    def _listed(self) -> Iterator[Page]:
        yield Page("/", "home", Kind.LISTING, framed("Welcome", prose(WELCOME) + doors()))
        yield Page("/about/", "about", Kind.LISTING, framed("About us", prose(ABOUT)))
        yield from news_pages(self.seed)
        yield from shop_pages(self.seed)
        yield from manual_pages(self.seed)
        yield from asian_pages(self.seed)
        for number in dead_range():
            yield missing(f"/handbook/v1/{number}.html")


def doors() -> str:
    """Links from the front page that the navigation does not have."""
    categories = [(f"/shop/{category}/", category.capitalize()) for category in CATEGORIES]
    return links([*categories, ("/shop/parts/", "Spare parts")])


def missing(path: str) -> Page:
    return Page(path, "missing", Kind.MISSING, framed("Page not found", prose(SORRY)))


def is_disallowed(path: str) -> bool:
    return path.startswith(DISALLOWED)


DISALLOWED_LINKS = tuple(path for path, _ in NAVIGATION if is_disallowed(path))
