"""The content digest of a job: same meaning, same digest, whatever the spelling."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from assay.spec.benchmark import Definition
from assay.spec.paths import FILE_KEYS

# Part of every digest: raised when the meaning of the same definition changes.
DIGEST_VERSION = 1


def digest_of(definition: Definition, fingerprints: Mapping[str, str]) -> str:
    """Hash what a job measures.

    Defaults do not count (a key given its default means the same as a key left out), nor do key order, unit
    spelling or file format: all of these are gone after parsing. Files count by content, not by path. Prices of
    machines do not count either.

    Args:
        fingerprints: text in the definition (a path, a command) → SHA-256 of the content behind it.
    """
    meaning = definition.model_dump(mode="json", exclude_defaults=True)
    meaning.pop("prices", None)  # what a machine costs changes no measurement
    meaning["files"] = sorted(set(fingerprints.values()))
    _forget_paths(meaning, fingerprints)
    return content_hash({"version": DIGEST_VERSION, "definition": meaning})


def content_hash(value: object) -> str:
    """SHA-256 of a value's canonical JSON."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()


def _forget_paths(meaning: dict[str, Any], fingerprints: Mapping[str, str]) -> None:
    target = meaning.get("target", {})
    if target.get("model") in fingerprints:
        target["model"] = fingerprints[target["model"]]
        target.pop("sha256", None)
    for entry in meaning.get("workload", {}).get("inputs", {}).values():
        if isinstance(entry, dict) and entry.get("file") in fingerprints:
            entry["file"] = fingerprints[entry["file"]]
    for wanted in _fetches(meaning):
        if wanted.get("src") in fingerprints:
            wanted["src"] = fingerprints[wanted["src"]]
    for key in FILE_KEYS:
        *parts, last = key.split(".")
        section: Any = meaning
        for part in parts:
            section = section.get(part, {})
        if section.get(last) in fingerprints:
            section[last] = fingerprints[section[last]]


def _fetches(meaning: Mapping[str, Any]) -> list[dict[str, Any]]:
    owners = [meaning.get("target", {}), *meaning.get("services", {}).values()]
    return [wanted for owner in owners for wanted in owner.get("fetch", ())]
