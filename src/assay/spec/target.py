"""What is measured: a model file, a command, a service, an endpoint, a library or the hardware itself.

And what a program needs from elsewhere: files that are fetched before it starts, checked, and kept for the next time.
"""

from __future__ import annotations

import posixpath
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    Discriminator,
    Field,
    JsonValue,
    Tag,
    ValidationInfo,
    field_validator,
    model_validator,
)

from assay.metrics import Better
from assay.plugins import find_plugin
from assay.spec.limits import check_patterns, compiled, cut
from assay.spec.section import Duration, Section, Size, canonical, refuse

_DIGITS = {"sha256": 64, "md5": 32}


class Fetch(Section):
    """A file, or everything below a prefix, that is there before a program starts."""

    src: str = Field(min_length=1)
    """An http(s) or s3 URL, or a path from the benchmark file's folder; secrets by `${env:NAME}`. An s3 URL that ends
    with `/` means everything below it."""
    path: str
    """Where the program finds it, beginning with `/`: in its container, or for a plain process in a folder of its own,
    which is put in wherever its command or a variable names this path. One that ends with `/` is a folder for it."""
    sha256: str | None = None
    """SHA-256 of the file; one that differs is refused."""
    md5: str | None = None
    """MD5 of the file; one that differs is refused."""
    headers: dict[str, str] = {}
    """HTTP headers of the request; secrets by `${env:NAME}`."""
    max_size: Size = 100 * 2**30
    """Largest file that may be fetched."""

    @property
    def is_local(self) -> bool:
        """Whether it is a path of this machine."""
        return "://" not in self.src

    @field_validator("src")
    @classmethod
    def _can_be_fetched(cls, value: str) -> str:
        scheme, there, rest = value.partition("://")
        if there and scheme.lower() not in ("http", "https", "s3"):
            raise ValueError(f"{value!r} cannot be fetched; write an http, https or s3 URL, or a path")
        if there and not rest.strip("/"):
            raise ValueError(f"{value!r} names no file")
        return value

    @field_validator("path")
    @classmethod
    def _is_a_place(cls, value: str) -> str:
        if not value.startswith("/") or ":" in value or not value.isprintable():
            raise ValueError(f"{value!r} is no place for a file; write a whole path such as /data/train.npz")
        place = posixpath.normpath(f"/{value.lstrip('/')}")
        if ".." in value.split("/") or place == "/":
            raise ValueError(f"{value!r} is no place for a file: it must lie below the root, without any ..")
        return f"{place}/" if value.endswith("/") else place

    @field_validator("sha256", "md5")
    @classmethod
    def _is_a_digest(cls, value: str | None, info: ValidationInfo) -> str | None:
        digits = _DIGITS[info.field_name or "sha256"]
        if value is not None and not re.fullmatch(rf"[0-9a-f]{{{digits}}}", value.lower()):
            raise ValueError(f"{value!r} is no digest: {digits} hexadecimal digits are needed")
        return None if value is None else value.lower()


def in_folders(files: tuple[Fetch, ...]) -> Iterator[Fetch]:
    """What is wanted, where a path that several files share is the folder around them; so is that of a prefix."""
    shared = Counter(entry.path for entry in files)
    for fetch in files:
        is_folder = shared[fetch.path] > 1 or (fetch.src.endswith("/") and not fetch.is_local)
        yield (
            fetch if not is_folder or fetch.path.endswith("/") else fetch.model_copy(update={"path": f"{fetch.path}/"})
        )


SHA256 = re.compile(r"^[0-9a-f]{64}$")
METRIC_NAME = re.compile(r"^[A-Za-z_][A-Za-z0-9_.-]*$")
# Stands for the folder with a command's code.
CODE = "{code}"

Device = Annotated[str, AfterValidator(canonical), Field(examples=["cpu", "cuda", "GPU (ONNX)"])]
Container = Literal["auto", "apptainer", "podman", "charliecloud", "docker", "none"]


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
    use: Literal["generate", "embed"] = "generate"
    """What a language model does, with `runtime: transformers`."""
    dtype: str | None = None
    """Number type of the weights (`float32`, `bfloat16`, …), for `transformers`; the model's own when left out."""
    remote_code: bool = False
    """Whether code that lies beside the weights may run, for `transformers`."""

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
    service: str | None = None
    """Name of an entry under `services` whose output is searched in place of the command's own."""
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


class Together(Section):
    """How many pods and processes run one command together."""

    pods: int = Field(ge=2, le=1024)
    """How many; they start together or not at all."""
    ranks: Annotated[int, Field(ge=1, le=1024)] | Literal["gpus"] = 1
    """Processes in each pod, which the command finds in its environment; `gpus` for one on each GPU."""
    launch: Literal["each", "first"] = "each"
    """Whether every pod runs the command (torchrun), or the first alone, which reaches the others (mpirun)."""


class CommandTarget(Section):
    """Any program that prints or emits metrics: a command of this machine, or a container."""

    command: str | tuple[str, ...] | None = None
    """The command; a string is split like a shell would, but no shell runs it. The image's own when left out.
    `{host:llm}` and `{port:llm}` stand for the address of a service, `{code}` for the folder with the code."""
    args: str | tuple[str, ...] = ()
    """Words for the image's own command, where `command` is left out."""
    shell: bool = False
    """Run the command string through `/bin/sh` (pipes, redirections)."""
    image: str | None = None
    """Container image to run it in: a name in a registry, a `.sif` or squashfs file, or a folder; a plain process when
    left out."""
    container: Container = "auto"
    """What runs the image; whichever is present when left out. With `none` the command runs without the image, as a
    plain process."""
    mounts: dict[str, str] = {}
    """Folder here → folder in the container."""
    cwd: str | None = None
    """Working folder, relative to the benchmark file; its folder, or the image's own, when left out."""
    env: dict[str, str] = {}
    """Environment variables; secrets by `${env:NAME}`."""
    code: str | None = None
    """Code that travels with the benchmark: a folder, a file or a `.tar` beside the file. It is packed, hashed, and
    unpacked again for each run; a folder keeps its name, so that `code: src` is found as `{code}/src`."""
    fetch: tuple[Fetch, ...] = ()
    """Files that it needs from elsewhere; fetched once, checked, and kept for the next time."""
    metrics: tuple[MetricPattern, ...] = ()
    """Metrics that the command reports."""
    distributed: Together | None = None
    """Several pods that run it together, which is another measurement than one; `place.kubernetes.distributed` sets
    it."""

    @property
    def is_boxed(self) -> bool:
        """Whether it runs in a container."""
        return self.image is not None and self.container != "none"

    @field_validator("metrics", mode="before")
    @classmethod
    def _have_patterns_of_some_size(cls, value: object) -> object:
        # Before each is compiled.
        tables = [entry for entry in value if isinstance(entry, Mapping)] if isinstance(value, list | tuple) else []
        contexts = [entry["context"] for entry in tables if isinstance(entry.get("context"), Mapping)]
        texts = [entry.get("pattern") for entry in tables] + [text for context in contexts for text in context.values()]
        check_patterns(text for text in texts if isinstance(text, str))
        return tuple(value) if isinstance(value, list) else value

    @field_validator("command")
    @classmethod
    def _is_not_empty(cls, value: str | tuple[str, ...] | None) -> str | tuple[str, ...] | None:
        if value is not None and (not value or not (value if isinstance(value, str) else value[0]).strip()):
            raise ValueError("the command is empty")
        return value

    @model_validator(mode="after")
    def _can_be_started(self) -> CommandTarget:
        silent, boxed = self.command is None, self.is_boxed
        alone = self.image is None and self.container not in ("auto", "none")
        relative = boxed and self.cwd is not None and not self.cwd.startswith("/")
        codeless = self.code is None and any(f"{CODE}/" in text for text in _texts(self.command) + _texts(self.args))
        refuse(
            (silent and not boxed, "a command is needed: there is no image that could bring its own"),
            (silent and self.shell, "shell would do nothing without a command; remove it"),
            (not silent and self.args, "args are for the image's own command; put them into the command"),
            (not boxed and self.mounts, "mounts would do nothing for a plain process; remove them"),
            (alone, f"container: {self.container} would do nothing without an image; remove it"),
            (relative, f"cwd is {self.cwd!r}; inside a container it must be absolute"),
            (codeless, f"the command names {CODE}/, and code is not set; name your code: --set target.code=FOLDER"),
        )
        return self


def _texts(words: str | tuple[str, ...] | None) -> tuple[str, ...]:
    return (words,) if isinstance(words, str) else words or ()


class Price(Section):
    """What a paid endpoint asks for, and what a job may cost."""

    input: float = Field(default=0.0, ge=0)
    """Price of a million input tokens."""
    output: float = Field(default=0.0, ge=0)
    """Price of a million output tokens."""
    currency: str = "USD"
    """In which currency."""
    budget: float | None = Field(default=None, gt=0)
    """Largest cost of one job; requests that could exceed it are not sent."""


class Tls(Section):
    """How the certificate of an https endpoint is checked."""

    verify: bool = True
    """Whether it must be valid for the host; turn off only for a server of your own."""
    ca: str | None = None
    """PEM file with the certificates to trust in place of the system's."""


class Served(Section):
    """What the targets share that are reached over a network."""

    api: str
    """Protocol it speaks: `openai-chat`, `openai-completions`, `openai-embeddings`, `ollama`, `http`, `qdrant`,
    `chroma`, `milvus`, `pgvector`, or one that an installed package registers."""
    model: str | None = None
    """Model name inside the service."""
    headers: dict[str, str] = {}
    """HTTP headers; secrets by `${env:NAME}`."""
    path: str | None = None
    """Path of a request, in place of the protocol's own."""
    method: Literal["GET", "POST", "PUT"] = "POST"
    """HTTP method, for `api: http`."""
    body: JsonValue = None
    """JSON body, for `api: http`; `$prompt` and `$output_tokens` stand for the workload's values."""
    stream: bool = True
    """Whether answers are streamed token by token."""
    options: dict[str, JsonValue] = {}
    """Further fields of every request body, such as `temperature`; they win over ours."""
    tokenizer: str | None = None
    """The model's own tokenizer (a folder, a `tokenizer.json` or a GGUF file), for what the server does not count."""
    price: Price | None = None
    """What tokens cost here, and the budget of a job."""
    metrics: str | None = None
    """Prometheus text endpoint of the service: a URL, or a path such as `/metrics`."""
    timeout: Duration = Field(default=120.0, gt=0)
    """Longest time for one request, from the moment it was due."""
    proxy: str | None = None
    """URL of an HTTP proxy."""
    tls: Tls = Tls()
    """How the certificate is checked."""
    index: dict[str, JsonValue] = {}
    """How a vector database builds its index, in its own words: `{m: 16, ef_construct: 100}`."""
    search: dict[str, JsonValue] = {}
    """How a vector database searches, in its own words: `{ef: 64}`."""


class ServiceTarget(Served):
    """A service that we start ourselves (gray box)."""

    service: str
    """Name of an entry under `services`."""


class EndpointTarget(Served):
    """A service that already runs (black box)."""

    endpoint: str
    """URL of the endpoint."""


class LibraryTarget(Section):
    """A library in our own process that is no model: `faiss`."""

    library: str
    """Name of the library."""
    threads: int | None = Field(default=None, ge=1, le=4096)
    """Threads that one search may use; the library decides when left out."""
    index: dict[str, JsonValue] = {}
    """How the index is built: `{kind: hnsw, m: 16}`."""
    search: dict[str, JsonValue] = {}
    """How it is searched: `{ef: 64}`."""


DeviceTest = Literal[
    "copy",
    "read",
    "write",
    "triad",
    "transfer",
    "fp64",
    "fp32",
    "tf32",
    "fp16",
    "bf16",
    "int8",
    "fp8",
    "scaling",
    "storage",
]


class DeviceTarget(Section):
    """The hardware itself: memory bandwidth, and arithmetic by precision."""

    device: Device
    """What is measured: `cpu`, `cuda`, `cuda:1`, `mps`."""
    tests: tuple[DeviceTest, ...] = ()
    """Which tests; all that the device supports when left out."""
    sizes: tuple[Size, ...] = ()
    """Bytes of the memory tests; chosen from caches and free memory when left out."""
    shapes: tuple[Annotated[int, Field(ge=16, le=65_536)], ...] = ()
    """Sides of the square matrices; 512 to 16384 as far as memory and time allow when left out."""
    each: Duration = Field(default=0.5, gt=0, le=60)
    """How long one size of one test is repeated."""
    threads: int | None = Field(default=None, ge=1, le=4096)
    """Most cores, for `cpu`; all that may be used when left out."""
    folder: str | None = None
    """Where the file of the storage test is made; the folder for temporary files when left out."""
    compare: bool = False
    """Whether a bare loop of the device's own library is timed beside, in turn."""


def _kind(value: object) -> str:
    """Which kind of target a raw section describes, by the key only that kind has."""
    keys = (
        value.keys() if isinstance(value, Mapping) else type(value).model_fields if isinstance(value, Section) else ()
    )
    named = next((kind for kind in ("command", "service", "endpoint", "library") if kind in keys), None)
    named = named or ("command" if "image" in keys else None)  # an image may bring its own command
    return named or ("device" if "device" in keys and "model" not in keys else "model")


Target = Annotated[
    Annotated[ModelTarget, Tag("model")]
    | Annotated[CommandTarget, Tag("command")]
    | Annotated[ServiceTarget, Tag("service")]
    | Annotated[EndpointTarget, Tag("endpoint")]
    | Annotated[LibraryTarget, Tag("library")]
    | Annotated[DeviceTarget, Tag("device")],
    Discriminator(_kind),
]

TARGET_TAGS = ("model", "command", "service", "endpoint", "library", "device")


def _with_a_group(pattern: str) -> str:
    try:
        groups = compiled(pattern, re.MULTILINE).groups
    except ValueError as problem:
        raise ValueError(f"{cut(repr(pattern), 200)} is not a regular expression: {problem}") from None
    if groups == 0:
        raise ValueError(f"{pattern!r} has no group; put the number in parentheses")
    return pattern


APIS = "assay.apis"
VECTORS = "assay.vectors"
TARGETS = "assay.targets"


def is_api(target: Target) -> bool:
    """Whether a target is reached over a network and speaks a protocol of models and services."""
    return isinstance(target, Served) and _group(target.api) == APIS


def is_vector_database(target: Target) -> bool:
    """Whether a target is a vector database that is reached over a network."""
    return isinstance(target, Served) and _group(target.api) == VECTORS


def needs_model(target: Target) -> bool:
    """Whether the requests of a target name a model."""
    entry = find_plugin(target.api, APIS, VECTORS) if isinstance(target, Served) else None
    protocol: Any = entry.load() if entry is not None and entry.group == APIS else None
    return protocol is not None and bool(protocol.needs_model)


def _group(name: str) -> str | None:
    # Both groups in one call: a built-in name in either is found without reading what other packages register.
    entry = find_plugin(name, APIS, VECTORS)
    return None if entry is None else entry.group
