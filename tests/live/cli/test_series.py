"""`assay series` and `assay explain` as a user meets them."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest
from tests.support.command_line import called


@pytest.fixture
def assay():
    """Run a command in this process."""

    def run(*arguments):
        return called(*map(str, arguments))

    return run


def lines(name, values, **more):
    for number, value in enumerate(values):
        around = ",".join(str(each(number)) for each in more.values())
        at = f"2026-01-{1 + number // 24:02}T{number % 24:02}:00:00Z"
        yield f"{name},{at},{value:.6f},lower{',' if around else ''}{around}"


def noisy(count, at=None, size=0.08, seed=1):
    values = 10 * (1 + 0.01 * np.random.default_rng(seed).standard_normal(count))
    if at is not None:
        values[at:] *= 1 + size
    return values


@pytest.fixture
def points(write):
    head = "series,time,value,better,driver"
    driver = lambda n: "560" if n >= 40 else "550"  # noqa: E731
    rows = [*lines("stepped", noisy(60, 40), driver=driver), *lines("steady", noisy(60, seed=2), driver=driver)]
    return write("points.csv", "\n".join([head, *rows]) + "\n")


def test_check_needs_no_store_and_reports_what_changed(points):
    nowhere = {**os.environ, "ASSAY_STORE": "/nowhere/at/all"}
    check = [sys.executable, "-m", "assay", "series", "check", str(points), "--format", "json"]
    done = subprocess.run(check, capture_output=True, text=True, env=nowhere)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    by_name = {one["series"]: one for one in told["series"]}
    assert by_name["steady"]["findings"] == []
    (finding,) = by_name["stepped"]["findings"]
    assert 39 <= finding["index"] <= 41
    assert finding["size"] == pytest.approx(0.08, abs=0.02)
    assert finding["interval"][0] < finding["size"] < finding["interval"][1]
    assert 0.9 < finding["probability"] <= 1
    assert (finding["direction"], finding["answer"]) == ("worse", "worse")
    assert finding["first_bad_label"] == "2026-01-02T16:00:00Z"
    assert told["problems"] == []


def test_check_as_text_and_its_exit_codes(assay, points, write):
    done = assay("series", "check", points)
    assert done.returncode == 0
    assert "stepped" in done.stdout
    assert "worse" in done.stdout
    assert "1 finding in 1 of 2 series" in done.stdout
    assert assay("series", "check", points, "--fail-on-worse").returncode == 1
    better = write("better.csv", points.read_text().replace(",lower,", ",higher,"))
    assert assay("series", "check", better, "--fail-on-worse").returncode == 0


def test_lines_that_cannot_be_used_are_named(assay, points, write):
    bad = write("bad.csv", points.read_text() + "stepped,never,1,lower,550\n")
    done = assay("series", "check", bad, "--format", "json")
    assert done.returncode == 2
    assert json.loads(done.stdout)["problems"][0]["at"].endswith("bad.csv:122")
    assert "bad.csv:122" in done.stderr
    assert len(json.loads(done.stdout)["series"]) == 2
    assert "Traceback" not in done.stderr
    done = assay("series", "check", write("none.csv", "a,b\n1,2\n"))
    assert done.returncode == 2
    assert "error[series-file]" in done.stderr


def test_import_list_show_explain_and_expect(assay, points):
    done = assay("series", "import", points, "--format", "json")
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert (told["added"], told["known"], len(told["series"])) == (120, 0, 2)
    (finding,) = told["findings"]
    again = json.loads(assay("series", "import", points, "--format", "json").stdout)
    assert (again["added"], again["known"], again["findings"]) == (0, 120, [])
    listed = assay("series", "list").stdout
    assert "stepped" in listed
    assert "steady" in listed
    (series,) = [
        one for one in json.loads(assay("series", "list", "--format", "json").stdout) if one["benchmark"] == "stepped"
    ]
    shown = assay("series", "show", series["id"][:8]).stdout
    assert finding in shown
    assert "environment" in shown
    explained = assay("explain", finding[:8])
    assert explained.returncode == 0, explained.stderr
    for words in ("worse: stepped changed by +", "cause      environment", "driver", "550", "560", "last good", "sure"):
        assert words in explained.stdout
    found = assay("series", "findings").stdout
    assert finding in found
    assert found.rstrip().endswith("stepped")
    document = json.loads(assay("explain", finding, "--format", "json").stdout)
    assert document["triage"]["cause"] == "environment"
    assert "expected" in assay("series", "expect", finding).stdout
    assert "nothing was found" in assay("series", "findings", "--state", "open").stdout
    assert finding in assay("series", "findings", "--state", "expected", "--format", "json").stdout
    assert json.loads(assay("explain", finding, "--format", "json").stdout)["state"] == "expected"
    wrong = assay("explain", "nothing")
    assert wrong.returncode == 2
    assert "error[unknown-finding]" in wrong.stderr


def test_an_empty_store_says_so(assay):
    assert "no series yet" in assay("series", "list").stdout
