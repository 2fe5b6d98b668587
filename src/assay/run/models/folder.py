"""A language model in a folder, on this machine or from the Hugging Face hub.

Which of its files count, what is refused, and one digest for all of them.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

from assay.errors import MeasureError, first_line
from assay.files import file_digest
from assay.run.models.graph import refuse_links_out
from assay.run.models.sources import LocalModel, Progress, mismatch, whole_digest
from assay.spec.target import ModelTarget
from assay.units import show_bytes

CONFIG = "config.json"
_INDEX = "model.safetensors.index.json"
_WEIGHTS = "model.safetensors"
# What lies beside the weights and changes what the model says: settings, tokenizer, chat template.
_BESIDE = ("*.json", "*.txt", "*.model", "*.jinja", "*.tiktoken")
_MODULES = "*_*/config.json"  # `1_Pooling/config.json`, as sentence-transformers writes it
_CODE = "*.py"
_PICKLES = ("*.bin", "*.pt", "*.pth", "*.ckpt", "*.pkl")


def resolve_folder(target: ModelTarget, base: Path, on_progress: Progress | None = None) -> LocalModel:
    """Make a language model available as a local folder, verified.

    Args:
        target: names a folder, the `config.json` in one, or a model of the Hugging Face hub.
    """
    folder, note = find_folder(target.model, base), ""
    source = str(folder)
    if folder is None:
        folder, source, note = from_hub(target, base, on_progress)
    names = parts_of(folder, code=target.remote_code)
    parts = [(digest_of(folder / name), name) for name in names]
    whole = whole_digest(parts)
    if target.sha256 is not None and target.sha256 != whole:
        raise mismatch(str(folder), target.sha256, whole)
    size = sum((folder / name).stat().st_size for name in names)
    return LocalModel(folder, whole, source, size, parts[0][0], tuple(names[1:]), note)


def find_folder(name: str, base: Path) -> Path | None:
    """The folder that a path names, by itself or by the `config.json` in it; None where there is none."""
    try:
        path = base / Path(name).expanduser()
    except RuntimeError:  # no such user's home folder
        return None
    if path.is_dir():
        return path.absolute()
    return path.parent.absolute() if path.name == CONFIG and path.is_file() else None


def parts_of(folder: Path, *, code: bool = False) -> tuple[str, ...]:
    """Names of the files that make the model, `config.json` first.

    Args:
        code: whether Python files beside the weights count, because they may run.
    """
    _check_config(folder)
    patterns = (*_BESIDE, _MODULES, *((_CODE,) if code else ()))
    candidates = {str(path.relative_to(folder).as_posix()) for pattern in patterns for path in folder.glob(pattern)}
    names = {name for name in candidates if (folder / name).is_file() and not name.startswith(".")}
    refuse_links_out(folder, sorted({CONFIG, _INDEX, *names}))  # before the index is read
    weights = weights_of(folder)
    refuse_links_out(folder, weights)
    return (CONFIG, *sorted((names | set(weights)) - {CONFIG}))


def weights_of(folder: Path) -> tuple[str, ...]:
    """Names of the safetensors files that hold the weights."""
    if (folder / _WEIGHTS).is_file():
        return (_WEIGHTS,)
    if not (folder / _INDEX).is_file():
        raise _no_weights(folder)
    try:
        listed = json.loads((folder / _INDEX).read_text(encoding="utf-8"))["weight_map"].values()
        names = tuple(sorted({str(name) for name in listed}))
    except (ValueError, KeyError, AttributeError, OSError) as problem:
        raise _refused(f"{folder / _INDEX} cannot be read: {problem!r}", "save the model again") from None
    for name in names:
        if Path(name).name != name or not (folder / name).is_file():
            message = f"{folder / _INDEX} names {name}, which is not in that folder"
            raise _refused(message, "put the missing weights there")
    return names


def digest_of(path: Path) -> str:
    """SHA-256 of a file of the model; read once per process, for weights are large."""
    stat = path.stat()
    return _hashed(path, stat.st_mtime_ns, stat.st_size)


@cache
def _hashed(path: Path, modified_ns: int, size: int) -> str:  # noqa: ARG001  (they make the cache forget a changed file)
    return file_digest(path)


def _check_config(folder: Path) -> None:
    if (folder / CONFIG).is_file():
        return
    if (folder / "adapter_config.json").is_file():
        message = f"{folder} holds an adapter, not a whole model"
        raise _refused(message, "merge it into its base model (merge_and_unload) and save that")
    raise _gguf(folder) or _refused(
        f"{folder} has no {CONFIG}, so it is no folder of a language model",
        "give the folder that save_pretrained wrote",
    )


def _no_weights(folder: Path) -> MeasureError:
    pickled = sorted(path.name for pattern in _PICKLES for path in folder.glob(pattern))
    if pickled:
        return _refused(
            f"{folder} has its weights in {pickled[0]}, a pickle file; loading one can run any code, so it is refused",
            "save them as safetensors: model.save_pretrained(folder)",
        )
    return _gguf(folder) or _refused(
        f"{folder} has neither {_WEIGHTS} nor {_INDEX}", "give the folder that save_pretrained wrote"
    )


def _gguf(folder: Path) -> MeasureError | None:
    files = sorted(path.name for path in folder.glob("*.gguf"))
    if not files:
        return None
    message = f"{folder} holds {files[0]}, which is in the format of llama.cpp"
    try_ = "start llama.cpp's server under services and measure it, or convert the weights to safetensors"
    return _refused(message, try_)


def _refused(message: str, try_: str) -> MeasureError:
    return MeasureError(message, code="model", at="target.model", try_=try_)


# Weights in safetensors alone: pickled ones are never loaded, so they are not fetched either.
_WANTED = [*_BESIDE, "model*.safetensors"]


def from_hub(target: ModelTarget, base: Path, on_progress: Progress | None) -> tuple[Path, str, str]:
    """The folder of a hub model, where it came from, and what the reader should know.

    A copy in the local cache is used without asking the network. Without one the model is fetched, as its name
    under `target.model` asks for; HF_HUB_OFFLINE=1 forbids it. Mirror, token and cache are those of the user's
    environment (HF_ENDPOINT, HF_TOKEN, HF_HOME).
    """
    hub, asked = _library(target.model, base), _snapshot(target)
    try:
        folder = Path(hub.snapshot_download(**asked, local_files_only=True))
        note = "from the local cache; the hub was not asked"
    except Exception:  # the library has many errors for "not here"
        folder, note = _fetched(hub, asked, target, base, on_progress), ""
    return folder, f"hub:{asked['repo_id']}@{folder.name}", note


def _snapshot(target: ModelTarget) -> dict[str, Any]:
    """What the library is asked for."""
    repo, _, revision = target.model.partition("@")
    wanted = [*_WANTED, *([_CODE] if target.remote_code else [])]
    return {"repo_id": repo, "revision": revision or None, "allow_patterns": wanted}


def is_in_hub_cache(target: ModelTarget, base: Path) -> bool:
    """Whether a model of the hub is in the local cache; the network is not asked."""
    try:
        _library(target.model, base).snapshot_download(**_snapshot(target), local_files_only=True)
    except Exception:  # the library has many errors for "not here", and may itself not be here
        return False
    return True


def _fetched(
    hub: Any,  # noqa: ANN401  (a module)
    asked: dict[str, Any],
    target: ModelTarget,
    base: Path,
    on_progress: Progress | None,
) -> Path:
    try:
        files = hub.snapshot_download(**asked, dry_run=True)
        size = sum(int(file.file_size or 0) for file in files)
        if on_progress is not None:
            on_progress(0, size)
        if size <= target.max_size:
            return Path(hub.snapshot_download(**asked))
    except Exception as problem:
        source = f"{base / target.model} is not a folder, and {target.model} is not available from the hub"
        message = f"{source}: {first_line(problem)}"
        try_ = "check the name and the network; with HF_HUB_OFFLINE=1 only models of the local cache are found"
        raise MeasureError(message, code="model", at="target.model", try_=try_) from None
    message = f"{target.model} has {show_bytes(size)}, above target.max_size of {show_bytes(target.max_size)}"
    raise MeasureError(message, code="model-size", at="target.max_size", try_="raise target.max_size")


def _library(name: str, base: Path) -> Any:  # noqa: ANN401  (a module)
    try:
        import huggingface_hub
    except ImportError:
        message = f"{base / name} is no folder, and the hub cannot be asked: huggingface_hub is not installed"
        try_ = "check the path, or pip install 'assay-bench[torch]'"
        raise MeasureError(message, code="model", at="target.model", try_=try_) from None
    return huggingface_hub
