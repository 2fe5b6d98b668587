import pytest

from assay.analyse.headline import headline

COMMAND = {"command": "python train.py"}
DECLARED = {**COMMAND, "metrics": [{"name": "speed", "pattern": "speed: (.*)"}]}
TWO = {**COMMAND, "metrics": [{"name": "speed"}, {"name": "loss"}]}
SERVICE = {"endpoint": "http://localhost", "api": "openai-chat"}
FAISS = {"library": "faiss"}
TRANSFORMERS = {"model": "smollm2", "runtime": "transformers"}
STREAM = ("ttft_ms", "itl_ms", "output_tokens_per_s")
STREAMED = ["e2e_ms", "goodput_per_s", "input_tokens", *STREAM]


@pytest.mark.parametrize(
    ("definition", "measured", "expected"),
    [
        ({}, ["latency_ms", "throughput_per_s", "load_ms"], ("latency_ms",)),
        ({"load": {"scenario": "multi-stream"}}, ["latency_ms", "throughput_per_s"], ("latency_ms",)),
        ({"load": {"scenario": "offline"}}, ["latency_ms", "throughput_per_s"], ("throughput_per_s",)),
        ({}, ["load_ms"], ()),
        ({"target": DECLARED}, ["duration_s", "speed", "loss"], ("speed",)),
        ({"target": DECLARED}, ["speed{batch=1}", "speed{batch=8}"], ("speed{batch=1}", "speed{batch=8}")),
        ({"target": DECLARED}, ["duration_s", "loss"], ()),
        ({"target": DECLARED}, ["duration_s"], ()),
        ({"target": TWO}, ["duration_s", "loss", "speed"], ("speed", "loss")),
        ({"target": COMMAND}, ["duration_s", "loss", "speed"], ("loss", "speed")),
        ({"target": COMMAND}, ["duration_s", "cpu_s"], ("duration_s",)),
        ({"target": SERVICE}, ["ttft_ms", "e2e_ms"], ("e2e_ms",)),
        ({"target": SERVICE}, STREAMED, ("ttft_ms", "itl_ms", "output_tokens_per_s")),
        ({"target": SERVICE, "objective": {"ttft_ms.p99": 9.0}}, STREAMED, ("goodput_per_s", *STREAM)),
        (
            {"target": SERVICE, "load": {"rate": "search"}, "objective": {"ttft_ms.p99": 9.0}},
            [*STREAMED, "capacity_per_s"],
            ("capacity_per_s", "goodput_per_s", *STREAM),
        ),
        ({"target": SERVICE}, [*STREAMED, "rouge_1", "rouge_l"], (*STREAM, "rouge_l")),
        ({"target": SERVICE, "load": {"rate": 5.0}}, ["latency_ms", "throughput_per_s"], ("latency_ms",)),
        (
            {"target": FAISS},
            ["latency_ms", "throughput_per_s", "recall", "index_s"],
            ("latency_ms", "throughput_per_s", "recall"),
        ),
        ({"target": TRANSFORMERS}, ["prefill_ms", "decode_ms", "itl_ms", "ttft_ms"], ("prefill_ms", "decode_ms")),
    ],
)
def test_headline(job, stats, definition, measured, expected) -> None:
    if "target" in definition and "metrics" in definition["target"]:
        definition = {"target": {**definition["target"], "metrics": tuple(definition["target"]["metrics"])}}
    assert headline(job(**definition).definition, {name: stats(1.0, 1.1) for name in measured}) == expected
