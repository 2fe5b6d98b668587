"""What these tests share: an object store that does what a test says, and a campaign with files."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np

from assay.clock import SYSTEM_CLOCK
from assay.plan.plan import make_plan
from assay.run.records import RunOutcome, SampleSet, SingleRunResult
from assay.spec.load import load
from assay.store.objects.backing import Backing, ObjectSettings
from assay.store.objects.files import ObjectFacts, ObjectPlace, ObjectsAwayError
from assay.store.store import Store

HERE = ObjectPlace("s3", "bucket", "")


class Memory:
    """An object store in memory that can be away, and counts what it is asked."""

    def __init__(self) -> None:
        self.place = HERE
        self.content: dict[str, bytes] = {}
        self.asked: list[str] = []
        self.away = False

    def put(self, key: str, source: Path) -> None:
        self._note(f"put {key}")
        self.content[key] = source.read_bytes()

    def get(self, key: str) -> Iterator[bytes]:
        self._note(f"get {key}")
        if key not in self.content:
            raise FileNotFoundError(key)
        content = self.content[key]
        yield from (content[at : at + 3] for at in range(0, len(content), 3))

    def facts(self, key: str) -> ObjectFacts | None:
        self._note(f"facts {key}")
        return ObjectFacts(key, len(self.content[key]), 1.0) if key in self.content else None

    def delete(self, keys: Iterable[str]) -> None:
        for key in keys:
            self._note(f"delete {key}")
            self.content.pop(key, None)

    def list(self, prefix: str) -> Iterator[ObjectFacts]:
        self._note(f"list {prefix}")
        yield from (
            ObjectFacts(key, len(value), 1.0)
            for key, value in sorted(self.content.items())
            if key.startswith(f"{prefix}/")
        )

    def _note(self, what: str) -> None:
        self.asked.append(what)
        if self.away:
            raise ObjectsAwayError("nobody answers")


class Seconds:
    """Time that passes when told."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def backed_by(objects: Memory, folder: Path, seconds: Seconds | None = None, **settings: object) -> Backing:
    """A backing with an object store in memory."""
    chosen = ObjectSettings(HERE, **settings)  # type: ignore[arg-type]
    backing = Backing(folder, chosen, monotonic=seconds or Seconds())
    backing._files = objects
    return backing


def measured(store: Store, left: Path, *, values=(1.0, 2.0), runs: int = 1) -> tuple[str, str]:
    """A campaign whose only job has runs with samples and a file; both names."""
    made = make_plan(load({"benchmark": "s", "target": {"model": "m"}}), lambda _: {})
    job = store.create_campaign(made, {"benchmark": "s"}, {}, "here", SYSTEM_CLOCK).jobs[0]
    store.move_job(job.id, "start")
    for run in range(runs):
        sets = (SampleSet("latency_ms", "measure", np.arange(2, dtype=np.int64), np.array(values) + run),)
        result = SingleRunResult(run, run == 0, "2026-01-01", "2026-01-01", 1.0)
        store.keep_run(job.id, RunOutcome(result, sets, {"answers.txt": left}))
    return job.campaign, job.id


def keys(place: Path) -> list[str]:
    """The keys of all objects in a folder."""
    return sorted(path.relative_to(place).as_posix() for path in place.rglob("*") if path.is_file())


def keys_of(store: Store, job: str) -> list[str]:
    """The keys of all files that the runs of a job have."""
    runs = store.runs(job)
    samples = {store.samples.key(run.samples) for run in runs if run.samples}
    return sorted(samples | {store.artefacts.key(digest) for run in runs for digest in run.files.values()})
