"""What normalised words are: the definition, example by example, and against its plain form."""

import unicodedata
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrapy_neardup.detect.text import (
    exact_text,
    normalise,
    normalise_plainly,
    stream_safe_plainly,
    words_and_blocks,
)
from scrapy_neardup.errors import OverBudget


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


@pytest.mark.parametrize(
    ("text", "exact"),
    [
        ("", ""),
        (" \t\n\u00a0\u3000", ""),
        ("  C++ \r\n is\u00a0 C", "C++ is C"),
        ("cafe\u0301 \u1112\u1161\u11ab", "café 한"),
        ("x² ﬁne ™ Ｆ", "x² ﬁne ™ Ｆ"),
        ("a\u00adb\u200bc\ufeff\u2060 d", "abc d"),
        ("e\u200b\u0301", "é"),
        ("ن\u200cم 👨\u200d👩", "ن\u200cم 👨\u200d👩"),
        ("🏴\U000e0067\U000e007f", "🏴\U000e0067\U000e007f"),  # flags differ in their tags
        ("\ud800", "\ud800"),
    ],
)
def test_exact_text_is(text: str, exact: str) -> None:
    assert exact_text(text) == exact.encode("utf-8", "surrogatepass")


@given(
    st.text(
        st.sampled_from("ae \n\u00a0\u0301\u0323\u034f\u1100\u1161\u11a8가e\u0344ﬁ"), max_size=80
    )
)
def test_exact_text_is_in_canonical_form_however_many_marks_follow(text: str) -> None:
    exact = exact_text(text).decode()
    assert exact == exact_text(unicodedata.normalize("NFD", text)).decode()
    assert exact == " ".join(unicodedata.normalize("NFC", stream_safe_plainly(text)).split())


def test_exact_text_of_nothing_but_marks_takes_no_quadratic_time() -> None:
    text = "\u0301\u0323" * 500_000  # unicodedata.normalize alone would take hours
    assert exact_text(text).count("\u034f".encode()) == pytest.approx(1_000_000 / 30, rel=0.01)


@pytest.mark.parametrize("read", [normalise, words_and_blocks])
def test_a_text_whose_words_take_many_times_its_bytes_is_over_budget(
    read: Callable[[str], object],
) -> None:
    read("\ufdfa" * 2_000)  # short
    read("漢字仮名" * 50_000)  # bigrams
    with pytest.raises(OverBudget, match="bytes of words in"):
        read("\ufdfa" * 50_000)
