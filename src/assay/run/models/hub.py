"""A model of the Hugging Face hub: the copy that this machine keeps, or a download that the user asked for by name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from assay.errors import MeasureError
from assay.run.models.sources import Progress
from assay.spec.target import ModelTarget
from assay.units import show_bytes

# Weights in safetensors alone: pickled ones are never loaded, so they are not fetched either.
_WANTED = ["*.json", "*.txt", "*.model", "*.jinja", "*.tiktoken", "model*.safetensors"]


def from_hub(target: ModelTarget, base: Path, on_progress: Progress | None) -> tuple[Path, str, str]:
    """The folder of a hub model, where it came from, and what the reader should know.

    A copy in the local cache is used without asking the network. Without one the model is fetched, as its name
    under `target.model` asks for; HF_HUB_OFFLINE=1 forbids it. Mirror, token and cache are those of the user's
    environment (HF_ENDPOINT, HF_TOKEN, HF_HOME).

    Raises:
        MeasureError: when it is neither here nor can be fetched.
    """
    repo, _, revision = target.model.partition("@")
    hub = _library(target.model, base)
    wanted = [*_WANTED, *(["*.py"] if target.remote_code else [])]
    asked: dict[str, Any] = {"repo_id": repo, "revision": revision or None, "allow_patterns": wanted}
    try:
        folder = Path(hub.snapshot_download(**asked, local_files_only=True))
        note = "from the local cache; the hub was not asked"
    except Exception:  # the library has many errors for "not here"
        folder, note = _fetched(hub, asked, target, base, on_progress), ""
    return folder, f"hub:{repo}@{folder.name}", note


def is_here(target: ModelTarget, base: Path) -> bool:
    """Whether a model of the hub is in the local cache; the network is not asked."""
    repo, _, revision = target.model.partition("@")
    try:
        wanted = [*_WANTED, *(["*.py"] if target.remote_code else [])]
        _library(target.model, base).snapshot_download(
            repo_id=repo, revision=revision or None, allow_patterns=wanted, local_files_only=True
        )
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
        reason = next(iter(str(problem).strip().splitlines()), type(problem).__name__)
        raise MeasureError(
            f"{base / target.model} is no folder, and {target.model} cannot be had from the hub: {reason}",
            code="model",
            at="target.model",
            try_="check the name and the network; with HF_HUB_OFFLINE=1 only models of the local cache are found",
        ) from None
    raise MeasureError(
        f"{target.model} has {show_bytes(size)}, above target.max_size of {show_bytes(target.max_size)}",
        code="model-size",
        at="target.max_size",
        try_="raise target.max_size",
    )


def _library(name: str, base: Path) -> Any:  # noqa: ANN401  (a module)
    try:
        import huggingface_hub
    except ImportError:
        raise MeasureError(
            f"{base / name} is no folder, and the hub cannot be asked: huggingface_hub is not installed",
            code="model",
            at="target.model",
            try_="check the path, or pip install 'assay-bench[torch]'",
        ) from None
    return huggingface_hub
