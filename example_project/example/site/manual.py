"""The manual of a control unit, and a mirror of it under another header."""

from collections.abc import Iterator

from example.site.frame import framed, mirrored
from example.site.page import Kind, Page, links, prose, slug
from example.site.writer import Writer

N_PAGES = 60
N_MIRRORED = 30
N_DEAD_LINKS = 20


def manual_pages(seed: int) -> Iterator[Page]:
    chapters = [write_chapter(seed, number) for number in range(N_PAGES)]
    for number, (title, main) in enumerate(chapters):
        content = f"manual/{number}"
        yield Page(chapter_path(number, title), content, Kind.OWN, framed(title, main, "manual"))
        if number < N_MIRRORED:
            html = mirrored(title, main)
            yield Page(mirror_path(number, title), content, Kind.MIRROR, html)
    titles = [(number, title) for number, (title, _) in enumerate(chapters)]
    contents = links((chapter_path(*entry), entry[1]) for entry in titles)
    html = framed("Manual of the control unit", contents + dead_links())
    yield Page("/manual/", "manual/index", Kind.LISTING, html)
    html = mirrored(
        "Mirror", links((mirror_path(*entry), entry[1]) for entry in titles[:N_MIRRORED])
    )
    yield Page("/docs-mirror/", "manual/mirror", Kind.LISTING, html)


def write_chapter(seed: int, number: int) -> tuple[str, str]:
    """Title and content of one page."""
    writer = Writer(("common", "manual"), f"{seed} manual {number}")
    title = writer.write("title")
    first, second, *rest = writer.paragraphs(writer.rng.randint(7, 10), 5)
    steps = "".join(f"<li>{writer.write('sentence')}</li>" for _ in range(5))
    table = "".join(
        f"<tr><td>{writer.word('option')}</td><td>{writer.word('number')}</td>"
        f"<td>{writer.word('state')}</td></tr>"
        for _ in range(6)
    )
    return title, (
        f"{prose([first, second])}<h2>Steps</h2><ol>{steps}</ol>{prose(rest)}"
        f"<p><strong>{writer.write('warning')}</strong></p>"
        f"<table><tr><th>Option</th><th>Default</th><th>Effect</th></tr>{table}</table>"
    )


def chapter_path(number: int, title: str) -> str:
    return f"/manual/{number:02}-{slug(title)}"


def mirror_path(number: int, title: str) -> str:
    return f"/docs-mirror/{number:02}-{slug(title)}"


def dead_links() -> str:
    """Links that a redesign broke; the site answers them with 200 and an apology."""
    paths = (
        (f"/handbook/v1/{number}.html", f"Version 1, sheet {number}") for number in dead_range()
    )
    return "<h2>Former versions</h2>" + links(paths)


def dead_range() -> range:
    return range(1, N_DEAD_LINKS + 1)
