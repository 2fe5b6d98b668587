"""Reasons for doubt in a few words each, the same in every report, and what to do about them."""

from __future__ import annotations

from collections.abc import Mapping

from assay.analyse.answer import Severity, reasons_of
from assay.analyse.records import MultiRunJobResult
from assay.report.wording import one_line

# What a failed check says in a few words, and what to do about it; `ID` stands for the campaign.
_REASONS: Mapping[str, tuple[str, str]] = {
    "requested device used": ("another device was used", "change target.device, or install a runtime for the device"),
    "errors below the limit": ("too many errors", "see assay results show ID --why; or raise measure.errors"),
    "something measured": ("nothing measured", "check what the target prints or answers"),
    "declared metrics reported": ("declared metric missing", "check target.metrics against what the program prints"),
    "declared metrics in every run": ("metric missing in some runs", "print it in every run"),
    "output read whole": ("output cut off", "print less, or report values with assay.emit"),
    "values finite": ("NaN or infinite values", "check the program that reports them"),
    "enough runs": ("too few runs", "set measure.runs to 5 or more"),
    "enough samples": ("too few samples", "measure longer: measure.until.at_most"),
    "warm-up over": ("not warmed up", "measure longer (measure.until.at_least), or warm up longer (measure.warmup)"),
    "steady state reached": ("drift while measuring", "measure longer: measure.until.at_least; or: assay doctor"),
    "interval narrow enough": ("runs disagree", "raise measure.runs, or see: assay doctor"),
    "precise as asked": ("less precise than asked", "raise measure.budget, or measure.precision"),
    "one level": ("two levels", "find what they are: threads pinned or not, boost, memory near or far, a neighbour"),
    "runs independent": ("runs depend on each other", "let the machine come to rest first; compare by assay ab"),
    "tail percentile backed": ("too few samples for the percentile", "measure longer: measure.until.at_most"),
    "machine quiet": ("machine busy", "end other programs, or see: assay doctor"),
    "clocks not throttled": ("clocks throttled", "cool the machine or raise its power limit: assay doctor"),
    "no foreign process on the device": ("device shared", "end the other programs on it"),
    "device held alone": ("device not held alone", "let the other measurement end: --lock wait"),
    "control workload steady": ("machine changed its speed", "measure again on a quiet machine: assay doctor"),
    "cool enough": ("machine too warm", "let it cool down, or improve its cooling"),
    "memory free": ("little free memory", "end other programs, or use a smaller workload"),
    "clock source steady": ("poor clock source", "see how to set another: assay doctor"),
    "governor set for speed": ("clock governor saves power", "set it to performance: assay doctor"),
    "turbo off or steady": ("turbo is on", "turn it off for steadier times: assay doctor"),
    "client below its own ceiling": ("client at its limit", "add clients (load.clients), or lower the load"),
    "load delivered": ("load not delivered", "lower the load, or raise load.max_in_flight"),
    "answers as long as asked": ("answers of another length", "set target.options.ignore_eos, if the server knows it"),
    "tokens counted": ("token counts in doubt", "name the tokenizer: target.tokenizer"),
    "answers good enough": ("answers not good enough", "fast and wrong is no result: change the model or its settings"),
}
_OBJECTIVE: Mapping[Severity, str] = {"missed": "objective missed", "undecided": "objective not decided"}


def reason_title(severity: Severity, check: str) -> str:
    """A reason for doubt in a few words, `machine busy`; an objective, or a check of another version, by its name."""
    if severity in _OBJECTIVE:
        return f"{_OBJECTIVE[severity]}: {one_line(check)}"
    return _REASONS[check][0] if check in _REASONS else one_line(check)


def reason_titles(job: MultiRunJobResult) -> tuple[str, ...]:
    """All that speaks against a result, the main reason of its verdict first."""
    return tuple(reason_title(reason.severity, reason.check.name) for reason in reasons_of(job))


def remedy_of(check: str) -> str:
    """What to do about a failed check; empty where nothing general helps."""
    return _REASONS[check][1] if check in _REASONS else ""
