"""Readers of single settings: what a person wrote, as Python or as text → the value, checked.

A reader takes the setting's name and the value as it was given, and raises SettingsError, which
names the setting, the value, what it takes and the remedy.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from itertools import product
from os import PathLike, fspath
from typing import Any
from urllib.parse import urlsplit

from scrapy_neardup.errors import NearDupError, SettingsError, SpecError
from scrapy_neardup.urls.profiles import check_profiles
from scrapy_neardup.urls.site_rules import SiteRules, read_rule_files

PREFIX = "NEARDUP_"

# Server, TLS, how it is found: valkeys+cluster:// has all three.
SCHEME_PARTS = (("redis", "valkey"), ("", "s"), ("", "+cluster", "+sentinel"))

DATABASE_PATH = re.compile(r"/?|/\d+/?")
SENTINEL_PATH = re.compile(r"/[^/]+(/\d*)?")  # name of the master, database

Reader = Callable[[str, Any], Any]


def refuse(name: str, value: object, takes: str, remedy: str = "") -> SettingsError:
    """The error for a value that cannot be honoured: name, value, limit and remedy."""
    hint = f". {remedy}" if remedy else ""
    return SettingsError(f"{PREFIX}{name}={value!r}: takes {takes}{hint}")


def flag(name: str, raw: Any) -> bool:
    """True or False, also as 1 and 0 or in words, as Scrapy reads them."""
    words = {"true": True, "1": True, "false": False, "0": False}
    try:
        return words[str(raw).lower()]
    except KeyError:
        raise refuse(name, raw, "True or False") from None


def whole(low: int, high: int, unit: str = "") -> Reader:
    """A whole number from low to high, both inclusive."""

    def read(name: str, raw: Any) -> int:
        takes = f"a whole number from {low:,} to {high:,}{unit and ' ' + unit}"
        try:
            value = int(str(raw))
        except ValueError:
            raise refuse(name, raw, takes) from None
        if isinstance(raw, bool) or not low <= value <= high:
            raise refuse(name, raw, takes)
        return value

    return read


def between(low: float, high: float) -> Reader:
    """A number above low and below high, both exclusive; NaN is refused."""

    def read(name: str, raw: Any) -> float:
        takes = f"a number above {low:g} and below {high:g}"
        try:
            value = float(raw)
        except (TypeError, ValueError):
            raise refuse(name, raw, takes) from None
        if isinstance(raw, bool) or not low < value < high:
            raise refuse(name, raw, takes)
        return value

    return read


def one_of(*values: str) -> Reader:
    """One of a few words."""

    def read(name: str, raw: Any) -> str:
        if raw not in values:
            closest = closest_to(str(raw), values)
            remedy = f"Did you mean {closest!r}?" if closest else ""
            raise refuse(name, raw, "one of " + ", ".join(values), remedy)
        return str(raw)

    return read


def closest_to(word: str, known: Iterable[str]) -> str | None:
    """The known word that is most like another, if one is."""
    from difflib import get_close_matches  # not wanted where all is well

    return next(iter(get_close_matches(word, known, n=1)), None)


def component(name: str, raw: Any) -> Any:
    """A short name, a dotted path or a class; whether it exists is seen when it is loaded."""
    if callable(raw) or (isinstance(raw, str) and raw):
        return raw
    raise refuse(name, raw, "a short name, a dotted path or a class")


@contextmanager
def loading(name: str, value: object) -> Iterator[None]:
    """While what a setting names is imported and called: whatever that raises becomes a
    SettingsError, but errors of ours that say what cannot run here."""
    try:
        yield
    except Exception as error:
        if isinstance(error, NearDupError) and not isinstance(error, SpecError):
            raise
        why = f"{type(error).__name__}: {error}. Correct it, or leave the setting out"
        remedy = str(error) if isinstance(error, SpecError) else why
        raise refuse(name, value, "what can be imported and called", remedy) from error


def names(name: str, raw: Any) -> tuple[str, ...]:
    """A list of names, or one string with commas between them; a set in alphabetical order.

    The order of a set is another in each process, and names are part of a state's identity.
    """
    parts = raw.split(",") if isinstance(raw, str) else raw
    if not isinstance(parts, (list, tuple, set, frozenset)):
        raise refuse(name, raw, "a list of names")
    if not all(isinstance(part, str) for part in parts):
        raise refuse(name, raw, "a list of names, each a string")
    stripped = (part.strip() for part in parts if part.strip())
    return tuple(sorted(stripped) if isinstance(raw, (set, frozenset)) else stripped)


def arguments(name: str, raw: Any) -> tuple[str, ...]:
    """Names of query arguments, where `name*` is a prefix; a prefix of all names is refused."""
    given = names(name, raw)
    if "*" in given:
        remedy = "Name the arguments, or take queryRemovalExcept in NEARDUP_URL_SITE_RULES"
        raise refuse(name, raw, "no bare *, under which pages that differ would be one", remedy)
    return given


def profiles(name: str, raw: Any) -> tuple[str, ...]:
    """Names of profiles for URLs, in alphabetical order."""
    given = tuple(sorted(set(names(name, raw))))
    try:
        check_profiles(given)
    except SettingsError as error:
        raise refuse(name, raw, "a list of names of profiles", str(error)) from error
    return given


def path(name: str, raw: Any) -> str:
    """The path of a file or folder."""
    if isinstance(raw, (str, PathLike)):
        return fspath(raw)
    raise refuse(name, raw, "a path")


def backend(name: str, raw: Any) -> str:
    """The URL of a server; never shown, for its password."""
    schemes = tuple(f"{server}{s}{to}://" for server, s, to in product(*SCHEME_PARTS))
    if not isinstance(raw, str) or not raw.startswith(schemes):
        raise refuse(name, "…", "a URL that begins with one of " + ", ".join(schemes))
    parts = urlsplit(raw)
    is_sentinel = parts.scheme.endswith("+sentinel")
    form = "scheme://user:password@" + (
        "sentinel:port,sentinel:port/master/database" if is_sentinel else "host:port/database"
    )
    if not all(map(is_well_formed, of_each_host(raw) if is_sentinel else [raw])):
        remedy = "Write / ? # @ and : in a user's name or password as %2F %3F %23 %40 and %3A"
        raise refuse(name, "…", form, remedy)
    if is_sentinel and not SENTINEL_PATH.fullmatch(parts.path):
        raise refuse(name, "…", form, "Name the master as the sentinels do")
    if not is_sentinel and not DATABASE_PATH.fullmatch(parts.path):
        raise refuse(name, "…", form, "A database is a number")
    if parts.scheme.endswith("+cluster") and parts.path.strip("/") not in ("", "0"):
        remedy = "Tell fleets apart by NEARDUP_BACKEND_PREFIX"
        raise refuse(name, "…", "no database but 0 in a cluster", remedy)
    return raw


def of_each_host(url: str) -> list[str]:
    """A URL that names several hosts, once for each."""
    scheme, _, rest = url.partition("://")
    address, slash, path = rest.partition("/")
    user, at, hosts = address.rpartition("@")
    return [f"{scheme}://{user}{at}{host}{slash}{path}" for host in hosts.split(",")]


def is_well_formed(url: str) -> bool:
    """Whether a server's URL has a port that is one, and a password that ends at its host."""
    parts = urlsplit(url)
    with suppress(ValueError):
        return parts.port != 0 and "@" not in parts.path + parts.query + parts.fragment
    return False


def prefix(name: str, raw: Any) -> str:
    """What keys on a server begin with; braces would change a cluster's slots."""
    if isinstance(raw, str) and raw and not set(raw) & set("{}"):
        return raw
    raise refuse(name, raw, "a text without { and }")


def site_rules(name: str, raw: Any) -> SiteRules:
    """The rules in JSON files and folders of them, or rules already read."""
    if isinstance(raw, SiteRules):
        return raw
    takes = "paths of JSON files or folders of them: a list, or one string with commas between them"
    if isinstance(raw, PathLike):
        paths: Iterable[Any] = [raw]
    else:
        paths = map(str.strip, raw.split(",")) if isinstance(raw, str) else raw
    try:
        return read_rule_files(map(fspath, paths))
    except (OSError, TypeError, SettingsError) as error:
        raise refuse(name, raw, takes, str(error)) from error


def key_of_64_bits(name: str, raw: Any) -> int:
    """A whole number of 64 bits, decimal or hexadecimal; never shown."""
    try:
        value = int(str(raw), 0)
    except ValueError:
        value = -1
    if not 0 <= value < 2**64:
        raise refuse(name, "…", "a whole number of 64 bits, decimal or 0x…")
    return value


def optional(reader: Reader) -> Reader:
    """None (also as a word), or what the reader takes. A setting with this reader can be None."""

    def read(name: str, raw: Any) -> Any:
        return None if raw in (None, "None", "none") else reader(name, raw)

    return read
