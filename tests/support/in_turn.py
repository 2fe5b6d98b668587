"""A machine whose truth is known, in the place of measured processes: experiments then take milliseconds."""

from __future__ import annotations

import random
from collections.abc import Callable

import numpy as np
import pytest

from assay.clock import iso
from assay.experiments import interleave
from assay.run.execute import is_hopeless
from assay.run.records import Failure, RunOutcome, SampleSet, SingleRunResult


class Machine:
    """Gives each run the number that its command names, with noise; fails where it is told to."""

    def __init__(self, truth: Callable[[object], float], spread: float = 0.01, seed: int = 1) -> None:
        self.truth = truth
        self.spread = spread
        self.rng = random.Random(seed)
        self.made: list[object] = []
        """The jobs of all runs, in order."""
        self.fails: Callable[[object], str] = lambda job: ""
        """A job → the code of its failure, empty for none."""

    def execute(self, job, *, cache, clock, watch, keep, before):
        if is_hopeless(before):
            return
        run = len(list(before))
        assert run < job.definition.measure.runs
        watch.run(run, job.definition.measure.runs)
        watch.phase("measure")
        self.made.append(job)
        now = iso(clock.utc())
        code = self.fails(job)
        result = SingleRunResult(
            run,
            run == 0,
            now,
            now,
            0.01,
            metrics={"duration_s": 0.01},
            error=Failure(code, "broken on purpose") if code else None,
        )
        value = self.truth(job) * np.exp(self.spread * self.rng.gauss(0, 1))
        samples = (SampleSet("step_ms", "measure", np.zeros(1, dtype=np.int64), np.array([value])),)
        keep(RunOutcome(result, () if code else samples))
        watch.run_done(result)


def on(monkeypatch: pytest.MonkeyPatch, machine: Machine, *, looked_at: bool = False) -> Machine:
    """Let experiments run on a machine; the state of the real one is read only where a test asks for it."""
    monkeypatch.setattr(interleave, "execute_job", machine.execute)
    # The order of the runs is random; in a test it is the same every time, so that its answer is too.
    monkeypatch.setattr(interleave.secrets, "randbits", random.Random(1).getrandbits)
    if not looked_at:
        monkeypatch.setattr(interleave, "machine_states", lambda jobs, on, before: [{} for _ in jobs])
    return machine
