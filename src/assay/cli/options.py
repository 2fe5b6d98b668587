"""Options that several verbs share, records that group them, and the groups of verbs that take such records."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass, fields, is_dataclass
from enum import StrEnum
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, TypeVar, get_args, get_type_hints

import typer
from typer.models import OptionInfo

from assay.cli.help import VerbCommand, VerbGroup
from assay.errors import UsageError

if TYPE_CHECKING:
    from assay.api.source import Source
    from assay.place.fleet.client import FleetClient
    from assay.store.store import Store

Value = TypeVar("Value")
Verb = TypeVar("Verb", bound=Callable[..., Any])


class Format(StrEnum):
    """How results are printed."""

    text = "text"
    json = "json"
    csv = "csv"
    md = "md"


class TextFormat(StrEnum):
    """How what has no other form is printed."""

    text = "text"
    json = "json"


class FailOn(StrEnum):
    """Which verdict makes the command fail."""

    never = "never"
    invalid = "invalid"
    suspect = "suspect"


BenchmarkFile = Annotated[Path, typer.Argument(metavar="FILE", help="Benchmark file: YAML, TOML or JSON.")]
StoreOption = Annotated[
    Path | None, typer.Option("--store", help="Folder of the results.", envvar="ASSAY_STORE", show_default=False)
]
ObjectsOption = Annotated[
    str | None,
    typer.Option(
        "--objects",
        metavar="URL",
        help="Object store that the files of the results also go to.",
        envvar="ASSAY_OBJECTS",
        show_default=False,
    ),
]
ServerOption = Annotated[
    str | None,
    typer.Option("--server", metavar="URL", help="URL of the server.", envvar="ASSAY_SERVER", show_default=False),
]
TokenFileOption = Annotated[
    Path | None,
    typer.Option("--token-file", help="File that holds the token; else ASSAY_TOKEN.", envvar="ASSAY_TOKEN_FILE"),
]
CaOption = Annotated[
    Path | None, typer.Option("--ca", help="Certificate of the authority that signed the server's.", envvar="ASSAY_CA")
]
FormatOption = Annotated[Format, typer.Option("--format", "-f", help="How to print the results.")]
SetOption = Annotated[
    list[str] | None, typer.Option("--set", metavar="PATH=VALUE", help="Set a key of the file, such as measure.runs=3.")
]


QuietOption = Annotated[bool, typer.Option("--quiet", "-q", help="Show no progress.")]
TextFormatOption = Annotated[TextFormat, typer.Option("--format", "-f", help="How to print it.")]


def bare_option(name: str, text: str, group: str | None = None) -> OptionInfo:
    """An option whose help text itself names the default, in a group of the help."""
    info: OptionInfo = typer.Option(name, help=text, show_default=False, rich_help_panel=group)
    return info


def option_value(read: Callable[[str], Value], text: str, option: str, *, code: str, name_it: bool = False) -> Value:
    """What an option says, as `read` understands it; `name_it` has the message begin with the option."""
    try:
        return read(text)
    except ValueError as problem:
        message = f"{option}: {problem}" if name_it else str(problem)
        raise UsageError(message, code=code, at=option) from None


def span_s(text: str, option: str, most_s: float, *, code: str, try_: str) -> float:
    """A span of time in seconds, longer than none.

    Raises:
        UsageError: if it is none, or as long as `most_s`.
    """
    from assay.units import seconds

    try:
        duration_s = seconds(text)
    except ValueError:
        duration_s = 0.0
    if not 0 < duration_s < most_s:
        raise UsageError(f"{text!r} is no span of time", code=code, at=option, try_=try_)
    return duration_s


@dataclass(frozen=True, slots=True)
class ServerOptions:
    """A server, and how to be let in."""

    GROUP: ClassVar[str] = "Server"
    url: ServerOption = None
    token_file: TokenFileOption = None
    ca: CaOption = None

    def connect(self, *, greet: bool = True) -> FleetClient:
        """A client for the server, which was asked who it is unless `greet` is off."""
        from assay.place.fleet.client import FleetClient, read_token

        if not self.url:
            raise UsageError("no server is named", code="no-server", try_="give --server URL, or set ASSAY_SERVER")
        client = FleetClient(self.url, read_token(self.token_file), ca=self.ca)
        if greet:
            client.greet()
        return client


@dataclass(frozen=True, slots=True)
class SourceOptions:
    """A server where one is named, or else a store on this machine."""

    context: typer.Context
    store: StoreOption = None
    server: ServerOptions = ServerOptions()

    @property
    def is_server(self) -> bool:
        """Whether a server is meant; a store that the command line names goes before a server of the environment."""
        by = {name: _given_by(self.context, name) for name in ("store", "url")}
        return bool(self.server.url) and not (by["store"] == "COMMANDLINE" and by["url"] == "ENVIRONMENT")

    @contextmanager
    def open(self) -> Iterator[Source]:
        if self.is_server:
            from assay.api.server_source import ServerSource

            yield ServerSource(self.server.connect())
            return
        from assay.api.store_source import StoreSource

        with open_store(self.store) as store:
            yield StoreSource(store)


def _given_by(context: typer.Context, parameter: str) -> str:
    source = context.get_parameter_source(parameter)
    return "" if source is None else source.name


@contextmanager
def open_store(folder: Path | None) -> Iterator[Store]:
    """The store in a folder, or else the one of this user."""
    from assay.store.location import store_folder
    from assay.store.store import Store

    store = Store(store_folder(folder))
    if store.is_read_only:
        sys.stderr.write(f"note    {store.folder} is read-only: results can be looked at, and none can be kept\n")
    try:
        yield store
    finally:
        store.close()


class Verbs(typer.Typer):
    """A group of verbs. A parameter that is an option record stands for one option per field of the record."""

    def __init__(self, **settings: Any) -> None:  # noqa: ANN401  (those of Typer)
        # Plain help starts twice as fast.
        plain = {"no_args_is_help": True, "rich_markup_mode": None, "add_completion": False, "cls": VerbGroup}
        super().__init__(**{**plain, **settings})

    def command(self, name: str | None = None, **settings: Any) -> Callable[[Verb], Verb]:  # noqa: ANN401
        return self._registering(super().command(name, **{"cls": VerbCommand, **settings}))

    def callback(self, **settings: Any) -> Callable[[Verb], Verb]:  # noqa: ANN401
        return self._registering(super().callback(**settings))

    @staticmethod
    def _registering(register: Callable[[Callable[..., Any]], object]) -> Callable[[Verb], Verb]:
        def decorate(verb: Verb) -> Verb:
            register(_with_options_alone(verb))
            return verb  # so that it can be called with records

        return decorate


def _with_options_alone(verb: Callable[..., Any]) -> Callable[..., Any]:
    """A verb as Typer understands it: without option records."""
    signature = inspect.signature(verb, eval_str=True)
    records = {
        parameter.name: parameter.annotation
        for parameter in signature.parameters.values()
        if is_dataclass(parameter.annotation)
    }
    if not records:
        return verb

    @wraps(verb)
    def call(**given: Any) -> Any:  # noqa: ANN401  (what the verb is given)
        return verb(**{name: _record(record, given) for name, record in records.items()}, **given)

    parameters = [
        option
        for parameter in signature.parameters.values()
        for option in (_options(records[parameter.name]) if parameter.name in records else [parameter])
    ]
    keywords = [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in parameters]
    call.__signature__ = signature.replace(parameters=keywords)  # type: ignore[attr-defined]
    return call


def _options(record: Any) -> Iterator[inspect.Parameter]:  # noqa: ANN401  (a dataclass)
    """The fields of a record, and of the records in it, as parameters; help lists them under the record's GROUP."""
    types = get_type_hints(record, include_extras=True)
    group: str | None = getattr(record, "GROUP", None)
    for field in fields(record):
        annotation = types[field.name]
        if is_dataclass(annotation):
            yield from _options(annotation)
        else:
            yield inspect.Parameter(
                field.name,
                inspect.Parameter.KEYWORD_ONLY,
                default=field.default,
                annotation=_grouped(annotation, group) if group else annotation,
            )


def _grouped(annotation: Any, group: str) -> Any:  # noqa: ANN401  (an annotated type)
    kind, option, *_ = get_args(annotation)
    if not isinstance(option, OptionInfo):
        return annotation
    in_group = copy(option)
    in_group.rich_help_panel = group
    return Annotated[kind, in_group]


def _record(record: Any, given: dict[str, Any]) -> Any:  # noqa: ANN401  (a dataclass)
    """Make a record of what was given, and take that out of it."""
    types = get_type_hints(record)
    return record(
        **{
            field.name: _record(types[field.name], given) if is_dataclass(types[field.name]) else given.pop(field.name)
            for field in fields(record)
        }
    )
