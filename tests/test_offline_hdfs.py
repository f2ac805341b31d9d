"""HDFS as a file system of pyarrow, against servers of Hadoop on loopback."""

import subprocess
import sys

import pytest

pytest.importorskip("pyarrow", reason="the extra [dedup] is not installed")
pytest.importorskip("hdfs_native", reason="the extra [hdfs] is not installed")
from object_storage import hdfs  # noqa: F401
from pyarrow.fs import FileSelector

from scrapy_neardup.errors import InputError
from scrapy_neardup.offline.file_systems import file_system, naming

ODD_NAMES = ["a b", "a#b", "a?b", "a%20b", "a;b&c=d", "[a]*", "ü中", "in/side"]


def test_a_file_of_any_name_is_written_listed_and_read(hdfs: str) -> None:  # noqa: F811
    files, folder = file_system(f"{hdfs}/odd%20names/")
    assert folder == "/odd names"
    for name in ODD_NAMES:
        with files.open_output_stream(f"{folder}/{name}") as file:
            file.write(name.encode())
    found = files.get_file_info(FileSelector(folder, recursive=True))
    paths = sorted(one.path for one in found if one.is_file)
    assert paths == sorted(f"{folder}/{name}" for name in ODD_NAMES)
    for path in paths:
        with files.open_input_file(path) as file:
            assert file.read().decode() == path.removeprefix(f"{folder}/")
    files.delete_dir_contents(folder)
    assert files.get_file_info(FileSelector(folder)) == []


def test_what_the_server_refuses_is_told_in_a_line(hdfs: str) -> None:  # noqa: F811
    url = f"{hdfs}/folder"
    files, folder = file_system(url)
    with pytest.raises(OSError, match="Invalid path name") as raised, naming(url):
        files.open_output_stream(f"{folder}/a:b")
    assert raised.value.filename == url
    assert "\tat " not in str(raised.value)


def test_a_server_that_does_not_answer_is_no_empty_folder() -> None:
    files, folder = file_system("hdfs://127.0.0.1:9/a?dfs.client.failover.max.attempts=1")
    with pytest.raises(OSError, match="refused"):
        files.get_file_info(FileSelector(folder, allow_not_found=True))


@pytest.mark.filterwarnings("ignore:.*multi-threaded")
def test_a_program_that_read_files_may_start_another(hdfs: str) -> None:  # noqa: F811
    """pyspark starts Java by fork and preexec_fn."""
    assert file_system(f"{hdfs}/")[0].get_file_info("/").path == "/"
    command = [sys.executable, "-c", ""]
    subprocess.run(command, preexec_fn=int, check=True, timeout=60)


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("hdfs://user@a.example/x", "Set HADOOP_USER_NAME"),
        ("hdfs://a.example:99999/x", "Port out of range"),
        ("hdfs:///x", "fs.defaultFS"),
    ],
)
def test_a_url_that_names_no_server_is_refused(url: str, said: str) -> None:
    with pytest.raises(InputError, match=said):
        file_system(url)
