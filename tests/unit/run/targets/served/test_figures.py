"""Every figure from recordings whose truth is known."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.run.targets.served.building import Book, chat, chunk, definition, sse, target, usage

from assay.errors import MeasureError
from assay.metrics import METRICS
from assay.run.apis import find_api
from assay.run.load.http.recording import WARMUP
from assay.run.scoring import as_asked
from assay.run.targets.served.counting import Counter
from assay.run.targets.served.facts import outputs
from assay.run.targets.served.figures import figures, probe_figures
from assay.run.targets.served.request_metrics import statistic_by_row, token_gaps
from assay.run.targets.served.rows import read_rows
from assay.run.targets.served.supply import request_bound, requests_within, session_bound
from assay.run.workloads import Item
from assay.spec.target import Price

API = find_api(target(), 0)
ITEMS = (Item("a", ("hello",), input_tokens=10, output_tokens=4), Item("b", ("bye",), input_tokens=8, output_tokens=4))
FOUR = chat([" a", " b", " c", " d"], output=4, role=False)  # tokens at 0, 1, 2, 3 gaps; ends 6 gaps after the first


def seen(book, *, window=(0.0, 10_000.0), api=API, items=ITEMS, counter=None, **of):
    recording = book.recording(window)
    rows = read_rows(recording, api, items, counter)
    return figures(recording, rows, api, definition(**of))


def sample(found, name, phase="measure"):
    return next((one for one in found.samples if (one.metric, one.phase) == (name, phase)), None)


def values(found, name, phase="measure"):
    one = sample(found, name, phase)
    return None if one is None else one.value.tolist()


def test_times_of_one_request():
    found = seen(Book().stream(FOUR, due=100.0, sent=103.0, ttft=50.0, gap=10.0))
    assert values(found, "ttft_ms") == [50.0]  # from the moment it was due, not from when it was sent
    assert values(found, "e2e_ms") == [110.0]
    assert values(found, "service_ms") == [107.0]
    assert values(found, "schedule_delay_ms") == [3.0]
    assert values(found, "itl_ms") == [10.0] * 3
    assert values(found, "chunk_gap_ms") == [10.0] * 3
    assert values(found, "tpot_ms") == [10.0]
    assert values(found, "user_tokens_per_s") == [pytest.approx(100.0)]
    assert (values(found, "input_tokens"), values(found, "output_tokens")) == ([10.0], [4.0])
    assert sample(found, "ttft_ms").at_ns.tolist() == [100_000_000]
    assert sample(found, "itl_ms").at_ns.tolist() == [160_000_000, 170_000_000, 180_000_000]
    assert found.absent == {}


def test_every_token_gap_is_a_sample_and_a_stall_is_seen():
    pieces = [(50, FOUR[0]), (60, FOUR[1]), (2060, FOUR[2]), (2070, FOUR[3]), (2070, b"".join(FOUR[4:]))]
    found = seen(Book().add(pieces))
    assert values(found, "itl_ms") == [10.0, 2000.0, 10.0]
    assert values(found, "tpot_ms") == [pytest.approx(2020 / 3)]


def test_phases_are_apart_and_samples_are_in_the_order_of_their_time():
    book = Book()
    book.stream(FOUR, due=300.0, ttft=30.0)
    book.stream(FOUR, due=200.0, ttft=20.0)
    book.stream(FOUR, due=-400.0, ttft=10.0, phase=WARMUP)
    book.stream(FOUR, due=-500.0, ttft=5.0, phase=WARMUP)
    found = seen(book)
    assert values(found, "ttft_ms") == [20.0, 30.0]
    assert values(found, "ttft_ms", "warmup") == [5.0, 10.0]
    assert sample(found, "ttft_ms", "warmup").at_ns.tolist() == [0, 100_000_000]
    for one in found.samples:
        assert np.all(np.diff(one.at_ns) >= 0)
        assert one.metric in METRICS


def test_rates_of_the_window():
    """A window of one second; what a request due before it finishes inside it counts as finished there."""
    book = Book()
    book.stream(FOUR, due=-20.0, ttft=10.0, gap=10.0, phase=WARMUP)  # tokens at -10, 0, 10, 20; ends at 50
    book.stream(FOUR, due=100.0, ttft=100.0, gap=10.0)  # tokens at 200 to 230; ends at 260
    book.stream(FOUR, due=980.0, ttft=10.0, gap=10.0)  # tokens at 990, then 1000 to 1020; ends at 1050
    found = seen(book, window=(0.0, 1000.0))
    assert found.metrics["throughput_per_s"] == 2.0
    assert found.metrics["offered_per_s"] == 2.0
    assert found.metrics["output_tokens_per_s"] == 3 + 4 + 1
    assert found.metrics["input_tokens_per_s"] == 20.0
    assert found.metrics["concurrency"] == pytest.approx((50 + 160 + 20) / 1000)
    assert (found.metrics["error_rate"], found.metrics["skipped"]) == (0.0, 0.0)


def failures() -> Book:
    book = Book()
    book.stream(FOUR, due=0.0)
    book.add(due=10.0, outcome="skipped", status=0)
    book.add(due=20.0, outcome="refused", status=0, end=21.0)
    book.add(due=20.0, outcome="refused", status=0, end=21.0, head=b"problem: ECONNREFUSED\n")
    book.add([(5, b'{"error": {"message": "slow down", "code": 429}}')], due=30.0, outcome="status", status=429)
    book.add([(5, b'{"detail": "no such model"}')], due=31.0, outcome="status", status=404)
    book.add([(5, b'{"detail": "again"}')], due=32.0, outcome="status", status=404)
    book.add([(5, FOUR[0])], due=40.0, outcome="timeout", end=5000.0)
    book.stream([FOUR[0], sse({"error": {"message": "out of memory"}})], due=50.0)
    book.add([(5, b"<html>")], due=51.0)
    book.add([(70, FOUR[0])], due=60.0, outcome="unfinished", end=10_000.0)
    book.add(due=61.0, outcome="unfinished", end=10_000.0, status=0)
    return book


def test_errors_are_counted_by_kind_in_the_servers_words():
    found = seen(failures())
    assert found.facts["errors"] == {
        "refused": {"count": 2, "first": "no connection could be made"},
        "status 404": {"count": 2, "first": "no such model"},
        "status 429": {"count": 1, "first": "slow down"},
        "timeout": {"count": 1, "first": "the answer did not end in time"},
        "content: error-event": {"count": 1, "first": "out of memory"},
        "content: malformed": {"count": 1, "first": "a line that is no event: '<html>'"},
    }
    assert found.facts["statuses"] == {"200": 5, "404": 2, "429": 1}
    assert found.facts["requests"] | {"unfinished_are": ""} == {
        "due": 12,
        "ok": 1,
        "unfinished": 2,
        "skipped": 1,
        "failed": 8,
        "warmup": 0,
        "new_connections": 0,
        "unfinished_are": "",
    }
    assert found.metrics["error_rate"] == pytest.approx(9 / 12)
    assert found.metrics["skipped"] == 1.0


def test_facts_can_be_kept_as_json():
    book = failures().stream(chat([" a b", " c d"], output=4, role=False), stage=1, due=70.0)
    found = seen(book, objective={"itl_ms.p99": 5.0}, price={"output": 1.0}, load={"rate": 5.0})
    assert json.loads(json.dumps(dict(found.facts))) == found.facts
    assert all(type(value) is float for value in found.metrics.values())


def test_failed_requests_are_no_latencies_and_unfinished_ones_keep_their_first_token():
    found = seen(failures())
    assert values(found, "e2e_ms") == [110.0]
    assert values(found, "ttft_ms") == [50.0, 70.0]
    assert values(found, "output_tokens") == [4.0]
    assert len(values(found, "schedule_delay_ms")) == 11  # all that were sent


def test_a_load_where_everything_failed():
    book = Book()
    for number in range(3):
        book.add([(5, b'{"error": "wrong model"}')], due=number, outcome="status", status=404)
    found = seen(book, objective={"ttft_ms.p99": 500.0})
    assert found.metrics["error_rate"] == 1.0
    assert found.metrics["goodput_per_s"] == 0.0
    assert found.absent["ttft_ms"] == "no request that was due in the window ended well"
    assert values(found, "e2e_ms") is None


def test_an_empty_load():
    found = seen(Book())
    assert found.samples == ()
    assert "no request" in found.absent["throughput_per_s"]


def test_answers_that_were_not_streamed_have_no_first_token():
    whole = {"choices": [{"message": {"content": "a b c d"}, "finish_reason": "stop"}], "usage": usage(4)}
    body = json.dumps(whole).encode()
    book = Book().add([(300, body[:20]), (310, body[20:])])
    found = seen(book, api=find_api(target(stream=False), 0))
    for name in ("ttft_ms", "itl_ms", "tpot_ms", "chunk_gap_ms", "user_tokens_per_s"):
        assert values(found, name) is None
        assert found.absent[name] == "answers were not streamed"
    assert (values(found, "e2e_ms"), values(found, "output_tokens")) == ([310.0], [4.0])
    assert found.metrics["output_tokens_per_s"] == 0.4
    assert seen(book).absent["ttft_ms"] == "the server did not stream its answers"


def test_goodput_holds_each_request_against_every_limit():
    book = Book()
    book.stream(FOUR, due=0.0, ttft=50.0, gap=10.0)  # good
    book.stream(FOUR, due=1.0, ttft=600.0, gap=10.0)  # its first token is late
    book.stream(FOUR, due=2.0, ttft=50.0, gap=90.0)  # its tokens are slow
    book.add([(50, FOUR[0])], due=3.0, outcome="unfinished", end=10_000.0)
    book.add(due=4.0, outcome="skipped", status=0)
    book.add(due=5.0, outcome="refused", end=6.0, status=0)
    book.stream(FOUR, due=-50.0, ttft=10.0, gap=1.0, phase=WARMUP)  # good, but not of the window
    found = seen(book, objective={"ttft_ms.p99": 500.0, "itl_ms.p99": 50.0, "rouge_l.mean": 0.2})
    assert found.metrics["goodput_per_s"] == 0.1
    assert found.facts["goodput"] == {
        "judged_by": ["ttft_ms.p99", "itl_ms.p99"],
        "ignored": {"rouge_l.mean": "not a time of one request"},
    }
    assert found.judged.good.tolist() == [True, False, False, False, False, False, True]


def test_goodput_counts_the_requests_that_throughput_counts():
    book = Book()
    book.stream(FOUR, due=100.0)  # due and ended in the window
    for number in range(3):
        book.stream(FOUR, due=9_990.0 + number)  # due in it and good, but ended after it
    late = seen(book, objective={"ttft_ms.p99": 500.0}).metrics
    assert (late["goodput_per_s"], late["throughput_per_s"]) == (0.1, 0.1)
    book.stream(FOUR, due=-20.0, phase=WARMUP)  # of the warm-up, ended in the window
    found = seen(book, objective={"ttft_ms.p99": 500.0})
    more = found.metrics
    assert (more["goodput_per_s"], more["throughput_per_s"]) == (0.2, 0.2)
    begin, end = found.facts["counted"]["window_ns"]
    assert end - begin == 10_000_000_000
    assert found.facts["counted"]["items"] == 2, "energy is shared by the same requests"
    assert found.facts["counted"]["output_tokens"] == more["output_tokens_per_s"] * 10


def test_goodput_takes_the_statistic_of_a_requests_own_gaps():
    texts = [" x"] * 101
    events = chat(texts, output=101, role=False)
    pieces, at = [], 0.0
    for number, event in enumerate(events):
        at += 100.0 if number in (50, 80) else 10.0
        pieces.append((at, event))
    book = Book().add(pieces)
    cases = [("p50", 10.0, 1), ("p90", 10.0, 1), ("p99", 99.0, 0), ("max", 99.9, 0), ("max", 100.0, 1)]
    cases += [("mean", 11.7, 0), ("mean", 11.81, 1), ("min", 9.9, 0)]
    for statistic, limit, good in cases:
        found = seen(book, objective={f"itl_ms.{statistic}": limit})
        assert found.judged.good.sum() == good, statistic


def test_goodput_of_a_rate_wants_more_not_less():
    book = Book().stream(FOUR, gap=10.0).stream(FOUR, gap=100.0)
    found = seen(book, objective={"user_tokens_per_s.p50": 50.0})
    assert found.judged.good.tolist() == [True, False]


def test_goodput_that_cannot_be_judged_is_absent():
    whole = {"choices": [{"message": {"content": "a"}, "finish_reason": "stop"}], "usage": usage(1)}
    book = Book().add([(300, json.dumps(whole).encode())])
    found = seen(book, objective={"ttft_ms.p99": 500.0})
    assert "goodput_per_s" not in found.metrics
    assert "ttft_ms" in found.absent["goodput_per_s"]
    found = seen(book, objective={"recall.mean": 0.9})
    assert found.absent["goodput_per_s"] == "no objective is about single requests"
    assert "goodput_per_s" not in {**seen(book).absent, **seen(book).metrics}


def test_an_answer_of_one_token_breaks_no_limit_on_gaps():
    found = seen(Book().stream(chat(["x"], output=1)), objective={"itl_ms.p99": 5.0, "tpot_ms.p99": 5.0})
    assert found.judged.good.tolist() == [True]
    assert found.absent["itl_ms"] == "every answer came in one arrival"


def test_a_first_answer_that_never_came_is_not_good():
    thought = [sse(chunk({"reasoning_content": "hm"})), *chat([], role=False, output=1)]
    answered = [sse(chunk({"reasoning_content": "hm"})), *chat(["x"], role=False, output=2)]
    found = seen(Book().stream(thought).stream(answered).stream(FOUR), objective={"first_answer_ms.p99": 100.0})
    assert found.judged.good.tolist() == [False, True, True]


@settings(max_examples=60)
@given(
    st.lists(st.lists(st.tuples(st.integers(1, 500), st.integers(1, 4)), max_size=12), min_size=1, max_size=6),
    st.sampled_from(["mean", "median", "min", "max", "p50", "p90", "p95", "p99", "p99_9", "std"]),
)
def test_statistics_of_each_requests_gaps(requests, statistic):
    """Against numpy, request by request."""
    book = Book()
    for gaps in requests:
        pieces, at = [(10, sse(chunk({"content": "x"})))], 10
        for gap, tokens in gaps:
            at += gap
            pieces.append((at, b"".join(sse(chunk({"content": "x"})) for _ in range(tokens))))
        total = 1 + sum(tokens for _, tokens in gaps)
        pieces.append((at + 5, b"".join(chat([], role=False, output=total))))
        book.add(pieces)
    recording = book.recording()
    got = statistic_by_row(token_gaps(recording, read_rows(recording, API, ITEMS)), statistic, len(recording))
    shares = {"median": 0.5, "p50": 0.5, "p90": 0.9, "p95": 0.95, "p99": 0.99, "p99_9": 0.999}
    for gaps, value in zip(requests, got, strict=True):
        all_of = np.array([gap / tokens for gap, tokens in gaps for _ in range(tokens)])
        if not len(all_of):
            assert np.isnan(value)
        elif statistic in shares:
            assert value == pytest.approx(np.quantile(all_of, shares[statistic]), abs=1e-5)
        elif statistic == "std":
            assert value == pytest.approx(all_of.std(ddof=1) if len(all_of) > 1 else 0.0, abs=1e-4)
        else:
            assert value == pytest.approx(getattr(np, statistic)(all_of), abs=1e-5)


def test_cost_at_the_rates_of_the_file():
    book = Book().stream(FOUR).stream(FOUR, due=5.0).stream(FOUR, due=-5.0, phase=WARMUP)
    found = seen(book, price={"input": 2.0, "output": 10.0, "currency": "EUR"})
    assert found.metrics["cost"] == pytest.approx((2 * 20 + 10 * 8) / 1e6)
    assert found.metrics["cost_per_million_output"] == pytest.approx((2 * 20 + 10 * 8) / 8)
    assert found.facts["cost"]["currency"] == "EUR"
    unknown = seen(Book().stream(chat(["x"])), price={"output": 10.0})
    assert "not known" in unknown.absent["cost"]
    nothing = seen(Book().add(outcome="refused", end=1.0), price={"output": 1.0})
    assert nothing.absent["cost"] == "no measured request ended well"
    assert "cost" not in {**seen(book).metrics, **seen(book).absent}


def test_lengths_asked_and_counted_and_reasons_to_finish():
    book = Book().stream(FOUR).stream(chat([" a"], output=2, finish="stop", into=12))
    facts = seen(book).facts
    assert facts["finish_reasons"] == {"length": 1, "stop": 1}
    assert facts["length_stops"] == 0.5
    assert facts["lengths"]["output"]["asked"]["mean"] == 4
    assert facts["lengths"]["output"]["counted"] == {"mean": 3.0, "median": 3.0, "min": 2, "max": 4}
    assert facts["lengths"]["output"]["as_asked"] == 0.5
    assert facts["lengths"]["input"]["difference"]["max"] == 4


def test_the_load_that_was_requested_stands_beside_the_one_there_was():
    book = Book().stream(FOUR).stream(FOUR, due=500.0)
    facts = seen(book, load={"rate": 5.0}, window=(0.0, 1000.0)).facts["load"]
    assert (facts["asked_per_s"], facts["offered_per_s"], facts["delivered_per_s"]) == (5.0, 2.0, 2.0)
    assert seen(book, load={"concurrency": 8}).facts["load"]["asked_concurrency"] == 8
    assert seen(book).facts["load"]["asked_concurrency"] == 1


def test_stages_are_distinguished():
    book = Book().stream(FOUR, ttft=50.0, stage=0).stream(FOUR, due=100.0, ttft=80.0, stage=1)
    stages = seen(book).facts["stages"]
    assert [(one["stage"], one["due"], one["ttft_ms"]["p50"]) for one in stages] == [(0, 1, 50.0), (1, 1, 80.0)]


def test_other_protocols_have_latencies_and_no_tokens():
    api = find_api(target(api="http", model=None, body={"q": "$prompt"}), 0)
    book = Book().add([(5, b"{}"), (9, b"{}")], due=100.0, sent=101.0)
    book.add([(5, b"no")], outcome="status", status=500)
    found = seen(book, api=api, objective={"latency_ms.p99": 10.0})
    assert {one.metric for one in found.samples} == {"latency_ms", "service_ms", "schedule_delay_ms"}
    assert (values(found, "latency_ms"), values(found, "service_ms")) == ([9.0], [8.0])
    assert found.metrics["goodput_per_s"] == 0.1
    assert found.absent == {}
    assert "tokens" not in found.facts


def test_embeddings_have_input_tokens():
    api = find_api(target(api="openai-embeddings"), 0)
    book = Book().add([(5, b'{"data": [{"embedding": [1.0, 2.0]}], "usage": {"prompt_tokens": 6}}')])
    found = seen(book, api=api)
    assert (values(found, "input_tokens"), values(found, "latency_ms")) == ([6.0], [5.0])
    assert found.metrics["input_tokens_per_s"] == 0.6
    assert found.facts["vector_dims"] == [2]


def test_a_probe_has_the_samples_and_numbers_of_its_window():
    book = failures()
    recording = book.recording()
    probe = probe_figures(recording, read_rows(recording, API, ITEMS), API, definition({"ttft_ms.p99": 60.0}))
    assert probe.samples["ttft_ms"].tolist() == [50.0, 70.0]
    assert probe.samples["itl_ms"].tolist() == [10.0] * 3
    assert probe.metrics["goodput_per_s"] == 0.1


def test_outputs_have_what_was_said_and_what_went_wrong():
    book = failures()
    book.stream([sse(chunk({"reasoning": "hm"})), *FOUR], due=99.0, head=b"x-request-id: r-1\n", session=3)
    recording = book.recording()
    rows = list(outputs(recording, read_rows(recording, API, ITEMS), API, ITEMS))
    assert [row.item for row in rows[:3]] == ["a", "b", "a"]
    first = rows[0]
    assert (first.item, first.session, first.turn, first.text, first.outcome) == ("a", 0, 0, " a b c d", "ok")
    assert first.more == {
        "finish_reason": "length",
        "request_id": "chatcmpl-7",
        "error": None,
        "input_tokens": 10,
        "output_tokens": 4,
        "ttft_ms": 50.0,
        "e2e_ms": 110.0,
        **as_asked(ITEMS[0].turns[0]),
    }
    errors = {row.outcome: row.more["error"] for row in rows if row.more["error"]}
    assert errors == {
        "skipped": "due while too many requests were open, and not sent",
        "refused": "ECONNREFUSED",
        "status": "again",
        "timeout": "the answer did not end in time",
        "content": "a line that is no event: '<html>'",
        "unfinished": "still open when the run ended",
    }
    assert (rows[-1].more["reasoning"], rows[-1].more["request_id"], rows[-1].session) == ("hm", "r-1", 3)
    assert json.dumps([row.more for row in rows])


def test_the_bound_of_a_request():
    price = Price(input=1.0, output=3.0)
    item = Item("a", ("x" * 1000,), input_tokens=200, output_tokens=100)
    assert 200 + 300 <= request_bound(item, price) * 1e6 <= 200 + 300 + 100
    unknown = Item("a", ("é" * 100,), output_tokens=100)
    assert request_bound(unknown, price) * 1e6 >= 200 + 300
    with pytest.raises(MeasureError, match=r"a budget needs workload\.output_tokens"):
        request_bound(Item("a", ("x",)), price)
    assert request_bound(Item("a", ("x",)), Price(input=1.0)) > 0


def test_later_turns_pay_for_all_that_was_said_before():
    price = Price(input=1.0, output=1.0)
    talk = Item("t", ("one", "two", "three"), system="be brief", output_tokens=50)
    bounds = [request_bound(talk, price, turn) * 1e6 for turn in range(3)]
    assert bounds[1] >= bounds[0] + 50
    assert bounds[2] >= bounds[1] + 50
    assert session_bound(talk, price) == pytest.approx(sum(bounds) / 1e6)


@given(st.floats(0.001, 50.0), st.lists(st.integers(1, 3000), min_size=1, max_size=8))
def test_a_budget_is_never_exceeded_and_always_used(budget, lengths):
    price = Price(input=5.0, output=15.0)
    items = [Item(str(n), ("x" * n,), output_tokens=n) for n in lengths]
    bounds = [request_bound(item, price) for item in items]
    if bounds[0] > budget:
        with pytest.raises(MeasureError, match="more than the budget"):
            requests_within(budget, items, price)
        return
    count = requests_within(budget, items, price)
    rounds, rest = divmod(count, len(items))
    spent = rounds * sum(bounds) + sum(bounds[:rest])
    assert spent <= budget * (1 + 1e-9)
    assert spent + bounds[rest] > budget * (1 - 1e-9)


def test_tokens_of_a_tokenizer_make_the_same_figures():
    class Fixed:
        name = "fixed"

        def count(self, texts):
            return [len(text.split()) for text in texts]

        def encode(self, text):
            return []

        def decode(self, ids):
            return ""

    events = chat([" a", " b", " c", " d"], role=False)
    found = seen(Book().stream(events), counter=Counter(local=Fixed()))
    assert values(found, "itl_ms") == [10.0] * 3
