"""Failing open: what fails is counted and logged once, and answered in favour of the page."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from scrapy_neardup import stats
from scrapy_neardup.errors import EngineFailed, OverBudget, StateError

logger = logging.getLogger(__name__)

P = ParamSpec("P")
T = TypeVar("T")

Count = Callable[..., None]


class FailOpen:
    """Carries out actions that must not raise into the crawl."""

    def __init__(self, count: Count) -> None:
        """count: adds one to a stat."""
        self._count = count
        self._logged: set[str] = set()

    def __call__(
        self, what: str, action: Callable[P, T], *args: P.args, **kwargs: P.kwargs
    ) -> T | None:
        """The action's result; None if it fails, counted under neardup/errors/`what`.

        None, too, for a page that is over budget, which is no error and counted apart.
        """
        try:
            return action(*args, **kwargs)
        except OverBudget as error:
            self._count(stats.PAGES_OVER_BUDGET)
            self._say_once(error)
            return None
        except Exception as error:
            self.failed("engine" if isinstance(error, EngineFailed) else what)
            return None

    def _say_once(self, error: OverBudget) -> None:
        if stats.PAGES_OVER_BUDGET not in self._logged:
            self._logged.add(stats.PAGES_OVER_BUDGET)
            logger.info(
                "neardup: a page is over budget (%s) and is kept without a comparison; others "
                "are only counted, under %s",
                error,
                stats.PAGES_OVER_BUDGET,
            )

    def failed(self, what: str) -> None:
        """Count and, the first time, log the exception that is being handled."""
        self._count(stats.ERRORS.format(what))
        if what not in self._logged:
            self._logged.add(what)
            error = sys.exception()
            logger.error(
                "neardup: %s failed (%s); the page is kept. Further failures of this kind are only "
                "counted, under %s",
                what,
                error,
                stats.ERRORS.format(what),
                exc_info=not names_its_file(error),
            )


def names_its_file(error: BaseException | None) -> bool:
    """Whether an error says of which file or folder it is, as where a disk is full.

    A traceback would say no more.
    """
    if isinstance(error, OSError):
        return error.filename is not None
    return isinstance(error, StateError)
