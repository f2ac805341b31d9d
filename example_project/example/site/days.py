"""The demo site on one of many days: what changed since the day before, and what always varies."""

import re
from collections.abc import Callable
from dataclasses import replace
from html import escape
from random import Random

from example.site.frame import framed
from example.site.page import Kind, Page, links, prose
from example.site.plan import Plan, missing
from example.site.writer import Writer

CHANCE = 0.07  # that a product has another price on a day, or another stock
REMOVED, MOVED_FROM, MOVED_TO = "/asia/", "/about/", "/about-us/"
REMOVED_ON = MOVED_ON = 2
TODAY = "/news/today/"
ADVERTISEMENTS = (
    "Lanterns that outlast the winter, half price until they are gone",
    "Learn to turn wood in a week: places left in the workshop",
    "A bench for two, made of oak from the valley",
    "Honey of the year has arrived in all stores",
)


class Day(Plan):
    """The site on a day, from 1 on. Every page has a date, a counter, advertising and a token.

    Each day some prices and stocks are others, and there is one more article. On day 2 a section
    is gone and a page has moved. `changed` are the paths of listed pages that say something else
    than the day before, apart from what varies and from the menu.
    """

    def __init__(self, day: int) -> None:
        super().__init__()
        self.day = day
        self.n_served = 0
        self.changed: set[str] = set()
        before, self._today = self._of_day(day - 1), self._of_day(day)
        for path in (before.keys() & self._today.keys()) if day > 1 else ():
            texts = [self._without_links(pages[path].html) for pages in (before, self._today)]
            if texts[0] != texts[1]:
                self.changed.add(path)

    def moved(self, path: str) -> str | None:
        """Where a page has moved to."""
        return MOVED_TO if path == MOVED_FROM and self.day >= MOVED_ON else None

    def page(self, path: str) -> Page:
        """The page a URL shows at this visit."""
        page = self._today.get(path)
        if page is None:
            is_gone = path in self.pages
            page = missing(path) if is_gone else super().page(path)
            page = replace(page, html=self._without_links(page.html))
        self.n_served += 1
        return replace(page, html=page.html.replace("</body>", self._noise() + "</body>"))

    def _of_day(self, day: int) -> dict[str, Page]:
        pages = {page.path: self._edited(page, day) for page in self.pages.values()}
        if day >= REMOVED_ON:
            pages = {path: page for path, page in pages.items() if not path.startswith(REMOVED)}
        if day >= MOVED_ON:
            pages[MOVED_TO] = replace(pages.pop(MOVED_FROM), path=MOVED_TO)
        for number in range(1, day + 1):
            writer = Writer(("common", "news"), f"day {number}")
            main = prose(writer.paragraphs(6, 5))
            path = f"{TODAY}{number}"
            html = framed(writer.write("headline"), main)
            page = Page(path, f"news of day {number}", Kind.OWN, html)
            pages[path] = self._edited(page, day)
        news = links((f"{TODAY}{number}", f"News of day {number}") for number in range(1, day + 1))
        home = pages["/"]
        pages["/"] = replace(home, html=home.html.replace("</main>", news + "</main>"))
        return pages

    def _edited(self, page: Page, day: int) -> Page:
        """A page with the price and the stock that it has on a day."""
        html = self._without_links(page.html) if day >= REMOVED_ON else page.html
        if 'class="price"' in html and page.kind is Kind.OWN:
            html = re.sub(r'(class="price">)(\d+)', _raised(self._n("price", page, day)), html)
            stock = f"<p>{5 + self._n('stock', page, day)} in stock</p>"
            html = html.replace("</main>", stock + "</main>")
        return replace(page, html=html)

    def _n(self, what: str, page: Page, day: int) -> int:
        """How often something of a page has changed by a day."""
        return sum(Random(f"{what} {page.path} {n}").random() < CHANCE for n in range(2, day + 1))

    def _without_links(self, html: str) -> str:
        """A page as it is when a section is gone."""
        return re.sub(rf'<li><a href="{REMOVED}[^"]*">[^<]*</a></li>', "", html)

    def _noise(self) -> str:
        visit = Random(f"{self.day} {self.n_served}")
        made = f"{self.day} May 2026, {visit.randrange(24):02}:{visit.randrange(60):02}"
        return (
            f"<p>Page made on {made}</p><p>{visit.randrange(10**6):,} visits</p>"
            f"<h2>Advertisement</h2><p>{escape(visit.choice(ADVERTISEMENTS))}</p>"
            f'<input type="hidden" name="token" value="{visit.randbytes(16).hex()}">'
            "<p>End of the page</p>"
        )


def _raised(by: int) -> Callable[[re.Match[str]], str]:
    return lambda found: f"{found[1]}{int(found[2]) + 5 * by}"
