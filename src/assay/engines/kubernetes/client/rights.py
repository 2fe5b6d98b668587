"""What an account must be allowed to do in the namespace; deploy/kubernetes/role.yaml grants exactly this."""

from __future__ import annotations

from assay.engines.kubernetes.client.api import Right

# Looked up where a lost process made it already; patched to go with what uses it.
_MADE = ("create", "get", "list", "patch", "delete")

# Without these nothing can be run.
NEEDED = (
    *(Right(verb, "jobs.batch") for verb in ("create", "get", "list", "watch", "delete")),
    *(Right(verb, "pods") for verb in ("list", "watch", "delete")),
    Right("get", "pods/log"),
    *(Right(verb, "configmaps") for verb in _MADE),
    Right("list", "events"),
)
# Without these a part of what can be asked for cannot be had → what that is.
WANTED = {
    **dict.fromkeys((Right(verb, "services") for verb in _MADE), "services, and pods that go together"),
    **dict.fromkeys((Right(verb, "deployments.apps") for verb in _MADE), "services"),
    **dict.fromkeys((Right(verb, "secrets") for verb in ("create", "delete")),
                    "secrets that a campaign brings along (place.kubernetes.secrets: ${env:NAME})"),
    **dict.fromkeys((Right(verb, "pods/exec") for verb in ("create", "get")),
                    "results that are too large for a log, without a server"),
}  # fmt: skip
