"""The child process of one run: puts target, load and statistical rules together, measures once, and ends.

Started as `python -m assay.exec.child ORDER EVENTS_FD LIFELINE_FD` by `assay.run.launch`; never by a user.
"""

from __future__ import annotations

import faulthandler
import os
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import JsonValue

from assay.analyse.settling import REQUEST_TIMES, course_of_samples, lasting
from assay.analyse.steady_state import enough, samples_for_objective, steady
from assay.documents import from_json
from assay.errors import AssayError
from assay.run.contract import Measured, Order, RateProbe, Rules
from assay.run.launch import Refusal, forget, leave, leave_refusal
from assay.run.pipes import PipeStage, take_over
from assay.run.processes import TAG_VARIABLE, adopt_orphans, end_descendants, hold_lifeline
from assay.run.targets import find_target, target_name
from assay.spec.benchmark import Definition

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


def main(arguments: list[str]) -> int:
    """Measure one run as an order says."""
    forget(os.environ)  # NumPy is loaded: what is measured must not see how
    faulthandler.enable()  # a crash in native code leaves its stack in the log
    order_path = Path(arguments[0])
    events_fd, lifeline_fd = take_over(arguments[1], writing=True), take_over(arguments[2], writing=False)
    order = from_json(Order, order_path.read_bytes(), source=str(order_path))
    scratch = Path(order.scratch)
    adopt_orphans()
    hold_lifeline(lifeline_fd, os.environ.get(TAG_VARIABLE, ""), scratch)
    _guard_memory(order.job.definition.measure.memory_limit)
    stage = PipeStage(events_fd)
    try:
        target = find_target(target_name(order.job.definition))
        measured = target(order, stage, _rules(order.job.definition))
    except AssayError as refused:
        problem = refused.problem
        return _refuse(scratch, Refusal(problem.code, problem.message, problem.try_), stage)
    except MemoryError:
        return _refuse(scratch, _out_of_memory(order), stage)
    except Exception as failure:  # a target may raise anything; the run must say what
        traceback.print_exc()
        if "bad_alloc" in str(failure) or "Failed to allocate memory" in str(failure):
            return _refuse(scratch, _out_of_memory(order), stage)
        return _refuse(scratch, Refusal("target", f"{type(failure).__name__}: {_first_line(failure)}"), stage)
    measured = replace(measured, facts={**measured.facts, **_course(order.job.definition, measured)})
    leave(scratch, measured, stage.seconds, stage.marks, left_behind=end_descendants())
    return 0


def _rules(definition: Definition) -> Rules:
    """The stop rule of a definition: its interval, and enough samples for the percentiles that its objective names."""
    needed = samples_for_objective(definition.objective, definition.measure.least_runs)

    def satisfied(durations_ns: NDArray[np.int64], relative: float) -> bool:
        return durations_ns.size >= needed and enough(durations_ns, relative)

    rules = Rules(steady=steady, enough=satisfied, lasting=lasting, search=_Search)
    load = definition.load
    if load.rate or load.trace or load.stages:
        return replace(rules, falls_behind=_falls_behind())
    return rules


def _course(definition: Definition, measured: Measured) -> dict[str, JsonValue]:
    """The levels that the times of a run went through, where it was not flat; empty where its load changes."""
    load = definition.load
    sampled = {part.metric for part in measured.samples if part.phase == "measure"}
    metric = next((name for name in REQUEST_TIMES if name in sampled), None)
    if metric is None or load.rate == "search" or load.trace is not None or load.stages:
        return {}
    seen = course_of_samples(measured.samples, metric, ramped=load.ramp is not None)
    if seen.shape is None or seen.shape == "flat":
        return {}
    levels: list[JsonValue] = [round(level, 4) for level in seen.levels]
    return {"course": {"metric": metric, "shape": seen.shape, "changes": list(seen.changes), "levels": levels}}


def _falls_behind() -> Callable[[Sequence[tuple[float, int, int, int]], float], bool]:
    """The rule for open loads, loaded before theirs begins: it must not be held up for that."""
    from assay.analyse.capacity.search import saturated

    def falls_behind(story: Sequence[tuple[float, int, int, int]], latency_s: float) -> bool:
        at_s, in_flight, due, done = zip(*story, strict=True)
        return saturated(at_s, in_flight, due, done, latency_s) is True

    return falls_behind


class _Search:
    """The search of `analyse`, as a load loop asks for it; loaded by those alone that search."""

    def __init__(self, definition: Definition) -> None:
        from assay.analyse.capacity.probe import ERRORS
        from assay.analyse.capacity.search import RateSearch

        self._search = RateSearch(definition.load.search, definition.objective, max(ERRORS, definition.measure.errors))

    def next(self) -> tuple[float, float] | None:
        from assay.analyse.capacity.search import ProbeStep

        step = self._search.step()
        return (step.rate, step.duration_s) if isinstance(step, ProbeStep) else None

    def tell(self, seen: RateProbe) -> None:
        from assay.analyse.capacity.probe import ProbeOutcome

        self._search.tell(
            ProbeOutcome(
                seen.rate,
                seen.duration_s,
                seen.offered_per_s,
                seen.delivered_per_s,
                seen.values,
                seen.failed_share,
                seen.saturated,
            )
        )

    def facts(self) -> Mapping[str, JsonValue]:
        return self._search.facts()


def _refuse(scratch: Path, refusal: Refusal, stage: PipeStage) -> int:
    leave_refusal(scratch, replace(refusal, phase=stage.where), stage.seconds)
    end_descendants()
    return 3


def _out_of_memory(order: Order) -> Refusal:
    limit = order.job.definition.measure.memory_limit
    bound = f" (measure.memory_limit is {limit / 2**20:.0f} MiB)" if limit else ""
    return Refusal(
        "out-of-memory",
        f"the run asked for more memory than it could get{bound}",
        "use a smaller batch or a machine with more memory",
    )


def _guard_memory(limit: int | None) -> None:
    """Be the first to go when memory runs out, so that results already measured survive."""
    with suppress(OSError):  # not Linux, or not allowed: the kernel chooses
        Path("/proc/self/oom_score_adj").write_text("1000")
    if limit is not None and sys.platform != "win32":
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))


def _first_line(failure: Exception) -> str:
    return next(iter(str(failure).strip().splitlines()), "no message")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
