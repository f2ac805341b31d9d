"""What is hashed: the words of a text. Every engine stands on this definition."""

import unicodedata
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrapy_neardup.text import UNSPACED, is_word_char, normalise


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", ""),
        (" \n\t ", ""),
        ("Hello, World!", "hello world"),
        ("snake_case and x2", "snake case and x2"),
        ("Straße", "strasse"),  # case folding
        ("ﬁne Ⅷ ½", "fine viii 1 2"),  # NFKC
        ("e\u0301te\u0301", "été"),  # composed
        ("cafe\n\u0301s", "cafe ́s"),  # a break keeps a mark from its letter
        ("नमस्ते", "नमस्ते"),  # marks belong to words
        ("٣٤", "٣٤"),  # digits of any script
        ("日本語", "日本 本語"),  # bigrams
        ("語", "語"),
        ("Python日本語3", "python 日本 本語 3"),
        ("a\0b\u200bc\ud800d", "a b c d"),
        ("line one\nline two", "line one line two"),
    ],
)
def test_words_of_text(text: str, words: str) -> None:
    assert normalise(text) == words.encode()


def by_definition(text: str) -> bytes:
    """The docstring of normalise, character by character."""
    words: list[str] = []
    word = ""
    for char in unicodedata.normalize("NFKC", text).casefold() + " ":
        if is_word_char(char) and (not word or unspaced(char) == unspaced(word[0])):
            word += char
            continue
        if word:
            words.extend(bigrams(word) if unspaced(word[0]) else [word])
        word = char if is_word_char(char) else ""
    return " ".join(words).encode()


def unspaced(char: str) -> bool:
    return any(low <= ord(char) <= high for low, high in UNSPACED)


def bigrams(run: str) -> list[str]:
    return ["".join(pair) for pair in pairwise(run)] or [run]


TEXTS = st.text(
    st.characters()
    | st.sampled_from("aZ09 _\n\r\u2028.-é\u0301İßﬁ語の中ー한ไท\0\ud800\u0345\u1e9e\u3099か")
)


@given(TEXTS)
def test_any_text_has_the_words_of_the_definition(text: str) -> None:
    assert normalise(text) == by_definition(text)
