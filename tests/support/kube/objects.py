"""What the Kubernetes API server of the tests knows: objects with versions, what has changed, and which match."""

from __future__ import annotations

import copy
import re
import secrets
import threading
import uuid
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from time import monotonic
from typing import Any

Object = dict[str, Any]

# Resource → kind.
KINDS = {
    "pods": "Pod", "services": "Service", "configmaps": "ConfigMap", "secrets": "Secret", "events": "Event",
    "jobs": "Job", "deployments": "Deployment", "nodes": "Node", "namespaces": "Namespace", "leases": "Lease",
    "selfsubjectaccessreviews": "SelfSubjectAccessReview", "priorityclasses": "PriorityClass",
    "persistentvolumeclaims": "PersistentVolumeClaim", "resourcequotas": "ResourceQuota",
}  # fmt: skip
_NAME = re.compile(r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$")
_LABEL = re.compile(r"^(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?$")
_LARGEST_MAP = 1_048_576


class RefusedError(Exception):
    """What the server answers in place of an object."""

    def __init__(self, code: int, reason: str, message: str) -> None:
        super().__init__(message)
        self.code, self.reason = code, reason

    @property
    def status(self) -> Object:
        return {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": str(self),
            "reason": self.reason,
            "code": self.code,
        }


def now(after_s: float = 0.0) -> str:
    """The time as Kubernetes writes it, in whole seconds."""
    return (datetime.now(UTC) + timedelta(seconds=after_s)).strftime("%Y-%m-%dT%H:%M:%SZ")


class Objects:
    """Everything that the server knows, and what has changed."""

    def __init__(self, kept: int = 10_000) -> None:
        self.changed = threading.Condition(threading.RLock())
        self._objects: dict[tuple[str, str, str], Object] = {}
        self._history: deque[tuple[int, str, str, Object]] = deque(maxlen=kept)
        self._version = 100
        self._oldest = 0

    @property
    def version(self) -> int:
        """The version of the newest change."""
        return self._version

    def create(self, resource: str, namespace: str, given: Object) -> Object:
        """Keep a new object, with the fields that the server sets itself."""
        one = copy.deepcopy(given)
        meta = one.setdefault("metadata", {})
        if not meta.get("name"):
            meta["name"] = f"{meta.get('generateName', '')}{secrets.token_hex(3)[:5]}"
        _check(resource, one)
        with self.changed:
            if (resource, namespace, meta["name"]) in self._objects:
                raise RefusedError(409, "AlreadyExists", f'{resource} "{meta["name"]}" already exists')
            meta.update(uid=str(uuid.uuid4()), creationTimestamp=now(), namespace=namespace)
            one.setdefault("kind", KINDS[resource])
            self._objects[resource, namespace, meta["name"]] = one
            return self._note("ADDED", resource, one)

    def get(self, resource: str, namespace: str, name: str) -> Object:
        """One object."""
        with self.changed:
            found = self._objects.get((resource, namespace, name))
            if found is None:
                raise RefusedError(404, "NotFound", f'{resource} "{name}" not found')
            return copy.deepcopy(found)

    def find(self, resource: str, namespace: str = "", name: str = "") -> Object | None:
        """One object, or None."""
        with suppress(RefusedError):
            return self.get(resource, namespace, name)
        return None

    def all(self, resource: str, namespace: str = "", matches: Callable[[Object], bool] | None = None) -> list[Object]:
        """Objects of a kind, of one namespace or of all; by name."""
        with self.changed:
            found = [
                copy.deepcopy(one)
                for (kind, place, _), one in self._objects.items()
                if kind == resource and namespace in ("", place)
            ]
        return sorted(
            (one for one in found if matches is None or matches(one)), key=lambda one: one["metadata"]["name"]
        )

    def change(self, resource: str, namespace: str, name: str, act: Callable[[Object], None]) -> Object | None:
        """Change an object in place; None where it is gone."""
        with self.changed:
            found = self._objects.get((resource, namespace, name))
            if found is None:
                return None
            before = copy.deepcopy(found)
            act(found)
            if found == before:
                return copy.deepcopy(found)
            return self._note("MODIFIED", resource, found)

    def remove(self, resource: str, namespace: str, name: str) -> Object | None:
        """Forget an object."""
        with self.changed:
            found = self._objects.pop((resource, namespace, name), None)
            return None if found is None else self._note("DELETED", resource, found)

    def compact(self) -> None:
        """Forget what has changed until now: watches from before must list again."""
        with self.changed:
            self._history.clear()
            self._oldest = self._version

    def changes(self, resource: str, namespace: str, since: int, until_s: float) -> Iterator[tuple[str, Object] | None]:
        """What changed after a version, as it changes; None now and then, so that the reader can look around."""
        last = since
        while True:
            with self.changed:
                oldest = self._history[0][0] - 1 if self._history and self._is_full() else self._oldest
                if last < oldest:
                    raise RefusedError(410, "Expired", f"too old resource version: {last} ({oldest})")
                found = [
                    (version, kind, copy.deepcopy(one))
                    for version, kind, own, one in self._history
                    if version > last and own == resource and namespace in ("", one["metadata"].get("namespace"))
                ]
                last = max(last, self._version)
                if not found:
                    self.changed.wait(min(0.2, max(0.0, until_s - monotonic())))
            for _, kind, one in found:
                yield kind, one
            if monotonic() >= until_s:
                return
            yield None

    def _is_full(self) -> bool:
        return len(self._history) == self._history.maxlen

    def _note(self, kind: str, resource: str, one: Object) -> Object:
        self._version += 1
        one["metadata"]["resourceVersion"] = str(self._version)
        told = copy.deepcopy(one)
        self._history.append((self._version, kind, resource, told))
        self.changed.notify_all()
        return copy.deepcopy(told)


def _check(resource: str, one: Object) -> None:
    """Refuse what the real server refuses: odd names, odd labels, maps that are too large."""
    meta = one["metadata"]
    most = 63 if resource in ("services", "pods") else 253
    if not _NAME.match(meta["name"]) or len(meta["name"]) > most:
        raise RefusedError(
            422, "Invalid", f'{KINDS[resource]} "{meta["name"]}" is invalid: metadata.name: Invalid value'
        )
    templates = [one, one.get("spec", {}).get("template", {}) if isinstance(one.get("spec"), dict) else {}]
    for labels in ((part.get("metadata") or {}).get("labels") or {} for part in templates):
        for key, value in labels.items():
            if not isinstance(value, str) or len(value) > 63 or not _LABEL.match(value) or len(key) > 317:
                raise RefusedError(422, "Invalid", f"metadata.labels: Invalid value: {key}={value!r}")
    if resource in ("configmaps", "secrets"):
        size = sum(len(str(value)) for part in ("data", "binaryData") for value in (one.get(part) or {}).values())
        if size > _LARGEST_MAP:
            raise RefusedError(422, "Invalid", f"[]: Too long: must have at most {_LARGEST_MAP} bytes")


def labels_match(selector: str, one: Object) -> bool:
    """Whether the labels of an object fit a selector as `kubectl -l` takes it."""
    labels = one["metadata"].get("labels") or {}
    for part in re.split(r",(?![^()]*\))", selector):
        if not part.strip():
            continue
        if many := re.fullmatch(r"\s*(\S+) (in|notin) \(([^)]*)\)\s*", part):
            inside = labels.get(many[1]) in [value.strip() for value in many[3].split(",")]
            if inside != (many[2] == "in"):
                return False
        elif "!=" in part:
            key, _, value = part.partition("!=")
            if labels.get(key.strip()) == value.strip():
                return False
        elif "=" in part:
            key, _, value = part.replace("==", "=").partition("=")
            if labels.get(key.strip()) != value.strip():
                return False
        elif (part.strip().removeprefix("!") in labels) == part.strip().startswith("!"):
            return False
    return True


def fields_match(selector: str, one: Object) -> bool:
    """The same for fields, such as `involvedObject.name=x`."""
    for part in filter(None, selector.split(",")):
        key, _, value = part.replace("==", "=").partition("=")
        found: Any = one
        for step in key.removesuffix("!").split("."):
            found = found.get(step) if isinstance(found, dict) else None
        if ((found or "") == value) == key.endswith("!"):
            return False
    return True


def merged(old: Any, new: Any) -> Any:
    """A JSON merge patch."""
    if not isinstance(new, dict):
        return new
    found = dict(old) if isinstance(old, dict) else {}
    for key, value in new.items():
        if value is None:
            found.pop(key, None)
        else:
            found[key] = merged(found.get(key), value)
    return found


_UNITS = {"Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "m": 1e-3, "": 1}


def amount(text: object) -> float:
    """A quantity of Kubernetes as a number."""
    match = re.fullmatch(r"([0-9.eE+-]+?)([KMGT]i|[kMGTm]|)", str(text))
    assert match, text
    return float(match[1]) * _UNITS[match[2]]


def tell_event(objects: Objects, about: Object, reason: str, message: str, kind: str = "Warning") -> None:
    """Keep an event about an object; the same one again only counts."""
    meta = about["metadata"]
    known = [
        one
        for one in objects.all("events", meta["namespace"])
        if one["involvedObject"]["uid"] == meta["uid"] and (one["reason"], one["message"]) == (reason, message)
    ]
    if known:
        again = {"count": known[0]["count"] + 1, "lastTimestamp": now()}
        objects.change("events", meta["namespace"], known[0]["metadata"]["name"], lambda one: one.update(again))
        return
    objects.create(
        "events",
        meta["namespace"],
        {
            "metadata": {"generateName": f"{meta['name']}."},
            "involvedObject": {"kind": about["kind"], **{key: meta[key] for key in ("name", "namespace", "uid")}},
            "reason": reason,
            "message": message,
            "type": kind,
            "count": 1,
            "firstTimestamp": now(),
            "lastTimestamp": now(),
            "source": {"component": "test"},
        },
    )
