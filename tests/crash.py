"""End a crawl of the demo site before its time, go on with it, and see that nothing is lost.

    python -m tests.crash --rounds 1000
    python -m tests.crash --model

A campaign is one crawl, ended and resumed until it finishes. Each of its rounds is a process
of its own (crash_crawl.py), ended by SIGKILL, SIGTERM or SIGINT twice after a number of pages, or
struck at a single write, sync, cut, rename or removal (faults.py): killed before it, in it or after
it, or told that the disk is broken or full, or that the clock jumped. Where the state is, how often
it is saved and synced, and whether links of copies are followed, is drawn for each campaign. The
processes, and the site, write down what happens to each page, a line at a time, so that the oracle
can tell afterwards (crash_oracle.py); half of the campaigns write a feed, too, which has to have
everything in the end. In the manner of RocksDB's db_crashtest.
Then come campaigns of two crawls at once in one folder (crash_pairs.py).
--model: crash_model.py, which crashes no process but a model of a file system.
"""

import argparse
import os
import random
import shutil
import sys
import tempfile
import time
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from tests import crash_model, faults
from tests.crash_crawl import PROCESSES, SILENCE_S, Child, Diary, crawl, now, say, serve
from tests.crash_oracle import (
    Plan,
    check_diary,
    check_feed,
    check_refetched,
    check_repeated,
    check_state,
    keys_fetched,
    rounds_of,
)

MAX_PAGES = 80  # of a round
MAX_ROUNDS = 60  # of a campaign; the next one may finish
ENDS = {"SIGKILL": 8, "SIGTERM": 1, "SIGINT SIGINT": 1}  # the signals, how often each
PLACES = ("job", "state", "both")
TOLD = ("fetched", "refetched", "refetched_old", "repeated", "doubled")


@dataclass
class Site:
    """The site, in a process of its own."""

    folder: Path

    def __post_init__(self) -> None:
        heard, root = PROCESSES.Pipe(duplex=False)
        self.child = Child(self.folder / "site-log", serve, self._asked, root)
        self.start: str = heard.recv() + "/"
        self.plan = Plan()

    @property
    def _asked(self) -> Path:
        return self.folder / "site-asked"

    def asked(self) -> list[str]:
        """What it was asked for since forget(), a line a request."""
        return self._asked.read_text().splitlines()

    def forget(self) -> None:
        """Another campaign begins."""
        os.truncate(self._asked, 0)


@dataclass
class Campaign:
    """One crawl of a site, ended and resumed until it finishes."""

    folder: Path
    start: str
    place: str  # of the state: JOBDIR, NEARDUP_STATE_DIR, or both
    has_feed: bool
    settings: dict[str, Any] = field(default_factory=dict)
    ends: Counter[str] = field(default_factory=Counter)
    was_hindered: bool = False  # whether the last round could not write what it wanted to

    @classmethod
    def drawn(cls, folder: Path, start: str, rng: random.Random) -> Self:
        """One of any kind."""
        settings = {
            "NEARDUP_FOLLOW_DUPLICATES": rng.random() < 0.5,
            "NEARDUP_SNAPSHOT_INTERVAL": rng.choice((0.1, 0.5, 300)),
            "NEARDUP_FSYNC": rng.choice(("always", "everysec", "no")),
            "DOWNLOAD_DELAY": rng.choice((0, 0.03)),  # then a round may take more than a second
        }
        return cls(folder, start, rng.choice(PLACES), rng.random() < 0.5, settings)

    @property
    def diary(self) -> Path:
        return self.folder / "diary"

    @property
    def feed(self) -> Path:
        return self.folder / "items.jsonl"

    @property
    def state_folder(self) -> Path:
        return self.folder / "job" / "neardup" if self.place == "job" else self.folder / "state"

    def begun(self, fault: tuple[faults.Fault, int] | None = None) -> Child:
        """A process that crawls until the end, whatever it is."""
        where = {} if self.place == "state" else {"JOBDIR": str(self.folder / "job")}
        where |= {} if self.place == "job" else {"NEARDUP_STATE_DIR": str(self.state_folder)}
        feeds = {str(self.feed): {"format": "jsonlines"}} if self.has_feed else {}
        # Ticks are written beside the folder: no fault strikes at them.
        here = {"DIARY": str(self.diary), "TICKED": f"{self.folder}-ticks", "FEEDS": feeds}
        below = None if fault is None else (self.folder, *fault)
        log = self.folder / "log"
        return Child(log, crawl, self.settings | where | here, self.start, below)

    def round(self, rng: random.Random, max_pages: float) -> None:
        """Crawl on; end it at a random moment if it has not finished by itself."""
        self.was_hindered = False
        if faults.LOADED in os.environ and rng.random() < 0.6 and max_pages < float("inf"):
            self.faulty_round(rng)
        else:
            self.ended_round(rng, max_pages)

    def faulty_round(self, rng: random.Random) -> None:
        """Crawl on; let something happen at a single call."""
        fault = faults.chosen(rng)
        child = self.begun(fault)
        was_killed = child.end("")
        is_kill = fault[0] in faults.KILLS
        self.was_hindered = not is_kill
        self.ends[fault[0].name if was_killed or not is_kill else ""] += 1

    def ended_round(self, rng: random.Random, max_pages: float) -> None:
        """Crawl on; end it by signals."""
        child = self.begun()
        # A count of pages, not a time: a busy machine shall not kill crawls that never began.
        pages = rng.uniform(0, max_pages)
        if child.has_ended(SILENCE_S, pages) or child.has_ended(rng.uniform(0, 0.03)):
            how = ""
        else:
            (how,) = rng.choices(list(ENDS), list(ENDS.values()))
        child.end(how)
        self.ends[how] += 1

    def check_again(self, site: Site) -> Counter[str]:
        """What a crash costs has a bound; how much it was so far. Raises AssertionError."""
        rounds = rounds_of(self.diary.read_text().splitlines(), site.asked())
        return check_refetched(rounds, self.place == "job") + check_repeated(rounds)

    @property
    def is_finished(self) -> bool:
        if self.was_hindered or not self.diary.exists():
            return False
        return self.diary.read_text().endswith("closed finished\n")


def run(campaign: Campaign, rng: random.Random, site: Site, reference: set[str]) -> Counter[str]:
    """Kill and resume until the crawl finishes; what its diary counts. Raises AssertionError.

    reference: keys of what a crawl fetches that follows every link.
    """
    campaign.folder.mkdir()
    site.forget()
    while not campaign.is_finished:
        assert campaign.ends.total() < MAX_ROUNDS + 5, "the crawl does not finish"
        Diary(campaign.diary).write("round", now())
        campaign.round(rng, MAX_PAGES if campaign.ends.total() < MAX_ROUNDS else float("inf"))
        if campaign.was_hindered:
            Diary(campaign.diary).write("hindered")
        check_state(campaign.state_folder)
        n_again = campaign.check_again(site)
    lines = campaign.diary.read_text().splitlines()
    counts = check_diary(lines, site.plan)
    if campaign.settings["NEARDUP_FOLLOW_DUPLICATES"]:
        missed = reference - set(keys_fetched(lines))
        assert not missed, f"never fetched: {missed}"
    counts += n_again
    return counts + check_feed(campaign.feed, site.plan) if campaign.has_feed else counts


def reference_of(site: Site, root: Path) -> set[str]:
    """The keys of the site's listed pages, as far as a crawl fetches them that nothing ends."""
    campaign = Campaign(root / "reference", site.start, "state", False)
    campaign.settings["NEARDUP_FOLLOW_DUPLICATES"] = True
    campaign.folder.mkdir()
    campaign.begun().end("")
    fetched = keys_fetched(campaign.diary.read_text().splitlines())
    return {key for key, path in fetched.items() if path in site.plan.pages}


def main() -> None:
    from tests import crash_pairs  # which is made of this module's parts

    parser = argparse.ArgumentParser(prog="python -m tests.crash", description=__doc__)
    parser.add_argument("--rounds", type=int, default=100, help="crawls to end before their time")
    parser.add_argument("--seed", type=int, default=random.randrange(2**32), help="of the moments")
    parser.add_argument("--pairs", type=int, help="campaigns of two crawls; by default rounds / 15")
    parser.add_argument("--model", action="store_true", help="replay a model of a file system")
    parser.add_argument("--lives", type=int, default=20, help="of states under --model")
    options = parser.parse_args()
    if faults.IS_POSSIBLE and faults.LOADED not in os.environ and not options.model:
        command = [sys.executable, "-m", "tests.crash", *sys.argv[1:]]
        os.execve(sys.executable, command, faults.preloaded())  # noqa: S606  # no shell wanted
    say(f"seed {options.seed}")
    if options.model:
        say(f"every promise kept: {dict(crash_model.run(options.lives, options.seed))} crashes")
        return
    rng, begin = random.Random(options.seed), time.monotonic()
    root = Path(tempfile.mkdtemp(prefix="neardup-crash-"))
    site = Site(root)
    ends: Counter[str] = Counter()
    totals: defaultdict[str, Counter[str]] = defaultdict(Counter)  # by place
    try:
        reference = reference_of(site, root)
        while ends.total() - ends[""] < options.rounds:
            campaign = Campaign.drawn(root / "crawl", site.start, rng)
            counts = run(campaign, rng, site, reference)
            ends += campaign.ends
            totals[campaign.place] += counts
            kind = campaign.place, campaign.has_feed, *campaign.settings.values()
            say(*kind, dict(campaign.ends), dict(counts))
            shutil.rmtree(campaign.folder)
        n_pairs = options.rounds // 15 if options.pairs is None else options.pairs
        for number in range(n_pairs):
            pair = root / f"pair-{number}"
            say("pair", dict(crash_pairs.run(pair, site.start, rng, site.plan, reference)))
            shutil.rmtree(pair)
    finally:
        site.child.end("SIGKILL")
    shutil.rmtree(root)
    for place, total in totals.items():
        say(place, {key: total[key] for key in TOLD})
    say(f"no page lost: {dict(ends)} in {time.monotonic() - begin:.0f} s")


if __name__ == "__main__":
    main()
