"""The errors a user sees: what failed, the value, where it came from, what to do.

AssayError              base; `exit_code` is what the command line returns
├── UsageError      2   the request itself is wrong
│   └── SpecError       … the benchmark file is wrong; may hold many problems
└── MeasureError    3   the request is fine, but it could not be measured
    └── StoreError      … results could not be kept or read
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

# Codes of problems after which a record of the problem could not be kept either.
NOT_KEPT = ("store", "samples", "disk")


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong, and how to fix it."""

    code: str
    message: str
    at: str = ""
    try_: str = ""

    def __str__(self) -> str:
        lines = [f"error[{self.code}] {self.at}".rstrip(), f"  {self.message}"]
        if self.try_:
            lines.append(f"  try: {self.try_}")
        return "\n".join(lines)


class AssayError(Exception):
    """Base of every error that assay raises on purpose."""

    exit_code = 3
    default_code = "failed"

    def __init__(self, message: str, *, code: str = "", at: str = "", try_: str = "") -> None:
        self.problems: tuple[Problem, ...] = (Problem(code or self.default_code, message, at, try_),)
        super().__init__(message)

    @property
    def problem(self) -> Problem:
        return self.problems[0]

    def __str__(self) -> str:
        return "\n".join(str(problem) for problem in self.problems)


class UsageError(AssayError):
    """The request itself is wrong; nothing was started."""

    exit_code = 2
    default_code = "usage"


class SpecError(UsageError):
    """A benchmark file is wrong; all its problems are reported together."""

    default_code = "spec"

    @classmethod
    def of(cls, problems: Iterable[Problem]) -> SpecError:
        collected = tuple(problems)
        error = cls(collected[0].message)
        error.problems = collected
        return error


class MeasureError(AssayError):
    """The request is fine, but it could not be measured."""

    exit_code = 3
    default_code = "measure"


class StoreError(MeasureError):
    """Results could not be kept or read."""

    default_code = "store"


def first_line(problem: BaseException) -> str:
    """The first line of what a library says about a failure; the name of its class where it says nothing."""
    return next(iter(str(problem).strip().splitlines()), type(problem).__name__)
