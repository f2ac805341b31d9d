"""What stands around the content of a page: header, navigation, cookie notice, sidebar, footer."""

from html import escape

from example.site.page import link, links

NAVIGATION = (
    ("/", "Home"),
    ("/news/archive/", "News"),
    ("/shop/?page=1", "Shop"),
    ("/shop/stores/", "Stores"),
    ("/manual/", "Manual"),
    ("/events/?month=2026-05", "Events"),
    ("/asia/", "中文 日本語"),
    ("/account/orders", "My account"),
)
# Only pages with content of their own have a sidebar, and only sidebars lead to where pages are
# shown again: a crawl by breadth meets every page before its copies.
SIDEBARS = {
    "news": ("Around the newsroom", (("/news/updates/", "Corrections and updates"),)),
    "shop": (
        "Good to know",
        (
            ("/shop/sale/", "Everything in the sale"),
            ("/shop/viewed/", "Recently viewed"),
            ("/letters/", "Our newsletters"),
        ),
    ),
    "manual": ("Help with your unit", (("/docs-mirror/", "This manual on the mirror"),)),
    "asia": ("更多 もっと", (("/asia/more/", "文章 記事"),)),
}
COOKIES = (
    "We use cookies to keep you signed in, to remember your basket and to count visits. "
    "You can accept all of them or only those the site cannot do without."
)
FOOTER = (
    "Harbour and Hill is a cooperative of its readers and customers. Texts and pictures may be "
    "used for private purposes. Prices include tax; delivery takes three to five working days."
)
COOKIE_NOTICE = (
    f'<div class="cookies"><p>{COOKIES}</p><button>Accept all</button>'
    "<button>Only what is needed</button></div>"
)
FOOT = f"<footer><p>{FOOTER}</p><p>{link('/about/', 'About us')}</p></footer>"
STYLE = (
    "body{font:16px serif;margin:2rem}nav li{display:inline;margin-right:1rem}aside{float:right}"
)
SCRIPT = "document.documentElement.dataset.ready = String(Date.now());"


def framed(title: str, main: str, sidebar: str = "", language: str = "en") -> str:
    """A page of the site proper, with one of SIDEBARS or none."""
    heading, entries = SIDEBARS.get(sidebar, ("", ()))
    aside = f"<aside><h2>{heading}</h2>{links(entries)}</aside>" if entries else ""
    return document(
        title,
        f"{COOKIE_NOTICE}<header><p>Harbour and Hill</p><nav>{links(NAVIGATION)}</nav></header>"
        f"<main><h1>{escape(title)}</h1>{main}</main>{aside}{FOOT}",
        language,
    )


def mirrored(title: str, main: str) -> str:
    """The same content under another header, without a sidebar."""
    return document(
        title,
        f"{COOKIE_NOTICE}<header><p>Documentation mirror, refreshed every night</p>"
        f"<nav>{links([('/docs-mirror/', 'All pages of the mirror')])}</nav></header>"
        f"<main><h1>{escape(title)}</h1>{main}</main>{FOOT}",
    )


def printed(title: str, main: str) -> str:
    """The content alone, with the line that a printer version ends with."""
    return document(
        title, f"<h1>{escape(title)}</h1>{main}<hr><p>Printed from Harbour and Hill</p>"
    )


def bare(title: str, main: str) -> str:
    return document(title, main)


def document(title: str, body: str, language: str = "en") -> str:
    return (
        f'<!doctype html><html lang="{language}"><head><meta charset="utf-8">'
        f"<title>{escape(title)} | Harbour and Hill</title><style>{STYLE}</style>"
        f"<script>{SCRIPT}</script></head><body>{body}</body></html>"
    )
