"""Between a crawl and the person who watches it: ledger, live view, overrides."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zlib import crc32

from scrapy.http import Request, Response

from scrapy_neardup.crawl.requests.request_tracker import urls_of
from scrapy_neardup.detect.decision import Decision
from scrapy_neardup.detect.detector import Detector
from scrapy_neardup.errors import SettingsError
from scrapy_neardup.factory import make_rules, rules_on_record
from scrapy_neardup.ledger.schema import Action, Entry, EntryKind
from scrapy_neardup.ledger.undo import FILE, Override, Overrides, examine
from scrapy_neardup.ledger.writer import LedgerWriter
from scrapy_neardup.settings import NearDupSettings
from scrapy_neardup.state.visit_file import Status

if TYPE_CHECKING:
    from scrapy_neardup.crawl.recrawl.visit_comparison import Revisit
    from scrapy_neardup.report.live import LiveView

logger = logging.getLogger(__name__)

# Of bytes: two pages of a site that share a title share its bytes, too.
TITLE = re.compile(rb"<title(?:\s[^<>]*+)?>", re.IGNORECASE)
TITLE_END = re.compile(rb"</title", re.IGNORECASE)
TITLE_BYTES = 16_384

# A page that is new is on record by what it repeats.
REVISITED: dict[Status, EntryKind] = {
    Status.UNCHANGED: "unchanged",
    Status.MINOR: "minor",
    Status.CHANGED: "changed",
}

# What NEARDUP_ACTION does to a duplicate, as the ledger says it.
ACTIONS: dict[str, Action] = {"drop": "dropped", "tag": "tagged", "dry-run": "counted"}


class Recorder:
    """Enters decisions into the ledger of a state folder, and honours the overrides there.

    Without a folder there is nothing to see or undo. Raises SettingsError where a live view
    is asked for all the same.
    """

    def __init__(self, settings: NearDupSettings, folder: Path | None) -> None:
        self.settings = settings
        self.folder = folder
        self.overrides = None if folder is None else Overrides(folder, make_rules(settings))
        if folder is not None and (damage := examine(folder)) is not None:
            logger.warning("neardup: %s", damage)
        self.ledger: LedgerWriter | None = None
        self.keeps_text = False  # whether the text of pages is wanted
        self.live: LiveView | None = None
        if settings.live_port is not None and (folder is None or settings.ledger == "off"):
            raise SettingsError(
                f"NEARDUP_LIVE_PORT={settings.live_port}: the live view shows the ledger; set "
                "JOBDIR or NEARDUP_STATE_DIR, and NEARDUP_LEDGER to 'all' or 'duplicates'"
            )

    def open_ledger(self, detector: Detector, opened: LedgerWriter | None = None) -> None:
        """Begin to record. Raises LedgerError.

        opened: the ledger of another crawl that has the same state.
        """
        if opened is not None:
            self.ledger = opened
            self.keeps_text = self.settings.keep_text
        elif self.folder is not None:
            self.ledger = LedgerWriter.open(
                self.folder,
                self.settings.ledger,  # type: ignore[arg-type]
                rules=rules_on_record(self.settings, detector),
                keep_text=self.settings.keep_text,
                rotate_bytes=self.settings.ledger_file_mb * 10**6,
                rotate_s=self.settings.ledger_file_days * 86_400,
                keep_files=self.settings.ledger_files,
            )
            self.keeps_text = self.settings.keep_text

    def open_live_view(self) -> None:
        """Begin to serve; without it, with a warning, where the port is taken or not ours."""
        if self.settings.live_port is None or self.ledger is None:
            return
        from scrapy_neardup.report.live import LiveView  # brings a server and the report

        assert self.folder is not None
        try:
            self.live = LiveView(self.folder, self.settings.live_port)
        except OSError as error:
            logger.warning(
                "neardup: no live view of this crawl: NEARDUP_LIVE_PORT=%d: %s. Take another port, "
                "or 0 for any free one",
                self.settings.live_port,
                error.strerror or error,
            )
            return
        logger.info("neardup: live view at %s", self.live.url)

    def close(self) -> None:
        """Serve no more. The ledger is closed with the state."""
        if self.live is not None:
            self.live.close()
            self.live = None

    def url_dropped(self, request: Request, twin: str | None = None) -> None:
        """A request was dropped because its URL was fetched before.

        twin: URL whose page it would repeat, by a learnt rule.
        """
        if self.ledger is not None:
            entry = Entry(request.url, "seen", "dropped", twin, callback=callback_of(request))
            self.ledger.record(entry)

    def url_deferred(self, request: Request) -> None:
        """A request waits because its kind of URL has stopped bringing anything new."""
        if self.ledger is not None:
            entry = Entry(request.url, "deferred", "dropped", callback=callback_of(request))
            self.ledger.record(entry)

    def page_judged(
        self,
        url: str,
        decision: Decision,
        action: Action,
        response: Response | None,
        text: str,
        differing: set[str] | None = None,
        revisit: Revisit | None = None,
    ) -> None:
        """A page, or an item of it, was judged and dealt with.

        differing  fields by which items were kept although their page repeats another
        revisit    how the page compares with its earlier self
        """
        if self.ledger is None:
            return
        entry = entry_of(url, decision, action, differing, text)
        if revisit is not None and (revisit.says_nothing_new or action == "kept"):
            entry = entry._replace(kind=REVISITED.get(revisit.status, entry.kind), original=None)
        self.ledger.record(entry._replace(**of_response(response)) if response else entry)

    def action_on(
        self, decision: Decision, repeated: bool, revisit: Revisit | None = None
    ) -> Action:
        """What became of a page. repeated: an item of it was dropped, tagged or counted."""
        if revisit is not None and revisit.says_nothing_new and repeated:
            return ACTIONS[self.settings.action]
        return ACTIONS[self.settings.action] if decision.is_duplicate and repeated else "kept"

    def keeps(self, url: str) -> bool:
        """Whether a person wants the page at a URL kept, whatever it repeats."""
        return self.overrides is not None and self.overrides.keeps(url)

    def wants(self, url: str) -> bool:
        """Whether a person wants a URL fetched once more."""
        return self.overrides is not None and self.overrides.wants(url)

    def wanted(self, response: Response) -> list[str]:
        """The URLs of a response that a person wants fetched once more."""
        if self.overrides is None:
            return []
        return [url for url in urls_of(response) if self.wants(url)]

    def fetched(self, urls: list[str]) -> None:
        """A page was handled: its URLs are not fetched once more again. Raises OSError."""
        assert self.overrides is not None
        for url in urls:
            self.overrides.fetched(url)

    def requests(
        self, spider: Any, as_skipped: Callable[[str], Request | None]
    ) -> Iterator[Request]:
        """Requests for all that a person wants fetched once more, wherever links lead.

        as_skipped: the request for a URL that was not made, with what no ledger knows of it.
        """
        for override in self.overrides.to_fetch if self.overrides is not None else ():
            try:
                request = request_for(override, spider)
            except (ValueError, TypeError) as error:
                logger.warning("%r is not fetched once more: %s", override.url, error)
            else:
                yield exempted(as_skipped(override.url) or request)


def request_for(override: Override, spider: Any) -> Request:
    """The request that a person asked for. Raises ValueError and TypeError where it is none."""
    url, name = override
    # Who may write to the folder, but not read our files, could have a spider read them.
    if not url.lower().startswith(("http://", "https://")):
        raise ValueError(f"{FILE} may name pages of http and https only")
    callback = getattr(spider, name, None) if name else None
    return Request(url, callback=callback)


def exempted(request: Request) -> Request:
    """The request, which is made whatever is known of its URL."""
    request.dont_filter = True
    return request


def entry_of(
    url: str, decision: Decision, action: Action, differing: set[str] | None, text: str
) -> Entry:
    """What the ledger takes down of a decision; differing, text: as in Recorder.page_judged."""
    return Entry(
        url,
        decision.kind,
        action,
        None if decision.kind == "soft-404" else decision.original,
        decision.elsewhere,
        decision.fingerprint,
        decision.distance,
        decision.sketch_distance,
        decision.similarity,
        decision.words,
        differs=decision.differs,
        data_differ=None if differing is None else ", ".join(sorted(differing)),
        text=text,
    )


def of_response(response: Response) -> dict[str, Any]:
    """What the ledger takes down of a response."""
    latency = response.meta.get("download_latency")
    return {
        "size_bytes": len(response.body),
        "latency_ms": None if latency is None else round(latency * 1000),
        "callback": callback_of(response.request),
        "title": title_hash(response),
    }


def title_hash(response: Response) -> int | None:
    """31 bits of the CRC of a page's title; None if its first bytes hold none."""
    head = response.body[:TITLE_BYTES]
    begin = TITLE.search(head)
    end = TITLE_END.search(head, begin.end()) if begin else None
    if begin is None or end is None:
        return None
    return crc32(b" ".join(head[begin.end() : end.start()].split())) >> 1


def callback_of(request: Request | None) -> str | None:
    """The name of the spider's method that gets a request's response; None for the default."""
    callback = request.callback if request is not None else None
    return getattr(callback, "__name__", None)
