"""`assay score`: answers of a stored result judged again, beside its speed, and kept with their date."""

import json

import pytest
from tests.support.leaving import document, install

import assay
from assay.documents import to_plain

pytestmark = pytest.mark.live


@pytest.fixture(autouse=True)
def _leaver(tmp_path, monkeypatch):
    install(tmp_path / "site", monkeypatch)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "160")


def test_scoring_later_says_what_the_run_said(cli):
    (job,) = assay.run(document(runs=3)).jobs
    code, out, _ = cli("score", "latest", "--scorer", "rouge", "--format", "json")
    assert code == 0
    (told,) = json.loads(out)["jobs"]
    (record,) = told["scores"]
    assert (told["job"], record["scorer"]) == (job.job, "rouge")
    assert set(record["metrics"]) == {"rouge_1", "rouge_2", "rouge_l", "rouge_lsum"}
    for metric, quality in record["metrics"].items():
        assert quality["statistics"] == to_plain(job.metrics[metric])
    assert told["metrics"]["e2e_ms"]["median"] == job.metrics["e2e_ms"].median


def test_quality_stands_beside_speed_in_one_table(cli):
    assay.run(
        {
            **document(runs=2, scorers=()),
            "matrix": {"target.search.answers": [["the cat"], ["a dog"]], "target.search.references": [["the cat"]]},
        }
    )
    code, out, _ = cli("score", "-s", "exact-match", "-s", "length")
    assert code == 0
    lines = out.splitlines()
    assert lines[0].split() == ["job", "exact_match", "answer_chars", "e2e_ms"]
    good, bad = lines[1:3]
    assert "1.000 ±0.0 %" in good
    assert "7.000 ±0.0 %" in good
    assert "10.00" in good
    assert " 0.000" in bad
    assert any(line.startswith("exact-match: assay ") for line in lines)
    code, shown, _ = cli("results", "show", "latest")
    assert "exact_match" in shown
    code, shown, _ = cli("results", "show", "latest", "--job", "1")
    assert "scores computed later" in shown
    assert "answer_chars" in shown


def test_scores_are_added_and_the_result_stays(cli):
    result = assay.run(document(failed=1, scorers=("length",)))
    (job,) = result.jobs
    _, before, _ = cli("results", "show", "latest", "--format", "json")
    assert cli("score", job.job, "-s", "rouge")[0] == 0
    assert cli("score", job.job, "-s", "rouge")[0] == 0
    assert cli("score", result.record.campaign)[0] == 0  # those of the benchmark
    _, after, _ = cli("results", "show", "latest", "--format", "json")
    assert after == before
    _, out, _ = cli("score", "latest", "--list", "--format", "json")
    (told,) = json.loads(out)["jobs"]
    assert [one["scorer"] for one in told["scores"]] == ["rouge", "rouge", "length"]
    _, out, _ = cli("score", "--list")
    assert f"{job.job} run 1: of 4 requests 1 failed and have no answer" in out


def test_nothing_to_judge_is_reported(cli):
    assay.run(document(runs=1, refuse=True))
    code, _, err = cli("score")
    assert (code, "no-outputs" in err, "keep_outputs" in err) == (2, True, True)
    assert cli("score", "--list")[1] == "no scores\n"


def test_who_judges_must_be_known(cli):
    assay.run(document(runs=1, scorers=()))
    code, _, err = cli("score")
    assert (code, "no-scorer" in err) == (2, True)
    code, _, err = cli("score", "-s", "nobody")
    assert (code, "'nobody'" in err) == (3, True)
    code, _, err = cli("score", "latest-job-7", "-s", "rouge")
    assert (code, "unknown-job" in err) == (2, True)
    assert cli("score", "--list")[1] == "no scores\n"


def test_damaged_answers_are_reported_and_not_judged(cli):
    from assay.run.scoring import OUTPUTS
    from assay.store.location import store_folder

    (job,) = assay.run(document(runs=1)).jobs
    digest = job.runs[0].files[OUTPUTS]
    (store_folder(None) / "artefacts" / digest[:2] / digest).write_bytes(b"damaged")
    code, _, err = cli("score")
    assert (code, "missing or damaged" in err) == (3, True)


def test_a_server_judges_its_own(cli, serve, tmp_path):
    """The whole way through a fleet is tested with the agent; here the words of the command."""
    import gzip

    from tests.live.serve.setups import Agent, result_of, submit

    server = serve()
    agent = Agent(server.client)
    campaign = submit(server.client)["id"]
    digest = agent.upload(gzip.compress(b'{"text": "yes", "reference": "yes"}\n'))
    while (lease := agent.lease(wait_s=0)) is not None:
        told = result_of(lease.job)
        told["runs"][0]["files"] = {"outputs.jsonl.gz": digest}
        assert agent.deliver(lease, told).status_code == 200
    code, out, err = cli("score", campaign, "-s", "exact-match", "--server", server.url)
    assert code == 0, err
    assert out.splitlines()[0].split() == ["job", "exact_match", "latency_ms"]
    assert out.count("1.000 ±?") == 2
    code, out, _ = cli("score", f"{campaign}-job-1", "--list", "--server", server.url, "--format", "json")
    assert [one["job"] for one in json.loads(out)["jobs"]] == [f"{campaign}-job-1"]
