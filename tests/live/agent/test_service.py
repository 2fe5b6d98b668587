"""Service files for the systems that have them."""

import configparser
import plistlib
import shutil
import subprocess
import sys

import pytest

from assay.agent.service import ServiceFile, ServiceOptions, install, service
from assay.errors import UsageError

ARGUMENTS = ("--server", "https://server:8080/", "--label", 'note=100% of $HOME "x"')


def unit(wish):
    parser = configparser.RawConfigParser(strict=False)
    parser.optionxform = str
    parser.read_string(service(wish, "linux").text)
    return parser


def test_a_unit_runs_the_agent_of_this_python_and_nothing_is_replaced_in_it():
    start = unit(ServiceOptions(ARGUMENTS, run_as="bench"))["Service"]["ExecStart"]
    assert start.startswith(f"{sys.executable} -m assay agent start --server https://server:8080/ --label ")
    assert start.endswith('"note=100%% of $$HOME \\"x\\""')


def test_a_unit_of_the_system_runs_as_a_user_and_waits_longer_than_the_agent():
    found = unit(ServiceOptions(ARGUMENTS, run_as="bench"))
    assert found["Service"]["User"] == "bench"
    assert int(found["Service"]["TimeoutStopSec"]) > 60
    assert found["Install"]["WantedBy"] == "multi-user.target"


@pytest.mark.parametrize("platform", ["linux", "darwin"])
def test_a_service_of_the_system_is_not_root_by_chance(monkeypatch, platform):
    monkeypatch.delenv("SUDO_USER", raising=False)
    monkeypatch.setattr("getpass.getuser", lambda: "root")
    with pytest.raises(UsageError, match="would run as root") as caught:
        service(ServiceOptions(ARGUMENTS), platform)
    assert "--run-as" in caught.value.problem.try_
    assert service(ServiceOptions(ARGUMENTS, run_as="root"), platform)  # asked for
    monkeypatch.setenv("SUDO_USER", "alice")
    assert "alice" in service(ServiceOptions(ARGUMENTS), platform).text


def test_a_token_in_a_property_list_is_for_its_owner_alone(tmp_path):
    from dataclasses import replace

    wanted = service(ServiceOptions(ARGUMENTS, user=True, token="secret-of-mine"), "darwin")
    document = plistlib.loads(wanted.text.encode())
    assert document["EnvironmentVariables"] == {"ASSAY_TOKEN": "secret-of-mine"}
    assert "secret-of-mine" not in document["ProgramArguments"]
    assert "secret-of-mine" not in wanted.shown
    assert install(replace(wanted, path=tmp_path / "x.plist")).stat().st_mode & 0o077 == 0


def test_a_task_of_windows_takes_no_token():
    with pytest.raises(UsageError, match="--token-file"):
        service(ServiceOptions(ARGUMENTS, user=True, token="secret-of-mine"), "win32")


def test_a_unit_of_a_user_names_no_user():
    wanted = service(ServiceOptions(ARGUMENTS, user=True), "linux")
    assert "User=" not in wanted.text
    assert wanted.path.name == "assay-agent.service"
    assert wanted.then[-1] == "systemctl --user enable --now assay-agent"


@pytest.mark.live
@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="no systemd here")
def test_systemd_accepts_the_unit(tmp_path):
    path = tmp_path / "assay-agent.service"
    path.write_text(service(ServiceOptions(ARGUMENTS, user=True), "linux").text)
    done = subprocess.run(["systemd-analyze", "verify", "--user", str(path)], capture_output=True, text=True)
    assert "assay-agent.service:" not in done.stderr


def test_launchd_gets_a_property_list():
    wanted = service(ServiceOptions(ARGUMENTS, user=True), "darwin")
    document = plistlib.loads(wanted.text.encode())
    assert document["ProgramArguments"][1:] == ["-m", "assay", "agent", "start", *ARGUMENTS]
    assert document["KeepAlive"] is True
    assert "UserName" not in document
    assert wanted.path.parent.name == "LaunchAgents"


def test_windows_gets_the_commands_to_type():
    wanted = service(ServiceOptions(("--server", "http://s")), "win32")
    assert wanted.path is None
    assert "schtasks /Create /TN assay-agent" in wanted.then[0]
    with pytest.raises(UsageError, match="no service files"):
        install(wanted)


def test_another_file_is_never_overwritten_unasked(tmp_path):
    wanted = ServiceFile(tmp_path / "sub" / "x.service", "text", ())
    assert install(wanted).read_text() == "text"
    assert install(wanted).read_text() == "text"  # the same one is no conflict
    wanted.path.write_text("mine")
    with pytest.raises(UsageError, match="another service file"):
        install(wanted)
    assert wanted.path.read_text() == "mine"
    assert install(wanted, force=True).read_text() == "text"


def test_a_line_break_cannot_smuggle_in_a_directive():
    with pytest.raises(UsageError):
        service(ServiceOptions(("--label", "x\nExecStartPre=/bin/evil"), run_as="bench"), "linux")
