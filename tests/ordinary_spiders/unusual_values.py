"""One page under many URLs, and items that differ in a value that is easily taken for another's."""

import datetime
from decimal import Decimal
from fractions import Fraction

import numpy as np
from mock_site import prose

from .cases import IndexSpider, case
from .site import OrdinarySite, blurb, template

N_PAGES = 12


def one_page(site: OrdinarySite, root: str) -> None:
    """The same bytes under each URL: all that is new is what the spider makes of the URL."""
    body = template("Offer", blurb(150))
    site.add_all(root, {f"offer/{n}": body for n in range(N_PAGES)})


def number_of(response) -> int:
    return int(response.url.rpartition("/")[2])


class Point:
    """A class that nothing is known of but its attributes."""

    def __init__(self, x: int, y: int) -> None:
        self.x, self.y = x, y

    def __repr__(self) -> str:
        return f"Point({self.x}, {self.y})"

    def __str__(self) -> str:
        return "a point"


class Slotted:
    __slots__ = ("x",)

    def __init__(self, x: int) -> None:
        self.x = x

    def __repr__(self) -> str:
        return f"Slotted({self.x})"

    def __str__(self) -> str:
        return "slotted"


class Shown(np.ndarray):
    """An array that tells the tests all of its numbers."""

    def __new__(cls, array: np.ndarray) -> "Shown":
        return array.view(cls)

    def __repr__(self) -> str:
        return repr(self.tolist())


@case(one_page)
class ArraySpider(IndexSpider):
    """Arrays of which str() shows the ends only, and a number that it rounds."""

    name = "arrays"

    def parse_page(self, response):
        long = np.zeros(5000)
        long[2500] = number_of(response)
        yield {"long": Shown(long)}
        yield {"precise": Shown(np.array([1 + number_of(response) * 1e-12]))}


@case(one_page)
class ObjectSpider(IndexSpider):
    name = "plain-objects"

    def parse_page(self, response):
        yield {"at": Point(1, number_of(response))}
        yield {"slots": [Slotted(number_of(response))]}


@case(one_page)
class NumberSpider(IndexSpider):
    name = "numbers-of-all-kinds"

    def parse_page(self, response):
        n = number_of(response)
        kinds = (
            *(Decimal(n) / 7, Fraction(n, 7), complex(n, 1), np.float32(n), np.int64(n)),
            *(2**63 + n, 10**400 + n, 1e300 * (n + 1), datetime.timedelta(n), datetime.time(n)),
        )
        for value in kinds:
            yield {"kind": type(value).__name__, "value": value}


@case(one_page)
class NestedSpider(IndexSpider):
    name = "deep-differences"

    def parse_page(self, response):
        n = number_of(response)
        yield {"a": {"b": [{"c": [1, 2, {"d": n}]}]}}
        yield {"set": {1, 2, 100 + n}}
        yield {"raw": b"\x00" * 300 + bytes([n])}
        yield {"tuple": (1, (2, (3, n)))}
        yield {"keys": {f"key{n}": 1}}
        yield {"path": response.url.removeprefix("http:")[2:]}
        yield {"size": None if n else "", f"extra{n}": None}
        yield {"image_urls": [f"{response.url}/{i}.png" for i in range(n)]}


@case(one_page)
class LongAndShorterTextSpider(IndexSpider):
    """Long terms that all offers share, beside a description that is an offer's own."""

    name = "long-text-beside-longer-text"

    def parse_page(self, response):
        yield {"terms": prose("terms", 3000), "about": prose(f"about {response.url}", 45)}


@case(one_page)
class ColourSpider(IndexSpider):
    """A description of a few lines, of which one word is another."""

    name = "one-word-of-a-description"

    def parse_page(self, response):
        colours = sorted(set(prose("colours", 100).split()))
        colour = colours[number_of(response)]
        yield {"about": f"{prose('about', 40)} {colour} {prose('rest', 10)}"}


@case(one_page)
class NegatedSpider(IndexSpider):
    name = "negation-in-long-text"

    def parse_page(self, response):
        word = "never" if number_of(response) % 2 else "always"
        yield {"section": number_of(response) // 2, "rule": f"{prose('rule', 400)} {word} again"}


@case(one_page)
class MarkupSpider(IndexSpider):
    """Fragments of HTML whose words are the same."""

    name = "fragments-of-html"

    def parse_page(self, response):
        n, text = number_of(response), f"<p>{prose('fragment', 300)}</p>"
        for kind, markup in {
            "link": f"<a href='/next/{n}'>more</a>",
            "image": f"<img srcset='/{n}.png 2x'>",
            "alt": f"<img src=a.png alt='{prose(n, 3)}'>",
            "data": f"<div data-id={n}></div>",
            "input": f"<input name=id value={n}>",
            "option": f"<select><option value={n}>One</select>",
            "script": f"<script>var state = {{'a': {n}}}</script>",
            "json": f'<script type="application/json">{{"id": {n}}}</script>',
            "svg": f"<svg><path d='M {n} 0'/></svg>",
            "frame": f"<iframe src='/map/{n}'></iframe>",
            "style": f"<i style='width: {10 * n}%'></i>",
            "class": f"<i class='stars-{n}'></i>",
        }.items():
            yield {"kind": kind, "html": f"<div>{text}{markup}</div>"}
