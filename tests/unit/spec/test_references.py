"""test_references."""

from __future__ import annotations

import pytest

from assay.errors import MeasureError
from assay.spec.load import load
from assay.spec.references import redact, references, resolve_secrets


def test_secrets_stay_references_in_the_benchmark():
    target = {"command": "x", "env": {"KEY": "${env:MY_KEY}"}}
    benchmark = load({"benchmark": "s", "target": target}).benchmark
    assert benchmark.target.env == {"KEY": "${env:MY_KEY}"}
    assert list(references(benchmark.model_dump())) == ["MY_KEY"]


def test_a_secret_is_resolved_where_it_is_used():
    assert resolve_secrets("Bearer ${env:K}", {"K": "hush-hush"}) == "Bearer hush-hush"


def test_a_missing_variable_is_named():
    with pytest.raises(MeasureError, match="MY_KEY"):
        resolve_secrets("${env:MY_KEY}", {})


def test_an_agent_gives_jobs_only_the_variables_that_its_owner_listed():
    agent = {"KEY": "hush-hush", "AWS_SECRET_ACCESS_KEY": "canary", "ASSAY_JOB_ENV": "KEY,OTHER"}
    assert resolve_secrets("${env:KEY}", agent) == "hush-hush"
    with pytest.raises(MeasureError, match="AWS_SECRET_ACCESS_KEY") as caught:
        resolve_secrets("${env:AWS_SECRET_ACCESS_KEY}", agent)
    assert caught.value.problem.code == "secret"
    assert "--allow-env AWS_SECRET_ACCESS_KEY" in caught.value.problem.try_
    assert "canary" not in str(caught.value)


def test_an_agent_without_a_list_gives_none_and_does_not_say_whether_it_is_set():
    told = []
    for agent in ({"KEY": "hush-hush", "ASSAY_JOB_ENV": ""}, {"ASSAY_JOB_ENV": ""}):
        with pytest.raises(MeasureError, match="KEY") as caught:
            resolve_secrets("${env:KEY}", agent)
        told.append(str(caught.value))
    assert told[0] == told[1]


def test_values_are_hidden_in_kept_texts():
    assert redact("token=hush-hush!", ["K"], {"K": "hush-hush"}) == "token=***!"
    assert redact("a b c", ["K"], {"K": "a"}) == "a b c"


def test_values_are_hidden_however_they_are_spelled():
    """The host of a URL is written in small letters, whatever the value has."""
    known = {"K": "Hush-Hush.example"}
    said = "hush-hush.example cannot be resolved; HUSH-HUSH.EXAMPLE, Hush-Hush.example"
    assert redact(said, ["K"], known) == "*** cannot be resolved; ***, ***"
    assert redact("a.b+c axb+c", ["K"], {"K": "a.b+c"}) == "*** axb+c"
