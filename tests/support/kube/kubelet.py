"""The kubelet of the tests: pods are processes of this machine, with volumes, variables, probes, limits and logs."""

from __future__ import annotations

import http.client
import os
import shutil
import signal
import socket
import subprocess
import threading
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from time import monotonic, sleep

import psutil
from tests.support.kube.first import first_ended
from tests.support.kube.inside import MARK, RESOLVER, Inside
from tests.support.kube.objects import Object, Objects, RefusedError, amount, now, tell_event

_POLL_S = 0.03
# What a process started and left behind may hold its output open.
_LAST_WORDS_S = 10.0


@dataclass
class Container:
    """One container of a pod, as a process."""

    name: str
    process: subprocess.Popen[bytes] | None = None
    reader: threading.Thread | None = None
    """Reads what it says."""
    lines: list[tuple[str, bytes]] = field(default_factory=list)
    size: int = 0
    restarts: int = 0
    ready: bool = False
    answered: bool = False
    """Its startup probe has been answered once."""
    began_s: float = 0.0
    state: Object = field(default_factory=lambda: {"waiting": {"reason": "ContainerCreating"}})
    last: Object = field(default_factory=dict)
    killed_for_memory: bool = False
    ended: threading.Event = field(default_factory=threading.Event)

    @property
    def is_over(self) -> bool:
        return "terminated" in self.state


class Kubelet:
    """Runs the pods of all nodes; a node that is lost takes its pods with it and says nothing about them."""

    def __init__(self, objects: Objects, folder: Path, *, log_limit: int = 10 * 2**20) -> None:
        self.objects, self.folder, self.log_limit = objects, folder, log_limit
        self.images: dict[str, list[str]] = {}
        """Image that can be had → what it runs where a container names no command."""
        self.folders: dict[str, Path] = {}
        """Image → what stands for the working folder that it has, where it has one."""
        self.environ: dict[str, str] = {}
        """Variables that every image has."""
        self.lost: set[str] = set()
        self._runs: dict[str, PodRun] = {}
        self._next = 1
        # Tests that run beside each other have other addresses, of which each has all ports.
        self._net = f"127.{16 + os.getpid() % 200}."
        shim = folder / "shim"
        shim.mkdir(parents=True)
        (shim / "sitecustomize.py").write_text(RESOLVER)
        self.hosts = folder / "hosts.json"
        self.hosts.write_text("{}")

    def look(self) -> None:
        """Begin pods that have a node, and end those that are to be deleted."""
        pods = {one["metadata"]["uid"]: one for one in self.objects.all("pods")}
        for uid, pod in pods.items():
            node = pod["spec"].get("nodeName")
            if node and uid not in self._runs and node not in self.lost and pod["status"]["phase"] == "Pending":
                address = f"{self._net}{self._next // 250}.{self._next % 250 + 1}"
                self._next += 1
                self._runs[uid] = PodRun(self, pod, address)
            if pod["metadata"].get("deletionTimestamp") and node not in self.lost:
                self._delete(uid, pod)
        for uid in set(self._runs) - set(pods):
            self._runs.pop(uid).kill()

    def run_of(self, pod: Object) -> PodRun | None:
        """The processes of a pod."""
        return self._runs.get(pod["metadata"]["uid"])

    def stop(self) -> None:
        """End everything."""
        for one in list(self._runs.values()):
            one.kill()
        self._runs.clear()

    def lose(self, node: str) -> None:
        """A node's plug is pulled: its processes are gone, and nobody says so."""
        self.lost.add(node)
        for one in list(self._runs.values()):
            if one.pod["spec"]["nodeName"] == node:
                one.silent = True
                one.kill()

    def logs(self, pod: Object, asked: dict[str, str]) -> Iterator[bytes]:
        """What a container wrote, as the API gives it out."""
        run, name = self.run_of(pod), pod["metadata"]["name"]
        own = asked.get("container") or pod["spec"]["containers"][0]["name"]
        if pod["spec"].get("nodeName") in self.lost:
            raise RefusedError(
                500,
                "InternalError",
                f'Get "https://{pod["spec"]["nodeName"]}:10250/containerLogs/bench/'
                f'{name}/{own}": dial tcp: connect: no route to host',
            )
        container = None if run is None else run.containers.get(own)
        if container is None or (not container.lines and "waiting" in container.state and not container.restarts):
            reason = "ContainerCreating" if container is None else container.state["waiting"]["reason"]
            raise RefusedError(400, "BadRequest", f'container "{own}" in pod "{name}" is waiting to start: {reason}')
        yield from _lines(container, asked)

    def run_in(self, pod: Object, container: str, words: list[str]) -> tuple[int, bytes, bytes]:
        """Run a command where a container runs."""
        run = self.run_of(pod)
        own = container or pod["spec"]["containers"][0]["name"]
        if run is None or run.containers[own].process is None or run.containers[own].is_over:
            return 126, b"", b"container not running"
        spec = next(one for one in pod["spec"]["containers"] if one["name"] == own)
        known = run.inside.environ(spec)
        done = subprocess.run(
            run.inside.words(words, known), env=known, cwd=run.folder, capture_output=True, timeout=60
        )
        return done.returncode, done.stdout, done.stderr

    def _delete(self, uid: str, pod: Object) -> None:
        run = self._runs.get(uid)
        meta = pod["metadata"]
        if run is None or run.is_over:
            self.objects.remove("pods", meta["namespace"], meta["name"])
        else:
            run.end(float(meta.get("deletionGracePeriodSeconds", 30)), remove=True)


def _lines(container: Container, asked: dict[str, str]) -> Iterator[bytes]:
    since = asked.get("sinceTime", "")
    if seconds := asked.get("sinceSeconds"):
        since = datetime.fromtimestamp(datetime.now(UTC).timestamp() - float(seconds), UTC).strftime(
            "%Y-%m-%dT%H:%M:%S"
        )
    stamps = asked.get("timestamps") in ("true", "True", "1")
    sent = len(container.lines)
    found = [one for one in container.lines[:sent] if one[0] >= since]
    if "tailLines" in asked:
        found = found[len(found) - min(int(asked["tailLines"]), len(found)) :]
    for stamp, line in found:
        yield (stamp.encode() + b" " if stamps else b"") + line
    while asked.get("follow") in ("true", "True", "1"):
        over = container.ended.is_set()
        for stamp, line in container.lines[sent:]:
            yield (stamp.encode() + b" " if stamps else b"") + line
            sent += 1
        if over:
            return
        sleep(_POLL_S)


class PodRun:
    """One pod on its node."""

    def __init__(self, kubelet: Kubelet, pod: Object, address: str) -> None:
        self.kubelet, self.pod, self.address = kubelet, pod, address
        self.meta = pod["metadata"]
        self.folder = kubelet.folder / "pods" / self.meta["uid"]
        self.folder.mkdir(parents=True)
        self.containers = {one["name"]: Container(one["name"]) for one in pod["spec"]["containers"]}
        self.inside = Inside(kubelet.objects, pod, self.folder, address, kubelet.folder, kubelet.environ)
        self.silent = False
        self._why: Object = {}
        self._grace_s: float | None = None
        self._remove = False
        self._first: list[Object] = []
        self._ending = threading.Event()
        self._lock = threading.Lock()
        self._started = monotonic()
        self._thread = threading.Thread(target=self._life, daemon=True)
        self._thread.start()

    # From outside

    @property
    def is_over(self) -> bool:
        """Whether nothing of it runs any more."""
        return not self._thread.is_alive()

    def end(self, grace_s: float, *, remove: bool, why: Object | None = None) -> None:
        """Ask the pod to end; by force after a while."""
        with self._lock:
            if self._grace_s is None:
                self._grace_s, self._why = grace_s, why or {}
            self._remove = self._remove or remove
        self._ending.set()

    def kill(self) -> None:
        """End its processes at once."""
        self._ending.set()
        with self._lock:
            self._grace_s = 0.0
        for one in self.containers.values():
            _kill(one.process, self.meta["uid"])
        if threading.current_thread() is not self._thread:
            self._thread.join(60)

    # Its life

    def _life(self) -> None:
        try:
            if self._prepared() and first_ended(self.pod, self.inside, self._ending, self._tell_first):
                for spec in self.pod["spec"]["containers"]:
                    self._begin(spec)
                self._follow()
            else:
                self._ending.wait()
        finally:
            self._finish()

    def _tell_first(self, told: list[Object]) -> None:
        self._first = told
        self._tell()

    def _prepared(self) -> bool:
        """Fetch images and mount volumes; what cannot be had is told until somebody ends the pod."""
        self._tell()
        reason = self._lacking()
        shown = False
        while reason is not None:
            kind, message = reason
            for one in self.containers.values():
                one.state = {"waiting": {"reason": kind, "message": message}}
            self._tell()
            if not shown:
                self.event("Failed" if "Image" in kind else "FailedMount", message)
                shown = True
            if self._ending.wait(0.1):
                return False
            if kind == "ErrImagePull":
                reason = "ImagePullBackOff", f'Back-off pulling image "{message.split(chr(34))[1]}"'
            elif kind != "ImagePullBackOff":
                reason = self._lacking()
        return not self._ending.is_set()

    def _lacking(self) -> tuple[str, str] | None:
        for spec in self.pod["spec"]["containers"]:
            if spec["image"] not in self.kubelet.images:
                if spec.get("imagePullPolicy") == "Never":
                    return (
                        "ErrImageNeverPull",
                        f'Container image "{spec["image"]}" is not present with pull policy of Never',
                    )
                return "ErrImagePull", f'Failed to pull image "{spec["image"]}": not found'
        try:
            self.inside.fill()
        except RefusedError as missing:
            return "ContainerCreating", f"MountVolume.SetUp failed: {missing}"
        try:
            for spec in self.pod["spec"]["containers"]:
                self.inside.environ(spec)
        except RefusedError as missing:
            return "CreateContainerConfigError", str(missing)
        return None

    def _spec(self, name: str) -> Object:
        return next(one for one in self.pod["spec"]["containers"] if one["name"] == name)

    def _begin(self, spec: Object) -> None:
        one, known = self.containers[spec["name"]], self.inside.environ(spec)
        command = spec.get("command") or self.kubelet.images[spec["image"]]
        folder, usual = spec.get("workingDir"), self.kubelet.folders.get(spec["image"], self.folder)
        one.ended.clear()
        try:
            one.process = subprocess.Popen(
                self.inside.words([*command, *(spec.get("args") or [])], known),
                env=known,
                stdin=subprocess.DEVNULL,
                cwd=self.inside.here(folder) if folder in self.inside.mounts else usual,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        except OSError as problem:
            one.process = None
            one.state = {
                "terminated": {
                    "exitCode": 128,
                    "reason": "StartError",
                    "message": str(problem),
                    "startedAt": now(),
                    "finishedAt": now(),
                }
            }
            one.ended.set()
            return
        one.state = {"running": {"startedAt": now()}}
        one.began_s, one.answered = monotonic(), "startupProbe" not in spec
        one.ready = one.answered and "readinessProbe" not in spec
        one.reader = threading.Thread(target=self._read, args=(one, one.process), daemon=True)
        one.reader.start()
        self._tell()

    def _read(self, one: Container, process: subprocess.Popen[bytes]) -> None:
        assert process.stdout is not None
        for line in process.stdout:
            if one.size > self.kubelet.log_limit:  # rotated: the API gives out the newest file alone
                one.lines, one.size = [], 0
            stamp = datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "") + "000Z"
            one.lines.append((stamp, line if line.endswith(b"\n") else line + b"\n"))
            one.size += len(line)
        process.stdout.close()

    def _follow(self) -> None:
        """Look at the processes until they have ended, or must."""
        hows: float | None = None
        next_probe_s = 0.0
        while not all(one.is_over for one in self.containers.values()):
            if self._ending.is_set() and hows is None:
                hows = monotonic()
                self._signal(signal.SIGTERM)
            if hows is not None and monotonic() - hows >= (self._grace_s or 0.0):
                self._signal(signal.SIGKILL)
            for spec in self.pod["spec"]["containers"]:
                self._look_at(spec, may_restart=hows is None)
            self._deadline()
            if monotonic() >= next_probe_s:
                next_probe_s = monotonic() + 0.1
                self._probe()
            sleep(_POLL_S)

    def _look_at(self, spec: Object, *, may_restart: bool) -> None:
        one = self.containers[spec["name"]]
        if one.process is None or one.is_over:
            return
        self._mind_memory(spec, one)
        code = one.process.poll()
        if code is None:
            return
        _kill(one.process, self.meta["uid"])
        if one.reader is not None:
            one.reader.join(_LAST_WORDS_S)
        exit_code = 128 - code if code < 0 else code
        reason = "OOMKilled" if one.killed_for_memory else "Completed" if exit_code == 0 else "Error"
        ended: Object = {
            "exitCode": exit_code,
            "reason": reason,
            "startedAt": one.state["running"]["startedAt"],
            "finishedAt": now(),
        }
        with suppress(OSError):
            ended["message"] = (self.folder / "termination-log").read_text()[:4096]
        again = self.pod["spec"].get("restartPolicy", "Always") == "Always" and may_restart
        one.ready = False
        if not again:
            one.state = {"terminated": ended}
            one.ended.set()
            self._tell()
            return
        one.restarts += 1
        one.last = {"terminated": ended}
        one.state = {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off restarting failed container"}}
        one.process = None
        self._tell()
        if not self._ending.wait(0.5):
            self._begin(spec)
        else:
            one.state = {"terminated": ended}

    def _mind_memory(self, spec: Object, one: Container) -> None:
        limit = (spec.get("resources") or {}).get("limits", {}).get("memory")
        if limit is None or one.process is None:
            return
        used = 0
        with suppress(psutil.Error):
            first = psutil.Process(one.process.pid)
            used = sum(process.memory_info().rss for process in (first, *first.children(recursive=True)))
        if used > amount(limit):
            one.killed_for_memory = True
            _kill(one.process, self.meta["uid"])

    def _deadline(self) -> None:
        limit = self.pod["spec"].get("activeDeadlineSeconds")
        if limit is not None and monotonic() - self._started > float(limit):
            self.end(
                1.0,
                remove=False,
                why={
                    "reason": "DeadlineExceeded",
                    "message": "Pod was active on the node longer than the specified deadline",
                },
            )

    def _probe(self) -> None:
        changed = False
        for spec in self.pod["spec"]["containers"]:
            one = self.containers[spec["name"]]
            if "running" in one.state:
                ready = self._is_ready(spec, one)
                changed, one.ready = changed or ready != one.ready, ready
        if changed:
            self._tell()

    def _is_ready(self, spec: Object, one: Container) -> bool:
        first, later = spec.get("startupProbe"), spec.get("readinessProbe")
        if first is not None and not one.answered:
            one.answered = self._answers(first, spec)
            limit_s = first.get("periodSeconds", 10) * first.get("failureThreshold", 3)
            if not one.answered and monotonic() - one.began_s > limit_s:
                self.event("Unhealthy", "Startup probe failed: no answer")
                self.event("Killing", f"Container {one.name} failed startup probe, will be restarted", "Normal")
                _kill(one.process, self.meta["uid"])
        return one.answered and (later is None or self._answers(later, spec))

    def _answers(self, probe: Object, spec: Object) -> bool:
        try:
            if asked := probe.get("httpGet"):
                connection = http.client.HTTPConnection(self.address, int(asked["port"]), timeout=1)
                connection.request("GET", asked.get("path", "/"))
                status = connection.getresponse().status
                connection.close()
                return 200 <= status < 400
            if asked := probe.get("tcpSocket"):
                socket.create_connection((self.address, int(asked["port"])), timeout=1).close()
                return True
            words = self.inside.words(probe["exec"]["command"])
            how = {"env": self.inside.environ(spec), "cwd": self.folder, "timeout": 5, "capture_output": True}
            return subprocess.run(words, **how).returncode == 0
        except (OSError, http.client.HTTPException, subprocess.TimeoutExpired):
            return False

    def _signal(self, number: int) -> None:
        for one in self.containers.values():
            if number == signal.SIGKILL:
                _kill(one.process, self.meta["uid"])
            elif one.process is not None:
                with suppress(ProcessLookupError):
                    os.killpg(one.process.pid, number)

    def _finish(self) -> None:
        for one in self.containers.values():
            one.ended.set()
        if self.silent:
            return
        self._tell()
        if self._remove:
            self.kubelet.objects.remove("pods", self.meta["namespace"], self.meta["name"])
            shutil.rmtree(self.folder, ignore_errors=True)

    def _tell(self) -> None:
        """Write the status, as a kubelet does."""
        if not self.silent:
            self.kubelet.objects.change("pods", self.meta["namespace"], self.meta["name"], self._status)

    def _status(self, pod: Object) -> None:
        status = pod["status"]
        every = list(self.containers.values())
        ready = all(one.ready for one in every)
        status["phase"] = self._phase(every)
        status.setdefault("startTime", now())
        status |= {"podIP": self.address, "hostIP": "127.0.0.1", **self._why}
        status["containerStatuses"] = [self._told(one) for one in every]
        status |= {"initContainerStatuses": self._first} if self._first else {}
        kept = [
            one
            for one in status.get("conditions", [])
            if one["type"] not in ("Ready", "ContainersReady", "Initialized")
        ]
        old = {one["type"]: one for one in status.get("conditions", [])}
        for kind, holds in (("Initialized", True), ("Ready", ready), ("ContainersReady", ready)):
            told: Object = {"type": kind, "status": str(holds)}
            since = old[kind]["lastTransitionTime"] if kind in old and old[kind]["status"] == told["status"] else now()
            kept.append({**told, "lastTransitionTime": since})
        status["conditions"] = kept

    def _phase(self, every: list[Container]) -> str:
        if self._why:
            return "Failed"
        if all(one.is_over for one in every):
            codes = [one.state["terminated"]["exitCode"] for one in every]
            return "Succeeded" if not any(codes) else "Failed"
        begun = any("running" in one.state or one.restarts or one.is_over for one in every)
        return "Running" if begun else "Pending"

    def _told(self, one: Container) -> Object:
        return {
            "name": one.name,
            "state": one.state,
            "lastState": one.last,
            "ready": one.ready,
            "restartCount": one.restarts,
            "image": self._spec(one.name)["image"],
            "imageID": f"sha256:{'0' * 64}" if one.process is not None else "",
            "started": "running" in one.state,
        }

    def event(self, reason: str, message: str, kind: str = "Warning") -> None:
        """Say something about the pod."""
        tell_event(self.kubelet.objects, self.pod, reason, message, kind)


def _kill(process: subprocess.Popen[bytes] | None, uid: str) -> None:
    """End a process and everything that it started, also what has left its group."""
    if process is None:
        return
    found = []
    with suppress(psutil.Error):
        found = psutil.Process(process.pid).children(recursive=True)
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    for one in found:
        with suppress(psutil.Error):
            if one.environ().get(MARK) == uid:
                one.kill()
