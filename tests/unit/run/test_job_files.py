"""Files of a job on the device that measures it: whatever their names, they stay below its folder."""

import hashlib
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from assay.documents import from_json, to_json
from assay.errors import AssayError, MeasureError, UsageError
from assay.plan.job import Job, JobFile
from assay.run.job_files import local_paths, materialise, place_files
from assay.run.models import resolve
from assay.spec.benchmark import Definition


def definition(target, **sections):
    return Definition.model_validate_json(json.dumps({"target": target, **sections}))


def described(name, content):
    return JobFile(name, hashlib.sha256(content).hexdigest(), len(content))


def job(target, files=None, **sections):
    return Job("b", "d", 0, definition(target, **sections), files=files or {})


class Uploaded:
    """What was uploaded, by digest; remembers what was asked for."""

    def __init__(self, *contents):
        self.contents = {hashlib.sha256(content).hexdigest(): content for content in contents}
        self.asked = []

    def __call__(self, file, path):
        self.asked.append(file.name)
        path.write_bytes(self.contents[file.sha256])


def files_below(folder):
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_model_weights_and_inputs_go_to_folders_of_their_own(tmp_path):
    files = {
        "/home/ann/m.onnx": (described("m.onnx", b"model"), described("data/w.bin", b"weights")),
        "in/x.npy": (described("x.npy", b"x"),),
        "other/x.npy": (described("x.npy", b"another x"),),
    }
    inputs = {"a": {"file": "in/x.npy"}, "b": {"value": 1}, "c": {"file": "other/x.npy"}}
    sent = job({"model": "/home/ann/m.onnx", "threads": 2}, files, workload={"inputs": inputs, "batch": 4})
    here = materialise(sent, tmp_path, Uploaded(b"model", b"weights", b"x", b"another x"))
    assert files_below(tmp_path) == {
        "files/0/m.onnx": b"model",
        "files/0/data/w.bin": b"weights",
        "files/1/x.npy": b"x",
        "files/3/x.npy": b"another x",
    }
    assert here.base == str(tmp_path)
    assert here.definition.target.model == "files/0/m.onnx"
    assert here.definition.workload.inputs["a"].file == "files/1/x.npy"
    assert here.definition.workload.inputs["c"].file == "files/3/x.npy"
    assert (here.definition.target.threads, here.definition.workload.batch) == (2, 4)
    assert (here.digest, here.files) == (sent.digest, {})
    assert from_json(Job, to_json(here), source="there and back") == here


def test_a_model_is_found_where_it_was_put(tmp_path, tiny_model):
    content = tiny_model.read_bytes()
    sent = job({"model": "models/tiny.onnx"}, {"models/tiny.onnx": (described("tiny.onnx", content),)})
    here = materialise(sent, tmp_path / "there", Uploaded(content))
    local = resolve(here.definition.target, Path(here.base), cache=tmp_path / "cache")
    assert local.sha256 == hashlib.sha256(content).hexdigest()


def test_words_of_a_command_stay_and_their_files_go_where_it_looks(tmp_path):
    files = {"train.py": (described("train.py", b"1"),), "../conf/a.toml": (described("a.toml", b"2"),)}
    sent = job({"command": "python train.py -c ../conf/a.toml", "cwd": "src"}, files)
    here = materialise(sent, tmp_path, Uploaded(b"1", b"2"))
    assert files_below(tmp_path) == {"src/train.py": b"1", "conf/a.toml": b"2"}
    assert here.definition == sent.definition


def test_a_command_finds_its_working_folder_even_without_files(tmp_path):
    materialise(job({"command": "pwd", "cwd": "a/b"}), tmp_path, Uploaded())
    assert (tmp_path / "a" / "b").is_dir()
    materialise(job({"command": "pwd", "cwd": "/usr"}), tmp_path, Uploaded())
    materialise(job({"command": "pwd", "cwd": "C:\\work"}), tmp_path, Uploaded())


def test_what_is_there_whole_is_not_fetched_again_and_what_is_damaged_is(tmp_path):
    sent = job({"model": "m.onnx"}, {"m.onnx": (described("m.onnx", b"model"), described("w.bin", b"weights"))})
    uploaded = Uploaded(b"model", b"weights")
    materialise(sent, tmp_path, uploaded)
    (tmp_path / "files/0/w.bin").write_bytes(b"wEights")
    materialise(sent, tmp_path, uploaded)
    assert uploaded.asked == ["m.onnx", "w.bin", "w.bin"]
    assert (tmp_path / "files/0/w.bin").read_bytes() == b"weights"


def test_another_content_than_announced_is_refused_and_not_kept(tmp_path):
    sent = job({"model": "m.onnx"}, {"m.onnx": (described("m.onnx", b"model"),)})
    with pytest.raises(MeasureError) as caught:
        materialise(sent, tmp_path, lambda file, path: path.write_bytes(b"evil!"))
    assert caught.value.problem.code == "checksum"
    assert files_below(tmp_path) == {}


BAD_NAMES = ["/etc/passwd", "../m.onnx", "a/../../m.onnx", "..", "", ".", "./", "C:m.onnx", "C:\\m.onnx", "a\\b", "m\0",
             ".hidden", "a/.hidden", "new\nline", "x" * 256, "a/" * 600 + "b", "\ud800"]  # fmt: skip


@pytest.mark.parametrize("name", BAD_NAMES)
@pytest.mark.parametrize("which", ["model", "weights", "input"])
def test_bad_names_are_refused_before_anything_is_written(tmp_path, name, which):
    bad, good = described(name, b"1"), described("good", b"1")
    files = {
        "model": {"m": (bad,)},
        "weights": {"m": (good, bad)},
        "input": {"x.npy": (bad,)},
    }[which]
    sent = job({"model": "m"}, files, workload={"inputs": {"x": {"file": "x.npy"}}})
    with pytest.raises(UsageError) as caught:
        materialise(sent, tmp_path / "base", Uploaded(b"1"))
    assert caught.value.problem.code == "file-name"
    assert not (tmp_path / "base").exists()
    with pytest.raises(UsageError):
        place_files(sent)


@pytest.mark.parametrize(
    ("word", "cwd"), [("/opt/x.py", None), ("../x.py", None), ("../../x.py", "src"), ("x.py", "/opt"), ("x.py", "../a")]
)
def test_words_that_leave_the_folder_are_refused(tmp_path, word, cwd):
    sent = job({"command": ["python", word], "cwd": cwd}, {word: (described("x.py", b"1"),)})
    with pytest.raises(UsageError, match="refused"):
        materialise(sent, tmp_path / "base", Uploaded(b"1"))
    assert list(tmp_path.iterdir()) == []


def test_two_contents_for_one_place_are_refused(tmp_path):
    sent = job({"model": "m"}, {"m": (described("m", b"1"), described("./m", b"2"))})
    with pytest.raises(UsageError, match="two different files"):
        materialise(sent, tmp_path, Uploaded(b"1", b"2"))


def test_a_link_that_an_earlier_run_left_is_not_followed(tmp_path):
    base, outside = tmp_path / "base", tmp_path / "outside"
    base.mkdir()
    outside.mkdir()
    (base / "files").symlink_to(outside)
    sent = job({"model": "m"}, {"m": (described("m", b"1"),)})
    with pytest.raises(AssayError):
        materialise(sent, base, Uploaded(b"1"))
    assert files_below(outside) == {}


def test_a_full_disk_is_said_and_a_lost_line_is_passed_on(tmp_path):
    sent = job({"model": "m"}, {"m": (described("m", b"1"),)})

    def full(file, path):
        raise OSError(28, os.strerror(28))

    def cut(file, path):
        raise ConnectionResetError

    with pytest.raises(MeasureError) as caught:
        materialise(sent, tmp_path, full)
    assert caught.value.problem.code == "disk-full"
    with pytest.raises(ConnectionResetError):
        materialise(sent, tmp_path, cut)


NASTY = st.text(
    st.one_of(st.sampled_from(["/", ".", "\\", ":", "~", "\0", "C", "\u202e"]), st.characters()), max_size=12
)
PATHS = st.one_of(NASTY, st.lists(st.sampled_from(["..", ".", "a", "", "b.py"]), max_size=6).map("/".join))


@given(name=PATHS, word=PATHS, cwd=st.none() | PATHS)
@example(name="../../x", word="../../x", cwd="..")
@example(name="a", word="a/..", cwd="a")
def test_whatever_the_names_nothing_is_written_outside(name, word, cwd):
    with tempfile.TemporaryDirectory() as text:
        base = Path(text) / "jobs" / "one" / "base"
        for target, files in (
            ({"model": "m"}, {"m": (described(name, b"1"), described(word, b"2"))}),
            ({"command": ["python", word], "cwd": cwd}, {word: (described(name, b"1"),)}),
        ):
            try:
                sent = Job("b", "d", 0, Definition.model_validate(target_of(target)), files=files)
                materialise(sent, base, Uploaded(b"1", b"2"))
            except AssayError:
                pass
        written = [Path(text) / one for one in Path(text).rglob("*")]
        assert all(one == base or base in one.parents or one in base.parents for one in written)


def target_of(target):
    command = {"command": tuple(target["command"])} if "command" in target else {}
    return {"target": {**target, **command}}


@pytest.mark.parametrize(
    ("target", "inputs", "expected"),
    [
        ({"model": "m.onnx"}, {"x": {"file": "x.npy"}, "y": {"value": 1}}, ("m.onnx", "x.npy")),
        ({"model": "https://example.org/m.onnx"}, {}, ()),
        ({"model": "squeezenet"}, {}, ()),
    ],
)
def test_texts_that_name_local_files(target, inputs, expected):
    assert local_paths(definition(target, workload={"inputs": inputs})) == expected


def test_a_command_may_name_what_the_device_has():
    assert local_paths(definition({"command": "python train.py"})) == ()


def test_an_agent_can_use_this_without_anything_heavy():
    script = "import assay.run.job_files, sys; print(' '.join(sys.modules))"
    loaded = {
        name.partition(".")[0] for name in subprocess.check_output([sys.executable, "-c", script], text=True).split()
    }
    assert not loaded & {"numpy", "pyarrow", "sqlalchemy", "onnx", "onnxruntime", "rich", "httpx"}
