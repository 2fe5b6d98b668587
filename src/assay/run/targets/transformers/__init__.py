"""The Transformers target: language models from safetensors, in our process, with proof of device.

model.py       from a folder to a model on its device
prompts.py     chat template, tokens, padding; which prompts each call asks
decoding.py    greedy decoding with a time stamp at each step, and its figures
generate.py    Generator, with answers kept and judged
embed.py       Embedder, with pooling
"""

from __future__ import annotations

from pathlib import Path

from assay.errors import UsageError
from assay.run.contract import Measured, Order, Rules, Stage
from assay.run.targets.keys import refuse_idle, refuse_streams
from assay.spec.target import ModelTarget

__all__ = ["measure"]

_IDLE = ("inter_threads", "execution", "optimization", "provider_options")


def measure(order: Order, stage: Stage, rules: Rules) -> Measured:
    """Measure one run of a language model.

    Raises:
        MeasureError: when the device, the model or the workload do not allow it.
    """
    from assay.run.load.in_process import drive
    from assay.run.targets.transformers.embed import Embedder
    from assay.run.targets.transformers.generate import Generator, PhaseStage
    from assay.run.targets.transformers.model import explained

    definition = order.job.definition
    target = definition.target
    if not isinstance(target, ModelTarget) or order.model is None:
        raise UsageError("the transformers target needs a model folder", code="target", at="target.model")
    refuse_idle(target, _IDLE)
    refuse_streams(definition)
    kind = Generator if target.use == "generate" else Embedder
    model = kind(order, target, Path(order.model))
    try:
        measured = drive(model, order, PhaseStage(stage, model.begin), rules)
    except RuntimeError as problem:  # what PyTorch raises, out of memory among it
        raise explained(problem) from problem
    return model.complete(measured, stage)
