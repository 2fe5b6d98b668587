"""Searches over commits and values: what is found, what is skipped, what is used again, and what is refused."""

import json
import os
import subprocess
from pathlib import Path

import pytest
from tests.live.test_worktrees import commit, git
from tests.support.in_turn import Machine, on

from assay.errors import MeasureError, UsageError
from assay.experiments.bisect import BisectSearch, bisect
from assay.experiments.candidates import CommitRange, Repository, SettingRange, worktrees
from assay.report.live import SilentView
from assay.spec.load import load
from assay.store.store import Store

pytestmark = pytest.mark.simulated


@pytest.fixture(autouse=True)
def _own_temporary_folder(tmp_path, monkeypatch):
    (tmp_path / "temporary").mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "temporary"))
    monkeypatch.setattr("tempfile.tempdir", None)


def written(folder, **more):
    document = {
        "benchmark": "steps",
        "target": {
            "command": ["sh", "work.sh", "1"],
            "metrics": [{"name": "step_ms", "unit": "ms", "better": "lower", "pattern": r"step_ms: (\S+)"}],
        },
        "measure": {"runs": 3, "probe": "off"},
        **more,
    }
    path = folder / "bench.json"
    path.write_text(json.dumps(document))
    return path


# Over values


def of_value(job):
    return 10.0 if float(job.definition.target.command[-1]) < 13 else 10.8


@pytest.fixture
def machine(monkeypatch):
    return on(monkeypatch, Machine(of_value))


def settings_of(tmp_path, *values, **more):
    commands = [["sh", "work.sh", str(value)] for value in values]
    return SettingRange(written(tmp_path, **more), (), "target.command", commands)


def test_the_first_bad_value_is_found_and_few_are_measured(tmp_path, machine):
    found = bisect(settings_of(tmp_path, *range(20)), BisectSearch())
    assert found.found
    assert found.candidates == ('command=["sh", "work.sh", "13"]',)
    assert found.confidence >= 0.95
    assert found.metric == "step_ms"
    assert found.ends.answer == "worse"
    assert found.items == 20
    by_index = {row.index: row for row in found.rows}
    assert {0, 12, 13, 19} <= set(by_index)
    assert len(found.rows) <= 9
    assert by_index[13].answer == "bad"
    assert by_index[12].answer == "good"
    assert by_index[13].change == pytest.approx(0.08, abs=0.03)
    assert by_index[13].interval.low > 0
    assert found.measured == len(machine.made) / 2
    labels = [one.labels for one in Store(Path(os.environ["ASSAY_STORE"])).campaigns()]
    assert all(one["bisect"] == found.name for one in labels)


def test_what_was_measured_is_used_again(tmp_path, machine):
    first = bisect(settings_of(tmp_path, *range(20)), BisectSearch())
    made = len(machine.made)
    again = bisect(settings_of(tmp_path, *range(20)), BisectSearch())
    assert len(machine.made) == made
    assert again.measured == 0
    assert again.candidates == first.candidates
    assert sum(row.reused for row in again.rows) == made / 2
    # A shorter list with the same good end knows its items too; the new end is measured.
    shorter = bisect(settings_of(tmp_path, *range(15)), BisectSearch())
    assert shorter.candidates == first.candidates
    assert shorter.measured < first.measured
    # Another benchmark is another matter.
    bisect(settings_of(tmp_path, *range(20), workload={}, description="other"), BisectSearch())
    assert len(machine.made) > made + shorter.measured * 2


class Stop(SilentView):
    def __init__(self, after):
        self.left = after

    def run_done(self, result):
        self.left -= 1
        if not self.left:
            raise KeyboardInterrupt


@pytest.mark.parametrize("after", [3, 27])
def test_an_interrupted_search_continues(tmp_path, machine, after):
    with pytest.raises(KeyboardInterrupt):
        bisect(settings_of(tmp_path, *range(20)), BisectSearch(), view=Stop(after))
    found = bisect(settings_of(tmp_path, *range(20)), BisectSearch())
    assert found.candidates == ('command=["sh", "work.sh", "13"]',)
    assert found.measured == pytest.approx(len(machine.made) / 2 - after // 2, abs=1)
    assert {one.state for one in Store(Path(os.environ["ASSAY_STORE"])).campaigns()} == {"done"}


def test_higher_may_be_better(tmp_path, machine):
    machine.truth = lambda job: 1000 / of_value(job)
    metrics = [{"name": "step_ms", "better": "higher", "pattern": r"step_ms: (\S+)"}]
    items = settings_of(tmp_path, *range(16), target={"command": ["sh", "work.sh", "1"], "metrics": metrics})
    found = bisect(items, BisectSearch())
    assert found.candidates == ('command=["sh", "work.sh", "13"]',)
    assert {row.answer for row in found.rows if row.index >= 13} == {"bad"}
    assert found.rows[-1].change < 0


def test_ends_that_are_alike_are_refused(tmp_path, machine):
    machine.spread = 0.003
    with pytest.raises(MeasureError, match=r"good and bad are alike: ±[01]\.\d % at most") as refused:
        bisect(settings_of(tmp_path, *range(10)), BisectSearch())
    assert refused.value.problem.code == "alike"
    assert len(machine.made) <= 80


def test_ends_that_noise_hides_are_refused_with_the_pairs_needed(tmp_path, machine):
    machine.spread = 0.3
    with pytest.raises(MeasureError, match=r"cannot be distinguished in step_ms.* more pairs|more than"):
        bisect(settings_of(tmp_path, 1, 14), BisectSearch(pairs=16))
    # More of them go on where this ended.
    machine.spread = 0.01
    assert bisect(settings_of(tmp_path, 1, 14), BisectSearch(pairs=100)).found


def test_ends_the_wrong_way_round_are_refused(tmp_path, machine):
    with pytest.raises(UsageError, match="bad is better than good"):
        bisect(settings_of(tmp_path, 15, 14, 2), BisectSearch())


def test_worse_than_decides_what_is_bad(tmp_path, machine):
    def two_steps(job):
        value = float(job.definition.target.command[-1])
        return 10.0 * (1.0 if value < 5 else 1.1 if value < 12 else 1.5)

    machine.truth = two_steps
    half = bisect(settings_of(tmp_path, *range(16)), BisectSearch())
    assert half.candidates == ('command=["sh", "work.sh", "12"]',)
    small = bisect(settings_of(tmp_path, *range(16)), BisectSearch(worse_than=0.05))
    assert small.candidates == ('command=["sh", "work.sh", "5"]',)
    with pytest.raises(MeasureError, match=r"not more than 80 %|alike"):
        bisect(settings_of(tmp_path, *range(16)), BisectSearch(worse_than=0.8))


def test_items_that_fail_are_skipped_and_the_range_is_reported(tmp_path, machine):
    machine.fails = lambda job: "crashed" if job.definition.target.command[-1] in ("12", "13") else ""
    found = bisect(settings_of(tmp_path, *range(16)), BisectSearch())
    assert found.found
    assert found.candidates == tuple(f'command=["sh", "work.sh", "{value}"]' for value in (12, 13, 14))
    skipped = [row for row in found.rows if row.answer == "skipped"]
    assert {row.index for row in skipped} <= {12, 13}
    assert all("error[crashed]" in row.why for row in skipped)


@pytest.mark.parametrize(("broken", "word"), [("0", "good"), ("15", "bad")])
def test_an_end_that_fails_is_reported(tmp_path, machine, broken, word):
    machine.fails = lambda job: "crashed" if job.definition.target.command[-1] == broken else ""
    with pytest.raises(MeasureError, match=rf"{word} \(.*cannot be measured: error\[crashed\]"):
        bisect(settings_of(tmp_path, *range(16)), BisectSearch())


def test_of_two_equal_steps_it_points_at_one_or_between_them(tmp_path, machine):
    def between(job):
        value = float(job.definition.target.command[-1])
        return 10.0 if value < 4 else 10.4 if value < 12 else 10.8

    machine.truth = between
    machine.spread = 0.02
    found = bisect(settings_of(tmp_path, *range(16)), BisectSearch(pairs=12))
    named = [int(one.split('"')[-2]) for one in found.candidates]
    # It looks for one step: of two equal ones it points at either, or between them; where it cannot tell, it says so.
    assert any(4 <= one <= 12 for one in named), found
    assert found.found or found.because


def test_time_ends_a_search_and_the_same_command_continues(tmp_path, machine):
    with pytest.raises(MeasureError, match="cannot be distinguished"):
        bisect(settings_of(tmp_path, *range(16)), BisectSearch(seconds=0.0))
    made = len(machine.made)
    assert made == 4
    assert bisect(settings_of(tmp_path, *range(16)), BisectSearch()).found


def test_a_metric_without_a_direction_and_one_that_is_not_there(tmp_path, machine):
    from assay.analyse.ab import wanted_from

    metrics = [{"name": "step_ms", "pattern": r"step_ms: (\S+)"}]
    items = settings_of(tmp_path, 1, 14, target={"command": ["sh", "work.sh", "1"], "metrics": metrics})
    with pytest.raises(UsageError, match="which direction of step_ms is better"):
        bisect(items, BisectSearch())
    with pytest.raises(UsageError, match="no run gives speed"):
        bisect(settings_of(tmp_path, 1, 14), BisectSearch(wanted=wanted_from("speed.p50")))


def test_a_matrix_is_refused(tmp_path, machine):
    with pytest.raises(UsageError, match="gives 2 jobs"):
        bisect(settings_of(tmp_path, 1, 14, matrix={"measure.runs": [1, 2]}), BisectSearch())


# Over commits


@pytest.fixture
def repository(tmp_path):
    """Twelve commits of which the eighth makes the work slower and the fifth does not build."""
    folder = tmp_path / "repository"
    folder.mkdir()
    git(folder, "init", "-q")
    shas = []
    for index in range(12):
        value = 10 if index < 7 else 14
        script = "exit 1" if index == 4 else f'echo "step_ms: {value}.$(date +%N)"'
        shas.append(commit(folder, f"change {index}", bench__work=script, bench__other=str(index)))
    return folder, shas


def of_commit(job):
    text = (Path(job.base) / "work").read_text()
    return float(text.split("step_ms: ")[1].split(".")[0])


def search_commits(folder, line, build="cp bench/work bench/work.sh; grep -q echo bench/work", **options):
    loaded = load(written(folder / "bench"))
    repository = Repository.of(loaded.base)
    with worktrees(repository, build) as trees:
        return bisect(CommitRange(loaded, repository.between(*line), trees), BisectSearch(), build=build, **options)


def test_the_first_bad_commit_is_found_beside_the_checkout(repository, monkeypatch):
    folder, shas = repository
    machine = on(monkeypatch, Machine(of_commit))
    before = git(folder, "status", "--porcelain")
    found = search_commits(folder, (shas[0], "HEAD"))
    assert found.found
    assert found.candidates == (f"{shas[7][:9]} change 7",)
    assert {row.answer for row in found.rows if row.index == 4} <= {"skipped"}
    assert git(folder, "status", "--porcelain").replace("?? bench/bench.json", "").strip() == before
    assert git(folder, "worktree", "list").count("\n") == 0
    commits = {one.labels["bisect_item"] for one in Store(Path(os.environ["ASSAY_STORE"])).campaigns()}
    assert commits <= set(shas)
    made = len(machine.made)
    assert search_commits(folder, (shas[0], "HEAD")).measured == 0
    assert len(machine.made) == made


def test_commits_that_do_not_build_leave_a_range(repository, monkeypatch):
    folder, shas = repository
    on(monkeypatch, Machine(of_commit))
    build = "cp bench/work bench/work.sh; n=$(cat bench/other); test $n -lt 4 -o $n -gt 8"
    found = search_commits(folder, (shas[0], "HEAD"), build)
    assert found.candidates == tuple(f"{shas[index][:9]} change {index}" for index in range(4, 10))
    assert all("does not build" in row.why for row in found.rows if row.answer == "skipped")


@pytest.mark.parametrize(("ends", "word"), [((4, 11), "good"), ((0, 4), "bad")])
def test_an_end_that_does_not_build_is_reported(repository, monkeypatch, ends, word):
    folder, shas = repository
    on(monkeypatch, Machine(of_commit))
    with pytest.raises(MeasureError, match=rf"{word} \({shas[4][:9]}.*does not build"):
        search_commits(folder, [shas[index] for index in ends])


@pytest.mark.live
def test_the_first_bad_commit_is_found_by_the_command(repository):
    """With real processes, as a user types it."""
    import sys

    folder, shas = repository
    written(
        folder / "bench",
        target={
            "command": ["sh", "work"],
            "metrics": [{"name": "step_ms", "unit": "ms", "better": "lower", "pattern": r"step_ms: (\S+)"}],
        },
    )
    command = [
        sys.executable,
        "-m",
        "assay",
        "bisect",
        "bench/bench.json",
        "--good",
        "HEAD~5",
        "--bad",
        "HEAD~3",
        "--format",
        "json",
        "--quiet",
    ]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["schema"] == "assay.bisect/1"
    assert found["candidates"] == [f"{shas[7][:9]} change 7"]
    assert found["confidence"] >= 0.95
    assert done.stderr == ""
