"""Which metrics answer the question that a job asks."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from assay.analyse.quality import foremost
from assay.metrics import METRICS, base_name
from assay.spec.benchmark import Definition
from assay.spec.target import CommandTarget, DeviceTarget, ModelTarget

# Streams of tokens: how long until the first, how evenly the others come, how many come in all.
_OF_A_STREAM = ("ttft_ms", "itl_ms", "output_tokens_per_s")
# Whatever else answers requests.
_OF_A_REQUEST = ("e2e_ms", "latency_ms", "ttft_ms")
_OF_A_DEVICE = ("_gb_per_s", "_tflops", "_tops")
_OF_A_GENERATOR = ("prefill_ms", "decode_ms")


def headline(definition: Definition, metrics: Collection[str]) -> tuple[str, ...]:
    """The metrics that answer the job's question, of those that it measured."""
    target = definition.target
    if isinstance(target, CommandTarget):
        return _of_command(definition, metrics)
    if isinstance(target, ModelTarget):
        return _of_model(definition, metrics)
    if isinstance(target, DeviceTarget):
        return tuple(name for name in metrics if name.endswith(_OF_A_DEVICE))
    return _of_service(definition, metrics)


def _of_model(definition: Definition, metrics: Collection[str]) -> tuple[str, ...]:
    """Latency or, offline, throughput; prefill and decoding where the model writes text."""
    if definition.load.scenario == "offline":
        return _present(("throughput_per_s",), metrics) or _present(("output_tokens_per_s",), metrics)
    found = _present(_OF_A_GENERATOR, metrics) or _present(("latency_ms",), metrics)
    return (*found, *foremost(metrics)) if found else ()


def _of_service(definition: Definition, metrics: Collection[str]) -> tuple[str, ...]:
    """What was searched for, then what a user feels, then how good the answers were."""
    load = definition.load
    first = ["capacity_per_s"] if load.rate == "search" else []
    first += ["goodput_per_s"] if definition.objective else []
    if "itl_ms" in metrics:
        felt = _present(_OF_A_STREAM, metrics)
    else:
        felt = _present(_OF_A_REQUEST, metrics)[:1]
        # In an open loop the throughput is what was offered, and says nothing.
        closed = load.rate is None and load.trace is None and not any(one.rate is not None for one in load.stages)
        felt += _present(("throughput_per_s",), metrics) if closed or not felt else ()
    return (*_present(first, metrics), *felt, *foremost(metrics))


def headline_or_first(definition: Definition, metrics: Collection[str]) -> tuple[str, ...]:
    """The headline, else the first metric that there is; nothing takes the place of metrics that a file declares."""
    return headline(definition, metrics) or (() if declared(definition) else tuple(metrics)[:1])


def declared(definition: Definition) -> tuple[str, ...]:
    """The names of the metrics that a file declares for a program, in its order."""
    target = definition.target
    return tuple(dict.fromkeys(one.name for one in target.metrics)) if isinstance(target, CommandTarget) else ()


def _of_command(definition: Definition, metrics: Collection[str]) -> tuple[str, ...]:
    """The declared metrics in the order of the file; where it declares none, what was reported, else the duration."""
    if names := declared(definition):
        return tuple(metric for name in names for metric in metrics if base_name(metric) == name)
    # What assay measures of every program says what the work cost, not how well it went.
    reported = tuple(name for name in metrics if base_name(name) not in METRICS)
    return reported or _present(("duration_s",), metrics)


def _present(names: Iterable[str], metrics: Collection[str]) -> tuple[str, ...]:
    return tuple(name for name in names if name in metrics)
