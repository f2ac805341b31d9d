"""Word kernels: Python and compiled against the plain definition, byte for byte."""

import gzip
import json
import sys
import unicodedata
from dataclasses import dataclass
from functools import cache
from itertools import groupby
from pathlib import Path
from types import ModuleType

import mmh3
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kernel_levels import kernels_of, native

import scrapy_neardup.kernels.numpy_twin.words as twin
from scrapy_neardup.detect.text import normalise_plainly, stream_safe_plainly
from scrapy_neardup.kernels.numpy_twin.words import MAX_NON_STARTERS, PIECE, continuing

# Alone, with letters, with marks that compose, change places or do neither, with Hangul in
# parts, in runs without spaces, after a ligature.
COMPANY = (
    *("{}", "a{}b", "é{}", "{0}{0}", "{}\u0301", "{}\u0323\u0301", "\u0301{}", "{}\u05b0\u0301"),
    *("<{}", "\u1100{}", "{}\u1161", "한{}", "ท{}\u0e49", "か{}字", "ﬁ{}ﬁ", "{}\u093c", "Σ{}ς"),
    "\u0345{}",
)
SEPARATORS = " \t\n\x0b\x0c\r\x1c\x1f\x85\xa0\u2028\u3000.<=>\x00\ud800\udfff"


kernel = kernels_of("words")


@cache
def difficult() -> list[str]:
    """Marks, what composes, what NFKC or folding changes, and separators of every kind."""
    every = [c for c in map(chr, range(0x30000)) if not 0xD800 <= ord(c) < 0xE000]
    changed = [c for c in every if unicodedata.normalize("NFKD", c).casefold() != c]
    marks = [c for c in every if unicodedata.category(c)[0] == "M"]
    jamo = [chr(c) for c in range(0x1100, 0x1200)]
    return [*changed, *marks * 5, *jamo * 10, *SEPARATORS * 100, *"abcXYZ019漢字かなไท" * 100]


@cache
def defined(text: str) -> bytes:
    """What the definition gives, made once for all variants: under a sanitizer it takes minutes."""
    return normalise_plainly(text)


@given(st.text() | st.lists(st.sampled_from(difficult()), max_size=60).map("".join))
def test_kernels_give_what_the_definition_gives(kernel: ModuleType, text: str) -> None:
    assert kernel.normalise(text) == normalise_plainly(text)


@given(st.text(st.characters(max_codepoint=127)))
def test_kernels_give_what_the_definition_gives_for_ascii(kernel: ModuleType, text: str) -> None:
    assert kernel.normalise(text) == normalise_plainly(text)


@given(
    st.lists(st.sampled_from([*difficult(), *"\n" * 2000, *" .a" * 500]), max_size=80),
    st.integers(0, 12),
)
def test_blocks_are_the_lines_and_the_words_are_the_text(
    kernel: ModuleType, letters: list[str], max_lines: int
) -> None:
    text = "".join(letters)
    words, hashes, n_words, at, ends = kernel.blocks(text, max_lines)
    every = list(enumerate(map(normalise_plainly, text.split("\n", max_lines))))
    lines = [line for _, line in every if line]
    assert at.tolist() == [number for number, line in every if line]
    assert [words[:end] for end in ends] == [b" ".join(lines[: i + 1]) for i in range(len(lines))]
    assert words == normalise_plainly(text) == b" ".join(lines)
    assert hashes.tolist() == [mmh3.hash64(line, signed=False)[0] for line in lines]
    assert n_words.tolist() == [len(line.split(b" ")) for line in lines]


@pytest.mark.parametrize("letter", ["a", "é", "漢", " b"])
def test_blocks_of_every_length(kernel: ModuleType, letter: str) -> None:
    lines = [(letter * 100)[:length] for length in range(100)]
    words, hashes, n_words, *_ = kernel.blocks("\n".join(lines), len(lines))
    expected = [normalise_plainly(line) for line in lines if line.strip()]
    assert words == b" ".join(expected)
    assert hashes.tolist() == [mmh3.hash64(line, signed=False)[0] for line in expected]
    assert n_words.tolist() == [line.count(b" ") + 1 for line in expected]


def each_code_point(company: str) -> str:
    return " ".join(company.format(chr(c)) for c in range(sys.maxunicode + 1))


def test_every_code_point_alone_is_what_python_makes_of_it() -> None:
    text = each_code_point("{}")
    assert native("words").normalise(text) == twin.normalise(text)


@pytest.mark.long
@pytest.mark.parametrize("company", COMPANY)
def test_every_code_point_in_company_is_what_python_makes_of_it(company: str) -> None:
    text = each_code_point(company)
    assert native("words").normalise(text) == twin.normalise(text)


def test_no_later_unicode_has_brought_decompositions_where_none_is_looked_for() -> None:
    later = "".join(map(chr, range(twin.DECOMPOSING, sys.maxunicode + 1)))
    assert unicodedata.is_normalized("NFD", later)


@pytest.mark.parametrize("company", COMPANY)
def test_code_points_that_change_are_what_the_definition_makes_of_them(
    kernel: ModuleType, company: str
) -> None:
    text = " ".join(map(company.format, difficult()[::7]))
    assert kernel.normalise(text) == normalise_plainly(text)


@pytest.mark.parametrize("end", ["", " ", "é", " é", "\u0301", "漢字"])
def test_every_length_of_ascii_before_something_else(kernel: ModuleType, end: str) -> None:
    for filling in ("a", "Ab ", "ab.", " "):
        for length in range(150):
            text = (filling * 150)[:length] + end
            assert kernel.normalise(text) == normalise_plainly(text)


@pytest.mark.parametrize(
    "piece",
    [
        "\ufdfa",
        "Abcdefghij" * 9,
        "漢",
        "é",
        "é ",
        "\u0301",
        "각\u11a8",
        "a\ud800",
        "\u1100\u1161 ",
        "\U00020000",
    ],
    ids=ascii,
)
def test_long_texts_of_one_piece(kernel: ModuleType, piece: str) -> None:
    text = piece * 5_000
    assert kernel.normalise(text) == defined(text)


def test_what_is_not_text_is_refused() -> None:
    with pytest.raises(TypeError):
        native("words").normalise(b"bytes")


def test_real_pages_give_what_the_twin_gives(shared_data: Path) -> None:
    kernel = native("words")
    with gzip.open(shared_data / "pairs" / "pages.jsonl.gz", "rt", encoding="utf-8") as lines:
        texts = [json.loads(line)["html"] for line in lines][::10]
    for text in texts:
        assert kernel.normalise(text) == twin.normalise(text)
        assert [*map(list, kernel.blocks(text, 99))] == [*map(list, twin.blocks(text, 99))]


# What makes text slow to normalise: marks that change places, that do not, that decompose.
MARKS = ("\u0301\u0323", "\u0323", "\u0363", "\u0344", "\u0f73\u0f71", "\uff9e", "\u034f\u0301")
STARTS = ("a", "", "ᾂ", "é", " ", "漢", "\u1100", "\ufdfa")


@dataclass
class Work:
    """What unicodedata.normalize was asked for."""

    characters: int = 0
    longest: int = 0  # of texts that it was given
    longest_run: int = 0  # of non-starters in them, decomposed


@pytest.fixture
def work(monkeypatch: pytest.MonkeyPatch) -> Work:
    work, normalize = Work(), unicodedata.normalize

    def counting(form: str, text: str) -> str:
        starts = (not unicodedata.combining(c) for c in normalize("NFKD", text))
        runs = [len([*run]) for is_start, run in groupby(starts) if not is_start]
        work.characters += len(text)
        work.longest = max(work.longest, len(text))
        work.longest_run = max([work.longest_run, *runs])
        return normalize(form, text)

    continuing()  # made once in a process
    monkeypatch.setattr(twin.unicodedata, "normalize", counting)
    return work


@pytest.mark.parametrize("marks", MARKS, ids=ascii)
def test_a_page_of_combining_marks_is_normalised_in_short_runs(
    kernel: ModuleType, work: Work, marks: str
) -> None:
    kernel.normalise("<p>a" + marks * 50_000)
    assert work.longest_run <= MAX_NON_STARTERS
    assert work.characters <= 1.1 * len(marks) * 50_000


@pytest.mark.parametrize(
    "piece", ["\ufdfa\u0301", "한\u1100\u1161", "e\u0301", "é\u0327!", "漢\u3099"], ids=ascii
)
def test_no_call_normalises_more_than_a_piece(kernel: ModuleType, work: Work, piece: str) -> None:
    kernel.normalise(piece * 50_000)
    assert work.longest <= PIECE + MAX_NON_STARTERS


@given(
    st.lists(
        st.tuples(st.sampled_from(STARTS), st.sampled_from(MARKS), st.integers(0, 70)), max_size=4
    )
)
def test_long_runs_of_marks_are_cut_as_the_definition_cuts_them(
    kernel: ModuleType, parts: list[tuple[str, str, int]]
) -> None:
    text = "".join(start + marks * n for start, marks, n in parts)
    assert kernel.normalise(text) == normalise_plainly(text)


@pytest.mark.parametrize("marks", ["\u0301", "\u0344", "\u0323\u0301\u0f73"], ids=ascii)
def test_a_run_of_marks_over_many_pieces_is_cut_as_one(kernel: ModuleType, marks: str) -> None:
    text = "é" + marks * PIECE + " a"
    assert kernel.normalise(text) == normalise_plainly(text)


@pytest.mark.parametrize("mark", ["\u0301", "\u0363"])
@pytest.mark.parametrize("start", ["a", "é", "ᾂ"])
def test_thirty_marks_on_a_letter_stay_together(kernel: ModuleType, start: str, mark: str) -> None:
    room = MAX_NON_STARTERS + 1 - len(unicodedata.normalize("NFKD", start))
    room += 1 - unicodedata.combining(start)
    for n in range(40):
        words = kernel.normalise(start + mark * n).decode()
        assert ("\u034f" in words) == (n > room - 1), n


@given(st.lists(st.sampled_from(difficult()), max_size=300).map("".join))
def test_pieces_are_normalised_as_the_whole(text: str) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(twin, "PIECE", 3)
        pieces = [*twin.normal_pieces(text)]
    assert "".join(pieces) == unicodedata.normalize("NFKC", stream_safe_plainly(text))


def test_a_syllable_is_not_cut_into_its_letters(kernel: ModuleType) -> None:
    start = "a" * (twin.PIECE - 1)
    assert kernel.normalise(start + "\u1100\u1161") == f"{start}가".encode()


@pytest.mark.parametrize("between", [0, 1, 10, 300])
@pytest.mark.parametrize("piece", ["e\u0301", "আমার সোনার বাংলা", "e\u0301漢\u1100\u1161"])
def test_what_needs_its_company_again_and_again(
    kernel: ModuleType, piece: str, between: int
) -> None:
    text = "".join(f"{piece} {'Plain Å ' * between}" * 2 + piece for _ in range(20))
    assert kernel.normalise(text) == defined(text)
