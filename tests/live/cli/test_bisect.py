"""`assay bisect` over values, as a user meets it."""

import json

import pytest
from tests.support.in_turn import Machine, on
from typer.testing import CliRunner

from assay.cli.main import app

pytestmark = pytest.mark.simulated

BENCH = """
benchmark: steps
target:
  command: sh work.sh
  env: {N: '1'}
  metrics: [{name: step_ms, unit: ms, better: lower, pattern: 'step_ms: (\\S+)'}]
measure: {runs: 2, probe: off}
"""


@pytest.fixture
def machine(monkeypatch):
    return on(monkeypatch, Machine(lambda job: 20.0 if int(job.definition.target.env["N"]) < 3 else 30.0))


def bisect(write, *words):
    bench = str(write("bench.yaml", BENCH))
    return CliRunner().invoke(app, ["bisect", bench, "--path", "target.env.N", "--metric", "step_ms.p50", *words])


def test_the_first_bad_value_is_shown_with_the_table_of_what_was_measured(write, machine):
    done = bisect(write, "--values", "'1','2','3','4','5'")
    assert done.exit_code == 0, done.output
    lines = done.stdout.splitlines()
    assert lines[0].startswith('first bad: N="3" (')
    assert lines[0].endswith(" % sure)")
    assert "step_ms.p50 against good" in lines[2]
    answers = {line.split()[0]: line.split()[-1] for line in lines[3 : lines.index("", 3)]}
    assert answers == {'N="1"': "good", 'N="2"': "good", 'N="3"': "bad", 'N="5"': "bad"}
    assert "+50 % [" in lines[-4] or "+5" in done.stdout
    assert lines[-1].startswith("result  bs")
    assert "from good to bad" in done.stderr
    again = bisect(write, "--values", "'1','2','3','4','5'", "--quiet")
    assert "0 pairs measured, " in again.stdout
    assert "pairs measured before" in again.stdout
    assert again.stderr == ""


def test_json_has_all_figures(write, machine):
    found = json.loads(bisect(write, "--values", "'1','4'", "--format", "json", "--quiet").stdout)
    assert found["schema"] == "assay.bisect/1"
    assert found["found"]
    assert found["candidates"] == ['N="4"']
    assert found["ends"]["answer"] == "worse"
    assert found["rows"][1]["interval"]["level"] == 0.95


def test_what_cannot_be_measured_and_what_cannot_be_decided_are_shown(write, machine):
    machine.fails = lambda job: "crashed" if job.definition.target.env["N"] in ("2", "3") else ""
    done = bisect(write, "--values", "'1','2','3','4','5'")
    assert done.exit_code == 0, done.output
    assert "first bad: one of these 3" in done.stdout
    assert 'note    N="3": error[crashed]: broken on purpose' in done.stdout
    machine.fails = lambda job: ""
    machine.truth = lambda job: 20.0 * 1.1 ** int(job.definition.target.env["N"])
    unclear = bisect(write, "--values", "'1','3','5'", "--set", "description=two steps", "--pairs", "12")
    assert unclear.exit_code == 3
    assert unclear.stdout.startswith("cannot tell: ")
    assert "more than one step" in unclear.stdout
    assert "the first bad one is among these 2" in unclear.stdout
