"""`assay gate` as a pipeline meets it."""

import json
import sys
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest


def last_line(text: str) -> str:
    return text.rstrip().split("\n")[-1]


@pytest.mark.parametrize(("level", "code", "word"), [(1.0, 0, "green"), (1.2, 1, "red"), (0.8, 0, "green")])
def test_against_a_branch(kept, cli, level, code, word) -> None:
    for one in (1.0, 1.002, 0.998):
        kept.campaign({1: one}, labels={"branch": "main"})
    kept.campaign({1: 1.0}, labels={"branch": "main"}, benchmark="other")
    kept.campaign({1: level})
    for words in ((), ("--all",), ("--last", 2)):
        got, out, err = cli("gate", "--baseline", "label:branch=main", *words)
        assert got == code, err
        assert last_line(out).startswith(f"gate      {word}: 1 ")
    found = json.loads(cli("gate", "-b", "label:branch=main", "--all", "-f", "json")[1])
    assert found["jobs"][0]["numbers"][0]["results"] == 3


def test_the_result_is_never_its_own_baseline(kept, cli) -> None:
    old = kept.campaign({1: 1.0}, labels={"branch": "main"})
    new = kept.campaign({1: 1.2}, labels={"branch": "main"})
    code, out, _ = cli("gate", new, "-b", "label:branch=main", "-f", "json")
    assert (code, json.loads(out)["baseline"]) == (1, [old])


def test_limits_of_numbers(kept, cli) -> None:
    kept.campaign({1: 1.0})
    kept.campaign({1: 1.2})
    base = ("gate", "latest", "--baseline", "latest~1")
    assert cli(*base)[0] == 1
    assert cli(*base, "--worse-than", "30%")[0] == 0
    assert cli(*base, "--limit", "latency_ms=30%")[0] == 0
    assert cli(*base, "--worse-than", "30%", "--limit", "latency_ms=3%")[0] == 1
    assert cli(*base, "--metric", "load_ms")[0] == 0


def test_a_percentile_is_judged_by_the_samples_of_the_runs(kept, cli) -> None:
    kept.campaign({1: 1.0})
    kept.campaign({1: 1.2})
    words = ("gate", "latest", "--baseline", "latest~1", "--metric", "latency_ms.p99", "-f", "json")
    code, out, err = cli(*words)
    assert code == 1, err
    (line,) = json.loads(out)["jobs"][0]["numbers"]
    assert (line["name"], line["answer"]) == ("latency_ms.p99", "red")
    assert line["change"] == pytest.approx(0.2, abs=0.01)
    # The documents alone do not hold them.
    for name, which in (("old", "latest~1"), ("new", "latest")):
        Path(f"{name}.json").write_text(cli("results", "show", which, "-f", "json")[1])
    code, out, err = cli("gate", "new.json", "--baseline", "old.json", "--metric", "latency_ms.p99")
    assert code == 0
    assert "needs the samples of the runs" in out
    assert "WARNING: the gate is not green: cannot tell" in err
    assert cli("gate", "new.json", "--baseline", "old.json", "--metric", "latency_ms.p99", "--strict")[0] == 3


def test_files_alone_are_enough(kept, cli, tmp_path, monkeypatch) -> None:
    cache = tmp_path / "cache"
    cache.mkdir()
    for number, level in enumerate((1.0, 1.002, 0.998, 1.001, 1.0)):
        (cache / f"{number}.json").write_text(kept.document(kept.campaign({1: level, 8: level})))
    Path("new.json").write_text(kept.document(kept.campaign({1: 1.2, 8: 1.0})))
    elsewhere = tmp_path / "no store"
    monkeypatch.setenv("ASSAY_STORE", str(elsewhere))
    code, out, _ = cli("gate", "new.json", "--baseline", "cache/", "-f", "json")
    found = json.loads(out)
    assert (code, len(found["baseline"])) == (1, 5)
    assert {job["label"]: job["answer"] for job in found["jobs"]} == {"batch=1": "red", "batch=8": "green"}
    assert cli("gate", "new.json/1", "--baseline", "cache/")[0] == 0
    assert cli("gate", "new.json", "-b", "cache/0.json", "-b", "cache/1.json")[0] == 1
    assert not elsewhere.exists()


def test_the_new_result_may_lie_beside_its_baseline(kept, cli, tmp_path) -> None:
    (tmp_path / "cache").mkdir()
    for name, level in (("a", 1.0), ("b", 1.2)):
        (tmp_path / "cache" / f"{name}.json").write_text(kept.document(kept.campaign({1: level})))
    code, out, _ = cli("gate", "cache/b.json", "--baseline", "cache/", "-f", "json")
    assert (code, json.loads(out)["baseline"]) == (1, ["cache/a.json"])


def test_what_could_not_be_measured_is_neither_red_nor_green(kept, cli) -> None:
    kept.campaign({1: 1.0})
    kept.campaign({1: 1.0}, change=lambda job: replace(job, state="failed", verdict="invalid", metrics={}))
    code, out, err = cli("gate", "latest", "--baseline", "latest~1")
    assert code == 3
    assert last_line(out).startswith(
        "gate      neither red nor green: nothing could be judged: 1 of 1 job not measured"
    )
    assert err.startswith("WARNING")
    code, _, err = cli("gate", "nothing.json", "--baseline", "latest")
    assert (code, "error[unknown-file]" in err) == (3, True)


def test_what_may_not_be_compared_is_neither_red_nor_green(kept, cli) -> None:
    kept.campaign({1: 1.0}, change=lambda job: replace(job, environment={"machine": {"cpu": "M4", "cores": 10}}))
    kept.campaign({1: 1.2})
    code, out, _ = cli("gate", "latest", "--baseline", "latest~1")
    assert code == 3
    assert out.startswith("not judged: different machine: processor M4, cores 10 against processor EPYC 7763, cores 8")
    assert cli("gate", "latest", "--baseline", "latest~1", "--anyway")[0] == 1


def test_an_invalid_result_and_a_missed_objective_are_red(kept, cli) -> None:
    kept.campaign({1: 1.0})
    kept.campaign({1: 1.0}, change=lambda job: replace(job, verdict="invalid"))
    assert cli("gate", "latest", "--baseline", "latest~1")[0] == 1
    kept.campaign({1: 1.0}, objective={"latency_ms.median": 0.5})
    code, out, _ = cli("gate", "latest")
    assert (code, "objective missed: latency_ms.median" in out) == (1, True)
    kept.campaign({1: 1.0}, objective={"latency_ms.median": 2.0})
    assert cli("gate")[0] == 0


def test_no_baseline_yet(kept, cli) -> None:
    kept.campaign({1: 1.0})
    code, _, err = cli("gate", "--baseline", "label:branch=main", "--markdown", "gate.md", "--junit", "gate.xml")
    assert code == 3
    assert "error[unknown-label]" in err
    assert "without a baseline" in Path("gate.md").read_text()
    assert ElementTree.parse("gate.xml").getroot().get("errors") == "1"
    assert cli("gate", "--baseline", "old.json", "--allow-missing")[0] == 0
    code, _, err = cli("gate")
    assert (code, "error[no-baseline]" in err) == (2, True)


def test_reports_for_people_and_build_servers(kept, cli) -> None:
    kept.campaign({1: 1.0, 8: 1.0}, objective={"latency_ms.median": 1.1})
    kept.campaign({1: 1.0, 8: 1.3}, objective={"latency_ms.median": 1.1})
    code, out, _ = cli(
        "gate", "latest", "-b", "latest~1", "-f", "md", "--markdown", "out/gate.md", "--junit", "out/gate.xml"
    )
    assert code == 1
    assert Path("out/gate.md").read_text() == out
    assert out.startswith("<!-- assay-gate demo-")
    suite = ElementTree.parse("out/gate.xml").getroot()[0]
    assert (suite.get("tests"), suite.get("failures")) == ("6", "2")
    failed = [case.get("classname") for case in suite.iter("testcase") if case.find("failure") is not None]
    assert failed == ["demo.batch=8"] * 2


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("--worse-than", "much"), "share"), (("--limit", "latency_ms"), "limit"), (("--limit", "=3%"), "limit"),
        (("--limit", "latncy_ms=3%"), "unknown-metric"), (("--metric", "p99"), "unknown-metric"),
        (("--baseline", "label:"), "label"),
    ],
)  # fmt: skip
def test_wrong_use(kept, cli, words, code) -> None:
    kept.campaign({1: 1.0})
    kept.campaign({1: 1.0})
    base = () if "--baseline" in words else ("--baseline", "latest~1")
    got, out, err = cli("gate", "latest", *base, *words)
    assert (got, out) == (2, "")
    assert f"error[{code}]" in err


@pytest.mark.live
def test_a_pipeline_with_real_runs_and_files_alone(cli, tmp_path, write, monkeypatch) -> None:
    """Measure, keep the document, change the program, measure again, gate: the way a build does it."""
    monkeypatch.setenv("ASSAY_STORE", str(tmp_path / "store"))
    monkeypatch.chdir(tmp_path)
    metrics = [{"name": "step_ms", "unit": "ms", "better": "lower"}]
    measure = {"runs": 3, "probe": "off"}
    target = {"command": [sys.executable, "work.py"], "metrics": metrics}
    bench = write("bench.json", json.dumps({"benchmark": "steps", "target": target, "measure": measure}))
    for name, number in (("old", 10), ("slow", 12)):
        write(
            "work.py", f"import os, assay\nassay.emit({{'step_ms': {number} + int(os.environ['ASSAY_RUN_ID']) / 50}})\n"
        )
        code, out, err = cli("run", bench, "--quiet", "-f", "json")
        assert code == 0, err
        write(f"{name}.json", out)
    monkeypatch.setenv("ASSAY_STORE", str(tmp_path / "no store"))
    code, out, err = cli("gate", "slow.json", "--baseline", "old.json", "--markdown", "gate.md")
    assert code == 1, out + err
    assert "| step\\_ms |" in (tmp_path / "gate.md").read_text()
    code, out, _ = cli("gate", "old.json", "--baseline", "slow.json")
    assert (code, last_line(out)) == (0, "gate      green: 1 number within the limit")
    assert not (tmp_path / "no store").exists()
