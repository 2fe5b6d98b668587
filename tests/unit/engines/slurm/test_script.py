"""Batch scripts: readable, and run by a real shell exactly as they were meant."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from assay.engines.slurm.script import Script, ScriptCommand, Variable
from assay.errors import UsageError

WORDS = st.lists(st.text(st.characters(exclude_categories=("C", "Zl", "Zp")), max_size=20), max_size=5)
SHOW = (sys.executable, "-c", "import json, sys; print(json.dumps(sys.argv[1:]))")


def run(script: Script, tmp_path: Path, **env: str) -> subprocess.CompletedProcess[str]:
    path = tmp_path / "script.sh"
    path.write_text(script.text())
    return subprocess.run(
        ["/bin/bash", str(path)], capture_output=True, text=True, env={"PATH": "/usr/bin:/bin", **env}
    )


def test_a_whole_script_reads_like_one_written_by_hand():
    script = Script(
        "jobs-0",
        ("--partition=gpu", "--gres=gpu:1"),
        [("/opt/py", "-m", "assay.engines.slurm.node.task", "/shared/c 1", "jobs-0", Variable("SLURM_ARRAY_TASK_ID"))],
        modules=("CUDA/12.4",),
        prologue=("ulimit -l unlimited",),
        array="0-199%20",
        env={"HF_HUB_OFFLINE": "1"},
        output=Path("/shared/c 1/logs/jobs-0-%A_%a.out"),
        work_dir=Path("/shared/c 1"),
        about="200 jobs of campaign c 1",
    )
    assert (
        script.text()
        == """\
#!/bin/bash
# 200 jobs of campaign c 1
#SBATCH --job-name=jobs-0
#SBATCH --array=0-199%20
#SBATCH --output="/shared/c 1/logs/jobs-0-%A_%a.out"
#SBATCH --chdir="/shared/c 1"
#SBATCH --partition=gpu
#SBATCH --gres=gpu:1

type module >/dev/null 2>&1 || source /etc/profile
set -e
module load CUDA/12.4
ulimit -l unlimited
export HF_HUB_OFFLINE=1
exec /opt/py -m assay.engines.slurm.node.task '/shared/c 1' jobs-0 "${SLURM_ARRAY_TASK_ID}"
"""
    )


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(words=WORDS, value=st.text(st.characters(exclude_categories=("C", "Zl", "Zp")), max_size=30))
def test_words_and_variables_reach_the_command_unchanged(words, value, tmp_path):
    script = Script("s", (), [(*SHOW, *words, Variable("VALUE"))], env={"VALUE": value})
    assert json.loads(run(script, tmp_path).stdout) == [*words, value]


def test_the_first_failure_ends_the_script_with_its_status(tmp_path):
    done = run(Script("s", (), [("echo", "one"), ("sh", "-c", "exit 7"), ("echo", "two")]), tmp_path)
    assert (done.returncode, done.stdout) == (7, "one\n")
    done = run(Script("s", (), [("echo", "never")], prologue=("false",)), tmp_path)
    assert (done.returncode, done.stdout) == (1, "")


def test_a_missing_module_command_ends_the_script(tmp_path):
    done = run(Script("s", (), [("echo", "never")], modules=("X",)), tmp_path)
    assert done.returncode
    assert "never" not in done.stdout


def test_what_runs_in_the_background_ends_with_the_script(tmp_path):
    mark = tmp_path / "pid"
    service = ScriptCommand(("sh", "-c", f"echo $$ > {mark}; exec sleep 60"), background=True)
    wait = ("sh", "-c", f"until [ -s {mark} ]; do sleep 0.02; done; exit 3")
    done = run(Script("s", (), [service, wait]), tmp_path)
    assert done.returncode == 3
    assert not Path(f"/proc/{mark.read_text().strip()}").exists()


@pytest.mark.parametrize(
    "script",
    [
        Script("a\nb", (), [("true",)]),
        Script("s", ("--partition=x\n#SBATCH --uid=0",), [("true",)]),
        Script("s", (), [("echo", "a\nrm -rf /")]),
        Script("s", (), [("true",)], env={"A": "1\n2"}),
        Script("s", (), [("true",)], env={"A=b; rm": "1"}),
        Script("s", (), [("true",)], modules=("a\nb",)),
        Script("s", (), [("true",)], about="a\nb"),
        Script("s", (), [(Variable("A}; rm -rf /; ${B"),)]),
        Script("s", (), []),
    ],
)
def test_what_a_script_cannot_carry_is_refused(script):
    with pytest.raises(UsageError):
        script.text()
