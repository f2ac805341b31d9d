"""Serves the demo site over HTTP on loopback and writes down what was asked for."""

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from example.site.plan import ROBOTS, Plan

POLL_S = 0.05


class SiteServer(ThreadingHTTPServer):
    """The site on a port, 0 for any free one. It answers from threads: any loop may crawl it."""

    daemon_threads = True
    request_queue_size = 128  # Python's 5 are too few for crawls: more wait, and are dropped
    block_on_close = False  # a crawler may hold connections open after its last page

    def __init__(self, plan: Plan, port: int = 0) -> None:
        super().__init__(("127.0.0.1", port), PageHandler)
        self.plan = plan
        self.asked: list[str] = []
        self._thread = threading.Thread(target=self.serve_forever, args=(POLL_S,), daemon=True)

    @property
    def root(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        if self._thread.is_alive():  # shutdown() waits for ever for a loop that never ran
            self.shutdown()
            self._thread.join()
        self.server_close()

    def handle_error(self, request: object, client_address: object) -> None:
        """A crawler that hangs up is not an error of the site."""


class PageHandler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = -1  # head and body in one segment: two would wait for a delayed ACK
    server: SiteServer

    def do_GET(self) -> None:
        self.server.asked.append(self.path)
        if self.path == "/robots.txt":
            return self._send(ROBOTS, "text/plain; charset=utf-8")
        if target := self.server.plan.moved(self.path):
            return self._redirect(target)
        self._send(self.server.plan.page(self.path).html, "text/html; charset=utf-8")

    def _redirect(self, target: str) -> None:
        self.send_response(301)
        self.send_header("Location", target)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def _send(self, text: str, content_type: str) -> None:
        body = text.encode()
        self.send_response(200)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args: object) -> None:
        """The crawler's log is the one to read."""
