"""The numbers of one job, by kind of target: samples, metrics and facts, as a run of that kind leaves them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from assay.demo.runs.conversation import conversation_runs
from assay.demo.runs.device import device_runs
from assay.demo.runs.llm import llm_runs
from assay.demo.runs.model import model_runs
from assay.demo.runs.program import program_runs
from assay.demo.runs.search import search_runs
from assay.demo.runs.vector import vector_runs
from assay.demo.scene import Scene
from assay.demo.studies import Kind
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
