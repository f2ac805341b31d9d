"""URL patterns, read as url-matcher 0.6 reads them and matched without regular expressions."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache, cached_property
from ipaddress import ip_address
from typing import NamedTuple
from urllib.parse import parse_qs

from publicsuffixlist import PublicSuffixList

from scrapy_neardup.errors import SettingsError

# RFC 3986, appendix B. Each part ends at a character that the next begins with: linear.
URL = re.compile(r"(?:([^:/?#]+):)?(?://([^/?#]*))?([^?#]*)(?:\?([^#]*))?(?:#(.*))?", re.DOTALL)
HAS_SCHEME = re.compile(r"[a-zA-Z][a-zA-Z0-9.+-]*://")
PORT_SCHEMES = {":80": "http", ":443": "https"}


class UrlParts(NamedTuple):
    """The parts of a URL, empty where it has none. netloc: user, host and port."""

    scheme: str
    netloc: str
    path: str
    query: str
    fragment: str


def split_url(url: str) -> UrlParts:
    """The parts of a URL as they are written. Never fails."""
    match = URL.fullmatch(url)
    assert match  # every text matches
    return UrlParts(*match.groups(""))


def join_url(parts: UrlParts) -> str:
    scheme, netloc, path, query, fragment = parts
    url = f"{scheme}:" if scheme else ""
    if netloc or path.startswith("//"):  # which would be read as a host: RFC 3986, 3.3
        url += f"//{netloc}" + ("/" if path and path[0] != "/" else "")
    url += path
    return url + (f"?{query}" if query else "") + (f"#{fragment}" if fragment else "")


def split_params(path: str) -> tuple[str, str]:
    """A path, and what follows the first `;` of its last segment; of `a;` and `a` the same."""
    at = path.find(";", path.rfind("/") + 1)
    if at < 0:
        return path, ""
    return path[:at], "" if at + 1 == len(path) else path[at:]


def comparable(parts: UrlParts) -> UrlParts:
    """The parts as patterns compare them: in lower case, without the port of the scheme."""
    scheme, netloc = parts.scheme.lower(), parts.netloc.lower()
    for port, meant in PORT_SCHEMES.items():
        if netloc.endswith(port) and scheme in (meant, ""):
            scheme, netloc = meant, netloc.removesuffix(port)
    path = "".join(split_params(parts.path)).lower()
    return UrlParts(scheme, netloc, path, parts.query, parts.fragment.lower())


@dataclass(frozen=True)
class Glob:
    """Text in lower case, cut at the stars that stand for any text.

    to_end: the text ends where the last piece does; else anything may follow.
    """

    pieces: tuple[str, ...]
    to_end: bool

    @classmethod
    def of_path(cls, text: str) -> Glob:
        """Of a path or fragment: a prefix, unless it ends with `|`."""
        return cls(tuple(text.removesuffix("|").split("*")), text.endswith("|"))

    def matches(self, text: str) -> bool:
        """Whether a text in lower case is of this form. Looks at each character once."""
        first, *others = self.pieces
        if not others:
            return text == first if self.to_end else text.startswith(first)
        if not text.startswith(first):
            return False
        at, last = len(first), others.pop() if self.to_end else ""
        for piece in others:
            # The leftmost place leaves the most to what follows, so none other need be tried.
            at = text.find(piece, at)
            if at < 0:
                return False
            at += len(piece)
        return text.endswith(last, at)


@dataclass(frozen=True)
class Pattern:
    """`[scheme://][host][:port][/path][?query][#fragment]`; "" matches every URL.

    A host alone stands for all hosts below it, too. With anything behind it, it stands for
    itself, with or without `www.`. A port that is not the scheme's has to be named. A path or
    fragment is a prefix in which `*` is any text, and `|` at its end ends it; of the query, all
    arguments named have to be there, with one of the values named. Case does not count.
    """

    text: str

    def __post_init__(self) -> None:
        if not isinstance(self.text, str):
            raise SettingsError(f"URL pattern {self.text!r}: take a text such as 'host/path'")

    @cached_property
    def _written(self) -> UrlParts:
        return split_url(self.text if HAS_SCHEME.match(self.text) else f"//{self.text}")

    @cached_property
    def _parts(self) -> UrlParts:
        return comparable(self._written)

    @property
    def netloc(self) -> str:
        """The host as URLs have to have it: with user and port if there are any."""
        return self._parts.netloc

    @cached_property
    def domain(self) -> str:
        """The registrable domain of the host; "" where the pattern names no host."""
        return domain_of(self.netloc)

    @cached_property
    def specificity(self) -> str:
        """What patterns are sorted by: host from its end, path, query, fragment."""
        # As it was written, for url-matcher sorts before it ignores case.
        _, netloc, *others = self._written
        host = netloc.rpartition(":")[0] or netloc
        labels = [host] if is_address(host) else host.split(".")[::-1]
        return ".".join(labels) + "".join(others)

    @cached_property
    def _path(self) -> Glob:
        return Glob.of_path(self._parts.path)

    @cached_property
    def _fragment(self) -> Glob:
        return Glob.of_path(self._parts.fragment)

    @cached_property
    def _arguments(self) -> dict[str, list[Glob]]:
        """The arguments that have to be there, each with the values that it may have."""
        found = {
            name.lower().replace("*", ""): [
                Glob(tuple(value.lower().split("*")), True) for value in values
            ]
            for name, values in parse_qs(self._parts.query, keep_blank_values=True).items()
        }
        found.pop("", None)
        return found

    @cached_property
    def _is_host_alone(self) -> bool:
        return not any(self._parts[2:])

    @cached_property
    def _has_hosts_below(self) -> bool:
        """False for addresses and public suffixes: what is below those is another's."""
        host = host_in(self.netloc)
        return not is_address(host) and _suffixes().publicsuffix(host) != host

    def matches(self, url: UrlParts) -> bool:
        """Whether a URL is of this pattern. url: from comparable()."""
        wanted = self._parts
        return (
            wanted.scheme in ("", url.scheme)
            and (not wanted.netloc or self._matches_netloc(url.netloc))
            and self._path.matches(url.path)
            and self._fragment.matches(url.fragment)
            and self._matches_query(url.query)
        )

    def _matches_netloc(self, netloc: str) -> bool:
        if netloc == self.netloc or not self._has_hosts_below:
            return netloc == self.netloc
        if self._is_host_alone and netloc.endswith(f".{self.netloc}"):
            return True
        if not netloc.startswith("www") or netloc[4:] != self.netloc:
            return False
        # url-matcher's `www.` is a regular expression: any one character may follow, as long as
        # that leads to no other domain.
        return netloc[3] == "." or host_in(self.netloc) != self.domain

    def _matches_query(self, query: str) -> bool:
        if not self._arguments:
            return True
        given = parse_qs(query, keep_blank_values=True)
        values = {name.lower(): [value.lower() for value in given[name]] for name in given}
        return all(
            any(glob.matches(value) for glob in globs for value in values.get(name, ()))
            for name, globs in self._arguments.items()
        )


@cache
def _suffixes() -> PublicSuffixList:
    # Without private suffixes such as github.io: url-matcher's domains are those of registries.
    return PublicSuffixList(accept_unknown=False, only_icann=True)


def host_in(netloc: str) -> str:
    """The host without user, port and final dots."""
    host = netloc.rpartition("@")[2]
    if host.startswith("["):
        return host.partition("]")[0] + "]"
    return host.partition(":")[0].rstrip(".")


def domain_of(netloc: str) -> str:
    """The registrable domain in lower case.

    Of an address or a public suffix it is that itself; of a host below no public suffix, the
    last label.
    """
    host = host_in(netloc)
    if is_address(host):
        return host
    suffixes = _suffixes()
    return suffixes.privatesuffix(host) or suffixes.publicsuffix(host) or host.rpartition(".")[2]


def is_address(host: str) -> bool:
    try:
        return bool(ip_address(host.removeprefix("[").removesuffix("]")))
    except ValueError:
        return False
