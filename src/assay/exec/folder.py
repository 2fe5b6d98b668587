"""The result folder of one job: its runs as they finish, their samples and files by content hash, then its result."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from assay.analyse.records import MultiRunJobResult
from assay.documents import from_json, to_json
from assay.errors import AssayError, StoreError
from assay.exec.machine import surroundings
from assay.plan.job import Job
from assay.run.records import RunOutcome, SingleRunResult
from assay.run.scratch import held
from assay.store.artefacts import ArtefactFiles
from assay.store.samples import SampleFiles, write_whole

RESULT = "result.json"
_OWNER = "attempt.json"


@dataclass(frozen=True, slots=True)
class ResultFolder:
    """What a job has left so far. Every file in it is whole or not there, also after a power cut."""

    path: Path
    samples: SampleFiles
    files: ArtefactFiles
    durable: bool = True
    """False for the scratch folder of a process that keeps its runs elsewhere: nothing waits for the disk then."""

    @classmethod
    def at(cls, path: Path) -> ResultFolder:
        """A folder that holds its samples and files itself."""
        return cls(path, SampleFiles(path / "samples"), ArtefactFiles(path / "files"))

    @contextmanager
    def hold(self, on_wait: Callable[[], None]) -> Iterator[None]:
        """Hold the folder for this process: two that measured into it concurrently would disturb each other."""
        with ExitStack() as stack:
            try:
                stack.enter_context(held(self.path, on_wait))
            except OSError as problem:
                raise StoreError(
                    f"cannot use the folder: {problem.strerror or problem}",
                    code="disk",
                    at=str(self.path),
                    try_="check its permissions, or give another one with --out",
                ) from None
            yield

    def claim(self, job: Job, *, fresh: bool = False) -> bool:
        """Make the folder this job's own; True when it was already, so that what lies there counts."""
        owner = to_json({"digest": job.digest, "job": job.id, "surroundings": surroundings()}).encode()
        mark = self.path / _OWNER
        if not fresh and mark.is_file() and mark.read_bytes() == owner:
            return True
        # Another job's result must never be taken for this one's.
        (self.path / RESULT).unlink(missing_ok=True)
        for name in ("runs", "samples", "files"):
            shutil.rmtree(self.path / name, ignore_errors=True)
        write_whole(mark, owner)
        return False

    def restore(self, runs: Iterable[SingleRunResult]) -> None:
        """Begin with runs of the job that were kept elsewhere; their samples and files must be in this folder's."""
        for run in runs:
            self._write_run(run)

    def keep(self, outcome: RunOutcome) -> SingleRunResult:
        """Keep a run the moment it ended: samples and files first, then the record that points to them."""
        files = {name: self.files.take(path) for name, path in outcome.files.items()}
        run = replace(outcome.result, samples=self.samples.write(outcome.samples), files=files)
        self._write_run(run)
        return run

    def runs(self, job: Job) -> tuple[SingleRunResult, ...]:
        """The runs that finished, in order; one that cannot be read is left out."""
        runs = []
        for run_id in range(job.definition.most_runs):
            path = self._run(run_id)
            try:
                run = from_json(SingleRunResult, path.read_bytes(), source=str(path))
            except (OSError, AssayError):
                continue
            if run.run_id == run_id:
                runs.append(run)
        return tuple(runs)

    def take_up(self, job: Job) -> tuple[SingleRunResult, ...]:
        """The runs that an earlier process finished; one whose samples or files are damaged will be measured again."""
        whole = []
        for run in self.runs(job):
            if self._is_whole(run):
                whole.append(run)
            else:
                self._run(run.run_id).unlink()
        return tuple(whole)

    def outcomes(self, job: Job) -> list[RunOutcome]:
        """The finished runs with their samples."""
        return [RunOutcome(run, self.samples.read(run.samples) if run.samples else ()) for run in self.runs(job)]

    def result(self) -> MultiRunJobResult | None:
        """The job's result; None where there is none that can be read."""
        path = self.path / RESULT
        try:
            return from_json(MultiRunJobResult, path.read_bytes(), source=str(path))
        except (OSError, AssayError):
            return None

    def finish(self, result: MultiRunJobResult) -> None:
        self._write(self.path / RESULT, to_json(result, indent=2))

    def _run(self, run_id: int) -> Path:
        return self.path / "runs" / f"{run_id}.json"

    def _write_run(self, run: SingleRunResult) -> None:
        self._write(self._run(run.run_id), to_json(run, indent=2))

    def _write(self, path: Path, document: str) -> None:
        if self.durable:
            write_whole(path, document.encode())
            return
        try:
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(document.encode())
        except OSError as problem:
            raise StoreError(
                f"cannot write: {problem.strerror}",
                code="disk",
                at=str(path),
                try_="free some space, or set another folder for temporary files with TMPDIR",
            ) from None

    def _is_whole(self, run: SingleRunResult) -> bool:
        try:
            if run.samples:
                self.samples.read(run.samples)
            return all(map(self.files.is_whole, run.files.values()))
        except AssayError:
            return False
