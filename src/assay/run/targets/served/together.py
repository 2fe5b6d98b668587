"""The common start of a load that several machines share: they meet after their first request, right before the load.

The warm-up belongs to the load: it is driven by all machines at once, as long on each, so that their measured windows
begin together too.
"""

from __future__ import annotations

from dataclasses import dataclass
from time import perf_counter_ns

from pydantic import JsonValue

from assay.run.contract import Order, Stage
from assay.run.load.barrier import Met, meet
from assay.run.load.http.driver import HttpLoad
from assay.run.targets.served.shared import read_clocks

# Even a run that has no time to lose gives the others a moment.
_LEAST_S = 5.0


@dataclass(slots=True)
class Together:
    """The meeting of one run; where there is none, it costs nothing."""

    order: Order
    met: Met | None = None

    def start_ns(self, load: HttpLoad, stage: Stage, deadline_ns: int) -> int | None:
        """Wait for the others; when to begin on the clock of the load loop, None for at once.

        Raises:
            MeasureError: if not all came in time.
        """
        meeting = self.order.meeting
        if meeting is None:
            return None
        stage.progress(0.0, f"waiting for the other {meeting.of - 1} clients")
        needed_s = load.warmup.seconds + (load.duration_s or load.at_most_s) + meeting.lead_s
        within_s = max(_LEAST_S, (deadline_ns - perf_counter_ns()) / 1e9 - needed_s)
        self.met = meet(meeting.of_run(self.order.run_id), meeting.who, meeting.of, within_s, lead_s=meeting.lead_s)
        now = read_clocks()
        return now.loop_ns + self.met.start_at_ns - now.epoch_ns

    def facts(self, clock: JsonValue) -> dict[str, JsonValue]:
        """How the meeting went, and how long after the common moment this machine's load began."""
        if self.met is None:
            return {}
        begun = clock.get("load_begin_epoch_ns") if isinstance(clock, dict) else None
        after_s = (begun - self.met.start_at_ns) / 1e9 if isinstance(begun, int) else None
        return {"barrier": {**self.met.facts(), "began_after_s": after_s}}
