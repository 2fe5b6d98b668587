"""What a campaign says beside its jobs: keys that nothing acts on, and changes in the series that it belongs to."""

from __future__ import annotations

from assay.analyse.records import CampaignRecord
from assay.clock import Clock
from assay.errors import AssayError
from assay.report.live import View
from assay.spec.benchmark import Benchmark
from assay.store.store import Store


def note_unused(benchmark: Benchmark, view: View, run: str = "a local run") -> None:
    """Say which keys of the file a run without a server does not act on.

    Args:
        benchmark: the file.
        view: is told.
        run: what kind of run it is.
    """
    if benchmark.schedule:
        view.note(f"schedule is kept with the campaign; {run} does not act on it")
    if benchmark.alerts:
        view.note(f"alerts are listed by `assay alerts`; {run} sends no messages")


def note_findings(store: Store, record: CampaignRecord, view: View, clock: Clock) -> None:
    """Take results into their series, and say what changed; the results are kept, whatever comes of it."""
    from assay.alert.ingest import observe
    from assay.report.series import finding_sentence

    try:
        found = observe(store, record, clock)
    except AssayError as problem:
        view.note(f"the series were not updated: {problem.problem.message}; try `assay series collect`")
        return
    for one in found:
        if one.state == "open" and one.finding.answer != "cannot tell":
            view.note(finding_sentence(one))
