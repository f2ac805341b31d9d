"""How many steps a regular expression takes: its syntax tree, matched by backtracking, counted.

Python's own engine skips some of these steps, but not whole classes of them: what is linear here
is linear there. Inputs are pumped: what each repetition takes, many times, behind what has to
stand before it, and followed by what makes the match fail.
"""

import re
from collections.abc import Callable, Iterator
from functools import partial
from re import _constants as op  # type: ignore[attr-defined]
from re import _parser  # type: ignore[attr-defined]
from typing import Any

REPEATS = (op.MAX_REPEAT, op.MIN_REPEAT, op.POSSESSIVE_REPEAT)
SAMPLES = "a0-_ .:/=&%\"'\\<>[]{}()*é#;@!|,`$\n\x00Z"
LONG = 40  # a repetition that may take more is pumped
MAX_PUMPS = 12  # of one repetition

Accept = Callable[[int], bool]


class TooManySteps(Exception):
    """More steps than any linear pattern takes."""


class Matcher:
    """Counts the steps of trying a pattern on a text."""

    def __init__(self, pattern: re.Pattern[Any]) -> None:
        self.tree = _parser.parse(pattern.pattern, pattern.flags & ~re.UNICODE)
        self.flags = self.tree.state.flags
        self._taken: dict[tuple[str, int, str], bool] = {}

    def search(self, text: str, anchored: bool, max_steps: int) -> int:
        """The steps of finding all matches, or of a match at the beginning.

        Raises TooManySteps.
        """
        self.n_steps, self.max_steps, self.text = 0, max_steps, text
        at = 0
        while at <= len(text):
            end = self._end_of(list(self.tree), at)
            if anchored:
                break
            at = at + 1 if end is None else max(end, at + 1)
        return self.n_steps

    def _end_of(self, nodes: list[Any], at: int) -> int | None:
        """Where nodes end in the first way in which they match; None where they do not."""
        ends: list[int] = []

        def accept(end: int) -> bool:
            ends.append(end)
            return True

        return ends[0] if self._sequence(nodes, 0, at, accept) else None

    def _sequence(self, nodes: list[Any], n: int, at: int, accept: Accept) -> bool:
        for place in range(n, len(nodes)):
            kind, value = nodes[place]
            if kind in REPEATS or kind in (op.BRANCH, op.SUBPATTERN, op.ATOMIC_GROUP):
                then = partial(self._sequence, nodes, place + 1, accept=accept)
                return self._try(kind, value, at, then)
            end = self._plain(kind, value, at)
            if end is None:
                return False
            at = end
        return accept(at)

    def _step(self) -> None:
        self.n_steps += 1
        if self.n_steps > self.max_steps:
            raise TooManySteps

    def _plain(self, kind: Any, value: Any, at: int) -> int | None:
        """Where a node ends that can match in one way only; None where it does not."""
        self._step()
        if kind is op.AT:
            return at if self._is_at(value, at) else None
        if kind in (op.ASSERT, op.ASSERT_NOT):
            return at if self._asserted(*value, at) == (kind is op.ASSERT) else None
        if kind is op.GROUPREF:
            return at
        return at + 1 if at < len(self.text) and self._takes(kind, value, at) else None

    def _asserted(self, direction: int, nodes: Any, at: int) -> bool:
        if direction < 0:
            at -= nodes.getwidth()[0]
        return at >= 0 and self._sequence(list(nodes), 0, at, lambda _: True)

    def _is_at(self, where: Any, at: int) -> bool:
        text = self.text
        if where in (op.AT_BEGINNING, op.AT_BEGINNING_STRING):
            multi = where is op.AT_BEGINNING and self.flags & re.MULTILINE
            return at == 0 or bool(multi and text[at - 1] == "\n")
        if where in (op.AT_END, op.AT_END_STRING):
            multi = where is op.AT_END and self.flags & re.MULTILINE
            return at == len(text) or bool(multi and text[at] == "\n")
        sides = [0 <= i < len(text) and re.match(r"\w", text[i]) is not None for i in (at - 1, at)]
        return (sides[0] != sides[1]) == (where is op.AT_BOUNDARY)

    def _takes(self, kind: Any, value: Any, at: int) -> bool:
        node = (str(kind), value if isinstance(value, int) else id(value), self.text[at])
        if node not in self._taken:
            self._taken[node] = takes(kind, value, self.text[at], self.flags)
        return self._taken[node]

    def _try(self, kind: Any, value: Any, at: int, accept: Accept) -> bool:
        self._step()
        if kind is op.SUBPATTERN:
            return self._sequence(list(value[3]), 0, at, accept)
        if kind is op.BRANCH:
            return any(self._sequence(list(branch), 0, at, accept) for branch in value[1])
        if kind is op.ATOMIC_GROUP:
            end = self._end_of(list(value), at)
            return end is not None and accept(end)
        low, high, body = value
        if len(body) == 1 and is_single(*body[0]):
            return self._many_of_one(kind, low, high, body[0], at, accept)
        if kind is op.POSSESSIVE_REPEAT:
            return self._possessive(low, high, list(body), at, accept)
        return self._repeated(kind, low, high, list(body), at, accept, 0)

    def _many_of_one(
        self, kind: Any, low: int, high: int, node: Any, at: int, accept: Accept
    ) -> bool:
        end, last = at, min(len(self.text), at + int(high))
        if kind is op.MIN_REPEAT:
            while end - at < low or not accept(end):
                if end >= last or not self._takes(*node, end):
                    return False
                self._step()
                end += 1
            return True
        while end < last and self._takes(*node, end):
            self._step()
            end += 1
        if kind is op.POSSESSIVE_REPEAT:
            return end - at >= low and accept(end)
        while end - at >= low:
            self._step()
            if accept(end):
                return True
            end -= 1
        return False

    def _possessive(self, low: int, high: int, body: list[Any], at: int, accept: Accept) -> bool:
        n = 0
        while n < high and (end := self._end_of(body, at)) is not None:
            n += 1
            if end == at:
                break
            at = end
        return n >= low and accept(at)

    def _repeated(
        self, kind: Any, low: int, high: int, body: list[Any], at: int, accept: Accept, n: int
    ) -> bool:
        def more(end: int) -> bool:
            if end == at and n >= low:
                return False
            return self._repeated(kind, low, high, body, end, accept, n + 1)

        self._step()
        if kind is op.MIN_REPEAT and n >= low and accept(at):
            return True
        if n < high and self._sequence(body, 0, at, more):
            return True
        return kind is op.MAX_REPEAT and n >= low and accept(at)


def is_single(kind: Any, value: Any) -> bool:
    """Whether a node takes one character."""
    return kind in (op.LITERAL, op.NOT_LITERAL, op.ANY, op.IN)


def takes(kind: Any, value: Any, char: str, flags: int) -> bool:
    """Whether such a node takes a character."""
    if kind is op.ANY:
        return bool(flags & re.DOTALL) or char != "\n"
    if kind is op.IN:
        negated = value[0][0] is op.NEGATE
        return any(_is_in(*one, char, flags) for one in value[negated:]) != negated
    is_same = char == chr(value) or bool(
        flags & re.IGNORECASE and char.lower() == chr(value).lower()
    )
    return is_same == (kind is op.LITERAL)


def _is_in(kind: Any, value: Any, char: str, flags: int) -> bool:
    if kind is op.CATEGORY:
        name = str(value).rpartition("_")[2].lower()
        negated = "_NOT_" in str(value)
        sets = {"digit": r"\d", "space": r"\s", "word": r"\w"}
        return (re.match(sets[name], char) is not None) != negated
    chars = (char, char.lower(), char.upper()) if flags & re.IGNORECASE else (char,)
    if kind is op.RANGE:
        return any(value[0] <= ord(one) <= value[1] for one in chars if len(one) == 1)
    return chr(value) in chars


def sample(nodes: Any, flags: int, char: int = 0) -> str:
    """A text that nodes may take; char: which of those that a node takes."""
    text = ""
    for kind, value in nodes:
        if is_single(kind, value):
            text += one_of(kind, value, flags, char)
        elif kind in REPEATS:
            text += sample(value[2], flags, char) * min(int(value[0]), 30)
        elif kind is op.SUBPATTERN:
            text += sample(value[3], flags, char)
        elif kind is op.ATOMIC_GROUP:
            text += sample(value, flags, char)
        elif kind is op.BRANCH:
            text += sample(value[1][char % len(value[1])], flags, char)
    return text


def one_of(kind: Any, value: Any, flags: int, char: int) -> str:
    """One of the characters that a node takes, of those that differ in kind."""
    if kind is op.LITERAL:
        return chr(value)
    known = [one for one in SAMPLES if takes(kind, value, one, flags)]
    if not known and kind is op.IN:
        known = [chr(one[1]) for one in value if one[0] is op.LITERAL]
        known += [chr(one[1][0]) for one in value if one[0] is op.RANGE]
    return known[char % len(known)] if known else "a"


def pumped(pattern: re.Pattern[Any], n: int) -> Iterator[str]:
    """Texts of n pumps for each long repetition of a pattern."""
    tree = _parser.parse(pattern.pattern, pattern.flags & ~re.UNICODE)
    flags = tree.state.flags
    for before, repeat in long_repeats(list(tree), flags, ""):
        takes_one = [sample(repeat[1][2], flags, char) for char in range(6)]
        ones = [one for one in dict.fromkeys(takes_one) if one]
        pairs = [a + b for a in ones for b in ones if a != b]
        pumps = [*ones, before, *(before + one for one in ones), *pairs]
        for pump in list(dict.fromkeys(filter(None, pumps)))[:MAX_PUMPS]:
            for start in dict.fromkeys((before, "")):
                for end in ("", "\x00", "\n!"):
                    yield start + pump * n + end


def long_repeats(nodes: list[Any], flags: int, before: str) -> Iterator[tuple[str, Any]]:
    """Each repetition that may be long, and a text that leads to it."""
    for kind, value in nodes:
        if kind in REPEATS:
            if value[1] > LONG:
                yield before, (kind, value)
            yield from long_repeats(list(value[2]), flags, before)
        elif kind is op.SUBPATTERN:
            yield from long_repeats(list(value[3]), flags, before)
        elif kind is op.ATOMIC_GROUP:
            yield from long_repeats(list(value), flags, before)
        elif kind is op.BRANCH:
            for branch in value[1]:
                yield from long_repeats(list(branch), flags, before)
        elif kind in (op.ASSERT, op.ASSERT_NOT):
            yield from long_repeats(list(value[1]), flags, before)
        before += sample([(kind, value)], flags)


def worst_growth(pattern: re.Pattern[Any], anchored: bool, n: int = 16) -> tuple[float, str]:
    """How many times the steps grow where a text is four times as long, at most; and which text."""
    worst, text, matcher = 0.0, "", Matcher(pattern)
    for short, long in zip(pumped(pattern, n), pumped(pattern, 4 * n), strict=True):
        try:
            few = matcher.search(short, anchored, 10**5)
            growth = matcher.search(long, anchored, 9 * few + 500) / few
        except TooManySteps:
            growth = 9.0
        if growth > worst:
            worst, text = growth, long
        if worst >= 9:
            break
    return worst, text
