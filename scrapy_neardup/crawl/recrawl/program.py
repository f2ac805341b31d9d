"""What a page's requests and items depend on besides the page: code, arguments, settings, meta."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path
from typing import Any

from scrapy import Spider
from scrapy.crawler import Crawler
from scrapy.http import Request
from scrapy.settings import Settings, default_settings

from scrapy_neardup.crawl.queues.request_json import plain

# Settings by which Scrapy's spider middlewares change or drop what callbacks yield.
SETTINGS = (
    *("DEPTH_LIMIT", "DEPTH_PRIORITY"),
    *("REFERER_ENABLED", "REFERRER_POLICY", "URLLENGTH_LIMIT"),
)
# Keys of meta that say how a page is fetched, not what its callback is to do.
OF_FETCHING = ("_", "neardup_", "download_", "redirect_", "retry_", "handle_httpstatus_")
OF_FETCHING_TOO = {
    *("depth", "bindaddress", "cookiejar", "is_start_request", "max_retry_times"),
    *("priority_adjust", "proxy", "referrer_policy", "dont_cache", "dont_redirect", "dont_retry"),
}


class Program:
    """Digests: equal ones say that a callback does with the same page what it did before.

    They tell apart: the code of the spider's project, as it is on disk; the spider's attributes
    of plain types when the crawl begins, which hold its arguments; the settings above, and the
    project's own; a request's callback, cb_kwargs and meta. They do not tell what comes from
    elsewhere.
    """

    def __init__(self, crawler: Crawler) -> None:
        settings = crawler.settings
        self._minds_depth = any(map(settings.getint, ("DEPTH_LIMIT", "DEPTH_PRIORITY")))
        assert crawler.spider is not None
        code = code_of(type(crawler.spider))
        parts = [str(settings.get(name)) for name in SETTINGS]
        parts += sorted(map(str, settings.getwithbase("SPIDER_MIDDLEWARES").items()))
        parts += [*_own_settings(settings), *_attributes(crawler.spider)]
        self._common = None if code is None else [code, *parts]

    def of(self, request: Request) -> bytes | None:
        """8 bytes for a request to be made; None where what its callback does cannot be known."""
        name = getattr(request.callback, "__name__", "parse" if not request.callback else "")
        if self._common is None or not name.isidentifier():
            return None
        meta = {key: value for key, value in request.meta.items() if not is_of_fetching(key)}
        depth = request.meta.get("depth", 0) if self._minds_depth else 0
        try:
            given = json.dumps(
                plain({"meta": meta, "cb_kwargs": request.cb_kwargs}), sort_keys=True
            )
        except ValueError:
            return None
        told = "\0".join([*self._common, name, given, str(depth)])
        return blake2b(told.encode("utf-8", "replace"), digest_size=8).digest()


def is_of_fetching(key: Any) -> bool:
    """Whether a key of meta says how a page is fetched, not what its callback is to do."""
    return isinstance(key, str) and (key in OF_FETCHING_TOO or key.startswith(OF_FETCHING))


def _own_settings(settings: Settings) -> list[str]:
    """Settings that neither Scrapy nor this plugin has: a callback may read them."""
    ours = (name for name in settings if not hasattr(default_settings, name))
    return _plain({name: settings[name] for name in ours if not name.startswith("NEARDUP_")})


def _attributes(spider: Spider) -> list[str]:
    """A spider's attributes, but for where it starts."""
    return _plain({name: value for name, value in vars(spider).items() if name != "start_urls"})


def _plain(values: Mapping[str, Any]) -> list[str]:
    """Values of types that JSON has, with their names."""
    found = []
    for name, value in sorted(values.items()):
        with suppress(ValueError):
            found.append(json.dumps(plain({name: value}), sort_keys=True))
    return found


def code_of(spider: type) -> str | None:
    """A digest of all loaded modules of the spider's project, and of the spider's name.

    None where the code of the spider, or of a class that it is made of, is no file.
    """
    own = [kind.__module__ for kind in own_classes(spider)]
    tops = {name.partition(".")[0] for name in own}
    loaded = [name for name in list(sys.modules) if name.partition(".")[0] in tops]
    digest = blake2b(f"{spider.__module__}.{spider.__qualname__}".encode(), digest_size=16)
    for name in sorted({*own, *loaded}):
        code = source_of(name)
        if code is None and name in own:
            return None
        digest.update(b"%d\0" % len(code or b"") + (code or b""))
    return digest.hexdigest()


def own_classes(spider: type) -> list[type]:
    """The classes that a spider is made of, but for those of Scrapy and Python."""
    return [kind for kind in spider.__mro__ if not _is_library(kind.__module__)]


def _is_library(module: str) -> bool:
    return module.partition(".")[0] in ("builtins", "scrapy", "abc", "typing")


def source_of(module: str) -> bytes | None:
    """The file of a loaded module; None where there is none, or none that can be read."""
    path = getattr(sys.modules.get(module), "__file__", None)
    try:
        return None if path is None else Path(path).read_bytes()
    except OSError:
        return None
