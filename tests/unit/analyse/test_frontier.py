"""Which things no other one beats: by hand, and against a slow way to say the same."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.analyse.frontier import FrontierCandidate, frontier


def standing(*spots, x="lower", y="higher"):
    return [(one.on_front, one.surely) for one in frontier(spots, x, y)]


def sharp(x, y, by=0.01):
    return FrontierCandidate(x, y, (x - by, x + by), (y - by, y + by))


def test_fast_and_much_beats_slow_and_little():
    assert standing(sharp(1, 10), sharp(2, 5)) == [(True, True), (False, False)]


def test_what_is_best_in_one_respect_is_on_the_front():
    assert standing(sharp(1, 5), sharp(2, 10), sharp(3, 7)) == [(True, True), (True, True), (False, False)]


@pytest.mark.parametrize(("x", "y", "best"), [("lower", "lower", 0), ("lower", "higher", 1), ("higher", "lower", 2),
                                              ("higher", "higher", 3)])  # fmt: skip
def test_each_direction_counts(x, y, best):
    corners = [sharp(1, 1), sharp(1, 2), sharp(2, 1), sharp(2, 2)]
    found = standing(*corners, x=x, y=y)
    assert [front for front, _ in found] == [place == best for place in range(4)]


def test_intervals_that_overlap_leave_it_unsure():
    wide = FrontierCandidate(1.0, 10.0, (0.5, 2.5), (4.0, 16.0))
    assert standing(wide, sharp(2, 5)) == [(True, False), (False, False)]


def test_one_respect_distinguished_is_enough_to_be_sure():
    # The second is surely slower, so that it cannot beat the first however much it gives.
    first, second = (
        FrontierCandidate(1.0, 10.0, (0.9, 1.1), (9.0, 11.0)),
        FrontierCandidate(2.0, 10.5, (1.9, 2.1), (9.0, 12.0)),
    )
    assert standing(first, second) == [(True, True), (True, False)]


def test_a_number_whose_doubt_is_not_known_makes_nothing_sure():
    once = FrontierCandidate(5.0, 1.0)
    assert standing(sharp(1, 10), once) == [(True, False), (False, False)]
    # Where it is known to be slower, its other number does not matter.
    slow = FrontierCandidate(5.0, 1.0, (4.9, 5.1), None)
    assert standing(sharp(1, 10), slow) == [(True, True), (False, False)]


def test_equal_ones_stand_together_and_neither_surely():
    assert standing(sharp(1, 1), sharp(1, 1)) == [(True, False), (True, False)]


def test_nothing_and_one():
    assert frontier([], "lower", "lower") == []
    assert standing(sharp(3, 3)) == [(True, True)]


NUMBERS = st.integers(0, 6).map(float)
WIDTHS = st.integers(0, 3).map(float)


@st.composite
def spots(draw):
    x, y = draw(NUMBERS), draw(NUMBERS)
    ends = [None if (width := draw(st.none() | WIDTHS)) is None else (at - width, at + width) for at in (x, y)]
    return FrontierCandidate(x, y, *ends)


@given(
    found=st.lists(spots(), max_size=8), x=st.sampled_from(["lower", "higher"]), y=st.sampled_from(["lower", "higher"])
)
def test_it_is_what_asking_each_pair_would_say(found, x, y):
    signs = [1 if way == "higher" else -1 for way in (x, y)]

    def turned(value, ends, sign):
        low, high = ends or (float("-inf"), float("inf"))
        return value * sign, min(low * sign, high * sign), max(low * sign, high * sign)

    turned_spots = [(turned(one.x, one.x_ends, signs[0]), turned(one.y, one.y_ends, signs[1])) for one in found]
    for place, standing in enumerate(frontier(found, x, y)):
        own = turned_spots[place]
        others = [one for number, one in enumerate(turned_spots) if number != place]
        beaten = any(
            all(a[0] >= b[0] for a, b in zip(one, own, strict=True))
            and any(a[0] > b[0] for a, b in zip(one, own, strict=True))
            for one in others
        )
        may_be = any(all(a[2] >= b[1] for a, b in zip(one, own, strict=True)) for one in others)
        known = found[place].x_ends is not None and found[place].y_ends is not None
        assert standing.on_front == (not beaten)
        assert standing.surely == (not beaten and known and not may_be)
