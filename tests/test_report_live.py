"""The live view under hostile clients and a damaged ledger; crawls with it: test_crawl_recorder."""

import socket
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from ledgers import page, write

from scrapy_neardup.report import live
from scrapy_neardup.report.live import MAX_CLIENTS, LiveView


@pytest.fixture
def view(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LiveView]:
    """A live view of a ledger with one page; it gives up no client for being silent."""
    monkeypatch.setattr(live, "SILENT_S", 3600.0)
    write(tmp_path, [page("http://a.example/1")])
    serving = LiveView(tmp_path, 0)
    yield serving
    serving.close()


def asked(view: LiveView, host: str) -> bytes:
    """The first line of the answer to a GET, byte for byte as it is."""
    with connection(view) as client:
        client.sendall(f"GET /data.json HTTP/1.1\r\nHost: {host}\r\n\r\n".encode("latin-1"))
        return client.makefile("rb").readline()


def connection(view: LiveView) -> socket.socket:
    port = int(view.url.rsplit(":", 1)[1].rstrip("/"))
    return socket.create_connection(("127.0.0.1", port), timeout=30)


@pytest.mark.parametrize("host", ["[", "[::1", "127.0.0.1]", "[127.0.0.1]", "\xff", "a:b:c", "//"])
def test_a_host_that_is_none_is_refused_without_a_traceback(
    view: LiveView, host: str, capfd: pytest.CaptureFixture[str]
) -> None:
    assert b" 403 " in asked(view, host)
    assert capfd.readouterr() == ("", "")


def test_clients_that_never_ask_take_few_threads_and_keep_nobody_out(view: LiveView) -> None:
    before = threading.active_count()
    with ExitStack() as clients:
        for _ in range(300):
            clients.enter_context(connection(view)).sendall(b"GET / HT")
        assert b" 200 " in asked(view, "127.0.0.1")
        assert threading.active_count() <= before + 16  # as docs/security.md says


def test_clients_that_never_read_keep_nobody_out(view: LiveView) -> None:
    with ExitStack() as clients:
        for _ in range(2 * MAX_CLIENTS):
            client = clients.enter_context(connection(view))
            client.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert b" 200 " in asked(view, "127.0.0.1")


def test_a_client_that_goes_away_is_not_in_the_log(
    view: LiveView, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    for _ in range(5):
        with connection(view) as client:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
            client.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
    assert b" 200 " in asked(view, "127.0.0.1")
    assert (caplog.text, *capfd.readouterr()) == ("", "", "")


def test_a_damaged_ledger_is_an_answer_and_a_warning(
    view: LiveView,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
) -> None:
    for file in tmp_path.rglob("*.sqlite*"):
        file.write_bytes(b"no database" * 1000)
    with pytest.raises(urllib.error.HTTPError, match="503") as refused:
        urllib.request.urlopen(view.url, timeout=30)  # noqa: S310
    assert b"ledger" in refused.value.read()
    assert "neardup: the live view cannot read the ledger" in caplog.text
    assert capfd.readouterr() == ("", "")
