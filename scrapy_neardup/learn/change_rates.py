"""How often pages change, estimated from few visits, and how long not to look at them."""

from __future__ import annotations

import math
from bisect import bisect_left
from typing import NamedTuple

PRIOR_VISITS = 2  # what pages alike say of one counts as so many visits to it


class History(NamedTuple):
    """What was found when a page, or several alike, were visited again.

    n_visits   comparisons with the visit before
    n_changes  of which so many found a change
    seconds    between the first and the last visits
    """

    n_visits: int = 0
    n_changes: int = 0
    seconds: float = 0.0

    def plus(self, changed: bool, seconds: float) -> History:
        """With one more comparison, after so many seconds."""
        return History(self.n_visits + 1, self.n_changes + changed, self.seconds + seconds)


def change_rate(page: History, alike: History) -> float | None:
    """Changes of a page a second; None where neither it nor one like it was visited twice.

    The estimator of Cho and Garcia-Molina (2003), -log((n - x + 0.5) / (n + 0.5)) a visit for x
    changes in n visits, which does not take a page that changed at every visit for one that
    changes at any rate. What pages alike say counts as PRIOR_VISITS visits; half a change is
    added to theirs, so that nothing counts as unchanging.
    """
    if not alike.n_visits:
        alike = page
    if not alike.n_visits or alike.seconds <= 0:
        return None
    share = (alike.n_changes + 0.5) / (alike.n_visits + 1)
    n = page.n_visits + PRIOR_VISITS
    n_changes = min(n, page.n_changes + PRIOR_VISITS * share)
    seconds = page.seconds + PRIOR_VISITS * alike.seconds / alike.n_visits
    return -math.log((n - n_changes + 0.5) / (n + 0.5)) * n / seconds


def interval(rate: float, min_s: float, max_s: float) -> float:
    """Seconds until a page that changes at a rate is to be visited again, from min_s to max_s.

    Of visits that are shared out so that most pages are as they were seen last, each gains the
    same (Cho and Garcia-Molina 2003, section 5): 1 - (1 + r) e^-r = m * rate, where r is the
    changes between two visits and m the same for all pages. m is such that no page is to be
    visited more often than every min_s. Faster pages, which that would give up, are visited so,
    too.
    """
    gain = rate * min_s * GAIN_AT_MIN / CHANGES_AT_MIN
    if gain >= GAIN_AT_MIN:
        return min_s
    if rate <= 0:
        return max_s
    return max(min_s, min(max_s, _changes(gain) / rate))


def _gain(changes: float) -> float:
    return -math.expm1(-changes) - changes * math.exp(-changes)


CHANGES_AT_MIN = 1.79328  # where changes / gain is least: e^r = 1 + r + r^2
GAIN_AT_MIN = _gain(CHANGES_AT_MIN)
_TABLE = [_gain(CHANGES_AT_MIN * step / 2048) for step in range(2049)]


def _changes(gain: float) -> float:
    """The inverse of _gain(), from 0 to GAIN_AT_MIN; within 0.1 %."""
    if gain < _TABLE[64]:  # r^2 / 2 - r^3 / 3 near zero
        root = math.sqrt(2 * gain)
        return root + root * root / 3
    at = bisect_left(_TABLE, gain)
    low, high = _TABLE[at - 1], _TABLE[at]
    return CHANGES_AT_MIN * (at - 1 + (gain - low) / (high - low)) / 2048
