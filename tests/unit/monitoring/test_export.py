"""Out of Prometheus: every scrape once, none invented, kinds as they were told."""

from __future__ import annotations

import re

import pytest

from assay.monitoring.prometheus import CHOSEN, export, kind_of, selector
from assay.spec.benchmark import Monitoring


class Canned:
    """A Prometheus that has one scrape a second from 0 to 600 s, but for a minute in the middle."""

    def __init__(self):
        self.asked = []

    def raw(self, wanted, length_ms, until_ms):
        self.asked.append((length_ms, until_ms))
        at = [s for s in range(601) if not 200 < s < 260 and until_ms - length_ms <= s * 1000 <= until_ms]
        rows = [[float(s), str(s)] for s in at]
        return [{"metric": {"__name__": "x_total", "node": "n1"}, "values": rows}] if rows else []


def test_each_scrape_comes_once_and_the_gap_stays():
    api = Canned()
    found = export(api, {"campaign": "c"}, 0.0, 600.0, Monitoring(), {"x_total": "counter"})
    (one,) = found.series
    assert one.at_ms.tolist() == [s * 1000 for s in range(601) if not 200 < s < 260]
    assert one.value.tolist() == [float(s) for s in range(601) if not 200 < s < 260]
    assert one.kind == "counter"
    assert len(api.asked) > 1  # no answer holds hours at once


def test_not_a_number_stays_not_a_number():
    class Api:
        def raw(self, *_):
            return [{"metric": {"__name__": "x"}, "values": [[1.0, "NaN"], [2.0, "+Inf"], [3.0, "-Inf"]]}]

    (one,) = export(Api(), {}, 0.0, 5.0, Monitoring(), {}).series
    assert str(one.value.tolist()) == "[nan, inf, -inf]"


def test_nothing_scraped_gives_an_empty_record():
    class Api:
        def raw(self, *_):
            return []

    assert export(Api(), {}, 0.0, 5.0, Monitoring(), {}).series == ()


@pytest.mark.parametrize(
    ("name", "kept"),
    [("node_cpu_seconds_total", True), ("node_filesystem_size_bytes", False), ("vllm:num_requests_running", True),
     ("up", True), ("nv_inference_request_success", True), ("DCGM_FI_DEV_GPU_UTIL", True), ("nodejs_heap", True),
     ("note", True)],
)  # fmt: skip
def test_of_nodes_the_main_figures_are_kept_and_of_others_everything(name, kept):
    told = selector({"campaign": "c"}, "chosen")
    pattern = re.search(r'__name__=~"(.*)"', told)[1]
    assert bool(re.fullmatch(pattern, name)) == kept
    assert re.fullmatch(re.search(r'__name__=~"(.*)"', selector({}, "all"))[1], name)


def test_a_label_cannot_break_out_of_its_quotes():
    assert 'campaign="a\\"} or up"' in selector({"campaign": 'a"} or up'}, "all")


def test_every_chosen_name_is_one_of_a_node():
    assert all(name.startswith("node_") for name in CHOSEN)


def test_the_parts_of_a_histogram_belong_to_it():
    kinds = {"a_seconds": "histogram", "b": "gauge", "c_total": "counter", "d": "unknown"}
    assert [kind_of(name, kinds) for name in ("a_seconds_bucket", "b", "c_total", "b_sum", "d", "e")] == [
        "histogram",
        "gauge",
        "counter",
        "",
        "",
        "",
    ]
