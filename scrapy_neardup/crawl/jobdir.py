"""JOBDIR: where a job's state is, and what queue of requests it goes on with."""

from __future__ import annotations

import json
import logging
import shutil
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from scrapy.crawler import Crawler
from scrapy.pqueues import DownloaderAwarePriorityQueue, _path_safe
from scrapy.utils.job import job_dir

from scrapy_neardup.crawl.configured import priorities_of, uses_frontier
from scrapy_neardup.crawl.queues.pickle_queues import DamagedQueue, read_queue
from scrapy_neardup.errors import SettingsError, StateError
from scrapy_neardup.settings import NearDupSettings
from scrapy_neardup.state import State
from scrapy_neardup.state.files import write_atomically
from scrapy_neardup.state.frontier import Frontier
from scrapy_neardup.state.frontier_file import NAME, count_requests, require_whole
from scrapy_neardup.state.lock import FolderLock

logger = logging.getLogger(__name__)

ACTIVE = "active.json"  # in which Scrapy keeps which queues it has, from a clean stop to the next
COPIED_AT_ONCE = 10_000  # requests of an old queue that are in memory together


def state_folder(settings: NearDupSettings, crawler: Crawler) -> Path | None:
    """NEARDUP_STATE_DIR, or a folder in JOBDIR, or none."""
    if settings.state_dir:
        return Path(settings.state_dir)
    job = job_dir(crawler.settings)
    return Path(job) / "neardup" if job else None


def is_of_job(folder: Path | None, crawler: Crawler) -> bool:
    """Whether a state folder is that of the crawl's JOBDIR."""
    job = job_dir(crawler.settings)
    return job is not None and folder == Path(job) / "neardup"


def queue_folder(crawler: Crawler) -> Path:
    """Where Scrapy keeps the queue of a job."""
    return Path(job_dir(crawler.settings) or "") / "requests.queue"


def open_frontier(folder: Path, crawler: Crawler, state: State) -> Frontier | None:
    """The frontier of a job, with what waits in it; None where the job has queues of its own.

    A queue of Scrapy's is taken over, or set aside if it cannot be relied on: then what the
    state says is under way is forgotten. Raises StateError, SettingsError.
    """
    path = folder / NAME
    if not uses_frontier(crawler):
        require_whole(path, state.key, state.frontier_commit)
        refuse_to_leave(path)
        if state.crashed:
            set_queue_aside(crawler)
            state.under_way = None
        return None
    frontier = Frontier(path, state.key, state.frontier_commit)
    try:
        if not take_over_queue(frontier, crawler, state.crashed):
            state.under_way = None
        write_active(frontier, crawler)
    except BaseException:
        frontier.release()
        raise
    return frontier


class ForeignJob:
    """A JOBDIR whose state is elsewhere: locked, and marked as long as its crawl has not ended.

    The state cannot say whether the last crawl of this job crashed: others use it, too.
    """

    def __init__(self, job: Path) -> None:
        """Raises StateLocked where another crawl has the job; SettingsError where requests of it
        wait in a frontier; OSError.
        """
        job.mkdir(parents=True, exist_ok=True)
        refuse_to_leave(job / "neardup" / NAME)
        self._lock = FolderLock(job)
        self._mark = job / "neardup.running"

    def begin(self, crawler: Crawler, state: State) -> None:
        """Go on with Scrapy's queue, or set it aside if a crash left it. Raises OSError."""
        if self._mark.exists():
            set_queue_aside(crawler)
            state.under_way = None
        write_atomically(self._mark, [])

    def end(self, cleanly: bool) -> None:
        """The crawl has ended, and Scrapy has written its queue. Raises OSError."""
        if cleanly:
            self._mark.unlink(missing_ok=True)

    def release(self) -> None:
        """Let others have the job."""
        self._lock.close()


def refuse_to_leave(path: Path) -> None:
    """Raise SettingsError if requests wait where this crawl does not look for them."""
    if path.exists() and (n_waiting := count_requests(path)):
        raise SettingsError(
            f"{n_waiting:,} requests of this job wait in {path}, and this crawl has a scheduler, a "
            f"queue or a state folder of its own. Go on without SCHEDULER, "
            f"SCHEDULER_PRIORITY_QUEUE, SCHEDULER_…DISK_QUEUE and NEARDUP_STATE_DIR, or set "
            f"another JOBDIR"
        )


def set_queue_aside(crawler: Crawler) -> None:
    """Do without a queue of Scrapy's that a crash left in JOBDIR.

    It can neither be trusted nor always opened (queuelib writes its sizes in close() only). The
    pages that led to what waited in it are not done, so that all of it is found again.
    """
    queue = queue_folder(crawler)
    if not queue.exists() or not any(queue.iterdir()):
        return
    aside = queue.with_name("requests.queue.crashed")
    shutil.rmtree(aside, ignore_errors=True)
    queue.rename(aside)
    queue.mkdir()  # where Scrapy's scheduler, which is made already, writes what it queues
    logger.warning(
        "neardup: the last crawl of %s crashed. Its queue of requests is now %s; what waited in it "
        "is found again on the pages that led to it",
        queue.parent,
        aside.name,
    )


def take_over_queue(frontier: Frontier, crawler: Crawler, crashed: bool) -> bool:
    """Move what waits in Scrapy's queue files into the frontier; False if they were set aside."""
    folder = queue_folder(crawler)
    old = [path for path in folder.glob("*") if path.name != ACTIVE]
    if not any(path.is_file() for top in old for path in (top, *top.rglob("*"))):
        return True
    if crashed:
        set_queue_aside(crawler)
        return False
    try:
        for name, slot in queue_files(folder):
            copy_queue(folder / name, frontier, name, slot)
    except (DamagedQueue, OSError, ValueError) as error:
        logger.warning("neardup: %s", error)
        set_queue_aside(crawler)
        return False
    for path in old:
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    return True


def queue_files(folder: Path) -> Iterator[tuple[str, str]]:
    """Where Scrapy has queues after a clean stop: path in the folder, and downloader slot."""
    active = json.loads((folder / ACTIVE).read_bytes())
    if isinstance(active, dict):
        by_folder = [(f"{_path_safe(slot)}/", slot, found) for slot, found in active.items()]
    else:
        by_folder = [("", "", active)]
    for folder_name, slot, priorities in by_folder:
        for priority in priorities:
            yield from ((f"{folder_name}{priority}{kind}", slot) for kind in ("", "s"))


def copy_queue(path: Path, frontier: Frontier, name: str, slot: str) -> None:
    """Copy a queue file's requests. Raises DamagedQueue, OSError; StateError where the frontier
    cannot take them: then the queue stays, and no crawl starts that would not have them.
    """
    queue = frontier.queue(name, newest_first=True)
    for n_copied, request in enumerate(read_queue(path), 1):
        queue.push(request, slot)
        if n_copied % COPIED_AT_ONCE == 0:
            frontier.flush()
    queue.close()
    frontier.flush()
    if frontier.errors:
        raise StateError(f"the requests in {path} cannot be copied into {frontier.path}")


def write_active(frontier: Frontier, crawler: Crawler) -> None:
    """Tell Scrapy which queues there are: its own file is as old as the last clean stop.

    Raises SettingsError where requests wait in queues of another SCHEDULER_PRIORITY_QUEUE.
    """
    by_slot: defaultdict[str, set[int]] = defaultdict(set)
    by_slots = priorities_of(crawler) is DownloaderAwarePriorityQueue
    found = {by_slots}
    for name, slot in frontier.names():
        folder, _, last = name.rpartition("/")
        found.add(bool(folder))  # not slot: that of a request without a host is ""
        by_slot[slot if by_slots else ""].add(int(last.removesuffix("s")))
    if len(found) > 1:
        raise SettingsError(
            f"the requests in {frontier.path} were queued under another SCHEDULER_PRIORITY_QUEUE: "
            f"go on with that one, or set another JOBDIR"
        )
    lists = {slot: sorted(priorities) for slot, priorities in by_slot.items()}
    text = json.dumps(lists if by_slots else lists.get("", []))
    write_atomically(queue_folder(crawler) / ACTIVE, [text.encode()])
