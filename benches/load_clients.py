"""Load generators as contestants: each is told the same in its own words, and what it reports is read back."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from benches import venvs
from benches.processes import BUILD, CONTESTANTS, PeerError, run

PROMPT = "tell me a story about the sea"
# A file of so many equal prompts, for those that want a file.
_PROMPTS = 64
_REVISION = "0" * 40

Said = Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Ask:
    """What a client shall do: streamed chat answers, in a closed loop or at a rate."""

    url: str
    tokens: int
    requests: int
    users: int = 64
    rate: float | None = None
    warmup: int = 0
    """Requests before those that count, for ours."""


@dataclass(frozen=True, slots=True)
class Client:
    """One load generator."""

    name: str
    command: Callable[[Ask, Path], Sequence[str]]
    """Writes what it needs into a folder, and gives the command."""
    said: Callable[[Path], Said]
    """What it reported: milliseconds by name (`ttft_p50`, `itl_p99`, `e2e_p99` …)."""
    how: str
    """Its settings, for the page."""
    slow: bool = False
    """Whether its start alone takes many seconds."""
    environment: Mapping[str, str] = field(default_factory=dict)


def ours() -> Client:
    """The whole command: file, store and result."""
    how = (
        "`assay run FILE --store NEW --quiet --format json`; one run, no warm-up, without the control workload that "
        "takes a second before and after a job to tell whether the machine moved"
    )
    # An installed package has its bytecode; where writing it is forbidden, a checkout would be compiled each time.
    bytecode = {"PYTHONDONTWRITEBYTECODE": "", "PYTHONPYCACHEPREFIX": str(BUILD / "load-bytecode")}
    environment = {"ASSAY_CACHE": str(BUILD / "load-cache"), **bytecode}
    return Client("**assay run**", _assay, _assay_said, how, environment=environment)


def loop() -> Client:
    """Our loop alone."""

    def command(ask: Ask, folder: Path) -> list[str]:
        script = str(CONTESTANTS / "load_loop.py")
        return [sys.executable, script, ask.url, str(ask.tokens), str(ask.requests), str(ask.users), str(folder)]

    return Client("assay's loop alone", command, _last_line, "its recording is kept, nothing is worked out from it")


def wrk(seconds: float) -> Client:
    """wrk, in C, which counts answers and times nothing inside them.

    Raises:
        PeerError: if it is not installed.
    """
    if shutil.which("wrk") is None:
        raise PeerError("it is not installed here; `apt install wrk`")
    version = (run(["sh", "-c", "wrk -v 2>&1 || true"], timeout_s=10).split() or ["wrk", "?"])[1]

    def command(ask: Ask, folder: Path) -> list[str]:  # noqa: ARG001
        script = str(CONTESTANTS / "load_wrk.lua")
        url = f"{ask.url}/v1/chat/completions"
        return [
            "wrk",
            "-t1",
            f"-c{ask.users}",
            f"-d{seconds:g}s",
            "--latency",
            "-s",
            script,
            url,
            "--",
            str(ask.tokens),
        ]

    how = f"one thread, {seconds:g} s, a script of Lua that sets the request once"
    return Client(f"wrk {version}", command, _last_line, how)


def peers() -> tuple[list[Client], dict[str, str]]:
    """The other load generators that can be had, and the reasons of those that cannot."""
    found, absent = [], {}
    for make in (locust, inference_perf, aiperf, guidellm):
        try:
            found.append(make())
        except PeerError as problem:
            absent[make.__name__.replace("_", "-")] = str(problem)
    return found, absent


def locust() -> Client:
    """Locust with its fast client."""
    python = venvs.locust()

    def command(ask: Ask, folder: Path) -> list[str]:
        # A user of Locust waits for its answer, so a rate is shared out: one request a second for each of many users.
        users = ask.users if ask.rate is None else round(ask.rate)
        each_s = 0 if ask.rate is None else users / ask.rate
        settings = [
            f"LOAD_TOKENS={ask.tokens}",
            f"LOAD_REQUESTS={ask.requests}",
            f"LOAD_EACH_S={each_s}",
            f"LOAD_REPORT={folder / 'report.json'}",
        ]
        script = str(CONTESTANTS / "load_locust.py")
        options = ["--headless", "--only-summary", "--skip-log", "--stop-timeout", "5", "-H", ask.url]
        crowd = ["-u", str(users), "-r", str(users)]
        return ["env", *settings, str(python), "-m", "locust", "-f", script, *crowd, *options]

    how = "FastHttpUser, one process, each event of an answer read by itself, its time taken and its token counted"
    return Client(venvs.versions(python, "locust"), command, _locust_said, how)


def inference_perf() -> Client:
    """inference-perf, with one worker."""
    python = venvs.inference_perf()

    def command(ask: Ask, folder: Path) -> list[str]:
        (folder / "config.yaml").write_text(yaml.safe_dump(_inference_perf_config(ask, folder)))
        return [str(python.parent / "inference-perf"), "--config_file", str(folder / "config.yaml")]

    how = "one worker, prompts of eight words made beforehand, the server's token counts, the summary report alone"
    return Client(venvs.versions(python, "inference-perf"), command, _inference_perf_said, how)


def aiperf() -> Client:
    """aiperf, with one worker."""
    python = venvs.aiperf()

    def command(ask: Ask, folder: Path) -> list[str]:
        lines = [json.dumps({"text": PROMPT})] * _PROMPTS
        (folder / "prompts.jsonl").write_text("\n".join(lines) + "\n")
        shape = ["--concurrency", str(ask.users)]
        if ask.rate is not None:
            shape = ["--request-rate", str(ask.rate), "--arrival-pattern", "constant"]
        return [
            str(python.parent / "aiperf"),
            "profile",
            "--model",
            "sim",
            "--url",
            ask.url,
            "--endpoint-type",
            "chat",
            "--streaming",
            "--tokenizer",
            "bench/words",
            "--use-server-token-count",
            "--request-count",
            str(ask.requests),
            *shape,
            "--input-file",
            str(folder / "prompts.jsonl"),
            "--custom-dataset-type",
            "single-turn",
            "--extra-inputs",
            f"max_tokens:{ask.tokens}",
            "--ui-type",
            "none",
            "--no-server-metrics",
            "--no-gpu-telemetry",
            "--workers-max",
            "1",
            "--output-artifact-dir",
            str(folder / "aiperf"),
        ]

    how = "one worker, equal prompts from a file, the server's token counts, no telemetry, no screen"
    hub = {"HF_HOME": str(_words().parent)}
    return Client(venvs.versions(python, "aiperf"), command, _aiperf_said, how, slow=True, environment=hub)


def guidellm() -> Client:
    """guidellm."""
    python = venvs.guidellm()

    def command(ask: Ask, folder: Path) -> list[str]:
        lines = [json.dumps({"prompt": PROMPT})] * ask.requests
        (folder / "prompts.jsonl").write_text("\n".join(lines) + "\n")
        shape = f"kind=concurrent,streams={ask.users}" if ask.rate is None else f"kind=constant,rate={ask.rate:g}"
        return [
            str(python.parent / "guidellm"),
            "run",
            "--backend",
            f"kind=openai_http,target={ask.url},model=sim,max_tokens={ask.tokens}",
            "--profile",
            shape,
            "--constraint",
            f"kind=max_requests,count={ask.requests}",
            "--data",
            f"kind=json_file,path={folder / 'prompts.jsonl'}",
            "--output",
            f"kind=json,path={folder / 'report.json'}",
            "--metrics",
            "kind=generative,sample_size=0",
            "--disable-console",
        ]

    how = "equal prompts from a file, the server's token counts, no answers kept, no screen"
    one_worker = {"GUIDELLM__MAX_WORKER_PROCESSES": "1", "HF_HOME": str(_words().parent)}
    name = venvs.versions(python, "guidellm")
    return Client(name, command, _guidellm_said, f"{how}, one worker", slow=True, environment=one_worker)


def benchmark(ask: Ask) -> dict[str, Any]:
    """The file that `assay run` reads."""
    load: dict[str, Any] = (
        {"concurrency": ask.users} if ask.rate is None else {"rate": ask.rate, "arrivals": "constant"}
    )
    return {
        "benchmark": "load",
        "target": {"endpoint": f"{ask.url}/v1", "api": "openai-chat", "model": "sim"},
        "workload": {"output_tokens": ask.tokens},
        "load": {**load, "requests": ask.requests},
        "measure": {"runs": 1, "warmup": ask.warmup or "none"},
    }


def assay_command(folder: Path, file: Mapping[str, Any]) -> list[str]:
    """`assay run` with a new store."""
    (folder / "benchmark.yaml").write_text(yaml.safe_dump(dict(file)))
    program = str(Path(sys.executable).with_name("assay"))
    return [
        program,
        "run",
        str(folder / "benchmark.yaml"),
        "--store",
        str(folder / "store"),
        "--local",
        "--quiet",
        "--no-control",
        "--fail-on",
        "never",
        "--format",
        "json",
    ]


def _assay(ask: Ask, folder: Path) -> list[str]:
    return assay_command(folder, benchmark(ask))


def _assay_said(folder: Path) -> Said:
    (job,) = json.loads((folder / "out.txt").read_text())["jobs"]
    if job["state"] != "done" or job["failed_runs"]:
        raise PeerError(f"assay run ended {job['state']}: {job['error']}")
    said: dict[str, float] = {}
    for metric, short in (("ttft_ms", "ttft"), ("itl_ms", "itl"), ("e2e_ms", "e2e"), ("schedule_delay_ms", "delay")):
        seen = job["metrics"].get(metric, {})
        said |= {f"{short}_{name}": seen[name] for name in ("p50", "p99", "count") if seen.get(name) is not None}
    return said


def _last_line(folder: Path) -> Said:
    """The JSON of the last line."""
    return json.loads((folder / "out.txt").read_text().strip().splitlines()[-1])


def _locust_said(folder: Path) -> Said:
    report = json.loads((folder / "report.json").read_text())
    said = {f"e2e_{name}": report["whole"][name] for name in ("p50", "p99")}
    return said | {f"ttft_{name}": report["first"][name] for name in ("p50", "p99") if "first" in report}


def _inference_perf_config(ask: Ask, folder: Path) -> dict[str, Any]:
    prompts = {
        "num_unique_system_prompts": 1,
        "num_users_per_system_prompt": _PROMPTS,
        "system_prompt_len": 4,
        "question_len": 4,
        "output_len": ask.tokens,
        "seed": 1,
    }
    load: dict[str, Any] = {"num_workers": 1, "worker_max_concurrency": 4096, "interval": 0}
    if ask.rate is None:
        load |= {"type": "concurrent", "stages": [{"num_requests": ask.requests, "concurrency_level": ask.users}]}
    else:
        seconds = max(1, round(ask.requests / ask.rate))
        load |= {"type": "constant", "stages": [{"rate": ask.rate, "duration": seconds}]}
    lifecycle = {
        "summary": True,
        "per_stage": False,
        "per_request": False,
        "per_adapter": False,
        "use_server_output_tokens": True,
    }
    return {
        "api": {"type": "chat", "streaming": True},
        "data": {"type": "shared_prefix", "shared_prefix": prompts},
        "load": load,
        "server": {"type": "vllm", "model_name": "sim", "base_url": ask.url},
        "tokenizer": {"pretrained_model_name_or_path": str(_words() / "models--bench--words/snapshots" / _REVISION)},
        "report": {"request_lifecycle": lifecycle},
        "storage": {"local_storage": {"path": str(folder / "reports")}},
    }


def _inference_perf_said(folder: Path) -> Said:
    report = json.loads((folder / "reports" / "summary_lifecycle_metrics.json").read_text())
    seen = report["successes"]["latency"]
    names = {"ttft": "time_to_first_token", "itl": "inter_token_latency", "e2e": "request_latency"}
    said = {f"{short}_p50": 1000 * seen[name]["median"] for short, name in names.items() if seen.get(name)}
    return said | {f"{short}_p99": 1000 * seen[name]["p99"] for short, name in names.items() if seen.get(name)}


def _aiperf_said(folder: Path) -> Said:
    report = json.loads((folder / "aiperf" / "profile_export_aiperf.json").read_text())
    names = {"ttft": "time_to_first_token", "itl": "inter_token_latency", "e2e": "request_latency"}
    return {
        f"{short}_{at}": report[name][at]
        for short, name in names.items()
        for at in ("p50", "p99", "count")
        if name in report
    }


def _guidellm_said(folder: Path) -> Said:
    (seen,) = json.loads((folder / "report.json").read_text())["benchmarks"]
    names = {
        "ttft": ("time_to_first_token_ms", 1.0),
        "itl": ("inter_token_latency_ms", 1.0),
        "e2e": ("request_latency", 1000.0),
        "due": ("request_scheduled_latency", 1000.0),
    }
    said: dict[str, float] = {}
    for short, (name, scale) in names.items():
        values = (seen["metrics"].get(name) or {}).get("successful") or {}
        if values.get("count"):
            said |= {f"{short}_{at}": scale * values["percentiles"][at] for at in ("p50", "p99")}
            said[f"{short}_count"] = values["count"]
    return said


def _words() -> Path:
    """A tokenizer of a few words, laid out as a hub's cache, for those that want one and may ask no hub."""
    hub = BUILD / "load-hub" / "hub"
    model = hub / "models--bench--words"
    snapshot = model / "snapshots" / _REVISION
    if (snapshot / "tokenizer_config.json").exists():
        return hub
    from tokenizers import Tokenizer, models, pre_tokenizers

    words = ["<unk>", *dict.fromkeys(f"{PROMPT} and what lives there in plain words please".split())]
    tokenizer = Tokenizer(models.WordLevel({word: at for at, word in enumerate(words)}, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    snapshot.mkdir(parents=True, exist_ok=True)
    (model / "refs").mkdir(exist_ok=True)
    (model / "refs" / "main").write_text(_REVISION)
    tokenizer.save(str(snapshot / "tokenizer.json"))
    settings = {"tokenizer_class": "PreTrainedTokenizerFast", "unk_token": "<unk>", "model_max_length": 100_000}
    (snapshot / "tokenizer_config.json").write_text(json.dumps(settings))
    return hub


def cores() -> tuple[int, int]:
    """The core of the server and that of the client; the same one where there is but one."""
    usable = sorted(os.sched_getaffinity(0))
    return usable[0], usable[-1]
