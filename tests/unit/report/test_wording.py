from __future__ import annotations

from dataclasses import replace

from assay.report.wording import failure_sentence, job_label, job_labels, one_line, verdict_counts
from assay.run.records import Failure


def test_a_label_is_short(build):
    point = {"workload.batch": 8, "target.model": "models/deep/squeezenet.onnx", "target.options": {"a": 1}}
    assert job_label(point, {}) == 'batch=8 squeezenet.onnx options={"a":1}'


def test_paths_that_end_alike_stay_whole():
    assert job_label({"a.threads": 1, "b.threads": 2}, {}) == "a.threads=1 b.threads=2"


def test_without_a_matrix_the_subject_is_the_label():
    assert job_label({}, {"target": {"model": "https://x.org/m/net.onnx?v=1"}}) == "net.onnx"
    assert job_label({}, {"target": {"command": ["/usr/bin/python", "train.py", "--fast"]}}) == "python train.py --fast"


def test_labels_report_jobs_apart(build):
    same_end = [replace(build.done_job(i), point={"target.model": f"{d}/net.onnx"}) for i, d in enumerate("ab")]
    assert set(job_labels(build.campaign(*same_end)).values()) == {"target.model=a/net.onnx", "target.model=b/net.onnx"}
    elsewhere = replace(build.done_job(1), environment={"machine": {"name": "other"}})
    named = job_labels(build.campaign(build.done_job(0), elsewhere))
    assert list(named.values()) == ["batch=1 threads=1 on bench-03", "batch=1 threads=1 on other"]
    twins = job_labels(build.campaign(build.done_job(0), build.done_job(1)))
    assert list(twins.values()) == ["#0 batch=1 threads=1", "#1 batch=1 threads=1"]


def test_counts_in_words(build):
    assert verdict_counts(build.honest()) == "1 valid, 2 suspect, 1 failed"
    assert verdict_counts(build.campaign()) == "no jobs"


def test_one_line_takes_terminal_codes_and_line_ends_away():
    assert one_line("a\x1b[31mred\x1b[0m\r\nb\x07\u202ec") == "a red b c"


def test_evidence_that_the_message_gives_is_not_said_twice():
    said = failure_sentence(Failure("slurm-failed", "it is FAILED with exit code 1", exit_code=1, memory_mb=12.0))
    assert said == "error[slurm-failed]: it is FAILED with exit code 1 (memory 12 MB)"
    assert failure_sentence(Failure("child", "it ended", exit_code=1)) == "error[child]: it ended (exit code 1)"
