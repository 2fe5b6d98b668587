"""A command in a container: what its command line says, what it reports, and what it used."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from tests.unit.run.services.test_containers import image as image

from assay.errors import MeasureError
from assay.plan.job import Job
from assay.run.contract import Order
from assay.run.services import containers
from assay.run.targets.launcher import (
    CODE_FOLDER,
    EMIT_FOLDER,
    CommandEnvironment,
    control_group,
    high_water_mb,
    make_box,
)
from assay.spec.benchmark import Definition
from assay.spec.target import CommandTarget


def order_of(tmp_path: Path, target: dict[str, Any], **sections: Any) -> Order:
    definition = Definition.model_validate_json(json.dumps({"target": target, **sections}))
    return Order(Job("b", "d", 0, definition, base=str(tmp_path)), 0, str(tmp_path))


def box_of(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    around: CommandEnvironment = CommandEnvironment(),  # noqa: B008
    **target: Any,
) -> containers.Container:
    (tmp_path / "bin").mkdir(exist_ok=True)
    (tmp_path / "bin" / "podman").touch(mode=0o755)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    order = order_of(tmp_path, {"image": "team/bench:1", **target}, needs={"gpus": 2})
    asked = order.job.definition.target
    assert isinstance(asked, CommandTarget)
    return make_box(order, asked, around, {"A": "1", "KEY": "sesame"}, tmp_path / "emit")


def test_everything_that_a_command_is_reported_is_on_its_command_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "data").mkdir()
    around = CommandEnvironment(code=tmp_path / "code")
    box = box_of(
        tmp_path,
        monkeypatch,
        around,
        command="python {code}/train.py --data /data",
        code="x",
        mounts={"data": "/data"},
        env={"KEY": "${env:KEY}"},
        cwd="/work",
    )
    assert box.command == ("python", f"{CODE_FOLDER}/train.py", "--data", "/data")
    assert box.mounts == {
        str(tmp_path / "data"): "/data",
        str(tmp_path / "emit"): EMIT_FOLDER,
        str(tmp_path / "code"): CODE_FOLDER,
    }
    assert (box.env, box.hidden, box.workdir, box.gpus) == ({"A": "1"}, {"KEY": "sesame"}, "/work", 2)
    words = containers.runtime_for(box.runtime).words(box)
    assert "sesame" not in " ".join(words)
    # As much shared memory as the machine has, whatever runs the container; runtimes would give 64 MiB.
    status = os.statvfs("/dev/shm")
    assert words[words.index("--shm-size") + 1] == str(status.f_blocks * status.f_frsize)


def test_the_image_s_own_command_is_given_its_arguments(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    words = containers.runtime_for(containers.Runtime("podman", "podman")).words(
        box_of(tmp_path, monkeypatch, args="--fast 'two words'")
    )
    assert words[-3:] == ["team/bench:1", "--fast", "two words"]
    assert "--entrypoint" not in words


def test_a_shell_is_that_of_the_image(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert box_of(tmp_path, monkeypatch, command="a | b", shell=True).command == ("/bin/sh", "-c", "a | b")


def test_a_mount_that_is_not_there_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(MeasureError, match="which is not there"):
        box_of(tmp_path, monkeypatch, command="a", mounts={"nowhere": "/x"})


@pytest.mark.parametrize(
    ("its", "found"),
    [("0::/box/1\n", True), ("0::/\n", False), ("0::/ours\n", False), ("2:cpu:/box/1\n", False), ("0::/gone\n", False)],
)
def test_the_control_group_of_a_container_is_its_own_or_none(tmp_path: Path, its: str, found: bool) -> None:
    for pid, text in (("self", "0::/ours\n"), ("77", its)):
        (tmp_path / "proc" / pid).mkdir(parents=True)
        (tmp_path / "proc" / pid / "cgroup").write_text(text)
    for group in ("box/1", "ours", "."):
        (tmp_path / "cgroup" / group).mkdir(parents=True, exist_ok=True)
        (tmp_path / "cgroup" / group / "cpu.stat").write_text("usage_usec 5\n")
    group = control_group(77, tmp_path / "proc", tmp_path / "cgroup")
    assert group == (tmp_path / "cgroup" / "box" / "1" if found else None)
    assert control_group(78, tmp_path / "proc", tmp_path / "cgroup") is None


def test_the_high_water_mark_is_the_kernel_s(tmp_path: Path) -> None:
    (tmp_path / "status").write_text("Name:\tx\nVmHWM:\t  1000 kB\n")
    assert high_water_mb(tmp_path / "status") == pytest.approx(1.024)
    assert high_water_mb(tmp_path / "gone") == 0
    assert high_water_mb(Path("/proc/self/status")) > 1


SCRIPT = """
echo "hello $GREETING, speed: 1.5e2 img/s"
echo '{"loss": 0.25}' > "$BENCHMARK_AI_FIFO_FILEPATH"
cat /data/x
test -w /data/x || echo "only read"
i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done
"""


@pytest.mark.live
def test_a_command_runs_in_a_container_and_reports_from_there(image: str, tmp_path: Path) -> None:
    import assay

    (tmp_path / "x.txt").write_text("fetched: 7\n")
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "run.sh").write_text(SCRIPT)
    result = assay.run(
        {
            "benchmark": "boxed",
            "target": {
                "image": f"docker://{image}",
                "container": "podman",
                "command": ["/bin/sh", "{code}/src/run.sh"],
                "code": str(tmp_path / "src"),
                "env": {"GREETING": "world"},
                "fetch": [{"src": str(tmp_path / "x.txt"), "path": "/data/x"}],
                "metrics": [
                    {"name": "speed", "pattern": r"speed: (\S+)"},
                    {"name": "fetched", "pattern": r"fetched: (\d+)"},
                ],
            },
            "measure": {"runs": 2},
        }
    )
    (job,) = result.jobs
    assert job.state == "done", job.runs
    assert {name: job.metrics[name].median for name in ("speed", "loss", "fetched")} == {
        "speed": 150,
        "loss": 0.25,
        "fetched": 7,
    }
    run = job.runs[0]
    assert run.facts["container"]["runtime"] == "podman"  # type: ignore[index, call-overload]
    assert run.facts["container"]["image_id"].startswith("sha256:")  # type: ignore[index, call-overload, union-attr]
    assert run.facts["fetched"]["target"][0]["path"] == "/data/x"  # type: ignore[index, call-overload]
    # Its processor time is that of the container, or absent with a reason: never that of the program that started it.
    if "cpu_s" in run.metrics:
        assert run.metrics["cpu_s"] > 0.05
    else:
        assert "control group" in run.absent["cpu_s"]


@pytest.mark.live
def test_a_command_that_fails_or_hangs_in_a_container_leaves_none_behind(image: str, tmp_path: Path) -> None:
    import subprocess

    import assay

    target = {"image": f"docker://{image}", "container": "podman", "command": ["/bin/sh", "-c", "echo so long; exit 7"]}
    (failed,) = assay.run({"benchmark": "failing", "target": target, "measure": {"runs": 1}}).jobs
    error = failed.runs[0].error
    assert error is not None
    assert "exited with code 7" in error.message
    assert "so long" in "\n".join(error.log_tail)
    hanging = {**target, "command": ["/bin/sh", "-c", "sleep 600"]}
    (hung,) = assay.run({"benchmark": "hanging", "target": hanging, "measure": {"runs": 1, "timeout": "5s"}}).jobs
    error = hung.runs[0].error
    assert error is not None
    assert error.code == "timeout"
    left = subprocess.run(
        ["podman", "ps", "--all", "--quiet", "--filter", "label=assay"], capture_output=True, text=True
    )
    assert left.stdout.split() == []
