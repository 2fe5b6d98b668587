"""What a container of the tests finds inside: folders of volumes, variables, a command line that this machine runs."""

from __future__ import annotations

import base64
import os
import re
import sys
from pathlib import Path

from tests.support.kube.objects import Object, Objects, RefusedError

MARK = "KUBE_POD"
_FILLED = re.compile(r"\$(?:(\$)|\(([A-Za-z0-9_.-]+)\))")
# Names of services and pods are known to no resolver of this machine: Python in a pod asks a file instead.
RESOLVER = """\
import json, os, socket
_real = socket.getaddrinfo
def getaddrinfo(host, *more, **named):
    name = host.decode() if isinstance(host, bytes) else host
    if isinstance(name, str):
        with open(os.environ["KUBE_HOSTS"]) as file:
            known = json.load(file)
        short = name.rstrip(".").removesuffix(".cluster.local")
        if short in known:
            host = known[short]
        elif short.endswith(".svc"):
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
    return _real(host, *more, **named)
socket.getaddrinfo = getaddrinfo
"""


class Inside:
    """The inside of one pod's containers, as folders of this machine."""

    def __init__(
        self, objects: Objects, pod: Object, folder: Path, address: str, site: Path, own: dict[str, str]
    ) -> None:
        """Which pod.

        Args:
            objects: where maps and secrets are.
            pod: the pod.
            folder: for its volumes.
            address: of the pod.
            site: folder of the whole cluster, with the resolver and the names that it knows.
            own: variables of the image.
        """
        self._objects, self._pod, self._address, self._site, self._own = objects, pod, address, site, own
        self.folder = folder
        self.mounts: dict[str, Path] = {}
        for spec in pod["spec"]["containers"]:
            for one in spec.get("volumeMounts", []):
                if one["mountPath"] != "/dev/shm":
                    self._mount(one["mountPath"].rstrip("/"), folder / "volumes" / one["name"], one.get("subPath", ""))

    def of_first(self, spec: Object) -> Inside:
        """The inside of a first container, which sees the same volumes at places of its own."""
        pod = {**self._pod, "spec": {**self._pod["spec"], "containers": [spec]}}
        return Inside(self._objects, pod, self.folder, self._address, self._site, self._own)

    def _mount(self, path: str, volume: Path, part: str) -> None:
        self.mounts[path] = volume / part
        # A file that is mounted alone: a program may name the folder that it lies in.
        above, inside = Path(path).parent, Path(part).parent
        if part and above.name and str(inside) != ".":
            self.mounts.setdefault(str(above), volume / inside)

    @property
    def hostname(self) -> str:
        """The name of the pod as it sees itself."""
        return str(self._pod["spec"].get("hostname") or self._pod["metadata"]["name"])

    def fill(self) -> None:
        """Put into the folders of the volumes what belongs there."""
        for volume in self._pod["spec"].get("volumes", []):
            place = self.folder / "volumes" / volume["name"]
            place.mkdir(parents=True, exist_ok=True)
            for source in volume.get("projected", {}).get("sources", [volume]):
                for kind, resource in (("configMap", "configmaps"), ("secret", "secrets")):
                    if (asked := source.get(kind)) is not None:
                        self._put(place, resource, asked)

    def _put(self, place: Path, resource: str, asked: Object) -> None:
        held = self._held(resource, asked.get("secretName") or asked["name"])
        names = {one["key"]: one["path"] for one in asked.get("items", [])} or {name: name for name in held}
        for name, path in names.items():
            (place / path).parent.mkdir(parents=True, exist_ok=True)
            (place / path).write_bytes(held[name])

    def environ(self, spec: Object) -> dict[str, str]:
        """The variables of a container: what an image has, then its own, with paths of volumes put in."""
        shim = os.pathsep.join(filter(None, (str(self._site / "shim"), os.environ.get("PYTHONPATH", ""))))
        known = {
            "PATH": os.environ["PATH"],
            "HOME": str(self.folder),
            "LANG": "C.UTF-8",
            "HOSTNAME": self.hostname,
            "KUBERNETES_SERVICE_HOST": "127.0.0.1",
            "KUBE_HOSTS": str(self._site / "hosts.json"),
            MARK: self._pod["metadata"]["uid"],
            "PYTHONPATH": shim,
            "ASSAY_POD_ENDED": str(self.folder / "termination-log"),
            **{key: os.environ[key] for key in ("ASSAY_CACHE",) if key in os.environ},
            **self._own,
        }
        index = (self._pod["metadata"].get("annotations") or {}).get("batch.kubernetes.io/job-completion-index")
        known |= {} if index is None else {"JOB_COMPLETION_INDEX": index}
        for one in spec.get("env", []):
            known[one["name"]] = self._value(one, known)
        return {key: self.here(value) for key, value in known.items()}

    def words(self, words: list[str], known: dict[str, str] | None = None) -> list[str]:
        """A command line as this machine runs it."""
        given = [self.here(filled(word, known or {})) for word in words]
        if given[0] in ("python", "python3"):
            return [sys.executable, *given[1:]]
        return [sys.executable, "-m", "assay", *given[1:]] if given[0] == "assay" else given

    def here(self, text: str) -> str:
        """A text as it is true on this machine: the folders that volumes have here, and the pod's own address."""
        text = text.replace("0.0.0.0", self._address)
        for mount, place in sorted(self.mounts.items(), key=lambda one: -len(one[0])):
            text = re.sub(rf"(?<![\w/]){re.escape(mount)}(?=/|$|[:,\s])", str(place), text)
        return text

    def _value(self, one: Object, known: dict[str, str]) -> str:
        source = one.get("valueFrom")
        if source is None:
            return filled(one.get("value") or "", known)
        if field := source.get("fieldRef"):
            return self._field(field["fieldPath"])
        asked = source.get("secretKeyRef") or source["configMapKeyRef"]
        held = self._held("secrets" if "secretKeyRef" in source else "configmaps", asked["name"])
        if asked["key"] not in held:
            raise RefusedError(404, "NotFound", f"couldn't find key {asked['key']} in {asked['name']}")
        return held[asked["key"]].decode()

    def _field(self, path: str) -> str:
        meta = self._pod["metadata"]
        if match := re.fullmatch(r"metadata\.(labels|annotations)\['(.+)'\]", path):
            return str((meta.get(match[1]) or {}).get(match[2], ""))
        return {
            "metadata.name": meta["name"],
            "metadata.namespace": meta["namespace"],
            "metadata.uid": meta["uid"],
            "spec.nodeName": self._pod["spec"]["nodeName"],
            "status.podIP": self._address,
            "status.hostIP": "127.0.0.1",
        }[path]

    def _held(self, resource: str, name: str) -> dict[str, bytes]:
        one = self._objects.get(resource, self._pod["metadata"]["namespace"], name)
        is_map = resource == "configmaps"
        text = {**(one.get("stringData") or {}), **((one.get("data") or {}) if is_map else {})}
        coded = one.get("binaryData") if is_map else one.get("data")
        plain = {key: value.encode() for key, value in text.items()}
        return {**plain, **{key: base64.b64decode(value) for key, value in (coded or {}).items()}}


def filled(text: str, known: dict[str, str]) -> str:
    """A text with variables put in as Kubernetes does it: `$(NAME)` for a known one, `$$` for a single sign."""
    return _FILLED.sub(lambda found: "$" if found[1] else known.get(found[2], found[0]), text)
