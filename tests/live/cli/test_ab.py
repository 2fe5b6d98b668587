"""`assay ab` and `assay bisect` as a user meets them."""

import json
import re
import subprocess
import sys

import pytest
from tests.support.in_turn import Machine, on

ASSAY = [sys.executable, "-m", "assay"]
# Noise of a few percent, and a number that the setting decides.
BENCH = """
benchmark: steps
target:
  command: [sh, -c, 'echo "step_ms: {}$(date +%N)"']
  metrics:
    - {{name: step_ms, unit: ms, better: lower, pattern: 'step_ms: (\\S+)'}}
measure: {{runs: 2, probe: off}}
"""


def assay(*arguments, **options):
    return subprocess.run([*ASSAY, *map(str, arguments)], capture_output=True, text=True, **options)


def of_command(job):
    return float(job.definition.target.command[2].split("step_ms: ")[1].split("$")[0])


@pytest.mark.simulated
def test_two_files_of_which_one_is_better(write, cli, monkeypatch):
    on(monkeypatch, Machine(of_command))
    slow, fast = write("slow.yaml", BENCH.format("40.")), write("fast.yaml", BENCH.format("20."))
    code, out, err = cli("ab", slow, fast, "--seed", 4)
    assert code == 0, err
    lines = out.splitlines()
    assert re.match(r"fast is better than slow: step_ms -(49|50)(\.\d)? % \[-", lines[0])
    assert "slow" in lines[2]
    assert "16 pairs in random blocks of ABBA or BAAB (seed 4)" in out
    assert "ended as soon as it could tell; looks planned after 16, 20, 24, 28, 32, 36 and 40 pairs" in out
    assert lines[-1].startswith("result  ab")
    assert "--continue" not in out
    a, b = (line.split()[1] for line in lines if line.startswith(("a  ", "b  ")))
    assert "better" in cli("compare", a, b, "--anyway")[1]
    assert cli("report", b, "--out", slow.parent / "r.html")[0] == 0
    assert cli("ab", fast, slow, "--fail-on-worse")[0] == 1


@pytest.mark.simulated
def test_sides_that_hardly_differ(write, cli, monkeypatch):
    on(monkeypatch, Machine(of_command, spread=0.0005))
    one, two = write("one.yaml", BENCH.format("40.0")), write("two.yaml", BENCH.format("40.1"))
    code, out, _ = cli("ab", one, one)
    assert code == 0
    assert out.startswith("cannot tell whether b is better or worse than a in step_ms: any difference is smaller than")
    assert "--continue" not in out
    # It is worse, but nobody wants to hear of so little.
    code, out, _ = cli("ab", one, two, "--fail-on-worse", "--format", "json")
    found = json.loads(out)
    assert (code, found["answer"], found["alike"]) == (0, "worse", True)
    assert found["because"] == ["by less than the 1.0 % that is of interest"]


@pytest.mark.live
def test_what_cannot_be_decided_names_the_pairs_and_can_go_on(write):
    bench = write("one.yaml", BENCH.format("40."))
    done = assay("ab", bench, "--a", "target.cwd=.", "--pairs", 2, "--open-ended", "--format", "json", "--quiet")
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    found = json.loads(done.stdout)
    assert found["schema"] == "assay.ab/1"
    assert [found["sides"][side]["name"] for side in "ab"] == ["cwd=.", "one"]
    assert found["a"] == pytest.approx(40.5, abs=0.5)
    assert found["answer"] == "cannot tell"
    assert found["stopped"] == "pairs"
    assert "below 12 pairs" in found["because"][0]
    assert found["interval"] is None
    assert (found["design"], found["looks"]) == ("open-ended", [])
    more = assay("ab", "--continue", found["experiment"], "--pairs", 2)
    assert "4 pairs in random blocks" in more.stdout
    assert f"more    assay ab --continue {found['experiment']}" in more.stdout
    assert more.stdout.startswith("cannot tell whether one is better or worse than cwd=. in step_ms")


@pytest.mark.live
def test_a_side_that_fails_is_reported_and_fails_the_command(write):
    good, bad = (
        write("good.yaml", BENCH.format("40.")),
        write("bad.yaml", "benchmark: bad\ntarget: {command: 'false'}\n"),
    )
    done = assay("ab", good, bad, "--quiet")
    assert done.returncode == 3
    assert "error[command]" in done.stdout
    assert "ended since a side cannot be measured" in done.stdout


@pytest.mark.parametrize(("words", "code"), [
    (("ab",), "usage"),
    (("ab", "{bench}", "--smallest", "much"), "share"),
    (("ab", "{bench}", "--at-most", "long"), "duration"),
    (("ab", "{bench}", "--set", "matrix={measure.runs: [1, 2, 3]}"), "matrix"),
    (("ab", "{bench}", "--continue", "ab12"), "usage"),
    (("ab", "--continue", "ab12"), "unknown-experiment"),
    (("ab", "nothing.yaml", "{bench}"), "no-file"),
    (("ab", "{bench}", "--a", "target.comand=x"), "unknown-key"),
    (("bisect", "{bench}"), "usage"),
    (("bisect", "{bench}", "--path", "measure.runs"), "usage"),
    (("bisect", "{bench}", "--path", "measure.runs", "--values", "1,2", "--good", "HEAD"), "usage"),
    (("bisect", "{bench}", "--path", "measure.runs", "--values", "1"), "values"),
    (("bisect", "{bench}", "--path", "measure.runs", "--values", "1,1"), "values"),
    (("bisect", "{bench}", "--path", "measure.runs", "--values", "1,[2"), "values"),
    (("bisect", "{bench}", "--good", "HEAD"), "no-repository"),
    (("bisect", "{bench}", "--good", "a", "--worse-than", "x"), "share"),
])  # fmt: skip
def test_wrong_use_is_refused_before_anything_runs(write, cli, monkeypatch, words, code):
    bench = write("one.yaml", BENCH.format("40."))
    monkeypatch.chdir(bench.parent)
    exit_code, out, err = cli(*(word.format(bench=bench) if word == "{bench}" else word for word in words))
    assert exit_code == 2
    assert f"error[{code}]" in err
    assert out == ""
