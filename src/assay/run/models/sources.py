"""From what a user wrote under `target.model` to a verified local file."""

from __future__ import annotations

import contextlib
import difflib
import hashlib
import importlib.util
import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Literal
from urllib.parse import urlsplit

from assay.errors import MeasureError, UsageError
from assay.files import file_digest, write_whole
from assay.run.models.graph import external_files, read_outline
from assay.spec.target import ModelTarget, Target

if TYPE_CHECKING:
    from onnx import GraphProto, ModelProto, ValueInfoProto


# Name → file of the onnx package, and what it is.
_LIGHT = {
    "squeezenet": ("squeezenet", "SqueezeNet 1.1"), "shufflenet": ("shufflenet", "ShuffleNet v1"),
    "resnet50": ("resnet50", "ResNet-50 v1"), "alexnet": ("bvlc_alexnet", "AlexNet"),
    "densenet121": ("densenet121", "DenseNet-121"), "inception_v1": ("inception_v1", "Inception v1 (GoogLeNet)"),
    "inception_v2": ("inception_v2", "Inception v2"), "vgg19": ("vgg19", "VGG-19"),
    "zfnet512": ("zfnet512", "ZFNet-512"),
}  # fmt: skip
BUILTIN_NAMES = tuple(_LIGHT)
_INPUT = "float32 [batch, 3, 224, 224]"


@dataclass(frozen=True, slots=True)
class BuiltinModel:
    name: str
    title: str
    input: str
    batch: Literal["dynamic", "fixed"]
    nodes: int  # operators, without those that only make weights
    file_bytes: int  # of the file that it is made from


def is_path(model: str) -> bool:
    """Whether a model is named by a path: neither by a URL nor by a built-in name."""
    return "://" not in model and model not in BUILTIN_NAMES


def builtin_models() -> tuple[BuiltinModel, ...]:
    """The built-in models, or none where the `onnx` package is not installed."""
    try:
        folder = _folder()
    except MeasureError:
        return ()
    files = {name: folder / f"light_{file}.onnx" for name, (file, _) in _LIGHT.items()}
    return tuple(_listed(name, path) for name, path in files.items() if path.is_file())


def materialise(name: str, cache: Path) -> Path:
    """Write a built-in model to the cache and return its path; the same bytes for the same onnx version.

    Raises:
        MeasureError: when the `onnx` package is missing or the cache cannot be written.
    """
    content = build(name)
    folder = cache / "models" / "builtin" / f"onnx-{_onnx_version()}"
    path = folder / f"{name}.onnx"
    with contextlib.suppress(OSError):
        if path.read_bytes() == content:
            return path
    try:
        write_whole(path, content)
    except OSError as problem:
        message = f"{path} cannot be written: {problem.strerror or problem}"
        raise MeasureError(message, code="cache", try_="free some space, or choose another cache folder") from None
    return path


def build(name: str) -> bytes:
    source = _folder() / f"light_{_LIGHT[name][0]}.onnx"
    if not source.is_file():
        message = f"onnx {_onnx_version()} does not hold {source.name}"
        try_ = "install another version of onnx, or give a model file"
        raise MeasureError(message, code="model", at="target.model", try_=try_)
    import onnx

    content: bytes = with_dynamic_batch(onnx.load(str(source))).SerializeToString(deterministic=True)
    return content


def _listed(name: str, path: Path) -> BuiltinModel:
    nodes = sum(node.op_type != "ConstantOfShape" for node in read_outline(path).nodes)
    return BuiltinModel(name, _LIGHT[name][1], _INPUT, "dynamic", nodes, path.stat().st_size)


def _folder() -> Path:
    spec = importlib.util.find_spec("onnx")  # finds the package without the cost of importing it
    if spec is None or spec.origin is None:
        message = "built-in models come with the package onnx, which is not installed"
        raise MeasureError(message, code="runtime", at="target.model", try_="pip install 'assay-bench[onnx]'")
    return Path(spec.origin).parent / "backend" / "test" / "data" / "light"


def _onnx_version() -> str:
    try:
        return version("onnx")
    except PackageNotFoundError:
        return "unknown"


SYMBOL = "batch"
# The first format version in which a weight need not be listed as an input as well.
_IR_WEIGHTS_APART = 4


def with_dynamic_batch(model: ModelProto) -> ModelProto:
    """Rewrite a model in place so that its inputs and outputs begin with a symbolic batch.

    Weights leave the list of inputs; a reshape of activations to `[1, …]` becomes `[0, …]`, which keeps
    the first dimension as it is; recorded shapes of inner tensors are dropped.
    """
    graph = model.graph
    weights = {weight.name for weight in graph.initializer}
    inputs = [value for value in graph.input if value.name not in weights]
    del graph.input[:]
    graph.input.extend(inputs)
    del graph.value_info[:]
    for tensor in (*graph.input, *graph.output):
        _free_first_dimension(tensor)
    _free_reshapes(graph, _activations(graph))
    model.ir_version = max(model.ir_version, _IR_WEIGHTS_APART)
    return model


def _free_first_dimension(value_info: ValueInfoProto) -> None:
    first = value_info.type.tensor_type.shape.dim[0]
    if first.dim_value != 1:
        raise ValueError(f"{value_info.name} begins with {first.dim_value}, not with a batch of 1")
    first.dim_param = SYMBOL


def _activations(graph: GraphProto) -> set[str]:
    """The tensors that depend on an input; nodes of an ONNX graph are in order."""
    dependent = {tensor.name for tensor in graph.input}
    for node in graph.node:
        if dependent & set(node.input):
            dependent |= set(node.output)
    return dependent


def _free_reshapes(graph: GraphProto, activations: set[str]) -> None:
    from onnx import numpy_helper

    weights = {weight.name: weight for weight in graph.initializer}
    for node in graph.node:
        if node.op_type != "Reshape" or node.input[0] not in activations:
            continue
        shape = numpy_helper.to_array(weights[node.input[1]]).copy()
        if shape[0] != 1:
            raise ValueError(f"{node.output[0]} is reshaped to {shape.tolist()}, which has no batch of 1")
        shape[0] = 0
        # Its own constant: another node may need the old one.
        name = f"{node.output[0]}/shape"
        graph.initializer.append(numpy_helper.from_array(shape, name))
        node.input[1] = name
    used = {name for node in graph.node for name in node.input}
    used_weights = [weight for weight in graph.initializer if weight.name in used]
    del graph.initializer[:]
    graph.initializer.extend(used_weights)


Progress = Callable[[int, int | None], None]  # bytes so far, bytes in all where known

_SCHEMES = ("http", "https")
# Their models are files; any other runtime may be given a folder, or the name of one on the Hugging Face hub.
_FILE_RUNTIMES = ("onnxruntime", "torch")
_HUB_NAME = re.compile(r"^[\w.-]+/[\w.-]+(@[\w./-]+)?$")


@dataclass(frozen=True, slots=True)
class LocalModel:
    path: Path
    sha256: str  # of the file, or of the whole where weights lie in files beside it: see `whole_digest`
    source: str  # what it was made from, without secrets
    size_bytes: int  # with the files beside it
    file_sha256: str = ""  # of the model file alone
    external: tuple[str, ...] = ()  # files beside the model that hold its weights
    note: str = ""  # what the reader should know, such as that the network could not be asked


def resolve(target: ModelTarget, base: Path, *, cache: Path, on_progress: Progress | None = None) -> LocalModel:
    """Make a model available as a local file."""
    name = target.model
    if is_folder(target, base):
        from assay.run.models.folder import resolve_folder

        return resolve_folder(target, base, on_progress)
    if "://" in name:
        _check_url(name)
        return _from_url(target, cache, on_progress)
    if name in BUILTIN_NAMES:
        path = materialise(name, cache)
        return _described(path, f"builtin:{name}", target.sha256)
    path = existing(name, base)
    return _described(path, str(path), target.sha256)


def is_folder(target: ModelTarget, base: Path) -> bool:
    """Whether a target names a folder with a language model, here or on the hub."""
    name = target.model
    if target.runtime in _FILE_RUNTIMES or not is_path(name):
        return False
    try:
        path = base / Path(name).expanduser()
    except RuntimeError:  # no such user's home folder
        return False
    if path.exists():
        return path.is_dir() or path.name == "config.json"
    # A slip in a path must not become a question to the network.
    return is_hub_name(name) and not (base / name.partition("/")[0]).is_dir()


def hub_name(target: Target) -> str | None:
    """The name of a language model that may lie on the hub; None for everything else."""
    if not isinstance(target, ModelTarget) or target.runtime in _FILE_RUNTIMES or not is_hub_name(target.model):
        return None
    return target.model


def is_hub_name(name: str) -> bool:
    """Whether a text can be the name of a model on the hub; a path such as `../..` cannot."""
    parts = name.partition("@")[0].split("/")
    return bool(_HUB_NAME.match(name)) and ".." not in name and not any(part.strip(".") == "" for part in parts)


def _check_url(url: str) -> None:
    scheme = url.partition("://")[0].lower()
    if scheme not in _SCHEMES:
        message = f"{scheme}:// is not supported for a model; got {url!r}"
        try_ = "give a path, an http(s) URL or a name from `assay models`"
        raise UsageError(message, code="model", at="target.model", try_=try_)
    if "${env:" not in url and not _has_host(url):  # a reference is resolved later
        message = "the URL has no sound host and port"
        raise UsageError(message, code="model", at="target.model", try_="check it for a slip")


def _has_host(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return bool(parts.hostname) and (parts.port or 1) > 0  # reading the port checks it
    except ValueError:
        return False


def _from_url(target: ModelTarget, cache: Path, on_progress: Progress | None) -> LocalModel:
    from assay.run.models.download import Fetcher, shown

    fetcher = Fetcher(cache / "models" / "urls", target.headers, target.max_size, on_progress)
    fetched = fetcher.fetch(target.model, target.sha256)
    external = external_files(fetched.path)
    notes = [fetched.note] + [fetcher.fetch_beside(target.model, name).note for name in external]
    note = "; ".join(dict.fromkeys(text for text in notes if text))
    return _described(fetched.path, shown(target.model), target.sha256, note)


def _described(path: Path, source: str, expected: str | None, note: str = "") -> LocalModel:
    external = external_files(path)
    absent = [name for name in external if not (path.parent / name).is_file()]
    if absent:
        message = f"{path.name} keeps weights in {absent[0]}, which is not beside it in {path.parent}"
        raise MeasureError(message, code="model", at="target.model", try_=f"put {', '.join(absent)} into {path.parent}")
    try:
        own = file_digest(path)
        parts = [(own, path.name)] + [(file_digest(path.parent / name), name) for name in external]
        size = sum((path.parent / name).stat().st_size for _, name in parts)
    except OSError as problem:
        message = f"{path} cannot be read: {problem.strerror or problem}"
        raise MeasureError(message, code="model", at="target.model", try_="check the permissions") from None
    whole = whole_digest(parts) if external else own
    if expected is not None and expected not in (own, whole):
        raise mismatch(str(path), expected, own)
    return LocalModel(path, whole, source, size, own, external, note)


def existing(name: str, base: Path) -> Path:
    """The file that a path names."""
    path = Path(name).expanduser()
    path = path if path.is_absolute() else base / path
    if path.is_file():
        if not path.stat().st_size:
            message = f"the model file {path} is empty"
            raise MeasureError(message, code="model", at="target.model", try_="fetch or export it again")
        return path.absolute()  # not resolved: weights lie beside a link, not beside what it points to
    if path.is_dir():
        models = sorted(file.name for file in path.glob("*.onnx"))
        hint = f"name the file: {', '.join(models[:5])}" if models else "give the path of a model file"
        raise MeasureError(f"{path} is a folder", code="model", at="target.model", try_=hint)
    raise MeasureError(f"the model file {path} does not exist", code="model", at="target.model", try_=_nearest(path))


_MODEL_ENDINGS = (".onnx", ".ort", ".pt", ".pt2", ".pb")


def _nearest(path: Path) -> str:
    """The nearest existing file of that folder, or built-in name."""
    if not path.parent.is_dir():
        start = "the folder of the benchmark file, or else from the current one"
        return f"the folder {path.parent} does not exist either: a relative path starts from {start}"
    here = [entry.name for entry in path.parent.iterdir() if entry.is_file()]
    # By the names alone: a common ending makes any two short names look alike.
    stems = {Path(name).stem: name for name in here if name.endswith(_MODEL_ENDINGS)}
    if close := difflib.get_close_matches(path.stem, stems, n=1):
        return f"did you mean {stems[close[0]]}?"
    built_in = difflib.get_close_matches(path.stem, BUILTIN_NAMES, n=1)
    if built_in:
        return f"did you mean the built-in model {built_in[0]}?"
    models = sorted(name for name in here if name.endswith(_MODEL_ENDINGS))
    beside = f"in that folder: {', '.join(models[:5])}; " if models else ""
    return f"{beside}built-in models: {', '.join(BUILTIN_NAMES)}"


@dataclass(frozen=True, slots=True)
class Validator:
    """What a server said to recognise this version of a file by."""

    etag: str | None = None
    last_modified: str | None = None

    @property
    def for_resume(self) -> str | None:
        """The value for `If-Range`; a weak tag does not promise equal bytes."""
        strong = self.etag if self.etag and not self.etag.startswith("W/") else None
        return strong or self.last_modified


@dataclass(frozen=True, slots=True)
class CacheNotes:
    url: str  # without secrets
    sha256: str
    size: int
    fetched_at: str
    etag: str | None = None
    last_modified: str | None = None

    @property
    def validator(self) -> Validator:
        return Validator(self.etag, self.last_modified)


@dataclass(frozen=True, slots=True)
class CacheEntry:
    """One file of the cache. The cache is ours alone: nothing here is a user's own file."""

    folder: Path
    name: str  # may hold folders, as names of external weight files may

    @property
    def file(self) -> Path:
        return self.folder / self.name

    @property
    def part(self) -> Path:
        return self._beside("part")

    def notes(self) -> CacheNotes | None:
        """What is known about the finished file, if it is there."""
        held = _read_json(self._beside("json"))
        with contextlib.suppress(TypeError):
            return CacheNotes(**held) if held and self.file.is_file() else None  # type: ignore[arg-type]
        return None

    def part_size(self) -> int:
        return self.part.stat().st_size if self.part.is_file() else 0

    def part_validator(self) -> Validator:
        """By what the unfinished file's version is recognised."""
        held = _read_json(self._beside("part.json")) or {}
        return Validator(held.get("etag"), held.get("last_modified"))

    def begin(self, validator: Validator) -> None:
        """Start an unfinished file again from nothing."""
        self.part.parent.mkdir(parents=True, exist_ok=True)
        self.part.write_bytes(b"")
        self._beside("part.json").write_text(json.dumps(asdict(validator)), encoding="utf-8")

    def drop_part(self) -> None:
        self.part.unlink(missing_ok=True)
        self._beside("part.json").unlink(missing_ok=True)

    def keep(self, notes: CacheNotes) -> None:
        """Turn the unfinished file into the finished one, in one step."""
        self.file.parent.mkdir(parents=True, exist_ok=True)
        # CacheNotes go first: a file with notes that do not fit it is found out by its digest and fetched again.
        write_whole(self._beside("json"), json.dumps(asdict(notes)).encode())
        self.part.replace(self.file)
        self.drop_part()

    def forget(self) -> None:
        self._beside("json").unlink(missing_ok=True)
        self.file.unlink(missing_ok=True)

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Hold this entry's folder for one process; the system frees it even when the process is killed."""
        from assay.run.scratch import held

        with held(self.folder):
            yield

    def _beside(self, ending: str) -> Path:
        return self.folder / f".{self.name.replace('/', '_')}.{ending}"


def _read_json(path: Path) -> dict[str, str | None] | None:
    try:
        held = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return held if isinstance(held, dict) else None


def whole_digest(parts: Sequence[tuple[str, str]]) -> str:
    """One digest of a model in several files: SHA-256 of their `sha256sum` lines, the model file first."""
    return hashlib.sha256("".join(f"{digest}  {name}\n" for digest, name in parts).encode()).hexdigest()


def mismatch(what: str, expected: str, actual: str) -> MeasureError:
    message = f"{what} has SHA-256 {actual}, but target.sha256 is {expected}"
    try_ = "check which file is meant; if the new one is right, put its digest into target.sha256"
    return MeasureError(message, code="checksum", at="target.sha256", try_=try_)
