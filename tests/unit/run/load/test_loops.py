"""Closed and open loops: what is due when, what is counted where, and when it ends."""

import math
import time

import numpy as np
import psutil
import pytest
from tests.unit.run.load.loads import drive, outcomes, rate, users
from tests.unit.run.load.raw_server import plain, raw_server

from assay.run.load.http.driver import LoadCallbacks, LoadWarmup, Repeat
from assay.run.load.http.origin import origin_of
from assay.run.load.http.recording import MEASURE, WARMUP
from assay.run.load.shape import ClosedShape, OpenShape, RateLevel

pytestmark = pytest.mark.quiet

GOOD = plain(b"{}")


def after(seconds: float):
    def answer(connection, request, number):
        time.sleep(seconds)
        connection.sendall(GOOD)

    return answer


def in_flight(recording, at_ns):
    return int(((recording.sent_ns <= at_ns) & (recording.end_ns > at_ns)).sum())


def test_a_closed_loop_keeps_its_users_busy(tmp_path):
    with raw_server(after(0.02)) as (url, _):
        recording = drive(url, tmp_path, users(5), duration_s=0.6)
    middle = sum(recording.window) // 2
    assert in_flight(recording, middle) == 5
    assert len(recording) == pytest.approx(5 * 0.6 / 0.021, rel=0.25)


def test_a_user_waits_for_the_answer_and_thinks_before_the_next_request(tmp_path):
    with raw_server(after(0.01)) as (url, _):
        recording = drive(url, tmp_path, users(20, think_s=0.2), duration_s=1.5)
    assert len(recording) == pytest.approx(20 * 1.5 / 0.21, rel=0.25)


def test_the_schedule_of_an_open_loop_does_not_wait_for_answers(tmp_path):
    with raw_server(after(0.15)) as (url, _):
        recording = drive(url, tmp_path, rate(50), duration_s=1.0)
    due = np.sort(recording.due_ns)
    assert len(recording) == pytest.approx(50, abs=2)
    assert np.allclose(np.diff(due) / 1e6, 20, atol=0.01)
    assert in_flight(recording, int(due[30])) >= 6
    assert np.median(recording.sent_ns - recording.due_ns) / 1e6 < 3


def test_latency_counts_from_the_due_time_when_the_server_stalls(tmp_path):
    """One stall of a server with one connection: those due meanwhile carry the wait, as their users did."""
    began = {}

    def answer(connection, request, number):
        began.setdefault("at", time.perf_counter())
        elapsed = time.perf_counter() - began["at"]
        if 0.3 < elapsed < 0.8:
            time.sleep(0.8 - elapsed)
        connection.sendall(GOOD)

    with raw_server(answer) as (url, _):
        recording = drive(url, tmp_path, rate(100), duration_s=1.2)
    waits = (recording.end_ns - recording.due_ns) / 1e9
    # Half a second of stall at 100 a second: fifty requests with waits from 0.5 s down to nothing.
    assert waits.max() == pytest.approx(0.5, abs=0.12)
    assert (waits > 0.1).sum() == pytest.approx(40, abs=12)


def test_warm_up_is_handed_over_without_draining(tmp_path):
    with raw_server(after(0.05)) as (url, _):
        recording = drive(url, tmp_path, users(4), warmup=LoadWarmup(seconds=0.3), duration_s=0.5)
    begin, _end = recording.window
    assert in_flight(recording, begin) == 4, "nothing was drained"
    warm = recording.phase == WARMUP
    assert (recording.due_ns[warm] < begin).all()
    assert (recording.due_ns[~warm] >= begin).all()
    assert warm.sum() == pytest.approx(4 * 0.3 / 0.051, abs=6)


def test_warm_up_ends_when_the_times_are_level_and_is_asked_seldom(tmp_path):
    asked = []

    def steady(durations):
        asked.append(len(durations))
        return len(durations) > 80

    with raw_server(after(0.002)) as (url, _):
        recording = drive(
            url,
            tmp_path,
            users(2),
            warmup=LoadWarmup(detect=True, seconds=20),
            requests=50,
            asks=LoadCallbacks(steady=steady),
        )
    assert asked[-1] > 80
    assert len(asked) < 8
    assert (recording.phase == MEASURE).sum() == 50


def test_exactly_the_requests_that_were_requested_are_measured(tmp_path):
    with raw_server(after(0.001)) as (url, _):
        for shape in (users(7), rate(300)):
            recording = drive(url, tmp_path, shape, requests=100)
            assert (recording.phase == MEASURE).sum() == 100


def test_requests_beyond_the_bound_are_skipped_and_counted(tmp_path):
    with raw_server(after(0.5)) as (url, _):
        recording = drive(url, tmp_path, rate(100), duration_s=0.6, max_in_flight=10)
    counts = outcomes(recording)
    assert counts["skipped"] == pytest.approx(40, abs=8)
    assert len(recording) == pytest.approx(60, abs=2), "what was due is all there"
    skipped = recording.outcome == 1
    assert (recording.sent_ns[skipped] == 0).all()
    assert (recording.due_ns[skipped] > 0).all()


def test_stages_change_the_number_of_users(tmp_path):
    shape = ClosedShape((RateLevel(0.5, 2, 2), RateLevel(0.5, 8, 8), RateLevel(0.5, 1, 1)))
    with raw_server(after(0.01)) as (url, _):
        recording = drive(url, tmp_path, shape)
    begin = recording.window[0]
    # At a single moment one of them may be between two requests.
    moments = [[begin + int((at + off) * 1e9) for off in (-0.08, -0.04, 0, 0.04, 0.08)] for at in (0.25, 0.75, 1.25)]
    assert [np.median([in_flight(recording, at) for at in group]) for group in moments] == [2, 8, 1]
    assert set(recording.stage.tolist()) == {0, 1, 2}
    assert recording.stopped == "finished"


def test_a_ramp_of_an_open_loop_and_its_end(tmp_path):
    shape = OpenShape((RateLevel(0.5, 20, 100), RateLevel(0.3, 100, 100)), "constant")
    with raw_server(after(0.001)) as (url, _):
        recording = drive(url, tmp_path, shape)
    assert (recording.stage == 0).sum() == pytest.approx(30, abs=2)
    assert (recording.stage == 1).sum() == pytest.approx(30, abs=2)


def test_a_trace_is_replayed_at_its_times(tmp_path):
    at_ns = np.array([0, 100, 110, 400], dtype=np.int64) * 1_000_000
    with raw_server(after(0.001)) as (url, _):
        recording = drive(url, tmp_path, OpenShape(times=at_ns))
    assert ((np.sort(recording.due_ns) - recording.window[0]) / 1e6).round().tolist() == [0, 100, 110, 400]
    assert (np.sort(recording.session) == np.arange(4)).all()


def test_a_load_that_falls_behind_is_stopped_and_says_so(tmp_path):
    stories = []

    def falls_behind(story):
        stories.append(story[-1])
        return len(story) > 3 and story[-1][1] > 20

    with raw_server(after(5)) as (url, _):
        recording = drive(
            url, tmp_path, rate(50), duration_s=30, timeout_s=1, asks=LoadCallbacks(falls_behind=falls_behind)
        )
    assert recording.stopped.startswith("saturated")
    assert stories[-1][1] > 20


def test_the_deadline_ends_everything(tmp_path):
    with raw_server(after(60)) as (url, _):
        began = time.perf_counter_ns()
        recording = drive(url, tmp_path, users(2), duration_s=60, timeout_s=60, deadline_ns=began + 700_000_000)
    assert time.perf_counter_ns() - began < 1_500_000_000
    assert outcomes(recording) == {"unfinished": 2}
    assert recording.stopped.startswith("deadline")


def test_a_budget_bounds_all_requests_with_the_warm_up(tmp_path):
    with raw_server(after(0.001)) as (url, seen):
        recording = drive(url, tmp_path, users(3), warmup=LoadWarmup(requests=10), requests=500, most_requests=25)
    assert len(seen) == 25
    assert recording.stopped.startswith("budget")


class Talk:
    """Conversations of three turns in which each turn names the answer before it."""

    conversations = True

    def __init__(self, url):
        self.origin = origin_of(url)

    def _wire(self, text):
        return self.origin.request("POST", "/", {}, text.encode())

    def first(self, session):
        return self._wire(f"{session}:0:")

    def then(self, session, turn, body):
        return self._wire(f"{session}:{turn + 1}:{body.decode()}") if turn < 2 else None


def echo(connection, request, number):
    body = request.partition(b"\r\n\r\n")[2]
    connection.sendall(plain(b"re " + body.split(b":")[1]))


@pytest.mark.parametrize("shape", [users(3), users(3, think_s=0.01), rate(40)], ids=["closed", "thinking", "open"])
def test_conversations_go_on_with_what_was_answered(tmp_path, shape):
    with raw_server(echo) as (url, seen):
        recording = drive(url, tmp_path, shape, supply=Talk(url), requests=60)
    assert set(outcomes(recording)) == {"ok"}
    asked = [request.partition(b"\r\n\r\n")[2].decode() for request in seen]
    for session in np.unique(recording.session):
        own = [one for one in asked if one.startswith(f"{session}:")]
        assert own == [f"{session}:0:", f"{session}:1:re 0", f"{session}:2:re 1"][: len(own)]
        turns = recording.turn[recording.session == session]
        assert sorted(turns.tolist()) == list(range(len(own)))


@pytest.mark.parametrize("shape", [users(6), rate(120)], ids=["closed", "open"])
def test_several_client_processes_share_one_load(tmp_path, shape):
    with raw_server(after(0.005)) as (url, _seen):
        wires = [origin_of(url).request("POST", "/", {}, f"{index}".encode()) for index in range(1000)]
        recording = drive(url, tmp_path, shape, supply=Repeat(wires), requests=90, clients=3)
    assert set(outcomes(recording)) == {"ok"}
    assert len(recording) == 90
    assert [cost.requests for cost in recording.clients] == [30, 30, 30]
    assert len(set(recording.session.tolist())) == 90, "no request was sent twice"
    assert sorted(set(recording.client.tolist())) == [0, 1, 2]
    assert {bytes(recording.body_of(row)) for row in range(90)} == {b"{}"}
    if isinstance(shape, OpenShape):
        due = np.sort(recording.due_ns)
        assert np.allclose(np.diff(due) / 1e6, 1000 / 120, atol=0.01), "together they are the one schedule"


def test_a_client_process_that_dies_is_named(tmp_path):
    from assay.errors import MeasureError

    class Bad:
        conversations = False

        def first(self, session):
            raise RuntimeError("no more prompts")

        def then(self, *_):
            return None

    before = {one.pid for one in psutil.Process().children()}
    with (
        raw_server(after(0.001)) as (url, _),
        pytest.raises(MeasureError, match="client process 0 failed: RuntimeError"),
    ):
        drive(url, tmp_path, supply=Bad(), requests=5, clients=2)
    assert {one.pid for one in psutil.Process().children()} <= before, "the others are ended, and their end is noticed"


def test_memory_of_bodies_stays_on_disk(tmp_path):
    body = b"x" * 100_000
    with raw_server(lambda connection, *_: connection.sendall(plain(body))) as (url, _):
        recording = drive(url, tmp_path, users(4), requests=200)
    assert len(recording.content) == 200 * 100_000
    assert bytes(recording.body_of(199)) == body
    assert not list(tmp_path.glob("*.bodies")), "the file has no name any more"


def test_a_busy_client_shows_its_lag(tmp_path):
    class Slow(Repeat):
        def first(self, session):
            time.sleep(0.02)
            return self.wires[0]

    with raw_server(after(0.0)) as (url, _):
        wire = origin_of(url).request("POST", "/", {}, b"{}")
        recording = drive(url, tmp_path, users(1), supply=Slow((wire,)), requests=20)
    assert recording.clients[0].lag_p99_ms == pytest.approx(20, abs=6)
    assert math.isfinite(recording.clients[0].cpu_s)
