"""Finding the cluster: the kubeconfig of whoever calls, or the account of the pod that this runs in."""

from __future__ import annotations

import logging
import os
from pathlib import Path
from typing import Any

from assay.engines.kubernetes.client.api import CONFIG, MISSING
from assay.engines.kubernetes.client.client import Client
from assay.errors import MeasureError, UsageError
from assay.spec.kubernetes import Kubernetes

_USUAL = "~/.kube/config"
_INSIDE = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")


def connect(section: Kubernetes | None = None) -> Client:
    """The way to the cluster that a section names.

    A context that the file names is taken from the kubeconfig (KUBECONFIG, else ~/.kube/config). Without one, its
    current context is; in a pod without a kubeconfig, the pod's own account.

    Args:
        section: `place.kubernetes`; the current context and its namespace when left out.

    Raises:
        MeasureError: if the official client is not installed.
        UsageError: if there is no such context, or nothing says where a cluster is.
    """
    asked = section or Kubernetes()
    try:
        from kubernetes import client, config
    except ImportError:
        raise MeasureError(
            "the package kubernetes is not installed", code=MISSING, try_="pip install 'assay-bench[kubernetes]'"
        ) from None
    # Whether a server is silent is told in our words; its own lines about every new try would stand between them.
    logging.getLogger("urllib3.connectionpool").setLevel(logging.ERROR)
    settings = client.Configuration()
    # Watches, logs and requests of several threads at once.
    settings.connection_pool_maxsize = 32
    place = os.environ.get("KUBECONFIG") or _USUAL
    inside = asked.context is None and not _is_there(place) and _INSIDE.is_file()
    try:
        namespace = _from_pod(config, settings) if inside else _from_file(config, settings, place, asked.context)
    except (config.ConfigException, OSError, KeyError, TypeError) as problem:
        raise UsageError(
            f"nothing says how to enter a cluster: {problem}",
            code=CONFIG,
            at=str(_INSIDE) if inside else place,
            try_="name a kubeconfig by KUBECONFIG, and a context in it by place.kubernetes.context",
        ) from None
    return Client(client.ApiClient(configuration=settings), asked.namespace or namespace or "default")


def _from_file(config: Any, settings: Any, place: str, context: str | None) -> str:  # noqa: ANN401
    contexts, current = config.list_kube_config_contexts(config_file=place)
    chosen = current if context is None else next((one for one in contexts if one["name"] == context), None)
    if chosen is None:
        known = ", ".join(str(one["name"]) for one in contexts) or "none"
        raise UsageError(
            f"there is no context {context!r} (there is {known})",
            code=CONFIG,
            at=place,
            try_="change place.kubernetes.context: kubectl config get-contexts",
        )
    config.load_kube_config(config_file=place, context=context, client_configuration=settings)
    return str(chosen["context"].get("namespace") or "")


def _from_pod(config: Any, settings: Any) -> str:  # noqa: ANN401
    """Take the account of the pod that this runs in; return its namespace."""
    config.load_incluster_config(client_configuration=settings)
    return _INSIDE.read_text().strip()


def _is_there(place: str) -> bool:
    return any(Path(one).expanduser().is_file() for one in place.split(os.pathsep) if one)
