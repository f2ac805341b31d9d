"""What is remembered of the items of a page that was read: a digest of each of their fields."""

from __future__ import annotations

import json
import zlib
from collections import Counter
from typing import Any, NamedTuple

from scrapy_neardup.crawl.items.item_data import fields_apart
from scrapy_neardup.crawl.items.item_fields import fields_of

# Items of a page whose fields are remembered, and bytes of those; of more, whether all are equal.
MAX_ITEMS, MAX_FIELDS_BYTES = 200, 1 << 25
SAME_TEXT = 0  # stands for a field that repeats the page's text, which is compared by itself
MIN_TEXT_CHARS = 100  # of such a field
EXACTLY = "\0"  # before the name of such a field, for what it holds of the page's text

Fields = list[dict[str, int]]  # of each item the digests of its fields, by name


class ReaderView(NamedTuple):
    """What a reader of a page sees, to tell which fields of items repeat it."""

    n_chars: int
    words: frozenset[str]

    @classmethod
    def of(cls, text: str) -> ReaderView:
        """The words of a text."""
        words = text.split()
        return cls(sum(map(len, words)), frozenset(words))

    def fields_in(self, item: Any, names: dict[str, int]) -> list[str]:
        """Fields that hold most of the page's text and nothing else: the page speaks for them.

        Not lists, of which the order says something, too.
        """
        found = []
        for name, value in fields_of(item).items():
            words = value.split() if isinstance(value, str) else []
            n_chars = sum(map(len, words))
            if n_chars >= MIN_TEXT_CHARS and 2 * n_chars >= self.n_chars and name in names:
                found += [name] if self.words.issuperset(words) else []
        return found


def packed_fields(fields: Fields | None) -> bytes:
    """What is remembered of a page's items; nothing where they cannot be read."""
    if fields is None:
        return b""
    bare = _but_for_texts(fields)
    # In JSON a character takes at most 12 bytes, and a hash with what is around it 32.
    n_bytes = sum(12 * len(name) + 32 for one in bare for name in one)
    if len(fields) > MAX_ITEMS or n_bytes > MAX_FIELDS_BYTES // 2:
        whole = zlib.crc32(repr(sorted(sorted(one.items()) for one in bare)).encode())
        fields = [{"": whole}]
    return zlib.compress(json.dumps(fields).encode("ascii"), 1)


def gave_items(packed: bytes) -> bool:
    """Whether a page did; also where they could not be read. packed: what is remembered of them."""
    return packed != packed_fields([])


def unpacked_fields(packed: bytes) -> Fields | None:
    """What packed_fields() was given. Raises ValueError, zlib.error."""
    if not packed:
        return None
    unpacker = zlib.decompressobj()
    text = unpacker.decompress(packed, MAX_FIELDS_BYTES)
    if not unpacker.eof:
        raise ValueError(f"the fields of a page have more than {MAX_FIELDS_BYTES:,} bytes")
    fields: Fields = json.loads(text)
    return fields


def differing(
    earlier: Fields | None, now: Fields | None, has_same_text: bool = False
) -> list[str] | None:
    """Names of fields in which a page's items differ; "" stands for what has no name.

    None, as an empty list, says that they do not. Items in another order are equal.
    has_same_text: the page says what it said, so that fields have to hold the same of it.
    """
    if earlier is None or now is None:
        return [""]
    if not has_same_text:
        earlier, now = _but_for_texts(earlier), _but_for_texts(now)
    if len(now) > MAX_ITEMS or [*map(list, earlier)] == [[""]]:  # only whether all are equal
        now = unpacked_fields(packed_fields(now))
    assert now is not None
    left = Counter(tuple(sorted(one.items())) for one in earlier)
    changed = []
    for one in now:
        if left[pairs := tuple(sorted(one.items()))]:
            left[pairs] -= 1
        else:
            changed.append(one)
    if not changed and not left.total():
        return None
    names: set[str] = set()
    for one, pairs in zip(changed, left.elements(), strict=False):
        names.update(fields_apart(one, dict(pairs)))
    return sorted({name.removeprefix(EXACTLY) for name in names}) or [""]


def _but_for_texts(fields: Fields) -> Fields:
    """Fields without what those hold for which the page speaks."""
    return [{n: v for n, v in one.items() if not n.startswith(EXACTLY)} for one in fields]
