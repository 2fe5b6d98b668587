"""What a job's page shows beside its record: the report's pictures, and the answers that its runs kept."""

import gzip
import hashlib
import xml.etree.ElementTree as ET

import numpy as np
import pytest
from tests.live.serve.setups import Agent, benchmark, is_problem, result_of, samples_file, submit
from tests.support.running_server import wait_for
from tests.unit.report import watched

from assay.report.html.pictures import job_pictures
from assay.report.result import file_reader, read_job
from assay.run.probes import FILE
from assay.run.records import SampleSet
from assay.run.scoring.outputs import OUTPUTS, Output, as_asked, write_outputs
from assay.store.records import StoredJob
from assay.store.samples import encode

pytestmark = pytest.mark.live


def leased(client, document=None):
    agent = Agent(client)
    submit(client, document or benchmark(batches=(1,)))
    return agent, agent.lease()


# Pictures


def test_the_pictures_are_those_of_the_report(server):
    client = server.client
    agent, lease = leased(client)
    content, digest = samples_file()
    agent.upload(content, "samples")
    told = result_of(lease.job, samples=digest)
    told["runs"][0]["files"] = {FILE: agent.upload(watched.recorded(), FILE)}
    agent.deliver(lease, told)
    answer = client.get(f"/jobs/{lease.job.id}/panels")
    assert answer.status_code == 200, answer.text
    found = answer.json()
    store = server.state.kept.store
    detail = server.state.kept.listing.job(lease.job.id)
    result = read_job(StoredJob(detail.job, "done", detail.result), store.runs)
    drawn = job_pictures(result, store.samples_of, file_reader(store))
    assert [one["svg"] for one in found["items"]] == [str(one.svg) for one in drawn]
    by_key = {one["key"]: one for one in found["items"]}
    assert {"runs:latency_ms", "time:latency_ms", "telemetry"} <= set(by_key)
    assert by_key["telemetry"]["wide"] is True
    for one in found["items"]:
        assert ET.fromstring(one["svg"]).tag == "svg"
        assert "style" not in one["svg"]
        assert one["says"]
        assert one["rows"]
        assert all(len(row) == len(one["columns"]) for row in one["rows"])
    assert "telemetry" not in found["absent"]


def test_pictures_that_have_not_changed_are_not_sent_again(server):
    client = server.client
    agent, lease = leased(client)
    agent.deliver(lease)
    campaign = lease.job.id.rpartition("-job-")[0]
    wait_for(lambda: client.get(f"/campaigns/{campaign}").json()["state"] == "done")
    first = client.get(f"/jobs/{lease.job.id}/panels")
    again = client.get(f"/jobs/{lease.job.id}/panels", headers={"If-None-Match": first.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")


def test_what_cannot_be_drawn_says_why(server):
    client = server.client
    agent, lease = leased(client)
    waiting = client.get(f"/jobs/{lease.job.id}/panels").json()
    assert waiting == {"items": [], "absent": {"pictures": "being measured"}}
    agent.deliver(lease)
    found = client.get(f"/jobs/{lease.job.id}/panels").json()["absent"]
    assert found["telemetry"] == "no telemetry was recorded"
    assert found["time"] == "its runs gave one number each: there is no course to draw"
    _, other = leased(client)
    agent.deliver(other, result_of(other.job, failed=True))
    assert "the process died" in client.get(f"/jobs/{other.job.id}/panels").json()["absent"]["pictures"]
    is_problem(client.get("/jobs/none/panels"), 404, "unknown-job")


def test_a_lost_file_costs_its_lines_alone(server):
    client = server.client
    agent, lease = leased(client)
    content, digest = samples_file()
    agent.upload(content, "samples")
    agent.deliver(lease, result_of(lease.job, samples=digest))
    server.state.kept.store.samples.find(digest).unlink()
    found = client.get(f"/jobs/{lease.job.id}/panels").json()
    assert "runs:latency_ms" in {one["key"] for one in found["items"]}
    assert found["absent"]["time"].startswith("the samples can no longer be read")


SERVED = {
    "benchmark": "chat", "target": {"endpoint": "http://llm.example.com/v1", "api": "openai-chat", "model": "m"},
    "workload": {"task": "synthetic", "input_tokens": 8, "output_tokens": 8}, "load": {"duration": "1s"},
    "measure": {"runs": 3}, "matrix": {"load.rate": [1, 2, 4]},
}  # fmt: skip


def test_a_job_is_one_point_of_the_curve_of_its_campaign(server):
    client = server.client
    agent = Agent(client)
    submit(client, SERVED)
    leases = []
    while (lease := agent.lease(wait_s=0)) is not None:
        rate = lease.job.point["load.rate"]
        told = result_of(lease.job, scale=rate)
        told["metrics"]["goodput_per_s"] = {
            **told["metrics"]["latency_ms"],
            "unit": "1/s",
            "better": "higher",
            "median": 1.0 * rate,
        }
        agent.deliver(lease, told)
        leases.append(lease)
    assert len(leases) == 3
    found = {one["key"]: one for one in client.get(f"/jobs/{leases[0].job.id}/panels").json()["items"]}
    curve = found["curve:load.rate"]
    assert (curve["group"], [row[0] for row in curve["rows"]]) == ("load", [1.0, 2.0, 4.0])
    assert [row[-1] for row in curve["rows"]] == [one.job.id for one in leases]
    assert "href" not in curve["svg"]
    assert [row[1] for row in found["goodput:load.rate"]["rows"]] == [1.0, 2.0, 4.0]


# Answers


def outputs_file(tmp_path, *outputs):
    path = tmp_path / OUTPUTS
    write_outputs(path, outputs)
    return path.read_bytes()


def output(number, text="an answer", **more):
    facts = {
        "ttft_ms": 10.0 + number,
        "e2e_ms": 20.0 + number,
        "input_tokens": 5,
        "output_tokens": 2,
        **as_asked(f"question {number}"),
        **more.pop("more", {}),
    }
    return Output(f"item-{number}", number // 2, number % 2, text, "the reference", {"title": "t"}, more=facts, **more)


def delivered(server, tmp_path, *by_run, scores=None):
    """A job whose runs kept answers, and scores of those of the first."""
    agent, lease = leased(server.client)
    told = result_of(lease.job)
    for run, outputs in zip(told["runs"], by_run, strict=False):
        run["files"] = {OUTPUTS: agent.upload(outputs_file(tmp_path, *outputs), OUTPUTS)}
    if scores is not None:
        at = np.arange(len(scores), dtype=np.int64)
        content = bytes(
            encode(
                (
                    SampleSet("rouge_l", "measure", at, np.array(scores)),
                    SampleSet("vowels", "measure", at, np.array(scores) * 2),
                )
            )
        )
        told["runs"][0]["samples"] = agent.upload(content, "samples")
        told["runs"][0]["facts"] = {"scores": {"own": {"metrics": ["vowels"]}}}
    assert agent.deliver(lease, told).json() == {"delivery": "accepted"}
    return lease.job.id


def test_kept_answers_are_read_run_by_run_a_page_at_a_time(server, tmp_path):
    job = delivered(server, tmp_path, [output(n) for n in range(3)], [output(n, f"again {n}") for n in range(2)])
    whole = server.client.get(f"/jobs/{job}/outputs").json()
    assert [(one["run"], one["sample"]) for one in whole["items"]] == [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1)]
    assert whole["next"] is None
    first = whole["items"][1]
    assert (first["prompt"], first["output"], first["expected"]) == ("question 1", "an answer", "the reference")
    assert (first["session"], first["turn"], first["item"]) == (0, 1, "item-1")
    assert (first["ttft_ms"], first["e2e_ms"], first["input_tokens"], first["output_tokens"]) == (11.0, 21.0, 5, 2)
    assert (first["outcome"], first["error"], first["scores"], first["cut"]) == ("ok", None, {}, False)
    assert first["more"] == {"data": {"title": "t"}}
    for size in (1, 2, 3, 5):
        seen, cursor = [], None
        while True:
            page = server.client.get(
                f"/jobs/{job}/outputs", params={"limit": size, **({"cursor": cursor} if cursor else {})}
            )
            seen += page.json()["items"]
            cursor = page.json()["next"]
            if cursor is None:
                break
            assert len(page.json()["items"]) == size
        assert seen == whole["items"]


def test_scores_stand_beside_the_answer_that_they_are_of(server, tmp_path):
    outputs = [output(0), output(1, "", outcome="timeout", more={"error": "no answer in time"}), output(2)]
    job = delivered(server, tmp_path, outputs, scores=[0.25, 0.75])
    items = server.client.get(f"/jobs/{job}/outputs").json()["items"]
    assert [one["scores"] for one in items] == [{"rouge_l": 0.25, "vowels": 0.5}, {}, {"rouge_l": 0.75, "vowels": 1.5}]
    assert (items[1]["outcome"], items[1]["error"]) == ("timeout", "no answer in time")
    first = server.client.get(f"/jobs/{job}/outputs", params={"limit": 2}).json()
    rest = server.client.get(f"/jobs/{job}/outputs", params={"cursor": first["next"]}).json()
    assert rest["items"] == items[2:]


def test_scores_of_which_nobody_knows_the_answer_are_not_shown(server, tmp_path):
    job = delivered(server, tmp_path, [output(n) for n in range(3)], scores=[0.25, 0.75])
    assert [one["scores"] for one in server.client.get(f"/jobs/{job}/outputs").json()["items"]] == [{}, {}, {}]


def test_scores_that_are_none_are_left_out(server, tmp_path):
    job = delivered(server, tmp_path, [output(n) for n in range(2)], scores=[np.nan, 0.5])
    items = server.client.get(f"/jobs/{job}/outputs").json()["items"]
    assert [one["scores"] for one in items] == [{}, {"rouge_l": 0.5, "vowels": 1.0}]


def test_long_texts_are_cut_and_markup_stays_text(server, tmp_path):
    hostile = "<script>alert(1)</script>"
    job = delivered(server, tmp_path, [output(0, hostile), output(1, "x" * 50_000)])
    items = server.client.get(f"/jobs/{job}/outputs").json()["items"]
    assert (items[0]["output"], items[0]["cut"]) == (hostile, False)
    assert (len(items[1]["output"]), items[1]["cut"]) == (20_000, True)


def test_a_long_question_is_kept_in_part():
    assert as_asked("short") == {"prompt": "short"}
    assert as_asked("x" * 5000) == {"prompt": "x" * 4000, "prompt_characters": 5000}


def test_a_job_without_answers_has_an_empty_list(server):
    agent, lease = leased(server.client)
    agent.deliver(lease)
    assert server.client.get(f"/jobs/{lease.job.id}/outputs").json() == {"items": [], "next": None}
    is_problem(server.client.get(f"/jobs/{lease.job.id}/outputs", params={"cursor": "x"}), 400, "cursor")
    is_problem(server.client.get("/jobs/none/outputs"), 404, "unknown-job")


def test_a_file_that_is_damaged_is_a_problem_and_no_crash(server, tmp_path):
    agent, lease = leased(server.client)
    told = result_of(lease.job)
    broken = gzip.compress(b'{"text": "cut sho')
    told["runs"][0]["files"] = {OUTPUTS: agent.upload(broken, OUTPUTS)}
    assert hashlib.sha256(broken).hexdigest() in told["runs"][0]["files"].values()
    agent.deliver(lease, told)
    body = is_problem(server.client.get(f"/jobs/{lease.job.id}/outputs"), 500, "samples")
    assert str(tmp_path) not in body["detail"]
