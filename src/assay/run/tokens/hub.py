"""A tokenizer by its name on the Hugging Face hub."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from pathlib import Path

from assay.errors import MeasureError
from assay.run.models.sources import is_hub_name

_FILE = "tokenizer.json"


def hub_tokenizer(name: str) -> Path | None:
    """The `tokenizer.json` of a model on the hub, from the local cache or else fetched; None for what is no name there.

    Mirror, token and cache are those of the user's environment (HF_ENDPOINT, HF_TOKEN, HF_HOME).
    """
    if "/" not in name or not is_hub_name(name):
        return None
    try:
        import huggingface_hub as hub
    except ImportError:
        message = f"{name} is no file here, and the hub cannot be asked: huggingface_hub is not installed"
        raise _refused(message, "check the path, or pip install 'assay-bench[llm]'") from None
    repo, _, revision = name.partition("@")
    fetch = partial(hub.hf_hub_download, repo, _FILE, revision=revision or None)
    with suppress(Exception):  # the library has many errors for "not here"
        return Path(fetch(local_files_only=True))
    try:
        return Path(fetch())
    except Exception as problem:
        reason = next(iter(str(problem).strip().splitlines()), type(problem).__name__)
        message = f"{name} is no file here, and its {_FILE} cannot be fetched from the hub: {reason}"
        raise _refused(message, "check the name and the network, or give a folder or a tokenizer.json") from None


def _refused(message: str, hint: str) -> MeasureError:
    return MeasureError(message, code="tokenizer", at="--tokenizer", try_=hint)
