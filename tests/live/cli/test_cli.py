"""The command line as a user meets it."""

import csv
import io
import json
import os
import signal
import subprocess
import sys
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import jsonschema
import numpy as np
import pytest
from tests.support.command_line import called
from tests.support.running_server import PATIENCE_S, wait_for

from assay.report.export import SARK_COLUMNS

ASSAY = [sys.executable, "-m", "assay"]


def assay(*arguments, cwd=None, **options):
    if arguments[0] not in ("run", "exec", "--help", "--version") and not options:
        return called(*map(str, arguments), cwd=cwd)
    return subprocess.run([*ASSAY, *map(str, arguments)], capture_output=True, text=True, cwd=cwd, **options)


@pytest.fixture
def bench(write, tiny_model):
    return write(
        "bench.yaml",
        f"benchmark: tiny\ntarget: {{model: {tiny_model.name}}}\n"
        "measure: {runs: 3, until: {samples: 100}, warmup: 20, interval: 1000%}\n"
        "matrix: {workload.batch: [1, 4]}\n",
    )


def test_help_lists_every_verb():
    text = assay("--help").stdout
    for verb in (
        "run",
        "plan",
        "validate",
        "init",
        "schema",
        "models",
        "results",
        "compare",
        "report",
        "exec",
        "info",
        "doctor",
        "device",
        "noise",
    ):
        assert f"\n  {verb} " in text


def test_version():
    assert assay("--version").stdout.startswith("assay ")


@pytest.mark.parametrize("document", ["benchmark", "job", "result"])
def test_schemas_are_schemas(document):
    jsonschema.Draft202012Validator.check_schema(json.loads(assay("schema", document).stdout))


def test_validate_reports_all_problems_of_all_files(write):
    good = write("good.yaml", "benchmark: g\ntarget: {command: echo}\nmatrix: {measure.runs: [1, 2]}")
    bad = write("bad.yaml", "benchmark: b\ntarget: {modl: x}\nmesure: {}\n")
    worse = write("worse.toml", "benchmark = 3\n[target]\nmodel = 'm'\n")
    done = assay("validate", good, bad, worse)
    assert done.returncode == 2
    assert "good.yaml: valid, 2 jobs" in done.stdout
    assert "bad.yaml:2" in done.stderr
    assert "bad.yaml:3" in done.stderr
    assert "worse.toml:1" in done.stderr
    assert "Traceback" not in done.stderr


def test_init_writes_what_validate_accepts(tmp_path):
    assert assay("init", "squeezenet", cwd=tmp_path).returncode == 0
    assert "valid, 1 job" in assay("validate", "bench.yaml", cwd=tmp_path).stdout
    again = assay("init", cwd=tmp_path)
    assert again.returncode == 2
    assert "--force" in again.stderr


def test_models_are_listed():
    assert {"squeezenet", "shufflenet", "resnet50"} <= {
        one["name"] for one in json.loads(assay("models", "-f", "json").stdout)
    }


def test_plan_shows_jobs_needs_and_time_and_runs_nothing(bench):
    done = assay("plan", bench)
    assert "batch=4" in done.stdout
    assert "2 jobs, about" in done.stdout
    document = json.loads(assay("plan", bench, "--format", "json").stdout)
    assert len({job["digest"] for job in document["jobs"]}) == 2
    assert json.loads(assay("results", "list", "--format", "json").stdout) == []


def test_plan_says_what_this_machine_lacks(write):
    bench = write("b.yaml", "benchmark: g\ntarget: {model: squeezenet}\nneeds: {memory: 900TiB, gpus: 64}")
    text = assay("plan", bench).stdout
    assert "job 0 cannot run here" in text
    assert "gpus: 64 needed" in text


@pytest.mark.live
def test_run_in_every_format_and_everything_after_it(bench, tmp_path):
    done = assay("run", bench, "--out", tmp_path / "out")
    assert done.returncode == 0, done.stderr
    assert "latency_ms" in done.stdout
    campaign = done.stdout.split()[-1]
    assert done.stdout.splitlines()[-1] == f"result  {campaign}"
    assert f"next    assay serve → http://127.0.0.1:8080/campaigns/{campaign}" in done.stdout
    written = {path.suffix for path in (tmp_path / "out").iterdir()}
    assert written == {".csv", ".json", ".html"}

    shown = json.loads(assay("results", "show", campaign, "--format", "json").stdout)
    assert shown == json.loads((tmp_path / "out" / f"{campaign}.json").read_text())
    rows = list(csv.reader(io.StringIO(assay("results", "show", campaign, "-f", "csv").stdout)))
    assert tuple(rows[0][:25]) == SARK_COLUMNS
    assert [row[1] for row in rows[1:]] == ["Complete", "Complete"]
    assert "| " in assay("results", "show", campaign, "-f", "md").stdout
    assert "checks" in assay("results", "show", campaign, "--job", 1).stdout.lower()
    assert assay("results", "show", campaign, "--job", 9).returncode == 2

    exported = assay("results", "export", campaign, "--out", tmp_path / "export").stdout.strip()
    samples = [path.name for path in (tmp_path / "export" / campaign / "samples").iterdir()]
    assert len(samples) == 6
    assert "job-0-run-0.parquet" in samples
    assert exported.endswith(campaign)

    report = assay("report", campaign, "--out", tmp_path / "r.html")
    assert report.stdout.strip() == str(tmp_path / "r.html")
    assert "<svg" in (tmp_path / "r.html").read_text()

    assert assay("run", bench, "--quiet").returncode == 0
    compared = json.loads(assay("compare", "latest~1", "latest", "--format", "json").stdout)
    answers = {line["answer"] for job in compared["jobs"] for line in job["metrics"]}
    assert answers <= {"better", "worse", "cannot tell"}
    assert "verdict" in assay("compare", tmp_path / "out" / f"{campaign}.json", "latest").stdout

    assert campaign in assay("results", "list").stdout
    assert assay("results", "rm", campaign).stdout == f"removed {campaign}\n"
    assert campaign not in assay("results", "list").stdout


@pytest.mark.live
def test_json_is_one_document_on_standard_output_and_fits_its_schema(bench):
    done = assay("run", bench, "--format", "json")
    document = json.loads(done.stdout)
    schema = json.loads(assay("schema", "result").stdout)
    jsonschema.validate(document, schema)
    assert document["schema"] == "assay.result/1"
    assert {"campaign", "benchmark", "jobs"} <= set(document)
    job = document["jobs"][1]
    wanted = {"job", "digest", "point", "state", "verdict", "checks", "metrics", "runs", "environment", "error"}
    assert wanted <= set(job)
    assert job["point"] == {"workload.batch": 4}
    assert {"name", "passed", "detail"} <= set(job["checks"][0])
    metric = job["metrics"]["latency_ms"]
    assert {
        "unit",
        "better",
        "count",
        "mean",
        "std",
        "median",
        "min",
        "max",
        "p90",
        "p95",
        "p99",
        "interval",
        "outliers",
    } <= set(metric)
    assert metric["count"] == 300
    assert metric["p99"] is None  # 300 samples do not back it
    assert metric["interval"]["low"] <= metric["interval"]["high"]
    assert job["environment"]["machine"]["memory_bytes"] > 0
    assert "done" in done.stderr


@pytest.mark.live
def test_three_inputs_of_int64_and_float16_with_dynamic_shapes(write, tmp_path):
    from onnx import TensorProto, helper, save

    def tensor(name, kind, shape):
        return helper.make_tensor_value_info(name, kind, shape)

    inputs = [
        tensor("input_ids", TensorProto.INT64, ["batch", "sequence"]),
        tensor("attention_mask", TensorProto.INT64, ["batch", "sequence"]),
        tensor("scale", TensorProto.FLOAT16, ["batch", 1]),
    ]
    table = helper.make_tensor("table", TensorProto.FLOAT16, [50, 8], np.ones(400, dtype=np.float16))
    nodes = [
        helper.make_node("Gather", ["table", "input_ids"], ["e"]),
        helper.make_node("ReduceMean", ["e"], ["m"], axes=[2], keepdims=0),
        helper.make_node("Cast", ["attention_mask"], ["mask"], to=TensorProto.FLOAT16),
        helper.make_node("Mul", ["m", "mask"], ["masked"]),
        helper.make_node("Mul", ["masked", "scale"], ["y"]),
    ]
    output = tensor("y", TensorProto.FLOAT16, ["batch", "sequence"])
    graph = helper.make_graph(nodes, "three", inputs, [output], [table])
    save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), tmp_path / "three.onnx")
    bench = write(
        "b.yaml",
        "benchmark: three\ntarget: {model: three.onnx}\nworkload: {batch: 2, dims: {sequence: 32}}\n"
        "measure: {runs: 3, until: {samples: 64}}",
    )
    job = json.loads(assay("run", bench, "-f", "json").stdout)["jobs"][0]
    assert job["state"] == "done"
    assert job["verdict"] in ("valid", "suspect")
    used = {one["name"]: (one["dtype"], one["shape"]) for one in job["runs"][0]["facts"]["inputs"]}
    assert used == {
        "input_ids": ("int64", [2, 32]),
        "attention_mask": ("int64", [2, 32]),
        "scale": ("float16", [2, 1]),
    }


@pytest.mark.live
def test_a_model_from_a_url(write, tiny_model):
    def handler(*arguments):
        return SimpleHTTPRequestHandler(*arguments, directory=str(tiny_model.parent))

    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    Thread(target=server.serve_forever, daemon=True).start()
    try:
        url = f"http://127.0.0.1:{server.server_port}/{tiny_model.name}"
        bench = write(
            "b.yaml", f"benchmark: url\ntarget: {{model: '{url}'}}\nmeasure: {{runs: 2, until: {{samples: 64}}}}"
        )
        job = json.loads(assay("run", bench, "-f", "json").stdout)["jobs"][0]
    finally:
        server.shutdown()
        server.server_close()
    assert job["state"] == "done"
    assert job["runs"][0]["facts"]["model"]["source"] == url


@pytest.mark.live
def test_a_command_with_emit(write):
    write("train.py", "import assay\nfor i in range(10): assay.emit({'images_per_s': 100 + i})\n")
    bench = write(
        "b.toml",
        f"benchmark = 'emit'\n[target]\ncommand = '{sys.executable} train.py'\n"
        "metrics = [{name = 'images_per_s', unit = '1/s', better = 'higher'}]\n[measure]\nruns = 3\n",
    )
    done = assay("run", bench, "-f", "json")
    job = json.loads(done.stdout)["jobs"][0]
    assert job["metrics"]["images_per_s"]["median"] == 104.5
    assert job["metrics"]["images_per_s"]["better"] == "higher"
    assert job["checks"]
    assert done.returncode == 0


@pytest.mark.live
def test_a_declared_metric_that_is_never_printed_is_named_and_gives_exit_code_1(write):
    path = write(
        "bench.yaml",
        "benchmark: typo\n"
        "target:\n"
        "  command: echo speed 7\n"
        "  metrics:\n"
        "    - {name: speed, pattern: 'sped (.*)'}\n"
        "    - {name: loss}\n"
        "measure: {runs: 1}\n",
    )
    done = assay("run", path, "--quiet")
    assert done.returncode == 1, done.stdout + done.stderr
    assert "There is no number to rely on: 1 invalid." in done.stdout
    shown = assay("results", "show", "latest", "--why").stdout
    rows = {line.split()[3]: line for line in shown.splitlines() if line.startswith("echo speed 7") and "×" not in line}
    assert {"speed", "loss"} <= set(rows), "duration_s does not take their place"
    assert "duration_s" not in rows
    assert all(rows[name].endswith("invalid") for name in ("speed", "loss"))
    (said,) = [line for line in shown.splitlines() if "declared metrics reported" in line]
    assert "speed has a value in 0 of 1 run: its pattern matched nothing in 1 line of output" in said
    assert "loss has a value in 0 of 1 run: the command never emitted it" in said


@pytest.mark.live
def test_what_a_successful_command_wrote_is_kept_and_shown(write):
    path = write(
        "bench.yaml",
        "benchmark: talks\n"
        "target: {command: 'echo hello from $ASSAY_RUN_ID; echo trouble with $KEY >&2', shell: true,\n"
        "         env: {KEY: '${env:TALKS_KEY}'}}\n"
        "measure: {runs: 2}\n",
    )
    done = assay("run", path, "--quiet", env={**os.environ, "TALKS_KEY": "sesame-street"})
    assert done.returncode == 0, done.stdout + done.stderr
    shown = assay("logs", "latest")
    assert shown.returncode == 0, shown.stderr
    assert "==> run 1 command.log <==\nhello from 0\ntrouble with ***\n" in shown.stdout
    assert "==> run 2 command.log <==\nhello from 1\ntrouble with ***\n" in shown.stdout


@pytest.mark.live
def test_a_gpu_that_is_not_there_fails_and_gives_no_number(write):
    bench = write("b.yaml", "benchmark: g\ntarget: {model: squeezenet, device: GPU (ONNX)}\n")
    done = assay("run", bench, "-f", "json")
    job = json.loads(done.stdout)["jobs"][0]
    if job["state"] == "done":
        pytest.skip("this machine has a GPU that ONNX Runtime can use")
    assert done.returncode == 3
    assert job["state"] == "failed"
    assert job["metrics"] == {}
    assert job["error"]["code"] == "device"
    assert "cuda" in job["error"]["message"]
    assert "onnxruntime-gpu" in job["error"]["try_"]


@pytest.mark.live
@pytest.mark.parametrize(
    ("objective", "fail_on", "code"),
    [("1000000", "invalid", 0), ("0.000001", "invalid", 1), ("0.000001", "never", 0)],
)
def test_a_gate_decides_the_exit_code(write, tiny_model, objective, fail_on, code):
    bench = write(
        "b.yaml",
        f"benchmark: gate\ntarget: {{model: {tiny_model.name}}}\nobjective: {{latency_ms.median: {objective}}}\n"
        "measure: {runs: 3, until: {samples: 64}}",
    )
    done = assay("run", bench, "-q", "--fail-on", fail_on)
    assert done.returncode == code, done.stdout


@pytest.mark.live
def test_one_bad_point_does_not_spoil_the_others(write, tiny_model):
    for name in ("corrupt.onnx", "other.onnx"):  # one that is missing is refused before anything is measured
        (tiny_model.parent / name).write_bytes(f"not a model: {name}".encode())
    bench = write(
        "b.yaml",
        "benchmark: mixed\nmeasure: {runs: 2, until: {samples: 64}}\n"
        f"matrix: {{target.model: [corrupt.onnx, {tiny_model.name}, other.onnx]}}",
    )
    done = assay("run", bench, "-f", "json")
    assert done.returncode == 3
    jobs = json.loads(done.stdout)["jobs"]
    assert [job["state"] for job in jobs] == ["failed", "done", "failed"]
    assert jobs[0]["error"]["code"] == "model"
    assert "other.onnx" in jobs[2]["error"]["message"]


@pytest.mark.live
def test_exec_turns_a_job_document_into_a_result_document(bench, tmp_path, tiny_model):
    from assay.documents import to_json
    from assay.run.inputs import plan_of
    from assay.spec.load import load

    (tmp_path / "job.json").write_text(to_json(plan_of(load(bench)).jobs[1]))
    done = assay("exec", tmp_path / "job.json", "--out", tmp_path / "out")
    assert done.returncode == 0, done.stderr
    result = json.loads((tmp_path / "out" / "result.json").read_text())
    assert result["state"] == "done"
    assert result["metrics"]["latency_ms"]["count"] == 300
    samples = {run["samples"] for run in result["runs"]}
    assert samples == {path.stem for path in (tmp_path / "out" / "samples").rglob("*.parquet")}


@pytest.mark.parametrize(
    "arguments",
    [("run", "nothing.yaml"), ("run",), ("frobnicate",), ("results", "show", "nope"), ("compare", "a", "b"),
     ("exec", "nothing.json", "--out", "x"), ("run", "x.yaml", "--fail-on", "luck")],
)  # fmt: skip
def test_wrong_use_is_reported_with_exit_code_2(arguments, tmp_path):
    done = assay(*arguments, cwd=tmp_path)
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.strip()
    assert "Traceback" not in done.stderr


def test_a_setting_from_the_command_line(bench):
    document = json.loads(assay("plan", bench, "--set", "measure.runs=2", "-f", "json").stdout)
    assert [job["runs"] for job in document["jobs"]] == [2, 2]
    assert assay("plan", bench, "--set", "measure.rnus=2").returncode == 2
    assert assay("plan", bench, "--set", "nonsense").returncode == 2


# -- Ctrl-C ----------------------------------------------------------------------------------------------------------


def _interruptible():
    """A shell starts background jobs with Ctrl-C ignored, and that is inherited."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def _begun(path, process):
    wait_for(lambda: path.exists() or process.poll() is not None, what=path)
    assert process.poll() is None, process.communicate()


@pytest.mark.live
@pytest.mark.skipif(sys.platform == "win32", reason="signals of a POSIX system")
@pytest.mark.parametrize("signals", [1, 5])
def test_ctrl_c_while_the_program_is_still_loading_is_one_line_and_130(tmp_path, signals):
    # A library that takes long to load, as on a cold disk.
    (tmp_path / "typer.py").write_text("import time\nopen('loading', 'w').close()\ntime.sleep(600)\n")
    process = subprocess.Popen(
        [*ASSAY, "validate", "x.yaml"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=_interruptible,  # noqa: PLW1509
    )
    _begun(tmp_path / "loading", process)
    for _ in range(signals):
        process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=PATIENCE_S)
    assert (process.returncode, out, err) == (130, "", "interrupted\n")


@pytest.mark.live
@pytest.mark.skipif(sys.platform == "win32", reason="signals of a POSIX system")
def test_ctrl_c_many_times_is_as_good_as_once(write, tmp_path):
    path = write("b.yaml", "benchmark: b\ntarget: {command: 'touch begun; sleep 600', shell: true}\n")
    process = subprocess.Popen(
        [*ASSAY, "run", str(path), "--quiet"],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=_interruptible,  # noqa: PLW1509
    )
    _begun(tmp_path / "begun", process)
    for _ in range(5):
        process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=PATIENCE_S)
    assert (process.returncode, out) == (130, "")
    assert err in ("", "interrupted\n")
    state = assay("results", "list").stdout.splitlines()[-1]
    assert "interrupted" in state
