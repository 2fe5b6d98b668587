"""`make check-supply`: what it finds, and what it says when no database of vulnerabilities answers."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SCRIPT = ROOT / "scripts" / "check_supply.py"


@pytest.fixture
def tree(tmp_path) -> Path:
    """A copy of the files that are checked."""
    for name in ("requirements.lock", "constraints.txt", "web/package-lock.json"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    shutil.copytree(ROOT / "deploy", tmp_path / "deploy")
    return tmp_path


def check(root: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(SCRIPT), "--root", str(root), *words], capture_output=True, text=True, check=False
    )


def auditor(folder: Path, answer: str) -> str:
    """A program that answers as pip-audit does."""
    path = folder / "pip-audit"
    path.write_text(
        f"#!{sys.executable}\nimport sys\nanswer = {answer!r}\n"
        "if not answer:\n    sys.exit('ConnectionError: the service cannot be reached')\n"
        "open(sys.argv[sys.argv.index('--output') + 1], 'w').write(answer)\n"
    )
    path.chmod(0o755)
    return str(path)


def test_every_package_of_this_tree_has_its_hash(tree):
    done = check(tree, "--no-audit")
    assert done.returncode == 0, done.stdout
    assert "wrong" not in done.stdout


@pytest.mark.parametrize(
    ("name", "old", "new", "said"),
    [
        ("requirements.lock", "absl-py==", "absl-py>=", "is not pinned"),
        ("requirements.lock", "--hash=sha256:", "--hush=sha256:", "has no hash"),
        ("requirements.lock", "absl-py==", "--index-url https://index.example/\nabsl-py==", "names where"),
        ("constraints.txt", "absl-py==", "absl-py==9.", "make lock"),
        ("web/package-lock.json", '"integrity"', '"purity"', "has no hash"),
    ],
)
def test_what_is_not_hashed_is_named(tree, name, old, new, said):
    text = (tree / name).read_text()
    assert old in text
    (tree / name).write_text(text.replace(old, new))
    done = check(tree, "--no-audit")
    assert done.returncode == 1
    assert said in done.stdout


def test_images_by_tag_are_listed_with_the_way_to_their_digest(tree):
    compose = tree / "deploy" / "docker-compose.yml"
    done = check(tree, "--no-audit")
    image = "docker.io/library/redis:7.4.5-bookworm"
    assert f"by tag   {image}\n" in done.stdout
    assert f"docker://{image}" in done.stdout
    for path in (compose, tree / "deploy/helm/assay/values.yaml"):
        path.write_text(path.read_text().replace(image, f"{image}@sha256:{'0' * 64}"))
    assert image not in check(tree, "--no-audit").stdout


def test_a_vulnerability_is_found(tree, tmp_path):
    answer = {"dependencies": [{"name": "a", "version": "1", "vulns": [{"id": "PYSEC-1", "fix_versions": ["2"]}]}]}
    done = check(tree, "--pip-audit", auditor(tmp_path, json.dumps(answer)))
    assert done.returncode == 1
    assert "a 1: PYSEC-1, fixed in 2" in done.stdout


def test_no_vulnerability_is_distinguished_from_no_answer(tree, tmp_path):
    sound = {"dependencies": [{"name": "a", "version": "1", "vulns": []}]}
    done = check(tree, "--pip-audit", auditor(tmp_path, json.dumps(sound)))
    assert (done.returncode, "1 of 1 packages looked up, 0 known" in done.stdout) == (0, True)
    skipped = {"dependencies": [{"name": "b", "skip_reason": "could not be found"}, *sound["dependencies"]]}
    done = check(tree, "--pip-audit", auditor(tmp_path, json.dumps(skipped)))
    assert done.returncode == 4
    assert "NOT DONE for b" in done.stdout
    done = check(tree, "--pip-audit", auditor(tmp_path, ""))
    assert done.returncode == 4
    assert "NOT DONE" in done.stdout
    assert "cannot be reached" in done.stdout
    assert check(tree, "--pip-audit", str(tmp_path / "absent")).returncode == 4
