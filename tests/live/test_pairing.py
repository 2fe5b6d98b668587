"""Experiments: what is measured in which order, what is kept, and what happens when something fails or stops."""

import os
from itertools import pairwise
from pathlib import Path

import pytest
from tests.support.in_turn import Machine, on

from assay.analyse.ab import MetricSelection
from assay.analyse.compare import compare_jobs, pair_jobs
from assay.clock import SYSTEM_CLOCK
from assay.errors import MeasureError, UsageError
from assay.experiments import interleave
from assay.experiments.ab import ABBudget, ABQuestion, run_ab, stored_experiment
from assay.experiments.interleave import job_pair, order_of, parts_of
from assay.report.live import SilentView
from assay.report.result import read_campaign
from assay.spec.load import load
from assay.store.store import Store


def side(folder, name, value=10.0, **more):
    return load(
        {
            "benchmark": "steps",
            "target": {
                "command": ["sh", "work.sh", str(value), name],
                "metrics": [{"name": "step_ms", "unit": "ms", "better": "lower", "pattern": r"step_ms: (\S+)"}],
            },
            "measure": {"runs": 3, "probe": "off"},
            "labels": {"team": "speed", "about": "steps"},
            **more,
        },
        base=folder,
    )


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "work.sh").write_text("echo a script that the machine of these tests never runs\n")
    return tmp_path


def of_command(job):
    return float(job.definition.target.command[2])


@pytest.fixture
def machine(monkeypatch):
    """Noise of one percent around the number that a command names."""
    return on(monkeypatch, Machine(of_command))


def twin(folder, a=10, b=10):
    return job_pair([side(folder, "a", a), side(folder, "b", b)], ["before", "after"])


def letters(machine):
    return "".join(job.definition.target.command[3] for job in machine.made)


def orders(seed, *blocks, part=0):
    return "".join(order_of(seed, part, block) for block in blocks).lower()


def store():
    return Store(Path(os.environ["ASSAY_STORE"]))


@pytest.mark.simulated
def test_a_large_difference_is_reported_at_the_first_look_and_kept_as_two_campaigns(folder, monkeypatch):
    machine = on(monkeypatch, Machine(of_command), looked_at=True)
    found = run_ab(twin(folder, a=40, b=20), ABQuestion(), ABBudget(40), seed=7)
    assert found.stopped == "told"
    assert found.decision.answer == "better"
    assert found.decision.metric == "step_ms"
    assert found.decision.change == pytest.approx(-0.5, abs=0.03)
    assert found.decision.interval.low < found.decision.change < found.decision.interval.high < 0
    assert found.decision.design == "planned"
    assert found.looks == (16, 20, 24, 28, 32, 36, 40)
    assert found.decision.pairs == 16
    assert found.seed == 7
    # The runs were made in the order that the seed says: in blocks, by lot.
    assert letters(machine) == orders(7, *range(8))
    kept = store()
    a, b = (read_campaign(kept, campaign) for campaign in found.parts[0].campaigns)
    assert (a.state, b.state) == ("done", "done")
    assert {**a.labels, "ab_side": "b", "ab_name": "after"} == b.labels
    assert b.labels["ab"] == found.name
    assert b.labels["ab_seed"] == "7"
    assert b.labels["ab_planned"] == "40"
    assert b.labels["team"] == "speed"
    assert [job.successful_runs for job in (*a.jobs, *b.jobs)] == [16, 16]
    assert a.jobs[0].definition["measure"]["runs"] == 3
    assert a.jobs[0].environment["before"]["fitness"]
    assert a.jobs[0].environment["after"]["fitness"]
    assert a.jobs[0].environment["lock"]["mode"] == "off"
    # Reports and comparisons work on them as on any other.
    ((one, other),) = pair_jobs(a, b)
    (line,) = [line for line in compare_jobs(one, other, anyway=True) if line.metric == "step_ms"]
    assert line.answer == "better"
    # A plan of the file takes the time of its own three runs, not that of sixteen.
    assert kept.known_seconds(a.jobs[0].digest) < found.seconds / 4


@pytest.mark.simulated
def test_equal_sides_are_not_distinguished_and_more_pairs_can_be_added(folder, machine):
    found = run_ab(twin(folder), ABQuestion(smallest=0.0001), ABBudget(13, open_ended=True), seed=3)
    assert found.stopped == "pairs"
    assert found.decision.answer == "cannot tell"
    assert found.decision.pairs == 14  # blocks are measured whole
    assert found.decision.design == "open-ended"
    assert found.looks == ()
    assert found.decision.more_for_smallest is None or found.decision.more_for_smallest > 100
    again, parts = stored_experiment(found.name)
    assert again.names == ("before", "after")
    assert again.labels[0] == {"team": "speed", "about": "steps"}
    assert [len(runs) for runs in parts[0].readings] == [14, 14]
    more = run_ab(again, ABQuestion(smallest=0.0001), ABBudget(10), parts=parts)
    assert (more.name, more.seed) == (found.name, 3)
    assert more.decision.pairs == 24
    assert [len(part.readings[0]) for part in more.parts] == [14, 10]
    assert letters(machine) == orders(3, *range(7)) + orders(3, *range(5), part=1)
    # What was known is enough for an easier question.
    easy = run_ab(again, ABQuestion(smallest=0.1), ABBudget(10), parts=more.parts)
    assert easy.decision.alike
    assert easy.decision.answer == "cannot tell"
    assert easy.decision.pairs == 24


@pytest.mark.simulated
def test_a_planned_experiment_is_not_continued(folder, machine):
    found = run_ab(twin(folder), ABQuestion(smallest=0.0), ABBudget(12), seed=3)
    assert (found.stopped, found.looks, found.decision.pairs) == ("pairs", (12,), 12)
    assert "a new experiment should plan" in found.decision.because[1]
    with pytest.raises(UsageError, match="was planned with 12 pairs") as refused:
        stored_experiment(found.name)
    assert "--open-ended" in refused.value.problem.try_


@pytest.mark.simulated
def test_the_plan_stays_when_an_interrupted_experiment_goes_on(folder, machine):
    with pytest.raises(KeyboardInterrupt):
        run_ab(twin(folder), ABQuestion(smallest=0.0), ABBudget(12), seed=3, view=Stop(6))
    found = run_ab(twin(folder), ABQuestion(smallest=0.0), ABBudget(30), seed=99)
    assert (found.seed, found.looks, found.decision.pairs) == (3, (12,), 12)
    with pytest.raises(KeyboardInterrupt):
        run_ab(twin(folder), ABQuestion(smallest=0.0), ABBudget(6, open_ended=True), seed=4, view=Stop(6))
    found = run_ab(twin(folder), ABQuestion(smallest=0.0), ABBudget(6), seed=99)
    assert (found.seed, found.looks, found.decision.design) == (4, (), "open-ended")


@pytest.mark.simulated
def test_a_continued_experiment_must_be_the_same_thing(folder, machine, monkeypatch):
    found = run_ab(twin(folder), ABQuestion(smallest=0.0), ABBudget(2, open_ended=True), seed=3)
    with pytest.raises(UsageError, match="no experiment 'abnone'"):
        stored_experiment("abnone")
    with monkeypatch.context() as elsewhere:
        elsewhere.setattr("assay.experiments.ab.surroundings", lambda: "another machine")
        with pytest.raises(UsageError, match="this machine or its packages"):
            stored_experiment(found.name)
    (folder / "work.sh").write_text("echo changed")
    with pytest.raises(UsageError, match="not what they were"):
        stored_experiment(found.name)


@pytest.mark.simulated
def test_failed_runs_take_their_pairs_with_them_and_are_named(folder, machine):
    machine.fails = lambda job: "timeout" if len(machine.made) % 5 == 0 else ""
    found = run_ab(twin(folder, b=20), ABQuestion(), ABBudget(40), seed=1)
    assert found.decision.answer == "worse"
    assert found.decision.failed > 0
    assert found.decision.failed + found.decision.pairs == len(found.parts[0].readings[0])
    assert all("error[timeout]: broken on purpose" in why for why in found.decision.failures)


@pytest.mark.simulated
def test_a_side_that_always_fails_ends_the_experiment(folder, machine):
    machine.fails = lambda job: "crashed" if job.definition.target.command[3] == "b" else ""
    found = run_ab(twin(folder), ABQuestion(), ABBudget(40), seed=1)
    assert found.stopped == "failed"
    assert found.decision.answer == "cannot tell"
    assert found.decision.pairs == 0
    assert "error[crashed]" in found.decision.failures[0]
    states = [read_campaign(store(), campaign).state for campaign in found.parts[0].campaigns]
    assert states == ["done", "failed"]
    assert letters(machine).count("b") == 2


@pytest.mark.simulated
def test_a_metric_that_no_run_gives_is_reported_after_the_first_block(folder, machine):
    with pytest.raises(UsageError, match="no run gives speed") as refused:
        run_ab(twin(folder), ABQuestion(MetricSelection("speed")), ABBudget(40), seed=1)
    assert "step_ms" in refused.value.problem.try_
    with pytest.raises(UsageError, match="needs 662 samples in each run, and it took 1"):
        run_ab(twin(folder), ABQuestion(MetricSelection("step_ms", "p99")), ABBudget(40), seed=1, fresh=True)
    assert len(machine.made) == 8


@pytest.mark.simulated
def test_time_ends_it_between_two_blocks(folder, machine):
    class Hurried:
        """A clock of which every look takes a second."""

        now = 0.0

        def monotonic_s(self):
            self.now += 1.0
            return self.now

        def utc(self):
            return SYSTEM_CLOCK.utc()

    found = run_ab(twin(folder), ABQuestion(smallest=0.0), ABBudget(40, seconds=25.0), seed=1, clock=Hurried())
    assert found.stopped == "time"
    assert 2 <= found.decision.pairs <= 6


class Stop(SilentView):
    """Ctrl-C after so many runs."""

    def __init__(self, after):
        self.left = after
        self.notes = []

    def run_done(self, result):
        self.left -= 1
        if not self.left:
            raise KeyboardInterrupt

    def note(self, text):
        self.notes.append(text)


@pytest.mark.simulated
def test_an_interrupted_experiment_continues_where_it_stopped(folder, machine):
    view = Stop(6)
    with pytest.raises(KeyboardInterrupt):
        run_ab(twin(folder, b=5), ABQuestion(), ABBudget(40), seed=5, view=view)
    assert "the same command continues it" in view.notes[-1]
    kept = store()
    assert {one.state for one in kept.campaigns()} == {"interrupted"}
    # Another experiment is not that one.
    assert run_ab(twin(folder, b=6), ABQuestion(), ABBudget(2), seed=1).parts[0].number == 0
    made = len(machine.made)
    found = run_ab(twin(folder, b=5), ABQuestion(), ABBudget(40), seed=99)
    assert found.seed == 5  # the lot goes on as well
    assert letters(machine)[:6] + letters(machine)[made:] == orders(5, *range(8))
    assert found.decision.answer == "better"
    assert found.decision.pairs == 16
    assert len(kept.campaigns()) == 4
    assert {one.state for one in kept.campaigns()} == {"done"}
    # A finished one is not stored_experiment by itself.
    assert run_ab(twin(folder, b=5), ABQuestion(), ABBudget(2)).name != found.name


@pytest.mark.simulated
def test_fresh_leaves_an_interrupted_one_behind(folder, machine):
    with pytest.raises(KeyboardInterrupt):
        run_ab(twin(folder), ABQuestion(), ABBudget(40), seed=5, view=Stop(3))
    found = run_ab(twin(folder), ABQuestion(), ABBudget(2), seed=8, fresh=True)
    assert found.seed == 8
    assert sorted(one.state for one in store().campaigns()) == ["cancelled", "cancelled", "done", "done"]


@pytest.mark.simulated
def test_a_continued_experiment_that_is_interrupted_continues_too(folder, machine):
    found = run_ab(twin(folder), ABQuestion(smallest=0.0), ABBudget(4, open_ended=True), seed=3)
    again, parts = stored_experiment(found.name)
    with pytest.raises(KeyboardInterrupt):
        run_ab(again, ABQuestion(smallest=0.0), ABBudget(8), parts=parts, view=Stop(5))
    again, parts = stored_experiment(found.name)
    assert [len(part.readings[0]) + len(part.readings[1]) for part in parts] == [8, 5]
    more = run_ab(again, ABQuestion(smallest=0.0), ABBudget(2), parts=parts)
    assert more.name == found.name
    assert letters(machine) == orders(3, 0, 1) + orders(3, 0, 1, part=1)
    assert {one.state for one in store().campaigns()} == {"done"}


@pytest.mark.simulated
def test_what_continues_for_long_is_kept_in_parts(folder, machine, monkeypatch):
    monkeypatch.setattr(interleave, "BLOCKS_OF_A_PART", 2)
    found = run_ab(twin(folder), ABQuestion(smallest=0.0), ABBudget(10), seed=2)
    assert [len(part.readings[0]) for part in found.parts] == [4, 4, 2]
    assert found.decision.pairs == 10
    assert letters(machine) == orders(2, 0, 1) + orders(2, 0, 1, part=1) + orders(2, 0, part=2)
    kept = parts_of(store(), {"ab": found.name})
    assert [part.campaigns for part in kept] == [part.campaigns for part in found.parts]


@pytest.mark.simulated
def test_order_that_matters_is_reported(folder, machine):
    machine.truth = lambda job: 10.0 * (1.1 if len(machine.made) % 2 == 0 else 1.0)
    found = run_ab(twin(folder), ABQuestion(smallest=0.0), ABBudget(20), seed=1)
    assert found.order.startswith("run order matters")


def test_a_machine_that_cannot_take_a_job_is_reported_before_anything_begins(folder):
    with pytest.raises(MeasureError, match="cannot take the job"):
        job_pair([side(folder, "a", needs={"memory": "900TiB"}), side(folder, "b")], ["a", "b"])
    with pytest.raises(MeasureError, match="slurm"):
        job_pair([side(folder, "a", place={"engine": "slurm"}), side(folder, "b")], ["a", "b"])


def test_the_lot_is_fair_and_repeatable():
    thrown = [order_of(1, 0, block) for block in range(2000)]
    assert thrown == [order_of(1, 0, block) for block in range(2000)]
    assert 900 < thrown.count("ABBA") < 1100
    assert 900 < sum(one != other for one, other in pairwise(thrown)) < 1100
    assert thrown[:50] != [order_of(2, 0, block) for block in range(50)]
    assert thrown[:50] != [order_of(1, 1, block) for block in range(50)]
