"""What normalised words are: the definition, example by example, and against its plain form."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrapy_neardup.detect.text import normalise, normalise_plainly


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", ""),
        (" \t\n.,;!?-_/\\", ""),
        ("A school is a SCHOOL.", "a school is a school"),
        ("  don't stop  ", "don t stop"),
        ("line one\nline two", "line one line two"),
        ("cafe\n\u0301s", "cafe \u0301s"),  # a break keeps a mark from its letter
        ("snake_case kebab-case x2", "snake case kebab case x2"),
        ("3.14 1,000", "3 14 1 000"),
        ("Straße ﬁne Ǆ", "strasse fine dž"),
        ("Ｆｕｌｌ　Ｗｉｄｔｈ", "full width"),
        ("cafe\u0301 café", "café café"),
        ("ΣΊΣΥΦΟΣ", "σίσυφοσ"),
        ("½ ² ⅷ", "1 2 2 viii"),
        ("a\u00adb a\u200bb a\u2060b", "a b a b a b"),
        ("a\x00b\x1fc\x7fd", "a b c d"),
        ("up😀down ☃", "up down"),
        ("a\ud800b", "a b"),
        ("हिन्दी עִבְרִית العَرَبية", "हिन्दी עִבְרִית العَرَبية"),
        ("漢", "漢"),
        ("漢字", "漢字"),
        ("日本語です。はい", "日本 本語 語で です はい"),
        ("abc漢字def", "abc 漢字 def"),
        ("ภาษาไทย", "ภา าษ ษา าไ ไท ทย"),
        ("ｶﾞｷﾞ", "ガギ"),
        ("한국어 \u1112\u1161\u11ab", "한국어 한"),
        ("𝒩𝓮𝓪𝓻 𠀀𠀁𠀂", "near 𠀀𠀁 𠀁𠀂"),
        ("۱۲۳ Ⅻ", "۱۲۳ xii"),
    ],
)
def test_words_are(text: str, words: str) -> None:
    assert normalise(text) == normalise_plainly(text) == words.encode()


@given(st.text())
def test_words_are_separated_by_single_spaces_and_hold_nothing_else(text: str) -> None:
    words = normalise(text).decode()
    assert words == " ".join(words.split())
    assert all(unicodedata.category(c)[0] in "LMN" for c in words if c != " ")


@given(st.text())
def test_text_is_normalised_as_it_is_defined(text: str) -> None:
    assert normalise(text) == normalise_plainly(text)


@given(st.text(), st.text())
def test_texts_with_a_space_between_them_do_not_touch(first: str, second: str) -> None:
    parts = [part for part in (normalise(first), normalise(second)) if part]
    assert normalise(f"{first} {second}") == b" ".join(parts)
