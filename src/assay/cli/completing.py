"""What a shell offers after the words typed so far: verbs, options, choices, and the names of what was kept.

This runs at every press of Tab, so it parses nothing (which would load Pydantic) and opens no store (which would load
SQLAlchemy): it walks down the verbs, and asks SQLite or a server one question.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import typer
from typer.core import TyperGroup, TyperOption

from assay.cli.old_spellings import current
from assay.cli.verbs import LazyVerbs, entries

if TYPE_CHECKING:
    from typer._click.shell_completion import CompletionItem

Offer = tuple[str, str]  # a word, and what it means

MODELS = (
    *("squeezenet", "shufflenet", "resnet50", "alexnet", "densenet121", "inception_v1", "inception_v2"),
    *("vgg19", "zfnet512"),
)
"""The built-in models, as `assay models` lists them."""

# What a parameter names, by what help calls it.
_KINDS = {
    **dict.fromkeys(("CAMPAIGN", "RESULT", "campaign", "result", "a", "b", "baseline"), "campaigns"),
    **dict.fromkeys(("JOB",), "jobs"),
    **dict.fromkeys(("AGENT", "agent"), "agents"),
    **dict.fromkeys(("benchmark",), "benchmarks"),
    **dict.fromkeys(("TARGET",), "models"),
}


def answer(instruction: str) -> NoReturn:
    """Print what a shell may offer, in its own form.

    Args:
        instruction: as the script of `assay completion` gives it, such as `complete_bash`.
    """
    from typer._click.shell_completion import get_completion_class
    from typer.completion import completion_init  # type: ignore[attr-defined]

    completion_init()
    shell = get_completion_class(instruction.partition("_")[2])
    if shell is None:
        sys.exit(1)

    # Its form is that of the shell; what is in it is ours.
    own = type("Answer", (shell,), {"get_completions": staticmethod(offered_items)})
    sys.stdout.write(f"{own(None, {}, 'assay', instruction).complete()}\n")
    sys.exit(0)


def offered_items(words: Sequence[str], incomplete: str) -> list[CompletionItem]:
    from typer._click.shell_completion import CompletionItem

    return [CompletionItem(word, help=meaning or None) for word, meaning in offered(words, incomplete)]


def offered(words: Sequence[str], incomplete: str) -> list[Offer]:
    """What may stand in place of an incomplete word, after the words before it, without `assay` itself."""
    words = [word for word in current(words)[0] if word != "="]  # bash takes --option=value apart
    if incomplete.startswith("--") and "=" in incomplete:
        option, _, incomplete = incomplete.partition("=")
        words = [*words, option]
    incomplete = "" if incomplete == "=" else incomplete
    return [offer for offer in _offers(words, incomplete) if offer[0].startswith(incomplete)]


def _offers(words: Sequence[str], incomplete: str) -> Iterator[Offer]:
    if not words:
        yield from (("--version", ""), ("--help", "")) if incomplete.startswith("-") else ()
        yield from ((name, entry.summary) for name, entry in entries().items())
        return
    if words[0] not in entries():
        return
    command: Any = LazyVerbs()[words[0]]
    rest = list(words[1:])
    while isinstance(command, TyperGroup) and rest and rest[0] in command.commands:
        command = command.commands[rest.pop(0)]
    if isinstance(command, TyperGroup) and not rest and not incomplete.startswith("-"):
        below = command.commands.items()
        yield from ((name, (verb.help or "").partition("\n")[0]) for name, verb in below if not verb.hidden)
        return
    given = _Given(command, rest)
    if given.waiting is not None:
        yield from _values(given.waiting, given.values, incomplete)
    elif incomplete.startswith("-"):
        yield from given.unused()
    elif (argument := given.argument()) is not None:
        yield from _values(argument, given.values, incomplete)


class _Given:
    """What the words after a verb give already."""

    def __init__(self, command: Any, words: Sequence[str]) -> None:  # noqa: ANN401  (a verb or a group)
        parameters = command.get_params(typer.Context(command))
        self._arguments = [parameter for parameter in parameters if parameter.param_type_name == "argument"]
        self._options = [
            parameter for parameter in parameters if isinstance(parameter, TyperOption) and not parameter.hidden
        ]
        by_name = {
            name: parameter for parameter in self._options for name in (*parameter.opts, *parameter.secondary_opts)
        }
        self.values: dict[str, str] = {}
        self.waiting: Any = None
        """The option whose value comes next."""
        self._count = 0
        self._given: set[str] = set()
        for word in words:
            name, equals, value = word.partition("=")
            option = by_name.get(name)
            if self.waiting is not None:
                self.values[self.waiting.name] = word
                self.waiting = None
            elif option is None:
                self._count += not word.startswith("-")
            else:
                self._given.add(option.name)
                self.waiting = None if option.is_flag or equals else option
                self.values |= {option.name: value} if equals else {}

    def argument(self) -> Any:  # noqa: ANN401  (a parameter)
        """The argument that comes next; none if all are there."""
        for place, argument in enumerate(self._arguments):
            if place == self._count or (argument.nargs == -1 and place <= self._count):
                return argument
        return None

    def unused(self) -> Iterator[Offer]:
        for option in self._options:
            if option.name not in self._given or option.multiple:
                yield max(option.opts, key=len), option.help or ""


def _values(parameter: Any, given: Mapping[str, str], incomplete: str) -> Iterator[Offer]:  # noqa: ANN401
    choices = parameter.type_descriptor.choices
    if choices:
        yield from ((str(getattr(choice, "value", choice)), "") for choice in choices)
        return
    kind = _KINDS.get(parameter.metavar or parameter.name)
    if kind == "models":
        yield from ((name, "built-in model") for name in MODELS)
        yield from ((name, "") for name in _files_here() if "/" not in incomplete)
    elif kind is not None:
        from assay.cli.kept_names import names

        server = given.get("url") or ("" if given.get("store") else os.environ.get("ASSAY_SERVER", ""))
        yield from names(kind, server, given, incomplete)


def _files_here() -> list[str]:
    """Models and benchmark files in the current folder."""
    endings = {".onnx", ".pt2", ".yaml", ".yml", ".toml", ".json"}
    return sorted(path.name for path in Path().iterdir() if path.suffix in endings)
