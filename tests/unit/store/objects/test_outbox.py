"""Marks of what waits: they outlive the process, and the last word counts."""

import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.errors import StoreError
from assay.store.objects.backing import Outbox

A, B = "a" * 64, "b" * 64


def told(outbox, action):
    return [(mark.kind, mark.digest) for mark in outbox.marks(action)]


def test_marks_are_there_for_the_next_process(tmp_path):
    Outbox(tmp_path).to_send("samples", A)
    Outbox(tmp_path).to_delete("artefacts", B)
    assert told(Outbox(tmp_path), "send") == [("samples", A)]
    assert told(Outbox(tmp_path), "delete") == [("artefacts", B)]
    assert Outbox(tmp_path).waits("samples", A)
    assert not Outbox(tmp_path).waits("artefacts", A)


def test_nothing_waits_where_nothing_was(tmp_path):
    outbox = Outbox(tmp_path / "none")
    assert (outbox.marks("send"), outbox.count("delete")) == ((), 0)
    assert not outbox.folder.exists()


def test_the_oldest_comes_first(tmp_path):
    outbox = Outbox(tmp_path)
    for digest in (A, B):
        outbox.to_send("samples", digest)
    os.utime(tmp_path / "send" / "samples" / B, (1, 1))
    assert told(outbox, "send") == [("samples", B), ("samples", A)]
    assert outbox.marks("send")[0].age_s > 10**9


@given(st.lists(st.tuples(st.sampled_from(["send", "delete", "done"]), st.sampled_from([A, B])), max_size=20))
def test_a_file_is_sent_or_deleted_as_was_said_last(tmp_path_factory, steps):
    outbox = Outbox(tmp_path_factory.mktemp("outbox"))
    last = {A: "", B: ""}
    for step, digest in steps:
        if step == "send":
            outbox.to_send("samples", digest)
        elif step == "delete":
            outbox.to_delete("samples", digest)
        else:
            for mark in (*outbox.marks("send"), *outbox.marks("delete")):
                if mark.digest == digest:
                    outbox.done(mark)
        last[digest] = "" if step == "done" else step
    for action in ("send", "delete"):
        assert {digest for _, digest in told(outbox, action)} == {one for one, said in last.items() if said == action}
        assert outbox.count(action) == len(told(outbox, action))


def test_a_mark_that_cannot_be_made_is_reported(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError) as refused:
        Outbox(tmp_path / "file").to_send("samples", A)
    assert refused.value.problem.code == "disk"
