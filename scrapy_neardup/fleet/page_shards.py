"""Admits pages to the shards of their site: small sites have one, large ones fill one by one."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import Future
from dataclasses import replace
from typing import Any, NamedTuple

from scrapy_neardup.fleet.protocol import (
    Call,
    Questions,
    ShardOpen,
    ShardSealed,
    SharedPage,
    TooManyEntries,
)

MAX_SHARDS = 1024  # of a site


class Admission(NamedTuple):
    """What became of a page that was brought to the server.

    page         as it is there, with its shard
    near         pages to compare it with first; [] if it was admitted, None without an answer
    is_complete  False if a shard has too many entries to look through: the page is kept undecided
    """

    page: SharedPage
    near: list[SharedPage] | None
    is_complete: bool


class PageShards:
    """Brings pages to the server, and knows which shards of large sites are full.

    A shard that is full is *sealed*: nothing enters it any more. So a page that is looked for in
    all sealed shards, and then admitted to the open one, misses no page that was admitted before:
    of two that come at once, both are in the open shard, whose script is atomic. A worker learns
    that a shard is sealed from its answer.
    """

    def __init__(
        self,
        questions: Questions,
        ask: Callable[[Call], Future[Any]],
        answer: Callable[[Future[Any]], Awaitable[Any]],
    ) -> None:
        """ask: sends a question; answer: waits for what it brings, None if there is no answer."""
        self._questions = questions
        self._ask = ask
        self._answer = answer
        self._n_sealed: dict[int, int] = {}  # by site, of those that have sealed shards

    def forget(self) -> None:
        """The server lost its data: no shard is sealed."""
        self._n_sealed.clear()

    async def admit(self, page: SharedPage, compared: Sequence[bytes]) -> Admission:
        """Admit a page, or find out with which pages it has to be compared first.

        compared: stamps of pages that it was compared with. A server that is asked for n sealed
        shards has n look-ups to make, in one round trip. Raises what reading the answers may.
        """
        site = page.kept.page.site
        near, is_complete, first = await self._looked(page, compared, self._n_sealed.get(site, 0))
        if near:
            return Admission(page, near, is_complete)
        for shard in range(first, MAX_SHARDS):  # others of this worker may know more by now
            page = replace(page if is_complete else _unindexed(page), shard=shard)
            try:
                asked = self._ask(self._questions.admit(page, compared))
                return Admission(page, await self._answer(asked), is_complete)
            except TooManyEntries:
                return Admission(page, [], False)
            except ShardSealed as sealed:
                self._n_sealed[site] = max(shard + 1, self._n_sealed.get(site, 0))
                is_complete = is_complete and sealed.is_complete
        return Admission(page, None, is_complete)

    async def _looked(
        self, page: SharedPage, compared: Sequence[bytes], n_sealed: int
    ) -> tuple[list[SharedPage], bool, int]:
        """Pages of sealed shards to compare a page with, whether each could be looked through, and
        how many of them are sealed indeed. One that does not answer has no such page.
        """
        near: list[SharedPage] = []
        is_complete, first = True, n_sealed
        shards = [replace(page, shard=shard) for shard in range(n_sealed)]
        asked = [self._ask(self._questions.look(one, compared)) for one in shards]
        for shard, one in enumerate(asked):
            try:
                near += await self._answer(one) or ()
            except TooManyEntries:
                is_complete = False
            except ShardOpen:
                first = min(first, shard)
                self._n_sealed[page.kept.page.site] = first
        return near, is_complete, first


def _unindexed(page: SharedPage) -> SharedPage:
    """A page of which the server is to remember the text only."""
    return replace(page, kept=page.kept._replace(indexed=False))
