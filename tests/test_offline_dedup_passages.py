"""Records that contain passages of given texts are listed, whatever else happens to them."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mock_site import page, prose

from scrapy_neardup.commands import WRONG_USE, main
from scrapy_neardup.offline.dedup.passages import Passage, Passages, read_passages

warcio = pytest.importorskip("warcio", reason="the extra [dedup] is not installed")

pytestmark = pytest.mark.usefixtures("one_key")

QUESTION = "Which of these rivers flows through more capital cities than any other in the world?"


def listed(out: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (out / "contains.jsonl").read_text("utf-8").splitlines()]


def jsonl(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    return path


def run(pages: Path, passages: Path, out: Path, *options: str) -> int:
    command = ["dedup", str(pages), "--out", str(out), "--jobs", "1"]
    return main([*command, "--contains-any", str(passages), *options])


def test_a_passage_with_a_huge_word_is_listed(tmp_path: Path) -> None:
    """What is noted of it takes more than one record of the journal."""
    text = f"{'w' * 1_200_000} {QUESTION}"
    pages = jsonl(tmp_path / "pages.jsonl", [{"url": "http://a.example/", "text": text}])
    assert run(pages, jsonl(tmp_path / "eval.jsonl", [{"text": text}]), tmp_path / "out") == 0
    (found,) = listed(tmp_path / "out")
    assert found["text"].startswith("w" * 1_200_000)


def test_a_record_that_is_kept_without_being_read_was_not_searched(tmp_path: Path) -> None:
    pages, passages = tmp_path / "pages.csv", tmp_path / "eval.jsonl"
    pages.write_text(f"url,text\nhttp://a.example/1,{prose(1)}\nhttp://a.example/2,,{QUESTION}\n")
    assert run(pages, jsonl(passages, [{"text": QUESTION}]), tmp_path / "out") == 0
    summary = json.loads((tmp_path / "out" / "summary.json").read_text("utf-8"))
    assert (summary["kept"], summary["others"]["passages/not_searched"]) == (2, 1)


def test_records_with_a_passage_are_listed_and_kept(tmp_path: Path) -> None:
    loud = QUESTION.upper().replace(" ", "\n ")
    texts = [
        prose(0),
        f"{prose(1)} {loud} {prose(2)}",
        f"{prose(3)} {QUESTION.removesuffix(' the world?')}",  # thirteen of its fifteen words
        QUESTION,  # its record has no URL, so that nothing is compared
        f"<html><body><p>{prose(4)}</p><p>{QUESTION}</p></body></html>",
    ]
    rows: list[dict[str, Any]] = [
        {"url": f"http://a.example/{i}", "text": t} for i, t in enumerate(texts)
    ]
    rows[3]["url"] = None
    rows[4] = {"url": rows[4]["url"], "html": texts[4]}
    pages = jsonl(tmp_path / "pages.jsonl", rows)
    passages = jsonl(
        tmp_path / "eval.jsonl", [{"text": prose(9)}, {"question": QUESTION, "text": QUESTION}]
    )
    assert run(pages, passages, tmp_path / "out") == 0
    found = listed(tmp_path / "out")
    assert [(row["record"], row["passage"], row["shared"], row["ngrams"]) for row in found] == [
        (1, 1, 3, 3),
        (2, 1, 1, 3),
        (3, 1, 3, 3),
        (4, 1, 3, 3),
    ]
    assert [row["share"] for row in found] == [1.0, 0.3333, 1.0, 1.0]
    assert found[0]["url"] == "http://a.example/1"
    assert found[0]["text"].startswith("which of these rivers")
    assert all(row["kept"] for row in found)
    summary = json.loads((tmp_path / "out" / "summary.json").read_text("utf-8"))
    assert summary["kept"] == 5
    assert summary["others"]["passages/records"] == 4


def test_passages_come_from_lines_of_text_and_from_any_columns(tmp_path: Path) -> None:
    (tmp_path / "eval.txt").write_text(f"{QUESTION}\n\nYes.\n", "utf-8-sig")
    jsonl(tmp_path / "eval.jsonl", [{"prompt": QUESTION, "choices": ["The Nile", "The Danube"]}])
    assert read_passages(tmp_path / "eval.txt")[0].words == read_passages(tmp_path / "eval.jsonl")[
        0
    ].words.removesuffix(b" the nile the danube")
    passages = Passages(read_passages(tmp_path / "eval.txt"))
    assert (len(passages.passages), passages.n_too_short) == (1, 2)


@pytest.mark.parametrize("name", ["eval.txt", "EVAL.TXT", "eval.txt.gz", "EVAL.TXT.GZ"])
def test_lines_of_text_are_cut_at_line_ends_only(tmp_path: Path, name: str) -> None:
    text = "one two\x0cthree\x85 four\nfive six\r\nseven\r\neight\u2028 nine"
    packed = gzip.compress if name.lower().endswith(".gz") else bytes
    (tmp_path / name).write_bytes(packed(text.encode()))
    found = [passage.words for passage in read_passages(tmp_path / name)]
    assert found == [b"one two three four", b"five six", b"seven", b"eight nine"]


def test_json_lines_are_no_text_whatever_else_their_name_says(tmp_path: Path) -> None:
    rows = [{"question": QUESTION, "answer": "The Danube does"}]
    (found,) = read_passages(jsonl(tmp_path / "eval.txt.jsonl", rows))
    (expected,) = read_passages(jsonl(tmp_path / "eval.jsonl", rows))
    assert found == expected


def test_a_short_passage_has_to_be_there_whole(tmp_path: Path) -> None:
    passages = Passages([Passage(0, b"the capital of france"), Passage(1, b"yes it is")])
    assert passages.n_too_short == 1
    assert [f.passage for f in passages.found_in(b"paris is the capital of france today")] == [0]
    assert not passages.found_in(b"the capital of francesca")
    assert not passages.found_in(b"capital of france")
    assert not passages.found_in(b"")


def test_a_file_without_passages_is_refused(tmp_path: Path, capsys: Any) -> None:
    pages = jsonl(
        tmp_path / "pages.jsonl", [{"url": "http://a.example/", "text": page("x").decode()}]
    )
    (tmp_path / "empty.txt").write_text("\n", "utf-8")
    assert run(pages, tmp_path / "empty.txt", tmp_path / "out") == WRONG_USE
    assert "empty.txt: holds no text" in capsys.readouterr().err
    assert run(pages, tmp_path / "missing.jsonl", tmp_path / "out") == WRONG_USE
    assert not (tmp_path / "out").exists()


few_words = st.lists(st.sampled_from([b"a", b"bb", b"ccc", b"\xe4\xbd\xa0"]), max_size=30)


@given(st.lists(few_words, max_size=4), few_words, st.integers(4, 6))
def test_what_is_found_is_what_sets_of_ngrams_share(
    passages: list[list[bytes]], record: list[bytes], ngram: int
) -> None:
    made = Passages([Passage(i, b" ".join(words)) for i, words in enumerate(passages)], ngram)
    found = {f.passage: (f.shared, f.ngrams) for f in made.found_in(b" ".join(record))}
    expected = {}
    for i, words in enumerate(passages):
        size = min(ngram, len(words))
        grams = {tuple(words[j : j + size]) for j in range(len(words) - size + 1)}
        here = {tuple(record[j : j + size]) for j in range(len(record) - size + 1)}
        if len(words) >= 4 and grams & here:
            expected[i] = len(grams & here), len(grams)
    assert found == expected
