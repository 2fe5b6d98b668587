"""Ordered lists from good to bad: commits of a repository, or values of one key of a benchmark file."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from pydantic import JsonValue

from assay.experiments.worktrees import Commit, Worktrees
from assay.spec.load import Loaded
from assay.spec.override import read_with


@dataclass(frozen=True, slots=True)
class Item:
    """One commit, or one value."""

    key: str
    name: str


class Items(Protocol):
    """An ordered list from good to bad, whose items can be made ready to be measured."""

    items: tuple[Item, ...]
    benchmark: Loaded
    """The file as it is, whose job says which devices are needed."""

    def loaded(self, index: int) -> Loaded:
        """The benchmark of one item.

        Raises:
            UnbuiltError: if it cannot be measured, with the reason.
        """
        ...

    def let_go(self, index: int) -> None:
        """It is not needed for now."""
        ...


class Commits:
    """Commits of a repository, measured by one benchmark file."""

    def __init__(self, loaded: Loaded, commits: Sequence[Commit], trees: Worktrees) -> None:
        self.benchmark, self._commits, self._trees = loaded, commits, trees
        self.items = tuple(Item(commit.sha, str(commit)) for commit in commits)

    def loaded(self, index: int) -> Loaded:
        """The benchmark file of the user, with the files of a commit."""
        return replace(self.benchmark, base=self._trees.folder_of(self._commits[index].sha))

    def let_go(self, index: int) -> None:
        """Remove the folder of a commit; that of the good one is needed for every other."""
        if index:
            self._trees.let_go(self._commits[index].sha)


class Settings:
    """Values of one key of a benchmark file."""

    def __init__(self, file: Path, settings: Sequence[str], path: str, values: Sequence[JsonValue]) -> None:
        texts = [json.dumps(value, ensure_ascii=False) for value in values]
        self._loaded = [read_with(file, (*settings, f"{path}={text}")) for text in texts]
        self.benchmark = self._loaded[0]
        short = path.rpartition(".")[2]
        self.items = tuple(Item(f"{path}={text}", f"{short}={text}") for text in texts)

    def loaded(self, index: int) -> Loaded:
        """The benchmark with one value."""
        return self._loaded[index]

    def let_go(self, index: int) -> None:
        """Nothing has to be removed."""
