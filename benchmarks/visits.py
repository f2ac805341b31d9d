"""What recrawls remember of each page: bytes in memory and on disk, and the time of a look-up.

    python -m benchmarks.visits [--pages N] [--folder DIR]

Writes N visits with validators into a new file, as a crawl does, and looks up some of them. Memory
is what the process grows by while the second half of them is written.
"""

import argparse
import resource
import time
from hashlib import blake2b
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

from scrapy_neardup.state.visit import KEY_BYTES, Visit
from scrapy_neardup.state.visit_file import FILE, Status
from scrapy_neardup.state.visits import Visits

LOOKED_UP = 10_000


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.visits", description=__doc__)
    parser.add_argument("--pages", type=int, default=1_000_000)
    parser.add_argument("--folder", type=Path, help="where there is room")
    options = parser.parse_args()
    with TemporaryDirectory(dir=options.folder) as folder:
        measure(Path(folder), options.pages)


def measure(folder: Path, n_pages: int) -> None:
    """Write, look up, tell."""
    visits = Visits(folder, "spider", key=1)
    begun = time.perf_counter()
    write(visits, range(n_pages // 2))
    half = resident_bytes()
    write(visits, range(n_pages // 2, n_pages))
    grown = resident_bytes() - half
    written = time.perf_counter() - begun
    begun = time.perf_counter()
    for number in Random(1).sample(range(n_pages), min(LOOKED_UP, n_pages)):
        assert visits.visit(key_of_page(number), "parse") is not None
    asked = (time.perf_counter() - begun) / min(LOOKED_UP, n_pages)
    visits.close()
    on_disk = sum(path.stat().st_size for path in folder.glob(f"{FILE}*"))
    print(
        f"{n_pages:,} pages: {grown / (n_pages - n_pages // 2):.1f} bytes of memory a page,",
        end=" ",
    )
    print(
        f"{on_disk / n_pages:.0f} on disk; {written / n_pages * 1e6:.0f} us to write one,", end=" "
    )
    print(f"{asked * 1e6:.0f} us to look one up")


def write(visits: Visits, numbers: range) -> None:
    for number in numbers:
        visits.put(made(visits, number))
    visits.flush()


def made(visits: Visits, number: int) -> Visit:
    """A page as it was read: digests, no lines and no requests."""
    key, now = key_of_page(number), time.time()
    url, digest = f"https://www.example.org/articles/{number}", key[:8]
    return Visit(
        key,
        visits.spider,
        "parse",
        visits.run,
        visits.run,
        b"",
        visits.run,
        Status.NEW,
        now,
        url,
        digest,
        digest,
        digest,
        None,
        links=50,
        copy_of=None,
        found_on=key,
        depth=3,
        etag=b'"5f3a9c0d1e2b4"',
        modified=b"Mon, 23 Nov 2026 05:00:00 GMT",
    )


def key_of_page(number: int) -> bytes:
    return blake2b(b"%d" % number, digest_size=KEY_BYTES).digest()


def resident_bytes() -> int:
    """Of this process, now."""
    pages = int(Path("/proc/self/statm").read_text("ascii").split()[1])
    return pages * resource.getpagesize()


if __name__ == "__main__":
    main()
