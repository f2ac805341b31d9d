"""A small site on loopback for crawl tests: every way a request can come back, all hits counted."""

import threading
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from random import Random
from typing import Any

HTML = "text/html; charset=utf-8"
PNG = (
    b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\1\0\0\0\1\10\0\0\0\0:~\x9bU\0\0\0\nIDATx\xdac`\0\0\0\2"
    b"\0\1\xe2!\xbc3\0\0\0\0IEND\xaeB`\x82"
)
SYLLABLES = ("ka", "lo", "mi", "ter", "ran", "dos", "ve", "ni", "ul", "ga", "pre", "son", "ba")


@dataclass(frozen=True, slots=True)
class Reply:
    """What one request gets: status, body, media type and further headers."""

    body: bytes = b""
    status: int = 200
    content_type: str = HTML
    headers: Mapping[str, str] = field(default_factory=dict)


def prose(seed: int | str, n_words: int = 200) -> str:
    """Made-up words, the same for the same seed; two seeds share hardly any."""
    rng = Random(seed)
    return " ".join("".join(rng.choices(SYLLABLES, k=rng.randint(2, 4))) for _ in range(n_words))


def page(text: str, *links: str, head: str = "") -> bytes:
    """An HTML page of one paragraph and a list of links."""
    items = "".join(f'<li><a href="{link}">{link}</a></li>' for link in links)
    return f"<html><head>{head}</head><body><p>{text}</p><ul>{items}</ul></body></html>".encode()


def redirect(location: str, status: int = 302, **headers: str) -> Reply:
    return Reply(status=status, headers={"Location": location, **headers})


def cut_off(body: bytes, n_bytes: int) -> Reply:
    """The beginning of a page, after which the connection ends."""
    headers = {"Content-Length": str(len(body)), "Connection": "close"}
    return Reply(body[:n_bytes], headers=headers)


class MockSite:
    """Serves `pages` (path and query → Reply) and the routes below; `hits` counts what was asked.

    /robots.txt          disallows /private
    /                    links to everything that a GET can ask for
    /page/N, /copy/N     different words for every N; the same bytes as /page/N
    /near/N              the words of /page/N with one of its 200 changed
    /tiny/N              three words
    /flaky, /dead        503, 503, then 200; always 503
    /missing             404, as is every unknown path
    /login               redirects to itself until its cookie comes back
    /refresh             meta refresh to itself until its cookie comes back
    /moved, /moved/      the first redirects to the second (301)
    /loop                redirects to itself for ever
    /api                 POST answers with a page of its body; GET with another one
    /image.png           one pixel
    /private/page        disallowed by robots.txt
    """

    def __init__(self, port: int) -> None:
        self.root = f"http://127.0.0.1:{port}"
        self.pages: dict[str, Reply] = {}
        self.hits: Counter[tuple[str, str]] = Counter()
        self._lock = threading.Lock()

    def url(self, path: str) -> str:
        return self.root + path

    def gets(self, path: str) -> int:
        """How often a path (with its query) was asked for by GET."""
        return self.hits["GET", path]

    def add(self, path: str, body: bytes | str, status: int = 200, content_type: str = HTML) -> str:
        """Serve a body at a path (with query) of its own; the URL."""
        data = body.encode() if isinstance(body, str) else body
        self.pages[path] = Reply(data, status, content_type)
        return self.url(path)

    def reply(self, method: str, path: str, cookie: str, body: bytes) -> Reply:
        with self._lock:
            self.hits[method, path] += 1
            count = self.hits[method, path]
        if path in self.pages:
            return self.pages[path]
        kind, _, rest = path.lstrip("/").partition("/")
        match kind:
            case "":
                return Reply(page(prose("home"), *LINKS))
            case "page" | "copy":
                return Reply(page(prose(rest)))
            case "near":
                return Reply(page(prose(rest).rpartition(" ")[0] + " edited"))
            case "tiny":
                return Reply(page(prose(rest, n_words=3)))
            case "flaky":
                return Reply(page(prose("flaky")), 200 if count > 2 else 503)
            case "private":
                return Reply(page(prose("private")))
            case _:
                return self._special(method, path, "passed=1" in cookie, body)

    def conditioned(self, reply: Reply, asked: Mapping[str, str]) -> Reply:
        """What a request gets that may ask for a page only if it changed. asked: its headers."""
        return Reply(status=304, headers=reply.headers) if is_known(reply, asked) else reply

    def _special(self, method: str, path: str, passed: bool, body: bytes) -> Reply:
        match path:
            case "/robots.txt":
                return Reply(b"User-agent: *\nDisallow: /private\n", content_type="text/plain")
            case "/dead":
                return Reply(page("out of order"), 503)
            case "/login":
                cookie = {"Set-Cookie": "passed=1"}
                return Reply(page(prose("login"))) if passed else redirect("/login", **cookie)
            case "/refresh":
                return refresh_reply(passed)
            case "/moved":
                return redirect("/moved/", 301)
            case "/moved/":
                return Reply(page(prose("moved")))
            case "/loop":
                return redirect("/loop")
            case "/api":
                return Reply(page(prose(f"api {method} {body!r}")))
            case "/image.png":
                return Reply(PNG, content_type="image/png")
            case _:
                return Reply(page("not found"), 404)


LINKS = (
    *("/page/1", "/page/2", "/copy/1", "/near/2", "/tiny/1", "/tiny/2", "/flaky", "/dead"),
    *("/missing", "/login", "/refresh", "/moved", "/moved/", "/api", "/private/page"),
)


def refresh_reply(passed: bool) -> Reply:
    if passed:
        return Reply(page(prose("refresh")))
    head = '<meta http-equiv="refresh" content="0; url=/refresh">'
    return Reply(page("one moment", head=head), headers={"Set-Cookie": "passed=1"})


def is_known(reply: Reply, asked: Mapping[str, str]) -> bool:
    """Whether a request asks for a page only if it changed, and its validators are these."""
    tag, date = reply.headers.get("ETag"), reply.headers.get("Last-Modified")
    if reply.status != 200:
        return False
    if "If-None-Match" in asked:
        return asked["If-None-Match"] == tag
    return date is not None and asked.get("If-Modified-Since") == date


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = -1  # head and body in one segment: two would wait for a delayed ACK
    server: "_Server"

    def _answer(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        cookie = self.headers.get("Cookie", "")
        reply = self.server.site.reply(self.command, self.path, cookie, body)
        reply = self.server.site.conditioned(reply, self.headers)
        self.send_response(reply.status)
        headers = {"Content-Type": reply.content_type, "Content-Length": str(len(reply.body))}
        for name, value in (headers | dict(reply.headers)).items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(reply.body)

    do_GET = do_HEAD = do_POST = do_PUT = _answer  # noqa: N815 - the names http.server calls

    def log_message(self, *args: object) -> None:
        """Keep the test output clean."""


class _Server(ThreadingHTTPServer):
    site: MockSite

    def handle_error(self, *args: object) -> None:
        """A crawler that hangs up early is part of the tests."""


@contextmanager
def running_site(kind: type[MockSite] = MockSite) -> Iterator[Any]:
    """A site of this kind answering on a free port of loopback while the block runs."""
    with _Server(("127.0.0.1", 0), _Handler) as server:
        server.site = kind(server.server_port)
        thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        try:
            yield server.site
        finally:
            server.shutdown()
            thread.join()
