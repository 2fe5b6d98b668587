"""Slurm through slurmrestd, for machines without its commands."""

from __future__ import annotations

import getpass
import os
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from assay.engines.slurm import rest_documents as documents
from assay.engines.slurm.scheduler import BatchState, ClusterFacts, Dependency, is_final, read_script, taken_as
from assay.errors import MeasureError
from assay.http import failure_words, http_client

if TYPE_CHECKING:
    import httpx

PATIENCE_S = 60.0
_VERSION = re.compile(r"^/slurm/v0\.0\.(\d+)/jobs/?$")
# What slurmrestd calls a job that it does not know.
_GONE = ("invalid job id", "nothing found", "already completing or completed")
# Variables of the login node that a job needs to find its programs; sbatch would send all of them.
_SENT = ("PATH", "HOME", "USER", "LANG", "LD_LIBRARY_PATH", "MODULEPATH", "TMPDIR", "PYTHONPATH")


@dataclass(slots=True)
class Rest:
    """Reaches Slurm through slurmrestd."""

    url: str
    """`http://HOST:6820`, or `unix:/PATH` for a socket."""
    token: str = field(default="", repr=False)
    """From `scontrol token`; none for a socket."""
    user: str = field(default_factory=getpass.getuser)
    environ: Mapping[str, str] | None = None
    """Variables that jobs start with; the usual ones of this process when left out."""
    patience_s: float = PATIENCE_S
    _found: tuple[int, bool] | None = None
    """Version, and whether accounting is there."""
    _ended: dict[str, BatchState] = field(default_factory=dict)

    def submit(self, script: Path, *, after: Sequence[Dependency] = (), comment: str) -> str:
        """Hand over a batch script and return the number of its job."""
        version, _ = self._interface()
        text = read_script(script)
        sent = documents.submission(text, comment=comment, after=after, version=version, environ=self._variables())
        try:
            answer = self._get("POST", "slurm", "job/submit", sent)
        except MeasureError as problem:
            return taken_as(self, comment, problem)
        number = answer.get("job_id", (answer.get("result") or {}).get("job_id"))
        if not isinstance(number, int) or number <= 0:
            message = f"slurmrestd returned no number for {script.name}: {documents.complaints(answer) or answer}"
            raise MeasureError(message, code="slurm-answer", at=self.url)
        return str(number)

    def states(self, ids: Collection[str]) -> Mapping[str, BatchState]:
        """What Slurm tells about jobs, by their key."""
        wanted = set(ids)
        numbers = list(dict.fromkeys(key.partition("_")[0] for key in ids))
        states = {key: state for key, state in self._ended.items() if state.id in numbers}
        for number in numbers:
            current = documents.job_states(self._get("GET", "slurm", f"job/{number}", gone={}))
            states |= {state.key: state for state in current}
            if not any(state.id == number for state in states.values()) and self._interface()[1]:
                accounted = documents.account_states(self._get("GET", "slurmdb", f"job/{number}", gone={}))
                states |= {state.key: state for state in accounted}
        self._ended |= {key: state for key, state in states.items() if is_final(state.state)}
        return {key: state for key, state in states.items() if key in wanted or state.id in wanted}

    def find(self, comment_prefix: str, *, work_dir: Path | None = None) -> tuple[BatchState, ...]:
        """Jobs whose comment begins with a text."""
        states = {state.key: state for state in documents.job_states(self._get("GET", "slurm", "jobs", gone={}))}
        if self._interface()[1]:
            accounted = documents.account_states(self._get("GET", "slurmdb", f"jobs?users={self.user}", gone={}))
            states = {**{state.key: state for state in accounted}, **states}
        return tuple(
            state
            for state in states.values()
            if (state.comment.startswith(comment_prefix) if state.comment else state.work_dir == str(work_dir))
        )

    def cancel(self, ids: Collection[str]) -> None:
        """End jobs, running or waiting."""
        for key in dict.fromkeys(ids):
            self._get("DELETE", "slurm", f"job/{key}", gone={})

    def check(self) -> ClusterFacts:
        _, accounting = self._interface()
        partitions = self._get("GET", "slurm", "partitions")
        nodes = self._get("GET", "slurm", "nodes")
        about = partitions.get("meta") or {}
        about = about.get("slurm") or about.get("Slurm") or {}
        return ClusterFacts(
            version=str(about.get("release") or ""),
            name=str(about.get("cluster") or ""),
            partitions=documents.partitions(partitions, nodes),
            accounting="slurmdbd" if accounting else "",
            why_no_accounting="" if accounting else "slurmrestd offers no slurmdb",
        )

    def _variables(self) -> Mapping[str, str]:
        environ = os.environ if self.environ is None else self.environ
        wanted = _SENT if self.environ is None else tuple(environ)
        return {name: environ[name] for name in wanted if name in environ} or {"PATH": os.defpath}

    def _interface(self) -> tuple[int, bool]:
        """The newest version that slurmrestd speaks, and whether it speaks for accounting."""
        if self._found is None:
            with self._client() as client:
                answer = self._answer(client, "GET", "/openapi/v3", None)
            paths = list(answer.get("paths") or ())
            versions = [int(match[1]) for path in paths if (match := _VERSION.match(path))]
            if not versions:
                message = "slurmrestd speaks no version that is known here"
                remedy = "submit with the commands instead: remove place.slurm.rest"
                raise MeasureError(message, code="slurm-answer", at=self.url, try_=remedy)
            newest = max(versions)
            self._found = newest, any(path.startswith(f"/slurmdb/v0.0.{newest}/job/") for path in paths)
        return self._found

    def _get(
        self, method: str, part: str, path: str, body: object = None, *, gone: dict[str, Any] | None = None
    ) -> dict[str, Any]:
        """One question; `gone` is the answer where the job is not known, or no longer."""
        version, _ = self._interface()
        with self._client() as client:
            answer = self._answer(client, method, f"/{part}/v0.0.{version}/{path}", body)
        said = documents.complaints(answer)
        if not said:
            return answer
        if gone is not None and any(word in said.lower() for word in _GONE):
            return gone
        remedy = "change place.slurm; `assay clusters check` lists partitions, limits and GPUs"
        raise MeasureError(f"slurmrestd refused: {said}", code="slurm-refused", at=self.url, try_=remedy)

    def _answer(self, client: httpx.Client, method: str, path: str, body: object) -> dict[str, Any]:
        import httpx

        try:
            answer = client.request(method, path, json=body)
            document = answer.json()
        except httpx.HTTPError as problem:
            message = f"slurmrestd does not answer: {failure_words(problem)}"
            remedy = "see whether it runs, and whether its address is right"
            raise MeasureError(message, code="slurm-silent", at=self.url, try_=remedy) from None
        except ValueError:
            document = None
        if answer.status_code in (401, 403):
            message = f"slurmrestd refuses the token (status {answer.status_code})"
            remedy = "export a new one: scontrol token lifespan=86400"
            raise MeasureError(message, code="slurm-token", at=self.url, try_=remedy)
        if not isinstance(document, dict):
            message = f"slurmrestd answered {path} with status {answer.status_code} and no document"
            raise MeasureError(message, code="slurm-answer", at=self.url)
        return document

    def _client(self) -> httpx.Client:
        import httpx

        headers = {"X-SLURM-USER-NAME": self.user, "X-SLURM-USER-TOKEN": self.token} if self.token else {}
        if self.url.startswith("unix:"):
            socket = httpx.HTTPTransport(uds=self.url.removeprefix("unix:"))
            return http_client("http://slurm", timeout_s=self.patience_s, headers=headers, transport=socket)
        # A proxy of the site has no business between a login node and its controller.
        return http_client(self.url, timeout_s=self.patience_s, headers=headers)
