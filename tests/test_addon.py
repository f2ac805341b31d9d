"""The add-on: one line switches everything on, and a user's own entries win."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from crawls import ADDONS, crawl_requests
from mock_site import MockSite
from scrapy.settings import Settings

from scrapy_neardup import (
    LayeredBloomDupeFilter,
    NearDupAddon,
    NearDuplicatePipeline,
    NearDuplicateSpiderMiddleware,
    QuickRequestFingerprinter,
    SeenUrlMiddleware,
)

PLACES = {
    "DOWNLOADER_MIDDLEWARES": SeenUrlMiddleware,
    "SPIDER_MIDDLEWARES": NearDuplicateSpiderMiddleware,
    "ITEM_PIPELINES": NearDuplicatePipeline,
}


def with_addon(**given: Any) -> Settings:
    settings = Settings(given)
    NearDupAddon().update_settings(settings)
    return settings


def test_the_addon_adds_every_component() -> None:
    settings = with_addon()
    orders = {name: settings.getdict(name)[cls] for name, cls in PLACES.items()}
    assert orders == {"DOWNLOADER_MIDDLEWARES": 150, "SPIDER_MIDDLEWARES": 10, "ITEM_PIPELINES": 0}


def test_a_crawl_loads_no_report_and_no_metrics_that_nobody_asked_for() -> None:
    program = (
        "import sys, scrapy_neardup.addon\n"
        "print({'scrapy_neardup.report.summary', 'scrapy_neardup.extension'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout == "set()\n", done.stderr


def test_with_jobdir_a_queued_url_is_not_a_seen_one(tmp_path: Path) -> None:
    default, own = Settings()["DUPEFILTER_CLASS"], "myproject.DupeFilter"
    assert with_addon()["DUPEFILTER_CLASS"] == default
    assert with_addon(JOBDIR=str(tmp_path))["DUPEFILTER_CLASS"] is LayeredBloomDupeFilter
    assert with_addon(JOBDIR=str(tmp_path), DUPEFILTER_CLASS=own)["DUPEFILTER_CLASS"] == own


def test_request_fingerprints_are_made_quicker_unless_a_project_makes_its_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    name, own = "REQUEST_FINGERPRINTER_CLASS", "myproject.Fingerprinter"
    assert with_addon()[name] is QuickRequestFingerprinter
    assert with_addon(**{name: own})[name] == own
    monkeypatch.setattr("scrapy_neardup.addon.version_info", (9, 0, 0))
    assert with_addon()[name] == Settings()[name]


def test_switched_off_with_jobdir_scrapy_filters_by_itself(
    mock_site: MockSite, tmp_path: Path
) -> None:
    off = {"NEARDUP_ENABLED": False, "JOBDIR": str(tmp_path)}
    outcome = crawl_requests(mock_site, "/page/1", "/page/1", settings=off)
    assert mock_site.gets("/page/1") == 1
    assert outcome.stat("urls/asked") == 0


@pytest.mark.parametrize("name", PLACES)
@pytest.mark.parametrize("order", [None, 42])
def test_a_users_own_entry_wins(name: str, order: int | None) -> None:
    path = f"{PLACES[name].__module__}.{PLACES[name].__name__}"
    entries = with_addon(**{name: {path: order}}).getdict(name)
    assert entries == {path: order}


def test_switched_off_the_crawl_runs_without_the_plugin(mock_site: MockSite) -> None:
    outcome = crawl_requests(mock_site, "/page/1", "/copy/1", settings={"NEARDUP_ENABLED": False})
    assert len(outcome.items) == 2
    assert not [key for key in outcome.stats if key.startswith("neardup/")]


def test_components_enabled_by_hand_do_the_same(mock_site: MockSite) -> None:
    by_hand = {
        "ADDONS": {},
        "DOWNLOADER_MIDDLEWARES": {"scrapy_neardup.SeenUrlMiddleware": 150},
        "SPIDER_MIDDLEWARES": {"scrapy_neardup.NearDuplicateSpiderMiddleware": 10},
        "ITEM_PIPELINES": {"scrapy_neardup.NearDuplicatePipeline": 0},
    }
    outcome = crawl_requests(mock_site, "/page/1", "/copy/1", settings=by_hand)
    assert len(outcome.items) == 1


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A Scrapy project of one spider with the plugin switched on."""
    (tmp_path / "scrapy.cfg").write_text("[settings]\ndefault = small.settings\n")
    package = tmp_path / "small"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "settings.py").write_text(
        f"ADDONS = {ADDONS!r}\nSPIDER_MODULES = ['small.spiders']\nTELNETCONSOLE_ENABLED = False\n"
        f"NEARDUP_STATE_DIR = {str(tmp_path / 'state')!r}\n"
    )
    (package / "spiders.py").write_text(
        "import scrapy\n\n\n"
        "class Small(scrapy.Spider):\n"
        "    name = 'small'\n\n"
        "    def parse(self, response):\n"
        "        '''Every page is an item.\n\n"
        "        @url http://127.0.0.1:1/\n"
        "        @returns items 1\n"
        "        '''\n"
        "        yield {'url': response.url}\n"
    )
    return tmp_path


def scrapy_command(project: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "scrapy", *arguments],
        cwd=project,
        capture_output=True,
        text=True,
        timeout=300,
    )


def test_shell_fetches_a_url_twice(project: Path, mock_site: MockSite) -> None:
    url = mock_site.url("/page/1")
    code = f"(fetch({url!r}), fetch(scrapy.Request({url!r})), print('STATUS', response.status))"
    done = scrapy_command(project, "shell", url, "-c", code)
    assert "STATUS 200" in done.stdout, done.stderr
    assert mock_site.gets("/page/1") == 3


def test_fetch_and_parse_work_and_remember_nothing(project: Path, mock_site: MockSite) -> None:
    url = mock_site.url("/page/1")
    for _ in range(2):
        fetched = scrapy_command(project, "fetch", "--nolog", url)
        assert "<html>" in fetched.stdout, fetched.stderr
        parsed = scrapy_command(project, "parse", "--pipelines", "--spider", "small", url)
        assert url in parsed.stdout, parsed.stderr
    assert not (project / "state").exists()


def test_check_and_list_work(project: Path) -> None:
    assert "small" in scrapy_command(project, "list").stdout
    assert "Ran " in scrapy_command(project, "check").stderr


def test_a_wrong_setting_stops_the_crawl_with_a_message(project: Path) -> None:
    done = scrapy_command(project, "crawl", "small", "-s", "NEARDUP_DISTANCE=99")
    assert done.returncode != 0
    assert "NEARDUP_DISTANCE='99': takes a whole number from 0 to 63 bits" in done.stderr
