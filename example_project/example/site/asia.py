"""Chinese and Japanese articles, some of them copied, some corrected."""

from collections.abc import Iterator

from example.site.frame import framed
from example.site.page import Kind, Page, links, prose
from example.site.writer import Writer, edited

N_ARTICLES = 15  # in each language
N_COPIED = 5
N_EDITED = 5
LANGUAGES = {"zh": "chinese", "ja": "japanese"}


def asian_pages(seed: int) -> Iterator[Page]:
    pages = [page for language in LANGUAGES for page in articles(seed, language)]
    yield from pages
    yield index_page("/asia/", [page for page in pages if page.kind is Kind.ASIAN])
    yield index_page("/asia/more/", [page for page in pages if page.kind is not Kind.ASIAN])


def index_page(path: str, pages: list[Page]) -> Page:
    entries = links((page.path, page.path.removeprefix("/asia/")) for page in pages)
    return Page(path, path, Kind.LISTING, framed("文章 記事", entries))


def articles(seed: int, language: str) -> Iterator[Page]:
    for number in range(N_ARTICLES):
        writer = Writer((LANGUAGES[language],), f"{seed} {language} {number}")
        title = writer.write("title")
        paragraphs = writer.paragraphs(writer.rng.randint(6, 9), 4, space="")
        content = f"{language}/{number}"
        page = asian_page(f"/asia/{language}/{number}", content, Kind.ASIAN, title, paragraphs)
        yield page
        if number < N_COPIED:
            yield page.also_at(f"/asia/{language}/reader/{number}", Kind.COPY)
        elif number < N_COPIED + N_EDITED:
            other = edited(paragraphs, writer.write("correction"), writer.rng)
            yield asian_page(f"{page.path}/2", content, Kind.EDITED, title, other)


def asian_page(path: str, content: str, kind: Kind, title: str, paragraphs: list[str]) -> Page:
    language = path.split("/")[2]
    return Page(path, content, kind, framed(title, prose(paragraphs), "asia", language))
