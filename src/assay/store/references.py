"""What people call a result: a campaign, one of its jobs, a label, a commit, a file or a folder of files.

latest, latest~1, c1f3            a campaign of the store: the newest, the one before, the beginning of an id
c1f3/0                            one of its jobs
label:nightly, label:branch=main  the newest campaign with that label
commit:1a2b3c, commit:HEAD~1      the newest campaign that was measured at that commit
branch:main                       the newest campaign that was measured at any commit of that branch
new.json, new.json/0, cache/      a result document, a job of it, all result documents in a folder
"""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, Protocol, TypeVar

from sqlalchemy import Select, select

from assay.errors import UsageError
from assay.store.database import reading
from assay.store.store import Store
from assay.store.tables import CampaignRow, JobRow

Most = int | Literal["all"] | None
T = TypeVar("T")
# Folder, revision → the whole name of its commit; empty where there is none.
RevParse = Callable[[Path, str], str]
# Folder, branch → its commits; none where there is no such branch.
RevList = Callable[[Path, str], frozenset[str]]

_LABEL, _COMMIT, _BRANCH = "label:", "commit:", "branch:"
# What only a store can know, and what depends on the benchmark.
MARKS = (_LABEL, _COMMIT, _BRANCH)
_JOB = re.compile(r"^(.+)/(\d+)$")
_HEX = re.compile(r"^[0-9a-f]{4,64}$")
_SCHEMA = "assay.result/1"
_JOB_KEYS = frozenset({"job", "digest", "metrics", "runs", "environment"})
_SHOWN = 8
_LONGEST_BRANCH = 50_000
_PORTION = 20


class NoSuchResultError(UsageError):
    """A reference that is well written and names nothing that is there."""

    default_code = "unknown-result"


@dataclass(frozen=True, slots=True)
class ResultReference:
    """One result that a reference names: a campaign of the store or a file, and one job of it or all."""

    campaign: str = ""
    path: Path | None = None
    job: int | None = None

    def __str__(self) -> str:
        name = self.campaign if self.path is None else str(self.path)
        return name if self.job is None else f"{name}/{self.job}"


def rev_parse(folder: Path, revision: str) -> str:
    """Ask git for the commit that a revision names in a folder's repository; empty where it names none."""
    commit = _git(folder, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}")
    return commit.strip()


def rev_list(folder: Path, branch: str) -> frozenset[str]:
    """Ask git for the commits of a branch in a folder's repository; of the remote one where only that is there."""
    for name in (f"refs/heads/{branch}", f"refs/remotes/origin/{branch}", f"refs/remotes/{branch}"):
        if commits := _git(folder, "rev-list", "--max-count", str(_LONGEST_BRANCH), "--end-of-options", name):
            return frozenset(commits.split())
    return frozenset()


def _git(folder: Path, *command: str) -> str:
    try:
        done = subprocess.run(
            ["git", "-C", str(folder), *command], capture_output=True, text=True, timeout=10, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout


def is_file(reference: str) -> bool:
    """Whether a reference names a file or a folder, so that no store is needed to find it."""
    return _path(reference) is not None


class ResultIndex(Protocol):
    """What references are resolved with. Campaigns are those that have a measured job, the newest first."""

    @property
    def name(self) -> str:
        """Where the results are, for messages."""
        ...

    def find(self, reference: str) -> str:
        """The campaign of an id, of a unique beginning of one, of `latest` or `latest~2`."""
        ...

    def labels(self, benchmark: str) -> Iterator[tuple[str, Mapping[str, str]]]: ...

    def revisions(self, benchmark: str, prefix: str = "") -> Iterator[Revision]:
        """What the campaigns of a benchmark were measured at, where the commit begins like this."""
        ...

    def base(self, benchmark: str) -> str:
        """The folder on this machine that the newest campaign has its benchmark file in; empty where it has none."""
        ...


@dataclass(frozen=True, slots=True)
class Revision:
    """The commit at which a campaign was measured."""

    campaign: str
    commit: str
    """Empty where there was none."""
    is_changed: bool
    """Whether there were changes on top of it."""

    @classmethod
    def of(cls, campaign: str, environment: object) -> Revision:
        git = environment.get("git") if isinstance(environment, Mapping) else None
        facts = git if isinstance(git, Mapping) else {}
        return cls(campaign, str(facts.get("commit") or ""), bool(facts.get("changed")))


class StoreIndex:
    def __init__(self, store: Store) -> None:
        self._store = store

    @property
    def name(self) -> str:
        return str(self._store.folder)

    def find(self, reference: str) -> str:
        return self._store.find(reference)

    def labels(self, benchmark: str) -> Iterator[tuple[str, Mapping[str, str]]]:
        yield from self._rows(_measured(benchmark).add_columns(CampaignRow.labels))

    def revisions(self, benchmark: str, prefix: str = "") -> Iterator[Revision]:
        query = _measured(benchmark).join(JobRow, JobRow.campaign_id == CampaignRow.id).add_columns(JobRow.result)
        if prefix:
            query = query.where(JobRow.result.contains(f'"commit":"{prefix}', autoescape=True))
        # Documents are large, and the newest few are mostly enough.
        for campaign, document in self._rows(query.execution_options(yield_per=_PORTION)):
            revision = Revision.of(campaign, json.loads(document or "{}").get("environment"))
            if revision.commit.startswith(prefix):
                yield revision

    def base(self, benchmark: str) -> str:
        query = _measured(benchmark).join(JobRow, JobRow.campaign_id == CampaignRow.id).add_columns(JobRow.document)
        newest = next(self._rows(query.limit(1)), None)
        return str(json.loads(newest[1]).get("base", "")) if newest else ""

    def _rows(self, query: Select[Any]) -> Iterator[Any]:
        with reading(self._store.engine) as session:
            yield from session.execute(query)


class References:
    """Finds what references name, in the store or on disk."""

    def __init__(
        self,
        index: Callable[[], ResultIndex],
        *,
        repository: Path | None = None,
        git: RevParse = rev_parse,
        commits: RevList = rev_list,
    ) -> None:
        """Where to look.

        Args:
            repository: Folder whose repository revisions are looked up in; the benchmark's own when left out, else
                this one.
        """
        self._index = index
        self._repository = repository
        self._git = git
        self._branch_commits = commits

    def find(
        self, reference: str, *, benchmark: str = "", most: Most = None, but: Collection[str] = ()
    ) -> tuple[ResultReference, ...]:
        """The results that a reference names, the newest first.

        Args:
            most: How many, or `all`, of those that a label, a commit or a folder names. Left out, the newest of a
                label or commit, and all of a folder.
        """
        path = _path(reference)
        if path is not None:
            return _files(path, reference, benchmark, most, but)
        if reference.startswith(_BRANCH):
            return tuple(map(ResultReference, self._on_branch(reference, benchmark, but, most or 1)))
        if reference.startswith((_LABEL, _COMMIT)):
            find = self._labelled if reference.startswith(_LABEL) else self._measured_at
            return tuple(map(ResultReference, _first(find(reference, benchmark, but), most or 1)))
        name, job = _split_job(reference)
        try:
            return (ResultReference(self._index().find(name), job=job),)
        except UsageError as problem:
            if problem.problem.code != "unknown-campaign":
                raise
            raise NoSuchResultError(
                problem.problem.message, code="unknown-campaign", at=problem.problem.at, try_=problem.problem.try_
            ) from None

    def _labelled(self, reference: str, benchmark: str, but: Collection[str]) -> list[str]:
        name, equals, value = reference.removeprefix(_LABEL).partition("=")
        if not name:
            raise UsageError(
                f"{reference!r} names no label", code="label", try_="write label:nightly or label:branch=main"
            )
        unique: dict[str, None] = {}
        campaigns: list[str] = []
        for campaign, labels in self._index().labels(benchmark):
            unique |= dict.fromkeys(f"{key}={text}" for key, text in labels.items())
            if campaign not in but and name in labels and (not equals or str(labels[name]) == value):
                campaigns.append(campaign)
        if not campaigns:
            there = f"; there are {', '.join(list(unique)[:_SHOWN])}" if unique else "; none has a label"
            raise NoSuchResultError(
                f"no campaign{_of(benchmark)} with measured jobs has the label {reference.removeprefix(_LABEL)}{there}",
                code="unknown-label",
                at=self._index().name,
                try_="give results a label with `labels:` in the file, or --set labels.branch=main",
            )
        return campaigns

    def _measured_at(self, reference: str, benchmark: str, but: Collection[str]) -> list[str]:
        revision = reference.removeprefix(_COMMIT)
        if not revision:
            raise UsageError(
                f"{reference!r} names no commit", code="commit", try_="write commit:1a2b3c or commit:HEAD~1"
            )
        matching = self._commits(revision.lower(), benchmark, but) if _HEX.match(revision.lower()) else {}
        if not matching:
            commit = self._resolve(revision, benchmark)
            matching = self._commits(commit, benchmark, but) if commit else {}
            if not matching:
                raise self._unknown_commit(revision, commit, benchmark)
        if len(matching) > 1:
            names = ", ".join(commit[:12] for commit in matching)
            raise UsageError(
                f"{revision!r} begins several commits with results: {names}",
                code="ambiguous",
                try_="give more of the commit",
            )
        (campaigns,) = matching.values()
        # What was measured with changes on top is not the commit; it counts where nothing else was measured there.
        clean = [campaign for campaign, changed in campaigns if not changed]
        return clean or [campaign for campaign, _ in campaigns]

    def _on_branch(
        self, reference: str, benchmark: str, but: Collection[str], most: int | Literal["all"]
    ) -> Sequence[str]:
        """Campaigns that were measured at commits of a branch, without changes on top, the newest first."""
        branch = reference.removeprefix(_BRANCH)
        if not branch:
            raise UsageError(f"{reference!r} names no branch", code="branch", try_="write branch:main")
        folders = self._repositories(benchmark)
        commits = next(
            (branch_commits for folder in folders if (branch_commits := self._branch_commits(folder, branch))),
            frozenset(),
        )
        if not commits:
            raise NoSuchResultError(
                f"git knows no branch {branch!r}",
                code="unknown-branch",
                try_="fetch it, or name the folder of its repository with --repository",
            )
        campaigns: dict[str, None] = {}
        for revision in self._index().revisions(benchmark):
            if len(campaigns) == most:
                break
            if revision.campaign not in but and revision.commit in commits and not revision.is_changed:
                campaigns[revision.campaign] = None
        if not campaigns:
            raise NoSuchResultError(
                f"no campaign{_of(benchmark)} was measured at one of the {len(commits):,} commits of {branch} that "
                "are in the repository, without changes on top",
                code="unknown-branch",
                at=self._index().name,
                try_="check it out and measure it with `assay run`, or fetch more of its history",
            )
        return tuple(campaigns)

    def _commits(self, prefix: str, benchmark: str, but: Collection[str]) -> dict[str, list[tuple[str, bool]]]:
        """Commit that begins so → campaigns measured there, the newest first, and whether something was changed."""
        commits: dict[str, dict[str, bool]] = {}
        for revision in self._index().revisions(benchmark, prefix):
            if revision.campaign not in but:
                commits.setdefault(revision.commit, {}).setdefault(revision.campaign, revision.is_changed)
        return {commit: list(campaigns.items()) for commit, campaigns in commits.items()}

    def _resolve(self, revision: str, benchmark: str) -> str:
        """The commit of a revision: in the repository given, else in the benchmark's, else in this folder's."""
        folders = self._repositories(benchmark)
        return next((commit for folder in folders if (commit := self._git(folder, revision))), "")

    def _repositories(self, benchmark: str) -> list[Path]:
        if self._repository:
            return [self._repository]
        # Where the newest campaign has its benchmark file, if that is still there.
        base = self._index().base(benchmark)
        return [*([Path(base)] if base and Path(base).is_dir() else []), Path()]

    def _unknown_commit(self, revision: str, commit: str, benchmark: str) -> NoSuchResultError:
        if not commit and not _HEX.match(revision.lower()):
            return NoSuchResultError(
                f"git knows no commit {revision!r}",
                code="unknown-commit",
                try_="name the folder of its repository with --repository",
            )
        named = f" ({commit[:12]})" if commit and not commit.startswith(revision.lower()) else ""
        return NoSuchResultError(
            f"no campaign{_of(benchmark)} was measured at commit {revision}{named}",
            code="unknown-commit",
            at=self._index().name,
            try_="check it out and measure it with `assay run`",
        )


def _measured(benchmark: str) -> Select[Any]:
    """Campaigns that have a measured job, the newest first."""
    done = select(JobRow.id).where(JobRow.campaign_id == CampaignRow.id, JobRow.state == "done")
    query = select(CampaignRow.id).where(done.correlate(CampaignRow).exists())
    if benchmark:
        query = query.where(CampaignRow.benchmark == benchmark)
    return query.order_by(CampaignRow.created_at.desc(), CampaignRow.id.desc())


def _first(matches: Sequence[T], most: int | Literal["all"]) -> Sequence[T]:
    return matches if most == "all" else matches[:most]


def _of(benchmark: str) -> str:
    return f" of {benchmark!r}" if benchmark else ""


def _split_job(reference: str) -> tuple[str, int | None]:
    match = _JOB.match(reference)
    return (match[1], int(match[2])) if match else (reference, None)


def _path(reference: str) -> Path | None:
    """The file or folder that a reference names; None for what only a store can know."""
    if reference.startswith(MARKS):
        return None
    whole = Path(reference).expanduser()
    name, job = _split_job(reference)
    if job is not None and not whole.exists():
        return whole if name.endswith(".json") else None
    return whole if reference.endswith(".json") or "/" in reference or "\\" in reference else None


def _files(path: Path, reference: str, benchmark: str, most: Most, but: Collection[str]) -> tuple[ResultReference, ...]:
    name, job = _split_job(reference)
    if job is not None and not path.exists():
        found_in = _files(Path(name).expanduser(), name, benchmark, most, but)
        return tuple(replace(entry, job=job) for entry in found_in)
    if path.is_dir():
        documents = sorted(_documents(path, benchmark, but), reverse=True)
        if not documents:
            raise NoSuchResultError(
                f"{reference} holds no result document",
                code="unknown-file",
                try_="write results there with `assay run FILE --out FOLDER`",
            )
        return tuple(ResultReference(path=document) for _, document in _first(documents, most or "all"))
    if not path.is_file():
        raise NoSuchResultError(
            f"there is no file {reference}", code="unknown-file", try_="write one with `assay run FILE --format json`"
        )
    return (ResultReference(path=path),)


def _documents(folder: Path, benchmark: str, but: Collection[str]) -> Iterator[tuple[str, Path]]:
    """Result documents of a folder with the time of each; other JSON files are none of our business."""
    for path in folder.glob("*.json"):
        try:
            document = json.loads(path.read_bytes())
        except (OSError, ValueError):
            continue
        if not isinstance(document, dict) or not (document.get("schema") == _SCHEMA or document.keys() >= _JOB_KEYS):
            continue
        named = document.get("benchmark")  # which a document of one job does not say
        if document.get("campaign") not in but and (not benchmark or named in (None, benchmark)):
            yield str(document.get("created_at") or document.get("completed_at") or ""), path
