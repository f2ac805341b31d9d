"""A model of a file system that forgets what was not synced, and the crashes it allows.

A state lives for a few crawls, some with guests, in a real folder while its calls of `os` are
recorded. A crash may come after any of them. A kill leaves all that was called; a loss of power
leaves what was synced, and of the rest any part: writes without the name, names without the writes,
zeros in place of data, the first half of a write, a later one without an earlier one. Each such
folder has to open, to know what was promised, to know nothing else, and never to pass for a clean
end. In the manner of ALICE (Pillai et al. 2014) and of SQLite's own crash tests.

    python -m tests.crash --model
"""

from __future__ import annotations

import logging
import os
import random
import shutil
import tempfile
import threading
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np

from scrapy_neardup.factory import make_state_factory
from scrapy_neardup.settings import NearDupSettings
from scrapy_neardup.state import State, row_files
from scrapy_neardup.state.recovery import numbers
from tests.mock_site import prose

SETTINGS = NearDupSettings(index="scan", engine="numpy", url_filter="exact", url_capacity=100)
POLICIES = ("always", "everysec", "no")
FOLDER = "state"
N_CRAWLS, N_STEPS = 4, 7  # of a life: crawls, and what happens in each

Node = int  # a file or folder, whatever its name
OWNER = 0  # who records in the folder's own journals; guests have numbers from 1 upwards


class Call(NamedTuple):
    """One call that changes the file system, or makes a change durable."""

    kind: Literal["link", "rename", "unlink", "write", "truncate", "sync"]
    folder: Node = 0  # of a name: the folder it is in
    name: str = ""
    node: Node = 0  # what the name means, or what is written, cut or synced
    old_name: str = ""
    offset: int = 0  # of a write; size of a cut
    data: bytes = b""

    @property
    def synced_by(self) -> Node:
        """What has to be synced for the call to be durable."""
        return self.folder if self.kind in ("link", "rename", "unlink") else self.node


class Event(NamedTuple):
    """Something the caller of the state could rely on after so many calls."""

    n_calls: int
    kind: str  # opening, opened, closing, closed, abandoned, damaged; began, seen; durable
    number: int = 0
    by: int = OWNER  # whose journal it is in


@dataclass
class Recording:
    """The calls of a life below a root folder, and what was promised when."""

    root: Path
    calls: list[Call] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    folders: set[Node] = field(default_factory=lambda: {0})
    pages: set[int] = field(default_factory=set)  # numbers whose pages are kept, too
    _ids: Iterator[Node] = field(default_factory=lambda: count(1))
    _nodes: dict[str, Node] = field(default_factory=dict)
    _sizes: Counter[Node] = field(default_factory=Counter)
    _opened: dict[int, Node] = field(default_factory=dict)  # file descriptor → node
    _lock: Any = field(default_factory=threading.RLock)

    def mark(self, kind: str, number: int = 0, by: int = OWNER) -> None:
        """Enter an event."""
        self.events.append(Event(len(self.calls), kind, number, by))

    def node(self, path: Any) -> Node | None:
        """The node of a path; None outside the root, or where there is none."""
        path = str(path)
        return 0 if path == str(self.root) else self._nodes.get(path)

    def made(self, path: Any, is_folder: bool) -> None:
        """A name was made."""
        node = next(self._ids)
        self.folders |= {node} if is_folder else set()
        self._name(Call("link", node=node), path)
        self._nodes[str(path)] = node

    def renamed(self, old: Any, new: Any) -> None:
        """A name was changed for another one of the same folder."""
        node = self._nodes.pop(str(old))
        self._name(Call("rename", node=node, old_name=Path(old).name), new)
        self._nodes[str(new)] = node

    def unlinked(self, path: Any) -> None:
        """A name was removed."""
        self._name(Call("unlink", node=self._nodes.pop(str(path))), path)

    def _name(self, call: Call, path: Any) -> None:
        folder = self.node(Path(path).parent)
        assert folder is not None
        self.calls.append(call._replace(folder=folder, name=Path(path).name))

    def written(self, node: Node, data: bytes) -> None:
        """Data were written to the end: nothing here writes elsewhere, but a pid over itself."""
        self.calls.append(Call("write", node=node, offset=self._sizes[node], data=data))
        self._sizes[node] += len(data)

    def cut(self, node: Node, size: int) -> None:
        """A file was made that long."""
        self.calls.append(Call("truncate", node=node, offset=size))
        self._sizes[node] = size

    @contextmanager
    def running(self) -> Iterator[None]:
        """Record what is called in here, in any thread."""
        real = {name: getattr(os, name) for name in CALLS}
        try:
            for name in CALLS:
                setattr(os, name, self._recorded(name, real[name]))
            yield
        finally:
            for name, function in real.items():
                setattr(os, name, function)

    def _recorded(self, name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **named: Any) -> Any:
            with self._lock:
                existed = name == "open" and os.path.exists(arguments[0])
                result = real(*arguments, **named)
                getattr(self, f"_{name}")(result, existed, *arguments)
                return result

        return call

    def _open(self, fd: int, existed: bool, path: Any, flags: int, *_: Any) -> None:
        if not str(path).startswith(str(self.root)):
            return
        if not existed:
            self.made(path, is_folder=False)
        node = self.node(path)
        assert node is not None, path
        self._opened[fd] = node
        if existed and flags & os.O_TRUNC:
            self.cut(node, 0)

    def _close(self, _: None, __: bool, fd: int) -> None:
        self._opened.pop(fd, None)

    def _write(self, written: int, _: bool, fd: int, data: Any) -> None:
        if fd in self._opened:
            self.written(self._opened[fd], bytes(data[:written]))

    def _ftruncate(self, _: None, __: bool, fd: int, size: int) -> None:
        if fd in self._opened:
            self.cut(self._opened[fd], size)

    def _fsync(self, _: None, __: bool, fd: int) -> None:
        if fd in self._opened:
            self.calls.append(Call("sync", node=self._opened[fd]))

    _fdatasync = _fsync

    def _replace(self, _: None, __: bool, old: Any, new: Any) -> None:
        if self.node(old) is not None:
            self.renamed(old, new)

    def _unlink(self, _: None, __: bool, path: Any) -> None:
        if self.node(path) is not None:
            self.unlinked(path)

    def _mkdir(self, _: None, __: bool, path: Any, *___: Any) -> None:
        if str(path).startswith(str(self.root)):
            self.made(path, is_folder=True)


CALLS = ("open", "close", "write", "ftruncate", "fsync", "fdatasync", "replace", "unlink", "mkdir")


# --- a life


def live(recording: Recording, policy: str, rng: random.Random) -> None:
    """A few crawls on one state, recorded, of which some crash and some find damage."""
    folder, number = recording.root / FOLDER, 0
    guests: dict[int, State] = {}  # which may outlive the crawl that they came to
    for crawl in range(1, N_CRAWLS + 1):
        recording.mark("opening")
        state = opened(folder, policy)
        recording.mark("opened")
        if rng.random() < 0.7:
            guests[crawl] = opened(folder, policy, as_guest=True)
        for _ in range(N_STEPS):
            by = rng.choice([OWNER, *guests])
            number = step(guests.get(by, state), recording, policy, rng, number, by)
        for by in [by for by in guests if rng.random() < 0.5]:
            guests.pop(by).close()
            recording.mark("durable", by=by)
        if rng.random() < 0.5:
            recording.mark("closing")
            state.close({"ids": np.arange(3)} if rng.random() < 0.5 else None)
            recording.mark("durable")
            recording.mark("closed")
        else:
            assert state.store is not None
            state.store.close()
            recording.mark("abandoned")
        if rng.random() < 0.5:
            recording.mark("damaged")
            damage(folder, policy, rng)
    for by, guest in guests.items():
        guest.close()
        recording.mark("durable", by=by)


def opened(folder: Path, policy: str, as_guest: bool = False) -> State:
    factory = make_state_factory(SETTINGS)
    return State.open(folder, factory, fsync=policy, as_guest=as_guest)  # type: ignore[arg-type]


def step(
    state: State, recording: Recording, policy: str, rng: random.Random, number: int, by: int
) -> int:
    """See a URL, keep a page, sync or, being the owner, take a snapshot; the next number."""
    what = rng.choice(("url", "url", "page", "sync", "snapshot"))
    if what in ("url", "page"):
        number += 1
        recording.mark("began", number)
        if what == "page":
            recording.pages.add(number)
            keep(state, number)
        else:
            see(state, number)
        recording.mark("seen", number, by)
        if policy == "always":
            recording.mark("durable", by=by)
    elif what == "sync" and policy == "everysec":
        assert state.store is not None
        assert state.store._journal is not None
        state.store._journal.sync()  # as its thread does each second
        recording.mark("durable", by=by)
    elif what == "snapshot" and by == OWNER:
        state.snapshot()
        assert state._writing is not None
        assert state._writing.result()
        recording.mark("durable")
    return number


def see(state: State, number: int) -> None:
    state.url_done(b"example.com/%d" % number)


def keep(state: State, number: int) -> None:
    """Keep the page of a number, which then counts as seen."""
    reading = state.detector.read(f"http://example.com/{number}", prose(number))
    page_id = state.decide(reading)[0].page_id
    assert page_id is not None
    state.keep(page_id)
    see(state, number)


def damage(folder: Path, policy: str, rng: random.Random) -> None:
    """What must cost no memory: garbage behind a journal, or a bad byte in the last snapshot."""
    snapshots = numbers(folder, "snapshot")
    # Under "no" the journals that would replace the snapshot may themselves be lost.
    if len(snapshots) > 1 and policy != "no" and rng.random() < 0.5:
        path = folder / f"snapshot-{snapshots[-1]}"
        data = bytearray(path.read_bytes())
        data[rng.randrange(len(data))] ^= 0x41
        flags = os.O_WRONLY | os.O_TRUNC
    else:
        path = folder / f"journal-{numbers(folder, 'journal')[-1]}"
        data, flags = bytearray(rng.randbytes(40)), os.O_WRONLY | os.O_APPEND
    fd = os.open(path, flags)
    os.write(fd, data)
    os.fsync(fd)
    os.close(fd)


# --- crashes


class Crash(NamedTuple):
    """How much of what was not durable is left; a share of 0 is nothing, 1 is all."""

    kind: str
    names: float = 1.0
    data: float = 1.0
    in_order: bool = False  # what is left came before all that is not
    zeros: bool = False  # a write may leave its length only


KILL = Crash("kill")
POWER = (
    Crash("power", 0, 0),
    Crash("power", 1, 0),
    Crash("power", 1, 0, zeros=True),
    Crash("power", 0, 1),
    Crash("power", 0.5, 0.5, in_order=True),
    Crash("power", 0.5, 0.5, zeros=True),
)


def left_by(calls: list[Call], crash: Crash, rng: random.Random) -> Iterator[Call]:
    """The calls whose effects a crash leaves, in their order."""
    synced: set[Node] = set()
    durable = [False] * len(calls)
    for i in reversed(range(len(calls))):
        if calls[i].kind == "sync":
            synced.add(calls[i].node)
        durable[i] = calls[i].synced_by in synced
    torn: set[Node] = set()  # nodes of which, in order, something is gone
    for call, is_durable in zip(calls, durable, strict=True):
        share = crash.names if call.kind in ("link", "rename", "unlink") else crash.data
        lost = call.synced_by in torn or not (is_durable or rng.random() < share or share == 1)
        if crash.kind == "kill" or not lost:
            yield call
        elif call.kind == "write":
            torn |= {call.node} if crash.in_order else set()
            yield from part_of(call, crash, rng)
        elif crash.in_order:
            torn.add(call.synced_by)


def part_of(call: Call, crash: Crash, rng: random.Random) -> Iterator[Call]:
    """What may be left of a write: nothing, its beginning, or zeros of its length."""
    if crash.zeros:
        yield call._replace(data=bytes(len(call.data)))
    elif crash.data and rng.random() < 0.5:
        yield call._replace(data=call.data[: rng.randrange(len(call.data) + 1)])


def build(calls: Iterator[Call], folders: set[Node], root: Path) -> None:
    """Make the folder that the calls leave behind."""
    names: dict[Node, dict[str, Node]] = {folder: {} for folder in folders}
    data: dict[Node, bytearray] = {}
    for call in calls:
        content = data.setdefault(call.node, bytearray())
        if call.kind in ("link", "rename"):
            names[call.folder].pop(call.old_name, None)
            names[call.folder][call.name] = call.node
        elif call.kind == "unlink":
            names[call.folder].pop(call.name, None)
        elif call.kind in ("write", "truncate"):
            end = call.offset + len(call.data)
            content.extend(bytes(max(0, end - len(content))))
            content[call.offset : end] = call.data
            if call.kind == "truncate":
                del content[call.offset :]
    make(names, data, 0, root)


def make(
    names: dict[Node, dict[str, Node]], data: dict[Node, bytearray], folder: Node, path: Path
) -> None:
    """Make one folder and what is in it."""
    for name, node in names[folder].items():
        if node in names:
            (path / name).mkdir()
            make(names, data, node, path / name)
        else:
            (path / name).write_bytes(data.get(node, b""))


# --- what must hold


class Promise(NamedTuple):
    """What a folder has to answer after a crash."""

    known: set[int]
    unknown: set[int]
    crashed: bool | None  # None: either


def promised(events: list[Event], n_calls: int, policy: str, crash: Crash) -> Promise:
    """What was promised when the crash came."""
    seen: defaultdict[int, set[int]] = defaultdict(set)  # by whom
    durable: set[int] = set()
    began: set[int] = set()
    crashed: bool | None = None
    for event in events:
        if event.n_calls > n_calls or (event.kind == "began" and event.n_calls == n_calls):
            break
        if event.kind == "began":
            began.add(event.number)
        elif event.kind == "seen":
            seen[event.by].add(event.number)
        elif event.kind == "durable":
            # A guest that ends under "no" syncs nothing.
            durable |= seen[event.by] if event.by == OWNER or policy != "no" else set()
        else:
            crashed = after(event.kind, crashed, policy, crash)
    known = set().union(*seen.values()) if crash is KILL else durable
    return Promise(known, set(range(1, 100)) - began, crashed)


def after(kind: str, crashed: bool | None, policy: str, crash: Crash) -> bool | None:
    """Whether a crash now has to be told from a clean end; None: it may, or may not."""
    if kind in ("opened", "abandoned"):
        return True
    if kind == "closed" and (crash is KILL or policy != "no"):
        return False
    # Opening what crashed leaves what crashed; damage to what was closed passes for a crash.
    return True if crashed and kind in ("opening", "damaged") else None


def check(folder: Path, promise: Promise, pages: set[int]) -> None:
    """The folder opens and keeps the promise. Raises AssertionError."""
    state = opened(folder, "no")
    try:
        for number in promise.known:
            assert b"example.com/%d" % number in state.urls, f"URL {number} was forgotten"
            assert number not in pages or knows(state, number), f"page {number} was forgotten"
        for number in promise.unknown:
            assert b"example.com/%d" % number not in state.urls, f"URL {number} was never seen"
        assert promise.crashed in (None, state.crashed), f"crashed is {state.crashed}"
        state.check()
    finally:
        assert state.store is not None
        state.store.close()


def knows(state: State, number: int) -> bool:
    """Whether a page with this text would be taken for a copy."""
    reading = state.detector.read("http://example.com/copy", prose(number))
    decision, is_new = state.decide(reading)
    if is_new and decision.page_id is not None:
        state.drop(decision.page_id)
    return decision.is_duplicate


@contextmanager
def row_files_of(min_bytes: int) -> Iterator[None]:
    """Let snapshots write rows to files of their own from so many bytes on."""
    real = row_files.MIN_BYTES
    try:
        row_files.MIN_BYTES = min_bytes
        yield
    finally:
        row_files.MIN_BYTES = real


@contextmanager
def without_syncs() -> Iterator[None]:
    """Checking a folder needs no disk."""
    real = os.fsync, os.fdatasync
    try:
        os.fsync = os.fdatasync = lambda fd: None
        yield
    finally:
        os.fsync, os.fdatasync = real


def replay(seed: int, policy: str, stride: int) -> Counter[str]:
    """Live one life and crash it after every `stride`-th call; how many folders were checked.

    Raises AssertionError, with a note on which crash it was.
    """
    counts: Counter[str] = Counter()
    rng = random.Random(f"{seed} {policy}")
    with tempfile.TemporaryDirectory(prefix="neardup-model-") as temporary:
        root = Path(temporary)
        (root / "life").mkdir()
        recording = Recording(root / "life")
        # Half of the lives have files of rows; else only snapshots of 64 MB would.
        with recording.running(), row_files_of(rng.choice((1, row_files.MIN_BYTES))):
            live(recording, policy, rng)
        n_calls = len(recording.calls)
        for n in range(rng.randrange(stride), n_calls + 1, stride):
            for crash in (KILL, *POWER):
                left = root / f"{n}-{counts.total()}"
                left.mkdir()
                build(left_by(recording.calls[:n], crash, rng), recording.folders, left)
                promise = promised(recording.events, n, policy, crash)
                try:
                    with without_syncs():
                        check(left / FOLDER, promise, recording.pages)
                except BaseException as error:
                    error.add_note(f"seed {seed}, {policy}, after call {n} of {n_calls}: {crash}")
                    raise
                shutil.rmtree(left)
                counts[crash.kind] += 1
    return counts


def run(n_lives: int, seed: int, stride: int = 1) -> Counter[str]:
    """Many lives under each policy; how many folders were checked. Raises AssertionError."""
    logging.disable(logging.WARNING)  # each recovery warns
    counts: Counter[str] = Counter()
    try:
        for life in range(n_lives):
            for policy in POLICIES:
                counts += replay(seed + life, policy, stride)
    finally:
        logging.disable(logging.NOTSET)
    return counts
