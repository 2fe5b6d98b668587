"""Which jobs become which objects: the groups of a campaign on Kubernetes, and what each pod asks for."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from assay.errors import UsageError
from assay.plan.job import Job, point_key
from assay.plan.plan import most_at_once
from assay.spec.benchmark import Benchmark, Needs, Service
from assay.spec.kubernetes import Distributed, Kubernetes, KubernetesClients, Pod, merged_pod
from assay.spec.references import references
from assay.spec.target import CommandTarget, Target, Together
from assay.units import show_bytes

# Every service has a pod and so an address of its own: this port cannot be taken.
USUAL_PORT = 8000
_OPTION = "kubernetes-option"
_ADDED = ("cpus", "memory", "gpus")
GPU = "nvidia.com/gpu"
_OS = "kubernetes.io/os"
_HOST = "kubernetes.io/hostname"
_SYSTEMS = {"linux": "linux", "windows": "windows"}


@dataclass(frozen=True, slots=True)
class GroupService:
    """A service of a group, and the pod that holds it."""

    name: str
    image: str
    port: int
    pod: Pod
    resources: PodResources
    fetching: Mapping[str, str] = field(default_factory=dict)
    """Secrets that are needed to fetch its files: variable → where it is kept."""


@dataclass(frozen=True, slots=True)
class Group:
    """Jobs that belong together."""

    name: str
    kind: Literal["jobs", "point", "ranks"]
    """`jobs`: each for itself, one pod each. `point`: jobs of one point, which share its services and its load.
    `ranks`: one job whose command several pods run together."""
    jobs: tuple[int, ...]
    """Indexes of the jobs; the place in here is the number of the client."""
    pod: Pod
    """What each of their pods asks for."""
    services: tuple[GroupService, ...] = ()
    pods: int = 1
    """How many pods one job has."""
    slots: int = 1
    """Processes of the command in each pod."""
    launch: Literal["each", "first"] = "each"
    """Whether each of its pods runs the command, or the first alone."""
    at_once: int | None = None
    """How many of its jobs may be in the cluster at the same time; None for no limit."""
    after: str = ""
    """Group that must have ended before this one begins; empty for none."""

    @property
    def meets(self) -> bool:
        """Whether its pods must be there together."""
        return self.kind == "ranks" or (self.kind == "point" and len(self.jobs) > 1)

    @property
    def members(self) -> int:
        """How many pods meet: those of a job, or one for each client."""
        return self.pods if self.kind == "ranks" else len(self.jobs)


def group(jobs: Sequence[Job], benchmark: Benchmark) -> tuple[Group, ...]:
    """Put the jobs of a plan into groups, in the order in which they are submitted.

    Points with services, points whose load several clients share and jobs of several pods go one after another, unless
    the file says `parallel: true`: at the same time they would disturb each other, or wait for each other for ever.
    """
    section = benchmark.place.kubernetes or Kubernetes()
    for job in jobs:
        definition = job.definition
        if section.image is None and not _client_image(section):
            raise _refused(
                "there is no image for the pods: place.kubernetes.image is not set",
                "image",
                "name an image that holds assay and the target's runtime; deploy/ has the files to build one",
            )
        if section.distributed is not None and not isinstance(definition.target, CommandTarget):
            raise _refused(
                "place.kubernetes.distributed is for a command that several pods run together, and the target is none",
                "distributed",
                "remove it, or use place.kubernetes.clients for several pods that drive one load",
            )
        _refuse_program_of_this_machine(definition.target)
        if definition.services and section.services == "pod":
            _refuse_containers_in_a_pod(job, section)
        _refuse_unknown_secrets(needed_secrets(job, section), job_pod(section).secrets, "the benchmark")
    alone = [job for job in jobs if not _is_shared(job, section) and _together(job) is None]
    points: dict[str, list[Job]] = {}
    for job in jobs:
        if _is_shared(job, section) or _together(job) is not None:
            points.setdefault(point_key(job), []).append(job)
    made = [_ranks(section, *point) if _together(point[0]) else _point(section, point) for point in points.values()]
    shared = made if section.parallel else _in_turn(made)
    return (*_alone(section, alone), *shared)


def resources_of(job: Job, group: Group) -> PodResources:
    return pod_resources(group.pod, _whole_needs(job, group))


def shipped(job: Job) -> Job:
    """A job as its pod gets it: without the needs that the scheduler has met, which cannot be seen from within the pod.

    Its digest stays: it is what was asked for.
    """
    needs = job.definition.needs
    bare = needs.model_copy(update={"labels": {}, "agent": None})
    if bare == needs:
        return job
    return replace(job, definition=job.definition.model_copy(update={"needs": bare}))


def needed_secrets(job: Job, section: Kubernetes) -> frozenset[str]:
    """The environment variables with secrets that the pod of a job must have."""
    hidden = {"services"} if section.services == "deployments" else set()
    return frozenset(references(job.definition.model_dump(mode="json", exclude=hidden)))


def job_pod(section: Kubernetes) -> Pod:
    """The options of the pods of jobs, without what else the section says."""
    own = section.clients if isinstance(section.clients, KubernetesClients) else Pod()
    whole = merged_pod(section, own)
    plain = {name: getattr(whole, name) for name in Pod.model_fields if name in whole.model_fields_set}
    return Pod().model_copy(update=plain)


def _is_shared(job: Job, section: Kubernetes) -> bool:
    return job.definition.load.hosts > 1 or bool(job.definition.services and section.services == "deployments")


def _together(job: Job) -> Together | None:
    """How several pods run the command of a job; None where one does. The job says it, so that its digest does."""
    target = job.definition.target
    return target.distributed if isinstance(target, CommandTarget) else None


def _in_turn(groups: Sequence[Group]) -> list[Group]:
    before = ["", *(group.name for group in groups)]
    return [replace(group, after=name) for group, name in zip(groups, before, strict=False)]


def _alone(section: Kubernetes, jobs: Sequence[Job]) -> Iterable[Group]:
    if not jobs:
        return
    made = Group(
        "jobs",
        "jobs",
        tuple(job.index for job in jobs),
        job_pod(section),
        at_once=most_at_once(section, jobs),
        services=(),
    )
    for job in jobs:
        pod_resources(made.pod, _whole_needs(job, made))
    yield made


def _point(section: Kubernetes, members: Sequence[Job]) -> Group:
    first = members[0]
    hosts, clients = first.definition.load.hosts, len(members)
    if section.client_count not in (None, hosts):
        raise _refused(
            f"place.kubernetes.clients is {section.client_count} and load.hosts is {hosts}",
            "clients",
            "keep one of them: both say how many clients share the load",
        )
    if section.at_once is not None and section.at_once < clients:
        raise _refused(
            f"place.kubernetes.at_once is {section.at_once}, and {clients} clients must run concurrently: they would "
            "wait for ever",
            "at_once",
            "raise or remove at_once",
        )
    made = Group(
        f"point-{first.index:04}",
        "point",
        tuple(job.index for job in members),
        job_pod(section),
        _services(section, first),
    )
    for job in members:
        resources_of(job, made)
    return made


def _ranks(section: Kubernetes, job: Job) -> Group:
    load, around = _together(job), section.distributed or Distributed()
    assert load is not None  # noqa: S101  (for the type alone)
    if load.launch == "first" and around.others is None:
        raise _refused(
            "the first pod alone runs the command, and nothing says what the others run meanwhile",
            "distributed.others",
            "write for example /usr/sbin/sshd -D",
        )
    made = Group(f"ranks-{job.index:04}", "ranks", (job.index,), job_pod(section), _services(section, job), load.pods)
    needed = resources_of(job, made)
    if load.ranks == "gpus" and not needed.gpus:
        raise _refused(
            "place.kubernetes.distributed.ranks is gpus, and nothing says how many GPUs a pod has",
            "distributed.ranks",
            "set needs.gpus, or write how many processes a pod has",
        )
    slots = (needed.gpus or 1) if load.ranks == "gpus" else load.ranks
    return replace(made, slots=slots, launch=load.launch)


def _services(section: Kubernetes, job: Job) -> tuple[GroupService, ...]:
    if section.services != "deployments":
        return ()
    return tuple(_service(section, name, service) for name, service in job.definition.services.items())


def _service(section: Kubernetes, name: str, service: Service) -> GroupService:
    own = section.each.get(name, Pod())
    named = service.image if service.container != "none" else None
    image = own.image or (named.removeprefix("docker://") if named else None) or section.image
    if image is None:
        raise _refused(
            f"the service {name} names no image, and place.kubernetes.image is not set",
            "image",
            f"set services.{name}.image, or place.kubernetes.each.{name}.image",
        )
    # Refuse what lies on this machine alone: a node of the cluster never sees it
    if _is_file(image):
        message = f"the image {image!r} of the service {name} is a file, which no node of the cluster has"
        raise UsageError(message, code=_OPTION, at=f"services.{name}.image", try_="name an image in a registry")
    if service.mounts:
        raise UsageError(
            f"the service {name} mounts {next(iter(service.mounts))!r} of this machine, which no node of the cluster "
            "has",
            code=_OPTION,
            at=f"services.{name}.mounts",
            try_=f"name the claim of a volume: place.kubernetes.each.{name}.volumes",
        )
    for source in service.fetch:
        if source.is_local:
            raise UsageError(
                f"the service {name} wants {source.src!r}, a file of this machine, which no node of the cluster has",
                code=_OPTION,
                at=f"services.{name}.fetch",
                try_=f"name a URL, put it into the image, or name a volume: place.kubernetes.each.{name}.volumes",
            )
    if service.cwd is not None and not service.cwd.startswith("/"):
        message = f"cwd of the service {name} is {service.cwd!r}; inside a container it must be absolute"
        raise UsageError(message, code=_OPTION, at=f"services.{name}.cwd", try_="write the folder in the image")
    # Each service has the section's options where it is silent, but for those that are about measuring pods.
    around = section.model_copy(update={"image": None, "one_per_node": None, "deadline": None})
    pod = merged_pod(around, own)
    wanted, for_files = set(references(service.env)), _secrets_for_files(service, pod)
    _refuse_unknown_secrets(wanted | for_files, pod.secrets, f"the service {name}")
    # No container gets secrets that it has no use for.
    fetching = {key: pod.secrets[key] for key in sorted(for_files)}
    secrets = {key: text for key, text in pod.secrets.items() if key in wanted or key in own.secrets}
    pod = pod.model_copy(update={"secrets": secrets})
    return GroupService(name, image, service.port or USUAL_PORT, pod, pod_resources(pod, service.needs), fetching)


def _secrets_for_files(service: Service, pod: Pod) -> set[str]:
    """The secrets with which the files of a service are fetched; buckets are entered by variables of fixed names."""
    named = set(references([source.model_dump(mode="json") for source in service.fetch]))
    buckets = any(source.src.lower().startswith("s3://") for source in service.fetch)
    return named | ({key for key in pod.secrets if key.startswith("AWS_")} if buckets else set())


def _whole_needs(job: Job, group: Group) -> Needs:
    """What a pod needs: the job's own, together with that of the services which it starts beside it."""
    needs = job.definition.needs
    beside = [] if group.services else [service.needs for service in job.definition.services.values()]
    if not beside:
        return needs
    amounts = {name: [v for need in (needs, *beside) if (v := getattr(need, name)) is not None] for name in _ADDED}
    # Processes of one pod share its limits, so that what they need adds up.
    return needs.model_copy(update={name: sum(values) for name, values in amounts.items() if values})


def _refuse_program_of_this_machine(target: Target) -> None:
    """Refuse an image or a folder of this machine for the measured program: no node of the cluster has it."""
    if not isinstance(target, CommandTarget) or not target.is_boxed:
        return
    if _is_file(target.image or ""):
        message = f"the image {target.image!r} of the target is a file, which no node of the cluster has"
        raise UsageError(message, code=_OPTION, at="target.image", try_="name an image in a registry")
    if target.mounts:
        message = f"the target mounts {next(iter(target.mounts))!r} of this machine, which no node of the cluster has"
        remedy = "name a volume (place.kubernetes.volumes), fetch it (target.fetch) or send it along (target.code)"
        raise UsageError(message, code=_OPTION, at="target.mounts", try_=remedy)


def _is_file(image: str) -> bool:
    return image.endswith((".sif", ".sqfs")) or image.startswith(("/", "./", "../", "~"))


def _client_image(section: Kubernetes) -> bool:
    return isinstance(section.clients, KubernetesClients) and section.clients.image is not None


def _refuse_containers_in_a_pod(job: Job, section: Kubernetes) -> None:
    hosts = job.definition.load.hosts
    if hosts > 1:
        raise _refused(
            f"place.kubernetes.services is pod and {hosts} clients share the load: each would start its own services",
            "services",
            "set place.kubernetes.services to deployments, or clients to 1",
        )
    for name, service in job.definition.services.items():
        if service.image is not None and service.container != "none":
            raise _refused(
                f"place.kubernetes.services is {section.services}, and the service {name} has an image of its own, "
                "which nothing in a pod can start",
                "services",
                f"leave services out, so that {name} gets a pod, or set services.{name}.container: none",
            )


def _refuse_unknown_secrets(wanted: Iterable[str], known: Collection[str], who: str) -> None:
    for name in sorted(set(wanted)):
        if name not in known:
            raise _refused(
                f"{who} refers to ${{env:{name}}}, and nothing says where the pod has it from",
                "secrets",
                f"write place.kubernetes.secrets: {{{name}: SECRET/KEY}}, or {{{name}: '${{env:{name}}}'}} to send "
                "yours along",
            )


def _refused(message: str, key: str, try_: str) -> UsageError:
    return UsageError(message, code=_OPTION, at=f"place.kubernetes.{key}", try_=try_)


@dataclass(frozen=True, slots=True)
class PodResources:
    """What a pod asks for: how much of a node, and which nodes."""

    cpus: float | None = None
    memory: int | None = None
    storage: int | None = None
    gpus: int | None = None
    gpu_resource: str = GPU
    others: Mapping[str, str] = field(default_factory=dict)
    """Further resources → how much."""
    limited: bool = True
    """Whether processors and memory are also limited to this."""
    nodes: Mapping[str, str] = field(default_factory=dict)
    """Labels that the node must carry."""
    deadline_s: float | None = None

    def section(self) -> dict[str, Any]:
        """The section `resources` of a container; empty where nothing is asked for."""
        plain = {
            "cpu": None if self.cpus is None else cpu_words(self.cpus),
            "memory": None if self.memory is None else str(self.memory),
            "ephemeral-storage": None if self.storage is None else str(self.storage),
        }
        shared = {name: text for name, text in plain.items() if text is not None}
        # Kubernetes takes whole devices only where the limit equals the request.
        devices = {**({self.gpu_resource: str(self.gpus)} if self.gpus else {}), **self.others}
        limits = {**(shared if self.limited else {}), **devices}
        requests = {**shared, **devices}
        return {name: part for name, part in (("requests", requests), ("limits", limits)) if part}


def pod_resources(pod: Pod, needs: Needs) -> PodResources:
    """What a pod asks for: what its section says, and what its needs add where that is silent."""
    # Refuse a section that contradicts the needs: the job would wait for its node, and then fail on it
    limited = pod.limits != "none"
    if limited and pod.cpus is not None and needs.cpus is not None and pod.cpus < needs.cpus:
        raise _less("cpus", str(needs.cpus), f"{pod.cpus:g}")
    if limited and pod.memory is not None and needs.memory is not None and pod.memory < needs.memory:
        raise _less("memory", show_bytes(needs.memory), show_bytes(pod.memory))
    if pod.gpus is not None and needs.gpus is not None and pod.gpus < needs.gpus:
        raise _less("gpus", str(needs.gpus), str(pod.gpus))
    if needs.os == "macos":
        message = "needs.os is macos, and no node of Kubernetes is"
        raise UsageError(message, code=_OPTION, at="needs.os", try_="run it on a fleet (place.engine: fleet)")
    for key, text in needs.labels.items():
        _label(key, text)
    wanted = dict(needs.labels)
    wanted |= {_OS: _SYSTEMS[needs.os]} if needs.os else {}
    wanted |= {_HOST: needs.agent} if needs.agent else {}
    for key, text in pod.node_selector.items():
        if wanted.get(key, text) != text:
            message = f"place.kubernetes.node_selector asks for {key}={text}, and needs for {key}={wanted[key]}"
            remedy = "keep one of them: no node carries both"
            raise UsageError(message, code=_OPTION, at="place.kubernetes.node_selector", try_=remedy)
    return PodResources(
        cpus=pod.cpus if pod.cpus is not None else (None if needs.cpus is None else float(needs.cpus)),
        memory=pod.memory or needs.memory,
        storage=pod.storage,
        gpus=pod.gpus if pod.gpus is not None else needs.gpus,
        gpu_resource=pod.gpu_resource or GPU,
        others={name: str(amount) for name, amount in pod.resources.items()},
        limited=pod.limits != "none",
        nodes={**wanted, **pod.node_selector},
        deadline_s=pod.deadline,
    )


def cpu_words(cpus: float) -> str:
    """Processors as Kubernetes writes them: `2`, or `500m` for a half."""
    thousandths = max(1, round(cpus * 1000))
    return str(thousandths // 1000) if thousandths % 1000 == 0 else f"{thousandths}m"


def _label(key: str, text: str) -> None:
    try:
        Pod(node_selector={key: text})
    except ValueError:
        message = f"needs.labels has {key}={text}, which no node of Kubernetes can carry"
        remedy = "use a label of your nodes: kubectl get nodes --show-labels"
        raise UsageError(message, code=_OPTION, at="needs.labels", try_=remedy) from None


def _less(key: str, needed: str, requested: str) -> UsageError:
    message = f"needs.{key} is {needed}, and place.kubernetes asks for {requested}"
    remedy = f"raise place.kubernetes.{key} (for a service under each), lower needs.{key}, or leave one of them out"
    return UsageError(message, code=_OPTION, at=f"place.kubernetes.{key}", try_=remedy)
