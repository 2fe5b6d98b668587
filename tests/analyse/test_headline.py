import pytest

from assay.analyse.headline import headline

COMMAND = {"command": "python train.py"}
DECLARED = {**COMMAND, "metrics": [{"name": "speed", "pattern": "speed: (.*)"}]}
SERVICE = {"endpoint": "http://localhost", "api": "openai-chat"}


@pytest.mark.parametrize(
    ("definition", "measured", "expected"),
    [
        ({}, ["latency_ms", "throughput_per_s", "load_ms"], ("latency_ms",)),
        ({"load": {"scenario": "multi-stream"}}, ["latency_ms", "throughput_per_s"], ("latency_ms",)),
        ({"load": {"scenario": "offline"}}, ["latency_ms", "throughput_per_s"], ("throughput_per_s",)),
        ({}, ["load_ms"], ()),
        ({"target": DECLARED}, ["duration_s", "speed", "loss"], ("speed",)),
        ({"target": DECLARED}, ["speed{batch=1}", "speed{batch=8}"], ("speed{batch=1}", "speed{batch=8}")),
        ({"target": DECLARED}, ["duration_s", "loss"], ("loss",)),
        ({"target": COMMAND}, ["duration_s", "loss", "speed"], ("loss", "speed")),
        ({"target": COMMAND}, ["duration_s", "cpu_s"], ("duration_s",)),
        ({"target": SERVICE}, ["ttft_ms", "e2e_ms"], ("e2e_ms",)),
    ],
)
def test_headline(job, stats, definition, measured, expected) -> None:
    if "target" in definition and "metrics" in definition["target"]:
        definition = {"target": {**definition["target"], "metrics": tuple(definition["target"]["metrics"])}}
    assert headline(job(**definition).definition, {name: stats(1.0, 1.1) for name in measured}) == expected
