"""Metrics in a file: what goes in comes out, whatever the labels are."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.monitoring.scrapes import BEGIN, metrics, node, series, server

from assay.errors import StoreError
from assay.store.telemetry import Metrics, ScrapedSeries, cut, decode, encode, merged

names = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=12)
one_series = st.builds(
    lambda name, labels, kind, rows: ScrapedSeries(
        name, labels, kind, np.array(sorted(rows), dtype=np.int64), np.array([float(r) / 7 for r in sorted(rows)])
    ),
    names,
    st.dictionaries(names, names, max_size=3),
    st.sampled_from(["", "counter", "gauge"]),
    st.sets(st.integers(0, 2**40), min_size=1, max_size=8),
)


def plain(found: Metrics):
    return sorted(
        (one.name, sorted(one.labels.items()), one.kind, one.at_ms.tolist(), one.value.tolist()) for one in found.series
    )


@settings(max_examples=60)
@given(st.lists(one_series, max_size=6, unique_by=lambda one: (one.name, tuple(sorted(one.labels.items())))))
def test_what_is_written_is_read(found):
    before = Metrics(tuple(found), 0.5, 1.0, 2.0, (("measure", 1.2, 1.8),), {"x": "why"})
    after = decode(encode(before))
    assert plain(after) == plain(before)
    assert (after.interval_s, after.phases, after.notes) == (0.5, (("measure", 1.2, 1.8),), {"x": "why"})


def test_the_same_metrics_make_the_same_file():
    rows = [*node(), *server()]
    assert encode(metrics(*rows)) == encode(metrics(*reversed(rows)))


@pytest.mark.parametrize("content", [b"", b"PAR1", b"no parquet at all"])
def test_something_else_is_refused(content):
    with pytest.raises(StoreError, match="metrics"):
        decode(content)


def test_an_ordinary_parquet_file_is_refused():
    import io

    import pyarrow as pa
    import pyarrow.parquet as pq

    sink = io.BytesIO()
    pq.write_table(pa.table({"a": [1]}), sink)
    with pytest.raises(StoreError):
        decode(sink.getvalue())


def test_a_part_holds_both_its_ends_and_nothing_else():
    part = cut(metrics(*node()), BEGIN + 3, BEGIN + 6)
    assert all(((one.at_ms - BEGIN * 1e3) / 1e3).tolist() == [3.0, 4.0, 5.0, 6.0] for one in part.series)


def test_parts_put_together_have_each_moment_once():
    whole = metrics(*node(), *server())
    parts = [cut(whole, BEGIN, BEGIN + 8), cut(whole, BEGIN + 8, BEGIN + 20)]
    assert plain(merged(parts)) == plain(whole)


def test_counters_are_known_by_their_kind_else_by_their_name():
    assert series("a_total", {}, [1]).is_counter
    assert not series("a_total", {}, [1], kind="gauge").is_counter
    assert series("a", {}, [1], kind="counter").is_counter
    assert not series("a", {}, [1]).is_counter
    assert series("a_bucket", {}, [1], kind="histogram").is_counter
