"""What a page's requests and items depend on besides the page: code, arguments, settings, meta."""

from __future__ import annotations

import json
import logging
import os
import re
import sys
from hashlib import blake2b
from pathlib import Path
from types import ModuleType
from typing import Any
from urllib.parse import urlsplit

from scrapy import Spider
from scrapy.crawler import Crawler
from scrapy.http import Request
from scrapy.http.headers import Headers
from scrapy.settings import Settings, default_settings
from scrapy.utils.project import ENVVAR

from scrapy_neardup.crawl.queues.request_json import own_attributes, plain
from scrapy_neardup.crawl.recrawl.values_in_words import is_of_libraries, told
from scrapy_neardup.crawl.requests.carrying import HOW_FETCHED, holds_nothing
from scrapy_neardup.urls.key import is_tracking

logger = logging.getLogger(__name__)

# Settings by which Scrapy's spider middlewares change or drop what callbacks yield.
SETTINGS = (
    *("DEPTH_LIMIT", "DEPTH_PRIORITY"),
    *("REFERER_ENABLED", "REFERRER_POLICY", "URLLENGTH_LIMIT"),
)
# Of meta; which session a request belongs to may be what its page depends on.
OF_FETCHING = HOW_FETCHED - {"cookiejar"}
# Headers by which a site knows who asks, until the next login.
OF_LOGIN = re.compile(rb"auth|cookie|token|session|api-?key", re.IGNORECASE)
# Headers of Scrapy, of browsers' look-alikes, and of conditions.
HEADERS_OF_FETCHING = re.compile(rb"(?i)accept|accept-encoding|referer|user-agent|if-.*")
# Attributes of a spider's class.
TOLD_OTHERWISE = ("custom_settings", "start_urls")
NAMES_DEPTH = re.compile(rb"[\"']depth[\"']")


class Program:
    """Digests: equal ones say that a callback does with the same page what it did before.

    They tell apart: the code of the spider's project, as it is on disk, and what the spider's
    modules hold; the spider's attributes when the crawl begins, which hold its arguments; the
    settings above, and the project's own; a request's callback, cb_kwargs, meta, flags, cookies,
    headers, and what its URL says beside the page's key. They do not tell what comes from
    elsewhere.
    """

    def __init__(self, crawler: Crawler) -> None:
        settings = crawler.settings
        assert crawler.spider is not None
        self._minds_depth = any(map(settings.getint, ("DEPTH_LIMIT", "DEPTH_PRIORITY")))
        self._minds_depth = self._minds_depth or names_depth(type(crawler.spider))
        code = code_of(type(crawler.spider))
        parts = [str(settings.get(name)) for name in SETTINGS]
        parts += sorted(map(str, settings.getwithbase("SPIDER_MIDDLEWARES").items()))
        own, attributes = told(_own_settings(settings)), told(_attributes(crawler.spider))
        parts += [*own.words, *attributes.words]
        self._common = None if code is None else [code, *constants_of(type(crawler.spider)), *parts]
        if unknown := own.unknown | attributes.unknown:
            _log_unknown(unknown)

    def of(self, request: Request) -> bytes | None:
        """8 bytes for a request to be made; None where what its callback does cannot be known.

        As where it holds what was found on another page: a closure, a default, an object's method.
        """
        name = getattr(request.callback, "__name__", "parse" if not request.callback else "")
        if self._common is None or not (name.isidentifier() and holds_nothing(request.callback)):
            return None
        depth = request.meta.get("depth", 0) if self._minds_depth else 0
        try:
            given = json.dumps(plain(_given(request)), sort_keys=True)
        except ValueError:
            return None
        words = "\0".join([*self._common, name, given, str(depth)])
        return blake2b(words.encode("utf-8", "replace"), digest_size=8).digest()


def _log_unknown(unknown: dict[str, set[str]]) -> None:
    names = (f"{name!r} ({', '.join(sorted(kinds))})" for name, kinds in unknown.items())
    logger.info(
        "neardup: attributes of the spider, or settings, that hold objects which cannot be "
        "compared with those of the last crawl: %s. Pages that are unchanged are not read again "
        "if it is these that have changed",
        ", ".join(names),
    )


def _given(request: Request) -> dict[str, Any]:
    """What a request hands on to its callback, beside the page."""
    address = urlsplit(request.url)
    pairs = (pair.partition("=") for pair in address.query.split("&"))
    given = {
        "meta": {key: value for key, value in request.meta.items() if not is_of_fetching(key)},
        "cb_kwargs": request.cb_kwargs,
        "flags": request.flags,
        "cookies": request.cookies,
        "headers": headers_handed_on(request.headers),
        "url": [
            address.fragment,
            *(pair for pair in pairs if is_tracking(pair[0].lower(), pair[2])),
        ],
    }
    if type(request).__module__.startswith("scrapy."):
        return given
    listed = {name: getattr(request, name, None) for name in request.attributes}
    own = {name: listed[name] for name in listed.keys() - set(Request.attributes)}
    return given | {"own": own | own_attributes(request)}


def is_of_fetching(key: Any) -> bool:
    """Whether a key of meta says how a page is fetched, not what its callback is to do."""
    return isinstance(key, str) and (key in OF_FETCHING or key.startswith("neardup_"))


def headers_handed_on(headers: Headers) -> dict[bytes, list[bytes]]:
    """Headers by which a callback may tell its requests apart."""
    return {
        name: headers.getlist(name)
        for name in headers
        if not (HEADERS_OF_FETCHING.fullmatch(name) or OF_LOGIN.search(name))
    }


def _own_settings(settings: Settings) -> dict[str, Any]:
    """Settings that neither Scrapy nor this plugin has: a callback may read them."""
    ours = (name for name in settings if not hasattr(default_settings, name))
    return {name: settings[name] for name in ours if not name.startswith("NEARDUP_")}


def _attributes(spider: Spider) -> dict[str, Any]:
    """A spider's attributes, but for where it starts."""
    return {name: value for name, value in vars(spider).items() if name != "start_urls"}


def code_of(spider: type) -> str | None:
    """A digest of all loaded modules of the spider's project, and of the spider's name.

    Of its project are the packages of its classes, and what lies beside these. None where the code
    of the spider, or of a class that it is made of, is no file.
    """
    own = [kind.__module__ for kind in own_classes(spider)]
    digest = blake2b(f"{spider.__module__}.{spider.__qualname__}".encode(), digest_size=16)
    for name in sorted({*own, *_of_project(own)}):
        code = source_of(name)
        if code is None and name in own:
            return None
        digest.update(b"%d\0" % len(code or b"") + (code or b""))
    return digest.hexdigest()


def constants_of(spider: type) -> list[str]:
    """What the spider's own modules and classes hold when the crawl begins.

    They may have read it from a file. Of settings those are told that are in use. Not what other
    modules of the project hold: there may be hundreds.
    """
    classes = own_classes(spider)
    names = sorted({kind.__module__ for kind in classes})
    holders: list[ModuleType | type] = [
        *(sys.modules[name] for name in names if name != os.environ.get(ENVVAR)),
        *classes,
    ]
    return [words for holder in holders for words in told(_data_in(holder)).words]


def _data_in(holder: ModuleType | type) -> dict[str, Any]:
    return {
        f"{holder.__name__}.{name}": value
        for name, value in vars(holder).items()
        if not (name.startswith("__") or name in TOLD_OTHERWISE or _is_code(value))
    }


def _is_code(value: Any) -> bool:
    return callable(value) or type(value) is ModuleType


def _of_project(own: list[str]) -> list[str]:
    """Loaded modules of the packages of some, and of the folders that these packages lie in."""
    tops = {name.partition(".")[0] for name in own}
    folders = tuple(f"{folder}{os.sep}" for folder in map(_folder_of, tops) if folder)
    found = []
    for name, module in list(sys.modules.items()):
        path = str(getattr(module, "__file__", None) or "")
        is_beside = path.startswith(folders) and not is_of_libraries(path)
        if is_beside or name.partition(".")[0] in tops:
            found.append(name)
    return found


def _folder_of(top: str) -> str | None:
    """The folder that a module or package lies in; None for libraries, and where it is no file."""
    module = sys.modules.get(top)
    path = next(iter(getattr(module, "__path__", ())), getattr(module, "__file__", None))
    return None if path is None or is_of_libraries(path) else os.path.dirname(path)


def names_depth(spider: type) -> bool:
    """Whether a spider's code names a page's depth, or cannot be read."""
    sources = [source_of(kind.__module__) for kind in own_classes(spider)]
    return any(source is None or NAMES_DEPTH.search(source) for source in sources)


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
