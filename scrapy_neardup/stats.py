"""Every stats key, named once, and the table that is logged when a crawl ends."""

from collections.abc import Iterator, Mapping
from typing import Any

URLS_ASKED = "neardup/urls/asked"
URLS_NEW = "neardup/urls/new"
URLS_NEW_HOST = "neardup/urls/new_host"
URLS_NEW_DIRECTORY = "neardup/urls/new_directory"
URLS_DROPPED = "neardup/urls/dropped"
URLS_MARKED = "neardup/urls/marked"
URLS_EXEMPT = "neardup/urls/exempt/{}"  # reason
URLS_STALE = "neardup/urls/stale"
URLS_FILTERED = "neardup/urls/filtered_at_scheduling"

FILTER_NAME = "neardup/filter/name"
FILTER_SIZE = "neardup/filter/size"
FILTER_BYTES = "neardup/filter/bytes"
FILTER_ERROR_RATE = "neardup/filter/expected_error_rate"
FILTER_LOST = "neardup/filter/expected_lost"

PAGES_READ = "neardup/pages/read"
PAGES_BY_KIND = "neardup/pages/{}"  # new, exact, near, too_short, undecided
PAGES_NEAR_BY_DISTANCE = "neardup/pages/near/distance/{}"  # bits
PAGES_ELSEWHERE = "neardup/pages/elsewhere"
PAGES_WITHOUT_TEXT = "neardup/pages/without_text"
PAGES_WITHOUT_WORDS = "neardup/pages/without_words"
PAGES_TOO_LONG = "neardup/pages/too_long"
PAGES_FORGOTTEN = "neardup/pages/forgotten"
PAGES_FIRST_WITH_ITEM = "neardup/pages/first_with_item"

ITEMS_DROPPED = "neardup/items/dropped"
ITEMS_TAGGED = "neardup/items/tagged"
ITEMS_UNTAGGABLE = "neardup/items/untaggable"
ITEMS_WOULD_DROP = "neardup/items/would_drop"
ITEMS_KEPT = "neardup/items/kept"
ITEMS_WITHOUT_PAGE = "neardup/items/without_page"
ITEMS_WITHOUT_FIELDS = "neardup/items/without_fields"
ITEMS_REPLACED = "neardup/items/replaced_before_pipeline"

STATE_ERRORS = "neardup/state/errors"
STATE_TORN = "neardup/state/torn_bytes"
STATE_UNFINISHED = "neardup/state/unfinished_pages"

LEDGER_RECORDED = "neardup/ledger/recorded"
LEDGER_LOST = "neardup/ledger/lost"
PAGES_UNDONE = "neardup/pages/kept_by_undo"

LINKS_PRUNED = "neardup/links/pruned"
BYTES_SAVED = "neardup/bytes_saved"
ERRORS = "neardup/errors/{}"  # url_key, extract, engine, index, item_fields, ledger, live

ENGINE = "neardup/engine"
ENGINE_REPORT = "neardup/fpga/{}"  # cycles, seconds, utilisation, …: what the board would take
KERNELS = "neardup/kernels"
INDEX_NAME = "neardup/index/name"
INDEX_SIZE = "neardup/index/size"
INDEX_BYTES = "neardup/index/bytes"
MEMORY_BYTES = "neardup/memory/bytes"


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


def names() -> Iterator[str]:
    """Every key of this module, patterns included, for the reference in the docs."""
    return (value for name, value in sorted(globals().items()) if name.isupper())
