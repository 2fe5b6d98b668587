"""The dashboard's own checks, as part of all tests: types, form, components, starters, size."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from tests.live.browser.browsing import ROOT
from tests.live.browser.sizes import LIMIT_KB, first_load, sizes_of

from assay.spec.load import load

STARTERS = sorted((ROOT / "web/src/pages/editor/starters").glob("*.yaml"))


@pytest.mark.live
def test_types_are_strict_and_right(in_web):
    done = in_web("tsc", "--noEmit")
    assert done.returncode == 0, done.stdout


@pytest.mark.live
def test_the_form_is_the_agreed_one(in_web):
    done = in_web("biome", "check", ".")
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.live
@pytest.mark.timeout(900)
def test_components(in_web):
    # In two threads whose documents are used again: each file cleans up (web/src/testing/setup.ts).
    done = in_web("vitest", "run", "--pool=threads", "--maxWorkers=2", "--no-isolate")
    assert done.returncode == 0, done.stdout[-20_000:] + done.stderr[-5_000:]


def test_every_package_has_its_sentence():
    package = json.loads((ROOT / "web/package.json").read_text(encoding="utf-8"))
    page = (ROOT / "docs/dependencies.md").read_text(encoding="utf-8")
    for name in (*package["dependencies"], *package["devDependencies"]):
        assert f"`{name}`" in page, name


def test_the_lock_file_names_no_host():
    """A package is identified by its hash; where it was fetched from is not recorded."""
    lock = json.loads((ROOT / "web/package-lock.json").read_text(encoding="utf-8"))
    packages = {path: one for path, one in lock["packages"].items() if path}
    assert all("integrity" in one for one in packages.values())
    assert not any("resolved" in one for one in packages.values())


def test_nothing_becomes_markup():
    """What users write is text: there is one way to put a drawing of the server on a page, and it has a list."""
    for path in (ROOT / "web/src").rglob("*.ts*"):
        text = path.read_text(encoding="utf-8")
        for word in (
            "dangerouslySetInnerHTML",
            "innerHTML",
            "outerHTML",
            "insertAdjacentHTML",
            "eval(",
            "new Function",
        ):
            assert word not in text or ".test." in path.name, f"{path.name} has {word}"


def test_no_colour_but_those_of_the_tokens():
    """Dark and light come from one place."""
    for path in (ROOT / "web/src").rglob("*.css"):
        if path.name not in ("tokens.css", "page.css"):
            found = re.findall(r"#[0-9a-fA-F]{3,8}\b|\brgba?\(|\bhsla?\(", path.read_text(encoding="utf-8"))
            assert not found, f"{path.name} has {found}"


@pytest.mark.parametrize("path", STARTERS, ids=lambda path: path.stem)
def test_a_case_begins_with_a_right_file(path: Path):
    assert load(path).benchmark.target


def test_every_case_has_its_starter():
    assert [path.stem for path in STARTERS] == ["command", "endpoint", "model", "service"]


@pytest.mark.live
def test_the_first_load_is_small(built):
    """What a browser fetches before the first page is drawn, as it travels: packed by gzip."""
    sizes = sizes_of(built)
    first = first_load(built)
    assert sum(sizes[name] for name in first) < LIMIT_KB * 1000, {name: sizes[name] for name in first}
    assert not any("Drawn" in name for name in first), "charts come with the first chart"


@pytest.mark.live
def test_nothing_built_names_another_host(built):
    """No file is loaded from elsewhere: neither by the page nor by its styles."""
    page = (built / "index.html").read_text(encoding="utf-8")
    assert "http://" not in page
    assert "https://" not in page
    for path in built.rglob("*.css"):
        text = path.read_text(encoding="utf-8")
        assert "url(http" not in text.replace('"', "").replace("'", "")
        assert "@import" not in text
