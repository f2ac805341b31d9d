"""A NameNode and a DataNode of Hadoop on loopback.

NEARDUP_HADOOP_JARS names a folder with their jars. pyspark 2.4.8 brings those of Hadoop 2.7 with
its own (`.ci/run` installs it), later ones have only the client's.
"""

import os
import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Thread

import pytest

JARS = os.environ.get("NEARDUP_HADOOP_JARS")
SERVERS = "org.apache.hadoop.hdfs.server"
NAME_NODE, DATA_NODE = f"{SERVERS}.namenode.NameNode", f"{SERVERS}.datanode.DataNode"
LOG = f"""
log4j.rootLogger=ERROR, out
log4j.logger.{NAME_NODE}=INFO
log4j.logger.{DATA_NODE}=INFO
log4j.appender.out=org.apache.log4j.ConsoleAppender
log4j.appender.out.layout=org.apache.log4j.SimpleLayout
"""
ANY_PORT = (
    "dfs.namenode.http-address",
    "dfs.datanode.address",
    "dfs.datanode.http.address",
    "dfs.datanode.ipc.address",
)


@contextmanager
def name_node() -> Iterator[str]:
    """The URL of an empty file system; skips where there are no jars."""
    if not JARS:
        pytest.skip("NEARDUP_HADOOP_JARS names no jars of Hadoop's servers")
    with closing(socket.create_server(("127.0.0.1", 0))) as free:
        url = f"hdfs://127.0.0.1:{free.getsockname()[1]}"
    with ExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="neardup-hdfs-")))
        configure(folder, url)
        subprocess.run(command(folder, NAME_NODE, "-format"), check=True, capture_output=True)
        stack.enter_context(running(folder, NAME_NODE, "NameNode RPC up at"))
        stack.enter_context(running(folder, DATA_NODE, "successfully registered with"))
        yield url


def configure(folder: Path, url: str) -> None:
    """Write the settings of both into a folder, which is to be the first on their class path."""
    settings = {"fs.defaultFS": url, "hadoop.tmp.dir": folder / "data", "dfs.replication": 1}
    settings |= dict.fromkeys(ANY_PORT, "127.0.0.1:0")
    settings |= {"dfs.webhdfs.enabled": "false"}  # needs a library that is not with the jars
    lines = [
        f"<property><name>{name}</name><value>{value}</value></property>"
        for name, value in settings.items()
    ]
    text = f"<configuration>{''.join(lines)}</configuration>"
    for name in ("core-site.xml", "hdfs-site.xml"):
        (folder / name).write_text(text)
    (folder / "log4j.properties").write_text(LOG)
    for name in ("hdfs", "datanode"):  # the pages of their web servers, which do not start without
        (folder / "webapps" / name).mkdir(parents=True)


def command(folder: Path, server: str, *options: str) -> list[str]:
    """How a server is started."""
    java = shutil.which("java")
    assert java is not None
    return [java, "-Xmx256m", "-cp", f"{folder}:{JARS}/*", server, *options]


@contextmanager
def running(folder: Path, server: str, ready: str) -> Iterator[None]:
    """A server, from the moment it has said so in its log to the end of the block."""
    said = []
    with subprocess.Popen(command(folder, server), stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            for line in process.stdout:
                said.append(line)
                if ready in line:
                    break
            else:
                pytest.fail(f"{server} ended: {''.join(said)}")
            Thread(target=process.stdout.read, daemon=True).start()  # a full pipe would stop it
            yield
        finally:
            process.kill()
