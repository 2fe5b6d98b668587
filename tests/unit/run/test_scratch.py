"""Files that a run leaves: found, checked, without secrets, and never too large."""

import gzip
import hashlib
import json
import os

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.run import scratch
from assay.run.scratch import gather

KEY = "sk-very-secret-1234"
ENVIRON = {"KEY": KEY, "SHORT": "abc", "ODD": 'sé"cr\\et\nin two lines', "EMPTY": ""}
NAMES = ("KEY", "SHORT", "ODD", "EMPTY", "NOT_SET")


def write(folder, name, content):
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


def reported(*paths):
    return {path.name: str(path) for path in paths}


def test_what_was_reported_and_what_lies_in_its_place_is_found(tmp_path):
    answers = write(tmp_path, "outputs.jsonl.gz", gzip.compress(b"{}\n"))
    err = write(tmp_path, "service-llm.err", b"it fell over\n")
    out = write(tmp_path, "services/service-my db.out", b"up\n")
    telemetry = write(tmp_path, "files/telemetry.parquet", b"PAR1 and so on PAR1")
    write(tmp_path, "report.json", b"{}")
    write(tmp_path, "service-notes.txt", b"no log")
    files, absent = gather(tmp_path, reported(answers), ())
    assert files == {one.name: one for one in (answers, err, out, telemetry)}
    assert absent == {}


def test_a_process_that_died_leaves_its_logs_without_a_word(tmp_path):
    write(tmp_path, "service-llm.out", b"last words")
    files, _ = gather(tmp_path, {}, ())
    assert files["service-llm.out"].read_bytes() == b"last words"


def test_empty_files_say_nothing(tmp_path):
    assert gather(tmp_path, reported(write(tmp_path, "service-llm.out", b"")), ()) == ({}, {})


@pytest.mark.parametrize("name", ["../x", "a/b", "a\\b", ".hidden", "", "c:x", "bell\x07", "n" * 201])
def test_a_name_that_is_no_plain_name_is_refused(tmp_path, name):
    files, absent = gather(tmp_path, {name: str(write(tmp_path, "x", b"content"))}, ())
    assert files == {}
    assert "name" in absent[name]


def test_a_file_elsewhere_is_refused_also_behind_a_link(tmp_path):
    outside = write(tmp_path, "outside.txt", b"of somebody else")
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    (scratch / "link.txt").symlink_to(outside)
    (scratch / "service-x.out").symlink_to(outside)
    given_back = {"direct": str(outside), "link": str(scratch / "link.txt"), "gone": str(scratch / "gone")}
    files, absent = gather(scratch, given_back, ())
    assert files == {}
    assert "does not lie" in absent["direct"]
    assert "does not lie" in absent["link"]
    assert "does not lie" in absent["service-x.out"]
    assert "no such file" in absent["gone"]


def test_no_secret_is_kept_in_text_however_it_is_written(tmp_path):
    odd = ENVIRON["ODD"]
    lines = [f"header {KEY}", json.dumps({"x": odd}), json.dumps({"x": odd}, ensure_ascii=False), odd, "abc stays"]
    lines += ["https://host/?key=s%C3%A9%22cr%5Cet%0Ain%20two%20lines"]
    text = "\n".join(lines)
    log = write(tmp_path, "service-a.out", text.encode())
    packed = write(tmp_path, "outputs.jsonl.gz", gzip.compress(text.encode()))
    files, absent = gather(tmp_path, reported(packed), NAMES, ENVIRON)
    assert absent == {}
    for content in (files["service-a.out"].read_bytes(), gzip.decompress(files["outputs.jsonl.gz"].read_bytes())):
        shown = content.decode()
        assert KEY not in shown
        assert "two lines" not in shown
        assert "two%20lines" not in shown
        assert shown.count("***") == 5
        assert "abc stays" in shown
    assert log.read_bytes() == text.encode()  # what a service still writes to is left alone


def test_the_same_answers_stay_the_same_file(tmp_path):
    digests = set()
    for name in ("a", "b"):
        path = write(tmp_path / name, "outputs.jsonl.gz", gzip.compress(f"{KEY}\n".encode(), mtime=hash(name) % 1000))
        files, _ = gather(tmp_path / name, reported(path), NAMES, ENVIRON)
        digests.add(hashlib.sha256(files["outputs.jsonl.gz"].read_bytes()).hexdigest())
    assert len(digests) == 1


@given(
    st.lists(st.sampled_from([b"x", b"secret", b"sec", b"ret\n", b"secretive", b"se", b"*"]), max_size=60),
    st.integers(1, 9),
)
def test_secrets_that_lie_across_blocks_are_found(parts, size):
    content = b"".join(parts)
    hidden = scratch._pattern(["A", "B"], {"A": "secret", "B": "secretive"})
    blocks = [content[at : at + size] for at in range(0, len(content), size)]
    assert b"".join(scratch._without(hidden, iter(blocks))) == hidden.sub(b"***", content)


def test_a_binary_file_that_holds_a_secret_is_left_out(tmp_path):
    plain = write(tmp_path, "trace.bin", b"\0\1\2" + KEY.encode() + b"\0")
    fine = write(tmp_path, "fine.bin", b"\0\1\2 *** \0")
    pq.write_table(pa.table({"label": ["x", f"key={KEY}"], "at": np.arange(2)}), tmp_path / "bad.parquet")
    pq.write_table(pa.table({"label": ["x", "y"], "at": np.arange(2)}), tmp_path / "good.parquet")
    paths = [plain, fine, tmp_path / "bad.parquet", tmp_path / "good.parquet"]
    files, absent = gather(tmp_path, reported(*paths), NAMES, ENVIRON)
    assert set(files) == {"fine.bin", "good.parquet"}
    assert set(absent) == {"trace.bin", "bad.parquet"}
    assert "secret" in absent["bad.parquet"]


def test_packed_text_that_is_damaged_is_left_out_where_it_cannot_be_looked_into(tmp_path):
    half = gzip.compress(os.urandom(5000))[:-50]
    files, absent = gather(tmp_path, reported(write(tmp_path, "outputs.jsonl.gz", half)), NAMES, ENVIRON)
    assert files == {}
    assert "cannot be read" in absent["outputs.jsonl.gz"]


def test_of_a_text_that_is_too_long_the_end_is_kept_and_other_files_are_left_out(tmp_path):
    lines = [f"line {number}" for number in range(1000)]
    log = write(tmp_path, "service-a.out", "\n".join(lines).encode())
    packed = write(tmp_path, "x.gz", gzip.compress(os.urandom(2000)))
    files, absent = gather(tmp_path, reported(packed), (), {}, at_most=500)
    assert set(files) == {"service-a.out"}
    shown = files["service-a.out"].read_text().splitlines()
    assert shown[0].startswith("[")
    assert shown[-1] == "line 999"
    assert shown[1] in lines  # whole lines
    assert files["service-a.out"].stat().st_size <= 600
    assert "only its end" in absent["service-a.out"]
    assert f"{log.stat().st_size:,}" in absent["service-a.out"]
    assert "at most 500" in absent["x.gz"]


def test_the_log_of_a_service_that_runs_share_is_kept_as_far_as_it_is_written(tmp_path):
    log = write(tmp_path, "shared/service-db.err", f"ready with {KEY}\n".encode())
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    gone = tmp_path / "shared" / "service-db.out"
    files, absent = gather(scratch, {}, NAMES, ENVIRON, shared=[log, gone])
    assert files["service-db.err"].read_text() == "ready with ***\n"
    assert absent == {"service-db.out": "there is no such file"}
