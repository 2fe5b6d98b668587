"""What a rule of alerts may say, in full and in short, and what is said about one that cannot be right."""

import json

import pytest
from jsonschema import Draft202012Validator

from assay.errors import SpecError
from assay.spec.load import load
from assay.spec.schedule import Alert
from assay.spec.schema import benchmark_schema


def benchmark(*alerts):
    return {"benchmark": "b", "target": {"model": "squeezenet"}, "alerts": list(alerts)}


def alert(one):
    return load(benchmark(one)).benchmark.alerts[0]


def refused(one):
    with pytest.raises(SpecError) as wrong:
        load(benchmark(one))
    return str(wrong.value)


@pytest.mark.parametrize(
    ("short", "full"),
    [
        ("ttft_ms.p99 > 50", {"metric": "ttft_ms.p99", "when": "above", "value": 50}),
        ("ttft_ms.p99>50", {"metric": "ttft_ms.p99", "when": "above", "value": 50}),
        ("error_rate >= 1e-3", {"metric": "error_rate", "when": "above", "value": 0.001}),
        ("speed{batch=8} < .5", {"metric": "speed{batch=8}", "when": "below", "value": 0.5}),
        ("drift_ms > -2.5", {"metric": "drift_ms", "when": "above", "value": -2.5}),
        ("latency_ms worse by 5%", {"metric": "latency_ms", "when": "worse", "by": 0.05}),
        ("latency_ms worse by 5 %", {"metric": "latency_ms", "when": "worse", "by": 0.05}),
        ("latency_ms worse", {"metric": "latency_ms", "when": "worse"}),
        ("job failed", {"when": "failed"}),
        ("failed", {"when": "failed"}),
        ("agent lost", {"when": "agent-lost"}),
        ("no data for 24h", {"when": "silent", "after": 86400}),
        ("no  results for 1h30m", {"when": "silent", "after": 5400}),
        ({"when": "p99 > 50", "metric": "ttft_ms"}, {"metric": "ttft_ms.p99", "when": "above", "value": 50}),
        ({"when": "worse by 5%", "metric": "ttft_ms"}, {"metric": "ttft_ms", "when": "worse", "by": 0.05}),
        ({"when": "no data for 24h", "severity": "critical"},
         {"when": "silent", "after": 86400, "severity": "critical"}),
        ({"metric": "m"}, {"metric": "m", "when": "worse"}),
        ("worse by 5%", {"when": "worse", "by": 0.05}),
        ({"when": "failed", "notify": "team-chat"}, {"when": "failed", "notify": ["team-chat"]}),
    ],
)  # fmt: skip
def test_what_is_said_in_short_means_the_same(short, full):
    assert alert(short) == alert(full)


def test_everything_can_be_said_and_read_back():
    said = {
        "metric": "ttft_ms.p99",
        "when": "worse",
        "by": "5%",
        "severity": "info",
        "quiet": "22:00-07:00",
        "timezone": "Europe/Luxembourg",
        "at_most_every": "1h",
        "notify": ["team-chat"],
    }
    read = alert(said)
    assert (read.by, read.at_most_every, read.timezone) == (0.05, 3600.0, "Europe/Luxembourg")
    assert Alert.model_validate_json(json.dumps(read.model_dump(mode="json", exclude_defaults=True))) == read


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ("p99 > 50", "does not say of which metric"),
        ("ttft_ms > 50ms", "is no limit"),
        ("ttft_ms > fast", "is no limit"),
        ("moon rises", "moon rises"),
        ({"when": "ttft_ms > 50", "metric": "itl_ms"}, "says metric already"),
        ({"when": "ttft_ms > 50", "value": 60}, "says value already"),
        ({"when": "worse by 5%", "metric": "m", "by": "6%"}, "says by already"),
        ({"when": "no data for 24h", "after": "1h"}, "says after already"),
        ({"when": "no data for ever"}, "'ever' is not a duration"),
        ({"when": "above", "value": 1}, "needs metric"),
        ({"when": "job faild"}, "'job faild' is no rule; write for example ttft_ms.p99 > 50"),
        ({"when": "above", "metric": "m"}, "needs value"),
        ({"when": "silent"}, "needs after"),
        ({"when": "silent", "after": 0}, "greater than 0"),
        ({"when": "failed", "metric": "m"}, "metric would do nothing"),
        ({"when": "above", "metric": "m", "value": 1, "by": "5%"}, "by would do nothing"),
        ({"when": "failed", "quiet": "22-7"}, "write 22:00-07:00"),
        ({"when": "failed", "quiet": "07:00-07:00"}, "no notification would ever be sent"),
        ({"when": "failed", "timezone": "Europe/Luxemburg"}, "Europe/Luxembourg"),
        ({"when": "failed", "notify": [" "]}, "not a valid channel name"),
        ({"when": "failed", "severity": "bad"}, "severity"),
    ],
)
def test_what_cannot_be_right_is_refused_with_the_reason(wrong, said):
    assert said in refused(wrong)


def test_editors_take_the_short_forms_too():
    schema = Draft202012Validator(benchmark_schema())
    for one in (
        "job failed",
        {"when": "ttft_ms.p99 > 50"},
        {"metric": "m", "when": "worse", "by": "5%"},
        {"when": "failed", "notify": "mail"},
        {"when": "failed", "notify": ["mail"]},
    ):
        assert not list(schema.iter_errors(benchmark(one))), one
    assert list(schema.iter_errors(benchmark({"metric": "m", "colour": "red"})))
