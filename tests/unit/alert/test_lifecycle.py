"""The life of an alert: the whole table, so that a change of it is seen."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.alert.lifecycle import ACTIVE, BY_PEOPLE, STATES, TABLE, after
from assay.errors import UsageError

# Rows are states, columns are what happens; a dot is a step that there is not.
DRAWN = """
              occur         recover   wake  acknowledge   snooze   expect    resolve   reopen
none          open          .         .     .             .        .         .         .
open          open          resolved  .     acknowledged  snoozed  expected  resolved  .
acknowledged  acknowledged  resolved  .     acknowledged  snoozed  expected  resolved  open
snoozed       snoozed       resolved  open  acknowledged  snoozed  expected  resolved  open
expected      open          resolved  .     .             .        expected  resolved  open
resolved      open          .         .     .             .        .         resolved  open
"""

BY_ITSELF = ("occur", "recover", "wake")


def drawn():
    head, *rows = (line.split() for line in DRAWN.strip().splitlines())
    for state, *cells in rows:
        for happening, cell in zip(head, cells, strict=True):
            yield None if state == "none" else state, happening, cell


@pytest.mark.parametrize(("state", "happening", "expected"), list(drawn()))
def test_every_step_is_as_drawn(state, happening, expected):
    if expected == ".":
        with pytest.raises(UsageError) as said:
            after(state, happening)
        assert said.value.problem.code == "lifecycle"
        assert (state or "not there") in said.value.problem.message
    else:
        assert after(state, happening) == expected


def test_the_drawing_is_complete():
    assert {(state, happening) for state, happening, _ in drawn()} == {
        (state, happening) for state in (None, *STATES) for happening in (*BY_ITSELF, *BY_PEOPLE)
    }
    assert set(TABLE.values()) == set(STATES)
    assert set(STATES) > ACTIVE


@given(st.lists(st.sampled_from((*BY_ITSELF, *BY_PEOPLE)), max_size=30))
def test_whatever_happens_trouble_is_never_stuck(happenings):
    """From every state that can be reached, trouble that comes back is heard of, and people can end it."""
    state = after(None, "occur")
    for happening in happenings:
        if (state, happening) in TABLE:
            state = TABLE[state, happening]
    assert after(state, "occur") in ACTIVE
    assert after(state, "resolve") == "resolved"
    assert after("resolved", "occur") == "open"


def test_who_may_not_learns_what_may_be_done():
    with pytest.raises(UsageError) as said:
        after("resolved", "acknowledge")
    assert said.value.problem.try_ == "it can be resolved, reopened"
