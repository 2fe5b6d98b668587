"""A language model in a folder: which of its files count, what is refused, and one digest for all of them."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

from assay.errors import MeasureError
from assay.run.models.beside import refuse_links_out
from assay.run.models.digest import file_digest, mismatch, whole_digest
from assay.run.models.sources import LocalModel, Progress
from assay.spec.target import ModelTarget

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

    Raises:
        MeasureError: when the folder holds no model that may be loaded, or differs from its digest.
    """
    folder, note = find_folder(target.model, base), ""
    source = str(folder)
    if folder is None:
        from assay.run.models.hub import from_hub

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
    except RuntimeError:  # the home folder of nobody
        return None
    if path.is_dir():
        return path.absolute()
    return path.parent.absolute() if path.name == CONFIG and path.is_file() else None


def parts_of(folder: Path, *, code: bool = False) -> tuple[str, ...]:
    """Names of the files that make the model, `config.json` first.

    Args:
        code: whether Python files beside the weights count, because they may run.

    Raises:
        MeasureError: when the folder holds no weights that may be loaded, or a file of it is a link to elsewhere.
    """
    _check_config(folder)
    patterns = (*_BESIDE, _MODULES, *((_CODE,) if code else ()))
    found = {str(path.relative_to(folder).as_posix()) for pattern in patterns for path in folder.glob(pattern)}
    names = {name for name in found if (folder / name).is_file() and not name.startswith(".")}
    refuse_links_out(folder, sorted({CONFIG, _INDEX, *names}))  # before the index is read
    weights = weights_of(folder)
    refuse_links_out(folder, weights)
    return (CONFIG, *sorted((names | set(weights)) - {CONFIG}))


def weights_of(folder: Path) -> tuple[str, ...]:
    """Names of the safetensors files that hold the weights.

    Raises:
        MeasureError: when there are none, or one that the index names is missing.
    """
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
            raise _refused(
                f"{folder / _INDEX} names {name}, which is not in that folder", "put the missing weights there"
            )
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
        raise _refused(
            f"{folder} holds an adapter, not a whole model",
            "merge it into its base model (merge_and_unload) and save that",
        )
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
    return _refused(
        f"{folder} holds {files[0]}, which is in the format of llama.cpp",
        "start llama.cpp's server under services and measure it, or convert the weights to safetensors",
    )


def _refused(message: str, try_: str) -> MeasureError:
    return MeasureError(message, code="model", at="target.model", try_=try_)
