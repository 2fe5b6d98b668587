"""What well-known servers call the things that we measure ourselves: their view stands beside ours."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

How = Literal["histogram", "rate", "mean", "ratio"]


@dataclass(frozen=True, slots=True)
class Known:
    """A number of a server and the metric of ours that it speaks of."""

    metric: str
    name: str
    how: How
    """Quantiles of a histogram, growth per second of a counter, mean of a gauge, or growth over `per`'s growth."""
    scale: float = 1.0
    per: str = ""


def _seconds(metric: str, name: str) -> Known:
    return Known(metric, name, "histogram", 1e3)


def _of_vllm(prefix: str) -> tuple[Known, ...]:
    return (
        _seconds("ttft_ms", f"{prefix}:time_to_first_token_seconds"),
        _seconds("itl_ms", f"{prefix}:inter_token_latency_seconds"),
        _seconds(
            "itl_ms", f"{prefix}:time_per_output_token_seconds"
        ),  # its name before it was told apart from the next
        _seconds("tpot_ms", f"{prefix}:request_time_per_output_token_seconds"),
        _seconds("e2e_ms", f"{prefix}:e2e_request_latency_seconds"),
        _seconds("queue_ms", f"{prefix}:request_queue_time_seconds"),
        _seconds("prefill_ms", f"{prefix}:request_prefill_time_seconds"),
        Known("output_tokens_per_s", f"{prefix}:generation_tokens_total", "rate"),
        Known("input_tokens_per_s", f"{prefix}:prompt_tokens_total", "rate"),
        Known("throughput_per_s", f"{prefix}:request_success_total", "rate"),
        Known("concurrency", f"{prefix}:num_requests_running", "mean"),
        Known("waiting", f"{prefix}:num_requests_waiting", "mean"),
        Known("cache_used_share", f"{prefix}:kv_cache_usage_perc", "mean"),
        Known("cache_used_share", f"{prefix}:gpu_cache_usage_perc", "mean"),
    )


# In the order of preference where a server tells one metric twice.
KNOWN: tuple[Known, ...] = (
    *_of_vllm("vllm"),
    *_of_vllm("sglang"),
    Known("throughput_per_s", "sglang:num_requests_total", "rate"),
    Known("concurrency", "sglang:num_running_reqs", "mean"),
    Known("waiting", "sglang:num_queue_reqs", "mean"),
    # Text Generation Inference
    _seconds("e2e_ms", "tgi_request_duration"),
    _seconds("queue_ms", "tgi_request_queue_duration"),
    _seconds("tpot_ms", "tgi_request_mean_time_per_token_duration"),
    Known("throughput_per_s", "tgi_request_success", "rate"),
    Known("output_tokens_per_s", "tgi_request_generated_tokens_sum", "rate"),
    Known("input_tokens_per_s", "tgi_request_input_length_sum", "rate"),
    Known("concurrency", "tgi_batch_current_size", "mean"),
    Known("waiting", "tgi_queue_size", "mean"),
    # Triton
    Known("ttft_ms", "nv_inference_first_response_histogram_ms", "histogram"),
    Known("service_ms", "nv_inference_request_duration_us", "ratio", 1e-3, "nv_inference_request_success"),
    Known("queue_ms", "nv_inference_queue_duration_us", "ratio", 1e-3, "nv_inference_request_success"),
    Known("throughput_per_s", "nv_inference_request_success", "rate"),
    Known("waiting", "nv_inference_pending_request_count", "mean"),
    # llama.cpp
    Known("output_tokens_per_s", "llamacpp:tokens_predicted_total", "rate"),
    Known("input_tokens_per_s", "llamacpp:prompt_tokens_total", "rate"),
    Known("tpot_ms", "llamacpp:tokens_predicted_seconds_total", "ratio", 1e3, "llamacpp:tokens_predicted_total"),
    Known("prefill_ms_per_token", "llamacpp:prompt_seconds_total", "ratio", 1e3, "llamacpp:prompt_tokens_total"),
    Known("concurrency", "llamacpp:requests_processing", "mean"),
    Known("waiting", "llamacpp:requests_deferred", "mean"),
    # Qdrant
    _seconds("service_ms", "rest_responses_duration_seconds"),
    Known("throughput_per_s", "rest_responses_total", "rate"),
)
