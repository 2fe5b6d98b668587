"""The ONNX Runtime target: any ONNX model, on the provider that was asked for, with proof.

session.py   options in, session out, settings read back, and which provider ran each node
model.py     OnnxModel: values of all inputs, one call, outputs described
"""

from __future__ import annotations

from assay.run.contract import Measured, Order, Rules, Stage
from assay.run.onnx_devices import available_devices
from assay.run.targets.onnx.model import OnnxModel, is_runtime_error
from assay.run.targets.onnx.session import call_error

__all__ = ["OnnxModel", "available_devices", "measure"]


def measure(order: Order, stage: Stage, rules: Rules) -> Measured:
    """Measure one run of an ONNX model."""
    from assay.run.load.in_process import drive

    model = OnnxModel(order)
    try:
        return drive(model, order, stage, rules)
    except Exception as problem:
        if is_runtime_error(problem):
            raise call_error(problem, model.dims) from problem
        raise
