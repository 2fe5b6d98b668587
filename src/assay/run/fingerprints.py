"""Content behind the paths of a definition, hashed: a changed file is a changed job."""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path

from assay.run.models.builtin import BUILTIN_NAMES
from assay.run.models.digest import whole_digest
from assay.run.models.graph import outline_or_none
from assay.run.targets.program import words_of
from assay.spec.benchmark import Definition
from assay.spec.target import CommandTarget, ModelTarget

# A larger file on a command line is its data, not its code; hashing it would hold up every plan.
MAX_COMMAND_FILE = 64 * 2**20


def fingerprints(definition: Definition, base: Path) -> dict[str, str]:
    """Text in the definition that names a file → SHA-256 of the file.

    A file that is not there has no fingerprint; measuring it will say so.
    """
    names = [entry.file for entry in definition.workload.inputs.values() if entry.file]
    found = {name: digest for name in names if (digest := _hashed(base / name)) is not None}
    target = definition.target
    if isinstance(target, ModelTarget):
        found |= _model_files(target.model, base)
    if isinstance(target, CommandTarget):
        found |= _command_files(target, base / target.cwd if target.cwd else base)
    return found


def _model_files(name: str, base: Path) -> dict[str, str]:
    """The model file with the weights that lie beside it; a built-in name is no file, whatever lies in the folder."""
    path = base / Path(name).expanduser()
    own = None if name in BUILTIN_NAMES or "://" in name else _hashed(path)
    if own is None:
        return {}
    outline = outline_or_none(path)
    beside = outline.external if outline else ()
    weights = [(digest, one) for one in beside if (digest := _hashed(path.parent / one)) is not None]
    return {name: whole_digest([(own, path.name), *weights]) if weights else own}


def _command_files(target: CommandTarget, folder: Path) -> dict[str, str]:
    """Scripts and small files that the command names: `python train.py` depends on train.py."""
    words = [word for word in words_of(target)[1 if not target.shell else 0 :] if not word.startswith("-")]
    files = {word: folder / word for word in words}
    return {
        word: digest for word, path in files.items() if _is_small_file(path) and (digest := _hashed(path)) is not None
    }


def _is_small_file(path: Path) -> bool:
    try:
        return path.is_file() and path.stat().st_size <= MAX_COMMAND_FILE
    except (OSError, ValueError):
        return False


def _hashed(path: Path) -> str | None:
    try:
        stat = path.stat()
        return _hash_file(path, stat.st_mtime_ns, stat.st_size) if path.is_file() else None
    except (OSError, ValueError):  # ValueError: a command word with a NUL is no path
        return None


@cache
def _hash_file(path: Path, modified_ns: int, size: int) -> str:  # noqa: ARG001  (they make the cache forget a changed file)
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
