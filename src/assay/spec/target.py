"""What is measured: a model file, a command, a service or somebody's endpoint."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import AfterValidator, Discriminator, Field, Tag, field_validator

from assay.metrics import Better
from assay.spec.devices import canonical
from assay.spec.section import Section, Size

SHA256 = re.compile(r"^[0-9a-f]{64}$")
METRIC_NAME = re.compile(r"^[A-Za-z_][A-Za-z0-9_.-]*$")

Device = Annotated[str, AfterValidator(canonical), Field(examples=["cpu", "cuda", "GPU (ONNX)"])]


class ModelTarget(Section):
    """A model file that runs inside our own process (white box)."""

    model: str
    """Path of a model file, an http(s) URL, or a name from `assay models`."""
    sha256: str | None = None
    """SHA-256 of the model file; a file that differs is refused."""
    runtime: str = "onnxruntime"
    """What executes the model."""
    device: Device = "cpu"
    """Where it must run; a run that ends elsewhere is failed, not reported."""
    threads: int | None = Field(default=None, ge=1, le=4096)
    """Threads inside one operator; the runtime decides when left out."""
    inter_threads: int | None = Field(default=None, ge=1, le=4096)
    """Threads across operators, used with `execution: parallel`."""
    execution: Literal["sequential", "parallel"] = "sequential"
    """Whether independent operators may run at the same time."""
    optimization: Literal["disable", "basic", "extended", "layout", "all"] = "all"
    """Graph optimisation level of the runtime."""
    provider_options: dict[str, str] = {}
    """Options handed to the execution provider as they are."""
    session_options: dict[str, str] = {}
    """Configuration entries handed to the session as they are."""
    headers: dict[str, str] = {}
    """HTTP headers for a model URL; secrets by `${env:NAME}`."""
    max_size: Size = 20 * 2**30
    """Largest model that may be fetched from a URL."""

    @field_validator("sha256")
    @classmethod
    def _is_a_digest(cls, value: str | None) -> str | None:
        if value is not None and not SHA256.match(value.lower()):
            raise ValueError(f"{value!r} is not a SHA-256: 64 hexadecimal digits are needed")
        return value.lower() if value else None


class MetricPattern(Section):
    """A number that a command prints, and how to find it."""

    name: str
    """Name of the metric, with its unit last: `images_per_s`."""
    unit: str = ""
    """Unit of the value."""
    better: Better | None = None
    """Which direction is an improvement."""
    pattern: str | None = None
    """Regular expression over the output; its first group (or one named `value`) is the number.
    It may span lines. Left out, the metric comes from `assay.emit`."""
    context: dict[str, str] = {}
    """Label → regular expression; the last match above a value is attached to it."""

    @field_validator("name")
    @classmethod
    def _is_a_name(cls, value: str) -> str:
        if not METRIC_NAME.match(value):
            raise ValueError(f"{value!r} is not a metric name: letters, digits, _ . - and no space")
        return value

    @field_validator("pattern")
    @classmethod
    def _has_a_group(cls, value: str | None) -> str | None:
        return None if value is None else _with_a_group(value)

    @field_validator("context")
    @classmethod
    def _each_has_a_group(cls, value: dict[str, str]) -> dict[str, str]:
        return {label: _with_a_group(pattern) for label, pattern in value.items()}


class CommandTarget(Section):
    """Any program that prints or emits metrics."""

    command: str | tuple[str, ...]
    """The command; a string is split like a shell would, but no shell runs it."""
    shell: bool = False
    """Run the command string through `/bin/sh` (pipes, redirections)."""
    cwd: str | None = None
    """Working folder, relative to the benchmark file; its folder when left out."""
    env: dict[str, str] = {}
    """Environment variables; secrets by `${env:NAME}`."""
    metrics: tuple[MetricPattern, ...] = ()
    """Metrics that the command reports."""

    @field_validator("command")
    @classmethod
    def _is_not_empty(cls, value: str | tuple[str, ...]) -> str | tuple[str, ...]:
        if not value or not (value.strip() if isinstance(value, str) else value[0].strip()):
            raise ValueError("the command is empty")
        return value


class ServiceTarget(Section):
    """A service that we start ourselves (gray box)."""

    service: str
    """Name of an entry under `services`."""
    api: str
    """Protocol it speaks, such as `openai-chat`."""
    model: str | None = None
    """Model name inside the service."""


class EndpointTarget(Section):
    """Somebody's endpoint (black box)."""

    endpoint: str
    """URL of the endpoint."""
    api: str
    """Protocol it speaks, such as `openai-chat`."""
    model: str | None = None
    """Model name inside the service."""
    headers: dict[str, str] = {}
    """HTTP headers; secrets by `${env:NAME}`."""


def _kind(value: object) -> str:
    """Which kind of target a raw section describes, by the key only that kind has."""
    keys = (
        value.keys() if isinstance(value, Mapping) else type(value).model_fields if isinstance(value, Section) else ()
    )
    return next((kind for kind in ("command", "service", "endpoint") if kind in keys), "model")


Target = Annotated[
    Annotated[ModelTarget, Tag("model")]
    | Annotated[CommandTarget, Tag("command")]
    | Annotated[ServiceTarget, Tag("service")]
    | Annotated[EndpointTarget, Tag("endpoint")],
    Discriminator(_kind),
]

TARGET_TAGS = ("model", "command", "service", "endpoint")


def _with_a_group(pattern: str) -> str:
    try:
        compiled = re.compile(pattern, re.MULTILINE)
    except re.error as problem:
        raise ValueError(f"{pattern!r} is not a regular expression: {problem}") from None
    if compiled.groups == 0:
        raise ValueError(f"{pattern!r} has no group; put the number in parentheses")
    return pattern
