"""A shop: products in listings, stores and parts from one template, stock notes, many copies."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from random import Random

from example.site.frame import bare, framed
from example.site.page import Kind, Page, link, links, prose, slug
from example.site.writer import Writer

CATEGORIES = ("kitchen", "outdoor", "workshop", "travel", "garden", "home")
N_PRODUCTS = 90
N_STORES = 40
N_PARTS = 20
N_STOCK_NOTES = 25
N_ON_SALE = 20
N_VIEWED = 30
N_IN_LETTERS = 40
PER_LISTING = 10
DELIVERY = (
    "Orders placed before noon leave the same day. You may send anything back within thirty days "
    "as long as it has not been used. Repairs are made at cost for as long as parts can be had."
)
TERMS = (  # what makes pages of different stores alike
    "Bring the receipt or the card you paid with and we take back whatever you bought in any of "
    "our stores. Lamps, blades and anything with a battery can be left here for recycling, even if "
    "they come from elsewhere. Members pay for what they take at the end of the month; everybody "
    "else pays at the counter, in cash or by card.",
    "Large things are delivered within thirty miles on the cooperative's own van, on the day after "
    "you order them, between seven and noon. The driver brings them over the doorstep and not "
    "further. If nobody is at home, the parcel goes back to the store and waits there for a week.",
)
LETTERS = "utm_source=letter&utm_medium=email&utm_campaign=issue-{}"


@dataclass(frozen=True, slots=True)
class Product:
    """What listings need to know of a product."""

    number: int
    name: str
    price: str
    teaser: str
    main: str

    @property
    def category(self) -> str:
        return CATEGORIES[self.number % len(CATEGORIES)]

    @property
    def path(self) -> str:
        return f"/shop/{self.category}/{slug(self.name)}-{self.number}"


def shop_pages(seed: int) -> Iterator[Page]:
    products = [write_product(seed, number) for number in range(N_PRODUCTS)]
    pages = [product_page(product) for product in products]
    yield from pages
    yield from listing_pages(products)
    yield from category_pages(products)
    yield from sale_pages(products, pages)
    yield from viewed_pages(seed, products, pages)
    yield from letter_pages(products, pages)
    yield from store_pages(seed)
    yield from part_pages(seed)
    for product in products[:N_STOCK_NOTES]:
        yield stock_note(seed, product)


def write_product(seed: int, number: int) -> Product:
    writer = Writer(("common", "shop"), f"{seed} product {number}")
    name = f"{writer.write('line')} {writer.write('noun')}"
    description = writer.paragraphs(3, 4)
    price = f"{writer.rng.randint(9, 240)}.{writer.rng.choice(('00', '50', '90'))} crowns"
    main = f'<p class="price">{price}</p>' + prose(description) + features(writer) + reviews(writer)
    return Product(number, name, price, description[0], main)


def features(writer: Writer) -> str:
    sizes = [writer.rng.randint(4, 80) for _ in range(3)]
    rows = {
        "Article number": f"{writer.rng.randint(10_000, 99_999)}",
        "Material": f"{writer.word('material')}, {writer.word('material')}",
        "Colours": ", ".join(sorted({writer.word("colour") for _ in range(3)})),
        "Size": "{} × {} × {} cm".format(*sizes),
        "Made in": writer.word("place"),
    }
    return specification(rows)


def specification(rows: dict[str, str]) -> str:
    cells = (f"<tr><th>{name}</th><td>{escape(value)}</td></tr>" for name, value in rows.items())
    return f"<table>{''.join(cells)}</table>"


def reviews(writer: Writer) -> str:
    texts = [
        f"{writer.rng.randint(2, 5)} of 5. {writer.write('review')} ({writer.write('buyer')})"
        for _ in range(writer.rng.randint(2, 5))
    ]
    return "<h2>Reviews</h2>" + prose(texts)


def product_page(product: Product) -> Page:
    stock = link(f"/shop/stock/{product.number}", "Check stock")
    main = product.main + (stock if product.number < N_STOCK_NOTES else "") + prose([DELIVERY])
    html = framed(product.name, main, "shop")
    return Page(product.path, f"product/{product.number}", Kind.OWN, html)


def listing_pages(products: Sequence[Product]) -> Iterator[Page]:
    n_pages = len(products) // PER_LISTING
    for number in range(1, n_pages + 1):
        shown = products[(number - 1) * PER_LISTING : number * PER_LISTING]
        cards = "".join(
            f"<h2>{link(product.path, product.name)}</h2><p>{product.price}</p>"
            + prose([product.teaser])
            for product in shown
        )
        following = link(f"/shop/?page={number + 1}", "Next page") if number < n_pages else ""
        html = framed(f"All products, page {number}", cards + following)
        yield Page(f"/shop/?page={number}", f"shop/listing/{number}", Kind.LISTING, html)


def category_pages(products: Sequence[Product]) -> Iterator[Page]:
    for category in CATEGORIES:
        shown = [product for product in products if product.category == category]
        entries = links((product.path, f"{product.name}, {product.price}") for product in shown)
        html = framed(category.capitalize(), entries)
        yield Page(f"/shop/{category}/", f"shop/{category}", Kind.LISTING, html)


def sale_pages(products: Sequence[Product], pages: Sequence[Page]) -> Iterator[Page]:
    """The same product pages once more below /shop/sale/."""
    chosen = range(0, 2 * N_ON_SALE, 2)
    copies = [pages[number].also_at(f"/shop/sale/item-{number}", Kind.COPY) for number in chosen]
    yield from copies
    names = [f"{products[number].name}, reduced" for number in chosen]
    html = framed("Sale", links((c.path, n) for c, n in zip(copies, names, strict=True)))
    yield Page("/shop/sale/", "shop/sale", Kind.LISTING, html)


def viewed_pages(seed: int, products: Sequence[Product], pages: Sequence[Page]) -> Iterator[Page]:
    """Recently viewed products, linked with the session id of a visitor without cookies."""
    token = "{:032x}".format(Random(f"{seed} session").getrandbits(128))
    entries = []
    for number in range(N_VIEWED):
        page = pages[-number - 1]
        java = f"{page.path};jsessionid={token.upper()}"
        path = java if number % 2 else f"{page.path}?PHPSESSID={token}"
        yield page.also_at(path, Kind.SESSION)
        entries.append((path, f"You looked at {products[-number - 1].name}"))
    html = framed("Recently viewed", links(entries))
    yield Page("/shop/viewed/", "shop/viewed", Kind.LISTING, html)


def letter_pages(products: Sequence[Product], pages: Sequence[Page]) -> Iterator[Page]:
    """Newsletters, whose links say from which issue a visitor came."""
    entries = []
    for number in range(N_IN_LETTERS):
        product, page = products[(number * 7) % N_PRODUCTS], pages[(number * 7) % N_PRODUCTS]
        path = f"{page.path}?{LETTERS.format(number % 6)}"
        yield page.also_at(path, Kind.TRACKING)
        entries.append((path, f"Issue {number % 6}: the {product.name}"))
    html = framed("Our newsletters", links(sorted(entries, key=lambda entry: entry[1])))
    yield Page("/letters/", "shop/letters", Kind.LISTING, html)


def store_pages(seed: int) -> Iterator[Page]:
    entries = []
    for number in range(N_STORES):
        writer = Writer(("common", "shop"), f"{seed} store {number}")
        name = f"Our store in {writer.word('place')}, {writer.word('street')} {number + 1}"
        path = f"/shop/stores/{number}"
        html = framed(name, store(writer))
        yield Page(path, f"store/{number}", Kind.TEMPLATE, html)
        entries.append((path, name))
    html = framed("All stores", links(entries))
    yield Page("/shop/stores/", "shop/stores", Kind.LISTING, html)


def store(writer: Writer) -> str:
    hours = {
        day: f"{writer.rng.randint(7, 10)}.{writer.rng.choice(('00', '15', '30'))} to "
        f"{writer.rng.randint(16, 20)}.{writer.rng.choice(('00', '30', '45'))}"
        for day in ("Monday to Wednesday", "Thursday", "Friday", "Saturday")
    }
    ways = sorted({writer.write("way") for _ in range(3)})
    services = links(
        ("/about/", service) for service in sorted({writer.word("service") for _ in "123"})
    )
    telephone = f"0{writer.rng.randint(20, 99)} {writer.rng.randint(100_000, 999_999)}"
    contact = {
        "Telephone": telephone,
        "Floor space": f"{writer.rng.randint(80, 900)} square metres",
    }
    return prose(ways) + specification(hours | contact) + services + prose([*TERMS, DELIVERY])


def part_pages(seed: int) -> Iterator[Page]:
    """Data sheets: nearly every label is shared, nearly every value is not."""
    entries = []
    for number in range(N_PARTS):
        writer = Writer(("common", "shop"), f"{seed} part {number}")
        name = f"{writer.write('partname')} {writer.rng.randint(1000, 9999)}"
        path = f"/shop/parts/{slug(name)}-{number}"
        yield Page(path, f"part/{number}", Kind.TEMPLATE, framed(name, part(writer)))
        entries.append((path, name))
    html = framed("Spare parts", links(entries))
    yield Page("/shop/parts/", "shop/parts", Kind.LISTING, html)


def part(writer: Writer) -> str:
    def number(low: int, high: int) -> str:
        return str(writer.rng.randint(low, high))

    rows = {
        "Order code": f"{writer.word('line')}-{number(100, 999)}-{number(10, 99)}",
        "Fits": " and ".join(f"{writer.word('line')} {writer.word('noun')}" for _ in "12"),
        "Material": f"{writer.word('material')} with {writer.word('material')}",
        "Length": f"{number(11, 480)} mm",
        "Width": f"{number(4, 95)} mm",
        "Weight": f"{number(2, 750)} g",
        "Pack of": number(1, 24),
        "Price": f"{number(1, 30)}.{number(10, 90)} crowns",
        "Stored in": f"{writer.word('place')}, shelf {number(1, 60)}",
    }
    fitting = prose(writer.paragraphs(1, 3))
    return specification(rows) + fitting


def stock_note(seed: int, product: Product) -> Page:
    """A pop-up of a few words: too short to be compared, so it has to be kept."""
    n_left = Random(f"{seed} stock {product.number}").randint(2, 60)
    text = f"{product.name} {product.number}: {n_left} left"
    path = f"/shop/stock/{product.number}"
    return Page(path, f"stock/{product.number}", Kind.TINY, bare(product.name, prose([text])))
