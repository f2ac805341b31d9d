"""The compose file's parts, as far as they run without containers."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from fleets import RunningServer, wait_until
from mock_site import MockSite, Reply, page, prose, running_site

pytest.importorskip("redis", reason="the extra `redis` is not installed")

from scrapy_neardup.fleet.operations import Operator
from scrapy_neardup.report.metrics import metric_of
from scrapy_neardup.stats import DOCS

FOLDER = Path(__file__).resolve().parents[1] / "docs" / "examples" / "fleet"


def test_the_dashboard_asks_for_metrics_that_there_are() -> None:
    text = (FOLDER / "grafana.json").read_text()
    asked = set(re.findall(r"\b((?:neardup|scrapy)_\w+)\{", text))
    assert len(asked) > 15
    ours = {metric_of(stat.replace("{}", "x"))[0] for stat in DOCS}
    assert asked <= ours | {"scrapy_downloader_response_count"}
    assert len(json.loads(text)["panels"]) == 8


def test_the_compose_file_mounts_files_that_there_are() -> None:
    text = (FOLDER / "compose.yaml").read_text()
    mounted = re.findall(r"\./([\w.-]+):", text)
    assert len(mounted) == 4
    assert all((FOLDER / name).is_file() for name in (*mounted, "worker.py"))


class Waiting(MockSite):
    """Answers once three workers take part: one that starts behind the others' end reads the start
    page again."""

    fleet: Operator
    is_open = False

    def reply(self, method: str, path: str, cookie: str, body: bytes) -> Reply:
        with self._lock:
            if not self.is_open:
                wait_until(lambda: [q.busy + q.idle for q in self.fleet.status().queues] == [3])
                self.is_open = True
        return super().reply(method, path, cookie, body)


@pytest.fixture
def waiting_site(server: RunningServer) -> Iterator[Waiting]:
    with running_site(Waiting) as site:
        site.fleet = Operator(server.url, "neardup")
        yield site
        site.fleet.close()


def test_three_workers_of_the_example_keep_each_page_once(
    server: RunningServer, waiting_site: Waiting, tmp_path: Path
) -> None:
    links = [waiting_site.url(f"/page/{n}") for n in range(20)]
    root = waiting_site.add("/root", page(prose("root"), *links))
    environment = {"START": root, "NEARDUP_BACKEND": server.url, "ITEMS": str(tmp_path)}
    environment |= {"METRICS_PORT": "0"}
    workers = [
        subprocess.Popen(
            [sys.executable, str(FOLDER / "worker.py")],
            env=os.environ | environment,
            stderr=subprocess.PIPE,
            text=True,
        )
        for _ in range(3)
    ]
    logs = [worker.communicate(timeout=300)[1] for worker in workers]
    kept = [
        json.loads(line)["url"]
        for file in tmp_path.glob("*.jsonl")
        for line in file.read_text().splitlines()
    ]
    # A worker that begins only when the others are done reads the start page again.
    again = [url for url in kept if url == root][1:3]
    assert sorted(kept) == sorted([root, *links, *again]), logs
    assert [worker.returncode for worker in workers] == [0, 0, 0]
    assert all("neardup: metrics at http://0.0.0.0:" in log for log in logs)


def test_a_worker_of_the_example_that_is_refused_ends_as_failed(tmp_path: Path) -> None:
    """So that what runs it starts it again."""
    environment = {"START": "http://127.0.0.1:9/", "ITEMS": str(tmp_path), "METRICS_PORT": "0"}
    environment |= {"NEARDUP_BACKEND": "redis://127.0.0.1:1/0"}  # where no server is
    done = subprocess.run(
        [sys.executable, str(FOLDER / "worker.py")],
        env=os.environ | environment,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert done.returncode == 1
    assert "NEARDUP_BACKEND does not answer" in done.stderr
