"""Services in pods of their own; what one needs from elsewhere, a first container of its pod fetches. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace

from assay.engines.kubernetes.objects import names
from assay.engines.kubernetes.objects.names import Part
from assay.engines.kubernetes.objects.plan import Group, GroupService, PodResources, job_pod
from assay.engines.kubernetes.objects.pods import (
    QUEUE,
    SERVICE,
    Mounted,
    Object,
    Setting,
    container,
    own_mounts,
    plain_variables,
    pod_metadata,
    pod_spec,
    secret_variables,
    whole_seconds,
    with_secrets,
)
from assay.errors import UsageError
from assay.spec.benchmark import Ready, Service
from assay.spec.kubernetes import OWN_FOLDER
from assay.spec.paths import words
from assay.spec.references import REFERENCE, Ports
from assay.spec.target import Fetch, in_folders

FETCHER = "fetch"
PROGRAM = "assay.run.fetch"
_VOLUME = "fetched"
FETCHED = f"{OWN_FOLDER}/{_VOLUME}"
# Beside the files, so that these are further names of what is kept there and take no room of their own.
_CACHE = f"{FETCHED}/.cache"
# Every address of the pod: the clients are elsewhere.
LISTEN = "0.0.0.0"  # noqa: S104
_POLL_S, _ANSWER_S = 1, 5
# Fetching an image and warming a model may take as long again as getting ready.
_SLACK_S = 600
# How long a service may take to end when it is asked to.
_GRACE_S = 10
# Once ready, a service that is slow under load stays where its clients find it.
_NEVER = 100_000


def fetcher(setting: Setting, service: GroupService, wanted: Sequence[Fetch]) -> Object:
    """The container that fetches the files of a service before the service starts; it has assay's own image."""
    own = job_pod(setting.section)
    # Of the service's options those that are about its node hold for this container too; its image is ours.
    pod = service.pod.model_copy(update={"pull": own.pull})
    fetches = [entry.model_dump(mode="json", exclude_defaults=True) for entry in wanted]
    env = [
        *secret_variables(service.fetching, setting.campaign),
        *plain_variables({**service.pod.env, "ASSAY_CACHE": _CACHE, "PYTHONUNBUFFERED": "1"}),
    ]
    words = (setting.section.python, "-m", PROGRAM, json.dumps(fetches), FETCHED)
    made = container(
        FETCHER,
        own.image or "",
        pod,
        words=words,
        env=env,
        resources=_without_devices(service.resources),
        mounts=(_whole(),),
    )
    made["terminationMessagePolicy"] = "FallbackToLogsOnError"
    return made


def fetched_volume() -> Object:
    """The volume that both containers see."""
    return _whole().volume()


def fetched_mounts(wanted: Sequence[Fetch]) -> list[Object]:
    """Where the service sees its files: each at its path, or the folder around several."""
    paths = sorted({entry.path for entry in in_folders(tuple(wanted))})
    folders = [path for path in paths if path.endswith("/")]
    apart = [path for path in paths if not any(path != folder and path.startswith(folder) for folder in folders)]
    return [
        {"name": _VOLUME, "mountPath": path.rstrip("/"), "subPath": path.strip("/"), "readOnly": True} for path in apart
    ]


def _whole() -> Mounted:
    return Mounted(_VOLUME, FETCHED, {"emptyDir": {}})


def _without_devices(resources: PodResources) -> PodResources:
    return replace(resources, gpus=None, others={})


def service_objects(setting: Setting, group: Group, sections: Mapping[str, Service]) -> tuple[Object, ...]:
    made: list[Object] = []
    for service in group.services:
        ports = _ports(setting, group, service)
        made += [_service(setting, group, service), _deployment(setting, group, service, sections[service.name], ports)]
    return tuple(made)


def _ports(setting: Setting, group: Group, own: GroupService) -> Ports:
    others = [other for other in group.services if other.name != own.name]
    return Ports(
        own.port,
        {other.name: other.port for other in others},
        f"services.{own.name}",
        LISTEN,
        {other.name: setting.host(group, other.name) for other in others},
    )


def _part(setting: Setting, group: Group, service: GroupService) -> Part:
    return Part(setting.campaign, "service", group.name, service=service.name)


def _service(setting: Setting, group: Group, service: GroupService) -> Object:
    part = _part(setting, group, service)
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": names.service_name(setting.campaign, group.name, service.name), "labels": part.labels()},
        "spec": {
            "type": "ClusterIP",
            "selector": part.labels(),
            "ports": [{"name": SERVICE, "port": service.port, "targetPort": service.port}],
        },
    }


def _deployment(setting: Setting, group: Group, service: GroupService, section: Service, ports: Ports) -> Object:
    part = _part(setting, group, service)
    within_s = whole_seconds(section.ready.within)
    queue = {QUEUE: setting.section.queue} if setting.section.queue else {}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {
            "name": names.service_name(setting.campaign, group.name, service.name),
            "labels": {**part.labels(), **queue},
        },
        "spec": {
            "replicas": 1,
            "strategy": {"type": "Recreate"},
            "revisionHistoryLimit": 0,
            "progressDeadlineSeconds": 2 * within_s + _SLACK_S,
            "selector": {"matchLabels": part.labels()},
            "template": {
                "metadata": pod_metadata(service.pod, part.labels(), measures=bool(service.pod.one_per_node)),
                "spec": _pod(setting, service, section, ports),
            },
        },
    }


def _pod(setting: Setting, service: GroupService, section: Service, ports: Ports) -> Object:
    mounts, wanted = own_mounts(service.pod), section.fetch
    # Secrets first, since Kubernetes puts into a text only what stands above it; the file's own variables last
    port = str(service.port)
    own = {"PORT": port, "ASSAY_PORT": port, "HOST": LISTEN, "ASSAY_HOST": LISTEN, **service.pod.env}
    # A variable whose text refers to a secret of its own name: the secret needs another one.
    called = {name: f"ASSAY_SECRET_{name}" if name in section.env else name for name in service.pod.secrets}
    secrets = secret_variables({called[name]: text for name, text in service.pod.secrets.items()}, setting.campaign)
    given = [{"name": name, "value": with_secrets(ports.fill(text), called)} for name, text in section.env.items()]
    made = container(
        SERVICE,
        service.image,
        service.pod,
        words=_words(section, ports),
        env=[*secrets, *plain_variables({name: text for name, text in own.items() if name not in section.env}), *given],
        resources=service.resources,
        mounts=mounts,
    )
    made |= {"ports": [{"name": SERVICE, "containerPort": service.port}], **_probes(section.ready, service, ports)}
    made |= {"workingDir": section.cwd} if section.cwd else {}
    made["terminationMessagePolicy"] = "FallbackToLogsOnError"
    spec = pod_spec(
        service.pod, service.resources, [made], mounts, setting.version, apart=bool(service.pod.one_per_node)
    )
    if wanted:
        made["volumeMounts"] = [*made.get("volumeMounts", ()), *fetched_mounts(wanted)]
        spec["initContainers"] = [fetcher(setting, service, wanted)]
        spec["volumes"] = [*spec.get("volumes", ()), fetched_volume()]
    return {**spec, "terminationGracePeriodSeconds": _GRACE_S}


def _words(section: Service, ports: Ports) -> tuple[str, ...]:
    if section.command is None:
        return ()
    return tuple(ports.fill(word) for word in _split(section.command))


def _split(command: str | tuple[str, ...]) -> tuple[str, ...]:
    try:
        split = words(command)
    except ValueError as broken:
        message = f"the command {command!r} cannot be split into words: {broken}"
        remedy = "close its quotes, or write it as a list"
        raise UsageError(message, code="service-command", at="services", try_=remedy) from None
    if any(REFERENCE.search(word) for word in split):
        message = "a command cannot hold ${env:…}: everybody on its node could read it"
        remedy = "put it under `env`; the service finds it in its environment"
        raise UsageError(message, code="secret", at="services", try_=remedy)
    return split


def _probes(ready: Ready, service: GroupService, ports: Ports) -> Object:
    """How Kubernetes knows that a service is ready: asked until it once is, and then left alone under the load."""
    probes: list[Object] = []
    if ready.http is not None:
        path = ports.fill(ready.http)
        probes.append({"httpGet": {"path": path if path.startswith("/") else f"/{path}", "port": service.port}})
    if ready.command is not None:
        probes.append({"exec": {"command": [ports.fill(word) for word in _split(ready.command)]}})
    if (ready.tcp and ready.http is None) or not probes:
        probes.insert(0, {"tcpSocket": {"port": service.port}})
    tries = max(1, whole_seconds(ready.within) // _POLL_S)
    first = {**probes[0], "periodSeconds": _POLL_S, "timeoutSeconds": _ANSWER_S, "failureThreshold": tries}
    if len(probes) == 1:
        return {"startupProbe": first}
    also = {**probes[1], "periodSeconds": 2, "timeoutSeconds": 30, "failureThreshold": _NEVER}
    return {"startupProbe": first, "readinessProbe": also}
