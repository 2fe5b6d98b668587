"""A no-op in place of a model, taken through all of `drive`: load, first, warm-up, measure, score, clean up."""

import json
import os
import sys
import tempfile
from time import perf_counter_ns

import numpy as np

from assay.analyse.steady_state import enough, steady
from assay.plan.job import Job
from assay.run.contract import Order, Rules
from assay.run.load.in_process import drive
from assay.run.pipes import PipeStage
from assay.run.records import DeviceProof
from assay.spec.benchmark import Definition, Measure, Until
from assay.spec.target import ModelTarget


class Nothing:
    """A model that does nothing."""

    items_per_call = 1

    def load(self) -> None:
        return None

    def call(self):
        def nothing() -> None:
            return None

        return nothing

    def proof(self) -> DeviceProof:
        return DeviceProof("cpu", "cpu", {}, "there is no model")

    def facts(self) -> dict[str, str]:
        return {}

    def close(self) -> None:
        return None


def order(calls: int, scratch: str) -> Order:
    measure = Measure(runs=1, until=Until(samples=calls))
    definition = Definition(target=ModelTarget(model="nothing.onnx"), measure=measure)
    return Order(Job("overhead", "none", 0, definition), 0, scratch)


def main(calls: int) -> None:
    stage = PipeStage(os.open(os.devnull, os.O_WRONLY))
    with tempfile.TemporaryDirectory() as scratch:
        asked = order(calls, scratch)
        begin = perf_counter_ns()
        measured = drive(Nothing(), asked, stage, Rules(steady=steady, enough=enough))
        whole_ns = perf_counter_ns() - begin
    samples = next(one.value for one in measured.samples if one.phase == "measure")
    answer = {
        "reported_ns": float(np.median(samples)) * 1e6,
        "wall_ns": measured.window.wall_s * 1e9 / calls,
        "whole_ns": whole_ns / calls,
        "stated_ns": measured.window.harness_ns,
    }
    print(json.dumps(answer))


if __name__ == "__main__":
    main(int(sys.argv[1]))
