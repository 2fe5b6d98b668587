import pytest

from assay.errors import MeasureError
from assay.spec.load import load
from assay.spec.secrets import redact, references, resolve_secrets


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


def test_values_are_hidden_in_kept_texts():
    assert redact("token=hush-hush!", ["K"], {"K": "hush-hush"}) == "token=***!"
    assert redact("a b c", ["K"], {"K": "a"}) == "a b c"
