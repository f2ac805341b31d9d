"""What filters over a kernel's bits share: adding, finding, merging, making room."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from typing import Any, Protocol, Self

import numpy as np

from scrapy_neardup.errors import SpecError
from scrapy_neardup.kernels.numpy_twin import I64Array, U64Array

FULL = -1  # a kernel's answer where a key has no room


class GrowingFilter(Protocol):
    """A filter whose kernel says when it is full; how it grows is its own affair."""

    n_refused: int
    _seed: U64Array
    _bits: Any

    def _make_room(self) -> bool: ...

    def _parameters(self) -> str: ...

    def arrays(self) -> dict[str, Any]: ...

    @classmethod
    def from_arrays(cls, arrays: dict[str, Any]) -> Self: ...

    def add(self, key: str | bytes) -> bool:
        """Add a key; whether it was there already, wrongly so at the error rate at most."""
        answer: int = self._bits.add(key)
        return answer == 0 or (answer == FULL and self.add_reporting(key) == 0)

    def add_reporting(self, key: str | bytes) -> int:
        """Add a key; 0 if it was there already, else the first layer that had not seen it.

        `layers + 1` says that only the URL as a whole is new. Once saturated, a new key is
        reported as new, counted in n_refused, and not added.
        """
        answer: int = self._bits.add(key)
        while answer == FULL:
            if not self._make_room():
                return int(self._find_only([key])[0])
            answer = self._bits.add(key)
        return answer

    def add_many(self, keys: Sequence[str | bytes]) -> I64Array:
        """add_reporting for each key in turn; shape (n,)."""
        answers: I64Array = self._bits.add_many(keys)
        while len(rest := np.flatnonzero(answers == FULL)):
            start = int(rest[0])
            # Without room now there is none later, and asking key by key would be quadratic.
            add = self._bits.add_many if self._make_room() else self._find_only
            answers[start:] = add(keys[start:])
        return answers

    def __contains__(self, key: str | bytes) -> bool:
        return key in self._bits

    def find_many(self, keys: Sequence[str | bytes]) -> I64Array:
        """0 for each key that was added, else its first unseen layer; shape (n,)."""
        answers: I64Array = self._bits.find_many(keys)
        return answers

    def copy(self) -> Self:
        """A filter of its own with the same keys and seed; O(bytes)."""
        copied = self.from_arrays({name: array.copy() for name, array in self.arrays().items()})
        copied.n_refused = self.n_refused
        return copied

    def _check_alike(self, other: Self) -> None:
        """Raises SpecError where another filter's bits mean something else."""
        mine, theirs = described(self), described(other)
        if mine != theirs:
            raise SpecError(
                f"merge: {mine} and {theirs} differ; make both with the same parameters and seed"
            )

    def _find_only(self, keys: Sequence[str | bytes]) -> I64Array:
        answers = self.find_many(keys)
        self.n_refused += int(np.count_nonzero(answers))
        return answers


def described(known: GrowingFilter) -> str:
    """Class, parameters and an id of the seed, which does not give the seed away."""
    seed_id = blake2b(known._seed.tobytes(), digest_size=4, person=b"neardup-seed-id").hexdigest()
    return f"{type(known).__name__}({known._parameters()}seed id {seed_id})"
