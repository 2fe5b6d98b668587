"""The protocols that served targets speak: ours, and those that other packages register under `assay.apis`."""

from __future__ import annotations

from assay.errors import MeasureError
from assay.plugins import find_plugin, plugin_names
from assay.run.apis.contract import Call, ServedApi, wire_path
from assay.spec.target import APIS, VECTORS, Served

__all__ = ["Call", "ServedApi", "find_api", "find_protocol", "wire_path"]


def find_protocol(name: str) -> type[ServedApi] | None:
    """The protocol of a name; None where no installed package registers it."""
    entry = find_plugin(name, APIS, VECTORS)
    return entry.load() if entry is not None and entry.group == APIS else None


def find_api(target: Served, seed: int) -> ServedApi:
    """The protocol of a target, ready to build its requests and read its answers."""
    protocol = find_protocol(target.api)
    if protocol is None:
        message = f"target.api is {target.api!r}, which is no protocol for prompts"
        try_ = f"use one of {', '.join(plugin_names(APIS))}, or install a package that registers it under {APIS}"
        raise MeasureError(message, code="target", at="target.api", try_=try_)
    return protocol(target, seed)
