"""Settings: each wrong value is refused with its name, value, limit and a remedy."""

import json
import logging
import re
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from scrapy.settings import Settings

from scrapy_neardup.crawl.pages.judge import load_extractor
from scrapy_neardup.errors import SettingsError
from scrapy_neardup.settings import NearDupSettings
from scrapy_neardup.urls.site_rules import read_rules


def read(**values: Any) -> NearDupSettings:
    return NearDupSettings.from_settings(Settings({f"NEARDUP_{k}": v for k, v in values.items()}))


def test_nothing_set_gives_the_defaults() -> None:
    assert read() == NearDupSettings()


# One value of each setting, none of them its default, as Python has it and as a command line
# gives it. A component's class has no string that is equal to it: it is found when loaded.
GIVEN: dict[str, tuple[Any, str]] = {
    "ENABLED": (False, "False"),
    "ACTION": ("tag", "tag"),
    "ITEM_FIELDS": (["title", "body"], "title, body"),
    "FOLLOW_DUPLICATES": (False, "0"),
    "EXTRACTOR": ("project.text", "project.text"),
    "MAX_PAGE_BYTES": (1_000, "1000"),
    "ENGINE": ("numpy", "numpy"),
    "BOARD": ("/dev/ttyUSB0", "/dev/ttyUSB0"),
    "MIX": (False, "false"),
    "SHINGLE": (2, "2"),
    "WEIGHTING": ("set", "set"),
    "TIE": ("ge", "ge"),
    "INDEX": ("scan", "scan"),
    "BLOCKS": (9, "9"),
    "SCAN_LIMIT": (10, "10"),
    "DISTANCE": (5, "5"),
    "CONFIRM_DISTANCE": (None, "None"),
    "SIMILARITY": (0.9, "0.9"),
    "MIN_WORDS": (0, "0"),
    "SCOPE": ("all", "all"),
    "BOILERPLATE": ("keep", "keep"),
    "TEMPLATE_MB": (7, "7"),
    "INDEX_ADMIT": ("all", "all"),
    "URL_FILTER": ("exact", "exact"),
    "COMPARE": ("page", "page"),
    "IGNORE_FIELDS": (("rank", "id"), "rank,id"),
    "FACTS": ("ignore", "ignore"),
    "CONTAINED": ("drop", "drop"),
    "URL_CAPACITY": (7, "7"),
    "URL_ERROR_RATE": (0.01, "1e-2"),
    "URL_MAX_MB": (5, "5"),
    "STATE_DIR": (Path("state"), "state"),
    "SNAPSHOT_INTERVAL": (1.5, "1.5"),
    "FSYNC": ("no", "no"),
    "TTL": (30, "30"),
    "KEY": (255, "0xff"),
    "BACKEND": ("redis://localhost", "redis://localhost"),
    "BACKEND_PREFIX": ("fleet", "fleet"),
    "LEDGER": ("off", "off"),
    "RECRAWL": ("changed", "changed"),
    "REVISIT": ("adaptive", "adaptive"),
    "REVISIT_MIN": (2.5, "2.5"),
    "REVISIT_MAX": (7.0, "7"),
    "CANONICAL": ("trust", "trust"),
    "SOFT_404_PROBE": (True, "True"),
    "METRICS_PORT": (9410, "9410"),
    "METRICS_HOST": ("10.0.0.1", "10.0.0.1"),
    "LEARN": ("off", "off"),
    "LEARN_ERROR": (0.1, "0.1"),
    "KEEP_TEXT": (True, "True"),
    "LEDGER_FILE_MB": (1, "1"),
    "LEDGER_FILE_DAYS": (0.5, "0.5"),
    "LEDGER_FILES": (2, "2"),
    "LIVE_PORT": (0, "0"),
    "URL_NORMALISE": (False, "False"),
    "URL_IGNORE_SCHEME": (False, "False"),
    "URL_SORT_QUERY": (False, "False"),
    "URL_DROP_TRACKING": (False, "False"),
    "URL_IGNORE_PARAMS": (("a", "b*"), "a,b*"),
    "URL_DROP_SESSIONS": (False, "False"),
    "URL_KEEP_HASHBANG": (False, "False"),
    "URL_METHOD_AND_BODY": (False, "False"),
    "URL_STRIP_WWW": (True, "1"),
    "URL_STRIP_INDEX": (True, "1"),
    "URL_STRIP_SLASH": (True, "1"),
    "URL_COLLAPSE_SLASHES": (True, "1"),
    "URL_FOLD_CASE": (True, "1"),
    "URL_PROFILES": (["platforms", "mobile"], "mobile, platforms"),
}

# Without which others are refused.
NEEDS = {"REVISIT": {"RECRAWL": "changed"}}


@pytest.fixture
def given(tmp_path: Path) -> dict[str, tuple[Any, str]]:
    """GIVEN, with rules of one site as an object and as the path of their file."""
    rule = {"order": 1, "urlPattern": {"include": ["a.example"]}, "processor": "normalizer"}
    text = json.dumps([rule])
    path = tmp_path / "rules.json"
    path.write_text(text, encoding="utf-8")
    return GIVEN | {"URL_SITE_RULES": (read_rules(text), str(path))}


def test_python_values_and_strings_of_every_setting_mean_the_same(
    given: dict[str, tuple[Any, str]],
) -> None:
    assert set(given) == {f.name.upper() for f in fields(NearDupSettings)}
    del given["FOLLOW_DUPLICATES"]  # refuses ITEM_FIELDS
    del given["BACKEND"]  # refuses REVISIT
    values = read(**{name: value for name, (value, _) in given.items()})
    assert values == read(**{name: text for name, (_, text) in given.items()})
    assert values == NearDupSettings(**{name.lower(): value for name, (value, _) in given.items()})


def test_each_setting_given_as_a_python_value_is_kept(given: dict[str, tuple[Any, str]]) -> None:
    for name, (value, text) in given.items():
        needs = NEEDS.get(name, {})
        kept = {getattr(read(**needs, **{name: form}), name.lower()) for form in (value, text)}
        assert len(kept) == 1, name
        assert getattr(NearDupSettings(), name.lower()) not in kept, name


@pytest.mark.parametrize("nothing", [None, ""])
def test_what_says_nothing_is_the_default(nothing: str | None) -> None:
    names = [f.name.upper() for f in fields(NearDupSettings) if f.name != "confirm_distance"]
    assert read(**dict.fromkeys(names, nothing)) == NearDupSettings()
    assert read(CONFIRM_DISTANCE="").confirm_distance == NearDupSettings().confirm_distance


def test_links_are_not_pruned_by_pages_where_items_are_compared() -> None:
    message = (
        "NEARDUP_FOLLOW_DUPLICATES=False: takes True with NEARDUP_ITEM_FIELDS=('title',). "
        "Set it to True, or leave NEARDUP_ITEM_FIELDS out: then pages are compared"
    )
    with pytest.raises(SettingsError, match=re.escape(message)):
        read(ITEM_FIELDS="title", FOLLOW_DUPLICATES=False)


def test_values_are_checked_without_scrapy_too() -> None:
    with pytest.raises(SettingsError, match="NEARDUP_DISTANCE=64: takes a whole number"):
        NearDupSettings(distance=64)
    assert NearDupSettings(item_fields=["title"]).item_fields == ("title",)


@pytest.mark.parametrize(
    ("name", "given", "kept"),
    [
        ("DISTANCE", "5", 5),
        ("ENABLED", "false", False),
        ("ENABLED", "1", True),
        ("ITEM_FIELDS", "title, body", ("title", "body")),
        ("ITEM_FIELDS", ["title"], ("title",)),
        ("CONFIRM_DISTANCE", "None", None),
        ("URL_ERROR_RATE", "1e-3", 1e-3),
        ("ACTION", "dry-run", "dry-run"),
    ],
)
def test_values_from_a_command_line_are_understood(name: str, given: Any, kept: Any) -> None:
    assert getattr(read(**{name: given}), name.lower()) == kept


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("ACTION", "tga", "NEARDUP_ACTION='tga': takes one of drop, tag, dry-run. Did you mean"),
        ("DISTANCE", -1, "NEARDUP_DISTANCE=-1: takes a whole number from 0 to 63 bits"),
        ("DISTANCE", 64, "NEARDUP_DISTANCE=64: takes a whole number from 0 to 63 bits"),
        ("DISTANCE", 3.5, "NEARDUP_DISTANCE=3.5: takes a whole number"),
        ("DISTANCE", True, "NEARDUP_DISTANCE=True: takes a whole number"),
        ("URL_ERROR_RATE", "nan", "NEARDUP_URL_ERROR_RATE='nan': takes a number above 0 and below"),
        ("URL_ERROR_RATE", 0, "NEARDUP_URL_ERROR_RATE=0: takes a number above 0"),
        ("URL_CAPACITY", 0, "NEARDUP_URL_CAPACITY=0: takes a whole number from 1 to"),
        (
            "URL_IGNORE_PARAMS",
            "ref,*",
            "NEARDUP_URL_IGNORE_PARAMS='ref,\\*': takes no bare .* Name",
        ),
        ("FOLLOW_DUPLICATES", "maybe", "NEARDUP_FOLLOW_DUPLICATES='maybe': takes True or False"),
        ("ITEM_FIELDS", 7, "NEARDUP_ITEM_FIELDS=7: takes a list of names"),
        ("ITEM_FIELDS", [7], r"NEARDUP_ITEM_FIELDS=\[7\]: takes a list of names"),
        ("ENGINE", 5, "NEARDUP_ENGINE=5: takes a short name, a dotted path or a class"),
        ("BACKEND", "http://:pw@host", "NEARDUP_BACKEND='…': takes a URL that begins with one of"),
        ("BACKEND", "redis://:p/w@host", "NEARDUP_BACKEND='…': takes scheme://.*Write / .* %2F"),
        ("BACKEND", "redis://:1/w@host", "NEARDUP_BACKEND='…': takes scheme://.*Write / .* %2F"),
        ("BACKEND", "redis://host:0", "NEARDUP_BACKEND='…': takes scheme://"),
        ("BACKEND", "redis+sentinel://host:1,other:2", "takes .*/master/.* Name the master as"),
        ("BACKEND", "redis+sentinel://:p/w@host,other/mymaster", "takes scheme://.*Write / .* %2F"),
        ("BACKEND", "valkey+sentinels://host/mymaster", "takes a URL that begins with one of"),
        ("BACKEND", "valkey://:p/w@host", "'…': takes scheme://.*%40"),
        ("BACKEND", "redis://host:1/abc", "NEARDUP_BACKEND='…': takes .* A database is a number"),
        ("BACKEND", "redis://host:1/1/2", "NEARDUP_BACKEND='…': takes .* A database is a number"),
        ("BACKEND", "redis+cluster://host/3", "NEARDUP_BACKEND='…': takes no database .*PREFIX"),
        ("URL_PROFILES", "mobil", "NEARDUP_URL_PROFILES='mobil': .*take some of lenient, mobile"),
        ("BLOCKS", 2, "NEARDUP_BLOCKS=2: takes more blocks than NEARDUP_DISTANCE=.*Set"),
    ],
)
def test_a_wrong_value_is_refused_with_its_limit(name: str, value: Any, message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        read(**{name: value})


@pytest.mark.parametrize("path", ["no.such", "os.path.nothing", "nothing", "os.sep"])
def test_an_extractor_that_cannot_be_called_is_refused_by_name(path: str) -> None:
    message = f"^NEARDUP_EXTRACTOR='{path}': takes what can be imported and called. .* Correct it"
    with pytest.raises(SettingsError, match=message):
        load_extractor(path)


NUMBERS = [
    *("TTL", "SNAPSHOT_INTERVAL", "REVISIT_MIN", "REVISIT_MAX", "LEDGER_FILE_DAYS"),
    *("SIMILARITY", "URL_ERROR_RATE", "LEARN_ERROR"),
]


@pytest.mark.parametrize("name", NUMBERS)
@pytest.mark.parametrize("value", [True, False])
def test_a_switch_is_no_number(name: str, value: bool) -> None:
    with pytest.raises(SettingsError, match=f"^NEARDUP_{name}={value}: takes a number above"):
        read(**{name: value})


def test_a_set_of_names_has_one_order_in_every_process() -> None:
    """Names are part of a state's identity."""
    given = {"view", "ref", "src", "page_token", "sid", "lang", "sort", "theme"}
    assert read(URL_IGNORE_PARAMS=given).url_ignore_params == tuple(sorted(given))
    assert read(URL_IGNORE_PARAMS=["b", "a"]).url_ignore_params == ("b", "a")


def test_rules_for_sites_are_read_from_several_files(
    given: dict[str, tuple[Any, str]], tmp_path: Path
) -> None:
    rules, file = given["URL_SITE_RULES"]
    more = tmp_path / "a, b"
    more.mkdir()
    (more / "more.json").write_text("[]", encoding="utf-8")
    for paths in (Path(file), [file, more], f"{file}, {tmp_path}"):
        assert read(URL_SITE_RULES=paths).url_site_rules == rules
    with pytest.raises(SettingsError, match=r"NEARDUP_URL_SITE_RULES='no\.json': takes paths"):
        read(URL_SITE_RULES="no.json")


def test_secrets_are_not_shown() -> None:
    settings = read(BACKEND="redis://:Corr3ctH0rse@host", KEY="0x123456789")
    assert "Corr3ctH0rse" not in repr(settings)
    assert str(0x123456789) not in repr(settings)


def test_an_unknown_setting_is_named_with_the_closest_known_one(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.WARNING):
        read(DISTANSE=3)
    assert "NEARDUP_DISTANSE has no effect; did you mean NEARDUP_DISTANCE?" in caplog.text
