"""The name under which assay is installed: `assay` on PyPI is a project of somebody else."""

from __future__ import annotations

import re
import tomllib
from importlib.metadata import distribution
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
NAME = "assay-bench"
# `pip install assay`, `pip install 'assay[onnx]'`, `dependencies = ["assay[llm]"]`
FOREIGN = re.compile(r"""pip install (?:-\S+ )*["']?assay(?![\w-])|["'`]assay\[""")
TEXTS = (".md", ".py", ".yaml", ".yml", ".toml", ".ts", ".tsx", ".sh", ".Dockerfile")
FOLDERS = ("src", "docs", "examples", "deploy", "scripts", "web/src", "benches")


def texts() -> list[Path]:
    found = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "pyproject.toml")]
    for folder in FOLDERS:
        found += [
            path for path in (ROOT / folder).rglob("*") if path.name.endswith(TEXTS) and "built" not in path.parts
        ]
    return found


def test_the_distribution_has_a_name_of_its_own():
    assert tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["name"] == NAME
    assert distribution(NAME).entry_points.select(group="console_scripts", name="assay")


def test_no_text_installs_the_package_of_another_else():
    assert [str(path.relative_to(ROOT)) for path in texts() if FOREIGN.search(path.read_text(errors="replace"))] == []


@pytest.mark.parametrize(
    ("text", "foreign"),
    [
        ("pip install assay", True),
        ("pip install 'assay[onnx]'", True),
        ('dependencies = ["assay[llm]"]', True),
        ("pip install assay-bench", False),
        ("pip install 'assay-bench[onnx]'", False),
    ],
)
def test_the_pattern_knows_both_names(text, foreign):
    assert bool(FOREIGN.search(text)) is foreign
