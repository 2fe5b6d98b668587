"""Windows over series with known truth: growth, means, quantiles between edges, and the server's own view."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from assay.run.probes.prometheus import parse
from assay.run.probes.series import Histogram, MetricSeries, growth, increase, rate_per_s, readings, span_of, summarise

S = 1_000_000_000


def series(kind: str, points: dict[float, float], name: str = "x", labels=(), family: str = "", **more) -> MetricSeries:
    one = MetricSeries(name, labels, kind, family or name, **more)
    for at_s, value in points.items():
        one.add(int(at_s * S), value)
    return one


def scraped(*texts: str, every_s: float = 1.0) -> list[MetricSeries]:
    """The series of several scrapes, one after another."""
    import threading
    import zlib

    from assay.run.probes.prometheus import ScrapeEndpoint, Scraper

    scraper = Scraper(ScrapeEndpoint("llm", ""), every_s, threading.Event())
    for number, text in enumerate(texts):
        at_ns = int(number * every_s * S)
        scraper.bodies.append((at_ns, at_ns, zlib.compress(text.encode())))
    return scraper.series()


def test_a_rate_comes_from_readings_inside_the_window():
    counter = series("counter", {0: 0, 1: 100, 2: 110, 3: 120, 4: 130, 5: 999})
    assert rate_per_s(counter, (int(0.5 * S), int(4.5 * S))) == pytest.approx(10.0)


def test_a_short_window_takes_the_readings_around_it():
    counter = series("counter", {0: 0, 1: 10, 2: 20})
    assert rate_per_s(counter, (int(1.2 * S), int(1.4 * S))) == pytest.approx(10.0)
    assert not span_of(counter.at_ns, (int(1.2 * S), int(1.4 * S))).exact


def test_a_counter_that_begins_again_loses_nothing():
    assert increase([100, 110, 3, 5]) == 15


def test_a_counter_that_appears_was_at_zero_before():
    late = series("counter", {3: 6, 4: 8}, unseen_ns=2 * S)
    assert growth(late, (0, 5 * S)) == (8.0, 2.0)
    assert growth(late, (int(2.5 * S), 5 * S)) == (2.0, 1.0), "what came before the window does not count"


def test_a_gauge_is_read_inside_the_window_or_next_to_it():
    gauge = series("gauge", {0: 1, 1: 5, 2: math.nan, 3: 7})
    assert readings(gauge, (int(0.5 * S), int(3.5 * S))) == [5, 7]
    assert readings(gauge, (int(0.4 * S), int(0.6 * S))) == [1, 5]


@settings(max_examples=100)
@example([1.0, 1.0, 1.0, 0.5, 0.5, 0.5], 0.5)
@given(st.lists(st.floats(0.001, 9.9), min_size=1, max_size=200), st.sampled_from([0.5, 0.9, 0.99]))
def test_a_quantile_lies_in_the_bucket_of_the_truth(values, share):
    edges = (0.01, 0.1, 0.5, 1.0, 2.0, 5.0, 10.0, math.inf)
    counts = tuple(float(sum(value <= edge for value in values)) for edge in edges)
    found = Histogram(len(values), sum(values), edges, counts).quantile(share)
    truth = float(np.quantile(values, share, method="inverted_cdf"))
    assert found.low <= truth <= found.high or found.high == pytest.approx(truth)
    assert found.low <= found.value <= found.high


def test_a_quantile_above_the_last_edge_is_not_invented():
    found = Histogram(10, 100, (1.0, math.inf), (2, 10)).quantile(0.5)
    assert (found.value, found.low, found.high) == (None, 1.0, math.inf)
    assert Histogram(0, 0, (1.0, math.inf), (0, 0)).quantile(0.5) is None


def test_quantiles_are_those_of_the_rule_that_prometheus_uses():
    # 100 observations, evenly over (0, 1]: straight lines inside the buckets give the truth itself.
    edges = (0.25, 0.5, 0.75, 1.0, math.inf)
    even = Histogram(100, 50, edges, (25, 50, 75, 100, 100))
    assert even.quantile(0.5).value == pytest.approx(0.5)
    assert even.quantile(0.9).value == pytest.approx(0.9)
    assert even.quantile(0.99).value == pytest.approx(0.99)
    assert even.mean == 0.5


VLLM = """# TYPE vllm:time_to_first_token_seconds histogram
vllm:time_to_first_token_seconds_bucket{{engine="{e}",le="0.04"}} {a}
vllm:time_to_first_token_seconds_bucket{{engine="{e}",le="0.06"}} {b}
vllm:time_to_first_token_seconds_bucket{{engine="{e}",le="+Inf"}} {b}
vllm:time_to_first_token_seconds_count{{engine="{e}"}} {b}
vllm:time_to_first_token_seconds_sum{{engine="{e}"}} {s}
# TYPE vllm:generation_tokens_total counter
vllm:generation_tokens_total{{engine="{e}"}} {tokens}
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{{engine="{e}"}} {running}
# TYPE vllm:idle gauge
vllm:idle 0
# TYPE made_created gauge
made_created 1.7e9
"""


def test_the_view_of_vllm_in_our_words():
    before = VLLM.format(e=0, a=5, b=7, s=0.3, tokens=1000, running=4)
    # 100 more requests, all between 40 and 60 ms, with a sum of 5 s.
    after = VLLM.format(e=0, a=5, b=107, s=5.3, tokens=4200, running=8)
    told = summarise(scraped(before, after, every_s=2.0), (0, 2 * S))
    view = told["server_view"]
    assert view["ttft_ms.p50"]["value"] == pytest.approx(50.0)
    assert view["ttft_ms.p50"]["between"] == pytest.approx([40.0, 60.0])
    assert view["ttft_ms.p99"]["value"] == pytest.approx(59.8)
    assert view["ttft_ms.mean"] == {
        "value": pytest.approx(50.0),
        "count": 100.0,
        "from": "vllm:time_to_first_token_seconds",
    }
    assert view["output_tokens_per_s"] == {"value": pytest.approx(1600.0), "from": "vllm:generation_tokens_total"}
    assert view["concurrency.mean"]["value"] == pytest.approx(6.0)
    assert told["covers"] == {"scrapes": 2, "seconds": 2.0, "inside_window": True}
    assert told["series"]['vllm:num_requests_running{engine="0"}'] == {"mean": 6.0, "max": 8.0}
    assert not [name for name in told["series"] if "idle" in name or "created" in name], "zeros and dates say nothing"


def test_label_sets_of_one_server_are_added_up():
    before = VLLM.format(e=0, a=0, b=0, s=0, tokens=0, running=0) + VLLM.format(e=1, a=0, b=0, s=0, tokens=0, running=0)
    after = VLLM.format(e=0, a=10, b=10, s=0.2, tokens=5, running=1)
    after += VLLM.format(e=1, a=0, b=10, s=0.5, tokens=7, running=1)
    view = summarise(scraped(before, after), (0, S))["server_view"]
    assert view["output_tokens_per_s"]["value"] == pytest.approx(12.0)
    assert view["ttft_ms.mean"]["count"] == 20
    assert view["ttft_ms.mean"]["value"] == pytest.approx(35.0)


def test_times_reported_as_counters_become_means():
    text = (
        "# TYPE llamacpp:tokens_predicted_total counter\nllamacpp:tokens_predicted_total {n}\n"
        "# TYPE llamacpp:tokens_predicted_seconds_total counter\nllamacpp:tokens_predicted_seconds_total {s}\n"
    )
    view = summarise(scraped(text.format(n=10, s=1), text.format(n=110, s=3)), (0, S))["server_view"]
    assert view["tpot_ms.mean"]["value"] == pytest.approx(20.0)
    assert view["output_tokens_per_s"]["value"] == pytest.approx(100.0)


def test_nothing_is_reported_without_readings():
    assert summarise([], (0, S)) == {"covers": {"scrapes": 0}, "server_view": {}, "series": {}}


def test_a_server_with_very_many_series_is_cut_in_the_record():
    text = "".join(f"gauge_{number} 1\n" for number in range(500))
    told = summarise(scraped(text, text), (0, S))
    assert (len(told["series"]), told["left_out"]) == (200, 300)


def test_labels_are_reported_as_they_were():
    (one,) = [MetricSeries(s.name, s.labels, "gauge", s.name) for s in parse('a{b="x\\"y"} 1').samples]
    one.add(0, 1.0)
    assert list(summarise([one], (0, S))["series"]) == ['a{b="x\\"y"}']
