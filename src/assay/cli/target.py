"""What to measure, as a person types it: a file or a target, and options that stand for keys of a file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import typer
from typer.models import OptionInfo

from assay.cli.help import AFTER_DASHES
from assay.cli.options import SetOption
from assay.spec.flags import BY_KEY, FLAGS

if TYPE_CHECKING:
    from assay.api.one_line import RunRequest
    from assay.spec.load import Loaded

TARGET_HELP = (
    "A model (path, URL or name from `assay models`), the URL of an endpoint, or -- and a command with its options."
)
_FILE_OR_TARGET = f"A benchmark file (YAML, TOML or JSON; - is stdin). Or without a file: {TARGET_HELP[:1].lower()}"
_FILE_OR_TARGET += TARGET_HELP[1:]


def _flag(key: str) -> OptionInfo:
    flag = BY_KEY[key]
    names = [name for name in (flag.name, flag.short) if name]
    info: OptionInfo = typer.Option(*names, metavar=_METAVARS.get(key, "N"), help=flag.meaning, show_default=False)
    return info


_METAVARS = {
    "device": "DEVICE",
    "runtime": "NAME",
    "api": "NAME",
    "model": "NAME",
    "tokenizer": "PATH|NAME",
    "duration": "TIME",
}


@dataclass(frozen=True, slots=True)
class ModelFlags:
    """Keys of a model."""

    GROUP: ClassVar[str] = "Model (values separated by commas are measured in turn)"
    device: Annotated[str | None, _flag("device")] = None
    batch: Annotated[str | None, _flag("batch")] = None
    threads: Annotated[str | None, _flag("threads")] = None
    runtime: Annotated[str | None, _flag("runtime")] = None


@dataclass(frozen=True, slots=True)
class EndpointFlags:
    """Keys of an endpoint and its load."""

    GROUP: ClassVar[str] = "Endpoint and load (values separated by commas are measured in turn)"
    api: Annotated[str | None, _flag("api")] = None
    model: Annotated[str | None, _flag("model")] = None
    tokenizer: Annotated[str | None, _flag("tokenizer")] = None
    input_tokens: Annotated[str | None, _flag("input_tokens")] = None
    output_tokens: Annotated[str | None, _flag("output_tokens")] = None
    rate: Annotated[str | None, _flag("rate")] = None
    concurrency: Annotated[str | None, _flag("concurrency")] = None
    requests: Annotated[str | None, _flag("requests")] = None
    duration: Annotated[str | None, _flag("duration")] = None


@dataclass(frozen=True, slots=True)
class KeyFlags:
    """Keys of every benchmark."""

    GROUP: ClassVar[str] = "Benchmark"
    runs: Annotated[str | None, _flag("runs")] = None
    quick: Annotated[
        bool, typer.Option("--quick", help="One short run: a quick look, not a measurement.", show_default=False)
    ] = False
    settings: SetOption = None
    save: Annotated[
        Path | None,
        typer.Option("--save", metavar="FILE", help="Write what is run as a benchmark file: .yaml or .json."),
    ] = None


@dataclass(frozen=True, slots=True)
class TargetOptions:
    """What to measure."""

    context: typer.Context
    words: Annotated[list[str] | None, typer.Argument(metavar="TARGET", help=_FILE_OR_TARGET, show_default=False)] = (
        None
    )
    keys: KeyFlags = KeyFlags()
    of_model: ModelFlags = ModelFlags()
    of_endpoint: EndpointFlags = EndpointFlags()

    def load(self) -> Loaded:
        """The benchmark that was typed."""
        from dataclasses import replace

        from assay.api.one_line import load_request

        given: dict[str, Any] = {}
        for record in (self.of_model, self.of_endpoint, self.keys):
            given |= {flag.key: value for flag in FLAGS if (value := getattr(record, flag.key, None)) is not None}
        request = request_from(self.context, self.words or ())
        keys = self.keys
        settings = tuple(keys.settings or ())
        return load_request(replace(request, flags=given, settings=settings, quick=keys.quick, save=keys.save))

    def keep(self, loaded: Loaded) -> None:
        """Write the benchmark where `--save` asks for it."""
        if self.keys.save is not None:
            from assay.api.one_line import save

            save(loaded, self.keys.save)


def request_from(context: typer.Context, words: Sequence[str]) -> RunRequest:
    """The words that name a target, and whether they came after `--`."""
    from assay.api.one_line import RunRequest
    from assay.errors import UsageError

    after = context.meta.get(AFTER_DASHES, ())
    if after and len(words) > len(after):
        message = f"{words[0]} and the command after -- are two targets"
        raise UsageError(message, code="target", try_="measure one at a time")
    return RunRequest(tuple(words), is_command=bool(after))
