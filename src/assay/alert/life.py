"""The life of an alert: one table of (state, happening) → state. Nothing else may decide what follows what."""

from __future__ import annotations

from typing import Literal

from assay.errors import UsageError

State = Literal["open", "acknowledged", "snoozed", "expected", "resolved"]
Happening = Literal["occur", "recover", "wake", "acknowledge", "snooze", "expect", "resolve", "reopen"]

STATES: tuple[State, ...] = ("open", "acknowledged", "snoozed", "expected", "resolved")
BY_ITSELF: tuple[Happening, ...] = ("occur", "recover", "wake")
BY_PEOPLE: tuple[Happening, ...] = ("acknowledge", "snooze", "expect", "resolve", "reopen")

# Somebody has to look at it, or said that he does.
ACTIVE: frozenset[State] = frozenset({"open", "acknowledged", "snoozed"})

TABLE: dict[tuple[State | None, Happening], State] = {
    (None, "occur"): "open",
    ("open", "occur"): "open",
    ("open", "recover"): "resolved",
    ("open", "acknowledge"): "acknowledged",
    ("open", "snooze"): "snoozed",
    ("open", "expect"): "expected",
    ("open", "resolve"): "resolved",
    ("acknowledged", "occur"): "acknowledged",  # somebody works on it already
    ("acknowledged", "recover"): "resolved",
    ("acknowledged", "acknowledge"): "acknowledged",  # somebody else takes it over
    ("acknowledged", "snooze"): "snoozed",
    ("acknowledged", "expect"): "expected",
    ("acknowledged", "resolve"): "resolved",
    ("acknowledged", "reopen"): "open",  # nobody works on it after all
    ("snoozed", "occur"): "snoozed",
    ("snoozed", "recover"): "resolved",
    ("snoozed", "wake"): "open",
    ("snoozed", "acknowledge"): "acknowledged",
    ("snoozed", "snooze"): "snoozed",  # for another while
    ("snoozed", "expect"): "expected",
    ("snoozed", "resolve"): "resolved",
    ("snoozed", "reopen"): "open",
    ("expected", "occur"): "open",  # more happened than was expected
    ("expected", "recover"): "resolved",
    ("expected", "expect"): "expected",
    ("expected", "resolve"): "resolved",
    ("expected", "reopen"): "open",
    ("resolved", "occur"): "open",
    ("resolved", "resolve"): "resolved",
    ("resolved", "reopen"): "open",
}

_DONE = {"acknowledge": "acknowledged", "snooze": "snoozed", "expect": "expected", "resolve": "resolved",
         "reopen": "reopened", "wake": "woken", "recover": "recovered"}  # fmt: skip


def after(state: State | None, happening: Happening) -> State:
    """The state that follows.

    Raises:
        UsageError: `lifecycle` for a step that the table does not have.
    """
    try:
        return TABLE[state, happening]
    except KeyError:
        raise UsageError(
            f"an alert that is {state or 'not there'} cannot be {_DONE.get(happening, happening)}",
            code="lifecycle",
            try_=_hint(state),
        ) from None


def _hint(state: State | None) -> str:
    can = [happening for happening in BY_PEOPLE if (state, happening) in TABLE]
    return f"it can be {', '.join(_DONE[one] for one in can)}" if can else ""
