"""Products whose pages differ in one fact: how many are dropped as near.

    python -m benchmarks.one_fact [--pages N] [--seed S]

A shop of N products made by rule is read, then each product once more with one fact changed.
"+ teasers": four other products beside each, drawn anew for each page. Facts compared, or ignored.
The two last rows change words only, which are no facts; "unchanged" shows how many copies there
are to find.
"""

import argparse
import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace

from scrapy_neardup.detect.content import PageContent
from scrapy_neardup.detect.detector import Detector
from scrapy_neardup.engines import load_engine
from scrapy_neardup.index import load_index

BEGINS = ("ster", "mol", "kan", "vor", "tel", "gri", "pla", "dun", "mar", "sil", "bro", "fen")
ENDS = ("ing", "ed", "er", "ion", "ous", "al", "ity", "ly", "ward", "stone", "light", "wick")
COMMON = "the of and to in a is that for it as was with be by on this are or from at which"
VOCABULARY = [*COMMON.split(), *(begin + end for begin in BEGINS for end in ENDS)]
FOOT = (
    "Warning! This is a shop for tests, and its prices and ratings have no meaning.",
    *("Terms", "Privacy", "© 2026 Books"),
)
AVAILABLE = ("In stock", "Add to basket", "Product description", "Product information")


@dataclass(frozen=True)
class Product:
    """What the page of a product says."""

    title: str
    author: str
    price: str
    isbn: str
    sku: str
    stock: int
    rating: int
    size: str
    degrees: int
    blurb: tuple[str, ...]

    def content(self, menu: list[str], teasers: list[str]) -> PageContent:
        in_stock, add, description, information = AVAILABLE
        lines = [
            *("Books to buy", "Home", *menu, self.title, f"by {self.author}", self.price),
            *(f"{in_stock} ({self.stock} available)", "★" * self.rating, add, description),
            *(*self.blurb, information, "ISBN", self.isbn, "SKU", self.sku, f"Size {self.size}"),
            *("Storage temperature", f"{self.degrees} °C", "Price without tax", self.price),
            *("Tax", "£0.00", "Number of reviews", "0", *teasers, *FOOT),
        ]
        return PageContent("\n".join(lines), [f"{self.title} | Books", self.title])


class Maker:
    """Draws words, prices and products."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)

    def words(self, low: int, high: int) -> str:
        return " ".join(self.chance.choices(VOCABULARY, k=self.chance.randint(low, high)))

    def price(self) -> str:
        return (
            f"£{self.chance.choice((9, 12, 14, 19, 24, 29, 34, 49))}.{self.chance.choice((99, 50))}"
        )

    def isbn(self) -> str:
        return f"978{self.chance.randrange(10**10):010}"

    def sku(self) -> str:
        letter = self.chance.choice("ABCDEF")
        return f"{letter}{self.chance.randint(100, 999)}-{self.chance.randint(10, 99)}"

    def product(self) -> Product:
        blurb = [f"{self.words(20, 60)}." for _ in range(self.chance.randint(3, 6))]
        blurb[0] += " Written in C. It is waterproof."
        return Product(
            self.words(2, 4),
            self.words(2, 2),
            self.price(),
            self.isbn(),
            self.sku(),
            self.chance.randint(1, 30),
            self.chance.randint(1, 5),
            self.chance.choice(("S", "M", "L")),
            self.chance.randint(1, 30),
            tuple(blurb),
        )

    def teasers(self) -> list[str]:
        return [line for _ in range(4) for line in (self.words(3, 3), self.price())]


def reworded(product: Product, old: str, new: str) -> Product:
    return replace(product, blurb=(product.blurb[0].replace(old, new), *product.blurb[1:]))


CHANGES: dict[str, Callable[[Product, Maker], Product]] = {
    "unchanged": lambda product, maker: product,
    "price": lambda p, m: replace(p, price=next(x for x in iter(m.price, "") if x != p.price)),
    "ISBN": lambda p, m: replace(p, isbn=m.isbn()),
    "SKU": lambda p, m: replace(p, sku=m.sku()),
    "stock number": lambda p, m: replace(p, stock=p.stock + 31),
    "rating in ★": lambda p, m: replace(p, rating=p.rating % 5 + 1),
    "currency": lambda p, m: replace(p, price=p.price.replace("£", "$")),
    "minus sign": lambda p, m: replace(p, degrees=-p.degrees),
    "size M to L": lambda p, m: replace(p, size={"S": "M", "M": "L", "L": "S"}[p.size]),
    "C to C++": lambda p, m: reworded(p, " in C.", " in C++."),
    "is to is not": lambda p, m: reworded(p, "is water", "is not water"),
    "title": lambda p, m: replace(p, title=m.words(3, 3)),
    "title, author, ISBN": lambda p, m: replace(
        p, title=m.words(3, 3), author=m.words(2, 2), isbn=m.isbn()
    ),
    "author (words)": lambda p, m: replace(p, author=m.words(2, 2)),
    "one word": lambda p, m: reworded(p, "waterproof", "weatherproof"),
}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.one_fact", description=__doc__)
    parser.add_argument("--pages", type=int, default=200)
    parser.add_argument("--seed", type=int, default=7)
    options = parser.parse_args()
    names = ("compared", "+ teasers", "ignored", "+ teasers")
    print(f"of {options.pages} dropped".ljust(22) + "".join(name.rjust(12) for name in names))
    for name in CHANGES:
        counts = [
            dropped(name, options.pages, options.seed, facts, with_teasers)
            for facts in ("compare", "ignore")
            for with_teasers in (False, True)
        ]
        print(name.ljust(22) + "".join(f"{n:12}" for n in counts), flush=True)


def dropped(name: str, n_pages: int, seed: int, facts: str, with_teasers: bool) -> int:
    """How many pages with the named change are dropped."""
    maker = Maker(seed)
    index = load_index("permuted", blocks=7, distance=6)
    shop = Detector(load_engine("auto"), index, facts=facts)  # type: ignore[arg-type]
    menu = [maker.words(1, 2) for _ in range(50)]
    products = [maker.product() for _ in range(n_pages)]
    kinds: Counter[str] = Counter()
    for reading in ("first", "changed"):
        for i, product in enumerate(products):
            if reading == "changed":
                product = CHANGES[name](product, maker)
            page = product.content(menu, maker.teasers() if with_teasers else [])
            kind = shop.decide(shop.read(f"http://shop.example/{reading}/{i}", page)).kind
            kinds[kind] += reading == "changed"
    return kinds["near"] + kinds["exact"]


if __name__ == "__main__":
    main()
