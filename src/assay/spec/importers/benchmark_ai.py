"""Descriptors of Benchmark AI (later Anubis): a program in a container on a machine of a type, or client and server.

Everything that a descriptor can say becomes a key of a benchmark file, or has a line that says why it means nothing.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Mapping
from typing import Any

from pydantic import JsonValue

from assay.errors import Problem, SpecError
from assay.spec.benchmark import LEAST_RUNS
from assay.spec.importers.benchmark_ai_descriptor import (
    SECTIONS,
    Descriptor,
    cluster_of,
    cron,
    ports,
    scalars,
    variables,
    with_values,
)
from assay.spec.importers.fields import line, shown, text, whole
from assay.spec.importers.registry import Imported

TITLE = "a Benchmark AI descriptor"
SERVER = "server"
# What their programs assume where a descriptor is silent.
SPEC_VERSION, STRATEGY = "0.1.0", "single_node"
# Theirs had no limit; one day is longer than any of their samples, and ends what hangs.
TIMEOUT = "24h"
_ENGINES = ("default", "aws.sagemaker")
_STRATEGIES = ("single_node", "inference", "horovod")
_SCRIPTS = "BAI_SCRIPTS_PATH"
_CODE = "{code}"
_READY_S = 300
_HERE = (
    "Benchmark AI ran on Kubernetes, and so does this: place.kubernetes.image must name an image with assay for its "
    "pods. To run it on this machine set place.engine=local, and as a plain process in place of the container "
    "target.image=null{server}"
)
_TIMES = (
    "a server keeps these times, and its agents measure, as pods of the chart in deploy/ or elsewhere: "
    "assay schedules add FILE --set place.engine=fleet"
)
_RUNS = "Benchmark AI measured one run; here there are 5, whose spread is the error: measure.runs sets how many"
_POLLED = "a server is polled from its start until ready.within is over, and its first good answer counts"
_SERVER_LOG = (
    "server.output.metrics are read where client and server run on one machine; on Kubernetes the log of a server "
    "stays in its pod, is kept with the results, and these metrics are absent"
)
_PROBED = ("initial_delay_seconds", "period_seconds", "timeout_seconds", "success_threshold", "failure_threshold")
_SAGEMAKER = "it is for SageMaker alone, which nothing here uses"


def recognises(document: Mapping[str, Any]) -> bool:
    """Whether a document looks like a descriptor."""
    if "benchmark" in document or "target" in document:
        return False
    hardware, env = document.get("hardware"), document.get("env")
    typed = isinstance(hardware, Mapping) and "instance_type" in hardware
    imaged = isinstance(env, Mapping) and "docker_image" in env
    return (typed and imaged) or ("spec_version" in document and (typed or imaged))


def imported(document: Mapping[str, Any]) -> Imported:
    """A descriptor as a benchmark document, with a line for each field that means nothing here."""
    if not isinstance(document, Mapping) or not ({"hardware", "env"} & set(document)):
        tip = "write [hardware] and [env], as their samples do"
        raise SpecError.of([Problem("import", "a descriptor has the sections hardware and env", "", tip)])
    descriptor = Descriptor(_with_probe(document), SECTIONS)
    return descriptor.imported(_document(descriptor))


def _with_probe(document: Mapping[str, Any]) -> dict[str, Any]:
    """The document in which a readiness probe that is a URL, as the first descriptors had it, is a section too."""
    copy = dict(document)
    server = copy.get("server")
    env = server.get("env") if isinstance(server, Mapping) else None
    probe = env.get("readiness_probe") if isinstance(env, Mapping) else None
    match = re.fullmatch(r"(https?)://[^/:]+(?::(\d{1,5}))?(/\S*)?", probe) if isinstance(probe, str) else None
    if match is None or not isinstance(server, Mapping) or not isinstance(env, Mapping):
        return copy
    section = {"scheme": match[1], "path": match[3] or "/", **({"port": int(match[2])} if match[2] else {})}
    return {**copy, "server": {**server, "env": {**env, "readiness_probe": section}}}


def _document(descriptor: Descriptor) -> dict[str, JsonValue]:
    strategy = descriptor.read("hardware.strategy", _strategy) or STRATEGY
    served = strategy == "inference"
    image = descriptor.needed("env.docker_image", line(500))
    instance = descriptor.instance("hardware.instance_type")
    labels = _labels(descriptor)
    benchmark: dict[str, JsonValue] = {"benchmark": _name(descriptor, labels, image)}
    if described := " ".join((descriptor.read("info.description", text) or "").split()):
        benchmark["description"] = described
    if labels:
        benchmark["labels"] = {**labels}
    if served:
        benchmark["services"] = {SERVER: _server(descriptor)}
    benchmark["target"] = _target(descriptor, image, strategy)
    benchmark["measure"] = {"runs": LEAST_RUNS, "timeout": TIMEOUT}
    if instance is not None:
        benchmark["needs"] = instance.needs()
    benchmark["place"] = {"engine": "kubernetes", "kubernetes": cluster_of(descriptor, strategy, instance, SERVER)}
    if (times := descriptor.read("info.scheduling", cron)) is not None:
        benchmark["schedule"] = times
        descriptor.say("info.scheduling", _TIMES)
    _remark_meaningless(descriptor, served=served)
    return benchmark


def _strategy(value: object) -> str:
    strategy = {"client_server": "inference"}.get(str(value), value)
    if strategy not in _STRATEGIES:
        raise ValueError(f"must be one of {', '.join(_STRATEGIES)}; {shown(value)} was never run by anybody")
    return str(strategy)


def _labels(descriptor: Descriptor) -> dict[str, str]:
    labels = descriptor.read("info.labels", scalars) or {}
    if (task := descriptor.read("info.task_name", line())) is not None:
        labels = {"task_name": task, **labels}
    # Theirs were labels of every metric too.
    for path, name in (
        ("custom_params.dashboard", "dashboard-name"),
        ("custom_params.region", "region"),
        ("ml.framework", "framework"),
        ("ml.framework_version", "framework_version"),
    ):
        if (value := descriptor.read(path, text)) and name not in labels:
            labels[name] = value
            descriptor.say(path, f"only a label here: labels.{name}")
    return labels


def _name(descriptor: Descriptor, labels: Mapping[str, str], image: str | None) -> str:
    described = " ".join((descriptor.read("info.description", text) or "").split())
    return (descriptor.read("info.task_name", line()) or labels.get("task_name") or described or image or "descriptor")[
        :200
    ]


def _target(descriptor: Descriptor, image: str | None, strategy: str) -> dict[str, JsonValue]:
    addresses = _addresses(descriptor) if strategy == "inference" else {}
    env = descriptor.read("env.vars", variables) or {}
    resolved = with_values(env, {_SCRIPTS: _CODE, **addresses})
    target: dict[str, JsonValue] = {"image": image, **_command(descriptor, resolved, strategy)}
    if env or addresses:
        target["env"] = {**addresses, **{name: resolved[name] for name in env}}
    if (script := descriptor.read("ml.script.script", _script)) is not None:
        target["code"] = script
    elif any(_SCRIPTS in value for value in (*_texts(descriptor), *env.values())):
        descriptor.remarks.append(
            f"{_SCRIPTS} is used, and the descriptor names no code: set target.code to what `--script` "
            "named, such as --set target.code=src"
        )
    if sources := descriptor.sources("data.sources"):
        target["fetch"] = sources
    own, of_server = descriptor.metrics("output.metrics"), descriptor.metrics("server.output.metrics", SERVER, strategy)
    if own or of_server:
        target["metrics"] = [*own, *of_server]
    if of_server:
        descriptor.remarks.append(_SERVER_LOG)
    return target


def _texts(descriptor: Descriptor) -> tuple[str, str]:
    return descriptor.read("ml.benchmark_code", text) or "", descriptor.read("ml.args", text) or ""


def _script(value: object) -> str:
    name = line(500)(value)
    if not name.lower().endswith(".tar"):
        raise ValueError(f"must be a file that ends with .tar, not {shown(value)}")
    return name


def _command(descriptor: Descriptor, variables: Mapping[str, str], strategy: str) -> dict[str, JsonValue]:
    """The command of the container: that of the descriptor, or arguments for the image's own."""
    code, args = _texts(descriptor)
    if strategy == "horovod" and code.strip():
        return _script_of_a_shell(code, args)
    words = descriptor.words("ml.benchmark_code", code, variables)
    more = descriptor.words("ml.args", args, variables)
    if words:
        return {"command": descriptor.as_written([*words, *more])}
    return {"args": descriptor.as_written(more)} if more else {}


def _script_of_a_shell(code: str, args: str) -> dict[str, JsonValue]:
    """The command of nodes that train together: a file, run by the program that its first line names."""
    first, _, rest = textwrap.dedent(code).strip().partition("\n")
    # Theirs glued the arguments to it without a space.
    if not first.startswith("#!") or not first[2:].strip():
        return {"command": f"{first}\n{rest}".strip() + (f" {args}" if args else ""), "shell": True}
    return {"command": [*first[2:].split(), "-c", rest.strip() + (f" {args}" if args else "")]}


def _addresses(descriptor: Descriptor) -> dict[str, str]:
    """The variables by which a client finds its server."""
    numbers = descriptor.read("server.env.ports", ports) or []
    addresses = {"INFERENCE_SERVER_HOST": f"{{host:{SERVER}}}"}
    for index, number in enumerate(numbers):
        addresses["INFERENCE_SERVER_PORT" + (f"_{index}" if index else "")] = str(number)
    return addresses


def _server(descriptor: Descriptor) -> dict[str, JsonValue]:
    service: dict[str, JsonValue] = {"image": descriptor.needed("server.env.docker_image", line(500))}
    env = descriptor.read("server.env.vars", variables) or {}
    resolved = with_values(env, {})
    start = descriptor.needed("server.env.start_command", text) or ""
    args = descriptor.read("server.env.start_command_args", text) or ""
    words = descriptor.words("server.env.start_command", start, resolved)
    words += descriptor.words("server.env.start_command_args", args, resolved)
    if words:
        service["command"] = descriptor.as_written(words)
    numbers = descriptor.needed("server.env.ports", ports)
    service["port"] = descriptor.read("server.env.readiness_probe.port", whole(1, 65_535)) or (
        numbers[0] if numbers else None
    )
    service["ready"] = _ready(descriptor)
    if (instance := descriptor.instance("server.hardware.instance_type")) is not None:
        service["needs"] = instance.needs()
    if env:
        service["env"] = {name: resolved[name] for name in env}
    if models := descriptor.sources("server.models"):
        service["fetch"] = models
    return service


def _ready(descriptor: Descriptor) -> dict[str, JsonValue]:
    at = "server.env.readiness_probe"
    path = descriptor.read(f"{at}.path", line(500))
    scheme = (descriptor.read(f"{at}.scheme", line(10)) or "http").lower()
    if scheme not in ("http", "https"):
        descriptor.fields.wrong(f"{at}.scheme", f"must be http or https, not {shown(scheme)}")
    ignored = [name for name in _PROBED if descriptor.read(f"{at}.{name}", whole(0, 86_400)) is not None]
    for name in ignored:
        descriptor.say(f"{at}.{name}", _POLLED)
    delay = descriptor.read(f"{at}.initial_delay_seconds", whole(0, 86_400)) or 0
    timing: dict[str, JsonValue] = {"within": f"{delay + _READY_S}s"} if delay >= _READY_S else {}
    if path is None:
        if descriptor.fields.given([f"{at}.port", f"{at}.scheme"]) or ignored:
            descriptor.fields.wrong(f"{at}.path", "it is needed for a readiness probe")
        descriptor.remarks.append(
            "the server has no readiness probe: it counts as ready when its port takes a connection"
        )
        return {"tcp": True, **timing}
    if scheme == "https":
        descriptor.say(
            f"{at}.scheme",
            "only that its port takes a connection is looked at; a command can ask over https: "
            "services.server.ready.command",
        )
        return {"tcp": True, **timing}
    return {"http": path, **timing}


def _remark_meaningless(descriptor: Descriptor, *, served: bool) -> None:
    """Say of each field that is known and does nothing here why it does nothing."""
    version = descriptor.read("spec_version", line())
    if version is not None and version != SPEC_VERSION:
        descriptor.say("spec_version", f"it is read as {SPEC_VERSION}, the only one that there was")
    engine = descriptor.read("info.execution_engine", line())
    if engine is not None and engine not in _ENGINES:
        descriptor.fields.wrong("info.execution_engine", f"must be one of {', '.join(_ENGINES)}, not {shown(engine)}")
    elif engine == "aws.sagemaker":
        descriptor.say("info.execution_engine", "there is no managed training service here: it runs on Kubernetes")
    for name in ("python_version", "sagemaker_job_name", "merge"):
        if descriptor.fields.given([f"custom_params.{name}"]):
            descriptor.say(f"custom_params.{name}", _SAGEMAKER)
    if descriptor.fields.given(["custom_params.hyper_params"]):
        descriptor.say("custom_params.hyper_params", f"{_SAGEMAKER}; put them into target.command as --name value")
    if descriptor.fields.given(["server.env.liveliness_probe"]):
        descriptor.say(
            "server.env.liveliness_probe",
            "a server that ends fails its run; whether it still answers, the client tells",
        )
    if not served:
        for path in [path for path in descriptor.fields.left() if path.startswith("server.")]:
            descriptor.fields.given([path])
            descriptor.say(path, 'a server belongs to strategy = "inference"; left out')
    descriptor.remarks += [_HERE.replace("{server}", " and services.server.image=null" if served else ""), _RUNS]
