"""From what a user wrote under `target.model` to a verified local file."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from assay.errors import MeasureError, UsageError
from assay.run.models.builtin import BUILTIN_NAMES, is_path, materialise
from assay.run.models.cache import file_digest, mismatch, whole_digest
from assay.run.models.graph import external_files
from assay.spec.target import ModelTarget, Target

Progress = Callable[[int, int | None], None]  # bytes so far, bytes in all where known

_SCHEMES = ("http", "https")
# Their models are files; any other runtime may be given a folder, or the name of one on the Hugging Face hub.
_FILE_RUNTIMES = ("onnxruntime", "torch")
_HUB_NAME = re.compile(r"^[\w.-]+/[\w.-]+(@[\w./-]+)?$")


@dataclass(frozen=True, slots=True)
class LocalModel:
    """A model on this machine, verified."""

    path: Path
    sha256: str  # of the file, or of the whole where weights lie in files beside it: see `whole_digest`
    source: str  # what it was made from, without secrets
    size_bytes: int  # with the files beside it
    file_sha256: str = ""  # of the model file alone
    external: tuple[str, ...] = ()  # files beside the model that hold its weights
    note: str = ""  # what the reader should know, such as that the network could not be asked


def resolve(target: ModelTarget, base: Path, *, cache: Path, on_progress: Progress | None = None) -> LocalModel:
    """Make a model available as a local file.

    Raises:
        MeasureError: when the model cannot be had, or differs from its digest.
        UsageError: when the source makes no sense.
    """
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
        raise UsageError(
            f"{scheme}:// is not supported for a model; got {url!r}",
            code="model",
            at="target.model",
            try_="give a path, an http(s) URL or a name from `assay models`",
        )
    if "${env:" not in url and not _has_host(url):  # a reference is resolved later
        raise UsageError(
            "the URL has no sound host and port", code="model", at="target.model", try_="check it for a slip"
        )


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
        raise MeasureError(
            f"{path.name} keeps weights in {absent[0]}, which is not beside it in {path.parent}",
            code="model",
            at="target.model",
            try_=f"put {', '.join(absent)} into {path.parent}",
        )
    try:
        own = file_digest(path)
        parts = [(own, path.name)] + [(file_digest(path.parent / name), name) for name in external]
        size = sum((path.parent / name).stat().st_size for _, name in parts)
    except OSError as problem:
        raise MeasureError(
            f"{path} cannot be read: {problem.strerror or problem}",
            code="model",
            at="target.model",
            try_="check the permissions",
        ) from None
    whole = whole_digest(parts) if external else own
    if expected is not None and expected not in (own, whole):
        raise mismatch(str(path), expected, own)
    return LocalModel(path, whole, source, size, own, external, note)


def existing(name: str, base: Path) -> Path:
    """The file that a path names.

    Raises:
        MeasureError: if there is none, with what may have been meant.
    """
    path = Path(name).expanduser()
    path = path if path.is_absolute() else base / path
    if path.is_file():
        return path.absolute()  # not resolved: weights lie beside a link, not beside what it points to
    if path.is_dir():
        models = sorted(one.name for one in path.glob("*.onnx"))
        hint = f"name the file: {', '.join(models[:5])}" if models else "give the path of a model file"
        raise MeasureError(f"{path} is a folder", code="model", at="target.model", try_=hint)
    raise MeasureError(f"{path} does not exist", code="model", at="target.model", try_=_nearest(path))


def _nearest(path: Path) -> str:
    """The nearest existing file of that folder, or built-in name."""
    if not path.parent.is_dir():
        return f"the folder {path.parent} does not exist either; a relative path starts from the benchmark file"
    here = [one.name for one in path.parent.iterdir() if one.is_file()]
    close = difflib.get_close_matches(path.name, here, n=1)
    if close:
        return f"did you mean {close[0]}?"
    built_in = difflib.get_close_matches(path.stem, BUILTIN_NAMES, n=1)
    if built_in:
        return f"did you mean the built-in model {built_in[0]}?"
    models = sorted(one for one in here if one.endswith((".onnx", ".ort")))
    beside = f"in that folder: {', '.join(models[:5])}; " if models else ""
    return f"{beside}built-in models: {', '.join(BUILTIN_NAMES)}"
