"""Every stats key, named once, and the table that is logged when a crawl ends."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

DOCS: dict[str, str] = {}  # key or pattern → what it counts


def key(name: str, doc: str) -> str:
    """A stats key of ours; {} in it stands for what is counted apart."""
    DOCS[f"neardup/{name}"] = doc
    return f"neardup/{name}"


URLS_ASKED = key("urls/asked", "requests that came to the URL question")
URLS_NEW = key("urls/new", "of these, ordinary ones whose URL was new")
URLS_NEW_HOST = key("urls/new_host", "remembered URLs of a host never seen before")
URLS_NEW_DIRECTORY = key(
    "urls/new_directory", "remembered URLs of a first directory never seen before"
)
URLS_DROPPED = key("urls/dropped", "requests dropped because their URL was fetched before")
URLS_MARKED = key("urls/marked", "URLs remembered after a final 2xx response")
URLS_EXEMPT = key(
    "urls/exempt/{}", "requests that passed unasked, by reason: start, retry, redirect, …"
)
URLS_STALE = key(
    "urls/stale", "requests of a crawl that crashed, dropped because they are found again"
)
URLS_FILTERED = key(
    "urls/filtered_at_scheduling", "requests that LayeredBloomDupeFilter did not queue"
)

FILTER_NAME = key("filter/name", "class of the URL filter")
FILTER_SIZE = key("filter/size", "URLs that it holds")
FILTER_BYTES = key("filter/bytes", "its memory")
FILTER_ERROR_RATE = key(
    "filter/expected_error_rate", "share of new URLs that it may take for seen, at most"
)
FILTER_LOST = key(
    "filter/expected_lost", "new URLs that it has taken for seen so far, expected at most"
)
FILTER_REFUSED = key("filter/refused", "URLs not remembered because it may not grow")

PAGES_READ = key("pages/read", "pages (under NEARDUP_ITEM_FIELDS: items) that were compared")
PAGES_BY_KIND = key("pages/{}", "of these, by decision: new, exact, near, too_short, undecided")
PAGES_NEAR_BY_DISTANCE = key(
    "pages/near/distance/{}", "near-duplicates by fingerprint bits that differ"
)
PAGES_ELSEWHERE = key(
    "pages/elsewhere", "pages that repeat one of another site; kept if the scope is a site"
)
PAGES_WITHOUT_TEXT = key("pages/without_text", "pages kept because they are not text")
PAGES_WITHOUT_WORDS = key("pages/without_words", "pages kept because no word is on them")
PAGES_TOO_LONG = key("pages/too_long", "pages kept because they exceed NEARDUP_MAX_PAGE_BYTES")
PAGES_FORGOTTEN = key("pages/forgotten", "new pages forgotten because no item of theirs was kept")
PAGES_FIRST_WITH_ITEM = key(
    "pages/first_with_item", "pages kept because what they repeat brought no item"
)
PAGES_UNDONE = key("pages/kept_by_undo", "duplicates kept because a decision was undone")

ITEMS_DROPPED = key("items/dropped", "items dropped")
ITEMS_TAGGED = key("items/tagged", "items that passed with a `neardup` field")
ITEMS_UNTAGGABLE = key(
    "items/untaggable", "items that passed without it, their type having no room"
)
ITEMS_WOULD_DROP = key("items/would_drop", "items that a dry run would have dropped")
ITEMS_KEPT = key("items/kept", "items of pages that repeat nothing, or could not be compared")
ITEMS_WITHOUT_PAGE = key("items/without_page", "items that came from no page; kept")
ITEMS_WITHOUT_FIELDS = key("items/without_fields", "items without any of NEARDUP_ITEM_FIELDS; kept")
ITEMS_REPLACED = key(
    "items/replaced_before_pipeline", "items replaced before the pipeline saw them; kept"
)

STATE_ERRORS = key("state/errors", "writes of the state that failed; the crawl goes on in memory")
STATE_TORN = key("state/torn_bytes", "bytes cut off the journal's end, left there by a crash")
STATE_UNFINISHED = key(
    "state/unfinished_pages", "pages that still wait for requests first found on them"
)

BACKEND_ASKED = key("backend/asked", "questions to the server of NEARDUP_BACKEND")
BACKEND_ROUND_TRIPS = key(
    "backend/round_trips", "round trips to it, which questions and messages share"
)
BACKEND_UNANSWERED = key(
    "backend/unanswered", "of these, those that the worker's own memory had to answer"
)
BACKEND_SEEN = key("backend/seen", "URLs dropped because another worker had fetched them")
BACKEND_UNDECIDED = key(
    "backend/undecided", "pages kept undecided because too many on the server share their bits"
)
BACKEND_OVERTAKEN = key(
    "backend/overtaken", "pages of other workers forgotten because no end of their items came"
)
BACKEND_LOST = key("backend/lost", "marks and pages that the server was never told of")
BACKEND_REFUSED = key(
    "backend/refused",
    "questions and messages that the server refused for good, as without permission",
)

LEDGER_RECORDED = key("ledger/recorded", "decisions in the ledger")
LEDGER_LOST = key("ledger/lost", "decisions that the ledger could not write")

LINKS_PRUNED = key("links/pruned", "links out of near-duplicate pages that were not followed")
BYTES_SAVED = key("bytes_saved", "bytes of pages whose items were dropped")
ERRORS = key(
    "errors/{}", "failures, each in favour of the page: url_key, extract, engine, index, …"
)

ENGINE = key("engine", "class of the engine")
ENGINE_REPORT = key(
    "fpga/{}", "what the FPGA board would have taken: cycles, seconds, utilisation, …"
)
KERNELS = key("kernels", "`native` or `numpy`")
INDEX_NAME = key("index/name", "class of the index")
INDEX_SIZE = key("index/size", "fingerprints that it holds")
INDEX_BYTES = key("index/bytes", "its memory")
INDEX_LARGEST_BUCKET = key(
    "index/largest_bucket", "the most of them that share the bits they are found by"
)
MEMORY_BYTES = key("memory/bytes", "memory of filter, index and page table")


def table(stats: Mapping[str, Any]) -> str:
    """The numeric neardup/ stats as aligned lines, largest part of the name first."""
    rows = sorted((key, value) for key, value in stats.items() if key.startswith("neardup/"))
    width = max((len(key) for key, _ in rows), default=0)
    return "\n".join(f"  {key:<{width}}  {text}" for key, text in map(_as_text, rows))


def _as_text(row: tuple[str, Any]) -> tuple[str, str]:
    key, value = row
    if isinstance(value, int):
        return key, f"{value:>14,}"
    return key, f"{value:>14.3g}" if isinstance(value, float) else f"{value:>14}"
