"""The frontier: queues of requests in one file, and what of them outlives a crash."""

import random
import shutil
import sqlite3
import tempfile
import tracemalloc
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from scrapy_neardup.errors import StateError
from scrapy_neardup.state.frontier import CHUNK, Frontier, RowQueue
from scrapy_neardup.state.frontier_file import count_requests, examine
from scrapy_neardup.state.mac import REQUEST, mac_of

# What makes a file one of the version that keeps no last commit.
AN_EARLIER_VERSION = "DROP TABLE last_commit; PRAGMA user_version = 3;"


def numbered(number: int) -> bytes:
    return b"request %d" % number


def filled(path: Path, n_requests: int, newest_first: bool) -> tuple[Frontier, RowQueue]:
    frontier = Frontier(path)
    queue = frontier.queue("0", newest_first)
    for number in range(n_requests):
        queue.push(numbered(number), "")
    return frontier, queue


def closed_with_three(folder: Path) -> Path:
    """The file of a frontier in which three requests wait."""
    frontier, queue = filled(folder / "f", 3, newest_first=True)
    queue.close()
    frontier.close()
    return frontier.path


def popped(queue: RowQueue) -> list[bytes]:
    requests = []
    while (row := queue.pop()) is not None:
        requests.append(row.request)
    return requests


def copy_of(path: Path, to: Path) -> Path:
    """The files as a crash would leave them now."""
    for file in path.parent.glob(path.name + "*"):
        shutil.copy(file, to.with_name(file.name.replace(path.name, to.name)))
    return to


@pytest.mark.parametrize("newest_first", [False, True])
@pytest.mark.parametrize("reopened", [False, True])
def test_requests_come_in_the_order_of_their_pushes_or_the_other_way_round(
    tmp_path: Path, newest_first: bool, reopened: bool
) -> None:
    frontier, queue = filled(tmp_path / "f", 10 * CHUNK, newest_first)
    if reopened:
        queue.close()
        frontier.close()
        frontier = Frontier(tmp_path / "f")
        queue = frontier.queue("0", newest_first)
    assert len(queue) == 10 * CHUNK
    requests = [numbered(number) for number in range(10 * CHUNK)]
    assert popped(queue) == (requests[::-1] if newest_first else requests)
    frontier.release()


def test_what_was_taken_and_not_done_waits_again_after_a_crash(tmp_path: Path) -> None:
    frontier, queue = filled(tmp_path / "f", 3, newest_first=True)
    frontier.flush()
    done, under_way = queue.pop(), queue.pop()
    assert done is not None
    assert under_way is not None
    frontier.done(done.id)
    frontier.flush()
    crashed = Frontier(copy_of(tmp_path / "f", tmp_path / "g"))
    assert popped(crashed.queue("0", newest_first=True)) == [numbered(1), numbered(0)]
    assert crashed.is_reopened(under_way.id)
    for one in (frontier, crashed):
        one.release()


def test_a_request_counts_as_kept_only_when_its_commit_has_succeeded(tmp_path: Path) -> None:
    frontier, queue = filled(tmp_path / "f", 1, newest_first=True)
    first = frontier.batch
    assert frontier.commit() == []  # begins
    queue.push(b"later", "")
    assert frontier.batch > first
    assert frontier.flush() == [first, first + 1]
    crashed = Frontier(copy_of(tmp_path / "f", tmp_path / "g"))
    assert len(crashed.queue("0", newest_first=True)) == 2
    for one in (frontier, crashed):
        one.release()


def test_a_full_disk_is_said_once_and_written_to_again_when_there_is_room(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    frontier, queue = filled(tmp_path / "f", 5, newest_first=True)
    frontier._db.execute("PRAGMA max_page_count = 5")  # SQLite's own full disk
    queue.push(bytes(100_000), "")
    assert frontier.flush() == []
    queue.push(b"more", "")
    assert frontier.flush() == []
    assert frontier.errors == 2
    assert caplog.text.count("cannot be written") == 1
    assert len(queue) == 7
    frontier._db.execute("PRAGMA max_page_count = 1000")
    assert frontier.flush() == [1, 2, 3]
    crashed = Frontier(copy_of(tmp_path / "f", tmp_path / "g"))
    assert len(crashed.queue("0", newest_first=True)) == 7
    for one in (frontier, crashed):
        one.release()


@pytest.mark.parametrize("newest_first", [True, False])
def test_memory_does_not_grow_with_what_waits(tmp_path: Path, newest_first: bool) -> None:
    frontier = Frontier(tmp_path / "f")
    queue = frontier.queue("0", newest_first=newest_first)

    def push(n: int) -> None:
        for number in range(n):
            queue.push(number.to_bytes(1_000), "")
            if number % 100 == 99:
                frontier.flush()

    push(500)
    tracemalloc.start()
    push(5_000)
    grown, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert grown < 5_000 * 1_000 / 20
    frontier.release()


def test_memory_holds_a_part_of_what_waits(tmp_path: Path) -> None:
    frontier, queue = filled(tmp_path / "f", 0, newest_first=True)
    for _ in range(20):
        for number in range(CHUNK):
            queue.push(numbered(number), "")
        frontier.flush()
    queue.push(b"last", "")
    assert len(queue._next) <= 2 * CHUNK
    assert len(queue) == 20 * CHUNK + 1
    assert len(popped(queue)) == 20 * CHUNK + 1
    frontier.release()


@pytest.mark.parametrize("n_left", [0, 1])
def test_a_file_without_requests_may_be_removed(tmp_path: Path, n_left: int) -> None:
    frontier, queue = filled(tmp_path / "f", 3, newest_first=True)
    while len(queue) > n_left and (row := queue.pop()) is not None:
        frontier.done(row.id)
    assert frontier.close() is (n_left == 0)
    frontier.remove()
    assert not list(tmp_path.iterdir())


def test_a_file_that_is_no_database_is_refused(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(bytes(range(256)) * 40)
    with pytest.raises(StateError, match="cannot be opened"):
        Frontier(tmp_path / "f")


def test_a_file_of_another_version_is_refused(tmp_path: Path) -> None:
    db = sqlite3.connect(tmp_path / "f")
    db.execute("PRAGMA user_version = 9")
    db.close()
    with pytest.raises(StateError, match="version 9 found, 4 expected"):
        Frontier(tmp_path / "f")


def stored(path: Path) -> sqlite3.Connection:
    return sqlite3.connect(path, isolation_level=None)


def test_a_request_that_somebody_without_the_key_wrote_does_not_leave_the_file(
    tmp_path: Path,
) -> None:
    frontier, queue = filled(tmp_path / "f", 2, newest_first=True)
    queue.close()
    frontier.close()
    with pytest.raises(StateError, match="was not written under this folder's key"):
        Frontier(tmp_path / "f", key=1)
    planted = numbered(1) + mac_of(1, REQUEST, (2).to_bytes(8, "little"), numbered(1))
    with closing(stored(tmp_path / "f")) as db:
        db.execute("UPDATE requests SET request = ? WHERE id = 2", (planted,))
    reopened = Frontier(tmp_path / "f")
    queue = reopened.queue("0", newest_first=True)
    for take in (queue.peek, queue.pop):
        with pytest.raises(StateError, match=r"request 2 in .* was not written under"):
            take()
    assert queue.pop() == (1, numbered(0))
    reopened.release()


@pytest.mark.parametrize("changed", ["request || x'00'", "substr(request, 2)", "x''", "7"])
def test_a_request_that_changed_does_not_leave_the_file(tmp_path: Path, changed: str) -> None:
    frontier, queue = filled(tmp_path / "f", 3, newest_first=True)
    queue.close()
    frontier.close()
    with closing(stored(tmp_path / "f")) as db:
        db.execute(f"UPDATE requests SET request = {changed} WHERE id = 2")  # noqa: S608
        db.execute("UPDATE requests SET id = 9 WHERE id = 3")  # sound, in another place
    reopened = Frontier(tmp_path / "f")
    queue = reopened.queue("0", newest_first=True)
    for number in (9, 2):
        with pytest.raises(StateError, match=f"request {number} in .*repair"):
            queue.pop()
    assert queue.pop() == (1, numbered(0))
    assert queue.pop() is None
    reopened.release()


def test_a_file_of_an_earlier_version_opens_and_tells_its_commits_from_then_on(
    tmp_path: Path,
) -> None:
    path = closed_with_three(tmp_path)
    with closing(stored(path)) as db:
        db.executescript(AN_EARLIER_VERSION)
    assert examine(path, key=0) == (3, None)
    with pytest.raises(StateError, match="ends before its first commit"):
        Frontier(path, commit=1)
    frontier = Frontier(path)
    queue = frontier.queue("0", newest_first=True)
    queue.push(numbered(3), "")
    assert frontier.flush() == [1]
    frontier.release()
    reopened = Frontier(path, commit=1)
    assert popped(reopened.queue("0", newest_first=True)) == [numbered(n) for n in (3, 2, 1, 0)]
    reopened.release()


def left_by_a_kill(folder: Path) -> tuple[Path, int]:
    """A file and its log, and the number of the last commit."""
    frontier, queue = filled(folder / "f", 0, newest_first=True)
    for number in range(20):
        queue.push(numbered(number), "")
        frontier.flush()
    copy = copy_of(folder / "f", folder / "g")
    frontier.release()
    return copy, 20


def flipped(data: bytes, at: float) -> bytes:
    """With one bit changed, so far from the beginning (0) to the end (1)."""
    byte = int(at * (len(data) - 1))
    return data[:byte] + bytes([data[byte] ^ 4]) + data[byte + 1 :]


@pytest.mark.parametrize("at", [0, 0.3, 0.7, 1])
@pytest.mark.parametrize("way", [flipped, lambda log, at: log[: int(at * (len(log) - 1))]])
def test_a_log_that_is_damaged_is_told_from_an_older_file(
    tmp_path: Path, at: float, way: Callable[[bytes, float], bytes]
) -> None:
    path, commit = left_by_a_kill(tmp_path)
    assert examine(path, 0, commit) == (20, None)
    log = tmp_path / "g-wal"
    log.write_bytes(way(log.read_bytes(), at))
    damage = examine(path, 0, commit).damage
    assert damage is not None
    assert f"because of its commit {commit}" in damage
    with pytest.raises(StateError, match="scrapy neardup repair"):
        Frontier(path, commit=commit)


@pytest.mark.parametrize("left", [b"", b"S", None])
def test_a_file_that_is_empty_or_gone_is_refused_where_pages_count_on_it(
    tmp_path: Path, left: bytes | None
) -> None:
    path = tmp_path / "f"
    if left is not None:
        path.write_bytes(left)
    assert examine(path, 0, commit=7).damage is not None
    with pytest.raises(StateError, match="scrapy neardup repair"):
        Frontier(path, commit=7)


@pytest.mark.parametrize("ahead", [0, 1, 19])
def test_a_kill_before_a_commit_is_on_record_elsewhere_costs_nothing(
    tmp_path: Path, ahead: int
) -> None:
    path, commit = left_by_a_kill(tmp_path)
    frontier = Frontier(path, commit=commit - ahead)
    assert frontier.n_rows == 20
    frontier.queue("0", newest_first=True).push(b"more", "")
    assert frontier.flush() == [commit + 1]
    frontier.release()
    assert examine(path, 0, commit + 1) == (21, None)


@pytest.mark.parametrize(
    "change",
    [
        "DELETE FROM requests WHERE id = 2",
        "UPDATE last_commit SET number = 99",
        "UPDATE last_commit SET n_requests = 'many'",
        "DELETE FROM last_commit",
        "INSERT INTO last_commit SELECT * FROM last_commit",
        "UPDATE queues SET slot = 'elsewhere'",
        "DELETE FROM queues",
    ],
)
def test_commits_that_somebody_else_made_are_refused(tmp_path: Path, change: str) -> None:
    frontier, queue = filled(tmp_path / "f", 3, newest_first=True)
    queue.close()
    frontier.close()
    with closing(stored(tmp_path / "f")) as db:
        db.execute(change)
    assert examine(tmp_path / "f", key=0).damage is not None
    with pytest.raises(StateError, match="scrapy neardup repair"):
        Frontier(tmp_path / "f")


@pytest.mark.parametrize("is_earlier", [False, True])
@pytest.mark.parametrize(
    "change",
    [
        "UPDATE queues SET name = '1'",
        "UPDATE queues SET name = CAST(x'B0' AS TEXT)",
        "UPDATE queues SET slot = CAST(x'B0' AS TEXT)",
        "UPDATE queues SET id = id + 1",
        "UPDATE requests SET queue = queue + 1 WHERE id = 2",
    ],
)
def test_a_queue_that_nobody_could_open_is_damage(
    tmp_path: Path, change: str, is_earlier: bool
) -> None:
    path = closed_with_three(tmp_path)
    with closing(stored(path)) as db:
        if is_earlier:
            db.executescript(AN_EARLIER_VERSION)
        assert examine(path).damage is None
        db.execute(change)
    damage = examine(path).damage  # without the key, too
    assert damage is not None
    assert "queue" in damage
    with pytest.raises(StateError, match="scrapy neardup repair"):
        Frontier(path)


def test_an_index_that_does_not_fit_its_table_is_refused(tmp_path: Path) -> None:
    path = closed_with_three(tmp_path)
    with closing(stored(path)) as db:
        pages = "SELECT rootpage FROM sqlite_master WHERE name = 'requests_by_queue'"
        (page,) = db.execute(pages).fetchone()
    data = bytearray(path.read_bytes())
    data[page * 4096 - 3] ^= 4  # in the queue of a row, which stands last in the page
    path.write_bytes(data)
    assert examine(path).damage is not None
    with pytest.raises(StateError, match="scrapy neardup repair"):
        Frontier(path)


def test_a_file_whose_making_a_crash_cut_short_is_sound_and_opens(tmp_path: Path) -> None:
    """With the rollback journal of the step that makes it a WAL."""
    path = tmp_path / "f"
    db = sqlite3.connect(path, isolation_level=None)
    db.execute("PRAGMA journal_mode = WAL")
    db.execute("PRAGMA journal_mode = DELETE")
    db.execute("PRAGMA cache_spill = 1")
    db.execute("PRAGMA cache_size = 1")
    db.execute("BEGIN")
    db.execute("CREATE TABLE big (data BLOB)")
    for _ in range(9):
        db.execute("INSERT INTO big VALUES (zeroblob(9000))")
    copy = copy_of(path, tmp_path / "g")
    db.close()
    assert list(tmp_path.glob("g-journal"))
    assert examine(copy) == (0, None)
    assert count_requests(copy) == 0
    assert Frontier(copy).n_rows == 0


class Crashes(RuleBasedStateMachine):
    """Two queues, pushed and popped at random, crashed at random, against plain deques."""

    @initialize()
    def begin(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="neardup-frontier-"))
        self.number = self.n_crashes = 0
        # As a crash would leave it: (queue, request) by row; and as it is now.
        self.committed: dict[int, tuple[bool, bytes]] = {}
        self.rows: dict[int, tuple[bool, bytes]] = {}
        self.out: set[int] = set()
        self.open()

    def open(self) -> None:
        self.frontier = Frontier(self.folder / f"f{self.n_crashes}")
        self.queues = {way: self.frontier.queue(str(way), way) for way in (False, True)}

    @rule(way=st.booleans(), n=st.integers(1, 2 * CHUNK))
    def push(self, way: bool, n: int) -> None:
        for _ in range(n):
            self.number += 1
            self.queues[way].push(numbered(self.number), "")
            self.rows[self.frontier._last] = (way, numbered(self.number))

    @rule(way=st.booleans(), n=st.integers(1, 2 * CHUNK))
    def pop(self, way: bool, n: int) -> None:
        for _ in range(n):
            waiting = [row for row in self.rows if self.rows[row][0] is way and row not in self.out]
            found = self.queues[way].pop()
            if not waiting:
                assert found is None
                return
            expected = max(waiting) if way else min(waiting)
            assert found == (expected, self.rows[expected][1])
            self.out.add(expected)

    @rule(data=st.randoms(use_true_random=False))
    def done(self, data: random.Random) -> None:
        for row in [row for row in self.out if data.random() < 0.5]:
            self.frontier.done(row)
            self.out.discard(row)
            del self.rows[row]

    @rule()
    def commit(self) -> None:
        self.frontier.flush()
        self.committed = dict(self.rows)

    @rule()
    def crash(self) -> None:
        old = self.folder / f"f{self.n_crashes}"
        self.n_crashes += 1
        copy_of(old, self.folder / f"f{self.n_crashes}")
        self.frontier.release()
        self.rows, self.out = dict(self.committed), set()
        self.open()

    @invariant()
    def lengths(self) -> None:
        for way, queue in getattr(self, "queues", {}).items():
            waiting = [row for row in self.rows if self.rows[row][0] is way and row not in self.out]
            assert len(queue) == len(waiting)

    def teardown(self) -> None:
        if hasattr(self, "frontier"):
            self.frontier.release()
            shutil.rmtree(self.folder)


Crashes.TestCase.settings = hypothesis_settings(
    max_examples=40, stateful_step_count=25, deadline=None
)
TestCrashes = Crashes.TestCase
