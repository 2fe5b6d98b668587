"""The kept file of readings comes back as columns: what was written is read, and what is no such file is told."""

import csv
import gzip
import io

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from assay.errors import StoreError
from assay.run.probes.columns import HEAD, write
from assay.store.telemetry import read_telemetry


def packed(rows, head=HEAD) -> bytes:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(head)
    writer.writerows(rows)
    return gzip.compress(text.getvalue().encode(), mtime=0)


series = st.lists(
    st.tuples(
        st.sampled_from(["job", "others", "gpu:0", "rapl:package-0", 'a "quoted", name', "ünï\ncode"]),
        st.sampled_from(["cpu_pct", "power_w", "energy_j"]),
        st.lists(st.tuples(st.integers(0, 2**62), st.floats(allow_nan=False)), min_size=1, max_size=12),
    ),
    max_size=6,
    unique_by=lambda one: one[:2],
)


@settings(max_examples=60)
@given(series)
def test_what_a_probe_writes_is_read_back(tmp_path_factory, given_series):
    path = tmp_path_factory.mktemp("t") / "machine.csv.gz"
    ordered = [(source, name, "", *zip(*sorted(rows), strict=True)) for source, name, rows in given_series]
    write(path, ordered)
    back = read_telemetry(path.read_bytes())
    assert [(track.source, track.name) for track in back.tracks] == [one[:2] for one in ordered]
    for track, (_, _, _, at_ns, value) in zip(back.tracks, ordered, strict=True):
        np.testing.assert_array_equal(track.at_ns, at_ns)
        np.testing.assert_array_equal(track.value, value)


def test_one_track_is_found_by_its_name():
    back = read_telemetry(packed([("job", "cpu_pct", "", 1, 50.0), ("gpu:0", "power_w", '{"board": "a"}', 2, 300.0)]))
    assert back.sources == ("job", "gpu:0")
    assert back.track("gpu:0", "power_w").labels == {"board": "a"}
    assert back.track("gpu:0", "power_w").value.tolist() == [300.0]
    assert back.track("gpu:1", "power_w") is None


def test_readings_come_in_the_order_of_time():
    back = read_telemetry(packed([("job", "cpu_pct", "", 30, 3.0), ("job", "cpu_pct", "", 10, 1.0)]))
    assert back.tracks[0].at_ns.tolist() == [10, 30]
    assert back.tracks[0].value.tolist() == [1.0, 3.0]


def test_phases_are_stretches_and_no_readings():
    rows = [
        ("phase", "load", "", 10, 1),
        ("phase", "load", "", 20, 0),
        ("phase", "warmup", "", 20, 1),
        ("phase", "warmup", "", 30, 0),
        ("phase", "measure", "", 30, 1),  # the run ended in the middle of it
        ("phase", "warmup", "", 40, 1),
        ("phase", "warmup", "", 45, 0),  # a search warms up again
        ("job", "cpu_pct", "", 50, 99.0),
    ]
    back = read_telemetry(packed(rows))
    assert back.sources == ("job",)
    assert [(one.name, one.begin_ns, one.end_ns) for one in back.phases] == [
        ("load", 10, 20),
        ("warmup", 20, 30),
        ("measure", 30, 50),
        ("warmup", 40, 45),
    ]


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"", "its columns are missing"),
        (b"no gzip at all", "BadGzipFile"),
        (packed([("job", "cpu_pct", "", 1, 2.0)])[:-9], "EOFError"),
        (packed([], head=("time", "value")), "its columns are time,value"),
        (packed([("job", "cpu_pct", "", "soon", 2.0)]), "soon"),
        (packed([("job", "cpu_pct", "", 1)]), "Expected 5 columns"),
        (packed([("job", "cpu_pct", "{", 1, 2.0)]), "JSONDecodeError"),
        (packed([("job", "cpu_pct", "", 2**80, 2.0)]), "1208925819614629174706176"),
        (gzip.compress(",".join(HEAD).encode() + b"\n\xff\xfe,b,,1,2\n", mtime=0), "UTF8|UTF-8"),
    ],
)
def test_what_is_no_telemetry_is_reported(content, why):
    with pytest.raises(StoreError, match=why) as caught:
        read_telemetry(content)
    assert caught.value.problem.code == "telemetry"


def test_a_file_without_a_row_is_empty():
    back = read_telemetry(packed([]))
    assert (back.tracks, back.phases) == ((), ())


def test_what_is_not_finite_comes_back_as_it_was():
    rows = [("job", "cpu_pct", "", place, value) for place, value in enumerate(("nan", "inf", "-inf", "1e300"))]
    np.testing.assert_array_equal(read_telemetry(packed(rows)).tracks[0].value, [np.nan, np.inf, -np.inf, 1e300])


def test_a_file_that_unfolds_without_end_is_refused(monkeypatch):
    monkeypatch.setattr("assay.store.telemetry._MOST_BYTES", 10_000)
    with pytest.raises(StoreError, match="unfolds to more than"):
        read_telemetry(gzip.compress(b"0" * 20_000))
