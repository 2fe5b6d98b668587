"""A user's own file: what is read from it, and what is said about a bad line."""

from __future__ import annotations

import pytest
from tests.unit.run.workloads.setups import jsonl, refusal, tokenizer, workset

from assay.run.workloads import Item


def test_rows_become_items(tmp_path):
    name = jsonl(
        tmp_path,
        {"prompt": "What is two and two?", "id": 7, "reference": "four", "output_tokens": 3, "level": [1], "x": None},
        "",
        {"text": "Only text", "system": "Be brief."},
        {"messages": [{"role": "developer", "content": "S"}, {"role": "user", "content": "U"}]},
        {"turns": ["One turn"]},
    )
    made = workset(tmp_path, file=name, output_tokens=20)
    assert made.task == "prompts"
    assert made.items == (
        Item("7", ("What is two and two?",), None, "four", None, 3, {"level": [1], "x": None}),
        Item("line-3", ("Only text",), "Be brief.", output_tokens=20),
        Item("line-4", ("U",), "S", output_tokens=20),
        Item("line-5", ("One turn",), output_tokens=20),
    )
    assert made.facts["source"] == "own file own.jsonl"
    assert made.facts["licence"] is None


def test_lengths_are_counted_where_there_is_a_tokenizer(tmp_path):
    name = jsonl(tmp_path, {"prompt": "honey"}, {"prompt": "honey and honey and honey"})
    delivered = workset(tmp_path, tokenizer(), file=name).facts["prompt_tokens"]["delivered"]
    assert delivered["min"] == tokenizer().count(["honey"])[0]
    assert delivered["max"] == tokenizer().count(["honey and honey and honey"])[0]


def test_the_template_is_put_around_and_its_other_braces_stay(tmp_path):
    name = jsonl(tmp_path, {"prompt": "{a} {text}"})
    made = workset(tmp_path, file=name, prompt='{"q": "{text}"} {0}')
    assert made.items[0].turns == ('{"q": "{a} {text}"} {0}',)
    problem = refusal(tmp_path, file=name, prompt="no place")
    assert problem.message == "workload.prompt is 'no place', which has no {text} where the prompt of each item belongs"


def test_some_lines_are_chosen_by_the_seed_and_fewer_are_among_more(tmp_path):
    name = jsonl(tmp_path, *({"prompt": str(number)} for number in range(50)))
    chosen = {
        (count, seed): [item.id for item in workset(tmp_path, file=name, items=count, seed=seed).items]
        for count in (5, 20)
        for seed in (0, 1)
    }
    assert chosen[5, 0] == chosen[20, 0][:5] != chosen[5, 1]
    assert [item.turns[0] for item in workset(tmp_path, file=name).items] == [str(number) for number in range(50)]
    assert refusal(tmp_path, file=name, items=51).message == (
        "workload.items is 51, and there are only 50 lines in the file"
    )


def test_the_digest_follows_the_content(tmp_path):
    one = jsonl(tmp_path, {"prompt": "a", "reference": "b"}, name="one")
    same = jsonl(tmp_path, {"reference": "b", "prompt": "a"}, name="same")
    other = jsonl(tmp_path, {"prompt": "a", "reference": "c"}, name="other")
    digests = [workset(tmp_path, file=name).facts["digest"] for name in (one, same, other)]
    assert digests[0] == digests[1] != digests[2]


def test_a_file_that_is_not_there_or_empty(tmp_path):
    assert refusal(tmp_path, file="no.jsonl").message.endswith("no.jsonl cannot be read: No such file or directory")
    jsonl(tmp_path, "", "  ", name="empty.jsonl")
    assert refusal(tmp_path, file="empty.jsonl").message.endswith("empty.jsonl holds no line to ask")
    assert refusal(task="prompts").message == "the task prompts reads a file, and workload.file is not given"


def message(role, content="text"):
    return {"role": role, "content": content}


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        ("{not json", "is not JSON: Expecting property name"),
        ("[" * 100_000, "is not JSON"),
        ("[1]", "is a list and not an object"),
        ("3", "is a number and not an object"),
        ({}, "has none of prompt, text, messages, turns; exactly one is needed"),
        ({"prompt": "a", "text": "b"}, "has prompt and text; exactly one is needed"),
        ({"prompt": ""}, "has an empty text or no text at all in prompt"),
        ({"prompt": 3}, "has an empty text or no text at all in prompt"),
        ({"turns": []}, "has an empty list for turns; a list of texts is needed"),
        ({"turns": "a"}, "has a text for turns; a list of texts is needed"),
        ({"turns": ["a", " "]}, "has an empty text or no text at all in turns"),
        ({"turns": ["a", "b"]}, "has 2 turns of the user, and the task prompts asks each line once"),
        ({"messages": {}}, "has an object for messages; a list of messages is needed"),
        ({"messages": ["hi"]}, "has a message whose content is empty or not text"),
        ({"messages": [message("user", [{"type": "image_url"}])]}, "has a message whose content is empty or not text"),
        ({"messages": [message("system")]}, "has no message of the user"),
        ({"messages": [message("assistant")]}, "with the role 'assistant' at a place where it cannot be asked"),
        ({"messages": [message("user"), message("tool")]}, "with the role 'tool' at a place"),
        ({"messages": [message("system"), message("user")], "system": "x"}, "has a system text twice"),
        ({"prompt": "a", "system": 3}, "has a number for system; a text is needed"),
        ({"prompt": "a", "reference": ["b"]}, "has a list for reference; a text is needed"),
        ({"prompt": "a", "id": True}, "has true or false for id"),
        ({"prompt": "a", "id": ""}, "has a text for id"),
        ({"prompt": "a", "output_tokens": 0}, "has output_tokens 0; a whole number from 1 up is needed"),
        ({"prompt": "a", "output_tokens": 1.5}, "has output_tokens 1.5"),
        ({"prompt": "b", "id": "first"}, "has the id 'first' of line 1"),
    ],
)
def test_a_bad_line_is_reported_with_its_number(tmp_path, row, expected):
    name = jsonl(tmp_path, {"prompt": "good", "id": "first"}, "", row)
    problem = refusal(tmp_path, file=name)
    assert problem.message.startswith("line 3 ")
    assert expected in problem.message
    assert problem.at == "own.jsonl:3"


def test_text_in_another_encoding_is_refused(tmp_path):
    (tmp_path / "latin.jsonl").write_bytes('{"prompt": "für"}'.encode("latin-1"))
    assert refusal(tmp_path, file="latin.jsonl").message == "line 1 is not UTF-8 text"
    (tmp_path / "mark.jsonl").write_bytes('\ufeff{"prompt": "für"}\r\n'.encode())
    assert workset(tmp_path, file="mark.jsonl").items[0].turns == ("für",)
