"""The Transformers target: language models from safetensors, in our process, with proof of device.

model.py       from a folder to a model on its device
decoding.py    prompts as tensors; greedy decoding with a time stamp at each step, and its figures
generate.py    Generator, with answers kept and judged
embed.py       Embedder, with pooling
"""

from __future__ import annotations

from assay.errors import UsageError
from assay.run.contract import Measured, Order, Rules, Stage
from assay.run.targets import model_target

_IDLE = ("inter_threads", "execution", "optimization", "provider_options")


def measure(order: Order, stage: Stage, rules: Rules) -> Measured:
    """Measure one run of a language model."""
    from assay.run.load.in_process import drive
    from assay.run.targets.transformers.embed import Embedder
    from assay.run.targets.transformers.generate import Generator, PhaseStage
    from assay.run.targets.transformers.model import explained

    target, folder = model_target(order, "the transformers target needs a model folder", _IDLE)
    load = order.job.definition.load
    if load.scenario == "multi-stream" or (load.streams or 1) > 1:
        message = "a language model in our process answers one call at a time"
        try_ = "remove load.streams, and set workload.batch for several prompts in one call"
        raise UsageError(message, code="usage", at="load", try_=try_)
    kind = Generator if target.use == "generate" else Embedder
    model = kind(order, target, folder)
    try:
        measured = drive(model, order, PhaseStage(stage, model.begin), rules)
    except RuntimeError as problem:  # what PyTorch raises, out of memory among it
        raise explained(problem) from problem
    return model.complete(measured, stage)
