"""News: articles and their listing, printer versions, and editions with small corrections."""

from collections.abc import Iterator
from dataclasses import dataclass

from example.site.frame import framed, printed
from example.site.page import Kind, Page, link, links, prose, slug
from example.site.writer import Writer, edited

N_ARTICLES = 80
N_PRINTED = 25  # long reads, the first ones
N_EDITED = 30
PER_LISTING = 10


@dataclass(frozen=True, slots=True)
class Article:
    """The parts of an article before they are put into a frame."""

    number: int
    title: str
    byline: str
    paragraphs: list[str]
    correction: str

    @property
    def slug(self) -> str:
        return f"{slug(self.title)}-{self.number}"

    @property
    def path(self) -> str:
        return f"/news/2026/{self.slug}"

    @property
    def content(self) -> str:
        return f"news/{self.number}"

    def main(self) -> str:
        return f'<p class="byline">{self.byline}</p>{prose(self.paragraphs)}'


def write_article(seed: int, number: int) -> Article:
    writer = Writer(("common", "news"), f"{seed} news {number}")
    n_paragraphs = writer.rng.randint(7, 24) if number < N_PRINTED else writer.rng.randint(5, 9)
    return Article(
        number,
        writer.write("headline"),
        writer.write("byline"),
        writer.paragraphs(n_paragraphs, 5),
        writer.write("correction"),
    )


def news_pages(seed: int) -> Iterator[Page]:
    articles = [write_article(seed, number) for number in range(N_ARTICLES)]
    shorter = [article for article in articles if article.number % 2]
    for article in articles:
        yield article_page(article)
    yield archive_page(articles)
    yield from listing_pages(articles)
    for article in articles[:N_PRINTED]:
        html = printed(article.title, article.main())
        yield Page(printer_path(article), article.content, Kind.PRINTER, html)
    for article in shorter[:N_EDITED]:
        yield edition(seed, article)
    yield updates_page(shorter[:N_EDITED])


def article_page(article: Article) -> Page:
    tools = link(printer_path(article), "Print") if article.number < N_PRINTED else ""
    html = framed(article.title, article.main() + tools, "news")
    return Page(article.path, article.content, Kind.OWN, html)


def printer_path(article: Article) -> str:
    return f"/news/print?id={article.number}"


def edition(seed: int, article: Article) -> Page:
    """A later edition under a URL of its own."""
    rng = Writer(("common", "news"), f"{seed} edition {article.number}").rng
    paragraphs = edited(article.paragraphs, article.correction, rng)
    main = f'<p class="byline">{article.byline}</p>{prose(paragraphs)}'
    html = framed(article.title, main, "news")
    return Page(f"{article.path}/update", article.content, Kind.EDITED, html)


def updates_page(articles: list[Article]) -> Page:
    entries = links((f"{article.path}/update", article.title) for article in articles)
    html = framed("Corrections and updates", entries)
    return Page("/news/updates/", "news/updates", Kind.LISTING, html)


def archive_page(articles: list[Article]) -> Page:
    entries = [("/news/?page=1", "Front pages"), *((each.path, each.title) for each in articles)]
    return Page("/news/archive/", "news/archive", Kind.LISTING, framed("News", links(entries)))


def listing_pages(articles: list[Article]) -> Iterator[Page]:
    n_pages = len(articles) // PER_LISTING
    for number in range(1, n_pages + 1):
        shown = articles[(number - 1) * PER_LISTING : number * PER_LISTING]
        teasers = "".join(
            f"<h2>{link(article.path, article.title)}</h2>{prose([article.paragraphs[0]])}"
            for article in shown
        )
        following = link(f"/news/?page={number + 1}", "Older") if number < n_pages else ""
        html = framed(f"News, page {number} of {n_pages}", teasers + following)
        yield Page(f"/news/?page={number}", f"news/listing/{number}", Kind.LISTING, html)
