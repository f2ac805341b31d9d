"""Strings and numbers in scripts that hold no JSON: `var data = {sku: 'A-1'}`, `show(19.90)`.

Scripts are cut into tokens, neither parsed nor executed. Pages whose texts are all but equal and
whose literals are not are different pages.
"""

from __future__ import annotations

import re
from base64 import b64decode
from collections.abc import Iterator

from scrapy_neardup.urls.key import TURNS, up_to_a_turn

AT_ONCE = 1 << 17  # characters that one call reads, holding Python's lock

# No alternative is given up once it has begun: each character is read once, whatever the script is.
_STRING = r"""(?:"(?:[^"\\\n]|\\.)*+"?|'(?:[^'\\\n]|\\.)*+'?|`(?:[^`\\]|\\.)*+`?)"""
_NAME = r"[A-Za-z_$][\w$]*+"
# A pattern, `/\/\/"/g`: without it, its quotes and slashes would begin strings and comments. Where
# no division can stand; what only looks like one, as a path without quotes, is read as one string.
_PATTERN = (
    r"[(,:\[!&|?;=r](?:(?<=r)eturn\b|(?<==)>|(?<!r))\s*+(?=/[^/*])"
    r"(/(?:[^/\\\[\n]|\\.|\[(?:[^\]\\\n]|\\.)*+\]?)*+/?)"
)
TOKEN = re.compile(
    r"/\*(?:[^*]|\*(?!/))*+(?:\*/)?|//[^\n]*+|"
    rf"{_PATTERN}|"
    rf"({_NAME}|{_STRING})\s*+[:=]\s*+({_STRING}|-?\d[\w.]*+|!\d|(?:true|false|null)\b)|"
    rf"({_STRING}|-?\d[\w.]*+|(?:true|false)\b)|{_NAME}",
    re.DOTALL,
)
# What has letters and digits in a row that long was made by a program: an id of this visit. So was
# what has them take turns as in no words: `summer-sale-2026` may be what a page is about.
_TURN = up_to_a_turn(r"\w-")
DRAWN = re.compile(
    r"(?=[a-f]*+\d)(?=\d*+[a-f])[0-9a-f]{10,}|"
    rf"\b(?=[\w-]*\d)(?=(?:{_TURN}){{{TURNS}}})[\w-]{{22,}}\b"
)
# DRAWN is tried at each character, and looks ahead from there: quadratic in the length of a run.
SHORTEST_RUN = 10  # characters
RUN = re.compile(rf"[\w-]{{{SHORTEST_RUN},}}+")
LONGEST_RUN = 256  # characters; whatever is longer and has a digit was drawn
DIGIT = re.compile(r"\d")
# How JSON in Base64 begins: {" or [{ or [" or [[ or [ and a digit. What it holds is data, but for
# a token of the visit, which names its algorithm or says until when it holds.
ENCODED_JSON = re.compile(r"(?:eyJ|W3s|WyJ|W1[s-v]|W[yz][A-Z])[\w+/-]{8,}={0,2}", re.ASCII)
OF_A_TOKEN = re.compile(r'"(?:alg|typ|kid|exp|iat|jti|nonce|csrf\w*|\w*[tT]oken)"')
# Given to bot protection and monitoring: nothing but ids and times of the visit.
OF_THE_VISIT = re.compile(r"(?:__CF\$cv\$params|\bNREUM\.\w+)\s*+=\s*+\{[^{}]*+\}")

Literal = tuple[str, str]  # the name that it is given, "" for none; the literal without quotes


def literals(code: str) -> Iterator[Literal]:
    """The literals of a script, in order. O(len(code))."""
    for part in _parts(code):
        for pattern, name, value, alone in TOKEN.findall(_without_visit(part)):
            if pattern or value or alone:
                value = _bare(value) if name else _undrawn(pattern or _bare(alone))
                yield _undrawn(_bare(name)), value


def _without_visit(code: str) -> str:
    # Where a pattern may begin is looked for ten times as fast.
    has_begin = "__CF$" in code or "NREUM" in code
    return OF_THE_VISIT.sub("", code) if has_begin else code


def _parts(code: str) -> Iterator[str]:
    """A script in parts of at most AT_ONCE characters, which end with a line where they can."""
    at = 0
    while at < len(code):
        end = at + AT_ONCE
        if end < len(code):
            end = code.rfind("\n", at, end) + 1 or end
        yield code[at:end]
        at = end


def _undrawn(text: str) -> str:
    """A text with a star for each id that was drawn. O(len(text))."""
    if len(text) < SHORTEST_RUN:
        return text
    if ENCODED_JSON.fullmatch(text) and not OF_A_TOKEN.search(_decoded(text)):
        return text
    return RUN.sub(_undrawn_run, text)


def _decoded(text: str) -> str:
    """What a text in Base64 says, as far as it is complete."""
    whole = text.rstrip("=").replace("-", "+").replace("_", "/")
    return b64decode(whole[: len(whole) // 4 * 4]).decode("utf-8", "replace")


def _undrawn_run(found: re.Match[str]) -> str:
    run = found[0]
    if DIGIT.search(run) is None:
        return run
    return "*" if len(run) > LONGEST_RUN else DRAWN.sub("*", run)


def _bare(token: str) -> str:
    return token.strip(token[0]) if token[:1] in ("'", '"', "`") else token
