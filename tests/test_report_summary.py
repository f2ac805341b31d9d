"""Summaries count what happened, estimate only what they must, and point at doubtful clusters."""

from pathlib import Path

import pytest
from ledgers import RULES, near, page, shop, write

from scrapy_neardup.ledger.reader import LedgerReader
from scrapy_neardup.ledger.schema import KINDS, Entry
from scrapy_neardup.report import summary as summary_module
from scrapy_neardup.report.patterns import url_pattern
from scrapy_neardup.report.summary import share_of_limit, summarise

ORIGINAL = "https://shop.example/item/1"


@pytest.mark.parametrize(
    ("url", "pattern"),
    [
        ("https://shop.example/item/123", "shop.example/item/{n}"),
        ("http://shop.example/item?id=7&colour=red", "shop.example/item?colour=red&id={n}"),
        ("http://a.example/2024/11/03/story", "a.example/{date}/story"),
        ("http://a.example/2024-11-03.html", "a.example/{date}.html"),
        ("http://a.example/p/550e8400-e29b-41d4-a716-446655440000", "a.example/p/{id}"),
        ("http://a.example/v/9f86d081884c7d65", "a.example/v/{id}"),
        ("http://a.example/?sid=AbC123xYz789Qw", "a.example/?sid={id}"),
        ("http://a.example/how-to-cook-plain-rice", "a.example/{slug}"),
        ("http://a.example/page7.html", "a.example/page{n}.html"),
        ("http://a.example/about-us", "a.example/about-us"),
        ("http://a.example:8080", "a.example:8080"),
        ("http://[", "http://["),
        ("", ""),
    ],
)
def test_urls_of_one_kind_have_one_pattern(url: str, pattern: str) -> None:
    assert url_pattern(url) == pattern


def test_a_pattern_is_short_whatever_the_url() -> None:
    assert len(url_pattern("http://a.example/" + "x/" * 10_000)) <= 160


def test_every_decision_is_counted_once_in_every_view(tmp_path: Path) -> None:
    entries = list(shop(500))
    summary = summarise(write(tmp_path, entries))
    for kind in KINDS:
        expected = sum(entry.kind == kind for entry in entries)
        assert summary.total.kinds[kind] == expected
        for groups in (summary.sites, summary.patterns):
            assert sum(tally.kinds[kind] for tally in groups.values()) == expected
        assert sum(minute[kind] for minute in summary.minutes.values()) == expected
    assert sum(c.size for c in summary.clusters.values()) == summary.total.duplicates
    assert summary.distances.total() == summary.total.kinds["near"]


def test_bytes_of_urls_not_fetched_are_estimated_by_their_own_site(tmp_path: Path) -> None:
    entries = [
        page("http://small.example/1", size_bytes=1_000, latency_ms=10),
        page("http://large.example/1", size_bytes=9_000, latency_ms=90),
        Entry("http://small.example/1", "seen", "dropped"),
        Entry("http://unknown.example/1", "seen", "dropped"),
    ]
    savings = summarise(write(tmp_path, entries)).savings()
    assert savings.urls == 2
    assert savings.estimated_bytes == 1_000 + 5_000
    assert savings.estimated_seconds == pytest.approx((10 + 50) / 1000)


def test_nothing_is_estimated_where_no_size_is_known(tmp_path: Path) -> None:
    savings = summarise(write(tmp_path, [Entry(ORIGINAL, "seen", "dropped")])).savings()
    assert (savings.estimated_bytes, savings.estimated_seconds) == (None, None)


def test_pages_that_were_only_tagged_are_not_counted_as_dropped(tmp_path: Path) -> None:
    entries = [near(ORIGINAL + "?p", ORIGINAL, action="tagged"), near(ORIGINAL + "?q", ORIGINAL)]
    summary = summarise(write(tmp_path, entries))
    assert (summary.total.duplicates, summary.total.dropped) == (2, 1)
    assert summary.savings().bytes == 30_000


@pytest.mark.parametrize(
    ("rules", "share"),
    [
        (RULES, 0.5),
        (RULES | {"NEARDUP_SIMILARITY": 0.925}, 0.8),
        (RULES | {"NEARDUP_CONFIRM_DISTANCE": 22}, 1.0),
        (RULES | {"NEARDUP_CONFIRM_DISTANCE": 21}, 0.5),  # decided by the similarity
        (RULES | {"NEARDUP_CONFIRM_DISTANCE": None, "NEARDUP_DISTANCE": 8}, 0.25),
        ({}, 0.0),
    ],
)
def test_the_tightest_limit_that_decided_says_how_near_it_a_pair_is(
    tmp_path: Path, rules: dict[str, object], share: float
) -> None:
    write(tmp_path, [near("https://shop.example/item/2", ORIGINAL, 22)])
    (decided,) = LedgerReader(tmp_path).decisions()
    assert share_of_limit(decided, rules) == pytest.approx(share)


@pytest.mark.parametrize(
    ("members", "reasons"),
    [
        ([near("https://shop.example/item/2", ORIGINAL, 5)], []),
        ([near("https://shop.example/item/2", ORIGINAL, 41)], ["near-limit"]),
        ([near("https://shop.example/item/2", ORIGINAL, 36, action="kept")], []),
        ([near("https://shop.example/blog/x", ORIGINAL, 5)], []),
        ([near("https://shop.example/item/2", ORIGINAL, 5, title=1)], []),
        ([near("https://shop.example/item/2", ORIGINAL, 5, title=2)], ["title"]),
        ([near("https://shop.example/item/2", ORIGINAL, 5, title=2, action="kept")], []),
        ([near("https://shop.example/item/2", ORIGINAL, action="kept", data_differ="")], ["data"]),
        ([near(f"https://shop.example/item/{i}", ORIGINAL, 5) for i in range(20)], ["large"]),
        ([near("https://shop.example/blog/x", ORIGINAL, 0, kind="exact")], []),
    ],
)
def test_a_cluster_is_doubtful_for_stated_reasons(
    tmp_path: Path, members: list[Entry], reasons: list[str]
) -> None:
    ledger = write(tmp_path, [page(ORIGINAL, title=1), *members])
    (cluster,) = summarise(ledger).clusters.values()
    assert cluster.reasons() == reasons


def test_doubtful_clusters_come_first_and_large_ones_on_request(tmp_path: Path) -> None:
    safe = [near(f"{ORIGINAL}?s={i}", ORIGINAL, 0, kind="exact") for i in range(9)]
    doubtful = near("https://shop.example/blog/x", "https://shop.example/item/7", 41)
    summary = summarise(write(tmp_path, [*safe, doubtful]))
    assert [c.size for c in summary.suspicious_clusters()] == [1, 9]
    assert [c.size for c in summary.largest_clusters()] == [9, 1]


def test_a_pattern_is_named_if_most_of_its_pages_are_not_kept(tmp_path: Path) -> None:
    entries = [
        *(near(f"https://a.example/copy/{i}", ORIGINAL) for i in range(20)),
        *(near(f"https://a.example/kept/{i}", ORIGINAL, action="kept") for i in range(30)),
        *(near(f"https://a.example/half/{i}", ORIGINAL) for i in range(30)),
        *(page(f"https://a.example/half/{i}?new") for i in range(30)),
        *(page(f"https://a.example/half/{i}") for i in range(30)),
        *(near(f"https://a.example/few/{i}", ORIGINAL) for i in range(19)),
        *(near(f"https://a.example/more/{i}", ORIGINAL, action="counted") for i in range(21)),
    ]
    found = summarise(write(tmp_path, entries)).wholesale_patterns()
    assert [(name, t.near_not_kept, t.pages) for name, t in found] == [
        ("a.example/more/{n}", 21, 21),
        ("a.example/copy/{n}", 20, 20),
    ]


def test_memory_is_bounded_and_what_is_left_out_is_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(summary_module, "MAX_GROUPS", 2)
    monkeypatch.setattr(summary_module, "MAX_CLUSTERS", 1)
    entries = [near(f"http://{i}.example/x", f"http://{i}.example/") for i in range(5)]
    summary = summarise(write(tmp_path, entries))
    assert summary.sites[summary_module.OTHERS].duplicates == 3
    assert len(summary.clusters) == 1
    assert summary.unranked_clusters == 4
