"""The life of a part: every sequence of what can happen leads somewhere sensible."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from assay.infra.processes.supervisor import (
    LONGEST_WAIT_S,
    STEADY_S,
    TRIES,
    RestartState,
    after_check,
    after_exit,
    after_start,
    back_off_s,
    exit_in_words,
)


def test_a_part_that_starts_and_answers_is_healthy_and_was_never_restarted():
    course = after_check(after_start(RestartState()), "connection refused", 1.0)
    assert (course.state, course.detail) == ("starting", "connection refused")
    course = after_check(course, None, 2.0)
    assert (course.state, course.restarts, course.detail, course.healthy_s) == ("healthy", 0, "", 2.0)


def test_one_that_was_never_healthy_is_given_up_after_some_tries():
    course = RestartState()
    for number in range(TRIES):
        assert course.state in ("waiting", "restarting")
        course = after_exit(after_start(course), 1, float(number))
    assert course.state == "failed"
    assert "ended with code 1" in course.detail
    assert str(TRIES) in course.detail


def test_one_that_was_healthy_is_never_given_up():
    course = after_check(after_start(RestartState()), None, 0.0)
    for number in range(10 * TRIES):
        course = after_exit(course, -9, float(number))
        assert course.state == "restarting"
        assert course.detail == "was ended by SIGKILL"
        course = after_start(course)
    assert course.restarts == 10 * TRIES


def test_it_waits_longer_each_time_and_begins_again_after_a_long_good_time():
    course = after_check(after_start(RestartState()), None, 0.0)
    waits = []
    for _ in range(4):
        course = after_exit(course, 1, 1.0)
        waits.append(course.due_s - 1.0)
        course = after_check(after_start(course), None, 1.0)
    assert waits == sorted(waits)
    assert waits[0] < waits[-1]
    rested = after_exit(course, 1, 1.0 + STEADY_S)
    assert rested.due_s - (1.0 + STEADY_S) == waits[0]


def test_being_healthy_for_long_is_counted_from_the_first_good_answer():
    course = after_check(after_start(RestartState()), None, 10.0)
    assert after_check(course, None, 50.0).healthy_s == 10.0
    shaky = after_check(after_check(course, "no", 20.0), None, 30.0)
    assert shaky.healthy_s == 30.0


def test_one_that_does_not_answer_is_unhealthy_and_not_killed():
    course = after_check(after_check(after_start(RestartState()), None, 0.0), "timed out", 5.0)
    assert (course.state, course.detail) == ("unhealthy", "timed out")


def test_a_step_that_ends_well_is_done_and_one_that_does_not_is_tried_again():
    assert after_exit(after_start(RestartState()), 0, 0.0, once=True).state == "done"
    assert after_exit(after_start(RestartState()), 3, 0.0, once=True).state == "restarting"
    # A part that is to stay has failed even when its process ends well.
    assert after_exit(after_start(RestartState()), 0, 0.0).state == "restarting"


def test_signals_without_a_name_are_reported_too():
    assert exit_in_words(-15) == "was ended by SIGTERM"
    assert exit_in_words(-250) == "was ended by signal 250"


@given(st.integers(0, 10**6))
def test_the_wait_is_bounded(tries):
    assert 0 < back_off_s(tries) <= LONGEST_WAIT_S


EVENTS = st.lists(
    st.one_of(
        st.just(("answered", None)),
        st.tuples(st.just("answered"), st.text(min_size=1, max_size=5)),
        st.tuples(st.just("ended"), st.integers(-15, 3)),
    ),
    max_size=60,
)


@given(EVENTS, st.lists(st.floats(0, 100), min_size=60, max_size=60))
def test_whatever_happens_a_proven_part_continues_and_an_unproven_one_stops_in_time(events, gaps):
    course, now_s, starts = RestartState(), 0.0, 0
    for (kind, value), gap in zip(events, gaps, strict=False):
        now_s += gap
        if course.state in ("waiting", "restarting"):
            course, starts = after_start(course), starts + 1
        if course.state == "failed":
            break
        course = after_check(course, value, now_s) if kind == "answered" else after_exit(course, value, now_s)
        assert course.due_s <= now_s + LONGEST_WAIT_S
        assert course.restarts == max(0, starts - 1)
        if course.proven:
            assert course.state != "failed"
        else:
            assert starts <= TRIES
            assert course.state in ("starting", "restarting", "failed")
