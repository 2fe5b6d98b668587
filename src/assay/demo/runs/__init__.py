"""The numbers of one job, by kind of target: samples, metrics and facts, as a run of that kind leaves them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from assay.demo.runs.device import device_runs
from assay.demo.runs.llm import conversation_runs, llm_runs, search_runs
from assay.demo.runs.models import model_runs, program_runs, vector_runs
from assay.demo.scenario import Kind
from assay.demo.scene import Scene
from assay.run.records import RunOutcome

RUNS: Mapping[Kind, Callable[[Scene], Sequence[RunOutcome]]] = {
    "model": model_runs,
    "llm": llm_runs,
    "search": search_runs,
    "conversation": conversation_runs,
    "vector": vector_runs,
    "program": program_runs,
    "device": device_runs,
}
