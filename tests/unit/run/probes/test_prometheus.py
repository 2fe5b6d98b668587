"""The text format, against the reference reader: whatever it accepts we read alike, and what is broken is refused."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Summary, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from assay.run.probes.prometheus import FormatError, Sample, parse

NAMES = st.from_regex(r"\A[a-zA-Z_:][a-zA-Z0-9_:]{0,12}\Z")
LABELS = st.dictionaries(
    st.from_regex(r"\A[a-zA-Z][a-zA-Z0-9_]{0,8}\Z"),
    # The reference reader takes \r for the end of a line in some versions; servers do not send control characters.
    st.text(st.characters(blacklist_categories=["Cs", "Cc"], whitelist_characters="\n"), max_size=12),
    max_size=4,
)
VALUES = st.one_of(st.floats(), st.integers(-(10**15), 10**15).map(float))
SPACE = st.sampled_from([" ", "  ", "\t", " \t "])


def escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')


def number(value: float) -> str:
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    return "NaN" if math.isnan(value) else repr(value)


@st.composite
def lines(draw) -> tuple[str, Sample]:
    name, labels, value, space = draw(NAMES), draw(LABELS), draw(VALUES), draw(SPACE)
    stamp = draw(st.one_of(st.none(), st.integers(0, 2**45)))
    inside = ",".join(f'{label}="{escaped(text)}"' for label, text in labels.items())
    if labels and draw(st.booleans()):
        inside += ","
    text = name + (f"{{{inside}}}" if labels or draw(st.booleans()) else "") + space + number(value)
    text += f" {stamp}" if stamp is not None else ""
    return text, Sample(name, tuple(sorted(labels.items())), value, stamp)


def same(ours: Sample, name: str, labels: dict[str, str], value: float) -> bool:
    equal = ours.value == value or (math.isnan(ours.value) and math.isnan(value))
    return ours.name == name and dict(ours.labels) == labels and equal


@settings(max_examples=150)
@given(st.lists(lines(), max_size=6))
def test_samples_are_read_as_the_reference_reads_them(written):
    text = "".join(f"{line}\n" for line, _ in written)
    ours = parse(text).samples
    assert [repr(one) for one in ours] == [repr(sample) for _, sample in written]
    theirs = [sample for family in text_string_to_metric_families(text) for sample in family.samples]
    # The reference puts samples of one name together; the order within a name is kept by both.
    for name in {one.name for one in ours}:
        mine = [one for one in ours if one.name == name]
        others = [one for one in theirs if one.name == name]
        assert len(mine) == len(others)
        assert all(same(one, other.name, other.labels, other.value) for one, other in zip(mine, others, strict=True))


@settings(max_examples=200)
@given(st.text(st.sampled_from(list('ab_:{}="\\,# \t\n1.+-einfNaTYPE')), max_size=40))
def test_any_text_is_read_or_refused(text):
    try:
        found = parse(text)
    except FormatError:
        return
    assert all(isinstance(one.value, float) for one in found.samples)


def test_what_the_reference_writes_is_read_back():
    registry = CollectorRegistry()
    Counter("vllm:requests", "help with \\ and\nnew line", ["reason"], registry=registry).labels('st"op\\\n').inc(3)
    Gauge("running", "", registry=registry).set(float("inf"))
    Histogram("ttft_seconds", "", buckets=(0.1, 0.5), registry=registry).observe(0.3)
    Summary("size", "", registry=registry).observe(7)
    text = generate_latest(registry).decode()
    found = parse(text)
    theirs = [sample for family in text_string_to_metric_families(text) for sample in family.samples]
    assert [(one.name, dict(one.labels), one.value) for one in found.samples] == [
        (one.name, one.labels, one.value) for one in theirs
    ]
    assert found.family("vllm:requests_total") == ("vllm:requests_total", "counter")
    assert found.family("ttft_seconds_bucket") == ("ttft_seconds", "histogram")
    assert found.family("ttft_seconds_sum") == ("ttft_seconds", "histogram")
    assert found.family("size_count") == ("size", "summary")
    assert found.family("running") == ("running", "gauge")
    assert found.family("nobody_count") == ("nobody_count", "untyped")


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("name", "not a sample"),
        ("name{", "not a sample"),
        ('name{a="b} 1', "not a sample"),
        ('name{a="b"}', "not a sample"),
        ("name one", "one is not a number"),
        ("name 1_000", "not a number"),
        ("name 0x10", "not a number"),
        ("name 1 now", "not a sample"),
        ("name 1 2 3", "not a sample"),
        ("1name 1", "not a sample"),
        ('name{a=b} 1', "not a label"),
        ('name{a="b" c="d"} 1', "not a label"),
        ('name{,} 1', "not a label"),
        ('name{a="1",a="2"} 1', "comes twice"),
        (r'name{a="\t"} 1', "unknown escape"),
        ("# TYPE name", "not a TYPE line"),
        ("# TYPE name strange", "unknown type"),
        ("# TYPE name counter\n# TYPE name gauge", "two types"),
        ("<html><body>404</body></html>", "not a sample"),
    ],
)  # fmt: skip
def test_a_broken_line_is_refused_with_its_number(line, says):
    with pytest.raises(FormatError, match=rf"line [34]: .*{says}"):
        parse(f"good 1\n# any comment\n{line}\n")


def test_windows_line_ends_and_no_last_line_end():
    assert [one.value for one in parse("a 1\r\nb 2").samples] == [1.0, 2.0]
