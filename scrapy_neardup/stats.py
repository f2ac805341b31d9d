"""Every stats key, named once, and the table that is logged when a crawl ends."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

DOCS: dict[str, str] = {}  # key or pattern → what it counts


def key(name: str, doc: str) -> str:
    """A stats key of ours; {} in it stands for what is counted apart."""
    DOCS[f"neardup/{name}"] = doc
    return f"neardup/{name}"


URLS_ASKED = key("urls/asked", "requests looked up in the URL filter, or exempt from it")
URLS_NEW = key("urls/new", "requests whose URL was new")
URLS_NEW_HOST = key("urls/new_host", "remembered URLs on a host not seen before")
URLS_NEW_DIRECTORY = key(
    "urls/new_directory", "remembered URLs in a first directory not seen before"
)
URLS_DROPPED = key("urls/dropped", "requests dropped because their URL was fetched before")
URLS_MARKED = key("urls/marked", "URLs remembered after a final 2xx response")
URLS_LED_ON = key(
    "urls/led_on",
    "URLs of pages without an item, which only this run remembers (NEARDUP_STATE_DIR, "
    "FleetScheduler)",
)
URLS_EXEMPT = key(
    "urls/exempt/{}",
    "requests let through though their URL may have been fetched, by reason: start, retry, "
    "redirect, dont_filter, meta, media_or_robots, inline, scheme, inspection, unfiltered, item, "
    "itself, depth, undone",
)
URLS_OVER_BUDGET = key(
    "urls/over_budget",
    "requests whose URL is longer than 8,192 characters, so that any difference makes it new",
)
URLS_STALE = key(
    "urls/stale", "requests left queued by a crash, dropped because the crawl finds them again"
)
URLS_FILTERED = key(
    "urls/filtered_at_scheduling",
    "requests that LayeredBloomDupeFilter dropped because their URL was queued in this run",
)
URLS_DEFERRED = key(
    "urls/deferred",
    "requests that wait because the last pages of their kind said nothing new, or that were left "
    "when the crawl ended",
)

FILTER_NAME = key("filter/name", "class of the URL filter")
FILTER_SIZE = key("filter/size", "URLs in the URL filter, of those fetched")
FILTER_QUEUED = key(
    "filter/queued", "URLs in the URL filter, of those LayeredBloomDupeFilter queued"
)
FILTER_BYTES = key("filter/bytes", "bytes of the URL filter")
FILTER_ERROR_RATE = key(
    "filter/expected_error_rate",
    "upper bound of the share of new URLs taken for seen ones, now; in a fleet the server adds at "
    "most a third of NEARDUP_URL_ERROR_RATE",
)
FILTER_LOST = key(
    "filter/expected_lost", "upper bound of the mean number of new URLs taken for seen ones so far"
)
FILTER_REFUSED = key("filter/refused", "URLs not remembered because NEARDUP_URL_MAX_MB is reached")

LEARN_OBSERVED = key("learn/pages", "pages from which rules for URLs were learnt")
LEARN_RULES = key("learn/rules/{}", "learnt rules: watched, trusted, withdrawn")
LEARN_WOULD_SAVE = key(
    "learn/would_save", "pages downloaded that trusted rules say to be copies, and that were"
)
LEARN_SKIPPED = key("learn/skipped", "requests that trusted rules skipped")
LEARN_VERIFIED = key(
    "learn/verified", "requests that trusted rules would have skipped, made to check the rules"
)
LEARN_GIVEN_BACK = key(
    "learn/given_back", "skipped requests that were made because their rule was withdrawn"
)
LEARN_FOREIGN = key(
    "learn/foreign",
    "lines of skipped.jsonl that are damaged, or that nobody with the folder's key wrote; left out",
)

PAGES_READ = key("pages/read", "pages compared (with NEARDUP_ITEM_FIELDS: items)")
PAGES_BY_KIND = key(
    "pages/{}",
    "pages compared, by decision: new, exact, near, near_but_differs (kept: a fact differs), "
    "contains, too_short, undecided",
)
PAGES_NEAR_BY_DISTANCE = key(
    "pages/near/distance/{}", "near-duplicates, by number of fingerprint bits that differ"
)
PAGES_UNCONFIRMED = key(
    "pages/unconfirmed", "candidates near by fingerprint that the sketches told apart; kept"
)
PAGES_BUT_FOR_THE_VISIT = key(
    "pages/near_but_for_the_visit",
    "near-duplicates found only because clocks, visit counters and tokens were left out",
)
VISIT_LINES = key(
    "visit_lines/known",
    "lines that are known to show a clock, a visit counter or a token, on all hosts",
)
PAGES_COLD = key(
    "pages/cold",
    "pages kept although they look like another, because too little is known of their host's "
    "templates",
)
TEMPLATES_HOSTS = key("templates/hosts", "hosts whose templates are known")
TEMPLATES_BYTES = key("templates/bytes", "bytes of what is known of templates")
TEMPLATES_WITHOUT_ROOM = key(
    "templates/pages_without_room",
    "pages of which nothing was learnt because their host's templates find no room in "
    "NEARDUP_TEMPLATE_MB; of such a host only exact repeats are dropped",
)
PAGES_SOFT_404 = key(
    "pages/soft_404",
    "pages that are what the site answers to paths that do not exist; counted by decision, too",
)
SOFT_404_PROBES = key("soft_404/probes", "paths that cannot exist, asked for: one a host")
CLAIMS_CONFIRMED = key(
    "claims/confirmed", "copies that name a page read earlier as their canonical URL"
)
CLAIMS_CONTRADICTED = key(
    "claims/contradicted",
    "pages whose content differs from the canonical URL that they name; the claim is ignored",
)
CLAIMS_TRUSTED = key(
    "claims/trusted", "pages taken for copies because they say so, under NEARDUP_CANONICAL=trust"
)
CLAIMS_TRANSLATIONS = key(
    "claims/translations", "copies kept because they are their original's hreflang alternate"
)
PAGES_ELSEWHERE = key(
    "pages/elsewhere",
    "pages with the text of a page of another site; kept unless NEARDUP_SCOPE is `all`",
)
PAGES_ERROR = key(
    "pages/error", "pages kept without a comparison because their status is 300 or more"
)
PAGES_WITHOUT_TEXT = key("pages/without_text", "pages kept because they are not text")
PAGES_WITHOUT_WORDS = key("pages/without_words", "pages kept because they have no words")
PAGES_MOSTLY_SCRIPT = key(
    "pages/mostly_script", "pages kept undecided because they are scripts beside a few words"
)
PAGES_TOO_LONG = key(
    "pages/too_long", "pages kept because they are longer than NEARDUP_MAX_PAGE_BYTES"
)
PAGES_OVER_BUDGET = key(
    "pages/over_budget",
    "pages kept because reading them would take more than any page may: too many tags, too many "
    "attributes in a tag, nested too deeply, too much JSON in a script, long names in front of "
    "many values, or characters that stand for many others",
)
PAGES_CUT_OFF = key(
    "pages/cut_off",
    "pages of which only a part came, kept without a comparison: by StopDownload, a Range, or "
    "DOWNLOAD_FAIL_ON_DATALOSS=False (those the next crawl reads again)",
)
PAGES_FORGOTTEN = key("pages/forgotten", "new pages forgotten because none of their items was kept")
PAGES_READ_AGAIN = key(
    "pages/read_again",
    "copies fetched once more because their items were dropped for those of an original that a "
    "later pipeline then dropped, or failed on",
)
PAGES_FIRST_WITH_ITEM = key(
    "pages/first_with_item", "pages kept because none of their original's items was kept"
)
PAGES_UNDONE = key("pages/kept_by_undo", "duplicates kept because a person undid the decision")

ITEMS_DROPPED = key("items/dropped", "items dropped")
ITEMS_PUT_OUT_BEFORE = key(
    "items/put_out_before",
    "items dropped because the interrupted crawl had already output them",
)
ITEMS_TAGGED = key("items/tagged", "items let through with a `neardup` field")
ITEMS_UNTAGGABLE = key(
    "items/untaggable",
    "items let through without a `neardup` field, because their type does not take it",
)
ITEMS_WOULD_DROP = key("items/would_drop", "items that `drop` would have dropped")
ITEMS_KEPT = key(
    "items/kept",
    "items let through because they, or their page, repeat nothing or could not be compared; those "
    "of kept_by_data and without_page are among them",
)
ITEMS_KEPT_BY_DATA = key(
    "items/kept_by_data", "items kept because their data are new, though their page repeats another"
)
ITEMS_TOO_LARGE = key(
    "items/too_large",
    "items kept without a look at their data, which are too many, too deep or too long",
)
ITEMS_UNREADABLE = key(
    "items/unreadable",
    "items kept without a look at their data, of which a value cannot be looked into",
)
ITEMS_UNDECIDED = key(
    "items/undecided",
    "items kept though their long text may repeat another: more than 1,024 have the same short "
    "values, and none of those compared is near; among those of kept_by_data",
)
ITEMS_WITHOUT_PAGE = key("items/without_page", "items kept because they came from no page")
ITEMS_WITHOUT_FILE = key(
    "items/without_file",
    "items kept, or dropped by another pipeline, of which a file could not be downloaded, or was "
    "refused by the store; the next crawl reads their pages again",
)
ITEMS_WITHOUT_FIELDS = key(
    "items/without_fields", "items kept because they have none of NEARDUP_ITEM_FIELDS"
)
ITEMS_REPLACED = key(
    "items/replaced_before_pipeline", "items kept because another component replaced them first"
)

STATE_ERRORS = key("state/errors", "failed writes of the state; the crawl goes on in memory")
STATE_TORN = key(
    "state/torn_bytes",
    "bytes of state files that could not be read and were set aside at the start",
)
REQUESTS_LOST = key(
    "requests/lost",
    "requests that the scheduler's queue failed to take or to give; the crawl ends as "
    "`requests_lost`, not as `finished`",
)
STATE_UNFINISHED = key(
    "state/unfinished_pages", "pages that are not done, and requests that failed: made again later"
)
STATE_UNDELIVERED = key(
    "state/undelivered",
    "pages, items and URLs that count as known only when feeds or other sinks have stored them",
)

BACKEND_ASKED = key("backend/asked", "questions to the server of NEARDUP_BACKEND")
BACKEND_ROUND_TRIPS = key(
    "backend/round_trips", "round trips to the server, shared by questions and messages"
)
BACKEND_UNANSWERED = key(
    "backend/unanswered",
    "questions answered from the worker's own memory because the server did not answer",
)
BACKEND_SEEN = key("backend/seen", "requests dropped because another worker had fetched the URL")
BACKEND_UNDECIDED = key(
    "backend/undecided",
    "pages kept undecided because the look-up on the server reached the scan limit, or because "
    "other workers brought new pages to compare with in eight rounds",
)
BACKEND_OVERTAKEN = key(
    "backend/overtaken",
    "pages of other workers forgotten because the lease expired before their items finished",
)
BACKEND_LEFT = key(
    "backend/left",
    "1 if the worker found another fleet's secret or specification on the server and went on alone",
)
BACKEND_RESTORED = key(
    "backend/restored",
    "times that the server had lost its data and was told again what this worker knows",
)
BACKEND_LOST = key("backend/lost", "URLs and pages that were never written to the server")
BACKEND_REFUSED = key(
    "backend/refused",
    "questions and messages that the server refused for good, for example for lack of permission",
)

FRONTIER_PUSHED = key("frontier/pushed", "requests that the fleet's shared queue took")
FRONTIER_KNOWN = key(
    "frontier/known",
    "requests that it did not take because one for the same URL waits there or is under way",
)
FRONTIER_WENT_BACK = key(
    "frontier/went_back",
    "1 if the server forgot what it had answered; the crawl then ends as `requests_lost`",
)
FRONTIER_LEFT = key(
    "frontier/left", "requests that the server keeps for the next run: failed, or of dead workers"
)
FRONTIER_TAKEN = key("frontier/taken", "requests that it gave to this worker")
FRONTIER_RETURNED = key(
    "frontier/returned", "requests of dead workers that it was made to give out again"
)
FRONTIER_FOREIGN = key(
    "frontier/other_arguments",
    "1 if the run that this worker joined was begun by one whose spider has other arguments",
)
FRONTIER_REFUSED = key(
    "frontier/refused",
    "requests that the server refused for good; this worker carried them out by itself",
)
FRONTIER_UNSENT = key(
    "frontier/unsent",
    "requests that the server did not have when the crawl ended; the pages they were found on are "
    "read again",
)

START_MESSAGES_RETURNED = key(
    "start_messages/returned",
    "start URLs that workers which died had taken from the `redis_key` of a scrapy-redis spider",
)

LEDGER_RECORDED = key("ledger/recorded", "decisions written to the ledger")
LEDGER_LOST = key("ledger/lost", "decisions that could not be written to the ledger")

RECRAWL_PAGES = key(
    "recrawl/{}",
    "pages of this run under NEARDUP_RECRAWL, by what became of them: new, unchanged, minor, "
    "changed, gone, moved",
)
RECRAWL_ITEMS = key(
    "recrawl/items_unchanged", "items dropped, tagged or counted because their page is unchanged"
)
RECRAWL_COMPLETED = key(
    "recrawl/items_completed",
    "items kept though their page is unchanged: a component added to them, or changed them, after "
    "their callback",
)
RECRAWL_EXPIRED = key(
    "recrawl/items_expired",
    "items kept though their page is unchanged: a file of theirs that a media pipeline stored has "
    "expired (FILES_EXPIRES, IMAGES_EXPIRES)",
)
RECRAWL_FOREIGN = key(
    "recrawl/foreign",
    "rows of visits.sqlite, or of a fleet's server, that nobody with the key wrote; their pages "
    "count as new",
)
RECRAWL_FORGOTTEN = key(
    "recrawl/forgotten",
    "pages read that visits.sqlite had no room for, as on a full disk; the next crawl knows them "
    "as they were before, so what they said passes again",
)
RECRAWL_ASKED = key(
    "recrawl/asked", "requests that asked a server whether a page has changed since the last visit"
)
RECRAWL_NOT_DOWNLOADED = key(
    "recrawl/not_downloaded", "pages that are unchanged, as their server answered (304)"
)
RECRAWL_OTHER_PROGRAM = key(
    "recrawl/other_program",
    "known pages that were read in full because the spider's code, arguments, attributes or "
    "settings, or what the request hands on, are not as at the last visit",
)
RECRAWL_READ_TWICE = key(
    "recrawl/read_twice",
    "pages read once more at once, to see what varies on their host without a change",
)
RECRAWL_NOT_DUE = key(
    "recrawl/not_due", "pages that were not fetched because they are not due (NEARDUP_REVISIT)"
)
RECRAWL_REFUTED = key(
    "recrawl/refuted",
    "hosts that are not asked again, because a page had changed under the same ETag or "
    "Last-Modified, or was unchanged (304) by one that it never had",
)
RECRAWL_REVERTED = key(
    "recrawl/reverted",
    "1 if the site seemed out of order, so that nothing counts as changed, gone or moved",
)

LINKS_PRUNED = key("links/pruned", "links on near-duplicate pages that were not followed")
LINKS_SPARED = key(
    "links/spared",
    "links on near-duplicate pages that were followed because the page has fewer than 50 words of "
    "its own",
)
BYTES_SAVED = key("bytes_saved", "bytes of pages whose items were dropped")
ERRORS = key(
    "errors/{}",
    "errors by place (url_key, extract, judge, pipeline, …); each kept its page, item or request",
)

ENGINE = key("engine", "class of the engine")
ENGINE_REPORT = key(
    "fpga/{}", "what the FPGA board would have needed: cycles, seconds, utilisation, …"
)
KERNELS = key("kernels", "`native` or `numpy`")
INDEX_NAME = key("index/name", "class of the index")
INDEX_SIZE = key("index/size", "fingerprints in the index")
INDEX_BYTES = key("index/bytes", "bytes of the index")
INDEX_LARGEST_BUCKET = key(
    "index/largest_bucket", "fingerprints in the largest bucket, which share one key"
)
MEMORY_BYTES = key("memory/bytes", "bytes of URL filter, index and page table")


def table(stats: Mapping[Any, Any]) -> str:
    """The numeric neardup/ stats as aligned lines, largest part of the name first."""
    names = [key for key in stats if isinstance(key, str) and key.startswith("neardup/")]
    rows = sorted((name, stats[name]) for name in names)
    width = max((len(key) for key, _ in rows), default=0)
    return "\n".join(f"  {key:<{width}}  {text}" for key, text in map(_as_text, rows))


def _as_text(row: tuple[str, Any]) -> tuple[str, str]:
    key, value = row
    if isinstance(value, int):
        return key, f"{value:>14,}"
    return key, f"{value:>14.3g}" if isinstance(value, float) else f"{value:>14}"
