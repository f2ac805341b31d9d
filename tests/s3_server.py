"""A server that speaks S3, on loopback."""

from collections.abc import Callable, Iterator

import pytest

from scrapy_neardup.offline.file_systems import file_system


@pytest.fixture
def bucket() -> Iterator[Callable[[str], str]]:
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
