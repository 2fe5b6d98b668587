import pytest

from assay import units


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("30s", 30),
        ("500ms", 0.5),
        ("5m", 300),
        ("1h30m", 5400),
        ("2 min", 120),
        (7, 7),
        ("1e-3 s", 1e-3),
        ("2µs", 2e-6),
    ],
)
def test_durations(text, expected):
    assert units.seconds(text) == pytest.approx(expected)


@pytest.mark.parametrize("text", ["soon", "30 parsecs", "-1s", "", "1h later 2m", True, None, [1]])
def test_bad_durations_are_refused(text):
    with pytest.raises(ValueError, match=r"duration|unit|negative"):
        units.seconds(text)


@pytest.mark.parametrize(("text", "expected"), [("2%", 0.02), (0.02, 0.02), ("0.5 %", 0.005), ("100%", 1.0)])
def test_shares(text, expected):
    assert units.ratio(text) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("text", "expected"), [("16GiB", 16 * 2**30), ("500MB", 500_000_000), (1024, 1024), ("1.5 KiB", 1536)]
)
def test_sizes(text, expected):
    assert units.size_bytes(text) == expected


@pytest.mark.parametrize("text", ["16 gigs", "-1MB", "lots"])
def test_bad_sizes_are_refused(text):
    with pytest.raises(ValueError, match=r"size|unit|negative"):
        units.size_bytes(text)


@pytest.mark.parametrize(("value", "shown"), [(0.25, "250 ms"), (3.21, "3.2 s"), (75, "1 min 15 s"), (3600, "1 h")])
def test_durations_are_shown_for_people(value, shown):
    assert units.show_seconds(value) == shown
