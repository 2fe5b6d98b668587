"""Names and labels of a campaign's objects: safe for DNS, always the same, and found again by labels. Pure.

Because a name says campaign, part and attempt, a process that submits again after a crash finds what it made before.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from assay.engines.kubernetes.client.api import Document, labels_of
from assay.errors import MeasureError

MANAGED = "app.kubernetes.io/managed-by"
CAMPAIGN, ROLE, GROUP = "assay/campaign", "assay/role", "assay/group"
JOB, ATTEMPT, SERVICE, RANK = "assay/job", "assay/attempt", "assay/service", "assay/rank"
# What measuring pods carry and keep apart by, whichever campaign they belong to.
MEASURES = "assay/measures"
OWNER = "assay"
Role = Literal["job", "service", "meeting", "files", "secrets"]
_ROLES: tuple[Role, ...] = ("job", "service", "meeting", "files", "secrets")
# Length of a DNS label; a name also gets an index or the five signs of a pod behind it.
_LONGEST, _ROOM = 63, 8
_HASH = 6
_ODD = re.compile(r"[^a-z0-9]+")
_VALUE = re.compile(r"^[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$")


@dataclass(frozen=True, slots=True)
class Part:
    """What an object is a part of, as its labels tell it."""

    campaign: str
    role: Role
    group: str = ""
    job: int | None = None
    attempt: int | None = None
    service: str = ""
    rank: int | None = None

    def labels(self) -> dict[str, str]:
        """The labels of the object, and of its pods."""
        labels = {
            MANAGED: OWNER,
            CAMPAIGN: value(self.campaign),
            ROLE: self.role,
            GROUP: value(self.group),
            JOB: "" if self.job is None else str(self.job),
            ATTEMPT: "" if self.attempt is None else str(self.attempt),
            SERVICE: value(self.service),
            RANK: "" if self.rank is None else str(self.rank),
        }
        return {key: text for key, text in labels.items() if text}

    def selector(self) -> str:
        """The label selector that finds this object and its pods, and no others."""
        return selector_of(self.labels())


def of_campaign(campaign: str, **more: str) -> str:
    """The label selector that finds every object of a campaign.

    Args:
        more: further labels without their prefix, such as `role="job"`.
    """
    return selector_of({MANAGED: OWNER, CAMPAIGN: value(campaign), **{f"assay/{key}": v for key, v in more.items()}})


def selector_of(labels: Mapping[str, str]) -> str:
    return ",".join(f"{key}={text}" for key, text in labels.items())


def part_of(document: Document) -> Part | None:
    """What an object is a part of; None for objects of others."""
    labels = labels_of(document)
    role = next((candidate for candidate in _ROLES if candidate == labels.get(ROLE)), None)
    if labels.get(MANAGED) != OWNER or CAMPAIGN not in labels or role is None:
        return None
    return Part(
        campaign=labels[CAMPAIGN],
        role=role,
        group=labels.get(GROUP, ""),
        job=_number(labels.get(JOB)),
        attempt=_number(labels.get(ATTEMPT)),
        service=labels.get(SERVICE, ""),
        rank=_number(labels.get(RANK)),
    )


def job_name(campaign: str, index: int, attempt: int = 1, rank: int | None = None) -> str:
    """The name of a job's object: `assay-c1f3-job-7`, with the attempt behind it from the second on."""
    again = () if attempt == 1 else (f"a{attempt}",)
    return name(campaign, "job", str(index), *again, *(() if rank is None else (f"r{rank}",)))


def service_name(campaign: str, group: str, service: str) -> str:
    """The name of a service's Deployment and Service, which is also its host name in the namespace."""
    return name(campaign, group, service)


def document_name(campaign: str, index: int, attempt: int = 1) -> str:
    """The name of the ConfigMap with the document of a job."""
    again = () if attempt == 1 else (f"a{attempt}",)
    return name(campaign, "job", str(index), *again, "document")


def file_name(campaign: str, sha256: str, part: int) -> str:
    """The name of the ConfigMap with one part of a file; jobs of a campaign share it."""
    return name(campaign, "file", sha256[:16], str(part))


def meeting_name(campaign: str, group: str) -> str:
    """The name of the headless Service by which the pods of a group find each other."""
    return name(campaign, group)


def secrets_name(campaign: str) -> str:
    return name(campaign, "secrets")


def name(campaign: str, *parts: str) -> str:
    """A name for an object, safe for DNS, also as that of a Service and with an index behind it.

    What Kubernetes cannot carry is replaced; a hash of the whole then keeps names apart that would become the same.
    """
    words = (OWNER, campaign, *parts)
    safe = [_ODD.sub("-", word.lower()).strip("-") for word in words]
    text = "-".join(word for word in safe if word)
    if tuple(safe) == words and len(text) <= _LONGEST - _ROOM:
        return text
    digest = hashlib.sha256("\0".join(words).encode()).hexdigest()[:_HASH]
    return f"{text[: _LONGEST - _ROOM - _HASH - 1].rstrip('-')}-{digest}"


def value(text: str) -> str:
    """A text as the value of a label; one that Kubernetes cannot carry gets a hash for its odd signs."""
    if not text or _VALUE.fullmatch(text):
        return text
    safe = re.sub(r"[^-A-Za-z0-9_.]+", "-", text)[: _LONGEST - _HASH - 1].strip("-_.")
    digest = hashlib.sha256(text.encode()).hexdigest()[:_HASH]
    return f"{safe}-{digest}" if safe else digest


def host_of(service: str, namespace: str) -> str:
    """The name at which pods of the same cluster reach a Service.

    Without the cluster's own domain: clusters differ in it, and every pod's resolver adds it.
    """
    return f"{service}.{namespace}.svc" if namespace else service


def refuse_foreign(existing: Document, wanted: Document) -> None:
    """Raise if an object of a name has another owner."""
    own, other = labels_of(wanted).get(CAMPAIGN), labels_of(existing).get(CAMPAIGN)
    if own is None or own != other or labels_of(existing).get(MANAGED) != OWNER:
        kind, named = wanted.get("kind", "object"), wanted.get("metadata", {}).get("name", "")
        raise MeasureError(
            f"there is already a {kind} {named} that belongs to {f'campaign {other}' if other else 'another owner'}",
            code="kubernetes-exists",
            try_="remove it, or use another place.kubernetes.namespace",
        )


def _number(text: str | None) -> int | None:
    return int(text) if text is not None and text.isdecimal() else None
