"""What a file of PyTorch is, told from its table of contents before anything of it is loaded."""

from __future__ import annotations

import io
import json
import zipfile
from pathlib import Path
from typing import Literal

from assay.errors import MeasureError
from assay.run.torch_devices import library

# Places of pickled weights in archives of older versions.
_OLDER = ("data/weights/model.pt", "data/constants/model.pt")
_BYTES = ("weight_", "tensor_")
Kind = Literal["exported program", "TorchScript"]


def kind_of(path: Path) -> Kind:
    """Which kind of program a file holds.

    Raises:
        MeasureError: for anything else; a pickle above all, since loading one can run any code.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            return _kind(path, archive)
    except (OSError, zipfile.BadZipFile) as problem:
        raise _refused(f"{path.name} is no archive of PyTorch: {problem}", _EXPORT) from None


def _kind(path: Path, archive: zipfile.ZipFile) -> Kind:
    whole = archive.namelist()
    # The first folder of every name is the name that the file once had; two would hide one behind the other.
    names = {name.partition("/")[2]: name for name in whole}
    is_odd = len({name.partition("/")[0] for name in whole}) != 1 or len(names) < len(whole)
    if "serialized_exported_program.json" in whole or any(name in names for name in _OLDER):
        raise _refused(f"{path.name} is an exported program of an older PyTorch", "export it again")
    if "archive_format" in names and not is_odd:
        _check_exported(path, archive, names)
        return "exported program"
    if "constants.pkl" in names and any(name.startswith("code/") for name in names) and not is_odd:
        return "TorchScript"
    raise _refused(
        f"{path.name} was written by torch.save: it holds pickled weights or a pickled module, and no program; "
        "loading a pickle can run any code, so it is refused",
        _EXPORT,
    )


_EXPORT = "torch.export.save(torch.export.export(model.eval(), example_inputs), 'model.pt2')"


def _check_exported(path: Path, archive: zipfile.ZipFile, names: dict[str, str]) -> None:
    """Refuse what would be unpickled or is machine code."""
    if "models/model.json" not in names:
        compiled = any(name.startswith("data/aotinductor/") for name in names)
        what = "compiled machine code and no exported program" if compiled else "no program called model"
        raise _refused(f"{path.name} holds {what}", _EXPORT)
    for name, whole in names.items():
        if name.endswith("_config.json") and _pickled(archive.read(whole)):
            raise _refused(
                f"{path.name} holds pickled tensors or objects ({name}); loading them can run any code", _EXPORT
            )
    sample = names.get("data/sample_inputs/model.pt")
    if sample is not None and (content := archive.read(sample)):
        try:
            library().load(io.BytesIO(content), weights_only=True)
        except Exception:  # PyTorch would fall back to a plain pickle here
            raise _refused(f"the example inputs of {path.name} are no plain tensors and numbers", _EXPORT) from None


def _pickled(config: bytes) -> bool:
    """Whether a table of weights or constants names anything but the bytes of tensors."""
    try:
        entries = list(json.loads(config)["config"].values())
        return any(one["use_pickle"] or not str(one["path_name"]).startswith(_BYTES) for one in entries)
    except (ValueError, KeyError, TypeError, AttributeError):
        return True  # not as PyTorch writes it, so nothing is known about it


def _refused(message: str, try_: str) -> MeasureError:
    return MeasureError(message, code="model", at="target.model", try_=try_)
