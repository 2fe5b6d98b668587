"""What a batch job asks for, as the lines of its script."""

import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.engines.slurm.parsing import seconds
from assay.engines.slurm.script import directives, largest, quoted, time_words
from assay.errors import UsageError
from assay.spec.benchmark import Needs
from assay.spec.slurm import Batch


def test_every_option_is_written_once_and_in_order():
    batch = Batch(
        partition="gpu",
        account="p1",
        qos="q",
        reservation="r",
        time=5400.0,
        nodes=2,
        tasks=4,
        cpus=8,
        memory=16 * 2**30,
        gpus="h200:2",
        gres="shard:1",
        constraint="a&b",
        exclusive=True,
        options=("--mail-type=END",),
    )
    assert directives(batch, Needs()) == (
        "--partition=gpu",
        "--account=p1",
        "--qos=q",
        "--reservation=r",
        "--time=01:30:00",
        "--nodes=2",
        "--ntasks=4",
        "--cpus-per-task=8",
        "--mem=16384M",
        "--gres=shard:1,gpu:h200:2",
        '--constraint="a&b"',
        "--exclusive",
        "--mail-type=END",
    )


def test_nothing_is_requested_that_nobody_said():
    assert directives(Batch(), Needs()) == ()


def test_needs_are_requested_where_the_section_is_silent():
    needs = Needs(cpus=4, memory=2**30 + 1, gpus=2)
    assert directives(Batch(), needs) == ("--cpus-per-task=4", "--mem=1025M", "--gres=gpu:2")
    assert directives(Batch(tasks=2), Needs(cpus=3)) == ("--ntasks=2", "--cpus-per-task=2")
    assert directives(Batch(gres="gpu:a100:4"), needs)[-1] == "--gres=gpu:a100:4"
    assert directives(Batch(exclusive=True), Needs(cpus=64)) == ("--exclusive",), "the node is all ours"
    assert directives(Batch(gpus=0), Needs()) == ()


@pytest.mark.parametrize(
    ("batch", "needs", "said"),
    [
        (Batch(gpus=1), Needs(gpus=2), "needs.gpus is 2, and the batch options ask Slurm for 1"),
        (Batch(gpus="h200:1"), Needs(gpus=2), "ask Slurm for 1"),
        (
            Batch(memory=2**30),
            Needs(memory=2**31),
            "needs.memory is 2.0 GiB, and the batch options ask Slurm for 1.0 GiB",
        ),
        (Batch(cpus=2, tasks=2, nodes=2), Needs(cpus=4), "ask Slurm for 2 on a node"),
    ],
)
def test_less_than_is_needed_is_refused(batch, needs, said):
    with pytest.raises(UsageError, match="needs") as caught:
        directives(batch, needs)
    assert said in str(caught.value)
    assert "raise place.slurm." in caught.value.problem.try_


def test_more_than_is_needed_is_fine():
    assert directives(Batch(gpus=4, cpus=8, memory=2**31), Needs(gpus=2, cpus=4, memory=2**30)) == (
        "--cpus-per-task=8",
        "--mem=2048M",
        "--gres=gpu:4",
    )


def test_the_largest_need_of_several_counts():
    assert largest([Needs(cpus=4), Needs(cpus=2, gpus=1), Needs(memory=5)]) == Needs(cpus=4, gpus=1, memory=5)
    assert largest([]) == Needs()


@given(st.floats(min_value=0.01, max_value=400 * 86400, allow_nan=False))
def test_a_time_limit_is_never_shorter_than_what_was_requested(limit_s):
    written = seconds(time_words(limit_s))
    assert written is not None
    assert limit_s <= written < limit_s + 1


@given(st.text(st.characters(exclude_categories=("C", "Zl", "Zp", "Zs"), include_characters=" \t"), min_size=1))
def test_a_quoted_value_is_read_back_as_it_was(value):
    assert shlex.split(quoted(value)) == [value]


@pytest.mark.parametrize("value", ["a\nb", "a\rb", "\x00", "\x1b[0m", "a\u2028b"])
def test_a_value_of_several_lines_is_refused(value):
    with pytest.raises(UsageError, match="cannot stand in a batch script"):
        quoted(value)
