"""`make test-kubernetes` and `make test-system` are not run here, but what they need is kept true.

These are their scripts, and what people are told.
"""

import re
import subprocess
from pathlib import Path

import pytest
from tests.tiers.kubernetes.kubernetes_cluster import PROGRAMS

ROOT = Path(__file__).resolve().parents[2]
SCRIPTS = ("kubernetes.sh", "kubernetes_images.sh", "system_images.sh")


@pytest.mark.parametrize("name", SCRIPTS)
def test_its_scripts_can_be_read_and_run(name):
    path = ROOT / "scripts" / name
    assert path.stat().st_mode & 0o111
    subprocess.run(["bash", "-n", str(path)], check=True)


def test_the_script_builds_what_the_cluster_starts():
    built = re.search(r"^parts=\((.*)\)$", (ROOT / "scripts" / "kubernetes.sh").read_text(), re.MULTILINE)
    assert built is not None
    assert set(built[1].split()) == set(PROGRAMS)


def test_it_is_a_target_of_its_own_and_contributors_are_named():
    makefile = (ROOT / "Makefile").read_text()
    assert (
        "test-kubernetes: setup\n\tscripts/kubernetes.sh $(BIN)/python -m pytest --confcutdir=tests/tiers/kubernetes "
        in makefile
    )
    for target in ("test: components", "test-all: components", "components: setup"):
        recipe = re.search(rf"^{target}\n((?:\t.*\n)+)", makefile, re.MULTILINE)
        assert recipe is not None
        assert "kubernetes" not in recipe[1]
    assert "make test-kubernetes" in (ROOT / "CONTRIBUTING.md").read_text()


def test_so_is_the_one_of_the_whole_system():
    makefile = (ROOT / "Makefile").read_text()
    assert (
        "test-system: setup\n\tscripts/system_images.sh $(BIN)/python -m pytest --confcutdir=tests/tiers/system "
        in makefile
    )
    assert "make test-system" in (ROOT / "CONTRIBUTING.md").read_text()


def test_the_images_of_the_whole_system_take_every_base_that_can_be_replaced():
    script = (ROOT / "scripts" / "system_images.sh").read_text()
    compose = (ROOT / "deploy" / "docker-compose.yml").read_text()
    bases = set(re.findall(r"\$\{(ASSAY_\w+_IMAGE):-docker\.io", compose))
    assert bases
    assert {*bases, "PYTHON_IMAGE"} <= set(re.findall(r"^export (\w+_IMAGE)=", script, re.MULTILINE))
