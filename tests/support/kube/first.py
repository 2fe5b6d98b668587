"""The first containers of a pod of the tests: one after another, each again until it succeeds, before the others."""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Callable

from tests.support.kube.inside import Inside
from tests.support.kube.objects import Object, now

_AGAIN_S = 0.2


def first_ended(pod: Object, inside: Inside, ending: threading.Event, tell: Callable[[list[Object]], None]) -> bool:
    """Run them; whether the others may begin.

    Args:
        pod: whose they are.
        inside: its volumes and variables.
        ending: is set when the pod must end.
        tell: is told the status of each, whenever it changes.
    """
    every = pod["spec"].get("initContainers", [])
    told: list[Object] = []
    for spec in every:
        restarts = 0
        while (ended := _ended(spec, inside.of_first(spec)))["exitCode"] != 0:
            state = {"waiting": {"reason": "CrashLoopBackOff"}}
            tell([*told, _status(spec, restarts, state, {"terminated": ended})])
            restarts += 1
            if ending.wait(_AGAIN_S):
                return False
        told = [*told, _status(spec, restarts, {"terminated": ended}, {})]
        tell(told)
    return not ending.is_set()


def _ended(spec: Object, inside: Inside) -> Object:
    known, began = inside.environ(spec), now()
    words = inside.words([*spec["command"], *(spec.get("args") or [])], known)
    done = subprocess.run(
        words, env=known, cwd=inside.folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=120
    )
    reason = "Error" if done.returncode else "Completed"
    message = done.stdout.decode(errors="replace")[-2048:] if done.returncode else ""
    return {"exitCode": done.returncode, "reason": reason, "message": message, "startedAt": began, "finishedAt": now()}


def _status(spec: Object, restarts: int, state: Object, last: Object) -> Object:
    ready = state.get("terminated", {}).get("exitCode") == 0
    return {
        "name": spec["name"],
        "image": spec["image"],
        "imageID": f"sha256:{'0' * 64}",
        "restartCount": restarts,
        "ready": ready,
        "state": state,
        "lastState": last,
    }
