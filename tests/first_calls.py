"""First calls of kernels with odd inputs: `python -m tests.first_calls [CALLS] [--seed SEED]`.

What a kernel makes when it first needs it, a table of characters say, is not there in a new
process, and a test that ran before has made it. So each call has a process of its own, forked from
one that called no compiled kernel, and must end with what the NumPy twin gives. Prints the calls
that did not.
"""

import argparse
import os
import random
import signal
import sys
from collections.abc import Callable, Iterator
from importlib import import_module
from types import ModuleType
from typing import Any

import numpy as np
from lxml import html

from scrapy_neardup.detect.odd_sketch import ROW_WORDS, told
from scrapy_neardup.engines import FINGERPRINT, PAPER, SKETCH
from scrapy_neardup.index.layout import Layout
from scrapy_neardup.index.slices import SliceLayout
from scrapy_neardup.kernels import AREAS, PACKAGES

# Scripts and planes, each beside ASCII and alone; what composes, is hidden, ends a line, is none.
PIECES = (
    *(
        "漢字abc",
        "한e",
        "жa1 b",
        "½x",
        "\u0301e",
        "e\u0301",
        "abc漢",
        "ß",
        "ǆ",
        "\ufdfa",
        "ท",
        "か",
    ),
    *(
        "\U00020000",
        "\U0001f44d",
        "\U0010ffff",
        "\ud800",
        "\udfff",
        "\u1100\u1161",
        "\uff9e",
        "\u200b",
    ),
    *(
        "\u2028",
        "\x85",
        "\u3000",
        "\0",
        " ",
        "\n",
        "a",
        "Z9",
        "not ",
        "n't",
        "£5",
        "²",
        "★",
        "(",
        "不",
    ),
    *("x" * 70, "é" * 40, "\u0323" * 40, " " * 40),
)
MARKUP = (
    *(
        "<p>",
        "</p>",
        "<a href=x.jpg>",
        "<svg><a>",
        "<script>",
        "</script>",
        "<style>",
        "<!--",
        "-->",
    ),
    *(
        "<input name=é value=漢>",
        "<mark>",
        "<td></td>",
        "<x:y z=1>",
        "<p title='é",
        "'>",
        "<",
        "=",
        "&#0;",
    ),
)
Call = Callable[[ModuleType, random.Random], object]


def text(chance: random.Random, pieces: tuple[str, ...] = PIECES) -> str:
    return "".join(chance.choices(pieces, k=chance.randint(0, 6)))


def page(chance: random.Random) -> str:
    return text(chance, PIECES + MARKUP * 2)


def words(chance: random.Random) -> bytes:
    return b" ".join(text(chance).encode("utf-8", "replace") for _ in range(chance.randint(0, 40)))


def hashes(chance: random.Random, n: int) -> Any:
    return np.array(sorted(chance.choice((n, chance.getrandbits(64))) for _ in range(n)), np.uint64)


def facts(kernel: ModuleType, chance: random.Random) -> object:
    found = kernel.read(text(chance), chance.randint(0, 3))
    block, heads = b" ".join(words(chance).split()), hashes(chance, 5)
    one = np.array([len(block)], np.int64), np.array([0], np.int64), np.array([2], np.int64)
    are_own = np.arange(1 + 2 * len(heads)) % 2 == 0
    return found, kernel.packed(
        block, hashes(chance, 1), *one, are_own, *found[1:], heads, heads, 0
    )


def visible_text(kernel: ModuleType, chance: random.Random) -> object:
    source = page(chance).encode("utf-8", "replace").decode().replace("\0", "")
    return kernel.visible_text(html.document_fromstring(f"<body>{source}"))


def markup(kernel: ModuleType, chance: random.Random) -> object:
    source = page(chance).encode("utf-8", "surrogatepass")
    details = [
        one
        for lines, _, unsure in kernel.details(source, (), str.strip)
        for one in (*lines, unsure)
        if one
    ]
    tree = html.document_fromstring(b"<body>" + source.replace(b"\0", b""))
    return (
        details,
        kernel.count_attributes(source),
        kernel.tags_and_attributes(source),
        list(kernel.said(tree)),
        kernel.has_all_elements(tree, source),
    )


def signatures(kernel: ModuleType, chance: random.Random) -> object:
    some = words(chance)
    spec, other = (chance.choice((PAPER, FINGERPRINT, SKETCH)).arguments for _ in range(2))
    return kernel.signatures(some, spec, other), kernel.fingerprint_many([some, b""], *spec)


def odd_rows(kernel: ModuleType, chance: random.Random) -> object:
    levels = chance.randint(0, 2), chance.randint(1, 3)
    rows = kernel.odd_rows(words(chance), 16, chance.randint(1, 5), 7, *levels)
    assert rows.shape[1] == ROW_WORDS
    alike = rows[[0] * chance.randint(1, 3)]  # of one level: others' similarity is NaN
    return rows, kernel.compare(rows[0], alike, 0, told(), chance.random(), 40)


def templates(kernel: ModuleType, chance: random.Random) -> object:
    known = np.unique(hashes(chance, chance.randint(0, 5)))
    counts, some = np.ones(len(known), np.uint32), hashes(chance, chance.randint(0, 5))
    block, own = words(chance), np.array([chance.random() < 0.5])
    kept = kernel.own_words(block, np.array([len(block)]), np.array([1]), own)
    return kernel.frequent(some, known, counts, 1), kernel.counted(known, counts, some), kept


def filter_bits(kernel: ModuleType, chance: random.Random) -> object:
    table, n_keys = np.zeros(64, np.uint64), np.zeros(1, np.uint64)
    known = kernel.TableBits(np.array([1, 2], np.uint64), table, n_keys, 40)
    keys = [words(chance) for _ in range(chance.randint(0, 30))]
    return known.find_many(keys), known.add_many(keys), known.find_many(keys), table


def permuted(kernel: ModuleType, chance: random.Random) -> object:
    tables, bits = Layout(4, 3, 64).kernel_tables, chance.randint(1, 8)
    n_frozen, n = chance.randint(0, 40), chance.randint(0, 40)
    rows = hashes(chance, n_frozen + n).reshape(-1, 1)
    ids = np.arange(n_frozen + n, dtype=np.uint32)
    arrays = kernel.build(tables, rows[:n_frozen], ids[:n_frozen], bits)
    memtable = kernel.Memtable(tables, n + 1, bits)
    segments = [kernel.Segment(tables, arrays), memtable]
    before = kernel.first_many(segments, rows, 3, 99)
    memtable.add_many(rows[n_frozen:], ids[n_frozen:])
    return before, kernel.first_many(segments, rows, 3, 99), kernel.all_many(segments, rows, 3, 99)


def sliced(kernel: ModuleType, chance: random.Random) -> object:
    cut, n_frozen, n = SliceLayout(64, 8).cut, chance.randint(0, 40), chance.randint(0, 40)
    rows = hashes(chance, n_frozen + n).reshape(-1, 1)
    ids = np.arange(n_frozen + n, dtype=np.uint32)
    arrays = kernel.build(cut, rows[:n_frozen], ids[:n_frozen])
    memtable = kernel.Memtable(cut, n + 1, 1)
    segments = [kernel.Segment(cut, arrays), memtable]
    before = kernel.within_many(segments, rows, 3, 1, 999)
    memtable.add_many(rows[n_frozen:], ids[n_frozen:])
    return (
        before,
        kernel.nearest_many(segments, rows, 3, 1, 1, 0),
        kernel.scan_nearest_many(segments, rows, 3),
    )


CALLS: tuple[tuple[str, Call], ...] = (
    ("words", lambda kernel, chance: kernel.normalise(text(chance))),
    ("words", lambda kernel, chance: kernel.blocks(text(chance), chance.randint(0, 3))),
    ("facts", facts),
    ("markup", visible_text),
    ("markup", markup),
    ("fingerprint", signatures),
    ("fingerprint", odd_rows),
    ("templates", templates),
    ("bloom", filter_bits),
    ("hamming", permuted),
    ("slices", sliced),
)


def plain(found: object) -> object:
    """Arrays as lists, however deep they are."""
    if isinstance(found, np.ndarray):
        return found.tolist()
    return [plain(one) for one in found] if isinstance(found, list | tuple) else found


def fault(number: int, seed: int) -> str:
    """What was wrong with a call in a process of its own; "" if nothing was."""
    area, call = CALLS[number % len(CALLS)]
    kernel, twin = (import_module(f"{PACKAGES[kind]}.{area}") for kind in ("native", "numpy"))
    chance = random.Random(f"{number} {seed}")
    level = chance.choice(getattr(kernel, "SIMD_LEVELS", ("",)))
    state = chance.getstate()
    expected = plain(call(twin, chance))
    chance.setstate(state)
    child = os.fork()
    if not child:
        os._exit(answer(lambda: plain(call(kernel, chance)) == expected, kernel, level))
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    what = {0: "", 1: "another answer than the twin's", 2: "an exception"}
    how = (
        what[code]
        if code in what
        else signal.Signals(-code).name
        if code < 0
        else f"exit code {code}"
    )
    return how and f"call {number} of {area}, seed {seed}: {how}"


def answer(is_right: Callable[[], bool], kernel: ModuleType, level: str) -> int:
    """The exit code of the process that calls."""
    try:
        if level:
            kernel.use_simd(level)
        return not is_right()
    except BaseException:
        sys.excepthook(*sys.exc_info())
        return 2


def faults(n_calls: int, seed: int) -> Iterator[str]:
    """Of so many calls, those that went wrong."""
    for area in AREAS:  # imported here, called in children only
        import_module(f"{PACKAGES['native']}.{area}")
    return filter(None, (fault(number, seed) for number in range(n_calls)))


def main() -> int:
    """How many calls went wrong, at most 1."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("calls", nargs="?", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    found = 0
    for each in faults(given.calls, given.seed):
        found = 1
        print(each, flush=True)  # noqa: T201 - its output
    return found


if __name__ == "__main__":
    sys.exit(main())
