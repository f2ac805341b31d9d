"""JOBDIR: where a job's state is, and what to do with the queue that its crash left behind."""

from __future__ import annotations

import logging
import shutil
from pathlib import Path

from scrapy.crawler import Crawler
from scrapy.utils.job import job_dir

from scrapy_neardup.settings import NearDupSettings

logger = logging.getLogger(__name__)


def set_queue_aside(folder: Path | None, crawler: Crawler) -> None:
    """Do without the queue that a crash left in JOBDIR, if the state is that job's own.

    Scrapy can neither trust nor always open it (queuelib writes its sizes in close() only).
    The pages that led to what waited in it are not done, so that all of it is found again.
    """
    job = job_dir(crawler.settings)
    queue = Path(job or "") / "requests.queue"
    if job is None or folder != Path(job) / "neardup" or not queue.exists():
        return
    aside = queue.with_name("requests.queue.crashed")
    shutil.rmtree(aside, ignore_errors=True)
    queue.rename(aside)
    queue.mkdir()  # where Scrapy's scheduler, which is made already, writes what it queues
    logger.warning(
        "neardup: the last crawl of %s crashed. Its queue of requests is now %s; what waited in it "
        "is found again on the pages that led to it",
        job,
        aside.name,
    )


def state_folder(settings: NearDupSettings, crawler: Crawler) -> Path | None:
    """NEARDUP_STATE_DIR, or a folder in JOBDIR, or none."""
    if settings.state_dir:
        return Path(settings.state_dir)
    job = job_dir(crawler.settings)
    return Path(job) / "neardup" if job else None
