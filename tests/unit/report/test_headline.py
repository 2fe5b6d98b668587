from __future__ import annotations

from dataclasses import replace

from assay.report.wording import headline_of


def test_a_model_answers_with_latency(build):
    assert headline_of(build.done_job()) == ("latency_ms",)


def test_offline_answers_with_throughput(build):
    job = build.done_job()
    offline = replace(job, definition={**job.definition, "load": {"scenario": "offline"}})
    assert headline_of(offline) == ("throughput_per_s",)


def test_a_command_answers_with_what_it_declares(build):
    assert headline_of(build.command_job()) == ("images_per_s",)


def test_a_metric_with_context_is_still_the_declared_one(build):
    job = build.command_job()
    stats = job.metrics["images_per_s"]
    split = replace(job, metrics={"images_per_s{batch=8}": stats, "duration_s": stats})
    assert headline_of(split) == ("images_per_s{batch=8}",)


def test_a_command_that_declares_nothing_answers_with_its_own_metrics_or_its_duration(build):
    job = replace(build.command_job(), definition={"target": {"command": "x"}})
    assert headline_of(job) == ("images_per_s",)
    assert headline_of(replace(job, metrics={"duration_s": job.metrics["duration_s"]})) == ("duration_s",)


def test_a_failed_job_has_no_headline(build):
    assert headline_of(build.failed_job()) == ()
