"""A URL filter that forgets: one filter for each part of the time to live, the oldest dropped.

No filter of bits can forget a single key, so keys age together.
"""

from __future__ import annotations

import time
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

import numpy as np

from scrapy_neardup.errors import SnapshotError
from scrapy_neardup.stored_arrays import check_arrays, under
from scrapy_neardup.urls.filters import UrlFilter

N_GENERATIONS = 8


@dataclass(slots=True)
class Generation:
    """The keys added from a time (seconds since the epoch) until the next one's.

    Without a time to live they may be of any age: then the time is that of the last of them.
    """

    start: float
    urls: UrlFilter


class RotatingUrlFilter:
    """URL filters in the order of time, the newest last; a key is in if one of them has it.

    A key added `ttl_s` seconds ago is forgotten, one added less than seven eighths of that ago
    is remembered. None: nothing is forgotten, and what is added goes into the newest filter; if
    there is a time to live later, its keys are taken to be as old as the last of them. A clock that
    is set back makes no key live longer than `ttl_s` from then; one that is set forward ages them
    all.
    """

    def __init__(
        self,
        make: Callable[[], UrlFilter],
        ttl_s: float | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """make: a filter without keys, as large as one generation is thought to be."""
        self._make, self._ttl_s, self._clock = make, ttl_s, clock
        self._generations: list[Generation] = []

    def add(self, key: bytes) -> int:
        """Add a key, as of now; what its filter's add_reporting says of it."""
        return self._newest(self._clock()).add_reporting(key)

    def add_at(self, keys: Sequence[bytes], times: Sequence[float]) -> None:
        """Add keys as of earlier times; those that are too old by now are left out."""
        now = self._clock()
        if self._ttl_s is None:
            if keys:
                self._newest(min(max(times), now)).add_many(keys)
            return
        self.expire()
        # By time: else each that is older than all would begin a filter.
        for time_, key in sorted(zip(times, keys, strict=True)):
            if time_ > now - self._ttl_s:
                self._of_time(min(time_, now), self._ttl_s).add(key)

    def _of_time(self, time_: float, ttl_s: float) -> UrlFilter:
        """The filter for keys of a time; begun where the one before has had its time by then."""
        generations = self._generations
        n = bisect_right(generations, time_, key=attrgetter("start"))
        if n and time_ < generations[n - 1].start + ttl_s / N_GENERATIONS:
            return generations[n - 1].urls
        generations.insert(n, Generation(time_, self._make()))
        return generations[n].urls

    def _newest(self, now: float) -> UrlFilter:
        """The filter for keys added now; begun where the last one has had its time."""
        generations, ttl_s = self._generations, self._ttl_s
        if not generations or (
            ttl_s is not None and now >= generations[-1].start + ttl_s / N_GENERATIONS
        ):
            generations.append(Generation(now, self._make()))
        elif ttl_s is None and now > generations[-1].start:
            generations[-1].start = now
        return generations[-1].urls

    def __contains__(self, key: bytes) -> bool:
        self.expire()
        return any(key in generation.urls for generation in self._generations)

    def clear(self) -> None:
        """Forget every key."""
        self._generations = []

    def expire(self) -> None:
        """Drop the generations that have outlived their time; look-ups do so, too."""
        if self._ttl_s is None or not self._generations:
            return
        now = self._clock()
        if self._generations[-1].start > now:
            # The clock was ahead. Left as they are, keys of the future would not age until then.
            for generation in self._generations:
                generation.start = min(generation.start, now)
        while self._generations and self._generations[0].start <= now - self._ttl_s:
            del self._generations[0]

    def __len__(self) -> int:
        """Keys in all generations; one added again in a later generation counts again."""
        return sum(len(generation.urls) for generation in self._generations)

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays."""
        return sum(urls.nbytes for urls in self.filters)

    @property
    def expected_error_rate(self) -> float:
        """At most this share of keys never added is claimed to be there, as of now."""
        return sum(urls.expected_error_rate for urls in self.filters)

    @property
    def expected_lost(self) -> float:
        """At most this many keys, on average, were taken for known when they were new."""
        return sum(urls.expected_lost for urls in self.filters)

    @property
    def at_risk(self) -> bool:
        """Whether the newest filter is about to fill up and may not grow."""
        return bool(self._generations) and self.filters[-1].at_risk

    @property
    def n_refused(self) -> int:
        """New keys that no filter had room for; they stay new."""
        return sum(urls.n_refused for urls in self.filters)

    @property
    def filters(self) -> list[UrlFilter]:
        """Each generation's filter, oldest first."""
        return [generation.urls for generation in self._generations]

    def check(self) -> None:
        """Every invariant of every filter. Raises BrokenInvariant."""
        for urls in self.filters:
            urls.check()

    def arrays(self) -> dict[str, Any]:
        """The state as named arrays, for a snapshot."""
        starts = np.array([generation.start for generation in self._generations])
        return {"starts": starts} | {
            f"{number}.{name}": array
            for number, urls in enumerate(self.filters)
            for name, array in urls.arrays().items()
        }

    def restore(
        self, arrays: Mapping[str, Any], from_arrays: Callable[[dict[str, Any]], UrlFilter]
    ) -> None:
        """Hold what arrays() described, and nothing else. Raises SnapshotError."""
        check_arrays("URL filter", arrays, {"starts": (np.float64, (None,))})
        if not np.isfinite(arrays["starts"]).all():
            raise SnapshotError("URL filter: a generation without a time")
        self._generations = [
            Generation(start, from_arrays(under(f"{number}.", arrays)))
            for number, start in enumerate(arrays["starts"].tolist())
        ]
