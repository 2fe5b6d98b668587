"""Every metric that assay itself measures: its name, unit, direction and meaning, defined once."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

Better = Literal["lower", "higher"]
Access = Literal["white box", "gray box", "black box", "program"]


@dataclass(frozen=True, slots=True)
class Metric:
    """A named number with a unit and a direction."""

    name: str
    unit: str
    better: Better | None
    meaning: str
    access: Access = "white box"


_KNOWN = (
    Metric("load_ms", "ms", "lower", "from a fresh process with its libraries imported to a model ready to run"),
    Metric("first_ms", "ms", "lower", "the first inference after the load"),
    Metric("latency_ms", "ms", "lower", "one warm call, from the moment it was due to its last output"),
    Metric("throughput_per_s", "1/s", "higher", "items (calls × batch) finished per second of the measured window"),
    Metric("peak_load_rss_mb", "MB", "lower", "highest resident memory while loading, the kernel's high-water mark"),
    Metric("peak_run_rss_mb", "MB", "lower", "highest resident memory while running, the kernel's high-water mark"),
    Metric("baseline_rss_mb", "MB", "lower", "resident memory before the load: interpreter and libraries"),
    Metric("cpu_pct", "%", "lower", "CPU time of the measured process over the measured window; 100 is one core"),
    Metric("cpu_ms", "ms", "lower", "CPU time of one call, all threads together, over the measured window"),
    Metric("cpu_s", "s", "lower", "CPU time of a command and the processes it waited for", "program"),
    Metric("duration_s", "s", "lower", "wall time of a command from its start to its end", "program"),
    Metric("gpu_mem_mb", "MB", "lower", "highest memory that the runtime held on the GPU while running"),
    Metric("prefill_ms", "ms", "lower", "from a call to its first token, inside the process"),
    Metric("decode_ms", "ms", "lower", "one decoding step after the first token, inside the process"),
)  # fmt: skip

# What can be seen of a service from outside.
_OF_A_SERVICE = (
    Metric("ttft_ms", "ms", "lower", "from the moment a request was due to its first token, reasoning included"),
    Metric("first_answer_ms", "ms", "lower", "from the moment a request was due to its first token after reasoning"),
    Metric("itl_ms", "ms", "lower", "time per token between two arrivals of tokens, one sample per token"),
    Metric("chunk_gap_ms", "ms", "lower", "time between two arrivals of text, however many tokens they carry"),
    Metric("tpot_ms", "ms", "lower", "first to last token of an answer, per token after those that came first"),
    Metric("e2e_ms", "ms", "lower", "from the moment a request was due to the end of its answer"),
    Metric("service_ms", "ms", "lower", "from the moment a request was sent to the end of its answer"),
    Metric("schedule_delay_ms", "ms", "lower", "from the moment a request was due to the moment it was sent"),
    Metric("input_tokens", "tokens", None, "tokens of one prompt, as the source named in the result counted them"),
    Metric("output_tokens", "tokens", None, "tokens of one answer, reasoning included"),
    Metric("input_tokens_per_s", "1/s", "higher", "input tokens of finished requests per second of the window"),
    Metric("output_tokens_per_s", "1/s", "higher", "output tokens that arrived per second of the window, all users"),
    Metric("user_tokens_per_s", "1/s", "higher", "output tokens per second of one answer after its first token"),
    Metric("offered_per_s", "1/s", None, "requests due per second of the window"),
    Metric("goodput_per_s", "1/s", "higher", "requests per second that met every objective by themselves"),
    Metric("capacity_per_s", "1/s", "higher", "highest rate at which the objective was met"),
    Metric("error_rate", "", "lower", "share of the requests due in the window that failed or were skipped"),
    Metric("skipped", "", "lower", "requests that were due and not sent, since too many were open"),
    Metric("concurrency", "", None, "requests in flight, averaged over the window"),
    Metric("client_cpu_pct", "%", "lower", "CPU time of the busiest client process over the window; 100 is one core"),
    Metric("client_wait_pct", "%", "lower", "share of the window for which a client was ready and got no processor"),
    Metric("client_ceiling_pct", "%", "lower", "share of what this client can do on this machine"),
    Metric("loop_lag_ms", "ms", "lower", "time for which the client was busy before it looked at the network again"),
    Metric("cost", "", "lower", "price of the measured requests at the rates of the file"),
    Metric("cost_per_million_output", "", "lower", "price per million output tokens, the input paid for included"),
    Metric("rouge_1", "", "higher", "overlap of single words with the reference (F1)"),
    Metric("rouge_2", "", "higher", "overlap of word pairs with the reference (F1)"),
    Metric("rouge_l", "", "higher", "longest common subsequence with the reference (F1)"),
    Metric("rouge_lsum", "", "higher", "longest common subsequence with the reference, by sentences (F1)"),
    Metric("exact_match", "", "higher", "share of answers that equal the reference"),
    Metric("contains", "", "higher", "share of answers that hold the reference"),
    Metric("json_valid", "", "higher", "share of answers that are JSON"),
    Metric("answer_chars", "", None, "characters of one answer"),
    Metric("recall", "", "higher", "share of the true nearest neighbours that one query returned"),
    Metric("insert_s", "s", "lower", "time to load all vectors"),
    Metric("index_s", "s", "lower", "time from the last insert to a finished index"),
)  # fmt: skip

# What the hardware itself can do.
_OF_A_DEVICE = (
    Metric("copy_gb_per_s", "GB/s", "higher", "memory copied inside the device, bytes read and written counted"),
    Metric("read_gb_per_s", "GB/s", "higher", "memory of the device read and summed up"),
    Metric("write_gb_per_s", "GB/s", "higher", "memory of the device written"),
    Metric("triad_gb_per_s", "GB/s", "higher", "a = b + s·c over large arrays: two read, one written"),
    Metric("copy_one_gb_per_s", "GB/s", "higher", "the same copy with one core"),
    Metric("triad_one_gb_per_s", "GB/s", "higher", "the same triad with one core"),
    Metric("to_device_gb_per_s", "GB/s", "higher", "ordinary memory of the host copied to the device"),
    Metric("from_device_gb_per_s", "GB/s", "higher", "memory of the device copied to ordinary memory of the host"),
    Metric("to_device_pinned_gb_per_s", "GB/s", "higher", "pinned memory of the host copied to the device"),
    Metric("from_device_pinned_gb_per_s", "GB/s", "higher", "memory of the device copied to pinned memory of the host"),
    Metric("fp64_tflops", "TFLOPS", "higher", "matrix product in double precision"),
    Metric("fp32_tflops", "TFLOPS", "higher", "matrix product in single precision, without TF32"),
    Metric("tf32_tflops", "TFLOPS", "higher", "matrix product of single precision through TF32"),
    Metric("fp16_tflops", "TFLOPS", "higher", "matrix product in half precision"),
    Metric("bf16_tflops", "TFLOPS", "higher", "matrix product in bfloat16"),
    Metric("int8_tops", "TOPS", "higher", "matrix product of 8-bit integers, summed up in 32 bits"),
    Metric("fp8_tflops", "TFLOPS", "higher", "matrix product in 8-bit floating point (E4M3)"),
    Metric("fp32_one_tflops", "TFLOPS", "higher", "matrix product in single precision with one core"),
    Metric("core_scaling", "", "higher", "all cores over one core times their number, in single precision; 1 is ideal"),
    Metric("storage_read_gb_per_s", "GB/s", "higher", "a large file read from start to end, as a model is loaded"),
)  # fmt: skip

# Telemetry of a run and its machine, over the measured window.
_TELEMETRY = (
    Metric("gpu_util_pct", "%", None, "share of the time in which a kernel ran on the GPU"),
    Metric("power_w", "W", "lower", "mean power of the devices whose energy was read"),
    Metric("energy_j", "J", "lower", "energy of those devices over the measured window, idle power included"),
    Metric("energy_per_item_j", "J", "lower", "energy of one item (one call, or one request), idle power included"),
    Metric("energy_per_token_j", "J", "lower", "energy of one output token, idle power included"),
    Metric("items_per_j", "1/J", "higher", "items per joule, which is throughput per watt"),
    Metric("tokens_per_j", "1/J", "higher", "output tokens per joule, which is tokens per second and watt"),
    Metric("items_per_cost", "", "higher", "items for one unit of currency at the machine's price"),
    Metric("tokens_per_cost", "", "higher", "output tokens for one unit of currency at the machine's price"),
)  # fmt: skip

# What can be seen of a service that runs here.
_OF_OUR_SERVICE = (
    Metric("start_to_ready_s", "s", "lower", "from the start of a service to the first time it was ready"),
    Metric("start_to_first_token_s", "s", "lower", "from the start of a service to the first token of an answer"),
    Metric("index_mb", "MB", "lower", "memory that the index takes, where the engine tells"),
)  # fmt: skip

METRICS = {metric.name: metric for metric in _KNOWN}
METRICS |= {metric.name: replace(metric, access="black box") for metric in _OF_A_SERVICE}
METRICS |= {metric.name: replace(metric, access="gray box") for metric in _OF_OUR_SERVICE}
METRICS |= {metric.name: metric for metric in (*_OF_A_DEVICE, *_TELEMETRY)}

_UNIT_BY_SUFFIX = {
    "_gb_per_s": "GB/s", "_per_s": "1/s", "_tflops": "TFLOPS", "_per_j": "1/J",
    "_ns": "ns", "_us": "µs", "_ms": "ms", "_s": "s", "_pct": "%",
    "_mb": "MB", "_gb": "GB", "_w": "W", "_j": "J",
}  # fmt: skip


def describe(name: str) -> Metric:
    """The definition of a metric, or what its name alone tells when it is not ours."""
    bare = base_name(name)
    if bare in METRICS:
        return METRICS[bare]
    unit = next((unit for suffix, unit in _UNIT_BY_SUFFIX.items() if bare.endswith(suffix)), "")
    return Metric(bare, unit, None, "reported by the program; direction not declared", "program")


def base_name(name: str) -> str:
    """A metric's name without the context that a program gave it: `speed{batch=8}` is `speed`."""
    return name.partition("{")[0]
