"""`assay schedules`, against a real server."""

from __future__ import annotations

import json
import re
import signal
import sys

import pytest

from assay.cli.main import main

NIGHTLY = """\
benchmark: nightly
target: {command: "true"}
measure: {runs: 1}
schedule: {cron: "0 3 * * mon-fri", timezone: Europe/Luxembourg, jitter: 10m}
"""


@pytest.fixture
def run(monkeypatch, capsys):
    """Run a command in this process; gives its exit code and what it printed."""
    monkeypatch.delenv("ASSAY_SERVER", raising=False)

    def _run(*words: str) -> tuple[int, str, str]:
        before = signal.getsignal(signal.SIGTERM)
        monkeypatch.setattr(sys, "argv", ["assay", *words])
        with pytest.raises(SystemExit) as ended:
            main()
        signal.signal(signal.SIGTERM, before)
        said = capsys.readouterr()
        return int(ended.value.code or 0), said.out, said.err

    return _run


@pytest.fixture
def nightly(write):
    return str(write("nightly.yaml", NIGHTLY))


def test_the_next_times_are_shown_without_any_server(run, nightly):
    code, out, _ = run("schedules", "next", nightly)
    lines = out.splitlines()
    assert (code, len(lines)) == (0, 5)
    for line in lines:
        assert re.fullmatch(r"(Mon|Tue|Wed|Thu|Fri) \d{4}-\d\d-\d\d 03:00 \+0[12]00  starts 03:(0\d|10):\d\d", line), (
            line
        )
    times = json.loads(run("schedules", "next", nightly, "-n", "3", "--format", "json")[1])
    assert [0 <= one["starts"] - one["due"] <= 600 for one in times] == [True] * 3
    plain = run("schedules", "next", nightly, "--set", "schedule=@yearly", "-n", "1")[1]
    assert re.fullmatch(r"\w{3} \d{4}-01-01 00:00 \+0000\n", plain)


def test_a_file_without_a_schedule_is_reported(run, write):
    file = str(write("plain.yaml", "benchmark: plain\ntarget: {command: 'true'}\n"))
    for words in (("next", file), ("add", file, "--server", "http://127.0.0.1:9")):
        code, _, err = run("schedule", *words)
        assert code == 2
        assert "error[no-schedule]" in err


def test_a_wrong_expression_is_reported_with_its_line(run, write):
    file = write("wrong.yaml", NIGHTLY.replace("0 3 * * mon-fri", "0 25 * * *"))
    code, _, err = run("validate", str(file))
    assert code == 2
    assert "wrong.yaml:4" in err
    assert "the hour is not right: allowed are 0-23" in err


def test_no_server_is_reported(run, nightly):
    for words in (("add", nightly), ("list",), ("show", "x"), ("run", "x"), ("rm", "x")):
        code, _, err = run("schedule", *words)
        assert code == 2
        assert "--server" in err


@pytest.mark.live
def test_a_local_run_says_that_it_does_not_act_on_it(run, nightly):
    code, _, err = run("run", nightly)
    assert code == 0
    assert re.search(r"schedule .*a run on this machine does not act on", err)


@pytest.mark.live
def test_the_life_of_a_schedule(run, nightly, server, monkeypatch):
    monkeypatch.setenv("ASSAY_SERVER", server.url)
    assert run("schedules", "list")[1].startswith("no schedules yet")
    code, out, _ = run("schedules", "add", nightly)
    assert code == 0
    assert out.splitlines()[0].endswith("  nightly")
    assert len(re.findall(r"^next      \w{3} .* 03:00", out, re.MULTILINE)) == 5
    assert "jitter    up to 10 min" in out
    listed = run("schedules", "list")[1].splitlines()
    assert listed[0].split() == ["schedule", "cron", "next", "last", "benchmark"]
    assert "0 3 * * mon-fri" in listed[1]
    assert run("schedules", "pause", "nightly")[1] == "nightly: paused\n"
    assert run("schedules", "list")[1].splitlines()[1].split()[-2:] == ["paused", "nightly"]
    assert "nightly: active, next" in run("schedules", "resume", "nightly")[1]
    code, campaign, _ = run("schedules", "run", "nightly")
    assert code == 0
    assert campaign.strip() in run("campaigns", "list")[1]
    code, said, _ = run("schedules", "run", "nightly")
    assert code == 1, "it is left out: the other still runs"
    assert said == f"skipped: campaign {campaign.strip()} still runs; overlap is skip\n"
    shown = run("schedules", "show", "nightly")[1]
    assert re.search(rf"skipped +campaign {campaign.strip()} still runs; overlap is skip$", shown, re.MULTILINE)
    assert re.search(rf"submitted +{campaign.strip()} +running +asked for", shown)
    whole = json.loads(run("schedules", "show", "nightly", "--format", "json")[1])
    assert [one["outcome"] for one in whole["firings"]] == ["skipped", "submitted"]
    assert run("schedules", "rm", "nightly")[1] == "removed nightly\n"
    code, _, err = run("schedules", "show", "nightly")
    assert code == 2
    assert "unknown-schedule" in err


@pytest.mark.live
def test_a_run_on_a_server_keeps_the_schedule_and_says_so(run, nightly, server):
    code, campaign, err = run("run", nightly, "--server", server.url, "--detach")
    assert code == 0
    assert re.search(r"runs it again by itself, next (Mon|Tue|Wed|Thu|Fri) [\d-]+ 03:00 \+0[12]00", err)
    assert 'assay schedules show "nightly"' in err
    listed = json.loads(run("schedules", "list", "--server", server.url, "--format", "json")[1])
    assert [one["name"] for one in listed] == ["nightly"]
    assert campaign.strip() in run("campaigns", "list", "--server", server.url)[1]


@pytest.mark.live
def test_files_travel_with_a_schedule(run, write, tiny_model, server):
    file = write("model.yaml", f"benchmark: tiny\ntarget: {{model: {tiny_model.name}}}\nschedule: '@daily'\n")
    code, _, err = run("schedules", "add", str(file), "--server", server.url)
    assert code == 0, err
    kept = server.client.get("/schedules/tiny").json()["submission"]
    assert kept["files"][tiny_model.name][0]["size_bytes"] == tiny_model.stat().st_size
    assert run("schedules", "run", "tiny", "--server", server.url)[0] == 0
