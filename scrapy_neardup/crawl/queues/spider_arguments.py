"""By which arguments the workers of a shared queue differ: each reads pages with its own."""

from __future__ import annotations

from hashlib import blake2b

from scrapy import Spider


def arguments_of(spider: Spider, secret: int) -> dict[str, str]:
    """A spider's attributes that may be arguments → a digest of each.

    Arguments of `-a` are strings that the spider has as attributes, beside those that it sets
    itself. Those of scrapyd (`_job`) begin with an underscore: they differ by design. The digests
    are keyed, for an argument may be a password.
    """
    key = secret.to_bytes(8, "little")
    return {
        name: blake2b(value.encode("utf-8", "replace"), digest_size=4, key=key).hexdigest()
        for name, value in sorted(vars(spider).items())
        if isinstance(value, str) and name != "name" and not name.startswith("_")
    }


def differing(ours: dict[str, str], others: dict[str, str]) -> list[str]:
    """The names of the arguments by which two workers differ."""
    return [name for name in ours | others if ours.get(name) != others.get(name)]
