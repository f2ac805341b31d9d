"""A crawl's stats as metrics for Prometheus, in its text format, over HTTP."""

from __future__ import annotations

import re
import threading
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler
from typing import Any

from scrapy_neardup.report.live import HOSTS, SILENT_S, ReportServer, is_this_machine
from scrapy_neardup.stats import DOCS

KIND = "text/plain; version=0.0.4; charset=utf-8"
PATTERNS = {doc.removesuffix("/{}"): doc for doc in DOCS if doc.endswith("/{}")}


class Metrics:
    """Serves what `read` gives at http://HOST:PORT/metrics from a thread, until closed.

    Port 0 takes a free one. Raises OSError where the port is taken. On this machine's own address
    it answers to that machine's names only, as a web page elsewhere could ask by another.
    """

    def __init__(self, read: Callable[[], Mapping[str, Any]], spider: str, host: str, port: int):
        """read: the stats, called by another thread."""
        self._read, self._spider = read, spider
        self._is_private = host in HOSTS
        self._server = ReportServer(port, self._handler(), host)
        self.url = f"http://{host}:{self._server.server_port}/metrics"
        serve = self._server.serve_forever
        threading.Thread(target=serve, name="neardup-metrics", daemon=True).start()

    def close(self) -> None:
        """Stop serving."""
        self._server.shutdown()
        self._server.server_close()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        metrics = self

        class Handler(BaseHTTPRequestHandler):
            timeout = SILENT_S

            def do_GET(self) -> None:
                status, text = metrics.answer(self.path, self.headers.get("Host", ""))
                body = text.encode("utf-8", "replace")
                self.send_response(status)
                self.send_header("Content-Type", KIND)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: object) -> None:
                """Log no requests: they do not belong in the crawl's log."""

        return Handler

    def answer(self, path: str, host: str) -> tuple[int, str]:
        """Status and text for a GET."""
        if self._is_private and not is_this_machine(host):
            return 403, "ask for 127.0.0.1\n"
        if path.partition("?")[0] != "/metrics":
            return 404, "not here: /metrics\n"
        return 200, self.text()

    def text(self) -> str:
        """All numbers among the stats, as gauges: a stat can be set as well as counted."""
        return "\n".join(lines(self._read(), {"spider": self._spider})) + "\n"


def lines(stats: Mapping[Any, Any], labels: dict[str, str]) -> Iterator[str]:
    """The lines of the text format, without their ends; each metric once, with its help.

    Stats that become one metric have their names as labels beside.
    """
    metrics: defaultdict[str, list[tuple[str, str, float]]] = defaultdict(list)
    helps: dict[str, str] = {}
    for stat, value in sorted({str(key): value for key, value in stats.items()}.items()):
        number = as_number(value)
        if number is None:
            continue
        name, kind, help_ = metric_of(stat)
        own = labels | ({"kind": kind} if kind else {})
        metrics[name].append((listed(own), stat, number))
        helps[name] = help_
    for name, samples in metrics.items():
        if helps[name]:
            yield f"# HELP {name} {helps[name]}"
        yield f"# TYPE {name} gauge"
        n_alike = Counter(text for text, _, _ in samples)
        for text, stat, number in samples:
            apart = "," + listed({"stat": stat}) if n_alike[text] > 1 else ""
            yield f"{name}{{{text}{apart}}} {number!r}"


def listed(labels: Mapping[str, str]) -> str:
    """Labels as the text format has them."""
    return ",".join(f'{key}="{escaped(text)}"' for key, text in labels.items())


def metric_of(stat: str) -> tuple[str, str, str]:
    """Name, kind and help of a stat's metric.

    neardup/urls/exempt/retry is neardup_urls_exempt{kind="retry"}. Scrapy's and others' stats
    begin with scrapy_.
    """
    kind = ""
    base, _, rest = stat.rpartition("/")
    if stat not in DOCS and base in PATTERNS:
        stat, kind, doc = base, rest, PATTERNS[base]
    else:
        doc = stat
    name = re.sub(r"[^a-zA-Z0-9_]", "_", stat)
    if not name.startswith("neardup_"):
        name = f"scrapy_{name}"
    return name, kind, DOCS.get(doc, "").replace("\\", "\\\\").replace("\n", " ")


def as_number(value: Any) -> float | None:
    """A number, or the Unix time of a moment; None for what is neither, or beyond any float."""
    if isinstance(value, datetime):
        moment = value if value.tzinfo else value.replace(tzinfo=UTC)
        return moment.timestamp()
    with suppress(OverflowError):
        return float(value) if isinstance(value, (int, float)) else None
    return None


def escaped(label: str) -> str:
    """A label's value as the text format has it."""
    return label.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
