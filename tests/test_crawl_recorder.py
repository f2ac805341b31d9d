"""A crawl enters what it decides into the ledger, and a person's undo is honoured by the next."""

import json
import socket
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from crawls import PagesSpider, crawl, crawl_requests
from ledgers import HOSTILE_TEXT, near, write
from ledgers import page as kept
from mock_site import MockSite, page, prose
from scrapy import Request
from scrapy.http import Response

from scrapy_neardup.commands import NOTHING_FOUND, main
from scrapy_neardup.crawl.recorder import Recorder
from scrapy_neardup.errors import SettingsError
from scrapy_neardup.ledger.reader import LedgerReader
from scrapy_neardup.ledger.schema import Decided
from scrapy_neardup.ledger.undo import Overrides
from scrapy_neardup.report.live import LiveView
from scrapy_neardup.settings import NearDupSettings

PATHS = ("/page/1", "/near/1", "/copy/1", "/page/2")


def ledger(state: Path) -> dict[str, Decided]:
    """The last decision about each path."""
    return {"/" + d.url.split("/", 3)[3]: d for d in LedgerReader(state).decisions()}


def settings(state: Path, **more: Any) -> dict[str, Any]:
    return {"NEARDUP_STATE_DIR": str(state)} | {f"NEARDUP_{n.upper()}": v for n, v in more.items()}


def test_every_decision_of_a_crawl_is_on_record(mock_site: MockSite, tmp_path: Path) -> None:
    outcome = crawl_requests(mock_site, *PATHS, settings=settings(tmp_path))
    found = ledger(tmp_path)
    assert [found[path].kind for path in PATHS] == ["new", "near", "exact", "new"]
    assert [found[path].action for path in PATHS] == ["kept", "dropped", "dropped", "kept"]
    near_page = found["/near/1"]
    assert near_page.original == mock_site.url("/page/1")
    assert (near_page.size_bytes or 0) > 1_000
    assert near_page.words == 200
    assert outcome.stat("ledger/recorded") == 4
    assert outcome.stat("ledger/lost") == 0


def test_a_url_that_was_fetched_before_is_on_record(mock_site: MockSite, tmp_path: Path) -> None:
    for _ in range(2):
        crawl_requests(mock_site, *PATHS, settings=settings(tmp_path))
    assert ledger(tmp_path)["/page/2"][3:5] == ("seen", "dropped")


@pytest.mark.parametrize(("action", "on_record"), [("tag", "tagged"), ("dry-run", "counted")])
def test_the_record_says_what_was_done(
    mock_site: MockSite, tmp_path: Path, action: str, on_record: str
) -> None:
    crawl_requests(mock_site, *PATHS, settings=settings(tmp_path, action=action))
    assert ledger(tmp_path)["/near/1"].action == on_record


def test_items_compared_by_their_fields_are_on_record(mock_site: MockSite, tmp_path: Path) -> None:
    class FieldSpider(PagesSpider):
        def parse(self, response: Response) -> Iterator[Any]:
            yield {"url": response.url, "text": prose("the same")}

    requests = [Request(mock_site.url(f"/page/{i}"), priority=-i) for i in (1, 2)]
    crawl(
        FieldSpider,
        settings(tmp_path, item_fields=["text"]),
        seed=mock_site.url("/page/seed"),
        requests=lambda: iter(requests),
    )
    kinds = [(d.url.partition("#")[0], d.action) for d in LedgerReader(tmp_path).decisions()]
    assert kinds == [(requests[0].url, "kept"), (requests[1].url, "dropped")]


@pytest.mark.parametrize("policy", ["duplicates", "off"])
def test_the_policy_decides_what_is_on_record(
    mock_site: MockSite, tmp_path: Path, policy: str
) -> None:
    crawl_requests(mock_site, *PATHS, settings=settings(tmp_path, ledger=policy))
    if policy == "off":
        assert not (tmp_path / "ledger").exists()
    else:
        assert set(ledger(tmp_path)) == {"/near/1", "/copy/1"}


def test_the_key_is_not_on_record(mock_site: MockSite, tmp_path: Path) -> None:
    crawl_requests(mock_site, "/page/1", settings=settings(tmp_path, key=0x1234_5678_9ABC_DEF0))
    (run,) = LedgerReader(tmp_path).runs()
    assert "NEARDUP_KEY" not in run.rules
    assert str(0x1234_5678_9ABC_DEF0) not in json.dumps(run.rules)
    assert run.rules["NEARDUP_MIN_WORDS"] == 20


def test_texts_are_kept_where_asked_for(mock_site: MockSite, tmp_path: Path) -> None:
    crawl_requests(mock_site, *PATHS, settings=settings(tmp_path, keep_text=True))
    reader = LedgerReader(tmp_path)
    assert prose("1") in (reader.text(mock_site.url("/page/1")) or "")
    assert reader.text(mock_site.url("/near/1")) is not None


def test_a_ledger_that_cannot_be_opened_costs_no_page(mock_site: MockSite, tmp_path: Path) -> None:
    (tmp_path / "ledger").write_text("in the way")
    outcome = crawl_requests(mock_site, *PATHS, settings=settings(tmp_path, log_level="CRITICAL"))
    assert outcome.stat("errors/ledger") == 1
    assert outcome.stat("items/dropped") == 2


@pytest.mark.parametrize("path", ["/near/1", "/copy/1"])
def test_an_undone_page_is_fetched_and_kept_by_the_next_run_and_once(
    mock_site: MockSite, tmp_path: Path, path: str, capsys: pytest.CaptureFixture[str]
) -> None:
    crawl_requests(mock_site, *PATHS, settings=settings(tmp_path))
    assert main(["undo", mock_site.url(path), "--state", str(tmp_path)]) == 0
    fetched = mock_site.gets(path)

    # No link leads there any more: the page it was found on is not fetched again.
    again = crawl_requests(mock_site, settings=settings(tmp_path))
    assert mock_site.url(path) in again.urls
    assert mock_site.gets(path) == fetched + 1
    assert again.stat("pages/kept_by_undo") == 1
    assert ledger(tmp_path)[path].action == "kept"

    third = crawl_requests(mock_site, path, settings=settings(tmp_path))
    assert mock_site.gets(path) == fetched + 1
    assert mock_site.url(path) not in third.urls


def test_an_undone_page_goes_to_the_callback_it_came_from(
    mock_site: MockSite, tmp_path: Path
) -> None:
    class TwoCallbacks(PagesSpider):
        def parse_item(self, response: Response) -> Iterator[Any]:
            yield {"url": response.url, "by": "parse_item"}

    def run(*requests: Request) -> Any:
        return crawl(
            TwoCallbacks,
            settings(tmp_path),
            seed=mock_site.url("/page/seed"),
            requests=lambda: iter(requests),
        )

    class Named(TwoCallbacks):
        def parse_seed(self, response: Response) -> Iterator[Any]:
            yield Request(mock_site.url("/page/1"), self.parse_item, priority=1)
            yield Request(mock_site.url("/near/1"), self.parse_item)

    crawl(Named, settings(tmp_path), seed=mock_site.url("/page/seed"))
    assert main(["undo", "*/near/*", "--state", str(tmp_path)]) == 0
    assert {"url": mock_site.url("/near/1"), "by": "parse_item"} in run().items


@pytest.mark.parametrize(
    "line",
    [
        '{"undo": "no-url"}',
        '{"undo": "http://[/"}',
        '{"undo": "file:///etc/hosts"}',
        '{"undo": "data:text/html,<p>words"}',
        '{"undo": "http://h.example/", "callback": "name"}',
        '{"undo": ["http://h.example/"], "callback": "parse"}',
    ],
)
def test_what_cannot_be_undone_costs_no_other_page(
    mock_site: MockSite, tmp_path: Path, line: str
) -> None:
    crawl_requests(mock_site, settings=settings(tmp_path))  # makes the state
    (tmp_path / "overrides.jsonl").write_text(line + "\n", "utf-8")
    assert main(["undo", mock_site.url("/near/1"), "--state", str(tmp_path)]) == 0
    outcome = crawl_requests(mock_site, "/page/1", settings=settings(tmp_path))
    assert outcome.urls == [mock_site.url("/near/1")]
    assert mock_site.gets("/page/1") == 1  # the spider's own requests are made, too


def test_a_damaged_line_of_the_overrides_is_told_by_the_crawl_and_by_check_and_set_aside(
    mock_site: MockSite,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    crawl_requests(mock_site, *PATHS, settings=settings(tmp_path))
    for path in ("/near/1", "/copy/1"):
        assert main(["undo", mock_site.url(path), "--state", str(tmp_path)]) == 0
    overrides = tmp_path / "overrides.jsonl"
    damaged = overrides.read_bytes().replace(b"undo", b"tndo", 1)
    overrides.write_bytes(damaged)
    outcome = crawl_requests(mock_site, settings=settings(tmp_path))
    assert mock_site.url("/copy/1") in outcome.urls
    (told,) = [r.getMessage() for r in caplog.records if str(overrides) in r.getMessage()]
    assert "1 lines are damaged" in told
    assert f"`scrapy neardup repair {tmp_path}` sets them aside" in told

    assert main(["check", str(tmp_path)]) == NOTHING_FOUND
    assert f"{overrides}: 1 lines are damaged" in capsys.readouterr().out
    assert main(["repair", str(tmp_path)]) == 0
    aside = tmp_path / "overrides.jsonl.damaged"
    assert aside.read_bytes() == damaged.splitlines(keepends=True)[0]
    assert main(["check", str(tmp_path)]) == 0
    assert Overrides(tmp_path).keeps(mock_site.url("/copy/1"))


def explained(state: Path, url: str, capsys: pytest.CaptureFixture[str]) -> list[str]:
    """The settings that explain names as deciding otherwise about a URL."""
    assert main(["explain", url, "--state", str(state), "--json"]) == 0
    names: list[str] = json.loads(capsys.readouterr().out)["decisions"][-1]["otherwise"]
    return names


# The next value beside one that explain names: under it all stays as it was.
LESS: dict[str, Callable[[float], float]] = {
    "SIMILARITY": lambda value: value - 0.002,
    "CONFIRM_DISTANCE": lambda value: value + 1,
    "DISTANCE": lambda value: value + 1,
    "MIN_WORDS": lambda value: value - 1,
}


def run_again(site: MockSite, state: Path, setting: str, paths: tuple[str, ...]) -> Decided:
    """What a fresh crawl decides about the last path under one changed setting."""
    name, _, value = setting.partition("=")
    crawl_requests(site, *paths, settings=settings(state) | {name: value})
    return ledger(state)[paths[-1]]


def test_each_setting_that_explain_names_does_decide_otherwise(
    mock_site: MockSite, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    paths = "/page/1", "/near/1"
    crawl_requests(mock_site, *paths, settings=settings(tmp_path / "first"))
    changes = explained(tmp_path / "first", mock_site.url("/near/1"), capsys)
    names = [change.partition("=")[0].removeprefix("NEARDUP_") for change in changes]
    assert names == ["SIMILARITY", "CONFIRM_DISTANCE", "DISTANCE", "MIN_WORDS"]
    for change in changes:
        decided = run_again(mock_site, tmp_path / change, change, paths)
        assert decided.action == "kept", change
        name, _, value = change.partition("=")
        nearly = f"{name}={LESS[name.removeprefix('NEARDUP_')](float(value)):g}"
        decided = run_again(mock_site, tmp_path / nearly, nearly, paths)
        assert decided.action == "dropped", nearly


def test_the_words_that_explain_names_for_a_short_page_make_it_a_near_duplicate(
    mock_site: MockSite, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    paths = "/page/1", "/near/1"
    crawl_requests(mock_site, *paths, settings=settings(tmp_path / "first", min_words=500))
    (change,) = explained(tmp_path / "first", mock_site.url("/near/1"), capsys)
    assert run_again(mock_site, tmp_path / "again", change, paths).kind == "near"


def test_the_rule_that_explain_names_for_a_seen_url_lets_it_be_fetched(
    mock_site: MockSite, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    paths = "/page/1", "/page/1?utm_source=letter"
    crawl_requests(mock_site, *paths, settings=settings(tmp_path / "first"))
    (change,) = explained(tmp_path / "first", mock_site.url(paths[1]), capsys)
    assert change == "NEARDUP_URL_DROP_TRACKING=False"
    assert run_again(mock_site, tmp_path / "again", change, paths).kind != "seen"
    assert mock_site.gets(paths[1]) == 1


def test_a_page_full_of_script_is_on_record_as_it_was(mock_site: MockSite, tmp_path: Path) -> None:
    hostile = HOSTILE_TEXT.replace("\x1b", "").replace("\x07", "")
    escaped = hostile.replace("&", "&amp;").replace("<", "&lt;")
    mock_site.add("/evil", page(escaped))
    crawl_requests(mock_site, "/evil", settings=settings(tmp_path, keep_text=True))
    text = LedgerReader(tmp_path).text(mock_site.url("/evil"))
    assert "<img src=x onerror=window.owned=1>" in (text or "")


@pytest.mark.parametrize(("folder", "policy"), [(None, "all"), (Path("state"), "off")])
def test_a_live_view_of_no_ledger_is_refused(folder: Path | None, policy: str) -> None:
    with pytest.raises(SettingsError, match="NEARDUP_STATE_DIR"):
        Recorder(NearDupSettings(live_port=0, ledger=policy), folder)


def get(url: str, host: str | None = None) -> tuple[int, bytes]:
    """Status and body."""
    request = urllib.request.Request(url, headers={"Host": host} if host else {})  # noqa: S310
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:  # noqa: S310
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        return error.code, error.read()


@pytest.fixture
def view(tmp_path: Path) -> Iterator[LiveView]:
    """A live view of a ledger with one pair."""
    write(tmp_path, [kept("http://a.example/1"), near("http://a.example/2", "http://a.example/1")])
    serving = LiveView(tmp_path, 0)
    yield serving
    serving.close()


def test_a_live_view_serves_page_and_data_and_nothing_else(view: LiveView) -> None:
    status, html = get(view.url)
    assert (status, b"<title>" in html) == (200, True)
    assert json.loads(get(view.url + "data.json")[1])["n_decisions"] == 2
    assert get(view.url + "../etc/passwd")[0] == 404


def test_a_live_view_sees_what_comes_later(
    view: LiveView, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert view.data()["n_decisions"] == 2
    write(tmp_path, [kept("http://a.example/3")])
    monkeypatch.setattr("scrapy_neardup.report.live.SHARED_S", 0)
    assert view.data()["n_decisions"] == 3


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example", "evil.example:80", ""])
def test_a_live_view_answers_no_other_host_name(view: LiveView, host: str) -> None:
    assert view.answer("/data.json", host)[0] == 403


def test_a_live_view_listens_on_this_machine_only(view: LiveView) -> None:
    port = int(view.url.rsplit(":", 1)[1].rstrip("/"))
    with socket.socket() as other:
        other.settimeout(1)
        address = socket.gethostbyname(socket.gethostname())
        if not address.startswith("127."):
            assert other.connect_ex((address, port)) != 0
    assert get(view.url, host=f"localhost:{port}")[0] == 200


def test_a_port_that_is_taken_costs_the_live_view_only(
    mock_site: MockSite, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        outcome = crawl_requests(mock_site, *PATHS, settings=settings(tmp_path, live_port=port))
    assert f"NEARDUP_LIVE_PORT={port}" in caplog.text
    assert outcome.stat("items/kept") == 2
    assert not any(name.startswith("neardup/errors") for name in outcome.stats)


def test_a_live_view_changes_nothing(view: LiveView) -> None:
    request = urllib.request.Request(view.url, data=b"undo=all", method="POST")  # noqa: S310
    with pytest.raises(urllib.error.HTTPError, match="501"):
        urllib.request.urlopen(request, timeout=60)  # noqa: S310


def test_a_running_crawl_shows_itself(mock_site: MockSite, tmp_path: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    answers: list[tuple[int, bytes]] = []

    class Watched(PagesSpider):
        def parse(self, response: Response) -> Iterator[Any]:
            answers.append(get(f"http://127.0.0.1:{port}/data.json"))
            yield {"url": response.url}

    crawl(
        Watched,
        settings(tmp_path, live_port=port),
        seed=mock_site.url("/page/seed"),
        requests=lambda: iter([Request(mock_site.url("/page/1"))]),
    )
    ((status, body),) = answers
    assert (status, json.loads(body)["state"]) == (200, tmp_path.name)
    with pytest.raises(urllib.error.URLError):
        get(f"http://127.0.0.1:{port}/")
