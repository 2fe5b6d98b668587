"""What a run says: metrics by name and statistic, the reasons where there are none."""

import numpy as np
import pytest

from assay.analyse.ab import MetricSelection, headline_in, reading_of, wanted_from
from assay.analyse.ab.pairs import direction_in
from assay.run.records import DeviceProof, Failure


@pytest.mark.parametrize(("text", "wanted"), [
    ("latency_ms", MetricSelection("latency_ms")),
    ("latency_ms.p99", MetricSelection("latency_ms", "p99")),
    ("latency_ms.p99_9", MetricSelection("latency_ms", "p99_9")),
    ("speed{size=1.5}", MetricSelection("speed{size=1.5}")),
    ("speed{size=1.5}.mean", MetricSelection("speed{size=1.5}", "mean")),
    ("a.b", MetricSelection("a.b")),
])  # fmt: skip
def test_names(text, wanted):
    assert wanted_from(text) == wanted
    assert str(wanted) == text


def test_a_run_is_summed_up_by_itself(job, outcome):
    values = np.linspace(1, 2, 700)
    run = reading_of(job(), outcome(3, values))
    assert run.run == 3
    assert run.value(MetricSelection("latency_ms")) == pytest.approx(1.5)
    assert run.value(MetricSelection("latency_ms", "p99")) == pytest.approx(1.99, abs=0.01)
    assert run.value(MetricSelection("latency_ms", "max")) == 2.0
    assert run.value(MetricSelection("load_ms")) == 50.03
    assert run.value(MetricSelection("speed")) is None
    assert run.why_absent(MetricSelection("speed")) == "it gave no speed"
    assert run.why_absent(MetricSelection("latency_ms")) == ""
    assert headline_in(job(), run) == ("latency_ms",)
    assert direction_in(MetricSelection("latency_ms"), (run,)) == ("ms", "lower")
    assert direction_in(MetricSelection("speed"), (run,)) == ("", None)


def test_a_percentile_that_its_samples_do_not_back_is_absent_with_the_number_needed(job, outcome):
    run = reading_of(job(), outcome(0, np.ones(100)))
    assert run.value(MetricSelection("latency_ms", "p99")) is None
    assert run.why_absent(MetricSelection("latency_ms", "p99")) == (
        "latency_ms.p99 needs 662 samples in each run, and it took 100"
    )


def test_failed_runs_and_wrong_devices_have_no_numbers(job, outcome):
    failed = reading_of(job(), outcome(0, error=Failure("timeout", "not finished after 5 s")))
    assert failed.failure == "error[timeout]: not finished after 5 s"
    assert failed.code == "timeout"
    assert failed.value(MetricSelection("latency_ms")) is None
    elsewhere = reading_of(job(), outcome(0, device=DeviceProof("cuda", "cpu", {}, "the session")))
    assert "cuda was asked for and cpu was used" in elsewhere.failure
    assert elsewhere.stats == {}
