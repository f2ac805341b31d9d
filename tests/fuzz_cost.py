"""Searches for pages and URLs that take long: `python -m tests.fuzz_cost [SECONDS] [TARGET …]`.

Repeats pieces put together from atoms of every class (letters, marks, separators, elements,
attributes, entities, escapes): all of them in turn, or some of them each by itself, as a long name
in front of a long list. Keeps what took longest for a byte, and changes it further. Prints for each
target the slowest found: time for a byte, how much more four times the length takes, which is 4
where the cost is linear, and the longest hold of Python's lock in 1 MB and in 15 MB, of a URL in
the longest that is read; pieces in brackets are repeated by themselves. What it finds becomes a
test that counts work.
"""

import argparse
import contextlib
import random
import threading
import time
from collections.abc import Callable
from typing import NamedTuple

from lxml import html
from scrapy.http import HtmlResponse

from scrapy_neardup.crawl.items.item_data import item_data
from scrapy_neardup.crawl.pages.extract import (
    page_content,
    text_and_markup_of_html,
    visible_text_of_html,
)
from scrapy_neardup.crawl.pages.long_bodies import takes_long
from scrapy_neardup.crawl.pages.page_data import attribute_lines, page_data
from scrapy_neardup.detect.odd_sketch import odd_row
from scrapy_neardup.detect.text import exact_text, words_and_blocks
from scrapy_neardup.engines import load_engine
from scrapy_neardup.errors import NearDupError
from scrapy_neardup.factory import make_detector
from scrapy_neardup.kernels.numpy_twin import words as words_in_python
from scrapy_neardup.settings import NearDupSettings
from scrapy_neardup.urls.key import MAX_URL, UrlKeyRules, url_key
from scrapy_neardup.urls.site_rules import read_rules

SIZE = 1 << 15  # characters; then four times as many
HOLD_SIZES = (1_000_000, 15_000_000)  # bytes; a longer page is not read
NOISE_S = 2e-3  # times below are not told apart
BEST = 12  # inputs that are changed further
LETTERS = (
    *("a", "Z", "é", "ß", "ǆ", "ﬁ", "\ufdfa", "漢", "か", "한", "ท", "\U00020000", "𝒳", "0", "٣"),
    *("\u1100", "\u1161", "\u11a8", "\u0dd9", "\u0dca", "ড", "\ud800", "\0", "x" * 100),
)
MARKS = ("\u0301", "\u0323", "\u0344", "\u0f73", "\u3099", "\u093c", "\uff9e", "\u034f", "\u20e3")
FACTS = ("not ", "n't", "5 ", "²", "M ", "£", "★", "(", ". ", "\u200b")
SPACES = (" ", "\n", "\t", "\x85", "\u2028", "\u3000", ".", "-", "👍")
MARKUP = (
    *(
        "<p>",
        "</p>",
        "<b>",
        "<table>",
        "<tr>",
        "<td>",
        "</table>",
        "<svg>",
        "<script>",
        "</script>",
    ),
    *(
        "<a href=",
        "<form>",
        "<select>",
        "<option>",
        "<h1>",
        "<!--",
        "-->",
        "<![CDATA[",
        "]]>",
        "<?",
    ),
    *(
        "<",
        ">",
        "'",
        '"',
        "=",
        "&",
        "&amp;",
        "&#x41;",
        "&#1114112;",
        "&nope",
        "<a b=c ",
        "<template>",
    ),
    *("<head>", "<title>", "<textarea>", "<plaintext>", "<frameset>", "<math>", "<x:y>", "</x>"),
)
URL = (
    *("/", "//", "/.", "/..", "/a", "?", "&", "a=", "=", ";", "#", "#!", "%", "%2", "%2f", "%41"),
    *(
        "%ff",
        "%00",
        "+",
        "@",
        ":",
        "[",
        "]",
        "www.",
        ".",
        "..",
        "utm_source=1",
        "sid=1",
        "é",
        "xn--",
    ),
    *("index.html", "PHPSESSID=0123456789abcdef", "list", "\\", "|", "*", " ", "\t"),
)
DATA = (
    *('{"a":', "[", "]", "}", ",", '"', "'", "\\", "\\u", "\\ud800", "1", "1e9", "-", "null", " "),
    *(
        "=",
        "=[",
        "={",
        "('",
        "JSON.parse('",
        "var a=",
        "</script>",
        "<script>",
        "\n",
        "é",
        "0" * 50,
    ),
    *('<script type="application/ld+json">', '<meta name=a content="', '">', "2026-01-01T00:00:00"),
    *('<i itemprop=a content="', "<title>", "<h1>", '<img srcset="', "data:,", '<i data-a="', "\0"),
)
RULES = """[{"order": 1, "urlPattern": {"include": ["h.example/*/*/*/list", "h.example/*a*a*a*b|"]},
  "processor": "queryRemovalExcept", "args": ["id"]}]"""


class Recipe(NamedTuple):
    """What a text is made of: all pieces, again and again; or once, but for those that are long."""

    pieces: tuple[str, ...] = ()
    long: frozenset[int] = frozenset()  # which pieces are repeated by themselves

    def text(self, size: int) -> str:
        """A text of about so many characters."""
        if not self.long:
            return repeated("".join(self.pieces), size)
        share = size // len(self.long)
        return "".join(
            repeated(piece, share) if n in self.long else piece
            for n, piece in enumerate(self.pieces)
        )

    def __str__(self) -> str:
        return "".join(f"[{p}]" if n in self.long else p for n, p in enumerate(self.pieces))


def repeated(piece: str, size: int) -> str:
    return piece * (size // len(piece) + 1)


# Where a name is written once and read often; what took seconds once is tried again.
NAMES = (
    Recipe(('={"', "k", '":[1', ",1", "]}"), frozenset({1, 3})),
    Recipe(
        ("</script><script id=", "k", ' type="application/ld+json">[1', ",1", "]"),
        frozenset({1, 3}),
    ),
    Recipe(("</script>", "<h1><b>", "a "), frozenset({1, 2})),
    Recipe(("</script><x", "x", " a=1" * 900, ">"), frozenset({1})),
)


class Target(NamedTuple):
    run: Callable[[str], object]
    atoms: tuple[str, ...]
    begins: tuple[Recipe, ...] = ()  # tried first
    hold_sizes: tuple[int, ...] = HOLD_SIZES


def targets() -> dict[str, Target]:
    """What is searched, and what for."""
    text, engine = LETTERS + MARKS + SPACES, load_engine("auto")
    rules = UrlKeyRules(site_rules=read_rules(RULES))

    def signatures(text: str) -> None:
        words, _ = words_and_blocks(text)
        engine.signatures(words)
        odd_row(words, 0, 1)

    def data(text: str) -> None:
        page = f"<script>{text}"
        root = html.document_fromstring(page)
        page_data(root, "http://h.example/", page.encode("utf-8", "replace"))
        attribute_lines(root, "http://h.example/")

    def item(text: str) -> None:
        item_data(
            {"a": text, "b": [text[:900]], "c": "http://h.example/" + text[:900]}, None, rules
        )
        text_and_markup_of_html(text)

    detector = make_detector(NearDupSettings(), 1)

    def on_the_loop(text: str) -> None:
        body = text.encode("utf-8", "replace")
        if takes_long(body):
            return
        content = page_content(HtmlResponse("http://h.example/", body=body, encoding="utf-8"))
        reading = detector.read("http://h.example/", content or "")
        detector.read_own_part(reading)
        _ = reading.signatures, reading.odd_row, reading.attribute_bits

    def keys(begin: str, text: str) -> None:
        room = MAX_URL - len(begin)  # a longer URL is not read
        for at in range(0, len(text), room):
            url_key(begin + text[at : at + room], rules)

    return {
        "words": Target(words_and_blocks, text),
        "words in Python": Target(words_in_python.normalise, text),
        "exact text and facts": Target(exact_text, text + FACTS),
        "signatures": Target(signatures, text),
        "markup": Target(visible_text_of_html, MARKUP + LETTERS[:3] + SPACES[:2]),
        "data": Target(data, DATA, NAMES),
        "item": Target(item, LETTERS + MARKS + FACTS + MARKUP + DATA),
        "on the loop": Target(
            on_the_loop, text + FACTS + MARKUP + DATA, NAMES, (100_000, 200_000, 400_000, 1_200_000)
        ),
        "url key": Target(
            lambda t: keys("http://h.example", t), URL + LETTERS[:4], hold_sizes=(MAX_URL,)
        ),
        "url host": Target(lambda t: keys("http://", t), URL, hold_sizes=(MAX_URL,)),
    }


class Found(NamedTuple):
    ns_a_byte: float
    growth: float  # of the time, for four times the length
    recipe: Recipe


def main() -> None:
    """Search each target for the same time."""
    known = targets()
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("seconds", nargs="?", type=float, default=60.0)
    parser.add_argument("targets", nargs="*", metavar="TARGET", help=", ".join(known))
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    for name in given.targets or known:
        found = search(known[name], given.seconds, random.Random(given.seed))
        slowest = max(found, key=lambda f: f.ns_a_byte)
        steepest = max(found, key=lambda f: f.growth)
        for what, one in (("slowest", slowest), ("steepest", steepest)):
            print(  # noqa: T201 - its output
                f"{name}, {what}: {one.ns_a_byte:.0f} ns a byte, {one.growth:.1f} times for four "
                f"times the length: {ascii(str(one.recipe))[:200]}",
                flush=True,
            )
        for size in known[name].hold_sizes:
            longest, one = longest_hold(known[name].run, found, size)
            print(  # noqa: T201 - its output
                f"{name}: {1e3 * longest:.0f} ms in one hold of Python's lock, in {size:,} bytes: "
                f"{ascii(str(one.recipe))[:200]}",
                flush=True,
            )


def search(target: Target, seconds: float, chance: random.Random) -> list[Found]:
    """The slowest inputs, and the steepest, that were found in a time."""
    best = [measured(target.run, recipe) for recipe in target.begins]
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        fresh = not best or chance.random() < 0.3
        recipe = Recipe() if fresh else chance.choice(best).recipe
        best.append(measured(target.run, changed(recipe, target.atoms, chance)))
        slow = sorted(best, key=lambda f: -f.ns_a_byte)[:BEST]
        best = [*slow, *(f for f in sorted(best, key=lambda f: -f.growth)[:BEST] if f not in slow)]
    return best


def changed(recipe: Recipe, atoms: tuple[str, ...], chance: random.Random) -> Recipe:
    """Another recipe: of other pieces, or with other pieces repeated by themselves."""
    pieces, long = recipe
    if not pieces or chance.random() < 0.6:
        return Recipe(*with_other_pieces(pieces, long, atoms, chance))
    at = chance.randrange(len(pieces))
    if chance.random() < 0.3 and at + 1 < len(pieces):  # two pieces become one
        joined = (*pieces[:at], pieces[at] + pieces[at + 1], *pieces[at + 2 :])
        return Recipe(joined, frozenset(n - (n > at) for n in long))
    return Recipe(pieces, long ^ {at})


def with_other_pieces(
    pieces: tuple[str, ...], long: frozenset[int], atoms: tuple[str, ...], chance: random.Random
) -> tuple[tuple[str, ...], frozenset[int]]:
    """Pieces of which one was put in, repeated, or taken out, and which of them are long now."""
    one, at = chance.choice(atoms), chance.randint(0, len(pieces))
    if pieces and chance.random() < 0.3:
        left = pieces[:at] + pieces[at + 1 :] or (one,)
        return left, frozenset(n - (n > at) for n in long if n != at and n - (n > at) < len(left))
    n_new = chance.randint(2, 60) if pieces and chance.random() < 0.2 else 1
    more = (*pieces[:at], *[one] * n_new, *pieces[at:])[:200]
    return more, frozenset(m for n in long if (m := n + n_new * (n >= at)) < len(more))


def measured(run: Callable[[str], object], recipe: Recipe) -> Found:
    """The time of a text, and of one four times as long."""
    short, long = (recipe.text(size) for size in (SIZE, 4 * SIZE))
    first, then = (min(seconds(run, text) for _ in range(2)) for text in (short, long))
    n_bytes = len(long.encode("utf-8", "replace"))
    return Found(1e9 * then / n_bytes, then / max(first, NOISE_S), recipe)


def longest_hold(
    run: Callable[[str], object], found: list[Found], size: int
) -> tuple[float, Found]:
    """The longest that one call holds Python's lock, in seconds, and of which input.

    The three that take longest at the first attempt are tried twice more: the least counts.
    """
    once = sorted(((hold_s(run, one.recipe, size), n) for n, one in enumerate(found)), reverse=True)
    least = [
        (min(first, *(hold_s(run, found[n].recipe, size) for _ in range(2))), n)
        for first, n in once[:3]
    ]
    longest, n = max(least)
    return longest, found[n]


def hold_s(run: Callable[[str], object], recipe: Recipe, size: int) -> float:
    """The longest that one call holds Python's lock, of so many bytes.

    Counts what the thread's own clock says between two turns of this one, so that other processes
    count only where this one waits for them.
    """
    sample = recipe.text(SIZE)
    text = recipe.text(size * len(sample) // len(sample.encode("utf-8", "replace")))
    return longest_turn_s(lambda: run(text))


def longest_turn_s(run: Callable[[], object]) -> float:
    begun, ended = threading.Event(), threading.Event()

    def until_end() -> None:
        begun.wait()
        with contextlib.suppress(Exception):
            run()
        ended.set()

    thread = threading.Thread(target=until_end)
    thread.start()
    clock = time.pthread_getcpuclockid(thread.ident or 0)
    begun.set()
    longest = last = 0.0
    with contextlib.suppress(OSError):  # it has ended
        while not ended.is_set():
            time.sleep(0)
            now = time.clock_gettime(clock)
            longest, last = max(longest, now - last), now
    thread.join()
    return longest


def seconds(run: Callable[[str], object], text: str) -> float:
    start = time.process_time()
    with contextlib.suppress(NearDupError):
        run(text)
    return time.process_time() - start


if __name__ == "__main__":
    main()
