"""What `--help` prints: options in groups, an example for each verb, and no type of Python."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import typer
from typer.core import TyperCommand, TyperGroup

if TYPE_CHECKING:
    from typer._click import Context, HelpFormatter

Row = tuple[str, str]

WIDEST = 120
"""Columns that help takes at most: longer lines are hard to read."""

_TYPE = re.compile(r"<(?:list\[)?([^<>\]]*)\]?>")
_WORDS = {"str": "TEXT", "int": "N", "float": "N", "path": "PATH", "file": "PATH", "directory": "PATH"}
_BETWEEN = re.compile(r"(-?[\d.]+)<=x<=(-?[\d.]+)")
_AT_LEAST = re.compile(r"x>=(-?[\d.]+)")
_AT_MOST = re.compile(r"x<=(-?[\d.]+)")


AFTER_DASHES = "assay.after_dashes"
"""Where a context keeps the words after `--`, which Typer does not distinguish from those before it."""


class VerbCommand(TyperCommand):
    """A verb."""

    def parse_args(self, ctx: Context, args: list[str]) -> list[str]:
        if "--" in args:
            ctx.meta[AFTER_DASHES] = tuple(args[args.index("--") + 1 :])
        try:
            return super().parse_args(ctx, args)
        except typer.BadParameter as wrong:
            _say_plainly(wrong)
            raise

    def collect_usage_pieces(self, ctx: Context) -> list[str]:
        arguments = [parameter for parameter in self.get_params(ctx) if parameter.param_type_name == "argument"]
        return ["[OPTIONS]", *map(_usage_word, arguments)]

    def format_options(self, ctx: Context, formatter: HelpFormatter) -> None:
        _write_parameters(ctx, self.get_params(ctx), formatter)

    def format_epilog(self, ctx: Context, formatter: HelpFormatter) -> None:
        from assay.cli.examples import examples

        lines = examples(verb_path(ctx))
        if lines:
            with formatter.section("Example" if len(lines) == 1 else "Examples"):
                formatter.write("".join(f"{'':>{formatter.current_indent}}{line}\n" for line in lines))


class VerbGroup(TyperGroup):
    """A group of verbs."""

    def __init__(self, **settings: Any) -> None:  # noqa: ANN401  (those of Typer)
        super().__init__(**{**settings, "subcommand_metavar": "VERB ..."})

    def format_options(self, ctx: Context, formatter: HelpFormatter) -> None:
        _write_parameters(ctx, self.get_params(ctx), formatter)
        self.format_commands(ctx, formatter)

    def format_commands(self, ctx: Context, formatter: HelpFormatter) -> None:
        verbs = [(name, self.get_command(ctx, name)) for name in self.list_commands(ctx)]
        rows = [(name, _summary(verb.help or "")) for name, verb in verbs if verb is not None and not verb.hidden]
        with formatter.section("Verbs"):
            formatter.write_dl(rows)


def _say_plainly(wrong: typer.BadParameter) -> None:
    """Put the words of a validation library into ours."""
    from pydantic import ValidationError

    from assay.documents import validation_words

    if isinstance(wrong.__cause__, ValidationError):
        error = wrong.__cause__.errors()[0]
        given, words = repr(str(error["input"])[:80]), validation_words(error)
        choices = re.findall(r"'([^']+)'", words.partition(" is not one of ")[2])
        near = difflib.get_close_matches(str(error["input"]), choices, 1)
        wrong.message = words if words.startswith(given) else f"{given}: {words}"
        wrong.message += f" Did you mean '{near[0]}'?" if near else ""


def verb_path(context: Context) -> tuple[str, ...]:
    """The words that name the verb, without `assay` itself."""
    words: list[str] = []
    place: Any = context
    while place.parent is not None:
        words.insert(0, str(place.info_name))
        place = place.parent
    return tuple(words)


def _summary(text: str) -> str:
    """The first paragraph of a help text, on one line."""
    return " ".join(text.partition("\n\n")[0].split())


def _usage_word(argument: Any) -> str:  # noqa: ANN401
    name = str(argument.metavar or argument.name.upper())
    word = f"{name}..." if argument.nargs != 1 else name
    return word if argument.required else f"[{word}]"


def _write_parameters(ctx: Context, parameters: Iterable[Any], formatter: HelpFormatter) -> None:
    """Write arguments, then options below the name of their group; those without one come first."""
    arguments: list[Row] = []
    options: dict[str, list[Row]] = {"Options": []}
    for parameter in parameters:
        record = parameter.get_help_record(ctx)
        if record is None:
            continue
        if parameter.param_type_name == "argument":
            arguments.append(_argument_row(parameter, record[1]))
        else:
            panel = getattr(parameter, "rich_help_panel", None) or "Options"
            options.setdefault(panel, []).append((_plain_type(record[0]), _plain_range(record[1])))
    for title, rows in (("Arguments", arguments), *options.items()):
        _write_section(title, rows, formatter)


def _write_section(title: str, rows: Sequence[Row], formatter: HelpFormatter) -> None:
    if rows:
        with formatter.section(title):
            formatter.write_dl(rows)


def _argument_row(argument: Any, meaning: str) -> Row:  # noqa: ANN401
    name = str(argument.metavar or argument.name.upper())
    choices = argument.type_descriptor.choices
    one_of = f" One of: {', '.join(choice.value for choice in choices)}." if choices else ""
    text = meaning.replace("[required]", "").strip() + one_of
    return (f"{name}..." if argument.nargs != 1 else name), _plain_range(text)


def _plain_type(text: str) -> str:
    """The spellings of an option and what it takes, without the name of a type of Python."""
    return _TYPE.sub(lambda match: _WORDS.get(match[1].removesuffix(" range"), match[1]), text)


def _plain_range(text: str) -> str:
    text = _BETWEEN.sub(r"\1 to \2", text)
    return _AT_MOST.sub(r"at most \1", _AT_LEAST.sub(r"at least \1", text))
