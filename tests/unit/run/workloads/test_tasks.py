"""Which task a workload means, and what each of ours makes."""

from __future__ import annotations

from importlib.metadata import EntryPoint

import pytest
from tests.unit.run.workloads.setups import definition, jsonl, refusal, tokenizer, workset

from assay.run import workloads
from assay.run.workloads import Item, Workset, task_name
from assay.run.workloads.synthetic import questions
from assay.spec.workload import Workload


def test_the_task_is_named_or_follows_from_the_file():
    assert task_name(Workload()) == "synthetic"
    assert task_name(Workload(file="x.jsonl")) == "prompts"
    assert task_name(Workload(file="x.jsonl", task="conversation")) == "conversation"


def test_an_unknown_task_names_those_that_are_known():
    problem = refusal(task="sumarize")
    assert problem.message == "there is no task 'sumarize' here"
    assert "conversation, embedding, prompts, synthetic, wikipedia-summary" in problem.try_


def test_knn_belongs_to_vector_databases():
    assert "answers text" in refusal(task="knn").message
    assert "qdrant" in refusal(task="knn").try_


def theirs(definition, base, tokenizer):
    item = Item("one", (str(base),), input_tokens=definition.workload.input_tokens)
    return Workset("theirs", (item,), (), {"tokenizer": tokenizer})


def test_tasks_of_others_are_found_by_entry_point(monkeypatch, tmp_path):
    entry = EntryPoint("theirs", "tests.unit.run.workloads.test_tasks:theirs", workloads.GROUP)
    monkeypatch.setattr(workloads, "entry_points", lambda group: [entry] if group == "assay.tasks" else [])
    made = workset(tmp_path, "a tokenizer", task="theirs", input_tokens=4, turns=3)
    assert (made.task, made.items[0].turns, made.facts) == ("theirs", (str(tmp_path),), {"tokenizer": "a tokenizer"})
    assert "theirs" in refusal(task="others").try_


@pytest.mark.parametrize(
    ("task", "key", "value"),
    [
        ("synthetic", "turns", 3),
        ("synthetic", "file", "x.jsonl"),
        ("prompts", "input_tokens", 5),
        ("prompts", "shared_prefix", 5),
        ("wikipedia-summary", "file", "x.jsonl"),
        ("wikipedia-summary", "input_tokens", 5),
        ("embedding", "output_tokens", 5),
        ("conversation", "k", 3),
    ],
)
def test_a_key_that_would_do_nothing_is_refused(task, key, value):
    problem = refusal(task=task, **{key: value})
    assert problem.message == f"workload.{key} would do nothing for the task {task}"
    assert problem.at == f"workload.{key}"


# synthetic


def test_synthetic_prompts_have_their_length_and_say_so():
    made = workset(tokens=tokenizer(), input_tokens=50, output_tokens=9, items=20, seed=3)
    assert [tokenizer().count(item.turns)[0] for item in made.items] == [50] * 20
    assert {(item.input_tokens, item.output_tokens) for item in made.items} == {(50, 9)}
    assert len({item.id for item in made.items}) == 20
    assert (made.task, made.scorers) == ("synthetic", ())
    facts = made.facts
    assert (facts["items"], facts["different_prompts"], facts["licence"], facts["seed"]) == (20, 20, "CC0-1.0", 3)
    assert facts["tokenizer"] == "trained byte-level"
    assert facts["prompt_tokens"]["asked"] == 50
    assert facts["prompt_tokens"]["delivered"] == {"min": 50, "median": 50.0, "mean": 50.0, "max": 50}
    assert "chat template adds more" in facts["prompt_tokens"]["counts"]
    assert facts["output_tokens"] == {"asked": 9, "drawn": {"min": 9, "median": 9.0, "mean": 9.0, "max": 9}}
    assert facts["shared_prefix_tokens"] == {"asked": 0, "least": 0, "most": 0}
    assert "has its length again" in facts["round_trip"]


def test_lengths_spread_as_asked_and_the_facts_keep_both():
    asked = {"mean": 60.0, "std": 15.0, "min": 20, "max": 90}
    answers = {"mean": 8.0, "min": 4, "max": 12, "shape": "uniform"}
    made = workset(tokens=tokenizer(), input_tokens=asked, output_tokens=answers, items=200)
    delivered = made.facts["prompt_tokens"]["delivered"]
    assert delivered["mean"] == pytest.approx(60, abs=0.5)
    assert 20 <= delivered["min"] < 35 < 80 < delivered["max"] <= 90
    assert made.facts["prompt_tokens"]["asked"] == {**asked, "shape": "normal"}
    assert made.facts["output_tokens"]["drawn"]["min"] == 4
    assert made.facts["output_tokens"]["drawn"]["max"] == 12
    counts = tokenizer().count([item.turns[0] for item in made.items])
    assert counts == [item.input_tokens for item in made.items]


def test_a_shared_prefix_is_shared_and_nothing_more():
    made = workset(tokens=tokenizer(), input_tokens=80, shared_prefix=30, items=25)
    ids = [tokenizer().encode(item.turns[0]) for item in made.items]
    assert {len(one) for one in ids} == {80}
    assert len({tuple(one[:30]) for one in ids}) == 1
    assert len({one[30] for one in ids}) == 25
    assert made.facts["shared_prefix_tokens"] == {"asked": 30, "least": 30, "most": 30}


def test_the_template_counts_as_part_of_the_prompt():
    made = workset(tokens=tokenizer(), input_tokens=40, prompt="Please repeat: {text}", items=5)
    assert tokenizer().count([item.turns[0] for item in made.items]) == [40] * 5
    assert all(item.turns[0].startswith("Please repeat: ") for item in made.items)
    assert made.facts["shared_prefix_tokens"]["least"] > 0


def test_how_many_prompts_are_made_when_nobody_says():
    assert len(workset(tokens=tokenizer(), input_tokens=4).items) == 512
    assert len(workset(tokens=tokenizer(), input_tokens=4, load={"requests": 10}).items) == 36
    assert len(workset(tokens=tokenizer(), input_tokens=4, load={"requests": 100_000}).items) == 4096


def test_one_seed_one_set():
    sets = [workset(tokens=tokenizer(), input_tokens=30, items=9, seed=seed) for seed in (1, 1, 2)]
    assert sets[0] == sets[1]
    assert sets[0].facts["digest"] != sets[2].facts["digest"]


def test_a_length_without_a_tokenizer_is_refused_and_not_guessed():
    for task in ("synthetic", "conversation", "embedding"):
        problem = refusal(task=task, input_tokens=20)
        assert "words are not tokens" in problem.message
        assert "target.tokenizer" in problem.try_
        assert "/tokenize" in problem.try_


def test_a_prefix_longer_than_the_prompt_is_refused():
    problem = refusal(tokens=tokenizer(), input_tokens=30, shared_prefix=30)
    assert problem.message == "workload.shared_prefix is 30 tokens, and the shortest prompt has only 30"
    assert "without workload.input_tokens" in refusal(shared_prefix=5).message


def test_without_a_length_plain_questions_are_asked_and_no_tokenizer_is_needed():
    made = workset(output_tokens=33)
    assert [item.turns[0] for item in made.items] == list(questions())
    assert {item.output_tokens for item in made.items} == {33}
    assert made.facts["source"] == "built-in questions, because workload.input_tokens is not given"
    assert made.facts["prompt_tokens"]["delivered"] is None
    assert "words are not tokens" in made.facts["prompt_tokens"]["because"]
    assert len(workset(items=5).items) == 5
    assert refusal(items=500).message == "workload.items is 500, and there are only 32 built-in questions"
    begins = [question.split()[0] for question in questions()]
    assert len(set(begins)) == len(begins) >= 32


# conversation


def test_a_made_conversation_has_turns_of_a_length_and_a_shared_system_text():
    made = workset(
        tokens=tokenizer(), task="conversation", input_tokens=20, turns=3, items=8, shared_prefix=25, output_tokens=7
    )
    assert {len(item.turns) for item in made.items} == {3}
    assert {count for item in made.items for count in tokenizer().count(item.turns)} == {20}
    assert len({item.system for item in made.items}) == 1
    assert tokenizer().count([made.items[0].system]) == [25]
    assert len({turn for item in made.items for turn in item.turns}) == 24
    assert len({tokenizer().encode(item.turns[0])[0] for item in made.items}) == 8
    assert made.facts["turns"] == 24
    assert made.facts["system_tokens"] == 25
    assert {item.output_tokens for item in made.items} == {7}
    assert workset(tokens=tokenizer(), task="conversation", input_tokens=5, items=2).items[0].system is None


def test_a_conversation_from_a_file_keeps_its_turns(tmp_path):
    name = jsonl(
        tmp_path,
        {"id": "a", "turns": ["Hello.", "And then?"], "system": "Be kind.", "topic": "x"},
        {
            "messages": [
                {"role": "system", "content": "Be brief."},
                {"role": "user", "content": "One"},
                {"role": "assistant", "content": "First answer"},
                {"role": "user", "content": [{"type": "text", "text": "Two"}]},
                {"role": "assistant", "content": "Last answer"},
            ]
        },
    )
    first, second = workset(tmp_path, task="conversation", file=name, prompt="> {text}").items
    assert first == Item("a", ("> Hello.", "And then?"), "Be kind.", data={"topic": "x"})
    assert second == Item("line-2", ("> One", "Two"), "Be brief.", "Last answer")
    facts = workset(tmp_path, task="conversation", file=name).facts
    assert facts["turns"] == 4
    assert facts["recorded_answers"] == "1, replaced by the server's own"
    problem = refusal(tmp_path, task="conversation", file=name, turns=3)
    assert problem.message == "workload.turns belongs to conversations that are made, and these come from own.jsonl"


def test_a_conversation_needs_a_source():
    assert "needs workload.file, or workload.input_tokens" in refusal(task="conversation").message


# embedding


def test_embedding_takes_sentences_of_the_articles():
    made = workset(task="embedding")
    texts = [item.turns[0] for item in made.items]
    assert len(texts) == len(set(texts)) > 300
    assert all(text[0].isupper() or text[0].isdigit() for text in texts)
    assert all(text.endswith((".", "?")) and "\n" not in text for text in texts)
    assert made.facts["licence"] == "CC0-1.0"


def test_embedding_puts_several_texts_into_a_request(tmp_path):
    name = jsonl(tmp_path, *({"text": f"text {number}"} for number in range(10)))
    made = workset(tmp_path, task="embedding", file=name, batch=4, prompt="query: {text}")
    assert [len(item.turns) for item in made.items] == [4, 4]
    assert made.items[1].turns == tuple(f"query: text {number}" for number in range(4, 8))
    assert (made.facts["batch"], made.facts["texts_left_out"]) == (4, 2)
    assert refusal(tmp_path, task="embedding", file=name, batch=11).message == (
        "workload.batch is 11, and there are only 10 texts"
    )
    assert len(workset(tmp_path, task="embedding", file=name, batch=2, items=3).items) == 3
    assert "belongs to texts that are made" in refusal(tmp_path, task="embedding", file=name, input_tokens=3).message


def test_embedding_texts_can_be_made_to_length():
    made = workset(tokens=tokenizer(), task="embedding", input_tokens=16, batch=3, items=5)
    assert [tokenizer().count(item.turns) for item in made.items] == [[16, 16, 16]] * 5
    assert {item.input_tokens for item in made.items} == {16}


def test_own_scorers_replace_those_of_the_task():
    assert workset(task="wikipedia-summary", items=1).scorers == ("rouge",)
    assert workset(task="wikipedia-summary", items=1, scorers=("mine",)).scorers == ("mine",)
    assert workset(task="wikipedia-summary", items=1, scorers=()).scorers == ()
    assert definition().workload.scorers is None
