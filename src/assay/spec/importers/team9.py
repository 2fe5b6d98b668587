"""team9's recipes: one Ollama service, clients that ask it side by side, and the Slurm options of both.

Three generations of recipes are read: the one that their program acts on (`job.infrastructure`, `job.service`), the
one that their pages describe (`job.resources`, `job.workload`, `job.client`), and the first, which had its sections at
the top. Where two of them say the same thing differently, the one that their program acts on holds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from pydantic import JsonValue

from assay.errors import Problem, SpecError
from assay.spec.benchmark import LEAST_RUNS
from assay.spec.importers.fields import ForeignDocument, line, number, shown, slurm_time, text, whole
from assay.spec.importers.registry import Imported

TITLE = "a team9 recipe"
SERVICE = "ollama"
# What their programs assume where a recipe is silent.
PARTITION, TIME, MEMORY_GB = "gpu", "00:05:00", 64
CLIENT_PARTITION, CLIENT_TIME, CLIENT_MEMORY_GB = "cpu", "00:30:00", 8
MODEL, CLIENTS, REQUESTS = "llama2", 1, 5
ACCOUNT = "p200981"
MODULES = "env/release/2024.1 and Apptainer"

_PARTS = ("infrastructure", "service", "resources", "workload", "client", "metadata")
_SECTIONS = frozenset({"job", *_PARTS, *(f"job.{part}" for part in _PARTS)})
_MEMORY = whole(1, 1_000_000)
_MAX_CLIENTS, _MAX_REQUESTS = 65_536, 1_000_000_000
_KINDS = ("inference", "llm", "training")
# What a recipe can say that nothing here acts on, and why.
_MEANINGLESS = {
    "username": "the user is the one who runs assay",
    "batchSize": "Ollama batches by itself what arrives together; see OLLAMA_NUM_PARALLEL of the service",
    "n_services": "one service is measured; several are several benchmarks",
}
_FETCHED = (
    "the original fetched {model} on the node: here it lies in the folder models beside the file, fetched ahead by "
    "`OLLAMA_MODELS=$PWD/models ollama pull {model}`"
)
_FOLLOWS = (
    "OLLAMA_NUM_PARALLEL and OLLAMA_MAX_LOADED_MODELS follow the clients, as in the original: to compare numbers of "
    "them, set services.ollama.env to one value for all"
)
_RUNS = (
    "the requests are sent in each of 5 runs, originally in one: all must fit into the time limits; measure.runs sets "
    "how many"
)
T = TypeVar("T")


def recognises(document: Mapping[str, Any]) -> bool:
    """Whether a document looks like a recipe."""
    if "benchmark" in document or "target" in document:
        return False
    job = document.get("job")
    if isinstance(job, Mapping):
        return any(part in job for part in _PARTS)
    return isinstance(document.get("infrastructure"), Mapping) and isinstance(document.get("service"), Mapping)


def imported(document: Mapping[str, Any]) -> Imported:
    """A recipe as a benchmark document, with a line for each field that means nothing here."""
    if not isinstance(document, Mapping) or not ({"job", *_PARTS} & set(document)):
        raise _no_recipe("a recipe is an object with the key job", "")
    if not isinstance(document.get("job", {}), Mapping):
        raise _no_recipe(f"job: a section with keys is needed, not {shown(document['job'])}", "job")
    recipe = _Recipe(_with_sections(document), _SECTIONS)
    return recipe.imported(recipe.document())


def _with_sections(document: Mapping[str, Any]) -> dict[str, Any]:
    """The document in which a service that is one word is a section too."""

    def whole_service(section: Mapping[str, Any]) -> dict[str, Any]:
        service = section.get("service")
        return {**section, "service": {"type": service}} if isinstance(service, str) else dict(section)

    sections = whole_service(document)
    if isinstance(sections.get("job"), Mapping):
        sections["job"] = whole_service(sections["job"])
    return sections


class _Recipe(ForeignDocument):
    """One recipe while it is read."""

    name = "recipe"

    def document(self) -> dict[str, JsonValue]:
        self._refuse_other_kinds()
        notes = self._first(text, "metadata.notes")
        scenario = self._first(line(), "scenario")
        model = self._model()
        users = self._clients()
        benchmark: dict[str, JsonValue] = {"benchmark": self._first(line(), "name") or scenario or f"{model} on Ollama"}
        if notes:
            benchmark["description"] = notes
        if scenario:
            benchmark["labels"] = {"scenario": scenario}
        benchmark["services"] = {SERVICE: self._service(users)}
        benchmark["target"] = self._target(model)
        if (tokens := self._first(whole(1, 1_000_000), "workload.max_tokens")) is not None:
            benchmark["workload"] = {"output_tokens": tokens}
        benchmark["load"] = self._load(users)
        benchmark["measure"] = {"runs": LEAST_RUNS}
        benchmark["place"] = {"engine": "slurm", "slurm": self._slurm()}
        benchmark["monitoring"] = True
        self._remark_meaningless()
        self._remark_surroundings(model)
        return benchmark

    def _first(self, parse: Callable[[Any], T], *names: str) -> T | None:
        """The strongest value among several places that mean the same; says which others are not used."""
        paths = self.fields.given(_paths(*names))
        if not paths:
            return None
        value = self.fields.read(paths[0], parse)
        for path in paths[1:]:
            if self.fields.read(path, parse) != value:
                self.say(path, f"{paths[0]} says it too, and holds")
        return value

    def _path(self, *names: str) -> str | None:
        """Where the first of several places has a value."""
        paths = self.fields.given(_paths(*names))
        return paths[0] if paths else None

    def _refuse_other_kinds(self) -> None:
        for name in ("service.type", "workload.component", "workload.service"):
            path = self._path(name)
            kind = None if path is None else self.fields.read(path, line())
            if path is None or kind is None:
                continue
            if kind.lower() not in _KINDS:
                self.fields.wrong(
                    path,
                    f"{shown(kind)} was never run by these recipes, so that there is nothing to import; for a vector "
                    "database see `assay recipes show qdrant`",
                )
            elif kind.lower() == "training":
                self.remarks.append(f'{path} is "training": such a recipe queried a model anyway, and so does this')

    def _model(self) -> str:
        return self._first(line(), "service.model", "workload.model") or MODEL

    def _clients(self) -> int:
        count = self._first(
            whole(1, _MAX_CLIENTS), "service.n_clients", "client.n_clients", "workload.numClients", "numClients"
        )
        return count or CLIENTS

    def _service(self, users: int) -> dict[str, JsonValue]:
        memory = self._first(_MEMORY, "infrastructure.mem_gb", "resources.mem_gb") or MEMORY_GB
        needs: dict[str, JsonValue] = {"gpus": self._gpus(), "memory": f"{memory}GiB"}  # Slurm's G is 2^30 bytes
        env: dict[str, JsonValue] = {"OLLAMA_NUM_PARALLEL": str(users), "OLLAMA_MAX_LOADED_MODELS": str(users)}
        return {"recipe": "ollama", "env": env, "needs": needs}

    def _gpus(self) -> int | None:
        """GPUs of the service: as given, else one where its partition has them; recipes request none by name."""
        count = self._first(whole(0, 64), "resources.gpus")
        unit = self._first(line(), "resources.processing-unit")
        if unit is not None and unit.lower() not in ("cpu", "gpu"):
            path = self._path("resources.processing-unit")
            self.fields.wrong(path or "job.resources.processing-unit", f"must be cpu or gpu, not {shown(unit)}")
        if count is not None:
            return count or None
        on_gpu = unit.lower() == "gpu" if unit else "gpu" in self._partition().lower()
        return 1 if on_gpu else None

    def _partition(self) -> str:
        return self._first(line(), "infrastructure.partition", "partition") or PARTITION

    def _target(self, model: str) -> dict[str, JsonValue]:
        options: dict[str, JsonValue] = {}
        if (heat := self._first(number(0, 100), "workload.temperature")) is not None:
            options["temperature"] = heat
        if (context := self._first(whole(1, 100_000_000), "workload.context_length")) is not None:
            options["num_ctx"] = context
        target: dict[str, JsonValue] = {"service": SERVICE, "api": "ollama", "model": model}
        return {**target, "options": options} if options else target

    def _load(self, users: int) -> dict[str, JsonValue]:
        """A closed loop of this many clients; a rate where a recipe names no clients."""
        per_client = self._first(
            whole(1, _MAX_REQUESTS), "service.n_requests_per_client", "client.n_requests_per_client"
        )
        lasting = self._first(number(0.001, 1e7), "client.test_duration")
        rate = self._first(number(1e-6, 1e9), "client.request_rate")
        counted = self._path("service.n_clients", "client.n_clients", "workload.numClients", "numClients")
        is_open = rate is not None and counted is None and per_client is None
        load: dict[str, JsonValue] = {"rate": rate} if is_open else {"concurrency": users}
        if rate is not None and not is_open:
            self._say(
                "client.request_rate",
                f"a rate and a number of clients are different loads, and the original kept "
                f"{users} clients busy; for the rate set load: {{rate: {rate:g}, duration: 60s}}",
            )
        if lasting is not None and per_client is None:
            return {**load, "duration": f"{lasting}s"}
        if lasting is not None:
            self._say(
                "client.test_duration",
                "the requests are counted; for a time set load.duration in place of load.requests",
            )
        requests = users * (per_client or REQUESTS)
        if requests > _MAX_REQUESTS:
            path = self._path("service.n_requests_per_client", "client.n_requests_per_client") or "job"
            self.fields.wrong(
                path,
                f"{users:,} clients with {per_client or 0:,} requests each are more than {_MAX_REQUESTS:,} requests",
            )
        return {**load, "requests": requests}

    def _slurm(self) -> dict[str, JsonValue]:
        options: dict[str, JsonValue] = {"partition": self._partition()}
        if account := self._first(line(), "infrastructure.account", "account"):
            options["account"] = account
        if (limit := self._time("infrastructure.time", TIME)) is not None:
            options["time"] = limit
        options["runtime"] = "apptainer"
        clients: dict[str, JsonValue] = {"count": 1}
        clients["partition"] = self._first(line(), "infrastructure.client_partition") or CLIENT_PARTITION
        small = self._first(_MEMORY, "infrastructure.client_mem_gb") or CLIENT_MEMORY_GB
        clients["memory"] = f"{small}GiB"
        if (limit := self._time("infrastructure.client_time", CLIENT_TIME)) is not None:
            clients["time"] = limit
        options["clients"] = clients
        if (cpus := self._first(whole(1, 100_000), "resources.cpus_per_task")) is not None:
            options["each"] = {SERVICE: {"cpus": cpus}}
        return options

    def _time(self, name: str, default: str) -> str | None:
        path = self._path(name)
        if path is None:
            return slurm_time(default)
        limit = self.fields.read(path, slurm_time)
        if limit is None:
            self._say(name, "no limit is named, so that the partition's own holds")
        return limit

    def _remark_meaningless(self) -> None:
        """Say of each field that is known and does nothing here why it does nothing."""
        nodes = self._first(whole(1, 100_000), "infrastructure.nodes", "resources.nodes")
        if nodes is not None and nodes > 1:
            self._say(
                "infrastructure.nodes",
                "Ollama uses one node, and the others stood idle; one is asked for",
                "resources.nodes",
            )
        if self._first(line(), "service.precision", "workload.precision"):
            self._say(
                "service.precision",
                "it changed nothing; with Ollama the tag of a model says it, such as llama2:7b-chat-fp16",
                "workload.precision",
            )
        if self._first(text, "service.prompt", "client.prompt") is not None:
            why = (
                "their client sent a prompt of its own; for yours write a file prompts.jsonl with the line "
                '{"prompt": "…"}, and set workload.file'
            )
            self._say("service.prompt", why, "client.prompt")
        if lengths := self._first(_lengths, "workload.prompt_len"):
            low, high = lengths
            why = (
                "a length in tokens needs the model's tokenizer; with target.tokenizer set workload.input_tokens: "
                f"{{shape: uniform, mean: {(low + high) / 2:g}, min: {low}, max: {high}}}"
            )
            self._say("workload.prompt_len", why)
        for name, why in _MEANINGLESS.items():
            for place in (name, f"workload.{name}"):
                if self._path(place) is not None:
                    self._say(place, why)

    def _say(self, name: str, why: str, *values: str) -> None:
        if (path := self._path(name, *values)) is not None:
            self.say(path, why)

    def _remark_surroundings(self, model: str) -> None:
        """Say what their programs did beside the recipe, and who does it now."""
        if self._path("infrastructure.account", "account") is None:
            self.remarks.append(
                f"no account is named: the original charged {ACCOUNT}, here it is the cluster's default"
            )
        self.remarks += [
            f"their scripts loaded the modules {MODULES}: where a site needs that, set place.slurm.modules",
            _FETCHED.replace("{model}", model),
            _FOLLOWS,
            _RUNS,
        ]


def _no_recipe(message: str, at: str) -> SpecError:
    return SpecError.of([Problem("import", message, at, "write {job: {infrastructure: {…}, service: {…}}}")])


def _paths(*names: str) -> list[str]:
    """Where fields can lie: under job, or at the top, as the first recipes had them."""
    return [path for name in names for path in (f"job.{name}", name)]


def _lengths(value: object) -> tuple[int, int]:
    """Read a range of lengths, or one length."""
    parse = whole(1, 100_000_000)
    low, high = value if isinstance(value, list) and len(value) == 2 else (value, value)
    bounds = (parse(low), parse(high))
    if bounds[1] < bounds[0]:
        raise ValueError(f"must be a length, or the shortest and the longest, not {shown(value)}")
    return bounds
