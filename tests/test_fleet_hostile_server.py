"""Whatever a fleet's server answers, a worker decides alone, counts it, and ends."""

from contextlib import suppress

import pytest
from fleets import Worker, hostile_server
from mock_site import prose

pytest.importorskip("redis", reason="the extra `redis` is not installed")

from scrapy_neardup.detect.templates import MAX_PAGES, NOTHING, HostBlocks
from scrapy_neardup.errors import BrokenInvariant
from scrapy_neardup.fleet import worker as worker_module

ANSWERS = {
    "an integer": b":7\r\n",
    "a huge integer": b":" + b"9" * 400 + b"\r\n",
    "text": b"+hello\r\n",
    "nothing": b"$-1\r\n",
    "no list": b"*-1\r\n",
    "an empty list": b"*0\r\n",
    "a list too long": b"*3\r\n:1\r\n:1\r\n:1\r\n",
    "lists in lists": b"*1\r\n" * 50 + b":1\r\n",
    "bytes that are no record": b"$5\r\n\xff\xfe\x00ab\r\n",
    "a list of them": b"*3\r\n" + b"$5\r\n\xff\xfe\x00ab\r\n" * 3,
    "a record of zeros": b"*2\r\n:1\r\n$200\r\n" + bytes(200) + b"\r\n",
    "a record of a sketch that ends": b"*2\r\n:1\r\n$60\r\nu" + b"\xff" * 59 + b"\r\n",
    "a megabyte": b"$1000000\r\n" + bytes(1_000_000) + b"\r\n",
    "a hundred thousand numbers": b"*100000\r\n" + b":1\r\n" * 100_000,
    "an error of its own": b"-WEIRD \xff\xfe\r\n",
    "a redirect": b"-MOVED 7 192.0.2.1:6379\r\n",
    "no RESP": b"HTTP/1.1 200 OK\r\n\r\n",
    "a length below nothing": b"$-5\r\n",
    "a length that is none": b"$x\r\n",
    "two answers": b":1\r\n:1\r\n",
    "a hundred thousand lists in each other": b"*1\r\n" * 100_000 + b":1\r\n",
    "a number of ten thousand digits": b"(" + b"9" * 10_000 + b"\r\n",
    "no number": b",nan\r\n",
    "a map": b"%1\r\n+a\r\n:1\r\n",
    "truth": b"#t\r\n",
    "another error": b"!5\r\nERR a\r\n",
    "another redirect": b"-ASK 7 192.0.2.1:6379\r\n",
}


@pytest.mark.parametrize("what", ANSWERS)
def test_a_worker_survives_any_answer(what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker_module, "CLOSING_S", 0.1)
    with hostile_server(ANSWERS[what]) as server:
        worker = Worker(server.url, boilerplate="learn")
        for number in range(3):
            worker.fleet.mark(b"a.example/%d" % number)
            worker.seen(b"a.example/9")
            # A crawl counts what decide() raises, and keeps the page: crawl/pages/judge.py.
            with suppress(Exception):
                decision = worker.decide(f"https://a.example/{number}", prose(number))
                assert not decision.is_duplicate
        assert worker.fleet._link._thread.is_alive()
        worker.close()
        assert server.n_scripts > 0


def test_templates_of_more_pages_than_can_be_counted_are_refused_or_stay_as_they_are() -> None:
    host = NOTHING._replace(n_pages=MAX_PAGES)
    assert host.with_page(NOTHING.hashes) is host
    assert HostBlocks.unpack(host.pack()).n_pages == MAX_PAGES
    with pytest.raises(BrokenInvariant):
        HostBlocks.unpack(b"\xff" * 4)
