"""Record what a release of Kubernetes publishes about its API, as far as assay makes such objects.

    kubectl get --raw /openapi/v2 > openapi.json
    python scripts/kubernetes_schema.py openapi.json v1.20.2

The file may be what a server answers under /openapi/v2, or any other with the same definitions, such as the
`_definitions.json` of JSON Schemas made from it: the package kubernetes-validate of PyPI carries one for every release.
Written to tests/fixtures/kubernetes, without words, so that manifests can be checked against many releases without a
server.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).resolve().parent.parent / "tests" / "fixtures" / "kubernetes"
# What assay and its files under deploy/ make; what a release does not know is left out of its record.
KINDS = {
    "v1": ("ConfigMap", "Namespace", "PersistentVolumeClaim", "Pod", "Secret", "Service", "ServiceAccount"),
    "apps/v1": ("DaemonSet", "Deployment", "StatefulSet"),
    "autoscaling/v2": ("HorizontalPodAutoscaler",),
    "batch/v1": ("CronJob", "Job"),
    "networking.k8s.io/v1": ("Ingress", "NetworkPolicy"),
    "policy/v1": ("PodDisruptionBudget",),
    "rbac.authorization.k8s.io/v1": ("ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"),
}
_REFERENCE = re.compile(r"^.*#/(definitions|\$defs)/")
_KEPT = ("type", "format", "required", "enum", "pattern")
_MARK = "x-kubernetes-group-version-kind"


def record(published: dict[str, Any], version: str) -> dict[str, Any]:
    """What is kept of a release: its kinds, and the definitions that they lead to."""
    definitions = published.get("definitions") or published["$defs"]
    kinds = dict(sorted(_kinds(definitions)))
    kept: dict[str, Any] = {}
    waiting = list(kinds.values())
    while waiting:
        name = waiting.pop()
        if name not in kept:
            kept[name] = _bare(definitions[name])
            waiting += _leads_to(kept[name])
    return {"version": version, "kinds": kinds, "definitions": dict(sorted(kept.items()))}


def text_of(recorded: dict[str, Any]) -> str:
    """A record as a file: one line for each definition, so that two releases can be compared by line."""
    lines = [f"{json.dumps(name)}: {json.dumps(one, sort_keys=True)}" for name, one in recorded["definitions"].items()]
    head = f'{{"version": {json.dumps(recorded["version"])},\n"kinds": {json.dumps(recorded["kinds"])},\n'
    return head + '"definitions": {\n' + ",\n".join(lines) + "\n}}\n"


def _kinds(definitions: dict[str, Any]) -> Iterator[tuple[str, str]]:
    for name, one in definitions.items():
        for mark in one.get(_MARK) or ():
            version = "/".join(part for part in (mark["group"], mark["version"]) if part)
            if mark["kind"] in KINDS.get(version, ()):
                yield f"{version} {mark['kind']}", name


def _bare(schema: dict[str, Any]) -> dict[str, Any]:
    """A schema without its words."""
    if "$ref" in schema:
        return {"$ref": _REFERENCE.sub("#/definitions/", schema["$ref"])}
    bare = {key: schema[key] for key in _KEPT if key in schema}
    for key in ("oneOf", "anyOf", "allOf"):
        if key in schema:
            bare[key] = [_bare(one) for one in schema[key]]
    for key in ("items", "additionalProperties"):
        if key in schema:
            bare[key] = _bare(schema[key]) if isinstance(schema[key], dict) else schema[key]
    if "properties" in schema:
        bare["properties"] = {name: _bare(one) for name, one in sorted(schema["properties"].items())}
    return bare


def _leads_to(schema: object) -> Iterator[str]:
    if isinstance(schema, dict):
        if isinstance(reference := schema.get("$ref"), str):
            yield reference.removeprefix("#/definitions/")
        for part in schema.values():
            yield from _leads_to(part)
    elif isinstance(schema, list):
        for part in schema:
            yield from _leads_to(part)


def main(arguments: list[str]) -> int:
    """Record one release."""
    parser = argparse.ArgumentParser(description="Record the published API of a release of Kubernetes.")
    parser.add_argument("file", type=Path, help="what a server answers under /openapi/v2")
    parser.add_argument("version", help="such as v1.20.2")
    parser.add_argument("--out", type=Path, default=FOLDER, help="folder to write to")
    asked = parser.parse_args(arguments)
    recorded = record(json.loads(asked.file.read_text(encoding="utf-8")), asked.version)
    path = asked.out / f"{asked.version}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text_of(recorded), encoding="utf-8")
    sys.stdout.write(f"{path}: {len(recorded['kinds'])} kinds, {len(recorded['definitions'])} definitions\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
