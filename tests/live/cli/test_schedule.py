"""`assay schedules`, against a real server."""

from __future__ import annotations

import json
import re

import pytest

NIGHTLY = """\
benchmark: nightly
target: {command: "true"}
measure: {runs: 1}
schedule: {cron: "0 3 * * mon-fri", timezone: Europe/Luxembourg, jitter: 10m}
"""


@pytest.fixture(autouse=True)
def _no_server(monkeypatch) -> None:
    monkeypatch.delenv("ASSAY_SERVER", raising=False)


@pytest.fixture
def nightly(write):
    return str(write("nightly.yaml", NIGHTLY))


def test_the_next_times_are_shown_without_any_server(cli, nightly):
    code, out, _ = cli("schedules", "next", nightly)
    lines = out.splitlines()
    assert (code, len(lines)) == (0, 5)
    for line in lines:
        assert re.fullmatch(r"(Mon|Tue|Wed|Thu|Fri) \d{4}-\d\d-\d\d 03:00 \+0[12]00  starts 03:(0\d|10):\d\d", line), (
            line
        )
    times = json.loads(cli("schedules", "next", nightly, "-n", "3", "--format", "json")[1])
    assert [0 <= one["starts"] - one["due"] <= 600 for one in times] == [True] * 3
    plain = cli("schedules", "next", nightly, "--set", "schedule=@yearly", "-n", "1")[1]
    assert re.fullmatch(r"\w{3} \d{4}-01-01 00:00 \+0000\n", plain)


def test_a_file_without_a_schedule_is_reported(cli, write):
    file = str(write("plain.yaml", "benchmark: plain\ntarget: {command: 'true'}\n"))
    for words in (("next", file), ("add", file, "--server", "http://127.0.0.1:9")):
        code, _, err = cli("schedule", *words)
        assert code == 2
        assert "error[no-schedule]" in err


def test_a_wrong_expression_is_reported_with_its_line(cli, write):
    file = write("wrong.yaml", NIGHTLY.replace("0 3 * * mon-fri", "0 25 * * *"))
    code, _, err = cli("validate", str(file))
    assert code == 2
    assert "wrong.yaml:4" in err
    assert "the hour is not right: allowed are 0-23" in err


def test_no_server_is_reported(cli, nightly):
    for words in (("add", nightly), ("list",), ("show", "x"), ("run", "x"), ("rm", "x")):
        code, _, err = cli("schedule", *words)
        assert code == 2
        assert "--server" in err


@pytest.mark.live
def test_a_local_run_says_that_it_does_not_act_on_it(cli, nightly):
    code, _, err = cli("run", nightly)
    assert code == 0
    assert re.search(r"schedule .*a run on this machine does not act on", err)


@pytest.mark.live
def test_the_life_of_a_schedule(cli, nightly, server, monkeypatch):
    monkeypatch.setenv("ASSAY_SERVER", server.url)
    assert cli("schedules", "list")[1].startswith("no schedules yet")
    code, out, _ = cli("schedules", "add", nightly)
    assert code == 0
    assert out.splitlines()[0].endswith("  nightly")
    assert len(re.findall(r"^next      \w{3} .* 03:00", out, re.MULTILINE)) == 5
    assert "jitter    up to 10 min" in out
    listed = cli("schedules", "list")[1].splitlines()
    assert listed[0].split() == ["schedule", "cron", "next", "last", "benchmark"]
    assert "0 3 * * mon-fri" in listed[1]
    assert cli("schedules", "pause", "nightly")[1] == "nightly: paused\n"
    assert cli("schedules", "list")[1].splitlines()[1].split()[-2:] == ["paused", "nightly"]
    assert "nightly: active, next" in cli("schedules", "resume", "nightly")[1]
    code, campaign, _ = cli("schedules", "run", "nightly")
    assert code == 0
    assert campaign.strip() in cli("campaigns", "list")[1]
    code, said, _ = cli("schedules", "run", "nightly")
    assert code == 1, "it is left out: the other still runs"
    assert said == f"skipped: campaign {campaign.strip()} still runs; overlap is skip\n"
    shown = cli("schedules", "show", "nightly")[1]
    assert re.search(rf"skipped +campaign {campaign.strip()} still runs; overlap is skip$", shown, re.MULTILINE)
    assert re.search(rf"submitted +{campaign.strip()} +running +asked for", shown)
    whole = json.loads(cli("schedules", "show", "nightly", "--format", "json")[1])
    assert [one["outcome"] for one in whole["firings"]] == ["skipped", "submitted"]
    assert cli("schedules", "rm", "nightly")[1] == "removed nightly\n"
    code, _, err = cli("schedules", "show", "nightly")
    assert code == 2
    assert "unknown-schedule" in err


@pytest.mark.live
def test_a_run_on_a_server_keeps_the_schedule_and_says_so(cli, nightly, server):
    code, campaign, err = cli("run", nightly, "--server", server.url, "--detach")
    assert code == 0
    assert re.search(r"runs it again by itself, next (Mon|Tue|Wed|Thu|Fri) [\d-]+ 03:00 \+0[12]00", err)
    assert 'assay schedules show "nightly"' in err
    listed = json.loads(cli("schedules", "list", "--server", server.url, "--format", "json")[1])
    assert [one["name"] for one in listed] == ["nightly"]
    assert campaign.strip() in cli("campaigns", "list", "--server", server.url)[1]


@pytest.mark.live
def test_files_travel_with_a_schedule(cli, write, tiny_model, server):
    file = write("model.yaml", f"benchmark: tiny\ntarget: {{model: {tiny_model.name}}}\nschedule: '@daily'\n")
    code, _, err = cli("schedules", "add", str(file), "--server", server.url)
    assert code == 0, err
    kept = server.client.get("/schedules/tiny").json()["submission"]
    assert kept["files"][tiny_model.name][0]["size_bytes"] == tiny_model.stat().st_size
    assert cli("schedules", "run", "tiny", "--server", server.url)[0] == 0
