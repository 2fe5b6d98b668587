"""The section for Kubernetes: how jobs, services and the ranks of a distributed run become pods."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal, TypeVar

from pydantic import AfterValidator, Field, JsonValue, ValidationInfo, field_validator, model_validator

from assay.spec.references import REFERENCE
from assay.spec.section import Duration, Section, Size, refuse, section_of
from assay.spec.target import Together

_LABEL = re.compile(r"^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$")
_SUBDOMAIN = re.compile(r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$")
_KEY_NAME = re.compile(r"^[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$")
_VALUE = re.compile(r"^([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?$")
_VARIABLE = re.compile(r"^[A-Za-z_][A-Za-z0-9_]*$")
_SECRET_KEY = re.compile(r"^[-._A-Za-z0-9]{1,253}$")
_IMAGE = re.compile(r"^[^\s\x00-\x1f]+$")
_QUANTITY = re.compile(r"^[0-9]+(\.[0-9]+)?([eE][0-9]+|[munkMGTPE]|[KMGTPE]i)?$")
_TAINT = re.compile(
    r"^(?P<key>[^=:\s]+)(?:=(?P<value>[^=:\s]*))?(?::(?P<effect>NoSchedule|PreferNoSchedule|NoExecute))?$"
)
# Where a pod finds what assay gives it.
OWN_FOLDER = "/assay"
# Set by assay itself in every pod: given again, jobs could not be followed and collected.
OWN_VARIABLES = ("ASSAY_", "JOB_COMPLETION_INDEX")
OWN_LABELS = ("assay/", "app.kubernetes.io/managed-by", "batch.kubernetes.io/", "job-name", "controller-uid")


def _checked(pattern: re.Pattern[str], kind: str, longest: int | None = None) -> AfterValidator:
    def check(text: str) -> str:
        if not pattern.fullmatch(text) or (longest is not None and len(text) > longest):
            raise ValueError(f"{text!r} is no {kind}")
        return text

    return AfterValidator(check)


def _is_taint(text: str) -> str:
    match = _TAINT.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is no taint; write for example nvidia.com/gpu=present:NoSchedule")
    label_key(match["key"])
    return text


def label_key(text: str) -> str:
    """The key of a label, a taint or a resource, checked as Kubernetes does it."""
    prefix, slash, name = text.rpartition("/")
    if not _KEY_NAME.fullmatch(name) or (slash and (len(prefix) > 253 or not _SUBDOMAIN.fullmatch(prefix))):
        raise ValueError(f"{text!r} is no key for Kubernetes; write for example node.kubernetes.io/instance-type")
    return text


LabelName = Annotated[str, _checked(_LABEL, "name for Kubernetes: small letters, digits and -, at most 63 of them")]
ObjectName = Annotated[str, _checked(_SUBDOMAIN, "name for Kubernetes: small letters, digits, - and . only", 253)]
Image = Annotated[
    str,
    _checked(_IMAGE, "image; write for example ghcr.io/team/bench:1.2"),
    AfterValidator(lambda text: text.removeprefix("docker://")),
]
Taint = Annotated[str, AfterValidator(_is_taint)]


class Toleration(Section):
    """A taint of nodes that a pod puts up with."""

    key: Annotated[str, AfterValidator(label_key)] | None = None
    """Key of the taint; every taint when left out."""
    value: str | None = None
    """Value of the taint; any when left out."""
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"] | None = None
    """Effect of the taint; any when left out."""
    within: Duration | None = None
    """How long a pod stays on a node that gets the taint while it runs, for NoExecute; for ever when left out."""

    @model_validator(mode="after")
    def _means_something(self) -> Toleration:
        if self.value is not None and self.key is None:
            raise ValueError(f"value is {self.value!r} without a key; name the key of the taint")
        if self.within is not None and self.effect != "NoExecute":
            raise ValueError("within means something for the effect NoExecute alone; set it, or remove within")
        return self


def taint_of(text: str) -> Toleration:
    """The toleration of a taint that is written as `kubectl taint` takes it."""
    match = _TAINT.fullmatch(text)
    assert match is not None  # noqa: S101  (checked when the file was read)
    return Toleration.model_validate({key: part for key, part in match.groupdict().items() if part is not None})


class Pod(Section):
    """Options of one pod."""

    image: Image | None = None
    """Container image with assay and the target's runtime; for a service the one that it names itself."""
    pull: Literal["always", "missing", "never"] | None = None
    """When the node fetches the image; `always` for the tag latest and `missing` for others when left out."""
    pull_secret: ObjectName | tuple[ObjectName, ...] | None = None
    """Secret, or several, with the login of the registry."""
    node_selector: dict[str, str] = {}
    """Labels that the node must carry; `needs.labels`, `needs.os` and `needs.agent` are added."""
    tolerations: tuple[Toleration | Taint, ...] = ()
    """Taints of nodes that it puts up with: `nvidia.com/gpu:NoSchedule`, or a section."""
    one_per_node: bool | Literal["namespace"] | None = None
    """Whether no two measuring pods share a node; with `namespace` only those of the same namespace keep apart.
    Jobs do and services do not when left out."""
    cpus: Annotated[float, Field(gt=0)] | None = None
    """Processors, also parts of one; from `needs.cpus` when left out."""
    memory: Annotated[Size, Field(gt=0)] | None = None
    """Memory; from `needs.memory` when left out."""
    storage: Annotated[Size, Field(gt=0)] | None = None
    """Disk of the node that it may fill."""
    gpus: Annotated[int, Field(ge=0)] | None = None
    """GPUs; from `needs.gpus` when left out."""
    gpu_resource: Annotated[str, AfterValidator(label_key)] | None = None
    """What Kubernetes calls a GPU: `nvidia.com/gpu` when left out, or `amd.com/gpu`, `nvidia.com/mig-1g.10gb`, …"""
    resources: dict[str, Annotated[int, Field(ge=0)] | str] = {}
    """Further resources by their names, such as `rdma/hca: 1`."""
    limits: Literal["equal", "none"] | None = None
    """Whether processors and memory are also limited to what is asked for, which keeps neighbours apart; `equal` when
    left out. GPUs and further resources always are."""
    shm: Annotated[Size, Field(gt=0)] | Literal["unlimited"] | None = None
    """Size of the shared memory /dev/shm, which counts as memory; what the node gives (64 MiB mostly) when left out."""
    priority_class: ObjectName | None = None
    """Priority class."""
    runtime_class: ObjectName | None = None
    """Runtime class, such as `nvidia`."""
    scheduler: ObjectName | None = None
    """Name of the scheduler; Kubernetes's own when left out."""
    service_account: ObjectName | None = None
    """Account of the pod; the namespace's own when left out. Its token is mounted only where it is named here."""
    env: dict[str, str] = {}
    """Environment variables; secrets by `secrets`."""
    secrets: dict[str, str] = {}
    """Environment variable → `SECRET/KEY` of a Secret of the namespace; or → `${env:NAME}`, which is copied from here
    into a Secret that goes with the campaign."""
    volumes: dict[ObjectName, str] = {}
    """Claim of a volume → folder in the pod."""
    labels: dict[str, str] = {}
    """Further labels of the pod."""
    annotations: dict[str, str] = {}
    """Further annotations of the pod."""
    privileged: bool | None = None
    """Whether the container may do what only its node may; no when left out."""
    restricted: bool | None = None
    """Whether it asks for no more rights than the pod security level `restricted` allows; its image must then run as
    another user than root."""
    deadline: Annotated[Duration, Field(ge=1)] | None = None
    """Time limit of a pod, from when it has a node; none when left out. Services have none of their own."""

    @field_validator("node_selector", "labels")
    @classmethod
    def _are_labels(cls, value: dict[str, str], info: ValidationInfo) -> dict[str, str]:
        for key, text in value.items():
            label_key(key)
            if not _VALUE.fullmatch(text):
                raise ValueError(f"{text!r} is no value of the label {key}: letters, digits, - _ and ., at most 63")
        reserved = next((key for key in value if key.startswith(OWN_LABELS)), None)
        if info.field_name == "labels" and reserved is not None:
            raise ValueError(f"the label {reserved!r} is set by assay or Kubernetes itself; remove it")
        return value

    @field_validator("annotations")
    @classmethod
    def _are_annotations(cls, value: dict[str, str]) -> dict[str, str]:
        for key in value:
            label_key(key)
        return value

    @field_validator("env")
    @classmethod
    def _are_variables(cls, value: dict[str, str]) -> dict[str, str]:
        for name, text in value.items():
            _variable(name)
            if "\x00" in text:
                raise ValueError(f"the value of {name} has a zero byte")
            if REFERENCE.search(text):
                raise ValueError(f"{name} refers to a secret; write it under secrets: {{{name}: SECRET/KEY}}")
        return value

    @field_validator("resources")
    @classmethod
    def _are_resources(cls, value: dict[str, int | str]) -> dict[str, int | str]:
        for key, amount in value.items():
            label_key(key)
            if key in _KEYS:
                raise ValueError(f"{key!r} has a key of its own: {_KEYS[key]}; use that")
            if isinstance(amount, str) and not _QUANTITY.fullmatch(amount):
                raise ValueError(f"{amount!r} is no amount of {key}; write for example 1 or 500Mi")
        return value

    @field_validator("volumes")
    @classmethod
    def _are_folders(cls, value: dict[str, str]) -> dict[str, str]:
        for claim, folder in value.items():
            if not folder.startswith("/") or ":" in folder or "\x00" in folder:
                raise ValueError(f"volumes.{claim} is {folder!r}, which is no folder; write for example /data")
            if folder.rstrip("/") in ("", "/dev/shm", OWN_FOLDER) or folder.startswith(f"{OWN_FOLDER}/"):  # noqa: S108
                raise ValueError(f"volumes.{claim} is {folder!r}, which assay uses itself; choose another folder")
        if len({folder.rstrip("/") for folder in value.values()}) < len(value):
            raise ValueError("two volumes have the same folder")
        return value

    @model_validator(mode="after")
    def _is_not_both(self) -> Pod:
        if self.privileged and self.restricted:
            raise ValueError("privileged and restricted are opposites; keep one of them")
        return self

    @property
    def wrong_secrets(self) -> str:
        """What is wrong with `secrets`, in words that show none of them; empty where they are references."""
        for name, text in self.secrets.items():
            secret, slash, key = text.partition("/")
            held = bool(slash and _SUBDOMAIN.fullmatch(secret) and _SECRET_KEY.fullmatch(key))
            if not held and not REFERENCE.fullmatch(text):
                return f"secrets.{name} is no reference; write SECRET/KEY, or ${{env:{name}}}"
            try:
                _variable(name)
            except ValueError as problem:
                return f"secrets: {problem}"
        return ""

    @property
    def pull_secrets(self) -> tuple[str, ...]:
        """The Secrets with logins of registries."""
        if self.pull_secret is None:
            return ()
        return (self.pull_secret,) if isinstance(self.pull_secret, str) else self.pull_secret


# Resources that have a key of their own, so that one of them would be overlooked.
_KEYS = {"cpu": "cpus", "memory": "memory", "ephemeral-storage": "storage", "nvidia.com/gpu": "gpus"}


def _variable(name: str) -> None:
    if not _VARIABLE.fullmatch(name):
        raise ValueError(f"{name!r} is not a valid name of an environment variable")
    if name.startswith(OWN_VARIABLES) and name != "ASSAY_TOKEN":
        raise ValueError(f"{name} is set by assay or Kubernetes itself; remove it")


class Distributed(Together):
    """Several pods that run one command together, for MPI, torchrun and similar launchers."""

    pods: int = Field(default=2, ge=2, le=1024)
    """How many; they start together or not at all."""
    others: str | tuple[str, ...] | None = None
    """What the other pods run meanwhile with `launch: first`, such as `/usr/sbin/sshd -D`; ended with the first."""
    port: int = Field(default=29_500, ge=1, le=65_535)
    """Port at which the pods meet."""

    @model_validator(mode="after")
    def _means_something(self) -> Distributed:
        if self.others is not None and self.launch != "first":
            raise ValueError("others would do nothing: with launch: each every pod runs the command; remove it")
        if self.others is None and self.launch == "first":
            raise ValueError("launch is first, so others must say what the other pods run, such as /usr/sbin/sshd -D")
        return self


class KubernetesClients(Pod):
    """Pods that drive the load together, each with resources of its own."""

    count: int = Field(default=1, ge=1, le=64)
    """How many."""


class Kubernetes(Pod):
    """Where and how pods run on a Kubernetes cluster."""

    namespace: LabelName | None = None
    """Namespace of all objects; the context's own when left out."""
    context: str | None = None
    """Context of the kubeconfig; its current one when left out."""
    queue: LabelName | None = None
    """Queue of Kueue that lets jobs in, by its name in the namespace."""
    python: str = Field(default="python3", min_length=1)
    """Python with assay in the image."""
    services: Literal["deployments", "pod"] = "deployments"
    """Whether services are Deployments of their own, or processes beside the client in its pod."""
    clients: Annotated[int, Field(ge=1, le=64)] | KubernetesClients | None = None
    """Pods that drive the load together: how many, or a section with their resources; sets `load.hosts`."""
    distributed: Distributed | None = None
    """Several pods for each job, which run its command together; sets `target.distributed`."""
    each: dict[str, Pod] = {}
    """Options for one service by its name; what is left out comes from this section."""
    at_once: int | None = Field(default=None, ge=1)
    """How many jobs may be in the cluster at the same time; as many as it has room for when left out."""
    parallel: bool = False
    """Whether points with services run beside each other; one after another when left out."""
    unschedulable: Annotated[Duration, Field(ge=1)] = 600.0
    """How long a pod may wait for a node that the scheduler does not find, while no other pod of the campaign could be
    in its way; then its job fails with the scheduler's reason."""
    results: Literal["pod", "server"] = "pod"
    """Whether results are read from the pods, or the pods send them to a server."""
    server: str | None = None
    """URL at which the pods reach the server, for `results: server`; its token comes from `secrets.ASSAY_TOKEN`."""
    keep: Annotated[Duration, Field(ge=60)] = 86_400.0
    """How long Kubernetes keeps what ended and was not collected, where it can (1.21 or newer)."""

    @property
    def client_count(self) -> int | None:
        """How many pods share a load; None where the section does not say."""
        return self.clients.count if isinstance(self.clients, KubernetesClients) else self.clients

    @property
    def parts(self) -> dict[str, Pod]:
        """Every section with options of pods → where it stands."""
        clients = {"clients.": self.clients} if isinstance(self.clients, KubernetesClients) else {}
        return {"": self, **clients, **{f"each.{name}.": override for name, override in self.each.items()}}

    @model_validator(mode="after")
    def _knows_its_server(self) -> Kubernetes:
        here, named = self.results == "pod", self.server is not None
        wrong = self.server is not None and not re.match(r"^https?://[^/\s]+", self.server)
        refuse(
            (not here and not named, "results is server, so server must be its URL, as the pods reach it"),
            (here and named, "server would do nothing: results is pod; set results: server, or remove it"),
            (wrong, f"{self.server!r} is no URL of a server; write https://HOST"),
        )
        return self

    @model_validator(mode="after")
    def _is_distributed_alone(self) -> Kubernetes:
        if self.distributed is None:
            return self
        if (self.client_count or 1) > 1:
            raise ValueError("distributed and clients both make several pods of a job; keep one of them")
        if self.distributed.ranks == "gpus" and self.gpus == 0:
            raise ValueError("distributed.ranks is gpus, and gpus is 0; write how many processes a pod has")
        return self

    @model_validator(mode="after")
    def _options_of_services_mean_something(self) -> Kubernetes:
        if self.each and self.services == "pod":
            raise ValueError("each would do nothing: services is pod, where they share the client's pod; remove it")
        for name, override in self.each.items():
            if override.deadline is not None:
                raise ValueError(f"each.{name}.deadline would do nothing: services last as long as their clients")
        return self


def with_distributed(document: dict[str, JsonValue]) -> dict[str, JsonValue]:
    """A benchmark document whose pods that run a command together are written out as `target.distributed`.

    A job's own definition then says how many they are: results of two and of four pods are never taken for the same.
    """
    section, target = section_of(document, "place", "kubernetes"), section_of(document, "target")
    distributed = section.get("distributed") if section_of(document, "place").get("engine") == "kubernetes" else None
    if not isinstance(distributed, dict) or "distributed" in target or not {"command", "image"} & target.keys():
        return document
    written = {"pods": 2, **{name: distributed[name] for name in Together.model_fields if name in distributed}}
    gpus = section.get("gpus", section_of(document, "needs").get("gpus"))
    if written.get("ranks") == "gpus" and isinstance(gpus, int) and not isinstance(gpus, bool) and gpus > 0:
        written["ranks"] = gpus
    try:
        Together.model_validate(written)
    except ValueError:  # said of the section that is wrong, once
        return document
    return {**document, "target": {**target, "distributed": written}}


P = TypeVar("P", bound=Pod)
# What one section adds to another instead of taking its place.
_JOINED = ("node_selector", "env", "secrets", "volumes", "labels", "annotations", "resources")


def merged_pod(base: Pod, own: P) -> P:
    """The options of one pod: its own, and those of the section around it where it is silent.

    Args:
        base: the section around it.
        own: the options of this pod alone; mappings are joined, and its own keys win.
    """
    own_keys = {name for name in own.model_fields_set if getattr(own, name) is not None}
    merged: dict[str, Any] = {}
    for name in Pod.model_fields:
        value = getattr(base, name)
        if name in _JOINED:
            merged[name] = {**value, **getattr(own, name)}
        elif name not in own_keys and name in base.model_fields_set and value is not None:
            merged[name] = value
    return own.model_copy(update={name: value for name, value in merged.items() if value != getattr(own, name)})
