"""A site with every trap that a crawl meets, and the truth about it: which URL shows what.

content              found as
session N            /session/item?id=N, with another &s= in each list
sorted N             /sorted/item?id=N, also with sort=up and sort=down
print N              /print/N and /print/N/print
from N               /from/N, with another from= in each list
both N               /both/item?id=N, with a session, and with print=1 as well
path N               /path/TOKEN/N, with another TOKEN in each list
lang N de            /lang/N?lang=de, another content than /lang/N: no copy, nor below
users bob N 2        /users/bob/p?n=N&v=2; of Ann's pages, v=2 means nothing
good N               /good/N, all of one shape, all linked by /sitemap
archive DATE         /archive/Y/M/D, each day another
event N              /event/N, linked by a day of month N
real NAME            /real/NAME, six levels

trap                 what never ends, or nearly so, and says nothing
/shop                a list under filters, in every combination of which real pages link to five
/pick                the same, but each combination lists other products, and links to others
/calendar, /events   months without events: long pages, and short ones
/month, /day         months that link to their days and to the next; some days of the first two
                     years have an event
/grow, /amp          links that add an argument: &p=2, &amp%3Bp=2
/rel/                relative links that lengthen the path
/search              results for words, with links to further words
/gone                paths of any shape that answer 200 and "not found"
"""

from collections import Counter
from collections.abc import Iterator
from hashlib import blake2b
from itertools import product
from random import Random
from urllib.parse import parse_qsl, urlsplit

from tests.mock_site import MockSite, Reply, page, prose

N_LISTS = 5  # lists of all items, each with links of its own
PER_LIST = 20
WIDTH = 3  # of the tree of real pages
LEVELS = 5
SHAPES = ("/{0}.html", "/news/{0}", "/old/{0}/{1}", "/{0}/{1}/{2}", "/p/{0}?x={1}")
COPIES = ("session", "sorted", "print", "from", "both", "path")
ENDLESS = ("pick", "calendar", "events", "month", "day", "grow", "amp", "rel", "search")
TRAPS = ("shop", *ENDLESS)
COLOURS = ("red", "blue", "green", "")
SIZES = ("small", "large", "")
SORTS = ("new", "cheap", "")
N_EVENTS, N_DAYS = 24, 10
MONTHS = ("January", "March", "May", "July", "August", "October", "December")


def token(*seed: object) -> str:
    return blake2b(repr(seed).encode(), digest_size=10).hexdigest()


def links_to(i: int, n: int) -> Iterator[str]:
    """Links to item i from list n, one for each kind of copy."""
    yield f"/session/item?id={i}&s={token('s', i, n)}"
    yield f"/sorted/item?id={i}" + ("" if n == 0 else f"&sort={('up', 'down')[n % 2]}")
    yield f"/print/{i}" + ("" if n % 2 == 0 else "/print")
    yield f"/from/{i}" + ("" if n == 0 else f"?from=list-{n}x{i}")
    yield f"/both/item?id={i}&s={token('b', i, n)}" + ("" if n % 2 == 0 else "&print=1")
    yield f"/path/{token('p', i, n)}/{i}"
    yield f"/lang/{i}" + ("" if n % 2 == 0 else "?lang=de")
    yield f"/users/{('ann', 'bob')[i % 2]}/p?n={i}" + ("" if n % 2 == 0 else "&v=2")


def content(url: str) -> str | None:
    """What a URL's page says; None for lists, traps and what is not there."""
    parts = urlsplit(url)
    kind, _, rest = parts.path.lstrip("/").partition("/")
    given = dict(parse_qsl(parts.query))
    match kind:
        case "session" | "sorted" | "both":
            return f"{kind} {given['id']}"
        case "print" | "from":
            return f"{kind} {rest.partition('/')[0]}"
        case "path":
            return f"path {rest.partition('/')[2]}"
        case "lang":
            return f"lang {rest} {given.get('lang', 'en')}"
        case "users":
            version = given.get("v", "1") if rest.startswith("bob") else "1"
            return f"users {rest} {given['n']} {version}"
        case "good" | "real" | "archive" | "event":
            return f"{kind} {rest}" if rest else None
    return None


class TrapSite(MockSite):
    """The site; n_items of each kind, and a multiple of that of good pages and days."""

    n_items = 150

    def reply(self, method: str, path: str, cookie: str, body: bytes) -> Reply:
        if path == "/robots.txt":
            return Reply(b"", 404)
        with self._lock:
            self.hits[method, path] += 1
        if (said := content(path)) is not None:
            return Reply(page(prose(said), *self._links_on(path)))
        kind, _, rest = path.lstrip("/").partition("?")[0].partition("/")
        given = parse_qsl(urlsplit(path).query)
        match kind:
            case "":
                return Reply(page("Start", *self._starts()))
            case "list":
                return Reply(page("A list", *self.items(*map(int, rest.split("/")), self.n_items)))
            case "sitemap":
                return Reply(page("Sitemap", *good(self.n_items)))
            case "archive":
                return Reply(page("Archive", *days(self.n_items)))
        return trap(kind, path, given) or Reply(page(f"Sorry. {prose('not found', 40)}"))

    def _starts(self) -> Iterator[str]:
        yield from (f"/list/{n}/0" for n in range(N_LISTS))
        yield from ("/sitemap", "/archive", "/real/r", "/shop", "/pick")
        yield from ("/calendar?m=1", "/events?m=1", "/grow?p=1", "/amp?p=1", "/rel/", "/search?q=a")
        yield "/month/1"

    @staticmethod
    def items(n: int, first: int, n_items: int) -> list[str]:
        """Links on a page of a list, which begins with this item."""
        chance = Random(f"{n} {first}")
        last = min(first + PER_LIST, n_items)
        links = [link for i in range(first, last) for link in links_to(i, n)]
        names = [[token(n, first, k, j)[:9] for j in range(3)] for k in range(6)]
        links += [chance.choice(SHAPES).format(*name) for name in names]
        chance.shuffle(links)
        return links + ([f"/list/{n}/{last}"] if last < n_items else [])

    @staticmethod
    def _links_on(path: str) -> Iterator[str]:
        name = path.removeprefix("/real/")
        if name != path:
            if len(name) <= LEVELS:
                yield from (f"/real/{name}{i}" for i in range(WIDTH))
            yield from Random(name).sample(list(combinations("/shop/all")), 5)

    @classmethod
    def planted_of(cls, n_items: int) -> tuple[Counter[str], set[str]]:
        """Copies by kind, and all contents that links lead to."""
        items = range(n_items)
        urls = {link for i in items for n in range(N_LISTS) for link in links_to(i, n)}
        contents = {said for url in urls if (said := content(url))}
        copies = Counter(url.split("/")[1] for url in urls)
        copies.subtract(said.split()[0] for said in contents)
        events = [f"/event/{n}" for n in range(1, N_EVENTS + 1)]
        single = [*good(n_items), *days(n_items), *events, *real_pages()]
        return copies, contents | {said for url in single if (said := content(url))}


def good(n_items: int) -> Iterator[str]:
    return (f"/good/{i}" for i in range(2 * n_items))


def days(n_items: int) -> Iterator[str]:
    for i in range(2 * n_items):
        yield f"/archive/{2000 + i // 336}/{i // 28 % 12 + 1}/{i % 28 + 1}"


def real_pages() -> Iterator[str]:
    for level in range(LEVELS + 1):
        for digits in product("012", repeat=level):
            yield "/real/r" + "".join(digits)


def combinations(path: str, n_pages: int = 9) -> Iterator[str]:
    """URLs of a list under every combination of filters, whose names nobody has listed."""
    for colour, size, sort, page_ in product(COLOURS, SIZES, SORTS, range(n_pages)):
        chosen = {"f_col": colour, "pa_size": size, "orderby": sort, "pg": page_ or ""}
        query = "&".join(f"{name}={value}" for name, value in chosen.items() if value)
        yield f"{path}?{query}" if query else path


ALL_PICKS = list(combinations("/pick", 200))


def trap(kind: str, path: str, given: list[tuple[str, str]]) -> Reply | None:
    """A page of a trap; None for what is none."""
    last = given[-1][1] if given else ""
    match kind:
        case "shop" | "pick":
            return filtered(kind, path)
        case "calendar" | "events":
            month = int(last)
            text = f"No events in {MONTHS[month % 7]} {2020 + month // 7}"
            long = f" {prose('calendar')}" if kind == "calendar" else ""
            return Reply(page(text + long, f"/{kind}?m={month + 1}", f"/{kind}?m={month + 2}"))
        case "month" | "day":
            return in_calendar(*map(int, path.split("/")[2:]))
        case "grow":
            return Reply(page(prose("grow"), f"{path}&p={len(given) + 1}"))
        case "amp":
            return Reply(page(prose("amp"), f"{path}&amp%3Bp={len(given) + 1}"))
        case "rel":
            return Reply(page(prose("rel"), f"{path}more/"))
        case "search":
            chance = Random(path)
            found = (f"/good/{chance.randrange(50)}" for _ in range(5))
            words = (f"/search?q={prose(f'{path} {i}', 1)}" for i in range(4))
            return Reply(page(f"Results for {last}", *found, *words))
    return None


def in_calendar(month: int, day: int | None = None) -> Reply:
    if day is None:
        days = (f"/day/{month}/{day}" for day in range(1, N_DAYS + 1))
        return Reply(page(f"{prose('month')} {month}", f"/month/{month + 1}", *days))
    events = (f"/event/{month}",) if month <= N_EVENTS and day == month % N_DAYS + 1 else ()
    text = f"{prose('No events on this day')} {day}. {month}"
    return Reply(page(text, f"/day/{month}/{day % N_DAYS + 1}", f"/month/{month}", *events))


def filtered(kind: str, path: str) -> Reply:
    if path == "/shop":
        return Reply(page(prose(kind), *combinations("/shop/all")))
    if kind == "shop":
        return Reply(page(prose("all of the shop")))
    chosen = Random(path).sample(range(60), 15)
    others = Random(path).sample(ALL_PICKS, 20)
    products = [f"Product {prose(f'p{i}', 6)}" for i in chosen]
    links = [f'<a href="{other}">another filter</a>' for other in others]
    return Reply(page("</p><p>".join(products + links)))
