"""Profiles: rules about URLs that are usually the same, each switched on by its name.

Why each rule is here, and what it may merge by mistake: docs/url-filter.md.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable
from functools import cache

from scrapy_neardup.errors import SettingsError
from scrapy_neardup.urls.public_suffixes import registrable
from scrapy_neardup.urls.site_rules import SiteRule, SiteRules
from scrapy_neardup.urls.url_patterns import Pattern, host_in, is_address, join_url, split_url

# --- lenient: what people and programs write wrong

# Escapes may be repeated themselves: `&amp%253B`. Each repetition begins with a letter: linear.
AMPERSANDS = re.compile(r"(?:^|(?<=&))(?:amp(?:;|%(?:25)*3B))+", re.IGNORECASE)
# `%2541` is `%41` escaped again. Each run of 25 is read from its one `%`: linear.
ESCAPED_AGAIN = re.compile(r"%(?:25)+(?=[0-9A-Fa-f]{2})")
FINAL_DOT = re.compile(r"\.(?=(?::[0-9]*)?$)")  # `shop.example.` is the absolute name of a host
DEFAULT_DOCUMENT = re.compile(
    r"/(?:index|default)\.(?:s?html?|xhtml|php[3-8]?|aspx?|jspx?|cfm|cgi|pl)$", re.IGNORECASE
)


def lenient(url: str) -> str:
    """A URL without the dot behind its host, `&amp;`, escapes of escapes and default document."""
    parts = split_url(url)
    path = DEFAULT_DOCUMENT.sub("/", ESCAPED_AGAIN.sub("%", parts.path))
    query = ESCAPED_AGAIN.sub("%", AMPERSANDS.sub("", parts.query))
    netloc = FINAL_DOT.sub("", parts.netloc)
    return join_url(parts._replace(netloc=netloc, path=path, query=query))


# --- platforms: arguments that name the visit, on sites that everybody links to

AMAZON = (
    "ae ca cn co.jp co.uk com com.au com.be com.br com.mx com.tr de eg es fr in it nl pl sa se sg"
)
EBAY = "at ca ch co.uk com com.au de es fr ie it nl pl"
ALIBABA = ("1688.com", "alibaba.com", "aliexpress.com", "taobao.com", "tmall.com")
PLATFORMS: tuple[tuple[tuple[str, ...], str], ...] = (
    (
        tuple(f"amazon.{suffix}" for suffix in AMAZON.split()),
        "_encoding ascsubtag content-id crid dib dib_tag linkCode linkId pd_rd_i pd_rd_r pd_rd_w "
        "pd_rd_wg pf_rd_i pf_rd_m pf_rd_p pf_rd_r pf_rd_s pf_rd_t qid ref ref_ sprefix sr tag",
    ),
    (
        tuple(f"ebay.{suffix}" for suffix in EBAY.split()),
        "_trkparms _trksid amdata campid customid mkcid mkevt mkrid toolid",
    ),
    (ALIBABA, "algo_exp_id algo_pvid pvid scm spm"),
    (
        ("bbc.co.uk", "bbc.com"),
        "at_campaign at_medium ns_campaign ns_linkname ns_mchannel ns_source ocid",
    ),
    (
        ("bilibili.com",),
        "share_medium share_plat share_session_id share_source share_tag spm_id_from vd_source",
    ),
    (("etsy.com/listing/",), "click_key click_sum ref"),
    (("facebook.com",), "__cft__[0] __tn__ __xts__[0] fref hc_ref mibextid refsrc"),
    (("google.com/search",), "ei gs_lcp gs_lp oq rlz sca_esv sclient sxsrf ved"),
    (("imdb.com",), "pf_rd_i pf_rd_m pf_rd_p pf_rd_r pf_rd_s pf_rd_t ref_"),
    (("linkedin.com",), "lipi refId trackingId trk trkInfo"),
    (("nytimes.com",), "smid smtyp"),
    (("open.spotify.com",), "si"),
    (("reddit.com",), "rdt ref_source share_id"),
    (("steampowered.com",), "snr"),
    (("theguardian.com",), "CMP"),
    (("tiktok.com",), "_r _t is_copy_url is_from_webapp sender_device"),
    (("twitch.tv",), "tt_content tt_medium"),
    (("twitter.com/*/status/", "x.com/*/status/"), "ref_src ref_url s t"),
    (("washingtonpost.com",), "itid wpisrc wpmk"),
    (("youtube.com", "youtu.be"), "ab_channel feature pp si"),
)


@cache
def platform_rules() -> SiteRules:
    return SiteRules(
        tuple(
            SiteRule(0, tuple(map(Pattern, where)), (), "queryRemoval", tuple(names.split()))
            for where, names in PLATFORMS
        )
    )


def platforms(url: str) -> str:
    """A URL without the arguments that are known to mean nothing on its site."""
    return platform_rules().apply(url)


# --- mobile: the same page for phones

MOBILE_LABELS = ("m", "mobile")
AMP_ARGUMENT = re.compile(r"(?:amp(?:=(?:1|true)?)?|outputType=amp)", re.IGNORECASE)
AMP_FIRST = re.compile(r"^/amp(?=/[^/])")
AMP_LAST = re.compile(r"(?<=[^/])/amp(?=/?$)")


def mobile(url: str) -> str:
    """A URL as it is for a desktop, without `www.`: some sites have it only for one of both."""
    parts = split_url(url)
    query = "&".join(p for p in parts.query.split("&") if not AMP_ARGUMENT.fullmatch(p))
    path = AMP_LAST.sub("", AMP_FIRST.sub("", parts.path))
    return join_url(parts._replace(netloc=desktop(parts.netloc), path=path, query=query))


def desktop(netloc: str, mobile_labels: Collection[str] = MOBILE_LABELS) -> str:
    """A host without `m`, `mobile` and `www` in front of its registrable domain."""
    host = host_in(netloc).lower()
    # With private suffixes: m.github.io and mobile.github.io are two people's.
    site = registrable(host, unknown=True)
    if site is None or is_address(host):
        return netloc
    below = host.removesuffix(site)
    labels = [label for label in below.split(".") if label not in mobile_labels]
    user, at, host_and_port = netloc.rpartition("@")
    return user + at + ".".join(labels).removeprefix("www.") + host_and_port[len(below) :]


# In the order in which they are applied.
PROFILES: dict[str, Callable[[str], str]] = {
    "lenient": lenient,
    "platforms": platforms,
    "mobile": mobile,
}


def check_profiles(names: Iterable[str]) -> None:
    """Raises SettingsError for a name that no profile has."""
    for name in names:
        if name not in PROFILES:
            raise SettingsError(f"profile {name!r}: take some of {', '.join(sorted(PROFILES))}")


def apply_profiles(names: Iterable[str], url: str) -> str:
    """What is left of a URL by all profiles named. Takes time linear in the URL."""
    chosen = set(names)
    for name, change in PROFILES.items():
        if name in chosen:
            url = change(url)
    return url
