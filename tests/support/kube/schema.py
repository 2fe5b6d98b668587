"""What the published API of Kubernetes says of an object, as `scripts/kubernetes_schema.py` recorded it by release.

A server takes more than its API names: it drops unknown fields without a word, and they then do nothing. So they count
as problems here, as does every field of a later release.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from jsonschema import Draft4Validator

FOLDER = Path(__file__).parents[2] / "fixtures" / "kubernetes"
# Sizes such as 500Mi and ports by name or number: the API calls them texts, and takes numbers as well.
_LOOSE = ("io.k8s.apimachinery.pkg.api.resource.Quantity", "io.k8s.apimachinery.pkg.util.intstr.IntOrString")


def minor_of(release: str) -> int:
    """20 for `v1.20.2`."""
    found = re.match(r"v1\.(\d+)", release)
    assert found is not None, release
    return int(found[1])


RELEASES = tuple(sorted((path.stem for path in FOLDER.glob("v*.json")), key=minor_of))


def problems(thing: Mapping[str, Any], release: str) -> list[str]:
    """What one release would refuse or drop of an object: unknown and missing fields, wrong types.

    Args:
        thing: the object.
        release: one of RELEASES.
    """
    recorded = _read(release)
    kind = f"{thing.get('apiVersion')} {thing.get('kind')}"
    if kind not in recorded["kinds"]:
        return [f"{release} has no {kind}"]
    whole = {"$ref": f"#/definitions/{recorded['kinds'][kind]}"}
    schema = {"allOf": [whole], "definitions": recorded["definitions"]}
    found = Draft4Validator(schema).iter_errors(json.loads(json.dumps(thing)))
    return sorted(f"{'.'.join(str(step) for step in one.absolute_path)}: {one.message}" for one in found)


@cache
def _read(release: str) -> dict[str, Any]:
    recorded: dict[str, Any] = json.loads((FOLDER / f"{release}.json").read_text(encoding="utf-8"))
    for name, one in recorded["definitions"].items():
        if name in _LOOSE:
            one.clear()
            one["type"] = ["string", "number"]
        elif "properties" in one:
            one["additionalProperties"] = False
    return recorded
