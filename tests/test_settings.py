"""Settings: each wrong value is refused with its name, value, limit and a remedy."""

import logging
from typing import Any

import pytest
from scrapy.settings import Settings

from scrapy_neardup.errors import SettingsError
from scrapy_neardup.settings import NearDupSettings


def read(**values: Any) -> NearDupSettings:
    return NearDupSettings.from_settings(Settings({f"NEARDUP_{k}": v for k, v in values.items()}))


def test_nothing_set_gives_the_defaults() -> None:
    assert read() == NearDupSettings()


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
        ("FOLLOW_DUPLICATES", "maybe", "NEARDUP_FOLLOW_DUPLICATES='maybe': takes True or False"),
        ("ITEM_FIELDS", 7, "NEARDUP_ITEM_FIELDS=7: takes a list of names"),
        ("ITEM_FIELDS", [7], r"NEARDUP_ITEM_FIELDS=\[7\]: takes a list of names"),
        ("ENGINE", 5, "NEARDUP_ENGINE=5: takes a short name, a dotted path or a class"),
        ("BACKEND", "http://:pw@host", "NEARDUP_BACKEND='…': takes a URL that begins with one of"),
        ("BACKEND", "redis://:p/w@host", "NEARDUP_BACKEND='…': takes scheme://.*Write / .* %2F"),
        ("BACKEND", "redis://:1/w@host", "NEARDUP_BACKEND='…': takes scheme://.*Write / .* %2F"),
        ("BACKEND", "redis://host:0", "NEARDUP_BACKEND='…': takes scheme://"),
        ("BACKEND", "redis+cluster://host/3", "NEARDUP_BACKEND='…': takes no database .*PREFIX"),
        ("BLOCKS", 2, "NEARDUP_BLOCKS=2: takes more blocks than NEARDUP_DISTANCE=.*Set"),
    ],
)
def test_a_wrong_value_is_refused_with_its_limit(name: str, value: Any, message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        read(**{name: value})


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
