"""What a service needs from elsewhere: a first container of its pod fetches it, and the service finds it. Pure."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace

from assay.engines.kubernetes.objects.plan import GroupService, job_pod
from assay.engines.kubernetes.objects.pods import (
    Mounted,
    Object,
    Setting,
    container,
    plain_variables,
    secret_variables,
)
from assay.engines.kubernetes.objects.resources import PodResources
from assay.spec.fetching import Fetch, in_folders
from assay.spec.kubernetes import OWN_FOLDER

FETCHER = "fetch"
PROGRAM = "assay.run.fetch"
_VOLUME = "fetched"
FETCHED = f"{OWN_FOLDER}/{_VOLUME}"
# Beside the files, so that these are further names of what is kept there and take no room of their own.
_CACHE = f"{FETCHED}/.cache"


def fetcher(setting: Setting, one: GroupService, wanted: Sequence[Fetch]) -> Object:
    """The container that fetches the files of a service before the service starts; it has assay's own image."""
    own = job_pod(setting.section)
    # Of the service's options those that are about its node hold for this container too; its image is ours.
    pod = one.pod.model_copy(update={"pull": own.pull})
    asked = [entry.model_dump(mode="json", exclude_defaults=True) for entry in wanted]
    env = [
        *secret_variables(one.fetching, setting.campaign),
        *plain_variables({**one.pod.env, "ASSAY_CACHE": _CACHE, "PYTHONUNBUFFERED": "1"}),
    ]
    words = (setting.section.python, "-m", PROGRAM, json.dumps(asked), FETCHED)
    made = container(
        FETCHER, own.image or "", pod, words=words, env=env, asked=_without_devices(one.asked), mounts=(_whole(),)
    )
    made["terminationMessagePolicy"] = "FallbackToLogsOnError"
    return made


def fetched_volume() -> Object:
    """The volume that both containers see."""
    return _whole().volume()


def fetched_mounts(wanted: Sequence[Fetch]) -> list[Object]:
    """Where the service sees its files: each at its path, or the folder around several."""
    paths = sorted({one.path for one in in_folders(tuple(wanted))})
    folders = [path for path in paths if path.endswith("/")]
    apart = [path for path in paths if not any(path != folder and path.startswith(folder) for folder in folders)]
    return [
        {"name": _VOLUME, "mountPath": path.rstrip("/"), "subPath": path.strip("/"), "readOnly": True} for path in apart
    ]


def _whole() -> Mounted:
    return Mounted(_VOLUME, FETCHED, {"emptyDir": {}})


def _without_devices(asked: PodResources) -> PodResources:
    return replace(asked, gpus=None, others={})
