"""Requests that stay in a worker's memory, and wait there until their hosts are the worker's."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

from scrapy.http import Request

MOST_HOSTS = 64  # of which requests are ready or asked for: a call to the server names each


class LocalRequests:
    """Stands where Scrapy's scheduler has its queue in memory, which holds what is ready.

    A request is ready once its host, more exactly its downloader slot, belongs to this worker.
    Until the server has said so, it waits. For the loop's thread.

    ready  requests that are ready, by host
    """

    def __init__(
        self,
        queue: Any,
        host_of: Callable[[Request], str],
        is_ours: Callable[[str], bool],
        ask: Callable[[], object],
    ) -> None:
        """ask: is called where the server is to be asked for a host."""
        self._queue = queue
        self._host_of, self._is_ours, self._ask = host_of, is_ours, ask
        self._waiting: dict[str, list[Request]] = {}
        self.ready: Counter[str] = Counter()

    def push(self, request: Request) -> None:
        """Add a request."""
        host = self._host_of(request)
        if self._is_ours(host):
            self._make_ready(host, request)
        else:
            self._waiting.setdefault(host, []).append(request)
            self._ask()

    def pop(self) -> Request | None:
        """The next request that is ready; None if there is none."""
        request: Request | None = self._queue.pop()
        if request is None:
            self.ready.clear()
        else:
            self._left(self._host_of(request))
        return request

    def __len__(self) -> int:
        return len(self._queue) + sum(map(len, self._waiting.values()))

    def wanted(self) -> list[str]:
        """Some hosts for which requests wait, those first that were named longest ago."""
        names = list(self._waiting)[: max(0, MOST_HOSTS - len(self.ready))]
        for host in names:
            self._waiting[host] = self._waiting.pop(host)
        return names

    @property
    def waits(self) -> bool:
        """Whether requests wait for their hosts."""
        return bool(self._waiting)

    def given(self, hosts: Iterable[str]) -> None:
        """These hosts belong to this worker now."""
        for host in hosts:
            for request in self._waiting.pop(host, ()):
                self._make_ready(host, request)

    def given_all(self) -> None:
        """No host is to be asked for any more."""
        self.given(list(self._waiting))

    def _left(self, host: str) -> None:
        self.ready[host] -= 1
        if self.ready[host] <= 0:
            del self.ready[host]

    def _make_ready(self, host: str, request: Request) -> None:
        self._queue.push(request)
        self.ready[host] += 1
