"""The batch scripts of a campaign and the order among them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from assay.engines.slurm.folder import SharedFolder
from assay.engines.slurm.plan import group
from assay.engines.slurm.scheduler import ClusterFacts, Partition
from assay.engines.slurm.scripts import ScriptContext, monitor_batch, plan_batches, script_of, variables
from assay.plan.plan import make_plan
from assay.spec.load import load

FACTS = ClusterFacts("22.05", "c", (Partition("p", True, True, 7200.0, 2, 2, 4, None, ()),), "sacct")
SERVED = {
    "services": {"llm": {"command": "serve", "needs": {"gpus": 1}}, "db": {"command": "db"}},
    "target": {"service": "llm", "api": "openai-chat", "model": "m"},
    "load": {"concurrency": 4, "duration": "4s"},
}
COMMAND = {"target": {"command": "true", "metrics": [{"name": "x", "pattern": "(.*)"}]}}


def making(slurm=None, *, monitored=False, **document):
    loaded = load({"benchmark": "b", "place": {"engine": "slurm", "slurm": slurm or {}}, **document})
    groups = group(make_plan(loaded, lambda _: {}).jobs, loaded.benchmark)
    return ScriptContext(
        "c1", SharedFolder(Path("/shared/c1")), loaded.benchmark.place.slurm, groups, monitored, Path("/base"), FACTS
    )


def order(made: ScriptContext):
    return {one.name: sorted(f"{one.kind}:{','.join(one.names)}" for one in one.after) for one in plan_batches(made)}


def text(made: ScriptContext, name: str) -> str:
    return script_of(next(one for one in plan_batches(made) if one.name == name), made).text()


def test_services_come_before_clients_and_the_end_after_them():
    assert order(making(**SERVED, matrix={"workload.output_tokens": [8, 9]})) == {
        "point-0000-llm": [],
        "point-0000-db": [],
        "point-0000": ["after:point-0000-llm,point-0000-db"],
        "point-0000-end": ["afterany:point-0000"],
        "point-0001-llm": ["afterany:point-0000-end"],
        "point-0001-db": ["afterany:point-0000-end"],
        "point-0001": ["after:point-0001-llm,point-0001-db", "afterany:point-0000-end"],
        "point-0001-end": ["afterany:point-0001"],
    }


def test_a_monitor_begins_before_all_and_ends_after_all():
    found = order(making(monitored=True, **COMMAND))
    assert found == {"monitor": [], "jobs-0": ["after:monitor"], "monitor-end": ["afterany:jobs-0"]}


def test_every_dependency_names_what_was_submitted_before():
    for slurm in ({}, {"parallel": True}, {"services": "steps"}, {"clients": 3}):
        seen: set[str] = set()
        for one in plan_batches(making(slurm, monitored=True, **SERVED, matrix={"workload.output_tokens": [8, 9, 10]})):
            assert {name for which in one.after for name in which.names} <= seen
            seen.add(one.name)


def test_an_array_is_one_script():
    made = making({"at_once": 20, "time": "5m"}, **COMMAND, matrix={"target.env.N": [str(n) for n in range(200)]})
    (only,) = plan_batches(made)
    script = script_of(only, made).text()
    assert "#SBATCH --array=0-199%20\n" in script
    assert script.endswith(' -m assay.engines.slurm.node.task /shared/c1 jobs-0 "${SLURM_ARRAY_TASK_ID}"\n')


def test_steps_share_one_allocation_and_each_has_its_node():
    made = making({"services": "steps", "clients": 2, "cpus": 2}, **SERVED)
    script = text(made, "point-0000")
    assert "#SBATCH --nodes=4\n" in script
    steps = re.findall(
        r"srun --overlap --mpi=none --relative=(\d) --nodes=(\d) --ntasks=(\d) .*assay\.engines\.slurm\.node\.(\w+)",
        script,
    )
    assert steps == [("0", "1", "1", "service"), ("1", "1", "1", "service"), ("2", "2", "2", "task")]
    assert script.rstrip().endswith("-m assay.engines.slurm.node.end /shared/c1 point-0000\nwait")


def test_few_nodes_are_shared_by_steps():
    script = text(making({"services": "steps", "clients": 2, "nodes": 1}, **SERVED), "point-0000")
    assert set(re.findall(r"--relative=(\d)", script)) == {"0"}


@pytest.mark.parametrize(
    ("slurm", "expected_s"),
    [
        ({}, None),
        ({"time": "10m"}, 1200.0),
        ({"time": "2h"}, 7200.0),
        ({"time": "10m", "each": {"monitor": {"time": "3m"}}}, 180.0),
    ],
)
def test_the_monitor_outlives_what_it_watches_as_far_as_its_partition_lets_it(slurm, expected_s):
    assert monitor_batch(making(slurm, monitored=True, **COMMAND)).time == expected_s


def test_services_ask_for_what_they_need_and_the_end_for_little():
    made = making({"gpus": "h200:1", "time": "1h", "account": "a"}, **SERVED)
    assert "--gres=gpu:h200:1" in text(made, "point-0000-llm")
    end = text(made, "point-0000-end")
    assert "gpu" not in end
    assert "--account=a" in end
    assert "--time=00:10:00" in end


def test_a_value_with_a_line_break_never_gets_into_a_script():
    from assay.errors import UsageError

    made = making(**COMMAND)
    (one,) = plan_batches(made)
    evil = ScriptContext(
        made.campaign, made.folder, made.slurm, made.groups, False, made.base, FACTS, {"X": "a\nrm -rf /"}
    )
    with pytest.raises(UsageError):
        script_of(one, evil).text()


def test_nodes_are_told_what_to_do_about_a_held_device_whoever_submits(monkeypatch):
    monkeypatch.setenv("ASSAY_LOCK", "off")  # sbatch sends the variables of the user; slurmrestd does not
    assert variables("off", control=True) == {"ASSAY_LOCK": "off"}
    assert variables(None, control=False) == {"ASSAY_CONTROL": "off"}


def test_a_service_may_have_a_time_of_its_own():
    made = making({"time": "10m", "each": {"llm": {"time": "2h"}}}, **SERVED)
    assert "#SBATCH --time=02:00:00" in text(made, "point-0000-llm")
    assert "#SBATCH --time=00:10:00" in text(made, "point-0000-db")
    assert "#SBATCH --time=00:10:00" in text(made, "point-0000")
