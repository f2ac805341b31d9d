"""Request → key: the bytes by which the URL filter knows a page.

A key is `host/path?query`, the canonical URL without its scheme. Whatever else tells requests apart
follows, each part after a space: ` scheme=ftp method=POST body=6a1f…`. Canonical URLs hold no
space, so two requests have one key only if every rule says that they are the same.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import TYPE_CHECKING, Protocol
from urllib.parse import quote_plus

from w3lib.url import canonicalize_url, parse_qsl_to_bytes

from scrapy_neardup.urls.profiles import apply_profiles, check_profiles
from scrapy_neardup.urls.site_rules import SiteRules

if TYPE_CHECKING:
    from scrapy import Request

NO_RULES = SiteRules()
MAX_URL, MAX_HOST = 8_192, 255  # characters; four times what Scrapy follows by default

# In request.meta: what the spider says that the page is, and the same once its callback has begun.
# A copy of that meta has both, and goes to another page, of which the spider has said nothing.
OWN_KEY = "neardup_key"
USED_KEY = "neardup_key_used"

TRACKING = frozenset(
    {
        # advertising networks mark the click
        *("gclid", "gclsrc", "dclid", "gbraid", "wbraid", "gad_source", "srsltid", "s_kwcid"),
        *("fbclid", "igsh", "igshid", "msclkid", "twclid", "ttclid", "li_fat_id"),
        *("yclid", "ysclid", "_openstat", "irclickid", "rb_clickid"),
        # web analytics carry the visitor from host to host
        *("_ga", "_gac", "_gid", "_gl", "_branch_match_id", "sc_campaign"),
        *("pk_campaign", "pk_keyword", "pk_kwd", "pk_medium"),
        # newsletters name the reader
        *("mc_cid", "mc_eid", "mkt_tok", "_hsenc", "_hsmi", "hsctatracking", "_kx", "dm_i"),
        *("ml_subscriber", "ml_subscriber_hash", "oly_anon_id", "oly_enc_id"),
        *("trk_contact", "trk_msg", "vero_conv", "wickedid"),
    }
)
# By name, because others have these prefixes, too: a map has `utm_zone` and `utm_easting`, a
# pharmacy `hsa_eligible`, a shop for curtains made to measure `mtm_width`, a list of programs
# `matomo_version`.
CAMPAIGN = re.compile(
    r"(?:utm|mtm)_(?:source|medium|campaign|term|content|id|cid|name|keyword|kwd|group|placement|"
    r"source_platform|creative_format|marketing_tactic|(?:pub)?referrer|reader|social(?:[-_]type)?|"
    r"channel|network|campaignid|ad(?:group)?(?:id)?|creative|matchtype|device|audience|brand|"
    r"int|expid|hp_ref|nooverride|swu|viz_id)|"
    r"(?:matomo|piwik)_(?:campaign|keyword|kwd|source|medium|content|cid|group|placement)|"
    r"hsa_(?:acc|ad|cam|grp|kw|la|mt|net|ol|src|tgt|ver)"
)

SESSIONS = frozenset({"cftoken", "jsessionid", "oscsid", "phpsessid"})
# A `cfid` of fewer digits, or of anything else, may be a category's filter, but beside a `cftoken`,
# as ColdFusion has it always.
CFID = re.compile(r"[0-9]{7,}")
SESSION_PREFIXES = ("aspsessionid",)
# These name pages on some sites; what looks drawn names none, if it has so many characters and has
# not the form of a RECORD_ID. MongoDB's ids have 24, which interfaces call `session_id` and
# `sessionId`; PHP's have 26.
MAYBE_SESSIONS = frozenset({"session", "session_id", "sessionid", "sid", "zenid"})
SESSION_CHARS, SESSIONID_CHARS = 26, 24
# A click on an advertisement, or a subcategory, a poem, a record; who reads a newsletter.
MAYBE_TRACKING = frozenset({"ef_id", "epik", "scid", "vero_id"})
# Behind the click's id: the network, or the time, and of what kind it was.
EF_ID_END = re.compile(r"(?::|%3A)(?:[A-Za-z]|[0-9]{14})(?::|%3A)s$")
# Parts of a campaign, or the primary keys of a database: then numbers, or a RECORD_ID.
MAYBE_PRIMARY_KEYS = frozenset({"pk_content", "pk_source"})
# 16 characters or more, hexadecimal or such that letters and digits take turns TURNS times:
# `sid=12` may be a page, and so may `2026-07-14-morning` or `KeynoteSession12`.
TOKEN = re.compile(r"[0-9A-Za-z_-]{16,}")
HEXADECIMAL = re.compile(r"(?=[0-9]*[a-f])(?=[a-f]*[0-9])[0-9a-f]+", re.IGNORECASE)
TURN = re.compile(r"(?<=[0-9])[A-Za-z]|(?<=[A-Za-z])[0-9]|(?<=[a-z])[A-Z]")
TURNS = 4

# UUID, ULID since 2004, KSUID, and what two capitals begin that say of what kind the record is.
RECORD_ID = re.compile(
    r"(?i:[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})|(?i:01[0-9a-hjkmnp-tv-z]{24})|"
    r"[0-9A-Za-z]{27}|[A-Z]{2}[0-9a-f]{32}"
)
SESSION_IN_PATH = re.compile(
    r";(?:jsessionid|phpsessid)=[^/?;]*|/\((?:[A-Z]\([^()/]*\))*S\([^()/]*\)\)(?=/)",
    re.IGNORECASE,
)
MAYBE_SESSION_IN_PATH = re.compile(r";sid=([^/?;]*)", re.IGNORECASE)
INDEX_FILE = re.compile(r"/(?:index\.(?:html?|php|asp|aspx|jsp)|default\.(?:html?|aspx?))$")
SLASHES = re.compile("//+")
DEFAULT_PORTS = {"http": ":80", "https": ":443"}

# What w3lib's canonicalize_url returns unchanged, but for dot segments and the order of
# arguments: escapes only of what has to be escaped, `name=value` throughout.
# Session ids in paths need `;` or `(`, which are left out. Possessive: linear in any URL.
PATH = (
    r"(?:[A-Za-z0-9._~!$&'*+,=:@/-]++"
    r"|%(?:[01][0-9A-F]|2[0235F]|3[BCEF]|5[CE]|60|7[BDF]|[89A-F][0-9A-F]))*+"
)
WORD = (
    r"(?:[A-Za-z0-9._~+-]++"
    r"|%(?:[01][0-9A-F]|2[1-9A-CF]|3[A-F]|40|5[B-E]|60|7[B-DF]|[89A-F][0-9A-F]))*+"
)
FRAGMENT = r"[A-Za-z0-9._~!$&'()*+,;=:@/?%-]*+"
PORT = "(?::(?:[1-9][0-9]{0,3}|[1-5][0-9]{4}))?"  # w3lib judges above 59999
CANONICAL = re.compile(
    rf"(https?)://([a-z0-9_][a-z0-9._-]*+{PORT})(/{PATH})(?:\?({WORD}={WORD}(?:&{WORD}={WORD})*+))?"
    rf"(?:#({FRAGMENT}))?"
)


@dataclass(frozen=True, slots=True)
class UrlKeyRules:
    """Which URLs are the same. The reason for every rule: docs/url-filter.md.

    normalise          normalise as RFC 3986 section 6.2 says and w3lib does; drop default ports
    ignore_scheme      treat http and https as the same
    sort_query         ignore the order of query arguments
    drop_tracking      ignore arguments that only track visitors
    ignore_params      more query arguments to ignore; `name*` is a prefix
    drop_sessions      ignore session ids in query and path
    keep_hashbang      count a fragment that starts with `#!` as part of the URL
    method_and_body    tell requests apart by method and body, too, except GET without a body
    strip_www, strip_index, strip_slash, collapse_slashes, fold_case
                       off by default: each merges pages that some sites tell apart
    profiles           names of profiles, more rules that sites may break: profiles.py
    site_rules         more rules, for single sites: site_rules.py

    Raises SettingsError for a name that no profile has.
    """

    normalise: bool = True
    ignore_scheme: bool = True
    sort_query: bool = True
    drop_tracking: bool = True
    ignore_params: tuple[str, ...] = ()
    drop_sessions: bool = True
    keep_hashbang: bool = True
    method_and_body: bool = True
    strip_www: bool = False
    strip_index: bool = False
    strip_slash: bool = False
    collapse_slashes: bool = False
    fold_case: bool = False
    profiles: tuple[str, ...] = ()
    site_rules: SiteRules = NO_RULES

    def __post_init__(self) -> None:
        check_profiles(self.profiles)

    @property
    def rewrites(self) -> bool:
        """Whether the rules leave out more than arguments and session ids."""
        strips = self.strip_www or self.strip_index or self.strip_slash or self.collapse_slashes
        return strips or self.fold_case or bool(self.profiles or self.site_rules is not NO_RULES)


DEFAULT_RULES = UrlKeyRules()


def as_scrapy(rules: UrlKeyRules) -> UrlKeyRules:
    """The same rules, but that they leave out nothing by which Scrapy tells pages apart."""
    return UrlKeyRules(
        normalise=rules.normalise,
        ignore_scheme=rules.ignore_scheme,
        sort_query=rules.sort_query,
        drop_tracking=False,
        drop_sessions=False,
        keep_hashbang=rules.keep_hashbang,
        method_and_body=rules.method_and_body,
    )


class Fingerprinter(Protocol):
    """A REQUEST_FINGERPRINTER_CLASS."""

    def fingerprint(self, request: Request) -> bytes: ...


def request_key(
    request: Request,
    rules: UrlKeyRules = DEFAULT_RULES,
    fingerprinter: Fingerprinter | None = None,
) -> bytes:
    """The key of a request. Raises TypeError for a `neardup_key` in its meta that names nothing.

    `neardup_key`, a text, bytes or a whole number, says itself which page a request is for: those
    with one key are the same, whatever their URL, method and body.

    fingerprinter: the project's own REQUEST_FINGERPRINTER_CLASS, None for Scrapy's. A project
    that says itself which requests are the same has the last word: its fingerprint is the key,
    and the URL rules are not asked. URLs of requests with `verbatim_url` in their meta are
    compared byte by byte; those of requests with `dud` False, without the rules for single sites.
    """
    meta = request.meta
    own = meta.get(OWN_KEY)
    if own is not None and own != meta.get(USED_KEY):
        return own_key(own)
    if fingerprinter is not None:
        return opaque_key(request.url, "fingerprint", fingerprinter.fingerprint(request))
    if meta.get("verbatim_url"):
        key = opaque_key(request.url, "verbatim", blake2b(request.url.encode()).digest()[:16])
    elif meta.get("dud", True):
        key = url_key(request.url, rules)
    else:
        key = url_key(request.url, replace(rules, site_rules=NO_RULES))
    if not rules.method_and_body or (request.method == "GET" and not request.body):
        return key
    return key + method_suffix(request.method, request.body)


def own_key(own: object) -> bytes:
    """The key of a request that has one in its meta."""
    named = str(own) if isinstance(own, int) else own
    if not isinstance(named, (str, bytes)) or not named.strip():
        # An empty one is what a selector found nothing for: it would make all such pages one.
        raise TypeError(f"meta[{OWN_KEY!r}]={own!r}: takes a text, bytes or a whole number")
    data = named.encode("utf-8", "surrogatepass") if isinstance(named, str) else named
    return b"/ key=" + blake2b(data, digest_size=16).hexdigest().encode()


def opaque_key(url: str, name: str, identity: bytes) -> bytes:
    """The key of a request that is not judged by its URL; the host comes first, for the layers."""
    host = url.partition("://")[2].partition("/")[0][:MAX_HOST].replace(" ", "%20")
    return f"{host}/ {name}={identity.hex()}".encode("utf-8", "surrogatepass")


def method_suffix(method: str, body: bytes) -> bytes:
    """The end of the key of anything but a GET without a body."""
    suffix = f" method={method.replace(' ', '%20')}"
    if body:
        suffix += f" body={blake2b(body, digest_size=16).hexdigest()}"
    return suffix.encode()


def url_key(url: str, rules: UrlKeyRules = DEFAULT_RULES) -> bytes:
    """The key of a GET of this URL. Never fails: a URL that cannot be parsed is its own key.

    One of more than MAX_URL characters is known by its digest: any difference makes it new.
    About 2 us where the URL is canonical already, as most are; else w3lib's time on top.
    """
    if len(url) > MAX_URL:
        return opaque_key(url, "long", blake2b(url.encode("utf-8", "surrogatepass")).digest()[:16])
    try:
        left = apply_profiles(rules.profiles, url) if rules.profiles else url
        if rules.site_rules is not NO_RULES:
            left = rules.site_rules.apply(left)
        scheme, host, path, query, fragment = recognised(left) or split(left, rules)
    except ValueError:
        return url.replace(" ", "%20").encode("utf-8", "surrogatepass") + b" unparsed=1"
    key = clean_host(host, scheme, rules) + clean_path(path, rules)
    if query and (query := clean_query(query, rules)):
        key += "?" + query
    if fragment and rules.keep_hashbang and len(fragment) > 1 and fragment[0] == "!":
        key += "#" + fragment
    key = key.replace(" ", "%20")
    if not (rules.ignore_scheme and scheme in DEFAULT_PORTS):
        key += f" scheme={scheme}"
    return key.encode("utf-8", "surrogatepass")


def recognised(url: str) -> tuple[str, str, str, str, str] | None:
    """Scheme, host, path, query, fragment of a URL that is canonical already; None if in doubt."""
    match = CANONICAL.fullmatch(url)
    if match is None or "/." in url:
        return None
    scheme, host, path, query, fragment = match.groups("")
    if query and "&" in query and not is_sorted(query):
        return None
    return scheme, host, path, query, fragment


def is_sorted(query: str) -> bool:
    """Whether w3lib would leave the arguments in this order; False if in doubt."""
    pairs = [pair.partition("=") for pair in query.split("&")]
    return "%" not in query and "+" not in query and pairs == sorted(pairs)


def split(url: str, rules: UrlKeyRules) -> tuple[str, str, str, str, str]:
    """Scheme, host (with user and port), path, query, fragment; normalised as the rules say."""
    text = canonicalize_url(url, keep_fragments=True) if rules.normalise else url
    scheme, colon, rest = text.partition(":")
    if not colon:
        raise ValueError(f"{url!r} has no scheme")
    rest, _, fragment = rest.partition("#")
    rest, _, query = rest.partition("?")
    if not rest.startswith("//"):
        return f"{scheme.lower()}:", "", rest, query, fragment
    host, slash, path = rest[2:].partition("/")
    if query and rules.normalise and not rules.sort_query:
        query = unsorted(url)
    return scheme.lower(), host, slash + path, query, fragment


def unsorted(url: str) -> str:
    """The query with canonical escapes, in its own order."""
    query = url.partition("#")[0].partition("?")[2]
    pairs = parse_qsl_to_bytes(query, keep_blank_values=True)
    return "&".join(f"{quote_plus(name)}={quote_plus(value)}" for name, value in pairs)


def clean_host(host: str, scheme: str, rules: UrlKeyRules) -> str:
    if rules.normalise and ":" in host:
        host = host.removesuffix(DEFAULT_PORTS.get(scheme, "\0"))
    return host.removeprefix("www.") if rules.strip_www else host


def clean_path(path: str, rules: UrlKeyRules) -> str:
    if rules.drop_sessions and (";" in path or "(" in path):
        path = SESSION_IN_PATH.sub("", path)
        path = MAYBE_SESSION_IN_PATH.sub(lambda sid: "" if is_session_id(sid[1]) else sid[0], path)
    if rules.collapse_slashes:
        path = SLASHES.sub("/", path)
    if rules.strip_index:
        path = INDEX_FILE.sub("/", path)
    if rules.strip_slash:
        path = path.rstrip("/") or "/"
    return path.lower() if rules.fold_case else path


def clean_query(query: str, rules: UrlKeyRules) -> str:
    if not query:
        return ""
    kept = [pair for pair in query.split("&") if not is_noise(pair, rules, query)]
    return "&".join(kept).lower() if rules.fold_case else "&".join(kept)


def is_noise(pair: str, rules: UrlKeyRules, query: str) -> bool:
    """Whether the rules ignore a `name=value` of a query."""
    written, _, value = pair.partition("=")
    name = written.lower()
    return (
        (rules.drop_tracking and is_tracking(name, value))
        or (rules.drop_sessions and is_session(written, value, query))
        or any(matches(name, pattern) for pattern in rules.ignore_params)
    )


def is_tracking(name: str, value: str) -> bool:
    if name in TRACKING or CAMPAIGN.fullmatch(name):
        return True
    if name in MAYBE_PRIMARY_KEYS:
        return not value.isdecimal() and RECORD_ID.fullmatch(value) is None
    return name in MAYBE_TRACKING and is_token(EF_ID_END.sub("", value))


def is_session(written: str, value: str, query: str) -> bool:
    name = written.lower()
    if name in SESSIONS or name.startswith(SESSION_PREFIXES):
        return True
    if name == "cfid":
        return CFID.fullmatch(value) is not None or "&cftoken=" in f"&{query.lower()}"
    n_chars = SESSIONID_CHARS if written == "sessionid" else SESSION_CHARS
    return name in MAYBE_SESSIONS and is_session_id(value, n_chars)


def is_session_id(value: str, n_chars: int = SESSION_CHARS) -> bool:
    return len(value) >= n_chars and is_token(value) and RECORD_ID.fullmatch(value) is None


def is_token(value: str) -> bool:
    """Whether a value looks drawn, and names no page."""
    if TOKEN.fullmatch(value) is None:
        return False
    return HEXADECIMAL.fullmatch(value) is not None or len(TURN.findall(value)) >= TURNS


def up_to_a_turn(characters: str) -> str:
    """A pattern of the shortest run that ends with a TURN; characters: what it is of."""
    return rf"(?>[{characters}]*?(?:{TURN.pattern}))"


def matches(name: str, pattern: str) -> bool:
    pattern = pattern.lower()
    return name.startswith(pattern[:-1]) if pattern.endswith("*") else name == pattern
