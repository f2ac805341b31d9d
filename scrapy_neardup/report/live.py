"""The live view of a running crawl: its report, on this machine only, read-only and refreshed."""

from __future__ import annotations

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from time import monotonic
from urllib.parse import urlsplit

from scrapy_neardup.report.data import Collected
from scrapy_neardup.report.page import as_json_in_html, render

ADDRESS = "127.0.0.1"
REFRESH_S = 5.0
ROWS = 20_000
# However many pages are open, the crawl's processor works for one.
SHARED_S = 2.0
# A web page elsewhere can name this machine by a host of its own; it must not read the answer.
HOSTS = frozenset({"127.0.0.1", "localhost"})


class LiveView:
    """Serves the report of a state folder on 127.0.0.1 from a thread, until closed.

    Works only when asked: without a viewer it costs the crawl nothing. Port 0 takes a free
    one. Raises OSError where the port is taken.
    """

    def __init__(self, state: Path, port: int, rows: int = ROWS) -> None:
        self._collected = Collected(state, rows)
        self._lock = threading.Lock()
        self._made = float("-inf")
        self._server = ThreadingHTTPServer((ADDRESS, port), self._handler())
        self._server.daemon_threads = True
        self.url = f"http://{ADDRESS}:{self._server.server_port}/"
        thread = threading.Thread(
            target=self._server.serve_forever, name="neardup-live", daemon=True
        )
        thread.start()

    def close(self) -> None:
        """Answer no more."""
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
        if urlsplit(f"//{host}").hostname not in HOSTS:
            return 403, "text/plain", b"ask for 127.0.0.1\n"
        if path == "/":
            return 200, "text/html", render(self.data(), live_s=REFRESH_S)
        if path == "/data.json":
            return 200, "application/json", as_json_in_html(self.data()).encode("utf-8", "replace")
        return 404, "text/plain", b"not here\n"

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        view = self

        class Handler(BaseHTTPRequestHandler):
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
                """Nothing: the crawl's log is the crawl's."""

        return Handler
