"""The committed year: what it says of itself is what its settings give."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

from assay.sim.history import series_name, year
from assay.sim.history.settings import year_text

ROOT = Path(__file__).resolve().parents[3]
YEAR = ROOT / "examples" / "year"
PAGE = ROOT / "docs" / "reference" / "a-year.md"


def script():
    spec = importlib.util.spec_from_file_location("year_example", ROOT / "scripts" / "year_example.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_settings_and_truth_are_those_of_the_generator():
    assert (YEAR / "settings.yaml").read_text() == year_text()
    assert (YEAR / "truth.json").read_text() == script().truth_json(year())


def test_the_page_shows_the_same_list():
    table = (YEAR / "findings.md").read_text().partition("\n\n")[2]
    assert table in PAGE.read_text()


def test_the_list_counts_right():
    text = (YEAR / "findings.md").read_text()
    tables = [part.splitlines()[2:] for part in text.split("\n\n") if part.startswith("| series")]
    rows = [line.split(" | ") for line in tables[0]]
    outcomes = [row[3].strip("*") for row in rows]
    counts = re.search(r"Of (\d+) true changes, (\d+) were found and (\d+) missed; (\d+) findings are false", text)
    assert [int(one) for one in counts.groups()] == [
        outcomes.count("found") + outcomes.count("missed"),
        outcomes.count("found"),
        outcomes.count("missed"),
        outcomes.count("false"),
    ]
    gone = re.search(
        r"(\d+) more findings were reported and later withdrawn: (\d+) of them matched no true change", text
    )
    assert int(gone[1]) == sum(map(len, tables[1:]))
    assert int(gone[2]) == sum(line.endswith("| **no** |") for part in tables[1:] for line in part)


def test_every_series_has_its_picture_and_the_page_shows_it():
    shown = set(re.findall(r"\]\(a-year/([\w-]+)\.svg\)", PAGE.read_text()))
    made = year()
    names = {
        series_name(bench.name, place, metric).replace("#", "").replace(" ", "-")
        for bench in made.benchmarks
        for place, job in enumerate(bench.jobs)
        for metric in job
    }
    assert shown == names == {path.stem for path in PAGE.with_suffix("").glob("*.svg")}
    assert sum(path.stat().st_size for path in PAGE.with_suffix("").glob("*.svg")) < 500_000
