"""Recorded loads: own files and the shapes of public traces, and what is said about a bad line."""

from __future__ import annotations

import gzip

import pytest
from tests.unit.run.workloads.setups import HERE, definition, jsonl, tokenizer

from assay.errors import MeasureError
from assay.run.workloads.trace import read_trace, trace_workset


def write(folder, text, name="trace.csv"):
    (folder / name).write_text(text)
    return folder / name


def wrong(path, **limits):
    with pytest.raises(MeasureError) as caught:
        read_trace(path, **limits)
    assert caught.value.problem.code == "trace"
    return caught.value.problem


def columns(trace):
    def sizes(column):
        return None if column is None else column.tolist()

    return trace.at_s.tolist(), sizes(trace.input_tokens), sizes(trace.output_tokens)


def test_an_own_jsonl_file(tmp_path):
    rows = [{"at": 0.5, "input_tokens": 12, "output_tokens": 3}, {"at": 0.5, "input_tokens": 9, "output_tokens": 4}]
    path = tmp_path / jsonl(tmp_path, *rows, "", {"at": 2, "input_tokens": 7, "output_tokens": 5})
    trace = read_trace(path)
    assert columns(trace) == ([0.5, 0.5, 2.0], [12, 9, 7], [3, 4, 5])  # `at` counts from the start of the load
    assert (len(trace), trace.name) == (3, "own.jsonl")


def test_times_alone_are_enough(tmp_path):
    assert columns(read_trace(write(tmp_path, "at\n0\n0.25\n1e1\n"))) == ([0.0, 0.25, 10.0], None, None)
    assert columns(read_trace(write(tmp_path, "at_ms,output_tokens\n0,4\n250,5\n"))) == ([0.0, 0.25], None, [4, 5])


def test_the_shape_of_azure_traces(tmp_path):
    text = (
        "TIMESTAMP,ContextTokens,GeneratedTokens\r\n"
        "2023-11-16 18:15:46.6805900,374,44\r\n"
        "2023-11-16 18:15:50.9951690,396,109\r\n"
    )
    times, inputs, outputs = columns(read_trace(write(tmp_path, text)))
    assert times == pytest.approx([0, 4.314579], abs=2e-6)
    assert (inputs, outputs) == ([374, 396], [44, 109])
    header = "TIMESTAMP,ContextTokens,GeneratedTokens\n"
    with_zone = f"{header}2024-05-10 00:00:00.009930+00:00,2162,5\n2024-05-10 00:00:01+00:00,8,6\n"
    assert columns(read_trace(write(tmp_path, with_zone)))[0] == pytest.approx([0, 0.99007])
    images = "TIMESTAMP,NumImages,ContextTokens,GeneratedTokens\n2024-10-15 00:00:00,1,20,5\n"
    assert read_trace(write(tmp_path, images)).unread == ("NumImages",)


def test_the_shape_of_mooncake_traces(tmp_path):
    path = tmp_path / jsonl(
        tmp_path,
        {"timestamp": 27482, "input_length": 6955, "output_length": 52, "hash_ids": [46, 47]},
        {"timestamp": 30535, "input_length": 6472, "output_length": 26, "hash_ids": [46, 47]},
    )
    trace = read_trace(path)
    assert trace.at_s.tolist() == pytest.approx([0, 3.053])  # milliseconds, from the first row
    assert columns(trace)[1:] == ([6955, 6472], [52, 26])
    assert trace.unread == ("hash_ids",)


def test_the_shape_of_burstgpt_traces(tmp_path):
    text = (
        "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n"
        "5,ChatGPT,472,18,490,Conversation log\n45,ChatGPT,1087,230,1317,Conversation log\n"
    )
    assert columns(read_trace(write(tmp_path, text))) == ([0, 40], [472, 1087], [18, 230])


def test_gzip_and_a_byte_order_mark_are_read(tmp_path):
    (tmp_path / "t.csv.gz").write_bytes(gzip.compress("\ufeffat,input_tokens\n0,5\n1,6\n".encode()))
    assert columns(read_trace(tmp_path / "t.csv.gz")) == ([0, 1], [5, 6], None)
    (tmp_path / "cut.gz").write_bytes(gzip.compress(b"at\n" + b"0\n" * 9999)[:-12])
    assert "is not UTF-8 text, plain or gzipped" in wrong(tmp_path / "cut.gz").message


def test_a_trace_can_be_cut_and_the_rest_is_not_checked(tmp_path):
    path = write(tmp_path, "at,input_tokens\n0,1\n1,2\n2,3\nnonsense,x\n")
    assert len(read_trace(path, at_most=2)) == 2
    assert len(read_trace(path, within_s=1.5)) == 2
    assert wrong(path).at == "trace.csv:5"


@pytest.mark.parametrize(
    ("text", "line", "expected"),
    [
        ("at\n1\n0.5\n", 3, "came 0.5 s before the row above it"),
        ("at\n-1\n", 2, "has the time -1, before the start"),
        ("at\nsoon\n", 2, "has 'soon' for at; seconds or a date with a time are needed"),
        ("at,x\n,3\n", 2, "has nothing for at"),
        ("at\nnan\n", 2, "has 'nan' for at"),
        (
            "at,input_tokens\n0,4\n1,\n",
            3,
            "has nothing for input_tokens; a whole number from 1 to 10,000,000 is needed",
        ),
        ("at,input_tokens\n0\n", 2, "has nothing for input_tokens"),
        ("at,output_tokens\n0,0\n", 2, "has '0' for output_tokens"),
        ("at,output_tokens\n0,2.5\n", 2, "has '2.5' for output_tokens"),
        ("at,output_tokens\n0,99999999\n", 2, "has '99999999' for output_tokens"),
        ("when,input_tokens\n0,4\n", 2, "has no column for the time; it has when, input_tokens"),
        ('at,input_tokens\n0,"4\n', 2, "is not CSV"),
        ('{"at": 0}\n{"at": \n', 2, "is not JSON"),
        ('{"at": 0}\n[1]\n', 2, "is not a JSON object"),
        ('{"at": 0, "input_tokens": 3}\n{"at": 1}\n', 2, "has nothing for input_tokens"),
        ('{"at": true}\n', 1, "has True for at"),
    ],
)
def test_a_bad_line_is_reported_with_its_number(tmp_path, text, line, expected):
    problem = wrong(write(tmp_path, text))
    assert problem.message.startswith(f"line {line} ")
    assert expected in problem.message
    assert problem.at == f"trace.csv:{line}"
    assert problem.try_


def test_a_file_that_is_not_there_or_empty(tmp_path):
    assert "cannot be read: No such file" in wrong(tmp_path / "no.csv").message
    assert wrong(tmp_path / "no.csv").at == "load.trace"
    assert wrong(write(tmp_path, "")).message.endswith("trace.csv holds no request")
    assert wrong(write(tmp_path, "at,input_tokens\n")).message.endswith("trace.csv holds no request")
    (tmp_path / "bytes.csv").write_bytes(b"at\n\xff\n")
    assert "is not UTF-8 text" in wrong(tmp_path / "bytes.csv").message


def replayed(tmp_path, text, tokens=None, **workload):
    return trace_workset(definition(**workload), HERE, tokens, read_trace(write(tmp_path, text)))


def test_prompts_and_answers_have_the_sizes_of_the_trace(tmp_path):
    made = replayed(tmp_path, "at,input_tokens,output_tokens\n0,30,3\n1,12,4\n2,30,5\n", tokenizer())
    assert tokenizer().count([item.turns[0] for item in made.items]) == [30, 12, 30]
    assert [item.output_tokens for item in made.items] == [3, 4, 5]
    assert made.items[0].turns != made.items[2].turns
    assert made.facts["trace"] == "trace.csv"
    assert (made.facts["trace_rows"], made.facts["items"], made.facts["not_replayed"]) == (3, 3, [])
    assert made.facts["prompt_tokens"]["delivered"]["min"] == 12


def test_answer_lengths_come_from_the_workload_where_the_trace_has_none(tmp_path):
    made = replayed(tmp_path, "at,input_tokens\n0,30\n1,12\n", tokenizer(), output_tokens=9)
    assert [item.output_tokens for item in made.items] == [9, 9]


def test_without_prompt_lengths_the_task_of_the_workload_is_asked_in_turn(tmp_path):
    rows = "".join(f"{number},{number + 1}\n" for number in range(40))
    made = replayed(tmp_path, f"at,output_tokens\n{rows}", task="wikipedia-summary")
    assert [item.output_tokens for item in made.items] == list(range(1, 41))
    assert made.items[33].id == made.items[0].id
    assert made.scorers == ("rouge",)
    assert made.facts["output_tokens"]["drawn"] == {"min": 1, "median": 20.5, "mean": 20.5, "max": 40}
    assert made.facts["items"] == 40
    times_only = replayed(tmp_path, "at\n0\n1\n", task="wikipedia-summary")
    assert len(times_only.items) == 33
    assert times_only.facts["trace_rows"] == 2


def test_a_trace_of_sizes_needs_a_tokenizer_and_leaves_no_room_for_another_task(tmp_path):
    text = "at,input_tokens\n0,30\n"
    with pytest.raises(MeasureError, match="words are not tokens"):
        replayed(tmp_path, text)
    with pytest.raises(
        MeasureError, match=r"workload\.task and the prompt lengths of trace\.csv cannot both be followed"
    ):
        replayed(tmp_path, text, tokenizer(), task="wikipedia-summary")
    with pytest.raises(MeasureError, match=r"workload\.input_tokens and the prompt lengths"):
        replayed(tmp_path, text, tokenizer(), input_tokens=5)
    assert len(replayed(tmp_path, text, tokenizer(), task="synthetic").items) == 1
