"""What is decided about every shared page, under one key: to compare two versions of the code.

    python benchmarks/decisions.py FILE            decide, and write the decisions
    python benchmarks/decisions.py FILE --as OLD   the same, and name those that are not as in OLD

The pages are those of ../shared/data: the labelled ones in their order, the web pages, and the
site's files by path. Each is read as a crawl reads it and decided by a detector with defaults.
"""

import argparse
import gzip
import json
import tarfile
from collections.abc import Iterator
from pathlib import Path

from scrapy.http import HtmlResponse
from scrapy.settings import Settings

from scrapy_neardup.crawl.pages.extract import page_content
from scrapy_neardup.factory import make_detector
from scrapy_neardup.settings import NearDupSettings

DATA = Path(__file__).resolve().parents[2] / "shared" / "data"
PARTS = ("pairs/pages.jsonl.gz", "webpages.jsonl.gz")
KEY = 2**61 - 1


def pages() -> Iterator[tuple[str, bytes]]:
    """URL and body of each page."""
    for part in PARTS:
        with gzip.open(DATA / part, "rt", encoding="utf-8") as lines:
            for page in map(json.loads, lines):
                yield f"{page['url']}#{page['id']}", page["html"].encode()
    yield from sorted(site_pages())


def site_pages() -> Iterator[tuple[str, bytes]]:
    """The same of the site, in the order of the archive, which cannot be sought in."""
    with tarfile.open(DATA / "site" / "site.tar.gz") as site:
        for member in site:
            file = site.extractfile(member) if member.name.endswith(".html") else None
            if file is not None:
                yield f"http://site.example/{member.name.removeprefix('./')}", file.read()


def decisions() -> Iterator[list[object]]:
    """URL, kind, words, original, distances, similarity and reason of each page."""
    detector = make_detector(NearDupSettings.from_settings(Settings()), KEY)
    for url, body in pages():
        response = HtmlResponse(url, body=body, encoding="utf-8")
        content = page_content(response)
        if content is None:
            continue
        made = detector.decide(detector.read(url, content))
        yield [url, made.kind, made.words, made.original, made.distance, made.sketch_distance,
               made.similarity, made.differs, made.cold, made.elsewhere]  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file", type=Path)
    parser.add_argument("--as", dest="old", type=Path, help="decisions to hold these against")
    options = parser.parse_args()
    made = list(decisions())
    options.file.write_text("\n".join(map(json.dumps, made)) + "\n", encoding="utf-8")
    if options.old:
        old = [json.loads(line) for line in options.old.read_text(encoding="utf-8").splitlines()]
        changed = [pair for pair in zip(old, made, strict=True) if pair[0] != pair[1]]
        for before, now in changed:
            print(f"{before}\n{now}\n")
        print(f"{len(made):,} pages, {len(changed):,} decided otherwise")


if __name__ == "__main__":
    main()
