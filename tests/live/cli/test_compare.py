"""`assay compare` as a user meets it."""

import csv
import io
import json
import re
import sys
from dataclasses import replace
from pathlib import Path

import pytest


def answers(text: str) -> dict[str, str]:
    return {job["job"]: line["answer"] for job in json.loads(text)["jobs"] for line in job["metrics"]}


def test_two_campaigns_job_by_job(kept, cli) -> None:
    kept.campaign({1: 1.0, 8: 1.0})
    kept.campaign({8: 1.0, 1: 1.2, 16: 1.0})
    code, out, _ = cli("compare", "latest~1", "latest", "--format", "json", "--by", "5%")
    assert code == 0
    assert answers(out) == {"batch=1": "worse", "batch=8": "cannot tell"}
    assert json.loads(out)["unmatched"] == {"a": [], "b": ["batch=16"]}
    code, out, _ = cli("compare", "latest~1", "latest")
    assert "only in b: batch=16" in out
    assert cli("compare", "latest~1", "latest", "--fail-on-worse")[0] == 1
    assert cli("compare", "latest", "latest~1", "--fail-on-worse")[0] == 0


def test_one_job_of_each(kept, cli) -> None:
    campaign = kept.campaign({1: 1.0, 8: 2.0})
    code, out, _ = cli("compare", f"{campaign}/0", f"{campaign}/1")
    assert code == 0
    assert out.startswith("latency_ms: not like for like.\n")
    assert re.search(r"^not like for like  \d rows?  different batch: 1 against 8", out, re.MULTILINE)
    code, out, _ = cli("compare", f"{campaign}/0", f"{campaign}/1", "--anyway", "-f", "json")
    assert list(answers(out).values()) == ["worse"]


def test_labels_and_pools(kept, cli) -> None:
    for level in (1.0, 1.002, 0.998, 1.001, 1.0):
        kept.campaign({1: level}, labels={"branch": "main"})
    kept.campaign({1: 1.0}, labels={"branch": "main"}, benchmark="other")
    kept.campaign({1: 1.2}, labels={"branch": "topic"})
    code, out, err = cli("compare", "label:branch=main", "label:branch=topic", "--benchmark", "demo", "-f", "json")
    assert code == 0, err
    assert len(json.loads(out)["results"]["a"]) == 1
    for words, results in ((("--all",), 5), (("--last", 3), 3)):
        found = json.loads(cli("compare", "label:branch=main", "latest", *words, "-f", "json")[1])
        assert len(found["results"]["a"]) == results
        assert found["jobs"][0]["metrics"][0]["answer"] == "worse"
    code, _, err = cli("compare", "label:branch=main", "latest", "--all", "--last", 2)
    assert (code, "error[usage]" in err) == (2, True)


def test_a_result_is_not_held_against_itself(kept, cli) -> None:
    first = kept.campaign({1: 1.0}, labels={"branch": "main"})
    second = kept.campaign({1: 1.2}, labels={"branch": "main"})
    code, out, _ = cli("compare", "label:branch=main", "latest", "--format", "json")
    assert code == 0
    assert json.loads(out)["results"] == {"a": [first], "b": [second]}
    for words in (("latest", "latest"), ("label:branch=main", "label:branch")):
        code, _, err = cli("compare", *words)
        assert code == 2
        assert f"both name {second}" in err


def test_commits(kept, cli) -> None:
    kept.campaign({1: 1.0}, commit="abc123" + "0" * 34)
    kept.campaign({1: 1.2}, commit="def456" + "0" * 34)
    code, out, err = cli("compare", "commit:abc1", "commit:def456", "-f", "json")
    assert code == 0, err
    assert list(answers(out).values()) == ["worse"]
    code, _, err = cli("compare", "commit:abc1", "commit:9999")
    assert (code, "error[unknown-commit]" in err) == (2, True)


def test_files_need_no_store(kept, cli, tmp_path, monkeypatch) -> None:
    for name, level in (("old", 1.0), ("new", 1.2)):
        Path(f"{name}.json").write_text(kept.document(kept.campaign({1: level})))
    elsewhere = tmp_path / "no store"
    monkeypatch.setenv("ASSAY_STORE", str(elsewhere))
    code, out, _ = cli("compare", "old.json", "new.json")
    assert code == 0
    assert "worse" in out
    assert not elsewhere.exists()


def test_every_format(kept, cli) -> None:
    kept.campaign({1: 1.0})
    kept.campaign({1: 1.2})
    rows = list(csv.DictReader(io.StringIO(cli("compare", "latest~1", "latest", "-f", "csv")[1])))
    assert [row["answer"] for row in rows] == ["worse"]
    assert "| latency\\_ms |" in cli("compare", "latest~1", "latest", "-f", "md")[1]
    every = json.loads(cli("compare", "latest~1", "latest", "-f", "json", "--all-metrics")[1])
    assert {line["metric"] for line in every["jobs"][0]["metrics"]} == {"latency_ms", "load_ms"}


def test_nothing_comparable_is_no_pass(kept, cli) -> None:
    kept.campaign({1: 1.0})
    kept.campaign({1: 1.0}, change=lambda job: replace(job, environment={"machine": {"cpu": "M4", "cores": 10}}))
    code, out, _ = cli("compare", "latest~1", "latest", "--fail-on-worse")
    assert code == 3
    assert "not like for like" in out.split("\n")[0]
    assert "different machine" in out
    assert cli("compare", "latest~1", "latest")[0] == 0


def test_no_job_in_common_names_both_sides(kept, cli) -> None:
    kept.campaign({1: 1.0, 2: 1.0})
    kept.campaign({4: 1.0, 8: 1.0})
    code, out, err = cli("compare", "latest~1", "latest")
    assert (code, out) == (2, "")
    assert "only in a: batch=1, batch=2; only in b: batch=4, batch=8" in err


@pytest.mark.parametrize("words", [("latest", "latest", "--by", "much"), ("nope", "latest"), ("label:x", "latest")])
def test_wrong_use(kept, cli, words) -> None:
    kept.campaign({1: 1.0})
    code, out, err = cli("compare", *words)
    assert (code, out) == (2, "")
    assert err.startswith("error[")


@pytest.mark.live
def test_real_runs_at_two_commits_of_a_repository(cli, tmp_path, monkeypatch, write) -> None:
    import subprocess

    def git(*words):
        settings = ["-c", "user.name=t", "-c", "user.email=t@example.com", "-c", "commit.gpgsign=false"]
        subprocess.run(["git", *settings, *words], cwd=tmp_path, check=True, capture_output=True)

    monkeypatch.setenv("ASSAY_STORE", str(tmp_path / "store"))
    metrics = [{"name": "step_ms", "unit": "ms", "better": "lower"}]
    target = {"command": [sys.executable, "work.py"], "metrics": metrics}
    bench = write(
        "bench.json", json.dumps({"benchmark": "steps", "target": target, "measure": {"runs": 3, "probe": "off"}})
    )
    git("init", "-q")
    for number in (10, 20):
        write(
            "work.py",
            f"import os, assay\nassay.emit({{'step_ms': {number} + int(os.environ['ASSAY_RUN_ID']) / 100}})\n",
        )
        git("add", "bench.json", "work.py")
        git("commit", "-q", "-m", str(number))
        assert cli("run", bench, "--quiet")[0] == 0
    monkeypatch.chdir(tmp_path.parent)
    code, out, err = cli("compare", "commit:HEAD~1", "commit:HEAD", "-f", "json")
    assert code == 0, err
    assert list(answers(out).values()) == ["worse"]
