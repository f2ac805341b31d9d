"""The site that ordinary spiders crawl: each case builds its pages under a path of its own."""

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from html import escape
from typing import Any
from urllib.parse import parse_qsl

from mock_site import HTML, MockSite, Reply, prose

MENU = "".join(
    f'<a class="menu" href="#{word}">{word}</a> '
    for word in ("Home", "Products", "Branches", "Service", "About us", "Contact", "Legal notice")
)
FOOTER = "All prices include VAT. We ship to all countries of the union within three days."


@dataclass(frozen=True)
class Ask:
    """One request as a route sees it."""

    method: str
    query: Mapping[str, str]
    cookie: str
    body: bytes

    @property
    def form(self) -> dict[str, str]:
        return dict(parse_qsl(self.body.decode(), keep_blank_values=True))

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class OrdinarySite(MockSite):
    """A MockSite with routes (path → function of an Ask), which knows its planted copies.

    `copies` names the original of every planted copy, by path and query; those in
    `print_versions` have its text under another template, the others are equal in all bytes.
    """

    def __init__(self, port: int) -> None:
        super().__init__(port)
        self.routes: dict[str, Callable[[Ask], Reply]] = {}
        self.copies: dict[str, str] = {}
        self.print_versions: set[str] = set()

    def copy(self, path: str, original: str) -> None:
        """Plant a copy, byte for byte, of a page that was added before."""
        self.copies[path] = original
        self.pages[path] = self.pages[original]

    def print_version(self, path: str, original: str, body: str) -> None:
        """Plant a page that says what another says, under another template."""
        self.copies[path] = original
        self.add(path, body)
        self.print_versions.add(path)

    def index(self, path: str, links: Iterable[str], text: str = "") -> None:
        """A page that links to others."""
        anchors = "".join(
            f'<li><a class="entry" href="{escape(link)}">{link}</a>' for link in links
        )
        self.add(path, template("All entries", f"<p>{text}</p><ul>{anchors}</ul>"))

    def add_all(
        self, root: str, bodies: Mapping[str, str | bytes], content_type: str = HTML
    ) -> None:
        """Serve bodies at root/name, and at root/ an index of them."""
        for name, body in bodies.items():
            self.add(f"{root}/{name}", body, content_type=content_type)
        self.index(f"{root}/", [f"{root}/{name}" for name in bodies])

    def reply(self, method: str, path: str, cookie: str, body: bytes) -> Reply:
        bare, _, query = path.partition("?")
        if path not in self.pages and bare in self.routes:
            ask = Ask(method, dict(parse_qsl(query, keep_blank_values=True)), cookie, body)
            return self.routes[bare](ask)
        return super().reply(method, path, cookie, body)


def template(title: str, main: str, head: str = "") -> str:
    """A page under the site's menu and footer."""
    return (
        f"<html><head><title>{title}</title>{head}</head><body><nav>{MENU}</nav>"
        f"<main><h1>{title}</h1>{main}</main><footer>{FOOTER}</footer></body></html>"
    )


def json_reply(value: Any, status: int = 200) -> Reply:
    return Reply(json.dumps(value).encode(), status, "application/json")


def product(n: int) -> dict[str, Any]:
    """What a shop knows of its product n."""
    return {
        "sku": f"A-{4100 + n}",
        "name": f"Lamp {prose(n, 1)}",
        "price": f"{19 + n}.90",
        "stock": n % 5,
    }


def blurb(n_words: int = 200) -> str:
    """The text that a shop puts on all its pages."""
    return f"<p>{prose('blurb', n_words)}</p>"
