"""The record, and that what is recorded is what a client sees."""

from __future__ import annotations

import json
import threading
import time
from contextlib import ExitStack

import numpy as np
import pytest
from tests.support.running_server import wait_for
from tests.support.simulated import flags, http_server, llm_server
from tests.unit.sim.raw import CHAT, Raw, ask, chat, fetch, post

pytestmark = pytest.mark.live

# Machines that run tests are busy: what must not be too late may be this late.
SLACK_S = 0.05


def at_once(sim, count, **more):
    """Several requests at the same time; gives the seconds each took."""
    took = [0.0] * count

    def one(at):
        begin = time.perf_counter()
        assert ask(sim, CHAT, chat(**more)).status == 200
        took[at] = time.perf_counter() - begin

    threads = [threading.Thread(target=one, args=(at,)) for at in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return took


def arrivals(pieces, count):
    """When a client had each event, however the bytes came."""
    when, got = [], b""
    for moment, data in pieces:
        got += data
        when += [moment] * (min(got.count(b"\n\n"), count) - len(when))
    return np.array(when)


@pytest.mark.quiet
def test_the_record_is_what_the_client_saw():
    with llm_server(ttft_ms=50, itl_ms=20, tokens=8) as sim:
        with Raw(sim) as raw:
            raw.send(post(CHAT, chat("a b c")))
            sent = time.perf_counter_ns()
            raw.answer()
            arrived = arrivals(raw.pieces, 8)
        records = sim.records()
    assert len(records) == 1
    times, tokens = records.chunks_of(0)
    assert tokens.tolist() == [1] * 8
    assert (records.tokens[0], records.prompt_tokens[0], records.status[0]) == (8, 3, 200)
    # the same clock: each chunk was written before the client had it, and not long before
    late = arrived - times
    assert (late > 0).all()
    assert np.median(late) < 10e6
    assert abs(records.arrival_ns[0] - sent) < SLACK_S * 1e9
    # the plan
    plan = records.arrival_ns[0] + 50_000_000 + 20_000_000 * np.arange(8)
    assert records.chunk_due_ns.tolist() == plan.tolist()
    assert (records.late_s >= 0).all()
    assert np.median(records.late_s) < 0.01
    assert records.first_ns[0] == times[0]
    assert records.last_ns[0] == times[-1] <= records.end_ns[0]


def test_lines_and_columns_say_the_same():
    with llm_server(tokens=3) as sim:
        answer = ask(sim, CHAT, chat())
        ask(sim, CHAT, chat(stream=False))
        lines = fetch(sim, "/sim/records").lines
        records = sim.records()
        assert fetch(sim, "/sim/records?format=xml").status == 400
    assert lines[0]["id"] == answer.headers["x-request-id"]
    for row, line in enumerate(lines):
        for name in ("number", "arrival_ns", "first_ns", "end_ns", "tokens", "connection"):
            assert line[name] == getattr(records, name)[row]
        assert line["chunk_ns"] == records.chunks_of(row)[0].tolist()
    assert [line["outcome"] for line in lines] == ["ok", "ok"]
    assert [line["chunk_tokens"] for line in lines] == [[1, 1, 1], [3]]


def test_clearing_begins_again():
    with llm_server(error=["500:number=1"]) as sim:
        for _ in range(2):
            assert [ask(sim, CHAT, chat()).status for _ in range(3)] == [200, 500, 200]
            assert sim.records().number.tolist() == [0, 1, 2]
            sim.clear()
        assert len(sim.records()) == 0


def test_what_was_under_way_when_all_was_cleared_is_not_recorded():
    with llm_server(ttft_ms=1000) as sim:
        with Raw(sim) as raw:
            raw.send(post(CHAT, chat()))
            wait_for(lambda: sim.state()["running"] or len(sim.records()), what="the request")
            sim.clear()
            raw.answer()
        assert len(sim.records()) == 0


def test_no_record():
    with llm_server(no_record=True, ttft_ms=1) as sim:
        ask(sim, CHAT, chat())
        assert len(sim.records()) == 0
        assert sim.state()["outcomes"]["ok"] == 1


@pytest.mark.parametrize("flush", ["once", "each"])
def test_chunks_that_are_due_at_once(flush):
    with llm_server(tokens=40, flush=flush) as sim:
        answer = ask(sim, CHAT, chat())
        assert len(answer.chunks) == 42
        times, _ = sim.records().chunks_of(0)
    assert len(set(times.tolist())) == (1 if flush == "once" else 40)


def test_bundled_tokens():
    with llm_server(ttft_ms=40, itl_ms=10, tokens=12, first_chunk_tokens=4, tokens_per_chunk="1,3") as sim:
        answer = ask(sim, CHAT, chat())
        records = sim.records()
    texts = [event["choices"][0]["delta"]["content"] for event in answer.events[:-2]]
    assert [len(text.split()) for text in texts] == [4, 1, 3, 1, 3] == records.chunk_tokens.tolist()
    assert np.diff(records.chunk_due_ns).tolist() == [10_000_000, 30_000_000, 10_000_000, 30_000_000]


def test_times_that_are_drawn():
    with llm_server(ttft="uniform:20ms,60ms", itl="exponential:1ms", tokens=50, seed=5) as sim:
        for _ in range(2):
            at_once(sim, 8)
        records = sim.records()
    first = np.array([records.chunk_due_ns[records.chunks[row]] for row in range(16)]) - records.arrival_ns
    assert (first >= 20e6).all()
    assert (first <= 60e6).all()
    assert len(set(first.tolist())) == 16
    gaps = np.concatenate(
        [
            np.diff(records.chunk_due_ns[low:high])
            for low, high in zip(records.chunks[:-1], records.chunks[1:], strict=True)
        ]
    )
    assert gaps.mean() == pytest.approx(1e6, rel=0.2)


@pytest.mark.quiet
def test_a_stop_of_the_world_as_the_script_has_it():
    with llm_server(ttft_ms=10, itl_ms=20, tokens=10, stall="100ms:for=400ms") as sim:
        with Raw(sim) as raw:
            raw.send(post(CHAT, chat()))
            time.sleep(0.2)  # the world has stopped
            begin = time.perf_counter()
            assert fetch(sim, "/health").status == 200
            assert time.perf_counter() - begin > 0.15  # nobody is served
            raw.answer()
        (stop,) = sim.state()["stops_ns"]
        records = sim.records()
    assert stop[1] - stop[0] >= 400e6
    assert stop[0] - records.arrival_ns[0] == pytest.approx(100e6, abs=SLACK_S * 1e9)
    times, _ = records.chunks_of(0)
    assert not ((times > stop[0]) & (times < stop[1])).any()
    # one gap holds the stop; the others are as planned, before and after it
    gaps = np.sort(np.diff(records.chunk_due_ns))
    assert gaps[:-1].tolist() == [20_000_000] * 8
    assert gaps[-1] == 20_000_000 + stop[1] - stop[0]


@pytest.mark.quiet
def test_a_stop_of_the_world_by_hand():
    with http_server() as sim:
        sim.stall(0.2, after_s=0.1)
        assert fetch(sim, "/x").status == 200
        time.sleep(0.15)
        begin = time.perf_counter()
        fetch(sim, "/x")
        assert time.perf_counter() - begin > 0.1
        for wrong in ({}, {"for": "soon"}, {"for": -1}):
            assert ask(sim, "/sim/stall", wrong).status == 400


def test_a_pause_of_single_answers():
    with llm_server(ttft_ms=5, itl_ms=1, tokens=6, pause="100ms:every=2,after=3") as sim:
        for _ in range(4):
            ask(sim, CHAT, chat())
        records = sim.records()
    for row in range(4):
        gaps = np.diff(records.chunk_due_ns[records.chunks[row] : records.chunks[row + 1]])
        assert gaps.tolist() == [1e6, 1e6, 101e6 if row % 2 else 1e6, 1e6, 1e6]


def test_a_slow_start_by_requests():
    with llm_server(ttft_ms=20, itl_ms=0, tokens=2, slow_start="4x:requests=2") as sim:
        for _ in range(4):
            ask(sim, CHAT, chat())
        records = sim.records()
    planned = records.chunk_due_ns[records.chunks[:-1]] - records.arrival_ns
    assert planned.tolist() == [80e6, 80e6, 20e6, 20e6]


@pytest.mark.quiet
def test_a_slow_start_by_time():
    with http_server(latency_ms=10, slow_start="5x:for=200ms") as sim:
        fetch(sim, "/x")
        time.sleep(0.25)
        fetch(sim, "/x")
        records = sim.records()
    assert (records.chunk_due_ns - records.arrival_ns).tolist() == [50e6, 10e6]


@pytest.mark.quiet
def test_capacity_makes_requests_wait_in_line():
    with llm_server(ttft_ms=50, itl_ms=10, tokens=6, capacity=2) as sim:
        at_once(sim, 6)
        records = sim.records()
    order = np.argsort(records.arrival_ns)
    waited = (records.start_ns - records.arrival_ns)[order] / 1e9
    assert (np.diff(records.start_ns[order]) >= 0).all()  # first come, first served
    for pair, expected in zip(waited.reshape(3, 2), (0.0, 0.1, 0.2), strict=True):
        assert pair == pytest.approx([expected] * 2, abs=SLACK_S)
    # never more than two at once
    for start in records.start_ns:
        assert ((records.start_ns <= start) & (records.end_ns > start)).sum() <= 2


@pytest.mark.quiet
def test_capacity_has_a_knee():
    """Four slots of 100 ms each: forty answers a second and no more."""
    with llm_server(ttft_ms=100, tokens=1, capacity=4) as sim:
        begin = time.perf_counter()
        at_once(sim, 20)
        took = time.perf_counter() - begin
    assert 0.5 <= took < 0.5 + 4 * SLACK_S


@pytest.mark.quiet
def test_a_rate_that_all_share():
    with llm_server(tokens=20, rate_limit=200) as sim:
        at_once(sim, 5)
        records = sim.records()
    # 100 tokens at 200 a second; the first needs no wait
    span = (records.chunk_ns.max() - records.chunk_ns.min()) / 1e9
    assert span == pytest.approx(99 / 200, abs=SLACK_S)
    assert np.diff(np.sort(records.chunk_due_ns)).min() == pytest.approx(5e6, abs=1e5)


def test_embeddings_take_ttft():
    with llm_server(ttft_ms=50) as sim:
        ask(sim, "/v1/embeddings", {"input": "a b"})
        records = sim.records()
    assert (records.end_ns[0] - records.arrival_ns[0]) / 1e6 >= 50
    assert (records.tokens[0], records.prompt_tokens[0]) == (0, 2)


@pytest.mark.quiet
def test_many_streams_keep_their_times():
    with llm_server(ttft_ms=50, itl_ms=10, tokens=20) as sim, ExitStack() as stack:
        clients = [stack.enter_context(Raw(sim)) for _ in range(64)]
        for client in clients:
            client.send(post(CHAT, chat()))
        for client in clients:
            assert len(client.answer().events) == 22
        records = sim.records()
    assert records.tokens.tolist() == [20] * 64
    due = records.chunk_due_ns.reshape(64, 20) - records.arrival_ns[:, None]
    assert (due == 50_000_000 + 10_000_000 * np.arange(20)).all()
    assert (records.late_s >= 0).all()
    assert np.median(records.late_s) < 0.005


def test_flags_of_settings():
    assert flags({"ttft_ms": 50, "stall": ["1s:for=2s", "5s:for=1s"], "no_done": True, "capacity": None}) == [
        "--ttft",
        "50ms",
        "--stall",
        "1s:for=2s",
        "--stall",
        "5s:for=1s",
        "--no-done",
    ]
    assert flags({"ready_after_s": 0.5, "tokens": "uniform:5,50"}) == [
        "--ready-after",
        "0.5s",
        "--tokens",
        "uniform:5,50",
    ]


def test_a_script_file_and_flags_that_win(tmp_path):
    script = tmp_path / "sim.yaml"
    script.write_text("tokens: 7\ndone: false\nanswer: yes it is\n")
    with llm_server(script=script, tokens=3) as sim:
        events = ask(sim, CHAT, chat()).events
    assert len(events) == 4
    assert "".join(event["choices"][0]["delta"].get("content", "") for event in events) == "yes it is"
    assert json.dumps(events)
