"""Which series a result belongs to, and what was around it that may explain a change.

A series is one metric of one job definition on one kind of machine. What is measured makes a series: target, workload,
load, services, the point of the matrix, the labels. How it is measured does not (`measure`, `needs`, `objective`,
`prices`), nor does the content of files, nor the tag of an image: these may change in the course of a series, and are
kept with each of its points.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping

from pydantic import JsonValue

from assay.analyse.records import MultiRunJobResult, section
from assay.plan.job import content_hash

Facts = dict[str, JsonValue]

# Raised when the same definition is to begin a new series.
_VERSION = 1
LENGTH = 16
# How something is measured, and where; the point of a matrix may still name parts of it, and then tells series apart.
_HOW = ("measure", "needs", "objective")
_NOT_WHAT = frozenset({*_HOW, "prices"})
_GIB = 2**30
# A machine of 16 GiB shows a little less than that, and never more.
_SIZES = tuple(float(size) for power in range(12) for size in (2**power, 1.5 * 2**power))
_LITTLE = 1.02
_DIGESTS = ("model_sha256", "sha256")
_CONTROL = ("integer_ms", "memory_ms")
_CLOCKS = "clocks not throttled"


def identity(
    benchmark: str,
    definition: Mapping[str, JsonValue],
    point: Mapping[str, JsonValue],
    machine_kind: Mapping[str, JsonValue],
    metric: str,
    labels: Mapping[str, str],
) -> str:
    """The name of a series: the beginning of a hash of what makes it."""
    return content_hash(
        {
            "version": _VERSION,
            "benchmark": benchmark,
            "what": _what(definition),
            "point": dict(point),
            "machine": dict(machine_kind),
            "metric": metric,
            "labels": dict(labels),
        }
    )[:LENGTH]


def machine_kind(environment: Mapping[str, JsonValue]) -> Facts:
    """What makes two machines the same kind: processor, cores, GPUs, a class of memory, operating system.

    A process held to some of the processors has a smaller machine than one that is not: a pod by its limit, and so
    its services in pods of their own; a container, an allocation or a pinned process by what it may use.
    """
    machine, pod = section(environment, "machine"), section(environment, "kubernetes")
    facts: Facts = {
        "processor": machine.get("cpu") or machine.get("soc"),
        "cores": machine.get("cores"),
        "memory_gib": _memory_class(machine.get("memory_bytes")),
        "gpu": machine.get("gpu"),
        "gpus": machine.get("gpus"),
        "os": machine.get("os"),
        "limit_cpus": pod.get("limit_cpus") or _usable(machine),
        "services": {name: _size_of(pod, name) for name in section(pod, "services") if _size_of(pod, name)},
    }
    return _known(facts) if machine else {}


def _usable(machine: Mapping[str, JsonValue]) -> JsonValue:
    """How many of its processors could be used; None where these are all."""
    usable, there = machine.get("usable_cores"), machine.get("cores")
    return usable if isinstance(usable, int) and isinstance(there, int) and usable < there else None


def _size_of(pod: Mapping[str, JsonValue], service: str) -> Facts:
    facts = section(section(pod, "services"), service)
    return _known({name: facts.get(name) for name in ("limit_cpus", "gpus")})


def context(result: MultiRunJobResult) -> Facts:
    """What was around a result: whatever differs between two points may explain a change."""
    environment, machine = result.environment, section(result.environment, "machine")
    packages = {name: value for name, value in section(environment, "packages").items() if name != "assay"}
    git = section(environment, "git")
    clocks = [check for check in result.checks if check.name == _CLOCKS][:1]
    facts: Facts = {
        "commit": git.get("commit"),
        "changed": git.get("changed"),
        "model": _model(result),
        "data": _data(result),
        "image": _image(result),
        "server": next((facts["version"] for facts in _facts(result, "engine") if facts.get("version")), None),
        "driver": machine.get("driver"),
        "packages": packages,
        "python": environment.get("python"),
        "kernel": machine.get("kernel"),
        "os": machine.get("os_version"),
        "governor": environment.get("governor"),
        "machine": machine.get("name"),
        "machine_id": machine.get("id"),
        "spec": result.digest,
        "definition": content_hash(_what(result.definition))[:LENGTH],
        "method": _method(result.definition),
        "program": _runs_a_program(result.definition) or None,
        "control": _control(environment),
        "throttled": next((not clock.passed for clock in clocks if clock.passed is not None), None),
        # Not known of a job that was not measured.
        "doubts": [check.name for check in result.checks if check.passed is False] if result.state == "done" else None,
        "assay": section(environment, "packages").get("assay"),
    }
    return _known(facts)


def _what(definition: Mapping[str, JsonValue]) -> Facts:
    """The part of a definition that says what is measured, by names and not by contents."""
    # A copy: parts of it are taken away, and one spelling for tuples and lists.
    facts: Facts = json.loads(json.dumps({name: part for name, part in definition.items() if name not in _NOT_WHAT}))
    target = facts.get("target")
    if isinstance(target, dict):
        for name in ("sha256", "price"):
            target.pop(name, None)
    services = facts.get("services")
    for service in services.values() if isinstance(services, dict) else ():
        if isinstance(service, dict):
            service.pop("needs", None)
            if isinstance(image := service.get("image"), str):
                service["image"] = _without_tag(image)
    return facts


def _method(definition: Mapping[str, JsonValue]) -> Facts:
    """The part of a definition that may change in the course of a series."""
    parts: Facts = {name: definition.get(name) for name in _HOW}
    return _known(parts | {"price": section(definition, "target").get("price")})


def _without_tag(image: str) -> str:
    """An image by its name: `docker://a/b:1.2@sha256:…` is `docker://a/b`."""
    folder, slash, name = image.partition("@")[0].rpartition("/")
    return f"{folder}{slash}{name.partition(':')[0]}"


def _memory_class(total: JsonValue) -> float | None:
    if not isinstance(total, int | float) or total <= 0:
        return None
    return next((size for size in _SIZES if total / _GIB <= size * _LITTLE), round(total / _GIB))


def _model(result: MultiRunJobResult) -> str | None:
    """The digest of the model that was measured, as a run read it, else as the file promises it."""
    for run in result.runs:
        for facts in (section(run.facts, "model"), run.facts):
            if digest := _digest_in(facts):
                return digest
    return _digest_in(section(result.definition, "target"))


def _digest_in(facts: Mapping[str, JsonValue]) -> str | None:
    return next((value for key in _DIGESTS if isinstance(value := facts.get(key), str) and value), None)


def _data(result: MultiRunJobResult) -> str | None:
    """The digest of what the target was fed, where a run tells one."""
    for name, key in (("workload", "digest"), ("corpus", "sha256")):
        for facts in _facts(result, name):
            if isinstance(value := facts.get(key), str):
                return value
    for run in result.runs:
        inputs = run.facts.get("inputs")
        fed = (
            [entry.get("sha256") for entry in inputs if isinstance(entry, Mapping)] if isinstance(inputs, list) else []
        )
        if any(fed):
            return content_hash(fed)
    return None


def _image(result: MultiRunJobResult) -> JsonValue:
    """The images of the services: by digest as a run read it, else by the name that the definition gives."""
    images: Facts = {}
    for name, service in section(result.definition, "services").items():
        if isinstance(service, Mapping) and isinstance(image := service.get("image"), str):
            images[name] = image
    for facts in _facts(result, "service"):
        digest = facts.get("image_digest") or facts.get("image_id")
        if digest and str(facts.get("name")) in images:
            images[str(facts.get("name"))] = digest
            break
    return next(iter(images.values())) if len(images) == 1 else images


def _facts(result: MultiRunJobResult, name: str) -> Iterator[Mapping[str, JsonValue]]:
    """What each run says about one thing."""
    return (facts for run in result.runs if (facts := section(run.facts, name)))


def _runs_a_program(definition: Mapping[str, JsonValue]) -> bool:
    """Whether files on a command line are code that is measured."""
    services = section(definition, "services").values()
    return "command" in section(definition, "target") or any(
        isinstance(service, Mapping) and "command" in service and "image" not in service for service in services
    )


def _control(environment: Mapping[str, JsonValue]) -> Facts:
    """How long the control workload took, before and after the job together."""
    states = [section(section(section(environment, when), "fitness"), "control") for when in ("before", "after")]
    control: Facts = {}
    for part in _CONTROL:
        took = [value for state in states if isinstance(value := state.get(part), int | float) and value > 0]
        if took:
            control[part] = round(sum(took) / len(took), 4)
    version = next((state["version"] for state in states if "version" in state), None)
    return control | {"version": version} if control and version is not None else control


def _known(facts: Mapping[str, JsonValue]) -> Facts:
    return {name: value for name, value in facts.items() if value is not None and value != "" and value != {}}
