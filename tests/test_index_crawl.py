"""Every index works in a crawl, and in the next one that goes on from its state."""

from pathlib import Path

import pytest
from crawls import PagesSpider, crawl
from mock_site import MockSite
from scrapy import Request


@pytest.mark.parametrize("index", ["permuted", "slices", "scan"])
@pytest.mark.parametrize("distance", [3, 5])
def test_near_copies_are_dropped_by_every_index(
    mock_site: MockSite, tmp_path: Path, index: str, distance: int
) -> None:
    settings = {
        "NEARDUP_INDEX": index,
        "NEARDUP_DISTANCE": distance,
        "NEARDUP_STATE_DIR": str(tmp_path),
    }
    kept = []
    for paths in (["/page/2", "/near/2", "/page/1"], ["/page/3", "/copy/1"]):
        requests = [Request(mock_site.url(p), priority=-i) for i, p in enumerate(paths)]
        outcome = crawl(
            PagesSpider,
            settings,
            seed=mock_site.url("/page/seed"),
            requests=lambda requests=requests: iter(requests),
        )
        kept.append(outcome.urls)
    assert kept == [
        [mock_site.url("/page/2"), mock_site.url("/page/1")],
        [mock_site.url("/page/3")],
    ]
    assert outcome.stat("index/size") >= 3
    assert outcome.stat("index/bytes") > 0


@pytest.mark.parametrize("index", ["permuted", "slices", "scan"])
def test_pages_beyond_the_scan_limit_are_kept_undecided(
    mock_site: MockSite, caplog: pytest.LogCaptureFixture, index: str
) -> None:
    paths = ["/page/2", "/page/1", "/near/2"]
    outcome = crawl(
        PagesSpider,
        {"NEARDUP_INDEX": index, "NEARDUP_SCAN_LIMIT": 1},
        seed=mock_site.url("/page/seed"),
        requests=lambda: iter(Request(mock_site.url(p), priority=-i) for i, p in enumerate(paths)),
    )
    assert mock_site.url("/near/2") in outcome.urls
    assert outcome.stat("pages/undecided") > 0
    assert outcome.stat("index/largest_bucket") >= 1
    assert "Raise NEARDUP_SHINGLE" in caplog.text
