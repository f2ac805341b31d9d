"""A site of every trap is crawled to its end, and nothing that it says is lost."""

import asyncio
from pathlib import Path

import pytest

from benchmarks import learning, trap_site
from benchmarks.trap_site import COPIES, ENDLESS, N_DAYS, N_EVENTS, TrapSite
from scrapy_neardup.learn import dry_kinds
from scrapy_neardup.ledger.reader import LedgerReader

N_ITEMS = 36
END = 60  # pages of a kind with nothing new, after which it ends
PICKS = list(trap_site.combinations("/pick", 600))  # 21,600


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trap_site, "LEVELS", 3)
    monkeypatch.setattr(trap_site, "N_LISTS", 3)
    monkeypatch.setattr(trap_site, "ALL_PICKS", PICKS)
    monkeypatch.setattr(dry_kinds, "ENDED", 1 / (END + 1))
    monkeypatch.setattr(dry_kinds, "ENDED_FOR_GOOD", 1 / (3 * END + 1))


@pytest.mark.usefixtures("small")
def test_every_trap_ends_and_no_content_is_lost(tmp_path: Path) -> None:
    settings = {"NEARDUP_LEARN_ERROR": 0.1, "NEARDUP_STATE_DIR": str(tmp_path)}
    limit = {"CLOSESPIDER_PAGECOUNT": 12_000}  # for a crawl that would not end
    done = asyncio.run(learning.crawl(N_ITEMS, **learning.ACT, **settings, **limit))
    assert done.stats["finish_reason"] == "finished"
    contents = TrapSite.planted_of(N_ITEMS)[1]
    assert contents <= done.found
    assert contents <= done.kept
    pages = {trap: done.kinds[trap] for trap in ENDLESS}
    # Three kinds that end together, after some 2,000 pages: when exactly depends on what waited
    # when the last page said something new, and so on how fast the machine answers.
    assert pages.pop("pick") < len(PICKS) / 3
    assert pages.pop("day") < N_EVENTS * N_DAYS + 4 * END
    assert all(n_pages < 4 * END for n_pages in pages.values())  # 3 * END for good
    deferred = {d.url for d in LedgerReader(tmp_path).decisions() if d.kind == "deferred"}
    good = ("/good/", "/archive/", "/real/")
    assert deferred
    assert not [url for url in deferred if any(name in url for name in good)]


def test_rules_save_four_of_five_copies(capsys: pytest.CaptureFixture[str]) -> None:
    learning.saved(400)
    told = capsys.readouterr().out
    shares = {line.split()[0]: float(line.split()[2].rstrip("%")) for line in told.split("\n")[1:8]}
    assert shares["all"] >= 80
    assert shares["sorted"] >= 75
    assert set(shares) == {*COPIES, "all"}
    assert "lost: 0" in told


@pytest.mark.parametrize("place", learning.PLACES)
def test_an_author_hides_nothing_with_however_many_accounts(place: str) -> None:
    assert learning.hidden(learning.PLACES[place], n_accounts=25, n_pages=60) == 0
