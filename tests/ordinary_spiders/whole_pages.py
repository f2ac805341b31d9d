"""Items that are the whole page or judged by it alone, where its text is not all that it says."""

import json
from collections.abc import Callable
from hashlib import blake2b
from random import Random

from mock_site import prose

from .cases import IndexSpider, case
from .site import OrdinarySite, blurb, product, template

MENU = "".join(f"<a href='/{n}'>{prose(f'menu {n}', 1)}</a> " for n in range(100))


class WholePageSpider(IndexSpider):
    """Its items say nothing but the page."""

    def parse_page(self, response):
        yield {"url": response.url, "html": response.text}


class PageModeSpider(IndexSpider):
    """Its items are judged by their page alone."""

    custom_settings = {"NEARDUP_COMPARE": "page"}  # noqa: RUF012 - Scrapy's way

    def parse_page(self, response):
        yield {"number": int(response.url.rpartition("/")[2])}


def gallery(site: OrdinarySite, root: str) -> None:
    site.add_all(
        root,
        {
            f"{n}": template("Gallery", f"<nav>{MENU}</nav><img src='/pictures/{n}.jpg' alt=''>")
            for n in range(40)
        },
    )


def of_standard_paragraphs(n_words: int, tag: str) -> Callable[[OrdinarySite, str], None]:
    """Four pages of each of 20 clients: what is said of the client, and ten of 20 paragraphs."""

    def build(site: OrdinarySite, root: str) -> None:
        parts = [f"<{tag}>{prose(f'{tag} {n}', n_words)}</{tag}>" for n in range(20)]
        clients = [f"<p>{prose(f'client {n}', 60)}</p>" for n in range(20)]
        bodies = [clients[n % 20] + "".join(Random(n).sample(parts, 10)) for n in range(80)]
        site.add_all(root, {f"{n}": template("Terms", body) for n, body in enumerate(bodies)})

    return build


@case(of_standard_paragraphs(40, "p"))
class ContractsSpider(WholePageSpider):
    name = "contracts-of-standard-clauses"


@case(of_standard_paragraphs(12, "li"))
class CoursesSpider(WholePageSpider):
    name = "courses-of-standard-modules"


@case(of_standard_paragraphs(40, "p"))
class ContractsInPageModeSpider(PageModeSpider):
    name = "contracts-of-standard-clauses-in-page-mode"


def behind_the_end(site: OrdinarySite, root: str) -> None:
    """A server that adds what it has to say behind the page."""
    whole = template("Lots", f"<p>{prose('lots', 60)}</p>")
    site.add_all(root, {f"{n}": f"{whole}\n<div>Lot {n} is sold</div>" for n in range(12)})


@case(behind_the_end)
class BehindTheEndSpider(WholePageSpider):
    name = "behind-the-end-of-the-page"


def priced_in_a_script(site: OrdinarySite, root: str) -> None:
    """Offers that say the same, but for the price, which only a script says, and a comment."""
    lot, talk = f"<p>{prose('a lot', 90)}</p>", "<section class=comments>{}</section>"
    site.add_all(
        root,
        {
            f"{n}": template(
                "Lots",
                f"<script type='application/ld+json'>{json.dumps({'price': 100 + n // 2})}</script>"
                f"{lot}{talk.format(prose(f'comment {n % 2}', 30))}",
            )
            for n in range(12)
        },
    )


@case(priced_in_a_script)
class TakesOutScriptsSpider(IndexSpider):
    """Takes out of the page what is no text, and keeps the page as it came, too."""

    name = "scripts-taken-out-of-the-tree"

    def parse_page(self, response):
        response.css("script, section.comments").drop()
        text = " ".join(response.css("main ::text").getall())
        yield {"url": response.url, "text": text, "html": response.text}


def flats(site: OrdinarySite, root: str) -> None:
    """Offers whose long text is the same but for a word, and whose price is only in markup."""
    text = prose("flats", 250)
    page = "<p>{text} {word}</p><div data-price='{n}'><img src='/photo/{n}.jpg' alt=''></div>"
    site.add_all(
        root,
        {
            f"{n}": template("Flats", page.format(text=text, word=prose(f"word {n}", 1), n=n))
            for n in range(24)
        },
    )


@case(flats)
class FlatPageSpider(WholePageSpider):
    name = "prices-in-markup-beside-another-word"


@case(gallery)
class GalleryPageSpider(WholePageSpider):
    name = "gallery-under-a-long-menu"


@case(gallery)
class GalleryModeSpider(PageModeSpider):
    name = "gallery-judged-by-page"


SHOWN_BY_ATTRIBUTES = (
    "<span class=swatch data-colour='{n}'></span>",
    "<span class='stars s{n}'></span>",
    "<button aria-label='Article {n}'>Buy</button>",
    "<select><option value={n}>Size</select>",
    "<input type=hidden name=variant value='{n}'>",
    "<a href='https://maps.example/?q=48.{n},11.5'>Map</a>",
    "<img src=/lamp.jpg alt='Lamp number {n}'>",
    "<i style='width: {n}%'></i>",
    "<noscript>Article {n}</noscript>",
    "<svg><text>{n}</text></svg>",
    "<p onclick=\"location.href='/item/{n}'\">Buy</p>",
    "<div typeof=T{n}><b>Buy</b></div>",
    "<div itemscope itemtype='https://schema.org/T{n}'><b>Buy</b></div>",
)


def four_of_each(site: OrdinarySite, root: str, body: Callable[[int, int], str]) -> None:
    """Thirty pages, each in four variants: what body() makes of both numbers."""
    site.add_all(root, {f"{4 * n + v}": body(n, v) for n in range(30) for v in range(4)})


def variants(site: OrdinarySite, root: str) -> None:
    """Thirty products, four variants each, told apart by an attribute."""

    def body(n: int, variant: int) -> str:
        said = SHOWN_BY_ATTRIBUTES[n % len(SHOWN_BY_ATTRIBUTES)].format(n=variant)
        return template(product(n)["name"], f"<p>{prose(n, 30)}</p>{said}{blurb(150)}")

    four_of_each(site, root, body)


@case(variants)
class VariantPageSpider(WholePageSpider):
    name = "variants-by-attribute"


@case(variants)
class VariantModeSpider(PageModeSpider):
    name = "variants-judged-by-page"


EMBEDS = (
    "<script src='https://gist.example/anna/{n}a.js'></script>",
    "<script async src=/widget.js data-video=v{n} data-autoplay></script>",
    "<script src='/poll.js?poll={n}'></script>",
)


def embeds(site: OrdinarySite, root: str) -> None:
    """Thirty texts, each on four pages that differ in what another site's script shows there."""

    def body(n: int, variant: int) -> str:
        embed = EMBEDS[n % len(EMBEDS)].format(n=variant)
        return template(f"Post {prose(n, 1)}", f"<p>{prose(n, 80)}</p>{embed}{blurb(150)}")

    four_of_each(site, root, body)


@case(embeds)
class EmbedPageSpider(WholePageSpider):
    name = "embeds-by-script"


SHOWN_BY_SCRIPT = (
    "var data = {{price: {n}, name: 'x'}};",
    "var data = {{'price': {n}, 'tags': ['a', 'b',],}};",
    "window.__STATE__={{price: `{n} EUR`}};",
    "var sku = 'A-{n}', other;",
    "window.price = {n}.90;",
    "show({n});",
    "$(function() {{ map.center([48.{n}, 11.5], {{zoom: 3}}); }});",
    "prices = ['{n}', '5'];",
    "/* prices */ var p = {{a: undefined, b: -{n}, c: !0}} // the price isn't final",
    "load(JSON.parse('{{\"price\": {n}}}'));",
)


def loose_scripts(site: OrdinarySite, root: str) -> None:
    """Thirty texts, each on four pages that are told apart by a script that holds no JSON."""

    def body(n: int, variant: int) -> str:
        script = SHOWN_BY_SCRIPT[n % len(SHOWN_BY_SCRIPT)].format(n=variant)
        return template(f"Lamp {prose(n, 1)}", f"<p>{prose(n, 80)}</p><script>{script}</script>")

    four_of_each(site, root, body)


@case(loose_scripts)
class ScriptPageSpider(WholePageSpider):
    name = "variants-by-loose-script"


@case(loose_scripts)
class ScriptModeSpider(PageModeSpider):
    name = "loose-scripts-judged-by-page"


# Values of JSON of equal words, which differ in what is empty, or in what belongs together.
STATES = (
    ({"seats": {"A1": {}, "A2": {}}}, {"seats": {"A1": {}, "A3": {}}}, {"seats": {}}, {}),
    ([{"wifi": [], "pool": []}], [{"wifi": [], "bar": []}], [{"wifi": {}, "bar": []}], []),
    ([["Ann", "Bob"], ["Cid", "Dan"]], [["Ann"], ["Bob", "Cid", "Dan"]], ["Ann", ["Bob"]], [[]]),
    (
        [{"team": ["Ann", "Bob"]}, {"team": ["Cid"]}],
        [{"team": ["Ann"]}, {"team": ["Bob", "Cid"]}],
        [{"team": ["Ann", "Bob", "Cid"]}],
        [{"team": ["Ann", "Bob", "Cid"]}, {}],
    ),
    ([{"size": 1}, {"stock": 3}], [{"size": 1, "stock": 3}], [{"size": 1, "stock": [3]}], [1, 3]),
    ({"a": {"b": 1}}, {"a.b": 1}, {"a": {"b": [1]}}, {"a": {"b[]": 1}}),
    ({"is": True}, {"is": "true"}, {"is": None}, {"is": "null"}),
)


def states(site: OrdinarySite, root: str) -> None:
    """Pages of equal text, four for each group of values."""

    def body(n: int, variant: int) -> str:
        state = json.dumps({"props": STATES[n][variant]})
        script = f"<script type='application/json'>{state}</script>"
        return template(f"Hall {prose(n, 1)}", f"<p>{prose(n, 150)}</p>{script}")

    numbers = [(n, variant) for n in range(len(STATES)) for variant in range(4)]
    site.add_all(root, {f"{n}-{variant}": body(n, variant) for n, variant in numbers})


@case(states)
class StateSpider(WholePageSpider):
    name = "structure-of-json-in-scripts"


WORDS = prose("spaces", 80).split()


def yaml(n: int) -> str:
    keys = [f"{word}: 1" for word in WORDS]
    return "\n".join(["server:", "  tls:", "    cert: c", f"{'  ' * n}on: true", *keys])


def table(n: int) -> str:
    cells = ["x" if at == n else "" for at in range(4)]
    return "\n".join([*(f"{word}\t1\t2\t3" for word in WORDS), "\t".join(cells)])


def code(n: int) -> str:
    return (
        f"def f(x):\n    for i in x:\n        print(i)\n{'    ' * n}return x\n# {' '.join(WORDS)}\n"
    )


def board(n: int) -> str:
    return template("Board", f"<pre>{' '.join(WORDS)}\n A  B  C  D\n{'   ' * n} x\n</pre>")


def spaces(site: OrdinarySite, root: str) -> None:
    """Documents of equal words in which spaces say what belongs to what."""
    documents = (
        *((yaml, "application/yaml"), (yaml, "text/plain"), (table, "text/tab-separated-values")),
        *((table, "text/plain"), (code, "text/x-python"), (board, "text/html")),
    )
    paths = []
    for n, (made, kind) in enumerate(documents):
        for variant in range(4):
            paths.append(f"{root}/{n}-{variant}")
            text = made(variant).replace(WORDS[0], f"{WORDS[0]}{n}")
            site.add(paths[-1], text, content_type=kind)
    site.index(f"{root}/", paths)


@case(spaces)
class SpacesSpider(WholePageSpider):
    name = "documents-told-apart-by-spaces"


@case(spaces)
class SpacesInBytesSpider(IndexSpider):
    name = "bodies-told-apart-by-spaces"

    def parse_page(self, response):
        yield {"body": response.body}


def visits(site: OrdinarySite, root: str) -> None:
    """Copies of pages that differ in what is made anew for each visit."""

    def body(n: int, visit: int) -> str:
        drawn = blake2b(f"{n} {visit}".encode(), digest_size=16).hexdigest()
        state = json.dumps({"csrfToken": drawn, "nonce": f"3e6b38{visit:04d}"})
        return template(
            "Article",
            f"<form><input type=hidden name=csrf_token value={drawn}></form><p>{prose(n, 30)}</p>"
            f"<i id='ad-5e42f18d3d{visit:03d}' data-nonce={drawn}></i>"
            f"<script src='/a.js?v={visit}' nonce={drawn} data-cf-beacon='{drawn}'></script>"
            f"<script src='/_Resource?ns=2&cb={visit}'></script>"
            f"<script>var s = {state}; show('ad-5e42f18d3d{visit:03d}');"
            f"var requestId = '{drawn}';</script>",
        )

    def path(n: int, visit: int) -> str:
        return f"{root}/{n}?visit={visit}"

    for n in range(20):
        for visit in range(2):
            site.add(path(n, visit), body(n, visit))
        site.copies[path(n, 1)] = path(n, 0)
        site.print_versions.add(path(n, 1))
        site.copy(path(n, 2), path(n, 0))
    site.index(f"{root}/", [path(n, visit) for visit in range(3) for n in range(20)])


@case(visits, repeats=True)
class VisitSpider(WholePageSpider):
    """Token, nonce and drawn ids make no new page."""

    name = "what-each-visit-draws"
