"""The PyTorch target: exported programs and TorchScript, on the device that was asked for, with proof.

programs.py    what a file holds, read before it is loaded; TorchProgram, which loads and calls it
inputs.py      values of all inputs
"""

from __future__ import annotations

from dataclasses import replace

from assay.run.contract import Measured, Order, Rules, Stage
from assay.run.targets import model_target

_IDLE = ("execution", "optimization", "provider_options", "session_options", "use", "dtype", "remote_code")


def measure(order: Order, stage: Stage, rules: Rules) -> Measured:
    """Measure one run of a program of PyTorch."""
    from assay.run.load.in_process import drive
    from assay.run.targets.torch.programs import TorchProgram, explained

    target, path = model_target(order, "the torch target needs a model file", _IDLE)
    model = TorchProgram(order, target, path)
    try:
        measured = drive(model, order, stage, rules)
    except (RuntimeError, AssertionError, ValueError) as problem:  # what a program raises on inputs that do not fit
        raise explained(problem, "the program cannot be run") from problem
    on_device, not_on_device = model.device_memory
    return replace(measured, metrics={**measured.metrics, **on_device}, absent={**measured.absent, **not_on_device})
