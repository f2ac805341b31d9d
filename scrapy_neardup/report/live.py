"""The live view of a running crawl: its report, on this machine only, read-only and refreshed."""

from __future__ import annotations

import logging
import socket
import sys
import threading
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from time import monotonic
from typing import Any
from urllib.parse import urlsplit

from scrapy_neardup.errors import NearDupError
from scrapy_neardup.report.data import Collected
from scrapy_neardup.report.page import as_json_in_html, render

logger = logging.getLogger(__name__)

ADDRESS = "127.0.0.1"
REFRESH_S = 5.0
ROWS = 20_000
# However many pages are open, the crawl's processor works for one.
SHARED_S = 2.0
MAX_CLIENTS = 16  # served at once, each by a thread
SILENT_S = 10.0  # a client that neither sends nor reads for so long is given up
# A web page elsewhere can name this machine by a host of its own; it must not read the answer.
HOSTS = frozenset({"127.0.0.1", "localhost"})


class ReportServer(ThreadingHTTPServer):
    """Serves MAX_CLIENTS connections at once; one more closes the oldest."""

    daemon_threads = True

    def __init__(
        self, port: int, handler: type[BaseHTTPRequestHandler], host: str = ADDRESS
    ) -> None:
        self._free = threading.BoundedSemaphore(MAX_CLIENTS)
        self._open: dict[socket.socket, None] = {}  # oldest first
        self._lock = threading.Lock()
        super().__init__((host, port), handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        if not self._free.acquire(blocking=False):
            self._close_oldest()
            self._free.acquire()
        with self._lock:
            self._open[request] = None
        try:
            super().process_request(request, client_address)
        except RuntimeError:  # no thread could be started
            self._forget(request)
            raise

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._forget(request)

    def _forget(self, request: socket.socket) -> None:
        with self._lock:
            self._open.pop(request, None)
        self._free.release()

    def _close_oldest(self) -> None:
        """Close the oldest connection; its thread then ends."""
        with self._lock, suppress(StopIteration, OSError):
            oldest = next(iter(self._open))
            del self._open[oldest]
            oldest.shutdown(socket.SHUT_RDWR)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Log a failure in the crawl's log instead of on stderr; a client that leaves is none."""
        if not isinstance(sys.exception(), OSError):
            logger.exception("neardup: live view or metrics failed to answer")


class LiveView:
    """Serves the report of a state folder on 127.0.0.1 from a thread, until closed.

    Works only when asked: without a viewer it costs the crawl nothing. Port 0 takes a free
    one. Raises OSError where the port is taken.
    """

    def __init__(self, state: Path, port: int) -> None:
        self._collected = Collected(state, ROWS)
        self._lock = threading.Lock()
        self._made = float("-inf")
        self._warned = False
        self._server = ReportServer(port, self._handler())
        self.url = f"http://{ADDRESS}:{self._server.server_port}/"
        thread = threading.Thread(
            target=self._server.serve_forever, name="neardup-live", daemon=True
        )
        thread.start()

    def close(self) -> None:
        """Stop serving."""
        self._server.shutdown()
        self._server.server_close()

    def data(self) -> dict[str, object]:
        """What the page shows now, at most SHARED_S old."""
        with self._lock:
            if monotonic() - self._made >= SHARED_S:
                self._collected.refresh()
                self._data = self._collected.as_dict()
                self._made = monotonic()
            return self._data

    def answer(self, path: str, host: str) -> tuple[int, str, bytes]:
        """Status, media type and body for a GET."""
        if not is_this_machine(host):
            return 403, "text/plain", b"ask for 127.0.0.1\n"
        try:
            return self._answer(path)
        except (NearDupError, OSError) as error:
            if not self._warned:
                self._warned = True
                logger.warning("neardup: the live view cannot read the ledger: %s", error)
            return 503, "text/plain", f"the ledger cannot be read: {error}\n".encode()

    def _answer(self, path: str) -> tuple[int, str, bytes]:
        if path == "/":
            return 200, "text/html", render(self.data(), live_s=REFRESH_S)
        if path == "/data.json":
            return 200, "application/json", as_json_in_html(self.data()).encode("utf-8", "replace")
        return 404, "text/plain", b"not here\n"

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        view = self

        class Handler(BaseHTTPRequestHandler):
            timeout = SILENT_S

            def do_GET(self) -> None:
                status, kind, body = view.answer(self.path, self.headers.get("Host", ""))
                self.send_response(status)
                for name, value in (
                    ("Content-Type", f"{kind}; charset=utf-8"),
                    ("Content-Length", str(len(body))),
                    ("Cache-Control", "no-store"),
                    ("X-Content-Type-Options", "nosniff"),
                    ("X-Frame-Options", "DENY"),
                    ("Cross-Origin-Resource-Policy", "same-origin"),
                ):
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: object) -> None:
                """Log no requests: they do not belong in the crawl's log."""

        return Handler


def is_this_machine(host: str) -> bool:
    """Whether a Host header names this machine, with or without a port."""
    try:
        return urlsplit(f"//{host}").hostname in HOSTS
    except ValueError:  # "[": no host
        return False
