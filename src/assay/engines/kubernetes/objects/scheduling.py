"""Why the scheduler finds no node for a pod, read from its own words: whether to wait, and what to change. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

# `0/3 nodes are available: 1 node(s) had taint {a: b}, that the pod didn't tolerate, 2 Insufficient cpu. preemption: …`
_HEAD = re.compile(r"^\s*\d+/\d+ nodes are available:\s*")
_PREEMPTION = re.compile(r"\s*preemption: .*$", re.DOTALL)
# Reasons may hold commas themselves; a new one begins with how many nodes it is about.
_BETWEEN = re.compile(r", (?=\d+ )")
_REASON = re.compile(r"^(?:(?P<count>\d+) )?(?P<text>.*)$", re.DOTALL)
_SHORT = re.compile(r"^Insufficient (\S+?)[.,]?$")
_TAINT = re.compile(r"taint \{([^:}]+):\s*([^}]*)\}")
# Taints that Kubernetes itself sets on a node that is not well, and takes away when it is.
_PASSING = ("node.kubernetes.io/", "node.cloudprovider.kubernetes.io/")
Outlook = Literal["busy", "unsure", "lasting"]


@dataclass(frozen=True, slots=True)
class Unplaced:
    """Why a pod has no node."""

    message: str
    """The scheduler's own words, without what it thought about preemption."""
    reasons: tuple[tuple[int | None, str], ...]
    """How many nodes were refused → why; None where it counts none."""
    outlook: Outlook
    """`busy`: another measuring pod is in the way, which will end. `lasting`: nothing but a change helps.
    `unsure`: nodes are full, or none will ever do; the scheduler does not tell which."""
    try_: str


def unplaced(message: str) -> Unplaced:
    """Read the scheduler's words."""
    said = _PREEMPTION.sub("", message).strip()
    reasons = tuple(_reason(one) for one in _BETWEEN.split(_HEAD.sub("", said).rstrip(". ")) if one.strip())
    outlooks = [_outlook(text) for _, text in reasons]
    whole: Outlook = "unsure"
    if "busy" in outlooks:
        whole = "busy"
    elif outlooks and all(one == "lasting" for one in outlooks):
        whole = "lasting"
    hints = dict.fromkeys(hint for _, text in reasons if (hint := _hint(text)))
    return Unplaced(said, reasons, whole, "; ".join(hints) or "look at the nodes: kubectl describe nodes")


def _reason(text: str) -> tuple[int | None, str]:
    match = _REASON.match(text.strip(" ."))
    return (int(match["count"]) if match["count"] else None, match["text"]) if match else (None, text)


def _outlook(text: str) -> Outlook:
    if "anti-affinity" in text:
        return "busy"
    if any(word in text for word in ("selector", "node affinity", "not found", "unbound immediate")):
        return "lasting"
    taint = _TAINT.search(text)
    return "lasting" if taint is not None and not taint[1].startswith(_PASSING) else "unsure"


def _hint(text: str) -> str:
    if short := _SHORT.match(text):
        key = {"cpu": "cpus", "memory": "memory", "ephemeral-storage": "storage"}.get(short[1], "gpus")
        return f"lower needs.{key} or place.kubernetes.{key}, or add nodes with {short[1]}"
    if "anti-affinity" in text:
        return "wait until the other measuring pods have ended, or set place.kubernetes.one_per_node: false"
    if "selector" in text or "node affinity" in text:
        return "change place.kubernetes.node_selector or needs.labels: kubectl get nodes --show-labels"
    if taint := _TAINT.search(text):
        value = f"={taint[2].strip()}" if taint[2].strip() else ""
        return f"add '{taint[1].strip()}{value}' to place.kubernetes.tolerations, if these nodes are meant for it"
    if "persistentvolumeclaim" in text.lower():
        return "see that the claims of place.kubernetes.volumes exist and are bound: kubectl get pvc"
    if "were unschedulable" in text:
        return "the nodes are closed for new pods: kubectl uncordon"
    return ""
