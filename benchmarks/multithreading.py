"""The FPGA paper's software times: documents shared among threads, or the words of each document.

    python -m benchmarks.multithreading

The paper (section IV.4) hashes document by document, eight threads, in 605, 130 and 192 s; word by
word in 1153, 206 and 1016 s. Here the same code as its Figure 8, in multithreading.cpp, hashes real
text cut to the paper's mean lengths of documents. Needs g++; takes a minute.
"""

import os
import subprocess
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.fpga import PAPER, Collection, table
from benchmarks.rows import html_pages
from scrapy_neardup.crawl.pages.extract import visible_text_of_html
from scrapy_neardup.detect.text import normalise

N_BYTES = 4_000_000  # of text in a collection
THREADS = (1, 2, 4, 8)
PAPER_BY_WORD_S = {"Wikipedia": 1153, "TREC": 206, "Twitter": 1016}


def documents(collection: Collection, text: bytes) -> bytes:
    """The text cut into documents of the collection's lengths, each with its NUL."""
    cut, start = [], 0
    for length in collection.lengths(N_BYTES // collection.words):
        cut.append(text[start : start + length].replace(b"\0", b" "))
        start += length
    return b"".join(document + b"\0" for document in cut)


def measured(program: Path, file: Path, strategy: str, threads: int) -> tuple[float, str]:
    """Best seconds of three, and what all fingerprints add up to."""
    command = [str(program), str(file), strategy, str(threads)]
    runs = [subprocess.run(command, capture_output=True, text=True, check=True) for _ in range(3)]
    rows = [done.stdout.split() for done in runs]
    return min(float(row[0]) for row in rows), rows[0][1]


def main() -> None:
    pages = [normalise(visible_text_of_html(page)) for page in html_pages()[::8]]
    text = b" ".join(pages)
    text *= 2 + N_BYTES // len(text)
    rows = []
    with TemporaryDirectory() as folder:
        program, file = Path(folder) / "multithreading", Path(folder) / "documents"
        source = Path(__file__).with_suffix(".cpp")
        command = ["g++", "-O2", "-std=c++20", "-pthread", str(source), "-o", str(program)]
        subprocess.run(command, check=True)
        for collection in PAPER:
            file.write_bytes(documents(collection, text))
            for threads in THREADS:
                by_document, all_of_it = measured(program, file, "document", threads)
                by_word, the_same = measured(program, file, "word", threads)
                assert all_of_it == the_same
                paper = PAPER_BY_WORD_S[collection.name] / collection.cpu_s
                rows.append(
                    (
                        collection.name, threads, f"{N_BYTES / by_document / 1e6:.1f}",
                        f"{N_BYTES / by_word / 1e6:.1f}", f"{by_word / by_document:.1f}",
                        f"{paper:.1f}" if threads == 8 else "",
                    )
                )  # fmt: skip
    header = (
        "documents as in", "threads", "by document, MB/s", "by word, MB/s", "times slower",
        "the paper: times slower",
    )  # fmt: skip
    table(f"Threads that share documents or words, {os.cpu_count()} processors", header, rows)


if __name__ == "__main__":
    main()
