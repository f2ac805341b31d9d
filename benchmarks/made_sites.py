"""Sites made by rule, so that it is known which pages say the same.

Each is a list of (what the page says, its text), in the order of a crawl. Two pages with the
same first part must count as duplicates if the later one was only edited a little; two with
different first parts are different pages, however much of their text is the site's template.
"""

import random
from collections.abc import Callable, Iterator

Page = tuple[str, str]
COMMON = """
    the of and to in a is that for it as was with be by on not he this are or his from at which
    but have an had they you were their one all we can her has there been if more when will
""".split()  # noqa: SIM905  # readable


class Author:
    """Writes text whose words are as uneven as those of a language."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)

    def word(self) -> str:
        if self.chance.random() < 0.4:
            return COMMON[min(int(self.chance.paretovariate(0.7)), len(COMMON)) - 1]
        number = int(self.chance.paretovariate(0.4)) % 20_000
        return "w" + "".join("abcdefghij"[int(digit)] for digit in str(number))  # digits are facts

    def words(self, n: int) -> str:
        return " ".join(self.word() for _ in range(n))

    def lines(self, n: int, low: int, high: int) -> list[str]:
        return [self.words(self.chance.randint(low, high)) for _ in range(n)]

    def edited(self, lines: list[str], n_edits: int) -> list[str]:
        """Some words replaced."""
        lines = list(lines)
        for _ in range(n_edits):
            row = self.chance.randrange(len(lines))
            words = lines[row].split()
            words[self.chance.randrange(len(words))] = self.word()
            lines[row] = " ".join(words)
        return lines


def shop(author: Author, n_template_words: int = 900) -> Iterator[Page]:
    """Products of a few words under a long menu; some also on sale, or with another price."""
    menu = author.lines(n_template_words // 4, 1, 3)
    foot = author.lines(n_template_words // 30, 5, 25)
    products = [[author.words(4), *author.lines(3, 8, 20)] for _ in range(200)]
    for page in range(10):
        listed = [line for product in products[20 * page : 20 * page + 20] for line in product[:1]]
        yield f"list {page}", "\n".join([*menu, *listed, *foot])
    for i, product in enumerate(products):
        yield f"product {i}", "\n".join([*menu, "home all", *product, *foot])
        if i % 3 == 0:
            yield f"product {i}", "\n".join([*menu, "home sale", *product, "now 9.99", *foot])


def news(author: Author) -> Iterator[Page]:
    """Articles beside teasers that change with every request; some printed again, corrected."""
    head, foot = author.lines(30, 1, 3), author.lines(10, 3, 12)
    for i in range(200):
        article = [author.words(9), *author.lines(author.chance.randint(8, 20), 30, 80)]
        for copy in range(1 + (i % 4 == 0)):
            teasers = author.lines(2, 4, 8)
            text = author.edited(article, copy * len(article) // 4)
            yield f"article {i}", "\n".join([*head, *text, *teasers, *foot])


def manual(author: Author) -> Iterator[Page]:
    """Chapters in three versions: most hardly changed, every fifth rewritten by a half."""
    chapters = [author.lines(author.chance.randint(6, 30), 15, 60) for _ in range(100)]
    for version in range(3):
        head = [f"version {version}", *author.lines(12, 1, 3)]
        for i, chapter in enumerate(chapters):
            rewritten = version and i % 5 == 0
            if rewritten:
                half = len(chapter) // 2
                chapters[i] = chapter = chapter[:half] + author.lines(len(chapter) - half, 15, 60)
            elif version:
                chapter = author.edited(chapter, 1)
            yield f"chapter {i} {version if i % 5 == 0 else ''}", "\n".join([*head, *chapter])


def listings(author: Author) -> Iterator[Page]:
    """Pages of items, each with the same labels; a few under another sorting's address."""
    head, foot = author.lines(60, 1, 3), author.lines(8, 3, 12)
    for i in range(150):
        items = [
            line
            for _ in range(20)
            for line in (author.words(6), f"{author.chance.randint(1, 999)}.99", "in stock", "buy")
        ]
        for copy in range(1 + (i % 5 == 0)):
            yield f"listing {i}", "\n".join([*head, *items, f"view {copy}", *foot])


def short_pages(author: Author) -> Iterator[Page]:
    """Pages of a line or two under a menu, as API references have them for what is unused."""
    head, foot = author.lines(30, 1, 3), author.lines(4, 3, 12)
    for i in range(150):
        yield f"entry {i}", "\n".join([*head, f"uses of class {author.words(3)}", "none", *foot])


def calendar(author: Author) -> Iterator[Page]:
    """A trap: one page of text under ever new dates."""
    head, text = author.lines(30, 1, 3), author.lines(10, 30, 60)
    for i in range(20):
        yield f"page {i}", "\n".join([*head, *author.lines(10, 30, 60)])
    for day in range(200):
        yield "calendar", "\n".join([*head, f"day {day} of {2000 + day}", *text])


SITES: dict[str, Callable[[Author], Iterator[Page]]] = {
    "shop": shop,
    "light shop": lambda author: shop(author, 200),
    "news": news,
    "manual": manual,
    "listings": listings,
    "short pages": short_pages,
    "calendar": calendar,
}
