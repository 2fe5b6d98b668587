"""Files are read within bounds: what never ends is refused, whoever asks for it."""

import errno
import json
import os
from pathlib import Path

import pytest
from typer.testing import CliRunner

from assay.cli.main import app
from assay.errors import AssayError, MeasureError, UsageError
from assay.exec.document import _read as read_job
from assay.files import read_bounded, refuse_endless
from assay.report.comparison import read_document
from assay.run.workloads.rows import read_rows
from assay.run.workloads.trace import _opened as open_trace
from assay.sim.script import read_file
from assay.store.series_file import read_series_file

ENDLESS = Path("/dev/zero")
DIGITS = "9" * 5000


def test_a_file_is_read_up_to_a_bound(tmp_path):
    file = tmp_path / "f"
    file.write_bytes(b"12345")
    assert read_bounded(file, 5) == b"12345"
    with pytest.raises(OSError, match="more than 4 bytes") as caught:
        read_bounded(file, 4)
    assert caught.value.errno == errno.EFBIG


def test_what_is_no_file_is_not_read(tmp_path, monkeypatch):
    monkeypatch.setattr("assay.files._PIPE_WAIT_S", 0.01)
    os.mkfifo(tmp_path / "silent")
    for path, why in ((ENDLESS, "device"), (tmp_path, "directory"), (tmp_path / "silent", "no data came")):
        with pytest.raises(OSError, match=why):
            read_bounded(path, 10)
    for path in (ENDLESS, tmp_path):
        with pytest.raises(OSError, match="no file"):
            refuse_endless(path)
    with pytest.raises(OSError, match="not a valid file name"):
        read_bounded(Path("a\0b"), 10)


@pytest.mark.parametrize("reader", [read_job, read_document, read_series_file, read_file])
def test_no_reader_of_documents_waits_for_the_end_of_a_device(reader):
    with pytest.raises(UsageError, match="cannot read"):
        reader(ENDLESS)


def test_no_reader_of_workloads_waits_for_the_end_of_a_device(tmp_path):
    with pytest.raises(MeasureError, match="cannot be read"):
        read_rows(str(ENDLESS), tmp_path)
    with pytest.raises(OSError, match="no file"):
        open_trace(ENDLESS)


@pytest.mark.parametrize(
    "line", ["[" * 100_000, '{"a":' * 50_000, f'{{"prompt": {DIGITS}}}'], ids=["list", "map", "digits"]
)
def test_a_bad_line_is_reported_with_its_number(tmp_path, line):
    file = tmp_path / "rows.jsonl"
    file.write_text(f'{{"prompt": "a"}}\n{line}\n')
    with pytest.raises(MeasureError, match="line 2 is not JSON"):
        read_rows(file.name, tmp_path)
    assert [one.at for one in read_series_file(file).problems][-1] == f"{file}:2"


@pytest.mark.parametrize(
    "text", ["[" * 100_000, '{"runs":' * 50_000, f'{{"runs": {DIGITS}}}'], ids=["list", "map", "digits"]
)
def test_a_bad_result_or_job_is_no_traceback(tmp_path, text):
    file = tmp_path / "result.json"
    file.write_text(text)
    for reader in (read_document, read_job):
        with pytest.raises(UsageError, match="not a "):
            reader(file)


@pytest.mark.parametrize("text", ["a: &a {b: *a}", "ttft: " + "[" * 5000, "ttft: " + DIGITS, 'ttft: "\\0"'])
def test_a_bad_script_of_the_simulator_is_an_error(tmp_path, text):
    file = tmp_path / "script.yaml"
    file.write_text(text)
    with pytest.raises(UsageError):
        read_file(file)


FOREIGN = {
    "benchmark-ai": {"spec_version": "0.1.0", "info": {"description": "x"}, "hardware": {"instance_type": "t3.small"},
                     "env": {"docker_image": "i"}, "ml": {"benchmark_code": "echo 'open"}},
    "team9": {"job": {"infrastructure": {"partition": "gpu\0"}, "service": {"type": "ollama"}}},
    "sark": {"name": "x" * 400_000, "configurations": [{"deep": json.loads("[" * 500 + "]" * 500)}]},
}  # fmt: skip


@pytest.mark.parametrize("kind", FOREIGN)
def test_a_hostile_document_of_another_tool_is_an_error(tmp_path, kind):
    file = tmp_path / "foreign.json"
    file.write_text(json.dumps(FOREIGN[kind]))
    done = CliRunner().invoke(app, ["import", str(file), "--from", kind])
    assert isinstance(done.exception, UsageError), done.exception


@pytest.mark.parametrize("text", ["toml", "yaml", "json"])
def test_import_reads_within_the_same_bounds(tmp_path, text):
    bad = {"toml": ".".join("a" * 20_000) + " = 1", "yaml": "job: &a {b: *a}", "json": "[" * 100_000}[text]
    file = tmp_path / f"foreign.{text}"
    file.write_text(bad)
    done = CliRunner().invoke(app, ["import", str(file)])
    assert isinstance(done.exception, AssayError), done.exception
    assert done.exception.exit_code == 2


def test_a_setting_of_the_command_line_has_the_same_bounds(tmp_path):
    file = tmp_path / "b.yaml"
    file.write_text("benchmark: b\ntarget: {command: 'true'}\n")
    for setting in (".".join("a" * 5000) + "=1", 'labels.k="a\\0"', "needs.memory=1e300GiB", "target.command=echo 'x"):
        done = CliRunner().invoke(app, ["plan", str(file), "--set", setting])
        assert isinstance(done.exception, UsageError), (setting[:40], done.exception)
