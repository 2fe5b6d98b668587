"""Scorers by name: ours, those of others, and those that fail."""

import math

import numpy as np
import pytest
from tests.support.leaving import install

from assay.errors import MeasureError
from assay.run.scoring import Output, find_scorer, score, scored, scorer_names, scorer_version


@pytest.fixture
def others(tmp_path, monkeypatch):
    install(tmp_path / "site", monkeypatch)


def judged(scorer, text, reference=None):
    (values,) = score([Output("a", 0, 0, text, reference)], [scorer]).values()
    return values[0]


def test_exact_match():
    assert judged("exact-match", " yes\n", "yes") == 1.0
    assert judged("exact-match", "Yes", "yes") == 0.0
    assert math.isnan(judged("exact-match", "yes"))


def test_contains():
    assert judged("contains", "The answer is\nForty  Two.", "forty two") == 1.0
    assert judged("contains", "no", "yes") == 0.0
    assert math.isnan(judged("contains", "yes"))


@pytest.mark.parametrize(
    ("text", "valid"),
    [('{"a": [1, 2.5e3, null]}', 1), (" 7 \n", 1), ('"x"', 1), ("1" * 10_000, 1), ("", 0), ("{", 0), ("NaN", 0),
     ("[Infinity]", 0), ("```json\n{}\n```", 0), ("{} {}", 0), ("[" * 100_000, 0)],
)  # fmt: skip
def test_json_valid(text, valid):
    assert judged("json-valid", text) == valid


def test_length_counts_characters():
    assert judged("length", "Grüße 👋") == 7.0


def test_failed_requests_have_no_score_and_are_counted():
    rows = [
        Output("a", 0, 0, "yes", "yes"),
        Output("b", 1, 0, "yes", "yes", outcome="timeout"),
        Output("c", 2, 0, "", "x"),
    ]
    found = scored(rows, ["exact-match"])
    values = found.values["exact_match"]
    assert values[0] == 1.0
    assert math.isnan(values[1])
    assert values[2] == 0.0
    assert found.absent == {"exact-match": "of 3 requests 1 failed and have no answer"}
    assert found.facts["exact-match"] == {
        "version": scorer_version("exact-match"),
        "metrics": ["exact_match"],
        "scored": 2,
        "empty": 1,
        "failed": 1,
        "without_score": 0,
    }


def test_no_answers_at_all():
    found = scored([], ["length", "rouge"])
    assert found.values == {}
    assert found.absent == dict.fromkeys(("length", "rouge"), "there are no answers")
    failed = scored([Output("a", 0, 0, "", "x", outcome="status")], ["rouge"])
    assert failed.values == {}
    assert "1 failed" in failed.absent["rouge"]


def test_a_scorer_of_others_is_found_by_its_entry_point(others):
    assert "vowels" in scorer_names()
    assert scorer_version("vowels") == "leaving 2.5"
    assert judged("vowels", "aabb") == 0.5


def test_scorers_that_fail_lose_nothing(others):
    rows = [Output("a", 0, 0, "aabb", "aabb"), Output("b", 1, 0, "x", "y")]
    found = scored(rows, ["broken", "short", "missing", "nobody", "exact-match"])
    assert set(found.values) == {"exact_match"}
    assert "KeyError: 'nothing here'" in found.absent["broken"]
    assert "gave 1 values of short for 2 answers" in found.absent["short"]
    assert "no_such_module" in found.absent["missing"]
    assert "no scorer here is called 'nobody'" in found.absent["nobody"]
    assert "exact-match" in found.absent["nobody"]


def test_a_scorer_that_hangs_is_given_up_in_time(others):
    found = scored([Output("a", 0, 0, "x", "x")], ["length", "slow"], within_s=2.0)
    assert set(found.values) == {"answer_chars"}
    assert "not ready" in found.absent["slow"]


def test_a_scorer_in_time_says_the_same():
    rows = [Output("a", 0, 0, "the cat", "a cat")]
    with_limit, without = scored(rows, ["rouge"], within_s=60), scored(rows, ["rouge"])
    for metric, values in without.values.items():
        np.testing.assert_array_equal(with_limit.values[metric], values)
    assert "nobody" in scored(rows, ["nobody"], within_s=60).absent


def test_an_unknown_scorer_is_reported():
    with pytest.raises(MeasureError) as caught:
        find_scorer("rogue")
    assert "rouge" in caught.value.problem.try_
