"""`assay sim`: the same servers from the command line."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import urllib.request

import pytest
from typer.testing import CliRunner

from assay.cli.main import app
from assay.sim.script import ListenOptions, SimScript, settings_of

ASSAY = [sys.executable, "-m", "assay"]


@pytest.mark.parametrize("server", ["llm", "http"])
def test_every_setting_is_an_option(server):
    done = CliRunner().invoke(app, ["sim", server, "--help"])
    assert done.exit_code == 0
    for setting in (*settings_of(ListenOptions, server), *settings_of(SimScript, server)):
        assert f"{setting.flag} " in done.output, setting.flag


@pytest.mark.live
def test_a_server_with_a_script_and_flags(tmp_path):
    script = tmp_path / "sim.yaml"
    script.write_text('record: false\nbody: \'{"from": "file"}\'\nlatency: 1ms\n')
    process = subprocess.Popen(
        [
            *ASSAY,
            "sim",
            "http",
            "--script",
            str(script),
            "--size",
            "100",
            "--error",
            "500:number=1",
            "--error",
            "503:number=2",
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        line = process.stdout.readline()
        assert line.startswith("listening on http://127.0.0.1:"), process.stderr.read()
        url = line.split()[-1]
        with urllib.request.urlopen(f"{url}/x") as answer:
            assert answer.read() == b'{"from": "file"}'.ljust(100)
        for status in (500, 503):
            with pytest.raises(urllib.error.HTTPError) as caught:
                urllib.request.urlopen(f"{url}/x")
            assert caught.value.code == status
        with urllib.request.urlopen(f"{url}/sim/records") as answer:
            assert answer.read() == b""  # the file's `record: false` stands, as no flag says otherwise
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
    finally:
        process.kill()
        process.communicate()


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--ttft", "fast"], "--ttft: 'fast' is not a duration"),
        (["--error", "429"], "does not say which requests"),
        (["--usage", "maybe"], "--usage: 'maybe' is not one of"),
        (["--port", "x"], "--port: 'x' is not a whole number"),
        (["--tls-key", "k.pem"], "--tls-cert"),
        (["--tls-cert", "missing.pem"], "cannot use the certificate missing.pem"),
        (["--script", "missing.yaml"], "cannot read the script"),
        (["--cpu", "99999"], "there is no core 99999"),
        (["--host", "256.0.0.1"], "cannot listen on 256.0.0.1"),
    ],
)
def test_wrong_use_is_reported(words, told, monkeypatch):
    from assay.errors import AssayError

    if words[0] == "--cpu" and not hasattr(os, "sched_setaffinity"):
        pytest.skip("Linux alone")
    before = signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)
    try:
        done = CliRunner().invoke(app, ["sim", "llm", *words])
    finally:
        signal.signal(signal.SIGTERM, before[0])
        signal.signal(signal.SIGINT, before[1])
    assert isinstance(done.exception, AssayError)
    assert told in str(done.exception)


def test_a_problem_of_the_file_names_the_file(tmp_path):
    script = tmp_path / "sim.yaml"
    script.write_text("tft: 50ms\n")
    done = CliRunner().invoke(app, ["sim", "llm", "--script", str(script)])
    assert f"error[unknown-key] {script}" in str(done.exception)
    assert "did you mean ttft?" in str(done.exception)
