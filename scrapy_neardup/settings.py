"""The only reader of NEARDUP_* settings: a frozen dataclass, every check in one place."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import Field, dataclass, field, fields
from os import PathLike, fspath
from pathlib import Path
from typing import Any, Self
from urllib.parse import urlsplit

from scrapy.settings import BaseSettings

from scrapy_neardup.errors import SettingsError
from scrapy_neardup.urls.key import NO_RULES
from scrapy_neardup.urls.site_rules import SiteRules, read_rules

logger = logging.getLogger(__name__)

PREFIX = "NEARDUP_"
NO_RAW = (None, "")  # what a command line or an environment gives for "not set"

Reader = Callable[[str, Any], Any]


def setting(default: Any, reader: Reader, doc: str, secret: bool = False) -> Any:
    """A dataclass field that says how its setting is read and what it is for.

    secret: it is left out wherever settings are shown or recorded.
    """
    return field(default=default, repr=not secret, metadata={"reader": reader, "doc": doc})


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
        if not low < value < high:
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


def names(name: str, raw: Any) -> tuple[str, ...]:
    """A list of names, or one string with commas between them."""
    parts = raw.split(",") if isinstance(raw, str) else raw
    if not isinstance(parts, (list, tuple, set, frozenset)):
        raise refuse(name, raw, "a list of names")
    if not all(isinstance(part, str) for part in parts):
        raise refuse(name, raw, "a list of names, each a string")
    return tuple(part.strip() for part in parts if part.strip())


def path(name: str, raw: Any) -> str:
    """The path of a folder."""
    if isinstance(raw, (str, PathLike)):
        return fspath(raw)
    raise refuse(name, raw, "the path of a folder")


def backend(name: str, raw: Any) -> str:
    """The URL of a server; never shown, for its password."""
    schemes = ("redis://", "rediss://", "redis+cluster://", "rediss+cluster://")
    if not isinstance(raw, str) or not raw.startswith(schemes):
        raise refuse(name, "…", "a URL that begins with one of " + ", ".join(schemes))
    if not is_well_formed(raw):
        remedy = "Write / ? # @ and : in a user's name or password as %2F %3F %23 %40 and %3A"
        raise refuse(name, "…", "scheme://user:password@host:port/database", remedy)
    parts = urlsplit(raw)
    if parts.scheme.endswith("+cluster") and parts.path.strip("/") not in ("", "0"):
        remedy = "Tell fleets apart by NEARDUP_BACKEND_PREFIX"
        raise refuse(name, "…", "no database but 0 in a cluster", remedy)
    return raw


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
    """The rules in a JSON file, or rules already read."""
    if isinstance(raw, SiteRules):
        return raw
    file = path(name, raw)
    try:
        return read_rules(Path(file).read_text(encoding="utf-8"))
    except (OSError, UnicodeError, SettingsError) as error:
        raise refuse(name, file, "the path of a JSON file of rules", str(error)) from error


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
    """None (also as a word), or what the reader takes."""

    def read(name: str, raw: Any) -> Any:
        return None if raw in ("None", "none") else reader(name, raw)

    return read


@dataclass(frozen=True, slots=True, kw_only=True)
class NearDupSettings:
    """Everything an operator can set, checked. Defaults are what operators can leave on."""

    enabled: bool = setting(True, flag, "False switches every component off.")
    action: str = setting(
        "drop",
        one_of("drop", "tag", "dry-run"),
        "What happens to an item of a near-duplicate page: `drop` it, `tag` it and let it pass, "
        "or only count it (`dry-run`).",
    )
    item_fields: tuple[str, ...] = setting(
        (),
        names,
        "Item fields whose text is compared instead of the page's, each item by itself.",
    )
    follow_duplicates: bool = setting(
        True, flag, "False stops following links out of near-duplicate pages."
    )
    extractor: str | type | None = setting(
        None,
        optional(component),
        "Dotted path of a function `response -> str | None` that replaces the visible text.",
    )
    max_page_bytes: int = setting(
        16_777_216,
        whole(1, 2**31 - 1, "bytes"),
        "Pages with a longer body are kept without being compared.",
    )
    engine: str | type = setting(
        "auto",
        component,
        "Who computes fingerprints: `auto`, `native`, `numpy`, `reference`, `fpga`, `rtl`, a "
        "dotted path or a class.",
    )
    mix: bool = setting(True, flag, "False is the paper's plain sdbm without the avalanche mix.")
    shingle: int = setting(1, whole(1, 16, "words"), "Words in a feature of the fingerprint.")
    weighting: str = setting(
        "count", one_of("count", "set"), "A feature votes as often as it occurs, or once."
    )
    tie: str = setting(
        "gt", one_of("gt", "ge"), "Bit i is set where V[i] > 0 (`gt`) or V[i] >= 0 (`ge`)."
    )
    index: str | type = setting(
        "permuted",
        component,
        "Where fingerprints are looked up: `permuted`, `slices`, `scan`, a dotted path or a class.",
    )
    blocks: int | None = setting(
        None,
        optional(whole(1, 64)),
        "Blocks that the permuted index cuts fingerprints into; None: one more than the distance.",
    )
    scan_limit: int = setting(
        1_000_000,
        whole(1, 2**40, "pages"),
        "Stored fingerprints that one look-up may compare; beyond, the page is kept undecided.",
    )
    distance: int = setting(
        6, whole(0, 63, "bits"), "Fingerprints that differ in at most so many bits are candidates."
    )
    confirm_distance: int | None = setting(
        44,
        optional(whole(0, 256, "bits")),
        "Sketches (256 bits) that differ in at most so many bits confirm a candidate; None: trust "
        "the fingerprint.",
    )
    similarity: float = setting(
        0.88,
        between(0, 1),
        "Share of 5-word shingles (Jaccard, estimated) that a confirmed candidate must have in "
        "common with the page.",
    )
    min_words: int = setting(
        20, whole(0, 1_000_000), "Pages with fewer words are dropped only as exact duplicates."
    )
    scope: str = setting(
        "site",
        one_of("site", "all"),
        "Whose pages a page may repeat: those of its own registrable domain (`site`), or of `all`.",
    )
    boilerplate: str = setting(
        "learn",
        one_of("learn", "keep"),
        "What a site repeats on its pages has no weight (`learn`), or the same (`keep`).",
    )
    index_admit: str = setting(
        "novel",
        one_of("novel", "all"),
        "Which pages later ones are compared with: those that repeat nothing (`novel`), or `all`.",
    )
    url_filter: str | type = setting(
        "layered",
        component,
        "Who remembers URLs: `layered` (Bloom filters), `exact` (a table), a path or a class.",
    )
    url_capacity: int = setting(
        1_000_000, whole(1, 2**40), "URLs that the filter holds before it grows."
    )
    url_error_rate: float = setting(
        1e-6, between(0, 0.5), "Upper bound of the share of new URLs taken for seen ones."
    )
    url_max_mb: int | None = setting(
        None,
        optional(whole(1, 2**30, "MB")),
        "Memory that the URL filter may grow to; once it is full, new URLs are fetched but no "
        "longer remembered. None: no limit.",
    )

    state_dir: str | None = setting(
        None,
        optional(path),
        "Folder of the state, for memory across runs and spiders; None: `neardup` in JOBDIR, and "
        "without JOBDIR in memory only.",
    )
    snapshot_interval: float = setting(
        300.0, between(0, 1e6), "Seconds between two snapshots of the state."
    )
    fsync: str = setting(
        "everysec",
        one_of("always", "everysec", "no"),
        "How soon the journal is on the disk: after each record, within about a second, or when "
        "the operating system likes. Only a power cut can tell the difference.",
    )
    ttl: float | None = setting(
        None,
        optional(between(0, 36_500)),
        "Days after which URLs and pages are fetched and read again; None: never.",
    )
    key: int | None = setting(
        None,
        optional(key_of_64_bits),
        "Secret that keys the fingerprints, 64 bits, also as 0x…; None: one is drawn and kept in "
        "the state's folder; 0: none, so that fingerprints can be compared between states.",
        secret=True,
    )

    backend: str | None = setting(
        None,
        optional(backend),
        "URL of a Valkey or Redis server on which several workers remember URLs and pages "
        "together: `redis://`, `rediss://` (TLS), `redis+cluster://`; None: no server.",
        secret=True,
    )
    backend_prefix: str = setting(
        "neardup", prefix, "What the fleet's keys on the server begin with: one for each fleet."
    )

    ledger: str = setting(
        "all",
        one_of("all", "duplicates", "off"),
        "Which decisions are recorded in the state's folder: `all`, only those about `duplicates`, "
        "or none (`off`).",
    )
    keep_text: bool = setting(
        False,
        flag,
        "True keeps the visible text of pages, compressed, in the ledger, so that `explain` and "
        "the report can show what differs.",
    )
    ledger_file_mb: int = setting(
        512,
        whole(1, 1_000_000, "MB"),
        "Size from which the ledger begins a new file.",
    )
    ledger_file_days: float = setting(
        30.0, between(0, 36_500), "Age in days at which the ledger begins a new file."
    )
    ledger_files: int = setting(
        10, whole(1, 100_000), "Files that the ledger keeps; the oldest go first."
    )
    live_port: int | None = setting(
        None,
        optional(whole(0, 65_535)),
        "Port on 127.0.0.1 where the report of the running crawl is served; 0: any free one; "
        "None: no live view.",
    )

    url_normalise: bool = setting(
        True, flag, "RFC 3986 normalisation of URLs, and default ports dropped."
    )
    url_ignore_scheme: bool = setting(True, flag, "http and https are one site.")
    url_sort_query: bool = setting(True, flag, "The order of query arguments says nothing.")
    url_drop_tracking: bool = setting(
        True, flag, "Arguments that only say where a visitor came from are dropped."
    )
    url_ignore_params: tuple[str, ...] = setting(
        (), names, "More arguments to drop; `name*` is a prefix."
    )
    url_drop_sessions: bool = setting(True, flag, "Session ids in query or path are dropped.")
    url_keep_hashbang: bool = setting(True, flag, "A fragment that starts with `#!` names a page.")
    url_method_and_body: bool = setting(
        True, flag, "Anything but a GET without a body is a request of its own."
    )
    url_strip_www: bool = setting(False, flag, "`www.` in front of a host says nothing.")
    url_strip_index: bool = setting(False, flag, "`/index.html` and its like are the folder.")
    url_strip_slash: bool = setting(False, flag, "A slash at the end says nothing.")
    url_collapse_slashes: bool = setting(False, flag, "Several slashes in a row are one.")
    url_fold_case: bool = setting(False, flag, "Upper and lower case are one, also in paths.")
    url_site_rules: SiteRules = setting(
        NO_RULES, site_rules, "Path of a JSON file of duplicate-url-discarder's rules."
    )

    def __post_init__(self) -> None:
        if self.blocks is not None and self.blocks <= self.distance:
            raise refuse(
                "BLOCKS",
                self.blocks,
                f"more blocks than {PREFIX}DISTANCE={self.distance}",
                f"Set {self.distance + 1} or more, or lower the distance",
            )

    @classmethod
    def from_settings(cls, settings: BaseSettings) -> Self:
        """Read and check every setting; warn of unknown ones. Raises SettingsError."""
        values = {f.name: f for f in fields(cls)}
        warn_of_unknown(settings, values)
        given = ((f, settings.get(PREFIX + f.name.upper())) for f in values.values())
        return cls(**dict(read_given(given)))


def read_given(given: Iterator[tuple[Field[Any], Any]]) -> Iterator[tuple[str, Any]]:
    """Name and checked value of each setting that was given."""
    for f, raw in given:
        if raw not in NO_RAW:
            yield f.name, f.metadata["reader"](f.name.upper(), raw)


def warn_of_unknown(settings: BaseSettings, known: dict[str, Any]) -> None:
    """One warning for each NEARDUP_* name nobody reads, with the closest known one."""
    known_names = [PREFIX + name.upper() for name in known]
    for name in settings:
        if str(name).startswith(PREFIX) and name not in known_names:
            closest = closest_to(str(name), known_names)
            hint = f"; did you mean {closest}?" if closest else ""
            logger.warning("Unknown setting %s has no effect%s", name, hint)
