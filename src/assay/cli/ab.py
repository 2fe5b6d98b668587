"""`assay ab`: two versions measured alternately on one device, until the difference is clear."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from assay.cli.options import QuietOption, SetOption, StoreOption, TextFormat, TextFormatOption, option_value
from assay.cli.output import say, terminal_width
from assay.cli.run import MachineOptions
from assay.errors import UsageError
from assay.units import ratio, seconds, show_seconds

if TYPE_CHECKING:
    from assay.analyse.ab import ABDecision
    from assay.experiments.ab import ABResult
    from assay.experiments.interleave import JobPair
    from assay.spec.load import Loaded


_SCHEMA = "assay.ab/1"
_SIDE_HELP = "Set a key of the file for side {}, such as target.threads=1; may be repeated."
AtMostOption = Annotated[str, typer.Option("--at-most", metavar="TIME", help="Stop after this long, such as 10m.")]
MetricOption = Annotated[
    str,
    typer.Option(
        "--metric",
        help="What decides, such as latency_ms.p99; the first headline metric when left out.",
        show_default=False,
    ),
]
SeedOption = Annotated[
    int | None,
    typer.Option("--seed", min=0, help="Seed of the random order of runs; chosen at random when left out, and kept."),
]
_ENDS = "When it ends"
PairsOption = Annotated[
    int,
    typer.Option(
        "--pairs",
        min=2,
        max=5000,
        help="Plan this many pairs of runs, and a few looks at them: ends at the look that can tell.",
        rich_help_panel=_ENDS,
    ),
]
OpenEndedOption = Annotated[
    bool,
    typer.Option(
        "--open-ended",
        help="Look after every block and allow more pairs later: for when no number of pairs can be planned. "
        "Needs about twice the pairs.",
        rich_help_panel=_ENDS,
    ),
]
SmallestOption = Annotated[
    str,
    typer.Option(
        "--smallest", help="Smallest difference of interest; ends when any is smaller.", rich_help_panel=_ENDS
    ),
]


def ab(
    a: Annotated[
        Path | None, typer.Argument(metavar="A", help="Benchmark file of side A, or of both with --a and --b.")
    ] = None,
    b: Annotated[Path | None, typer.Argument(metavar="B", help="Benchmark file of side B.")] = None,
    of_a: Annotated[list[str] | None, typer.Option("--a", metavar="PATH=VALUE", help=_SIDE_HELP.format("A"))] = None,
    of_b: Annotated[list[str] | None, typer.Option("--b", metavar="PATH=VALUE", help=_SIDE_HELP.format("B"))] = None,
    settings: SetOption = None,
    pairs: PairsOption = 40,
    at_most: AtMostOption = "",
    open_ended: OpenEndedOption = False,
    smallest: SmallestOption = "1%",
    metric: MetricOption = "",
    seed: SeedOption = None,
    go_on: Annotated[
        str, typer.Option("--continue", metavar="NAME", help="Add pairs to an --open-ended experiment.")
    ] = "",
    fresh: Annotated[bool, typer.Option("--fresh", help="Do not continue an interrupted experiment.")] = False,
    fail_on_worse: Annotated[
        bool, typer.Option("--fail-on-worse", help="Exit code 1 if B is worse, and may be by --smallest.")
    ] = False,
    form: TextFormatOption = TextFormat.text,
    store: StoreOption = None,
    quiet: QuietOption = False,
    *,
    machine: MachineOptions,
) -> None:
    """Measure A and B alternately, in random order, until one is better or the budget is spent."""
    from assay.analyse.ab import wanted_from
    from assay.experiments.ab import ABBudget, ABQuestion, run_ab, stored_experiment
    from assay.report.live import view_for

    question = ABQuestion(wanted_from(metric) if metric else None, share(smallest, "--smallest"))
    budget = ABBudget(pairs, duration(at_most, "--at-most"), open_ended)
    if go_on:
        _refuse_files(a, of_a, of_b, settings)
        pair, parts = stored_experiment(go_on, store)
    else:
        pair, parts = _pair(a, b, of_a or (), of_b or (), settings or ()), ()
    result = run_ab(
        pair,
        question,
        budget,
        store=store,
        view=view_for(text=form is TextFormat.text, quiet=quiet),
        lock=machine.lock_mode,
        control=not machine.no_control,
        seed=seed,
        fresh=fresh,
        parts=parts,
    )
    say(json.dumps(_document(result), indent=2) if form is TextFormat.json else _text(result))
    raise typer.Exit(_code(result, fail_on_worse=fail_on_worse))


def share(text: str, option: str) -> float:
    return option_value(ratio, text, option, code="share", name_it=True)


def duration(text: str, option: str) -> float | None:
    """A duration that an option names, such as `10m`; None for none."""
    return option_value(seconds, text, option, code="duration", name_it=True) if text else None


def _refuse_files(a: Path | None, *settings: Sequence[str] | None) -> None:
    if a is None and not any(settings):
        return

    raise UsageError(
        "--continue measures what the experiment measured before, and takes no file or setting",
        code="usage",
        at="--continue",
        try_="leave the file and its settings out",
    )


def _pair(a: Path | None, b: Path | None, of_a: Sequence[str], of_b: Sequence[str], both: Sequence[str]) -> JobPair:
    """The two jobs that the command names: two files, one file with settings, or a matrix of two points."""
    from assay.experiments.interleave import job_pair
    from assay.spec.load import read_with

    if a is None:
        raise UsageError(
            "no benchmark file is given",
            code="usage",
            try_="assay ab A.yaml B.yaml, or assay ab FILE --a target.threads=1 --b …",
        )
    sides = [read_with(a, (*both, *of_a)), read_with(b or a, (*both, *of_b))]
    numbers, names = _jobs(sides, alike=b is None and not of_a and not of_b)
    if names is None:
        names = _file_names(a, b or a) if b is not None or not (of_a or of_b) else (_words(a, of_a), _words(a, of_b))
    return job_pair(sides, names, numbers)


def _jobs(sides: Sequence[Loaded], *, alike: bool) -> tuple[tuple[int, int], tuple[str, str] | None]:
    """Which job of its file each side is, and what they are called where a matrix names them."""
    from assay.report.wording import job_label
    from assay.run.inputs import plan_of

    plans = [plan_of(side) for side in sides]
    counts = [len(plan.jobs) for plan in plans]
    if alike and counts[0] == 2:
        first, second = (job_label(job.point, {}) for job in plans[0].jobs)
        return (0, 1), (first, second)
    for side, count in zip(sides, counts, strict=True):
        if count != 1:
            raise UsageError(
                f"its matrix gives {count} jobs, and ab compares one with one",
                code="matrix",
                at=side.source.name,
                try_="--set matrix={} and the values of each side with --a and --b, or a matrix of two points",
            )
    return (0, 0), None


def _file_names(a: Path, b: Path) -> tuple[str, str]:
    """The shortest names that tell two files apart."""
    if a.stem != b.stem:
        return a.stem, b.stem
    return (str(a), str(b)) if a != b else ("a", "b")


def _words(file: Path, settings: Sequence[str]) -> str:
    """Settings as people read them: `threads=1` for `target.threads=1`; the name of the file where there are none."""
    parts = (setting.partition("=") for setting in settings)
    return " ".join(f"{path.strip().rpartition('.')[2]}={value}" for path, _, value in parts) or file.stem


def _code(result: ABResult, *, fail_on_worse: bool) -> int:
    if result.stopped == "failed":
        return 3
    return 1 if fail_on_worse and result.decision.answer == "worse" and not result.decision.alike else 0


def _document(result: ABResult) -> dict[str, Any]:
    from assay.documents import to_plain

    return {
        "schema": _SCHEMA,
        "experiment": result.name,
        "seed": result.seed,
        "sides": {
            side: {"name": result.sides[index], "campaigns": [part.campaigns[index] for part in result.parts]}
            for index, side in enumerate("ab")
        },
        "stopped": result.stopped,
        "looks": list(result.looks),
        "seconds": result.seconds,
        **to_plain(result.decision),
        "order": result.order or None,
        "others": [to_plain(decision) for decision in result.others],
        "doubts": _doubts(result),
    }


def _text(result: ABResult) -> str:
    decision = result.decision
    lines = [sentence(result), "", *_table(result), ""]
    lines.append(_how(result))
    lines += [f"note   {note}" for note in _notes(result)]
    lines += [f"doubt  {doubt}" for doubt in _doubts(result)]
    lines += [""] if len(lines) > 4 else []
    a, b = (" ".join(part.campaigns[side] for part in result.parts) for side in (0, 1))
    lines += [f"a       {a}  {result.sides[0]}", f"b       {b}  {result.sides[1]}"]
    if not decision.is_final and result.stopped != "failed" and not result.looks:
        lines.append(f"more    assay ab --continue {result.name} --pairs {decision.more_for_seen or 40}")
    return "\n".join([*lines, f"result  {result.name}"])


def sentence(result: ABResult) -> str:
    """The answer in one line."""
    from assay.report.wording import one_line

    decision, (a, b) = result.decision, result.sides
    because = "; ".join(decision.because)
    if decision.answer in ("better", "worse"):
        doubt = f"; {because}" if because else ""
        return one_line(f"{b} is {decision.answer} than {a}: {decision.metric} {_change(decision)}{doubt}")
    if decision.alike:
        because = f"{because} ({_change(decision)})"
    return one_line(f"cannot tell whether {b} is better or worse than {a} in {decision.metric}: {because}")


def _change(decision: ABDecision) -> str:
    from assay.report.numbers import NOTHING, show_percent

    if decision.change is None:
        return NOTHING
    shown = show_percent(decision.change, signed=True)
    if decision.interval is None:
        return f"{shown} [unknown]"
    return f"{shown} [{100 * decision.interval.low:+.1f}, {100 * decision.interval.high:+.1f}]"


def _table(result: ABResult) -> list[str]:
    from assay.report.numbers import name_with_unit, show
    from assay.report.sheet import text_table

    a, b = result.sides
    head = ("metric", a, b, "change", "pairs", "answer")
    rows = [
        (
            name_with_unit(decision.metric, decision.unit),
            show(decision.a),
            show(decision.b),
            _change(decision),
            str(decision.pairs),
            decision.answer,
        )
        for decision in (result.decision, *result.others)
    ]
    return text_table(head, rows, terminal_width(), right=(1, 2, 3, 4), flexible=(0, 1, 2))


def _how(result: ABResult) -> str:
    """How it was measured and why it ended."""
    ended = {
        "told": "ended as soon as it could tell",
        "pairs": "ended when its pairs were used up",
        "time": "ended when its time was used up",
        "failed": "ended since a side cannot be measured",
    }[result.stopped]
    return (
        f"{result.decision.pairs} pairs in random blocks of ABBA or BAAB (seed {result.seed}), "
        f"{show_seconds(result.seconds)}; {ended}; {_design(result)}"
    )


def _design(result: ABResult) -> str:
    """Which looks there were, and what that means for the interval."""
    if not result.looks:
        return "looked at after every block, and the interval of 95 % holds at every look"
    if len(result.looks) == 1:
        return f"planned with one look, after {result.looks[0]} pairs; interval of 95 %"
    *before, last = map(str, result.looks)
    return (
        f"looks planned after {', '.join(before)} and {last} pairs; change and interval of 95 % are corrected for them"
    )


def _notes(result: ABResult) -> list[str]:
    """What a person should know besides the answer."""
    from assay.report.wording import one_line

    decision = result.decision
    notes = []
    if decision.failed:
        pairs = (
            f"{decision.failed} of {decision.failed + decision.pairs} pairs have a run that failed, and do not count"
        )
        notes.append(f"{pairs}: {'; '.join(decision.failures[:3])}")
    if result.order:
        notes.append(result.order)
    return [one_line(note) for note in notes]


def _doubts(result: ABResult) -> list[str]:
    """Failed checks of both sides, each once."""
    from assay.report.wording import check_sentence, failed_checks

    if result.results is None:
        return []
    names = [
        f"{side}: {check_sentence(check)}"
        for side, job in zip("ab", result.results, strict=True)
        for check in failed_checks(job)
    ]
    return list(dict.fromkeys(names))
