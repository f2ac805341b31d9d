"""scrapy_neardup/factory.py: settings become parts, and a state knows whose it is."""

import re
from contextlib import closing
from dataclasses import replace
from itertools import count, islice

import pytest

from scrapy_neardup import factory
from scrapy_neardup.engines import SKETCH
from scrapy_neardup.errors import EngineUnavailable, SettingsError
from scrapy_neardup.index.permuted import PermutedIndex
from scrapy_neardup.index.scan import ScanIndex
from scrapy_neardup.index.slices import SliceIndex
from scrapy_neardup.settings import NearDupSettings
from scrapy_neardup.state import State
from scrapy_neardup.urls.filters.exact import ExactUrlFilter
from scrapy_neardup.urls.filters.layered import LayeredBloomFilter
from tests.mock_site import prose

DEFAULTS = NearDupSettings(url_capacity=1_000, engine="numpy")
# Settings under which the states of one crawl say nothing to another.
IDENTITY = {
    "shingle": 2,
    "mix": False,
    "weighting": "set",
    "tie": "ge",
    "url_filter": "exact",
    "index": "scan",
    "distance": 3,
    "scope": "all",
    "facts": "ignore",
    "url_ignore_params": ("sid",),
}
# Settings that a crawl may change from run to run.
FREE = {
    "confirm_distance": 20,
    "similarity": 0.9,
    "min_words": 5,
    "boilerplate": "keep",
    "scan_limit": 100,
    "blocks": 9,
    "url_capacity": 2_000,
    "url_error_rate": 1e-4,
    "ttl": 3.0,
    "action": "tag",
}


def test_two_filters_and_all_generations_share_the_error_rate():
    settings = replace(DEFAULTS, url_error_rate=1e-3, ttl=7.0)
    assert factory.make_urls(settings).error_rate == pytest.approx(1e-3 / 2 / 8)
    assert factory.make_urls(replace(settings, ttl=None)).error_rate == pytest.approx(1e-3 / 2)


def test_in_a_fleet_the_servers_filter_shares_the_error_rate_too():
    settings = replace(DEFAULTS, url_error_rate=1e-3, backend="redis://localhost")
    assert factory.make_urls(settings).error_rate == pytest.approx(1e-3 / 3)
    assert factory.url_error_rate_each(settings) == pytest.approx(1e-3 / 3)


@pytest.mark.parametrize("changes", [{}, {"ttl": 7.0}, {"backend": "redis://localhost"}])
def test_an_error_rate_that_no_share_of_can_be_kept_is_refused_at_the_start(changes):
    settings = replace(DEFAULTS, url_filter="exact", url_error_rate=3e-10, **changes)
    with pytest.raises(SettingsError, match=r"NEARDUP_URL_ERROR_RATE=3e-10: takes what .* filters"):
        factory.make_state_factory(settings)


class Stranger:
    """Takes whatever it is made with."""

    def __init__(self, *args, **kwargs):
        pass


@pytest.mark.parametrize("setting", ["engine", "index", "url_filter"])
@pytest.mark.parametrize("value", ["no.such", "os.path.nothing", "nothing", "os.getcwd", Stranger])
def test_what_cannot_be_loaded_is_refused_under_the_name_of_its_setting(setting, value):
    settings = replace(DEFAULTS, **{setting: value})
    message = f"NEARDUP_{setting.upper()}={value!r}: takes what can be imported and called. "
    make = factory.make_urls if setting == "url_filter" else lambda of: factory.make_detector(of, 1)
    with pytest.raises(SettingsError, match="^" + re.escape(message) + r".*[:'] "):
        make(settings)


def test_an_engine_that_cannot_run_here_says_so_itself(tmp_path):
    settings = replace(DEFAULTS, engine="board", board=str(tmp_path / "none"))
    with pytest.raises(EngineUnavailable, match=r"NEARDUP_BOARD=.* cannot be opened"):
        factory.make_engine(settings, 1)


@pytest.mark.parametrize("name", ["layered", "bloom", "exact"])
@pytest.mark.parametrize("ttl", [None, 7.0])
def test_two_filters_of_a_limited_memory_begin_within_it(name, ttl):
    settings = replace(DEFAULTS, url_filter=name, url_max_mb=1, ttl=ttl)
    urls = factory.make_urls(settings)
    assert urls.nbytes * factory.n_generations(settings) <= 2**19
    assert urls.add(b"http://a.example/") is False
    assert b"http://a.example/" in urls


@pytest.mark.parametrize("name", ["layered", "bloom", "exact"])
def test_a_full_filter_of_a_state_has_as_much_room_as_the_settings_say_now(name, tmp_path):
    small = replace(DEFAULTS, url_filter=name, url_max_mb=1)
    with closing(State.open(tmp_path, factory.make_state_factory(small), key=0)) as state:
        state.url_done(b"a.example/first")
        (urls,) = state.urls.filters
        keys = (b"a.example/%d" % n for n in count())
        while not urls.saturated:
            urls.add_many(list(islice(keys, 1000)))
    for max_mb, is_full in ((2, False), (1, True), (None, False)):
        settings = replace(small, url_max_mb=max_mb)
        state = State.open(tmp_path, factory.make_state_factory(settings), key=0)
        assert state.urls.filters[0].saturated == is_full
        state.urls.add(b"b.example/")
        assert (b"b.example/" in state.urls) != is_full
        assert b"a.example/first" in state.urls
        state.release()


def test_where_pages_decide_alone_a_brief_line_tells_them_apart():
    texts = [f"{prose('lamps', 200)}\n{line}" for line in ("Sold out", "Available", "Sold out")]
    for compare, n_kept in (("item", 1), ("page", 2)):
        settings = replace(DEFAULTS, compare=compare, boilerplate="keep", facts="compare")
        detector = factory.make_detector(settings, 1)
        readings = [detector.read(f"http://a.example/{n}", t) for n, t in enumerate(texts)]
        kinds = [detector.decide(reading).kind for reading in readings]
        assert kinds.count("new") + kinds.count("near-but-differs") == n_kept, kinds


@pytest.mark.parametrize(
    ("name", "kind"), [("layered", LayeredBloomFilter), ("exact", ExactUrlFilter)]
)
def test_the_url_filter_is_the_one_named(name, kind):
    assert isinstance(factory.make_urls(replace(DEFAULTS, url_filter=name)), kind)


@pytest.mark.parametrize(
    ("name", "kind"), [("permuted", PermutedIndex), ("slices", SliceIndex), ("scan", ScanIndex)]
)
def test_the_index_is_the_one_named_and_reaches_the_distance(name, kind):
    settings = replace(DEFAULTS, index=name, distance=5, scan_limit=77)
    index = factory.make_detector(settings, key=1).index
    assert isinstance(index, kind)
    assert index.scan_limit == 77
    index.add(0b11111, 1)
    assert index.first_within(0, 5) == 1


def test_the_key_reaches_fingerprint_and_sketch():
    engine = factory.make_engine(DEFAULTS, key=99)
    assert engine.spec.key == 99
    assert engine.sketch_spec == replace(SKETCH, key=99)


def test_the_papers_plain_hash_takes_no_key():
    assert factory.make_engine(replace(DEFAULTS, mix=False), key=99).spec.key == 0


@pytest.mark.parametrize("name", IDENTITY)
def test_a_state_of_other_specifications_is_another_one(name):
    other = replace(DEFAULTS, **{name: IDENTITY[name]})
    assert factory.make_identity(other, 1) != factory.make_identity(DEFAULTS, 1)


@pytest.mark.parametrize("name", FREE)
def test_thresholds_may_change_from_run_to_run(name):
    other = replace(DEFAULTS, **{name: FREE[name]})
    assert factory.make_identity(other, 1) == factory.make_identity(DEFAULTS, 1)


def test_a_restored_detector_knows_its_pages_and_has_the_new_thresholds():
    detector = factory.make_detector(replace(DEFAULTS, boilerplate="keep"), key=1)
    text = prose("known")
    detector.decide(detector.read("http://a.example/1", text))
    changed = replace(DEFAULTS, boilerplate="keep", scan_limit=55, similarity=0.95)
    restored = factory.restored_detector(changed, 1, detector.arrays())
    assert restored.index.scan_limit == 55
    assert restored.decide(restored.read("http://a.example/2", text)).kind == "exact"
