"""URL → its host, and the site that the host belongs to."""

from __future__ import annotations

import re
from functools import lru_cache
from urllib.parse import urlsplit

from scrapy_neardup.urls.public_suffixes import registrable

# What most URLs begin with; of any other the whole decides, as urlsplit() reads it.
AUTHORITY = re.compile(r"https?://[a-z0-9.:-]+(?=[/?#]|\Z)")


def site_of(url: str) -> str:
    """The registrable domain of a URL, the host where it has none (an address, "localhost")."""
    found = AUTHORITY.match(url)
    return _site_and_host(found[0] if found else url)[0]


def host_of(url: str) -> str:
    """The host of a URL in lower case, without its port; the URL itself where it cannot be read."""
    found = AUTHORITY.match(url)
    return _site_and_host(found[0] if found else url)[1]


@lru_cache(maxsize=4096)
def _site_and_host(url: str) -> tuple[str, str]:
    try:
        host = (urlsplit(url).hostname or "").rstrip(".")
    except ValueError:  # "http://[": no host to speak of, so a site of its own
        return url, url
    is_address = ":" in host or host.rpartition(".")[2].isdigit()
    return host if is_address else registrable(host) or host, host
