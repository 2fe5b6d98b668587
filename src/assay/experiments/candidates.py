"""What a bisect searches, from good to bad: commits of a repository, or values of one key of a benchmark file.

Each commit is checked out and built in a folder of its own; the checkout of the user is never touched.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from pydantic import JsonValue

from assay.errors import UsageError
from assay.run.scratch import scratch_folder
from assay.spec.load import Loaded, read_with

_TAIL = 8
_SHORT = 9
_POINTERS = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY", "GIT_COMMON_DIR", "GIT_PREFIX",
             "GIT_ALTERNATE_OBJECT_DIRECTORIES", "GIT_NAMESPACE")  # fmt: skip


@dataclass(frozen=True, slots=True)
class BisectItem:
    """One commit, or one value."""

    key: str
    name: str


class BisectItems(Protocol):
    """An ordered list from good to bad, whose items can be made ready to be measured."""

    items: tuple[BisectItem, ...]
    benchmark: Loaded
    """The file as it is, whose job says which devices are needed."""

    def loaded(self, index: int) -> Loaded: ...

    def let_go(self, index: int) -> None:
        """It is not needed for now."""
        ...


class CommitRange:
    """Commits of a repository, measured by one benchmark file."""

    def __init__(self, loaded: Loaded, commits: Sequence[Commit], trees: Worktrees) -> None:
        self.benchmark, self._commits, self._trees = loaded, commits, trees
        self.items = tuple(BisectItem(commit.sha, str(commit)) for commit in commits)

    def loaded(self, index: int) -> Loaded:
        return replace(self.benchmark, base=self._trees.folder_of(self._commits[index].sha))

    def let_go(self, index: int) -> None:
        """Remove the folder of a commit; that of the good one is needed for every other."""
        if index:
            self._trees.let_go(self._commits[index].sha)


class SettingRange:
    def __init__(self, file: Path, settings: Sequence[str], path: str, values: Sequence[JsonValue]) -> None:
        texts = [json.dumps(value, ensure_ascii=False) for value in values]
        self._loaded = [read_with(file, (*settings, f"{path}={text}")) for text in texts]
        self.benchmark = self._loaded[0]
        short = path.rpartition(".")[2]
        self.items = tuple(BisectItem(f"{path}={text}", f"{short}={text}") for text in texts)

    def loaded(self, index: int) -> Loaded:
        return self._loaded[index]

    def let_go(self, index: int) -> None:
        """Nothing has to be removed."""


@dataclass(frozen=True, slots=True)
class Commit:
    """One commit, as people know it."""

    sha: str
    subject: str

    def __str__(self) -> str:
        return f"{self.sha[:_SHORT]} {self.subject}"


@dataclass(frozen=True, slots=True)
class Repository:
    root: Path
    inside: Path
    """The folder, seen from the root."""

    @classmethod
    def of(cls, folder: Path) -> Repository:
        completed = _git(folder, "rev-parse", "--show-toplevel")
        if completed.returncode:
            why, remedy = _last_line(completed.stderr), "keep the benchmark file in the repository"
            raise UsageError(f"not in a git repository: {why}", code="no-repository", at=str(folder), try_=remedy)
        root = Path(completed.stdout.strip()).resolve()
        return cls(root, folder.resolve().relative_to(root))

    def commit(self, name: str, option: str) -> str:
        completed = _git(self.root, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}")
        if completed.returncode:
            remedy = "`git log --oneline` shows what is there"
            raise UsageError(f"git knows no commit {name!r}", code="unknown-commit", at=option, try_=remedy)
        return completed.stdout.strip()

    def between(self, good: str, bad: str) -> tuple[Commit, ...]:
        """The commits from good to bad along first parents, both ends among them."""
        first, last = self.commit(good, "--good"), self.commit(bad, "--bad")
        if first == last:
            same = f"good and bad are the same commit, {first[:_SHORT]}"
            raise UsageError(same, code="commits", try_="name two commits")
        lines = self._log(f"{first}..{last}", "--first-parent", "--reverse")
        if not lines:
            remedy = "name the older one with --good, the newer one with --bad"
            raise UsageError(f"bad ({bad}) is older than good ({good})", code="commits", at="--bad", try_=remedy)
        parent = _git(self.root, "rev-parse", "--verify", "--quiet", f"{lines[0].sha}^1").stdout.strip()
        if parent != first:
            shallow = _git(self.root, "rev-parse", "--is-shallow-repository").stdout.strip() == "true"
            remedy = "name a commit that `git log --first-parent BAD` shows; a merged branch is one step of that line"
            remedy += "; this clone is shallow, so fetch its history first" if shallow else ""
            message = f"good ({good}) is not on the line of first parents that leads to bad ({bad})"
            raise UsageError(message, code="commits", at="--good", try_=remedy)
        return (*self._log(first, "--max-count=1"), *lines)

    def has_changes(self) -> bool:
        """Whether files of the checkout differ from its commit; what is not committed is not measured."""
        return bool(_git(self.root, "status", "--porcelain", "--untracked-files=no").stdout.strip())

    def _log(self, what: str, *options: str) -> tuple[Commit, ...]:
        completed = _git(self.root, "log", "--no-show-signature", "--format=%H%x09%s", *options, what, "--")
        rows = (line.partition("\t") for line in completed.stdout.splitlines() if line)
        return tuple(Commit(sha, subject) for sha, _, subject in rows)


class UnbuiltError(Exception):
    """Why a commit cannot be measured, in one sentence."""


class Worktrees:
    """Checked-out commits, built once each."""

    def __init__(self, repository: Repository, folder: Path, build: str, build_at_most_s: float) -> None:
        self._repository, self._folder = repository, folder
        self._build, self._at_most_s = build, build_at_most_s
        self._ready: dict[str, Path] = {}

    def folder_of(self, sha: str) -> Path:
        if sha not in self._ready:
            self._ready[sha] = self._made(sha)
        return self._ready[sha]

    def let_go(self, sha: str) -> None:
        self._ready.pop(sha, None)
        tree = self._folder / sha
        _git(self._repository.root, "worktree", "remove", "--force", "--force", str(tree))
        shutil.rmtree(tree, ignore_errors=True)

    def close(self) -> None:
        """Remove all folders, and what git remembers of them."""
        for sha in list(self._ready):
            self.let_go(sha)
        _git(self._repository.root, "worktree", "prune")

    def _made(self, sha: str) -> Path:
        tree = self._folder / sha
        self._folder.mkdir(exist_ok=True)
        added = _git(self._repository.root, "worktree", "add", "--detach", "--force", str(tree), sha)
        if added.returncode:
            message = f"git cannot check out {sha[:_SHORT]}: {_last_line(added.stderr)}"
            raise UsageError(message, code="git", at=str(self._repository.root), try_="see whether the disk is full")
        try:
            if self._build:
                _built(self._build, tree, self._at_most_s)
            return _inside(tree, self._repository.inside)
        except UnbuiltError:
            self.let_go(sha)
            raise


@contextmanager
def worktrees(repository: Repository, build: str = "", build_at_most_s: float = 3600.0) -> Iterator[Worktrees]:
    """Folders for commits, in the system's folder for temporary files; gone when this ends.

    Args:
        build: a command that the shell runs in each folder before it is used; empty for none.
    """
    _git(repository.root, "worktree", "prune")  # of a process that was killed
    with scratch_folder() as folder:
        trees = Worktrees(repository, folder / "commits", build, build_at_most_s)
        try:
            yield trees
        finally:
            trees.close()


def _inside(tree: Path, folder: Path) -> Path:
    if not (tree / folder).is_dir():
        raise UnbuiltError(f"it has no folder {folder}")
    return tree / folder


def _built(command: str, tree: Path, at_most_s: float) -> None:
    """Run a build to its end; no process of it stays behind."""
    log = tree.with_name(f"{tree.name}.log")
    with log.open("wb") as out:
        process = subprocess.Popen(  # noqa: S602  (the user's own command, for the shell)
            command,
            shell=True,
            cwd=tree,
            env=_environment(),
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            code = process.wait(at_most_s)
        except subprocess.TimeoutExpired:
            raise UnbuiltError(f"its build did not end within {at_most_s:g} s") from None
        finally:
            with suppress(ProcessLookupError, PermissionError):
                if sys.platform == "win32":
                    process.kill()
                else:
                    os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    last_lines = log.read_text(errors="replace").splitlines()[-_TAIL:]
    log.unlink()
    if code:
        last = next((line.strip() for line in reversed(last_lines) if line.strip()), "it said nothing")
        raise UnbuiltError(f"it does not build (exit code {code}): {last}")


def _environment() -> dict[str, str]:
    """Without the variables by which a git hook points at another repository."""
    return {name: value for name, value in os.environ.items() if name not in _POINTERS}


def _git(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Ask git; no hook of the repository is run, no file of its checkout is written, nothing waits for a password."""
    settings = ("-c", f"core.hooksPath={os.devnull}", "-c", "advice.detachedHead=false")
    command = ["git", "--no-optional-locks", *settings, "-C", str(folder)]
    environment = {**_environment(), "GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C"}
    try:
        return subprocess.run(
            [*command, *words],
            capture_output=True,
            text=True,
            errors="replace",
            env=environment,
            check=False,
            stdin=subprocess.DEVNULL,
        )
    except OSError as problem:
        raise UsageError(f"git cannot be started: {problem.strerror}", code="no-git", try_="install git") from None


def _last_line(text: str) -> str:
    return next((line.strip() for line in reversed(text.splitlines()) if line.strip()), "git said nothing")
