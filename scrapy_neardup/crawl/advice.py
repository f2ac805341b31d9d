"""What the log tells the person who runs a crawl: first drops, what may be wrong, the sum."""

from __future__ import annotations

import logging
import shlex
from collections import Counter, OrderedDict
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from scrapy_neardup import stats
from scrapy_neardup.crawl.items.item_fields import has_names, named_values
from scrapy_neardup.errors import ItemUnreadable
from scrapy_neardup.report.patterns import is_wholesale, url_pattern
from scrapy_neardup.settings import PREFIX, NearDupSettings
from scrapy_neardup.settings.readers import closest_to

logger = logging.getLogger(__name__)

DROPS_SHOWN = 10  # at INFO; Scrapy logs each, with its item, at DEBUG
WINDOW = 100  # newest pages of a URL pattern that are looked at
MAX_PATTERNS = 4096  # whose newest pages are remembered
ITEMS_READ = 20  # for the names of their fields
MAX_NAMES = 10_000  # of fields, so that a large item does not hold up the crawl
MIN_ALONE = 10  # items that one field alone kept, from which on it is named
MAX_FIELDS_SHOWN = 3

REFUSALS = (401, 403)  # as of a ban, or of a login that has expired
MIN_REFUSED, REFUSED_SHARE = 10, 0.1  # of the responses, from which on they are named

LEARN_TRUSTED = stats.LEARN_RULES.format("trusted")

ITEMS = {"drop": "are dropped", "tag": "are tagged", "dry-run": "would be dropped"}


class Advice:
    """Watches one crawl and logs what a person should know. Never decides anything."""

    def __init__(self, settings: NearDupSettings, folder: Path | None) -> None:
        """folder: of the state, None where nothing is recorded."""
        self._settings = settings
        self._folder = folder
        self._n_dropped = 0
        self._patterns = PatternWatch()
        self._fields = FieldNames(
            {"IGNORE_FIELDS": settings.ignore_fields, "ITEM_FIELDS": settings.item_fields}
        )

    def queue_is_shared(self, scheduler: object) -> None:
        """The crawl is a worker of a fleet that does not use Scrapy's scheduler."""
        logger.warning(
            "neardup: SCHEDULER=%s shares its queue between workers. If it forgets a request when "
            "a worker takes it, as scrapy-redis does, requests taken by a worker that is killed "
            "are lost, and so are the pages behind them. With SCHEDULER="
            "'scrapy_neardup.scheduler.FleetScheduler' nothing is lost, and scrapy-redis's spiders "
            "stay as they are",
            scheduler,
        )

    def queue_is_elsewhere(self, folder: Path) -> None:
        """The crawl is a worker of a fleet whose queue is in a JOBDIR of its own."""
        logger.warning(
            "neardup: this worker of a fleet keeps its queue in %s, and tells the others that a "
            "page is done as soon as what it links is there. If that folder is lost, no worker "
            "fetches what waited in it. Keep the folder until the job has ended, leave JOBDIR "
            "out, or set SCHEDULER='scrapy_neardup.scheduler.FleetScheduler'",
            folder,
        )

    def start_urls_are_taken(self, spider: str) -> None:
        """The spider is one of scrapy-redis's, and takes its start URLs in a way of its own."""
        logger.warning(
            "neardup: %s takes start URLs from redis_key in a way of its own (next_requests or "
            "fetch_data is not scrapy-redis's). Those that a worker has taken are lost if it is "
            "killed. Override make_request_from_data instead",
            spider,
        )

    def only_watches(self) -> None:
        """The crawl is a worker that shares a queue and has no folder for what it would skip."""
        logger.warning(
            "neardup: NEARDUP_LEARN = 'act' is 'watch' in this worker: what it skips it would "
            "take from the fleet's queue, and has no folder to keep it in. Set "
            "NEARDUP_STATE_DIR to a folder of each worker's own that outlives it"
        )

    def item_came(self, item: Any) -> None:
        """An item reached the pipeline."""
        self._fields.read(item)

    def item_dropped(self, url: str, reason: str) -> None:
        """An item of a page is about to be dropped."""
        self._n_dropped += 1
        if self._n_dropped <= DROPS_SHOWN:
            logger.info("neardup: dropped an item of %s: %s", url, reason)
        if self._n_dropped == DROPS_SHOWN:
            logger.info("neardup: further dropped items are logged at DEBUG only")

    def page_done(self, url: str, near: bool) -> None:
        """A page was judged. near: items of it were dropped, or would be, as near-duplicates."""
        pattern = url_pattern(url)
        found = self._patterns.add(pattern, near)
        if found is None:
            return
        logger.warning(
            "neardup: %d of the last %d pages of %s are near-duplicates whose items %s. Check "
            "that they say nothing new: %s. If they do, raise NEARDUP_SIMILARITY, or have "
            "NEARDUP_EXTRACTOR return the part of the page that tells them apart",
            *found,
            pattern,
            ITEMS[self._settings.action],
            f"'scrapy neardup report {quoted(self._folder)}' shows them side by side"
            if self._folder is not None
            else "set NEARDUP_STATE_DIR, and 'scrapy neardup report' shows them side by side",
        )

    def closed(
        self, counts: Mapping[str, Any], only_difference: Counter[str], n_saved: int
    ) -> None:
        """The crawl is over. counts: its stats. n_saved: downloads that rules saved for good."""
        self._fields.warn()
        if self._folder is not None:
            if self._settings.recrawl == "new":
                warn_of_refusals(counts)
            warn_of_failed_files(counts)
        logger.info("neardup: %s", closing_sentence(counts, self._settings))
        if learnt := learnt_sentence(counts, n_saved, self._folder):
            logger.info("neardup: %s", learnt)
        for name, n in only_difference.most_common(MAX_FIELDS_SHOWN):
            if n >= MIN_ALONE:
                logger.info(
                    "neardup: %s items of pages that repeat another were kept because of the field "
                    "%r alone. If it says nothing new, set NEARDUP_IGNORE_FIELDS = %r",
                    f"{n:,}",
                    name,
                    [*self._settings.ignore_fields, name],
                )


def warn_of_refusals(counts: Mapping[str, Any]) -> None:
    """Say that the next crawl may not ask for pages that a site refused to give."""
    n_responses = int(counts.get("downloader/response_count", 0))
    n = sum(int(counts.get(f"downloader/response_status_count/{code}", 0)) for code in REFUSALS)
    if n >= MIN_REFUSED and n >= REFUSED_SHARE * n_responses:
        logger.warning(
            "neardup: %s of %s responses were 401 or 403. The pages that link there count as read, "
            "so that the next crawl with this state asks again only where it finds such a link on "
            "another page. If the site refused them for a while, crawl it once with "
            "NEARDUP_RECRAWL = 'changed', which reads known pages again",
            f"{n:,}",
            f"{n_responses:,}",
        )


def warn_of_failed_files(counts: Mapping[str, Any]) -> None:
    """Say that the next crawl puts items out again whose files could not be had or stored."""
    if n := int(counts.get(stats.ITEMS_WITHOUT_FILE, 0)):
        logger.warning(
            "neardup: %s items are without a file that could not be downloaded or stored. The next "
            "crawl with this state reads their pages again and puts these items out once more",
            f"{n:,}",
        )


def warn_of_known_lists(counts: Mapping[str, Any]) -> None:
    """Say that a fleet without FleetScheduler reads no list again, if nothing else was found."""
    n = int(counts.get(stats.BACKEND_SEEN, 0))
    if n and not counts.get(stats.URLS_NEW):
        logger.warning(
            "neardup: other workers had fetched all %s URLs that this one found, now or in an "
            "earlier run. None is read again, lists either, so what is new behind them since an "
            "earlier run is not found. For that, share the queue (SCHEDULER = "
            "'scrapy_neardup.scheduler.FleetScheduler'), or set NEARDUP_RECRAWL = 'changed'",
            f"{n:,}",
        )


def learnt_sentence(counts: Mapping[str, Any], n_saved: int, folder: Path | None) -> str | None:
    """What the rules that were learnt saved, or would; None where there is nothing to tell."""
    saves, rules = counts.get(stats.LEARN_WOULD_SAVE, 0), counts.get(LEARN_TRUSTED, 0)
    given_back = counts.get(stats.LEARN_GIVEN_BACK, 0)
    if not saves and not given_back and stats.LEARN_SKIPPED not in counts:
        return None
    sentence = f"{rules:,} learnt rule{'s' * (rules != 1)} "
    if not saves:
        sentence += f"saved {n_saved:,} download{'s' * (n_saved != 1)}"
        if checks := counts.get(stats.LEARN_VERIFIED, 0):
            sentence += f"; {checks:,} more made to check them"
    else:
        of = f"{counts.get(stats.LEARN_OBSERVED, 0):,} downloads"
        sentence += f"would have saved {saves:,} of {of}; NEARDUP_LEARN = 'act' applies them"
    if given_back:
        sentence += f"; {given_back:,} made after all since their rule was withdrawn"
    shown = "" if folder is None else f"; 'scrapy neardup rules {quoted(folder)}' shows them"
    return sentence + shown


def closing_sentence(counts: Mapping[str, Any], settings: NearDupSettings) -> str:
    """How many pages repeat another, and what became of their items."""

    def n(name: str) -> int:
        return int(counts.get(name, 0))

    what = "items" if settings.item_fields else "pages"
    read = n(stats.PAGES_READ)
    if not read:
        return f"no {what} were compared"
    repeats = [stats.PAGES_BY_KIND.format(kind) for kind in ("exact", "near")]
    repeat = sum(map(n, (*repeats, stats.CLAIMS_TRUSTED)))
    acted = sum(map(n, (stats.ITEMS_DROPPED, stats.ITEMS_TAGGED, stats.ITEMS_WOULD_DROP)))
    sentence = f"{repeat:,} of {read:,} {what} repeat another"
    if unchanged := n(stats.RECRAWL_ITEMS):
        sentence += f", and {unchanged:,} item{'s' * (unchanged != 1)} came from unchanged pages"
    sentence += (
        f": {acted:,} item{'s' * (acted != 1)} {ITEMS[settings.action].removeprefix('are ')}"
    )
    if before := n(stats.ITEMS_PUT_OUT_BEFORE):
        sentence += f", {before:,} that a run put out which was cut off"
    if kept := n(stats.ITEMS_KEPT_BY_DATA):
        sentence += f", {kept:,} kept because their data differ"
    return sentence


def quoted(folder: Path) -> str:
    """A folder as a shell takes it."""
    return shlex.quote(str(folder))


class PatternWatch:
    """Which URL patterns lose more than half of their newest pages as near-duplicates."""

    def __init__(self) -> None:
        # The newest pages as bits, 1 for a near-duplicate, below a leading 1; 0 once told.
        self._newest: OrderedDict[str, int] = OrderedDict()

    def add(self, pattern: str, near: bool) -> tuple[int, int] | None:
        """How many of how many newest pages were near-duplicates, the first time that is told."""
        pages = self._newest.pop(pattern, 1)
        if pages:
            pages = pages << 1 | near
            if pages.bit_length() > WINDOW + 1:
                pages = pages & (1 << WINDOW) - 1 | 1 << WINDOW
        n_pages, n_near = pages.bit_length() - 1, pages.bit_count() - 1
        found = is_wholesale(n_near, n_pages)
        self._newest[pattern] = 0 if found else pages
        if len(self._newest) > MAX_PATTERNS:
            self._newest.popitem(last=False)
        return (n_near, n_pages) if found else None


class FieldNames:
    """Finds names in settings that no item has: typing errors."""

    def __init__(self, wanted: Mapping[str, tuple[str, ...]]) -> None:
        """wanted: names of item fields, by the setting that holds them."""
        self._wanted = {setting: names for setting, names in wanted.items() if names}
        self._found: set[str] = set()
        self._n_items = 0

    def read(self, item: Any) -> None:
        """Take in the names of an item's fields; warns when ITEMS_READ items were read."""
        if not self._wanted:
            return
        self._n_items += 1
        self._found.update(names_in(item))
        if self._n_items == ITEMS_READ:
            self.warn()

    def warn(self) -> None:
        """Warn of each name that no item had, once; of none where no item came."""
        for setting, names in self._wanted.items() if self._n_items else ():
            for name in names:
                if name not in self._found:
                    closest = closest_to(name, sorted(self._found))
                    logger.warning(
                        "neardup: %s%s names %r, which none of the first %d items has%s",
                        PREFIX,
                        setting,
                        name,
                        self._n_items,
                        f"; did you mean {closest!r}?" if closest else "",
                    )
        self._wanted = {}


def names_in(item: Any) -> Iterator[str]:
    """The names of an item's fields, at any depth, as far as MAX_NAMES values go."""
    waiting, n_read = [item], 0
    while waiting and n_read < MAX_NAMES:
        value = waiting.pop()
        n_read += 1
        if has_names(value):
            with suppress(ItemUnreadable):
                for name, held in named_values(value):
                    yield name
                    waiting.append(held)
        elif isinstance(value, (list, tuple)):
            waiting.extend(value)
