"""The values of a descriptor of Benchmark AI, read one by one: what is wrong and what means nothing is kept."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from pydantic import JsonValue, ValidationError

from assay.documents import validation_words
from assay.spec.importers.fields import VARIABLE, ForeignDocument, Instance, find_instance, line, shown, text, whole
from assay.spec.limits import check_patterns, compiled, split_words
from assay.spec.schedule import Schedule
from assay.spec.target import METRIC_NAME, Fetch

_REFERENCE = re.compile(r"\$\$|\$\(([-._A-Za-z0-9]+)\)")


def expanded(text: str, values: Mapping[str, str]) -> str:
    """A text with the values of variables put in; `$$` stands for a dollar, and what is not known stays as it is."""
    return _REFERENCE.sub(lambda match: "$" if match[1] is None else values.get(match[1], match[0]), text)


def with_values(variables: Mapping[str, str], values: dict[str, str]) -> dict[str, str]:
    """Variables beside those that are known; as Kubernetes does it, one may use those above it."""
    for name, value in variables.items():
        values[name] = expanded(value, values)
    return values


SECTIONS = frozenset(
    {"info", "hardware", "hardware.distributed", "env", "ml", "ml.script", "data", "output", "custom_params", "server",
     "server.hardware", "server.env", "server.env.readiness_probe", "server.output"}
)  # fmt: skip
SINGLE_RUN = "single_run"
_GPU_FAMILY = re.compile(r"^[gp]\d")
_VARIABLE = re.compile(r"[A-Za-z_][-A-Za-z0-9_.]*")
_LABEL_VALUE = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
_SOURCE_KEYS = ("src", "uri", "path", "id", "md5")
_METRIC_KEYS = ("name", "units", "pattern")
T = TypeVar("T")


class Descriptor(ForeignDocument):
    """One descriptor while it is read."""

    name = "descriptor"

    def read(self, path: str, parse: Callable[[Any], T]) -> T | None:
        """One value, checked; None where there is none or it is wrong."""
        return self.fields.read(path, parse)

    def needed(self, path: str, parse: Callable[[Any], T]) -> T | None:
        """One value that must be there."""
        if not self.fields.given([path]):
            self.fields.wrong(path, "it is needed")
        return self.fields.read(path, parse)

    def words(self, path: str, command: str, variables: Mapping[str, str]) -> list[str]:
        """The words of a command, with the values of variables that it names by `$(NAME)`."""
        try:
            words = [expanded(word, variables) for word in split_words(command)]
        except ValueError as broken:
            self.fields.wrong(path, f"cannot be split into words: {broken}")
            return []
        if words and not words[0].strip():
            self.fields.wrong(path, f"{shown(command)} begins with an empty word")
        return words

    def as_written(self, words: list[str]) -> JsonValue:
        """Words as a person would write them: in one line where that means the same, else as a list."""
        joined = " ".join(words)
        try:
            return joined if split_words(joined) == tuple(words) else [*words]
        except ValueError:  # a quote inside a word
            return [*words]

    def instance(self, path: str) -> Instance | None:
        """The type of machine that a field names; an unknown type is reported."""
        name = self.needed(path, label_value)
        instance = None if name is None else find_instance(name)
        if name is None or instance is not None:
            return instance
        if _GPU_FAMILY.match(name):
            self.fields.wrong(
                path,
                f"{shown(name)} is in no table, so that its GPUs are not known; add it to a table "
                f"of yours, which {VARIABLE} names",
            )
        else:
            self.say(path, f"no table has it, so that needs asks for nothing; {VARIABLE} names a table of yours")
        return None

    def sources(self, path: str) -> list[JsonValue]:
        """Files to fetch, as `fetch` of a benchmark file lists them."""
        sources: list[JsonValue] = []
        for at, table in self._tables(path, _SOURCE_KEYS):
            src = table.get("src", table.get("uri"))
            if table.get("id") is not None:
                self.remarks.append(f"{at}.id is {shown(table['id'])}: files are kept by their address and digest")
            fetch = {"src": src, "path": table.get("path"), "md5": table.get("md5")}
            keys = {name: value for name, value in fetch.items() if value is not None}
            try:
                Fetch.model_validate(keys)
            except ValidationError as wrong:
                for error in wrong.errors():
                    name = str(error["loc"][0]) if error["loc"] else "src"
                    missing = error["type"] == "missing"
                    reason = "it is needed" if missing else validation_words(error)
                    self.fields.wrong(f"{at}.{name}", reason)
                continue
            sources.append(keys)
        return sources

    def metrics(self, path: str, service: str | None = None, strategy: str = "inference") -> list[JsonValue]:
        """Metrics found by patterns, as `target.metrics` lists them; a server has some with `inference` alone.

        Args:
            service: whose output they are about, where it is not the command's own.
        """
        if service is not None and strategy != "inference":
            return []
        metrics: list[JsonValue] = []
        tables = self._tables(path, _METRIC_KEYS)
        try:
            check_patterns(str(table.get("pattern", "")) for _, table in tables)
        except ValueError as problem:
            self.fields.wrong(path, str(problem))
            return []
        for at, table in tables:
            name, pattern = self._text(at, table, "name"), self._text(at, table, "pattern")
            units = self._text(at, table, "units")
            if name is None or pattern is None:
                continue
            self._check_pattern(f"{at}.pattern", pattern)
            clean = re.sub(r"[^A-Za-z0-9_.-]", "_", name)
            clean = clean if METRIC_NAME.match(clean) else f"_{clean}"
            if clean != name:
                self.remarks.append(f"{at}.name is {shown(name)}: the metric is called {clean}")
            metric: dict[str, JsonValue] = {"name": clean, "unit": units or "", "pattern": pattern}
            metrics.append(metric if service is None else {**metric, "service": service})
        return metrics

    def _check_pattern(self, at: str, pattern: str) -> None:
        try:
            groups = compiled(pattern).groups
        except ValueError as problem:
            self.fields.wrong(at, f"{shown(pattern)} is no regular expression: {problem}")
            return
        if groups == 0:
            self.fields.wrong(at, f"{shown(pattern)} has no group; put the number in parentheses")

    def _text(self, at: str, table: Mapping[str, Any], name: str) -> str | None:
        if table.get(name) is None:
            self.fields.wrong(f"{at}.{name}", "it is needed")
            return None
        try:
            return text(table[name])
        except ValueError as problem:
            self.fields.wrong(f"{at}.{name}", str(problem))
            return None

    def _tables(self, path: str, keys: tuple[str, ...]) -> list[tuple[str, Mapping[str, Any]]]:
        """The tables of a list, with the path of each; what is no table is wrong, and unknown keys are reported."""
        entries = self.fields.read(path, _list) or []
        tables = []
        for index, table in enumerate(entries):
            at = f"{path}[{index}]"
            if not isinstance(table, Mapping):
                self.fields.wrong(at, f"a table with keys is needed here, not {shown(table)}")
                continue
            self.remarks += [
                f"{at}.{key} is {shown(value)}: no field of a descriptor that is known; left out"
                for key, value in table.items()
                if key not in keys
            ]
            tables.append((at, table))
        return tables


def cron(value: object) -> str | None:
    """Read when a descriptor runs again: a cron expression; None for a single run."""
    if value == SINGLE_RUN:
        return None
    # A question mark is how some of their tools write "any".
    fields = re.sub(r"(?<=\s)\?(?=\s|$)|^\?(?=\s)", "*", line(500)(value))
    try:
        Schedule.model_validate({"cron": fields})
    except ValidationError as wrong:
        reason = validation_words(wrong.errors()[0])
        raise ValueError(f"{shown(value)} is neither {SINGLE_RUN} nor a schedule: {reason}") from None
    return fields


def flag(value: object) -> bool:
    """Read yes or no."""
    if not isinstance(value, bool):
        raise ValueError(f"must be true or false, not {shown(value)}")  # noqa: TRY004  (the readers raise ValueError)
    return value


def ports(value: object) -> list[int]:
    if not isinstance(value, list) or not value:
        raise ValueError(f"must be a list with at least one port, not {shown(value)}")
    return [whole(1, 65_535)(port) for port in value]


def scalars(value: object) -> dict[str, str]:
    """Read a table of texts; numbers and flags are taken as they are written."""
    if not isinstance(value, Mapping):
        raise ValueError(f"a table with keys is needed here, not {shown(value)}")  # noqa: TRY004
    table = {}
    for key, entry in value.items():
        if not isinstance(entry, str | int | float):
            raise ValueError(f"{key} must be text, not {shown(entry)}")  # noqa: TRY004
        table[str(key)] = str(entry).lower() if isinstance(entry, bool) else text(str(entry))
    return table


def variables(value: object) -> dict[str, str]:
    """Read a table of environment variables."""
    table = scalars(value)
    for name in table:
        if not _VARIABLE.fullmatch(name):
            raise ValueError(f"{shown(name)} is not a valid name of an environment variable")
    return table


def label_value(value: object) -> str:
    """Read what can be the value of a label of a node."""
    if not isinstance(value, str) or not _LABEL_VALUE.fullmatch(value):
        raise ValueError(f"must be a name of letters, digits, - _ and ., at most 63 of them, not {shown(value)}")
    return value


def _list(value: object) -> list[Any]:
    if not isinstance(value, list):
        raise ValueError(f"must be a list of tables, not {shown(value)}")  # noqa: TRY004
    return value


TYPE_LABEL = "node.kubernetes.io/instance-type"
ZONE_LABEL, ZONE_ID_LABEL = "topology.kubernetes.io/zone", "topology.k8s.aws/zone-id"
# Their pods asked for nothing but GPUs, and had their node to themselves; a node never has all that its type has.
_MODEST: dict[str, JsonValue] = {"cpus": 0.1, "memory": "128MiB", "limits": "none"}
# What a node gives by default.
_LITTLE_SHM = "64MiB"
NODES, PROCESSES, MOST_NODES = 2, "1", 1024
_SSHD = "/usr/sbin/sshd -D"
_LAUNCHER = (
    "Benchmark AI ran the command once, on a launcher that reached the other nodes by kubectl; here the first pod runs "
    f"it and reaches the others by ssh, so that the image needs {_SSHD.split()[0]}. For a command that each pod runs "
    "(torchrun) set place.kubernetes.distributed={pods: …, launch: each}"
)


def cluster_of(descriptor: Descriptor, strategy: str, instance: Instance | None, server: str) -> dict[str, JsonValue]:
    """The section `place.kubernetes` of a descriptor; a strategy is single_node, inference or horovod."""
    cluster: dict[str, JsonValue] = {
        "node_selector": {**_type(descriptor, "hardware.instance_type"), **_zone(descriptor)},
        **_MODEST,
    }
    shared = _shared_memory(descriptor, "env.extended_shm")
    if shared:
        cluster["shm"] = "unlimited"
    privileged = descriptor.read("env.privileged", flag) or False
    if privileged:
        cluster["privileged"] = True
    if strategy == "inference":
        cluster["each"] = {server: _server(descriptor, shared=shared, privileged=privileged)}
    if strategy == "horovod":
        cluster["distributed"] = _distributed(descriptor, instance)
        descriptor.remarks.append(_LAUNCHER)
    else:
        for name in ("num_instances", "processes_per_instance"):
            if descriptor.fields.given([f"hardware.distributed.{name}"]):
                descriptor.say(f"hardware.distributed.{name}", 'it belongs to strategy = "horovod"; left out')
    return cluster


def _type(descriptor: Descriptor, path: str) -> dict[str, JsonValue]:
    name = descriptor.read(path, label_value)
    return {} if name is None else {TYPE_LABEL: name}


def _zone(descriptor: Descriptor) -> dict[str, JsonValue]:
    zone = descriptor.read("hardware.availability_zone", label_value)
    by_id = descriptor.read("hardware.aws_zone_id", label_value)
    if zone is not None and by_id is not None:
        descriptor.say("hardware.aws_zone_id", "hardware.availability_zone says it too, and holds")
    if zone is not None:
        return {ZONE_LABEL: zone}
    if by_id is None:
        return {}
    descriptor.say(
        "hardware.aws_zone_id",
        f"its nodes must carry the label {ZONE_ID_LABEL}; where they do not, take it out of "
        "place.kubernetes.node_selector",
    )
    return {ZONE_ID_LABEL: by_id}


def _shared_memory(descriptor: Descriptor, path: str) -> bool:
    shared = descriptor.read(path, flag)
    return True if shared is None else shared


def _server(descriptor: Descriptor, *, shared: bool, privileged: bool) -> dict[str, JsonValue]:
    """The options of the server's pod; what is the same as the client's is left out."""
    options: dict[str, JsonValue] = {
        "node_selector": _type(descriptor, "server.hardware.instance_type"),
        "one_per_node": True,
    }
    own = _shared_memory(descriptor, "server.env.extended_shm")
    if own != shared:
        options["shm"] = "unlimited" if own else _LITTLE_SHM
    rights = descriptor.read("server.env.privileged", flag) or False
    if rights != privileged:
        options["privileged"] = rights
    return options


def _distributed(descriptor: Descriptor, instance: Instance | None) -> dict[str, JsonValue]:
    pods = descriptor.read("hardware.distributed.num_instances", whole(2, MOST_NODES)) or NODES
    ranks = descriptor.read("hardware.distributed.processes_per_instance", _processes) or int(PROCESSES)
    if ranks == "gpus" and instance is not None and not instance.gpus:
        descriptor.fields.wrong("hardware.distributed.processes_per_instance", f"is gpus, and {instance.name} has none")
    return {"pods": pods, "ranks": ranks, "launch": "first", "others": _SSHD}


def _processes(value: Any) -> int | str:  # noqa: ANN401  (whatever the document holds)
    if value == "gpus":
        return "gpus"
    try:
        return whole(1, 1024)(value)
    except ValueError:
        raise ValueError(f"must be a number of processes or gpus, not {shown(value)}") from None
