"""Clusters by name: what a person or a site writes down once, so that benchmark files need not repeat it.

`clusters.yaml` in the user's configuration folder (or the file that ASSAY_CLUSTERS names) holds one section for each
cluster, with the keys of `place.slurm`.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path

from pydantic import JsonValue, ValidationError

from assay.errors import UsageError
from assay.files import write_whole
from assay.spec.slurm import Slurm, merged
from assay.spec.source import parse

VARIABLE = "ASSAY_CLUSTERS"
_MODE = 0o600


def registry_file() -> Path:
    """The file of the clusters that are known by name."""
    if os.environ.get(VARIABLE):
        return Path(os.environ[VARIABLE]).expanduser().absolute()
    import platformdirs

    return Path(platformdirs.user_config_dir("assay", appauthor=False)) / "clusters.yaml"


def clusters() -> dict[str, Slurm]:
    """Every cluster that is known by name.

    Raises:
        UsageError: if the file is wrong, with the place.
    """
    return {name: _section(name, section) for name, section in _read().items()}


def cluster(name: str) -> Slurm:
    """One cluster.

    Raises:
        UsageError: if there is none of that name.
    """
    known = clusters()
    if name not in known:
        raise UsageError(
            f"no cluster is called {name!r}" + (f" (there is {', '.join(known)})" if known else ""),
            code="no-cluster",
            at=str(registry_file()),
            try_=f"assay clusters add {name} --set partition=NAME",
        )
    return known[name]


def resolved(slurm: Slurm | None) -> Slurm:
    """A section with the settings of the cluster that it names, where it is silent."""
    own = slurm or Slurm()
    if own.cluster is None:
        return own
    known = merged(cluster(own.cluster), own)
    base = cluster(own.cluster).each
    return known.model_copy(update={"each": {**base, **own.each}}) if base else known


def add(name: str, section: Mapping[str, JsonValue]) -> Slurm:
    """Write a cluster down; one of the same name is replaced.

    Raises:
        UsageError: if the section is wrong.
    """
    if not name or not name.replace("-", "").replace("_", "").replace(".", "").isalnum():
        raise UsageError(f"{name!r} is no name for a cluster: letters, digits, _ . and - only", code="name")
    found = _section(name, section)
    _write({**_read(), name: dict(section)})
    return found


def remove(name: str) -> None:
    """Forget a cluster.

    Raises:
        UsageError: if there is none of that name.
    """
    cluster(name)
    _write({known: section for known, section in _read().items() if known != name})


def _read() -> dict[str, dict[str, JsonValue]]:
    path = registry_file()
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return {}
    except OSError as problem:
        raise UsageError(f"cannot read the clusters: {problem.strerror}", code="no-file", at=str(path)) from None
    document = parse(text, ".yaml", str(path)).document if text.strip() else {}
    wrong = next((name for name, section in document.items() if not isinstance(section, dict | None)), None)
    if wrong is not None:
        raise UsageError(
            f"{wrong} is no section", code="cluster", at=str(path), try_="write the keys of place.slurm under each name"
        )
    return {name: section if isinstance(section, dict) else {} for name, section in document.items()}


def _section(name: str, section: Mapping[str, JsonValue]) -> Slurm:
    at = f"{registry_file()}: {name}"
    try:
        found = Slurm.model_validate_json(json.dumps(section))
    except ValidationError as invalid:
        first = invalid.errors()[0]
        place = ".".join(map(str, first["loc"]))
        raise UsageError(
            f"{place}: {first['msg']}",
            code="cluster",
            at=at,
            try_="use the keys of place.slurm; `assay schema` lists them",
        ) from None
    if found.cluster is not None:
        raise UsageError("a cluster cannot name another cluster", code="cluster", at=at, try_="remove the key cluster")
    if found.has_open_token:
        raise UsageError("rest_token holds the token itself", code="secret", at=at, try_="write ${env:SLURM_JWT}")
    return found


def _write(sections: Mapping[str, Mapping[str, JsonValue]]) -> None:
    path = registry_file()
    lines = []
    for name, section in sections.items():
        lines.append(f"{json.dumps(name)}:" + ("" if section else " {}"))
        # JSON is YAML: nothing that somebody writes can be read as something else.
        lines += [f"  {key}: {json.dumps(value, ensure_ascii=False)}" for key, value in section.items()]
    text = "\n".join([*lines, ""])
    try:
        write_whole(path, text.encode(), mode=_MODE)
    except OSError as problem:
        raise UsageError(f"cannot write the clusters: {problem.strerror}", code="no-file", at=str(path)) from None
