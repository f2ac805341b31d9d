"""Pages of equal text told apart by what many share: a brief line, a fact, a place."""

from collections.abc import Callable
from itertools import product
from random import Random
from typing import Any

from mock_site import prose

from .cases import IndexSpider, case
from .said_in_words import WholePageSpider
from .site import OrdinarySite, template

STATES = ("Available", "Sold out", "Coming very soon", "No longer made by us")
TOWNS = ("Berlin", "New York", "Frankfurt am Main", "Oslo")
AUTHORS = ("Anna Smith", "Anna Smyth", "Anna Müller", "Anna Muller")
SIZES = ("Small", "Medium", "Large", "Very large")
NAMES = [prose(f"name {n}", 1).capitalize() for n in range(40)]


class WholeTextSpider(IndexSpider):
    """Its items hold all that the page shows."""

    def parse_page(self, response: Any):
        yield {"url": response.url, "text": " ".join(response.xpath("//body//text()").getall())}


Line = Callable[[int, int], str]


def state(n: int, variant: int) -> str:
    return f"<p>{STATES[variant]}</p>"


def author(n: int, variant: int) -> str:
    """Names that share most of their letters."""
    return f"<p>By {AUTHORS[variant]}</p>"


def labelled_state(n: int, variant: int) -> str:
    return f"<dl><dt>Availability<dd>{STATES[variant]}<dt>Ships from<dd>Oslo</dl>"


def town_twice(n: int, variant: int) -> str:
    town = TOWNS[variant]
    return f"<p>{town}</p><p>{prose(f'job {n}', 40)}</p><p>Where: {town}</p>"


def badge(n: int, variant: int) -> str:
    """One variant has none."""
    return ("", "<p>Sold out</p>", "<p>Fresh</p>", "<p>-20 %</p>")[variant]


def badges(n: int, variant: int) -> str:
    """Each of two may be missing."""
    return variant % 2 * "<p>Sold out</p>" + variant // 2 * "<p>New</p>"


def choices(n: int, variant: int) -> str:
    """A list that goes on in some variants."""
    return "".join(f"<li>{size}" for size in SIZES[: variant + 1])


def table_of_two(n: int, variant: int) -> str:
    """Every other variant has the two names in each other's place."""
    names = Random(n // 2).sample(NAMES, 4)
    home, away = names[variant // 2 * 2 :][:2][:: -1 if variant % 2 else 1]
    return f"<table><tr><td>Home<td>{home}<tr><td>Away<td>{away}</table>"


def ranking(n: int, variant: int) -> str:
    """A list of five, of which two neighbours have changed places."""
    names = Random(n).sample(NAMES, 5)
    names[variant : variant + 2] = names[variant : variant + 2][::-1]
    return "<ol>" + "".join(f"<li>{name}" for name in names) + "</ol>"


def amenities(n: int, variant: int) -> str:
    """Two lines that stand on every page, each with a mark of its own."""
    parking, pets = ("✔✘"[mark] for mark in divmod(variant, 2))
    return f"<p>Free parking in front {parking}</p><p>Pets in all rooms {pets}</p>"


def term(n: int, variant: int) -> str:
    """A number in a long line."""
    days = (3, 5, 8, 14)[variant]
    return f"<p>Whoever does not like it may send it back to our shop within {days} days.</p>"


def denial(n: int, variant: int) -> str:
    """A negation in a long line in the middle of a page."""
    may = ("now", "not", "never", "not without us")[variant]
    said = f"From next Monday on visitors may {may} use the road that follows the river."
    return f"<p>{said}</p><p>{prose(f'road {n}', 60)}</p>"


def handed_round(n: int, variant: int, values: list[str]) -> list[tuple[str, str]]:
    """The same labels in each variant; each value goes some labels further from one to the next."""
    labels = Random(n).sample(NAMES, len(values))
    return list(zip(labels, values[variant:] + values[:variant], strict=True))


def price_list(n: int, variant: int) -> str:
    prices = [f"{Random(n + i).randrange(1000, 9900) / 100:.2f}" for i in range(12)]
    rows = handed_round(n, variant, prices)
    return "<ul>" + "".join(f"<li>{label}: {price}" for label, price in rows) + "</ul>"


def duty_roster(n: int, variant: int) -> str:
    rows = handed_round(n, variant, Random(n + 99).sample(NAMES, 10))
    return "<table>" + "".join(f"<tr><td>{day}<td>{name}" for day, name in rows) + "</table>"


def yes_and_no(n: int, variant: int) -> str:
    rows = handed_round(n, variant, [Random(n + i).choice(("Yes", "No")) for i in range(12)])
    return "<dl>" + "".join(f"<dt>{label}<dd>{answer}" for label, answer in rows) + "</dl>"


def menu_of_the_day(n: int, variant: int) -> str:
    """Other dishes each day, five to eight of them."""
    chance = Random(4 * n + variant)
    names = Random(0).sample(NAMES, 24)
    dishes = zip(chance.sample(names[:12], 8 - variant), chance.sample(names[12:], 8), strict=False)
    return "<ul>" + "".join(f"<li>{dish} with {other}" for dish, other in dishes) + "</ul>"


def obituary(n: int, variant: int) -> str:
    """A name in a sentence, of a page of few words."""
    return (
        f"<p>{NAMES[4 * (n % 10) + variant]}, dear parent and friend of many, passed away on a "
        "quiet Sunday among the family after a long illness that was borne with great patience.</p>"
    )


def told_apart_by(line: Line, n_words: int) -> Callable[[OrdinarySite, str], None]:
    """Builds twenty texts, each on four pages with a line of their own, and copies."""

    def build(site: OrdinarySite, root: str) -> None:
        paths = []
        for n, variant in product(range(20), range(4)):
            paths.append(f"{root}/{n}/{variant}")
            body = f"<p>{prose(str(n), n_words)}</p>{line(n, variant)}"
            site.add(paths[-1], template("Notice", body))
        for path in paths[::5]:
            paths.append(f"{path}/copy")
            site.copy(paths[-1], path)
        site.index(f"{root}/", paths)

    return build


def spiders(line: Line, n_words: int) -> None:
    """Two spiders of such a site: of items that are whole pages, and of their texts."""
    kind = line.__name__.replace("_", "-")
    for base, held in ((WholePageSpider, "whole-page"), (WholeTextSpider, "text")):
        names: dict[str, Any] = {"name": f"shared-{kind}-in-{held}"}
        case(told_apart_by(line, n_words), repeats=True)(type(f"{kind}-{held}", (base,), names))


PLACES = (town_twice, table_of_two, ranking)
FACTS = (amenities, term, denial)
for line in (state, author, labelled_state, badge, badges, choices, *PLACES, *FACTS):
    spiders(line, 200)
for line in (price_list, duty_roster, yes_and_no):  # too long for a text of 200 words to be near
    spiders(line, 1200)
spiders(menu_of_the_day, 400)
spiders(obituary, 70)
