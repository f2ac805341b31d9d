"""The only reader of NEARDUP_* settings: a frozen dataclass, every check in one place."""

from __future__ import annotations

import logging
from dataclasses import Field, dataclass, field, fields
from typing import Any, Self

from scrapy.settings import BaseSettings

from scrapy_neardup.detect.near import CONFIRM_DISTANCE, DISTANCE, MIN_WORDS, SIMILARITY
from scrapy_neardup.detect.templates import TEMPLATE_BYTES
from scrapy_neardup.settings.readers import (
    PREFIX,
    Reader,
    arguments,
    backend,
    between,
    closest_to,
    component,
    flag,
    key_of_64_bits,
    names,
    one_of,
    optional,
    path,
    prefix,
    profiles,
    refuse,
    site_rules,
    whole,
)
from scrapy_neardup.urls.key import NO_RULES
from scrapy_neardup.urls.site_rules import SiteRules

__all__ = ["PREFIX", "NearDupSettings"]

logger = logging.getLogger(__name__)


def setting(default: Any, reader: Reader, doc: str, secret: bool = False) -> Any:
    """A dataclass field that says how its setting is read and what it is for.

    secret: it is left out wherever settings are shown or recorded.
    """
    return field(default=default, repr=not secret, metadata={"reader": reader, "doc": doc})


@dataclass(frozen=True, slots=True, kw_only=True)
class NearDupSettings:
    """Everything an operator can set, checked. Defaults are what operators can leave on."""

    enabled: bool = setting(True, flag, "False switches the whole plugin off.")
    action: str = setting(
        "drop",
        one_of("drop", "tag", "dry-run"),
        "What happens to an item of a duplicate page: `drop` drops it, `tag` adds a `neardup` "
        "field and lets it pass, `dry-run` only counts it.",
    )
    compare: str = setting(
        "item",
        one_of("item", "page"),
        "When an item is dropped. `item`: if its page and its own data repeat. `page`: if its page "
        "repeats, whatever the item says; brief lines of templates are compared then, too.",
    )
    ignore_fields: tuple[str, ...] = setting(
        (),
        names,
        "Item fields, at any depth, to ignore in the comparison, such as a view counter or a list "
        "position.",
    )
    item_fields: tuple[str, ...] = setting(
        (),
        names,
        "Compare the text of these item fields, item by item, instead of the page's text. What "
        "other fields say does not count. Not with NEARDUP_FOLLOW_DUPLICATES=False.",
    )
    follow_duplicates: bool = setting(
        True,
        flag,
        "False: do not follow links found on near-duplicate pages that have at least 50 words of "
        "their own. Not with NEARDUP_ITEM_FIELDS, under which pages are not compared.",
    )
    extractor: str | type | None = setting(
        None,
        optional(component),
        "Dotted path of a function `response -> str | None` that returns the text to compare, one "
        "line a block. The page is kept without being compared where it returns None. None: "
        "compare all visible text, and the data in the page's markup.",
    )
    max_page_bytes: int = setting(
        16_777_216,
        whole(1, 2**31 - 1, "bytes"),
        "Keep pages with a longer body without comparing them.",
    )
    engine: str | type = setting(
        "auto",
        component,
        "Engine that computes fingerprints: `auto`, `native`, `numpy`, `reference`, `fpga`, "
        "`rtl`, `board`, a dotted path or a class. `auto` takes `native` where it is installed, "
        "else `numpy`.",
    )
    board: str | None = setting(
        None,
        optional(path),
        "Serial port of the board that engine `board` asks, such as `/dev/ttyUSB0`.",
    )
    mix: bool = setting(
        True,
        flag,
        "False: hash words with plain sdbm, as the paper does, without mixing the result.",
    )
    shingle: int = setting(1, whole(1, 16, "words"), "Words in each feature of the fingerprint.")
    weighting: str = setting(
        "count",
        one_of("count", "set"),
        "How often a feature votes: as often as it occurs (`count`) or once (`set`).",
    )
    tie: str = setting(
        "gt",
        one_of("gt", "ge"),
        "A bit of the fingerprint is 1 if its votes sum to more than 0 (`gt`), or to 0 or more "
        "(`ge`).",
    )
    index: str | type = setting(
        "permuted",
        component,
        "Index that finds near fingerprints: `permuted`, `slices`, `scan`, a dotted path or a "
        "class.",
    )
    blocks: int | None = setting(
        None,
        optional(whole(1, 64)),
        "Blocks into which the permuted index cuts a fingerprint. None: NEARDUP_DISTANCE + 1, with "
        "buckets that shrink as pages are added. May change from run to run.",
    )
    scan_limit: int = setting(
        1_000_000,
        whole(1, 2**40, "pages"),
        "Most stored fingerprints that one look-up compares. A page that would need more is kept, "
        "undecided.",
    )
    distance: int = setting(
        DISTANCE,
        whole(0, 63, "bits"),
        "A page is a candidate if its fingerprint differs in at most this many of 64 bits.",
    )
    confirm_distance: int | None = setting(
        CONFIRM_DISTANCE,
        optional(whole(0, 256, "bits")),
        "A candidate is confirmed only if its sketch differs in at most this many of 256 bits. "
        "None: rely on the fingerprint alone. A hostile page can forge it.",
    )
    similarity: float = setting(
        SIMILARITY,
        between(0, 1),
        "Least share of 5-word shingles (estimated Jaccard similarity) that a duplicate has in "
        "common with its original.",
    )
    min_words: int = setting(
        MIN_WORDS,
        whole(0, 1_000_000),
        "Pages with fewer words are duplicates only if their text is equal, symbols and case "
        "included.",
    )
    scope: str = setting(
        "site",
        one_of("site", "all"),
        "Compare a page with pages of its own registrable domain (`site`) or of every domain "
        "(`all`).",
    )
    boilerplate: str = setting(
        "learn",
        one_of("learn", "keep"),
        "`learn`: learn the menus, notices and footers of each host, and compare pages without "
        "them as well. `keep`: compare whole pages only.",
    )
    template_mb: int = setting(
        TEMPLATE_BYTES // 1_000_000,
        whole(1, 1_000_000, "MB"),
        "Memory for the templates of all hosts, in MB. Of a host that finds no room in it, only "
        "exact repeats are dropped.",
    )
    facts: str = setting(
        "compare",
        one_of("compare", "ignore"),
        "`compare`: keep a page that is near another where a fact differs: title, heading, number, "
        "symbol or negation. `ignore`: drop it all the same.",
    )
    contained: str = setting(
        "keep",
        one_of("keep", "drop"),
        "What becomes of a page that holds an earlier page of its site and title whole and says "
        "more, as when comments were added: `keep` names the earlier page, `drop` takes it for "
        "near.",
    )
    index_admit: str = setting(
        "novel",
        one_of("novel", "all"),
        "Which pages later pages are compared with: pages that were no duplicates (`novel`) or "
        "`all`.",
    )
    url_filter: str | type = setting(
        "layered",
        component,
        "Filter that remembers URLs: `layered` (Bloom filter), `bloom` (the same without layers), "
        "`exact` (table of 64-bit key fingerprints), a dotted path or a class.",
    )
    url_capacity: int = setting(
        1_000_000,
        whole(1, 2**40),
        "URLs for which the filter makes room at the start; it grows beyond that.",
    )
    url_error_rate: float = setting(
        1e-6,
        between(0, 0.5),
        "Greatest share of new URLs that may be taken for seen ones, and so never be fetched. "
        "Half of it is for URLs fetched, half for URLs queued. In a fleet each has a third, and "
        "the server's filter has one.",
    )
    url_max_mb: int | None = setting(
        None,
        optional(whole(1, 2**30, "MB")),
        "Memory limit of the URL filters, in MB. Once one is full, new URLs are fetched but not "
        "remembered. None: no limit.",
    )
    learn: str = setting(
        "watch",
        one_of("off", "watch", "act"),
        "`watch`: learn from the pages which differences between URLs do not matter, and say at "
        "the end what that would save. `act`: skip what trusted rules take for copies, and let "
        "requests wait whose kind has stopped bringing anything new. `off`: learn nothing.",
    )
    learn_error: float = setting(
        0.05,
        between(0, 0.5),
        "Trust a learnt rule when, with a confidence of 95 %, less than this share of its "
        "predictions is wrong: 0.05 takes 59 right ones and no wrong one.",
    )

    canonical: str = setting(
        "check",
        one_of("check", "trust", "ignore"),
        "How far to believe a page's canonical URL (rel=canonical, og:url, shortlink). `check`: "
        "only if the content agrees. `trust`: always, so that a page is a copy if it names one "
        "that was kept, whatever its text; its items are compared as those of other copies. "
        "`ignore`: never. Unless `ignore`, hreflang alternates are no copies of each other.",
    )
    soft_404_probe: bool = setting(
        False,
        flag,
        "True: ask each host once for a path that cannot exist, to know what it answers with "
        "status 200 instead of 404. False: learn that from pages with many unrelated URLs only.",
    )

    state_dir: str | None = setting(
        None,
        optional(path),
        "Folder that keeps the state for later runs and other spiders. None: `neardup` in JOBDIR; "
        "without JOBDIR, memory only.",
    )
    snapshot_interval: float = setting(
        300.0, between(0, 1e6), "Seconds between snapshots of the state."
    )
    fsync: str = setting(
        "everysec",
        one_of("always", "everysec", "no"),
        "When the journal is forced to disk: after each record (`always`), about once a second "
        "(`everysec`), or when the operating system does it (`no`). Matters only after a power "
        "cut.",
    )
    ttl: float | None = setting(
        None,
        optional(between(0, 36_500)),
        "Days after which URLs and pages are forgotten, and so fetched again. None: never.",
    )
    recrawl: str = setting(
        "new",
        one_of("new", "changed", "all"),
        "What becomes of URLs that an earlier crawl fetched. `new`: they are not fetched if their "
        "page gave an item. `changed`: they are, and only items of pages that are new or changed "
        "pass. `all`: they are, and items of unchanged pages pass, too.",
    )
    revisit: str | None = setting(
        None,
        optional(one_of("adaptive")),
        "`adaptive`, with NEARDUP_RECRAWL `changed`: known pages are fetched only when they are "
        "due, by how often they, and pages of URLs like theirs, have changed. None: in every "
        "crawl.",
    )
    revisit_min: float = setting(
        0.5,
        between(0, 36_500),
        "Days after which a page is due that changes all the time, with NEARDUP_REVISIT.",
    )
    revisit_max: float = setting(
        30.0,
        between(0, 36_500),
        "Days after which any page is due, with NEARDUP_REVISIT.",
    )
    key: int | None = setting(
        None,
        optional(key_of_64_bits),
        "Secret key of the fingerprints: a 64-bit number, decimal or 0x…. None: draw one and keep "
        "it in the state folder. 0: no key, so that fingerprints of different states can be "
        "compared.",
        secret=True,
    )

    backend: str | None = setting(
        None,
        optional(backend),
        "URL of a Valkey or Redis server through which several workers share URLs and pages: "
        "`redis://`, `rediss://` (TLS), `redis+cluster://`, `redis+sentinel://`, both also with "
        "`rediss`, or the same with `valkey`. None: no server.",
        secret=True,
    )
    backend_prefix: str = setting(
        "neardup", prefix, "Prefix of the fleet's keys on the server. Give each fleet its own."
    )

    ledger: str = setting(
        "all",
        one_of("all", "duplicates", "off"),
        "Decisions that the ledger in the state folder records: `all`, only those about "
        "`duplicates`, or none (`off`).",
    )
    keep_text: bool = setting(
        False,
        flag,
        "True: keep the visible text of pages, compressed, in the ledger, so that `explain` and "
        "the report can show what differs.",
    )
    ledger_file_mb: int = setting(
        512,
        whole(1, 1_000_000, "MB"),
        "Size in MB at which the ledger begins a new file.",
    )
    ledger_file_days: float = setting(
        30.0, between(0, 36_500), "Age in days at which the ledger begins a new file."
    )
    ledger_files: int = setting(
        10, whole(1, 100_000), "Files that the ledger keeps; it deletes the oldest beyond them."
    )
    live_port: int | None = setting(
        None,
        optional(whole(0, 65_535)),
        "Port on 127.0.0.1 that serves the report of the running crawl. 0: any free port. None: no "
        "live view.",
    )

    metrics_port: int | None = setting(
        None,
        optional(whole(0, 65_535)),
        "Port that serves all stats of the running crawl to Prometheus, at `/metrics`. 0: any free "
        "port. None: no metrics.",
    )
    metrics_host: str = setting(
        "127.0.0.1",
        path,
        "Address on which NEARDUP_METRICS_PORT is served. `0.0.0.0` lets everybody in the network "
        "read the stats.",
    )

    url_normalise: bool = setting(
        True, flag, "Normalise URLs as RFC 3986 says, and drop default ports."
    )
    url_ignore_scheme: bool = setting(True, flag, "Treat http and https as the same.")
    url_sort_query: bool = setting(True, flag, "Ignore the order of query arguments.")
    url_drop_tracking: bool = setting(
        True, flag, "Ignore arguments that only track visitors, such as `utm_source` and `gclid`."
    )
    url_ignore_params: tuple[str, ...] = setting(
        (), arguments, "More query arguments to ignore; `name*` is a prefix."
    )
    url_drop_sessions: bool = setting(True, flag, "Ignore session ids in query and path.")
    url_keep_hashbang: bool = setting(
        True, flag, "Count a fragment that starts with `#!` as part of the URL."
    )
    url_method_and_body: bool = setting(
        True, flag, "Tell requests apart by method and body, too, except GET without a body."
    )
    url_strip_www: bool = setting(False, flag, "Ignore `www.` in front of a host.")
    url_strip_index: bool = setting(
        False, flag, "Treat `/index.html` and similar names as their folder."
    )
    url_strip_slash: bool = setting(False, flag, "Ignore a slash at the end of the path.")
    url_collapse_slashes: bool = setting(False, flag, "Treat several slashes in a row as one.")
    url_fold_case: bool = setting(False, flag, "Ignore upper and lower case, also in paths.")
    url_profiles: tuple[str, ...] = setting(
        (),
        profiles,
        "Profiles of rules that most sites keep, but some break: `lenient`, `mobile`, `platforms`. "
        "`scrapy neardup urls` shows what they would merge.",
    )
    url_site_rules: SiteRules = setting(
        NO_RULES,
        site_rules,
        "JSON files with rules for single sites in duplicate-url-discarder's format, or folders of "
        "them: a list, or one string with commas between them.",
    )

    def __post_init__(self) -> None:
        """Read and check every value. Raises SettingsError."""
        for f in fields(self):
            value = f.metadata["reader"](f.name.upper(), getattr(self, f.name))
            object.__setattr__(self, f.name, value)  # what Python has for frozen dataclasses
        self._check_index_and_engine()
        self._check_revisit()
        self._check_item_fields()

    def _check_index_and_engine(self) -> None:
        if self.blocks is not None and self.blocks <= self.distance:
            raise refuse(
                "BLOCKS",
                self.blocks,
                f"more blocks than {PREFIX}DISTANCE={self.distance}",
                f"Set {self.distance + 1} or more, or lower the distance",
            )
        if self.engine == "board" and self.board is None:
            raise refuse(
                "BOARD", None, "the board's serial port with NEARDUP_ENGINE='board'",
                "Set it, for example to '/dev/ttyUSB0'",
            )  # fmt: skip

    def _check_revisit(self) -> None:
        if self.revisit is not None and self.recrawl != "changed":
            raise refuse(
                "REVISIT",
                self.revisit,
                f"None with {PREFIX}RECRAWL={self.recrawl!r}",
                f"Set {PREFIX}RECRAWL='changed', under which known pages are fetched again",
            )
        if self.revisit_min > self.revisit_max:
            raise refuse(
                "REVISIT_MIN",
                self.revisit_min,
                f"at most {PREFIX}REVISIT_MAX={self.revisit_max:g}",
                "Lower it, or raise the other",
            )

    def _check_item_fields(self) -> None:
        """Links are pruned by what pages say: an item would repeat its own page."""
        if self.item_fields and not self.follow_duplicates:
            raise refuse(
                "FOLLOW_DUPLICATES",
                self.follow_duplicates,
                f"True with {PREFIX}ITEM_FIELDS={self.item_fields!r}",
                f"Set it to True, or leave {PREFIX}ITEM_FIELDS out: then pages are compared",
            )

    @classmethod
    def from_settings(cls, settings: BaseSettings) -> Self:
        """The settings of a crawl; warns of unknown names. Raises SettingsError.

        A setting given as "" has its default, as has one given as None that cannot be None:
        command lines and environments write that for "not set".
        """
        known = {PREFIX + f.name.upper(): f for f in fields(cls)}
        warn_of_unknown(settings, list(known))
        given = [(f, settings[name]) for name, f in known.items() if name in settings]
        return cls(**{f.name: raw for f, raw in given if says_something(f, raw)})


def says_something(setting: Field[Any], raw: Any) -> bool:
    """Whether a value was given, and not what stands for "not set"."""
    can_be_none = str(setting.type).endswith("| None")
    return not (isinstance(raw, str) and raw == "") and (raw is not None or can_be_none)


def warn_of_unknown(settings: BaseSettings, known: list[str]) -> None:
    """One warning for each NEARDUP_* name nobody reads, with the closest known one."""
    for name in settings:
        if str(name).startswith(PREFIX) and name not in known:
            closest = closest_to(str(name), known)
            hint = f"; did you mean {closest}?" if closest else ""
            logger.warning("Unknown setting %s has no effect%s", name, hint)
