"""A real server on loopback for tests, and workers in processes of their own."""

import asyncio
import math
import os
import random
import shutil
import socket
import ssl
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory, mkdtemp
from threading import Event, Thread
from typing import Any

import pytest
from crawls import crawl_requests
from mock_site import MockSite, prose
from scrapy.statscollectors import MemoryStatsCollector
from scrapy.utils.test import get_crawler

from scrapy_neardup.detect.decision import Decision
from scrapy_neardup.factory import make_state_factory
from scrapy_neardup.fleet.worker import FleetWorker
from scrapy_neardup.settings import NearDupSettings
from scrapy_neardup.state import State

PROGRAM = shutil.which("valkey-server") or shutil.which("redis-server")
# How long an answer is waited for, in seconds: a machine with two cores may have much else to do.
PATIENCE_S = 60


class RunningServer:
    """A server on a free port of loopback, that can be killed and started again."""

    def __init__(self, program: str, tls: ssl.SSLContext | None = None, **options: object) -> None:
        """tls: how to talk to it, None for plain. options: of the server, _ for -; `sentinel` is
        the configuration of a server that is to be one."""
        self._sentinel = options.pop("sentinel", None)
        self._program, self._tls, self._options = program, tls, options
        self.port = free_port()
        self.url = f"redis://127.0.0.1:{self.port}/0"
        self.start()

    def start(self) -> None:
        port = "tls_port" if self._tls else "port"
        options: dict[str, object] = {"port": 0, "bind": "127.0.0.1"}
        options |= {} if self._sentinel else {"save": "", "appendonly": "no"}
        options |= {port: self.port} | self._options
        named = ((f"--{name.replace('_', '-')}", str(value)) for name, value in options.items())
        arguments = [part for pair in named for part in pair]
        arguments = [self._sentinel, "--sentinel", *arguments] if self._sentinel else arguments
        self.process = subprocess.Popen([self._program, *arguments], stdout=subprocess.DEVNULL)
        try:
            wait_until(self._answers)
        except BaseException:
            self.kill()
            raise

    def _answers(self) -> bool:
        try:
            return self.command("PING") != ""
        except OSError:
            return False

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def command(self, *words: str) -> str:
        """What redis-cli would print, roughly."""
        with self._connection() as connection:
            connection.sendall((" ".join(words) + "\r\n").encode())
            return connection.recv(2**16).decode()

    def _connection(self) -> socket.socket:
        plain = socket.create_connection(("127.0.0.1", self.port), 5)
        return self._tls.wrap_socket(plain, server_hostname="127.0.0.1") if self._tls else plain


class Listener:
    """Listens on a free port of the loopback."""

    def __init__(self, serve: Callable[[socket.socket], None]) -> None:
        """serve: is told of each connection."""
        self._serve = serve
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._threads = [Thread(target=self._accept)]
        self._sockets = [self._listener]
        self._threads[0].start()
        self.url = f"redis://127.0.0.1:{self._listener.getsockname()[1]}/0"

    def close(self) -> None:
        for one in self._sockets:
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()
        for thread in self._threads:
            thread.join()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                one = self._listener.accept()[0]
                self._sockets.append(one)
                self._serve(one)

    def _start(self, target: Callable[..., None], *args: object) -> None:
        self._threads.append(Thread(target=target, args=args))
        self._threads[-1].start()


class Wire(Listener):
    """The network between a worker and a server: bytes pass, or vanish while it is cut.

    A connection breaks on which more than `most` bytes come one way without an answer.
    """

    def __init__(self, port: int, most: float = math.inf) -> None:
        self._whole, self._target, self._most = Event(), port, most
        self._n_bytes: Counter[socket.socket] = Counter()
        self._whole.set()
        super().__init__(self._connect)

    def cut(self) -> None:
        self._whole.clear()

    def mend(self) -> None:
        self._whole.set()

    def _connect(self, one: socket.socket) -> None:
        far = socket.create_connection(("127.0.0.1", self._target))
        self._sockets.append(far)
        for pair in ((one, far), (far, one)):
            self._start(self._pass_on, *pair)

    def _pass_on(self, source: socket.socket, target: socket.socket) -> None:
        with suppress(OSError):
            while (data := source.recv(2**16)) and self._n_bytes[source] <= self._most:
                if self._whole.is_set():
                    self._n_bytes[source] += len(data)
                    self._n_bytes[target] = 0
                    target.sendall(data)
            source.shutdown(socket.SHUT_RDWR)
            target.shutdown(socket.SHUT_RDWR)


class HostileServer(Listener):
    """Speaks RESP, and gives to every script the answer that it is told to: any bytes."""

    def __init__(self, answer: bytes) -> None:
        self.answer = answer
        self.n_scripts = 0
        super().__init__(lambda one: self._start(self._answer, one))

    def _answer(self, one: socket.socket) -> None:
        with suppress(OSError), one.makefile("rb") as file:
            while head := file.readline():
                lengths = (int(file.readline()[1:]) for _ in range(int(head[1:])))
                words = [file.read(length + 2)[:-2] for length in lengths]
                is_script = words[0].upper().startswith(b"EVAL")
                self.n_scripts += is_script
                hello = b"%1\r\n+proto\r\n:3\r\n"
                known = hello if words[0] == b"HELLO" else b"+OK\r\n"
                one.sendall(self.answer if is_script else known)


@contextmanager
def hostile_server(answer: bytes) -> Iterator[HostileServer]:
    server = HostileServer(answer)
    try:
        yield server
    finally:
        server.close()


@contextmanager
def wire_to(server: RunningServer, most: float = math.inf) -> Iterator[Wire]:
    wire = Wire(server.port, most)
    try:
        yield wire
    finally:
        wire.close()


def free_port() -> int:
    """A port that nobody has, nor the one 10,000 above it, where nodes of a cluster talk."""
    for port in random.sample(range(15_000, 30_000), 100):
        with socket.socket() as one, socket.socket() as other, suppress(OSError):
            one.bind(("127.0.0.1", port))
            other.bind(("127.0.0.1", port + 10_000))
            return port
    raise AssertionError("no free port")


@contextmanager
def running_server(
    program: str | None = PROGRAM, tls: ssl.SSLContext | None = None, **options: object
) -> Iterator[RunningServer]:
    """A server; skips where there is none, fails under NEARDUP_REQUIRE_REDIS=1."""
    if program is None:
        assert not os.environ.get("NEARDUP_REQUIRE_REDIS"), "neither valkey-server nor redis-server"
        pytest.skip("neither valkey-server nor redis-server is installed")
    server = RunningServer(program, tls, **options)
    try:
        yield server
    finally:
        server.kill()


@contextmanager
def running_tls_server(folder: Path) -> Iterator[tuple[RunningServer, str]]:
    """A server that talks TLS only, and the file of the certificate by which it is trusted.

    Always redis-server, which Debian builds with TLS.
    """
    certificate, key = str(folder / "certificate.pem"), str(folder / "key.pem")
    make = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"]
    make += ["-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1"]
    subprocess.run([*make, "-keyout", key, "-out", certificate], check=True, capture_output=True)
    files = {"tls_cert_file": certificate, "tls_key_file": key, "tls_ca_cert_file": certificate}
    tls = ssl.create_default_context(cafile=certificate)
    program = shutil.which("redis-server")
    with running_server(program, tls, tls_auth_clients="no", **files) as server:
        yield server, certificate


class Worker:
    """A worker of a fleet without its crawl: what it remembers, and its peers."""

    def __init__(self, url: str, **settings: Any) -> None:
        defaults = {"backend": url, "boilerplate": "keep", "key": 5}  # the same fingerprints always
        self.settings = NearDupSettings(**defaults | settings)
        self.stats = MemoryStatsCollector(get_crawler())
        self.fleet = FleetWorker(self.settings, self.stats)
        self.state = State.open(None, make_state_factory(self.settings), key=self.fleet.key)

    def decide(self, url: str, text: str, keep: bool = True, once: bool = False) -> Decision:
        return asyncio.run(self.judge(url, text, keep, once))

    async def judge(self, url: str, text: str, keep: bool = True, once: bool = False) -> Decision:
        """The decision about a page; if it is new, one of its items is kept at once."""
        reading = self.state.detector.read(url, text)
        decision, is_new = await self.fleet.pages.decide(self.state, reading, once)
        if is_new and keep:
            self.settle(decision, kept=True)
        return decision

    def settle(self, decision: Decision, kept: bool) -> None:
        """The items of a page have left the pipelines, or were dropped there."""
        assert decision.page_id is not None
        (self.state.keep if kept else self.state.drop)(decision.page_id)
        (self.fleet.pages.keep if kept else self.fleet.pages.drop)(decision.page_id)

    def seen(self, key: bytes) -> bool:
        return asyncio.run(self.fleet.seen(key))

    def close(self) -> None:
        asyncio.run(self.fleet.close())

    def shard_of(self, key: bytes) -> str:
        """The server's key of the URLs among which this one is."""
        return self.fleet._questions.seen(key).key

    @property
    def sign_of_life(self) -> str:
        """The server's key that says that this worker lives."""
        return self.fleet._questions.is_alive(self.fleet._worker).key

    def stat(self, name: str) -> int:
        return int(self.stats.get_value(f"neardup/{name}", 0))


def bring_twins(url: str, number: int, gate: Any, answers: Any) -> None:
    """A worker's process: decides about twins of what the others bring, all at the same moment."""
    worker = Worker(url)
    found = []
    for start in range(0, 200, 8):
        gate.wait()
        found += asyncio.run(bring(worker, number, range(start, start + 8)))
    worker.close()
    answers.put((number, found))


async def bring(worker: Worker, number: int, pages: range) -> list[int]:
    """Pages that were kept, of some that differ from the other workers' in one word.

    Their items take a while; every third of a worker's pages has none in the end.
    """

    async def one(page: int) -> list[int]:
        text = f"{prose(page, n_words=600)} worker{'abc'[number] if page % 2 else ''}"
        decision = await worker.judge(f"https://site.example/{number}/{page}", text, keep=False)
        if decision.is_duplicate:
            return []
        for _ in range(page % 5):
            await worker.fleet.seen(b"site.example/")
        has_items = page % 3 != number
        worker.settle(decision, kept=has_items)
        return [page] if has_items else []

    return [page for kept in await asyncio.gather(*map(one, pages)) for page in kept]


def hold_a_page(url: str, ready: Any) -> None:
    """A worker's process: brings a page whose items never come to an end."""
    worker = Worker(url)
    worker.decide("https://site.example/1", prose(1), keep=False)
    ready.set()
    Event().wait()


def crawl_beside_others(url: str, port: int, paths: list[str], gate: Any, answers: Any) -> None:
    """A worker's process: a whole crawl of a site that is served elsewhere; the paths it kept."""
    site = MockSite(port)
    gate.wait()
    settings = {"NEARDUP_BACKEND": url, "CONCURRENT_REQUESTS": 4}
    outcome = crawl_requests(site, *paths, settings=settings)
    answers.put([kept.removeprefix(site.root) for kept in outcome.urls])


@contextmanager
def running_cluster(n_replicas: int = 0, **options: object) -> Iterator[list[RunningServer]]:
    """Three masters on loopback that share the slots, and so many replicas of each.

    Masters first. Skips as running_server.
    """
    if shutil.which("redis-cli") is None:
        pytest.skip("redis-cli is not installed")
    with TemporaryDirectory() as folder, ExitStack() as running:
        nodes = [
            running.enter_context(running_node(folder, **options))
            for _ in range(3 + 3 * n_replicas)
        ]
        addresses = [f"127.0.0.1:{node.port}" for node in nodes]
        command = ["redis-cli", "--cluster", "create", *addresses, "--cluster-yes"]
        command += ["--cluster-replicas", str(n_replicas)]
        subprocess.run(command, check=True, capture_output=True, timeout=60)
        for node in nodes:
            wait_until(lambda node=node: "cluster_state:ok" in node.command("CLUSTER", "INFO"))
        yield nodes


def cluster_url(nodes: list[RunningServer]) -> str:
    """What NEARDUP_BACKEND calls a cluster."""
    return f"redis+cluster://127.0.0.1:{nodes[-1].port}"


def running_node(folder: str, **options: object) -> AbstractContextManager[RunningServer]:
    """A node of a cluster that does not know of any other yet.

    In a folder of its own: replicas that share one load each other's dump.rdb.
    """
    own = mkdtemp(dir=folder)
    return running_server(cluster_enabled="yes", cluster_node_timeout=1000, dir=own, **options)


def wait_until(condition: Callable[[], bool]) -> None:
    """Look again and again, for PATIENCE_S at most."""
    end = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < end, "it does not come about"


@contextmanager
def running_sentinel(master: RunningServer) -> Iterator[RunningServer]:
    """A sentinel that watches a master of the name "shop"."""
    with TemporaryDirectory() as folder:
        file = Path(folder) / "sentinel.conf"
        file.write_text(
            f"sentinel monitor shop 127.0.0.1 {master.port} 1\n"
            "sentinel down-after-milliseconds shop 500\n"
            "sentinel failover-timeout shop 2000\n"
        )
        with running_server(sentinel=str(file), dir=folder) as sentinel:
            yield sentinel
