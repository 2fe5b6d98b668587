"""A service or an endpoint, measured: reach it, ask once, load it, read the answers, score them."""

from __future__ import annotations

from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from time import perf_counter_ns

import numpy as np
import psutil
from pydantic import JsonValue

from assay.errors import MeasureError
from assay.run import window
from assay.run.apis import ServedApi, find_api
from assay.run.contract import Measured, Order, Rules, Stage
from assay.run.endpoint import ServedEndpoint, local_tokenizer_of, reached, server_tokenizer_of
from assay.run.load.http.recording import LoadRecording, client_metrics
from assay.run.load.http.session import Rendezvous, drive_watched, load_of, reading_s
from assay.run.load.timing import read_clocks
from assay.run.probes import ServiceProbe
from assay.run.records import SampleSet, Window
from assay.run.scoring import OUTPUTS, find_scorer, scored, write_outputs
from assay.run.services import refuse_ended
from assay.run.targets.served.counting import UNKNOWN, Counter
from assay.run.targets.served.facts import clock_facts, keep_requests, outputs, share_facts
from assay.run.targets.served.figures import Figures, figures
from assay.run.targets.served.rate_search import search_rate
from assay.run.targets.served.rows import Rows, read_rows
from assay.run.targets.served.supply import (
    TRIES,
    ApiSupply,
    first_request,
    first_timeout_s,
    refuse_unreachable,
    requests_bound,
    requests_within,
)
from assay.run.targets.telemetry import keep_telemetry, tree_cpu_s, watched
from assay.run.tokens import Tokenizer
from assay.run.workloads import Workset, make_workset, repeated_requests, with_new_prompts
from assay.run.workloads.trace import Trace, read_trace, trace_workset
from assay.spec.benchmark import Definition
from assay.spec.target import ServiceTarget
from assay.units import show_seconds

# Scoring may take this share of the time that is left after the load.
_SCORING = 0.8


def measure(order: Order, stage: Stage, rules: Rules) -> Measured:
    """Measure one run of a served target."""
    began_ns = perf_counter_ns()
    with ExitStack() as stack:
        with stage.phase("load"):
            there = stack.enter_context(reached(order, stage))
        return _Run(order, stage, rules, there, began_ns).measure(stack)


@dataclass(slots=True)
class _Run:
    order: Order
    stage: Stage
    rules: Rules
    there: ServedEndpoint
    began_ns: int
    metrics: dict[str, float] = field(default_factory=dict)
    absent: dict[str, str] = field(default_factory=dict)
    facts: dict[str, JsonValue] = field(default_factory=dict)
    files: dict[str, Path] = field(default_factory=dict)
    samples: list[SampleSet] = field(default_factory=list)
    server_tokenizer: Tokenizer | None = None
    rendezvous: Rendezvous = field(init=False)

    def __post_init__(self) -> None:
        self.rendezvous = Rendezvous(self.order)

    @property
    def definition(self) -> Definition:
        return self.order.job.definition

    @property
    def base(self) -> Path:
        return Path(self.order.job.base)

    @property
    def scratch(self) -> Path:
        return Path(self.order.scratch)

    def measure(self, stack: ExitStack) -> Measured:
        with self.stage.phase("prepare"):
            api = find_api(self.there.target, self.definition.workload.seed)
            local = local_tokenizer_of(self.there, self.base)
            trace, work = self._workset(api, local)
            for name in work.scorers:
                find_scorer(name)  # a missing one is reported before anything is measured
            supply = ApiSupply(work.items, api, self.there.origin, self.there.headers)
            most = self._budget(work, api)
        self._first(supply, api, work)
        probe = stack.enter_context(self._watched())
        before = window.read(own_cpu_s=self._cpu_s())
        recording = self._load(supply, api, work, trace, most, local)
        self.facts["clock"] = clock_facts(recording, read_clocks())
        self.facts |= self.rendezvous.facts(self.facts["clock"])
        seen = window.between(before, window.read(own_cpu_s=self._cpu_s()))
        refuse_ended([self.there.service] if self.there.service is not None else [])
        with self.stage.phase("score"):
            keep_telemetry(probe, recording.window, self.facts, self.absent, self.files)
            rows = self._read(recording, api, work, local)
            summary = figures(recording, rows, api, self.definition)
            self._keep(summary, recording, work)
            self._share(summary, recording, rows, api)
            self._score(recording, rows, api, work)
        return Measured(
            self.metrics, self.absent, tuple(self.samples), self.facts, window=_of(seen, recording), files=self.files
        )

    # -- before the load ------------------------------------------------------------------------------------------

    def _workset(self, api: ServedApi, local: Tokenizer | None) -> tuple[Trace | None, Workset]:
        """What is asked, new in every run; the server's tokenizer is asked for only where lengths in tokens are."""
        definition = with_new_prompts(self.order.job, self.order.run_id)
        load, workload = definition.load, definition.workload
        trace = None
        if load.trace is not None:
            trace = read_trace(self.base / load.trace, within_s=load.duration, at_most=load.requests)
        sized = workload.input_tokens is not None or workload.shared_prefix is not None
        if local is None and (sized or (trace is not None and trace.input_tokens is not None)):
            self.stage.progress(0.0, f"asking {self.there.origin.authority} for its tokenizer")
            self.server_tokenizer = server_tokenizer_of(self.there)
            if self.server_tokenizer is None:  # perhaps nothing answers at all
                refuse_unreachable(self.order, self.there, api)
        tokenizer = local or self.server_tokenizer
        if trace is not None:
            return trace, trace_workset(definition, self.base, tokenizer, trace)
        return None, make_workset(definition, self.base, tokenizer)

    def _budget(self, work: Workset, api: ServedApi) -> int | None:
        price = self.there.target.price
        if price is None or price.budget is None:
            return None
        share = price.budget / self.definition.measure.least_runs
        # The request before the load is paid for too, and it may be tried more than once.
        first = TRIES * requests_bound(work.items[-1], price, conversation=api.generates)
        most = requests_within(share - first, work.items, price, conversation=api.generates)
        self.facts["budget"] = {
            "of_this_run": share,
            "currency": price.currency,
            "requests_at_most": min(most, 2**53),
            "how": "no more requests than fit at the most that each can cost; the first one and the warm-up count",
        }
        return most

    def _first(self, supply: ApiSupply, api: ServedApi, work: Workset) -> None:
        """The first request of all, by itself: a cold start, and the moment to say what is wrong."""
        with self.stage.phase("first"):
            within = show_seconds(first_timeout_s(self.order, self.there))
            self.stage.progress(0.0, f"waiting at most {within} for the first answer of {self.there.origin.authority}")
            first = first_request(self.order, self.there, supply, api, session=len(work.items) - 1)
        service = self.there.service
        shared = isinstance(self.there.target, ServiceTarget) and self.there.target.service in self.order.services
        self.metrics["first_ms"] = first.e2e_ms
        if first.ttft_ms is not None:
            self.facts["first_ttft_ms"] = round(first.ttft_ms, 3)
        if service is None:
            return
        clocks = {"start_to_ready_s": service.start_to_ready_s}
        if first.token_ns:
            clocks["start_to_first_token_s"] = (first.token_ns - service.started_ns) / 1e9
        self.facts["service"] = {
            "name": service.name,
            "how": service.how,
            **dict(service.facts),
            "shared": shared,
            "host": service.host,
        }
        if shared:
            self.absent |= dict.fromkeys(clocks, "all runs of the job share the service, so its start is not theirs")
        else:
            self.metrics |= clocks

    def _watched(self) -> AbstractContextManager[ServiceProbe | None]:
        there = self.there
        metrics = (there.metrics_url, there.metrics_address, there.metrics_headers)
        return watched(self.order, there.service, *metrics, there.target.tls)

    # -- the load ------------------------------------------------------------------------------------------

    def _load(
        self,
        supply: ApiSupply,
        api: ServedApi,
        work: Workset,
        trace: Trace | None,
        most: int | None,
        local: Tokenizer | None,
    ) -> LoadRecording:
        latency_s = self.metrics["first_ms"] / 1e3
        load = replace(load_of(self.order, self.there.origin, trace=trace), most_requests=most)
        if self.definition.load.rate != "search":
            how = (self.order, self.stage, self.rules, self.began_ns, latency_s, self.rendezvous)
            return drive_watched(load, supply, *how)
        search = search_rate(
            self.order,
            self.there.origin,
            supply,
            api,
            work.items,
            self.stage,
            self.rules,
            began_ns=self.began_ns,
            latency_s=latency_s,
            most=most,
            counter=lambda: Counter(self.server_tokenizer, local),
        )
        self.facts["search"] = dict(search.facts)
        if search.capacity is None:
            self.absent["capacity_per_s"] = str(search.facts.get("reason", "no rate was shown to meet the objective"))
        else:
            self.metrics["capacity_per_s"] = search.capacity
        return search.recording

    def _cpu_s(self) -> float:
        """Processor time of the client and of the service, where that runs here: both belong to the measurement."""
        return sum(psutil.Process().cpu_times()[:4]) + tree_cpu_s(self.there.local_pid)

    # -- after the load ------------------------------------------------------------------------------------------

    def _read(self, recording: LoadRecording, api: ServedApi, work: Workset, local: Tokenizer | None) -> Rows:
        rows = read_rows(recording, api, work.items, Counter(self.server_tokenizer, local))
        counted = not api.generates or not np.any((rows.output_source == UNKNOWN) & (rows.outcome == 0))
        # Chunks of several tokens that a local tokenizer could not split, a server's cannot split either.
        split = local is not None or not rows.tally.evenly
        if (counted and split) or self.server_tokenizer is not None:
            return rows
        # The server did not count, or sent several tokens in one piece; but it may have a tokenizer.
        self.server_tokenizer = server_tokenizer_of(self.there)
        if self.server_tokenizer is None:
            return rows
        return read_rows(recording, api, work.items, Counter(self.server_tokenizer, local))

    def _keep(self, figures: Figures, recording: LoadRecording, work: Workset) -> None:
        self.metrics |= dict(figures.metrics) | client_metrics(recording.clients)
        self.absent |= dict(figures.absent)
        self.samples += figures.samples
        self.facts |= dict(figures.facts)
        again = repeated_requests(recording, work.items)
        self.facts["workload"] = {"task": work.task, **dict(work.facts), "repeated_requests": again}
        self.facts["endpoint"] = {
            "url": self.there.origin.authority,
            "api": self.there.target.api,
            "model": self.there.target.model,
        }
        fields = ("requests", "pieces", "lag_p99_ms", "lag_max_ms", "resent")
        self.facts["clients"] = [
            {"cpu_s": round(cost.cpu_s, 4), **{name: getattr(cost, name) for name in fields}}
            for cost in recording.clients
        ]
        if not len(recording):
            searched = self.definition.load.rate == "search"
            raise MeasureError(
                "no request was due while it was measured",
                code="load",
                at="load",
                try_="raise load.search.probe or load.search.lowest"
                if searched
                else "raise load.duration, load.requests or load.rate",
            )

    def _share(self, figures: Figures, recording: LoadRecording, rows: Rows, api: ServedApi) -> None:
        """Leave what is needed to put this share of a load together with those of other machines."""
        if self.definition.load.hosts > 1:
            self.facts["share"] = share_facts(self.definition)
            name, path = keep_requests(self.scratch, recording, rows, figures.judged, api)
            self.files[name] = path

    def _score(self, recording: LoadRecording, rows: Rows, api: ServedApi, work: Workset) -> None:
        keep = self.definition.workload.keep_outputs
        if not api.generates or (not work.scorers if keep is None else not keep and not work.scorers):
            return
        answers = tuple(outputs(recording, rows, api, work.items))
        if keep is not False:
            path = self.scratch / OUTPUTS
            write_outputs(path, answers)
            self.files[OUTPUTS] = path
        if work.scorers:
            left_s = _SCORING * reading_s(self.definition.measure)
            said = scored(answers, work.scorers, within_s=left_s)
            at = np.sort(recording.due_ns[recording.measured()], kind="stable") - recording.window[0]
            for metric, values in said.values.items():
                finite = np.isfinite(values)
                self.samples.append(SampleSet(metric, "measure", at[finite], values[finite]))
            self.absent |= dict(said.absent)
            self.facts["scores"] = dict(said.facts)


def _of(seen: Window, recording: LoadRecording) -> Window:
    """The window as the clients measured it; what the machine did meanwhile was read around the whole load."""
    wall_s = (recording.window[1] - recording.window[0]) / 1e9
    return replace(seen, wall_s=max(seen.wall_s, wall_s))
