"""The system in containers: what Compose is told, and that nothing of it is guessed."""

from __future__ import annotations

import re

import pytest
from ruamel.yaml import YAML

from assay import __version__
from assay.errors import MeasureError, UsageError
from assay.infra import compose
from assay.infra.commands import deploy_folder
from assay.infra.compose import FILE, ComposeRecord, compose_command, settings
from assay.infra.record import InfraOptions, Status, folder_of, is_there, kept, make_keys

VERSION = (["version"], 0, "v2\n")


@pytest.fixture
def healthy(monkeypatch):
    """Every part answers well."""
    monkeypatch.setattr(compose, "page", lambda url: None)
    monkeypatch.setattr(compose, "agent", lambda url, token, tag: None)


def contained(**changes):
    given = {
        "version": __version__,
        "runtime": "docker",
        "command": ("docker", "compose"),
        "project": "assay-x",
        "host": "127.0.0.1",
        "port": 8080,
        "metrics_port": 9090,
        "tag": "t4g",
    }
    return ComposeRecord(**{**given, **changes})


def document():
    return YAML(typ="safe").load((deploy_folder() / FILE).read_text(encoding="utf-8"))


def test_every_variable_of_the_file_has_a_default_or_is_set(tmp_path):
    text = (deploy_folder() / FILE).read_text(encoding="utf-8")
    used = set(re.findall(r"\$\{(\w+)", text))
    needed = set(re.findall(r"\$\{(\w+):\?", text))
    given = dict(line.split("=", 1) for line in settings(contained(), make_keys(tmp_path), ("command",)).splitlines())
    assert needed <= set(given)
    assert set(given) <= used, "what nobody reads"
    assert given["ASSAY_AGENT_ALLOW"] == "command"


def test_no_secret_has_a_default():
    text = (deploy_folder() / FILE).read_text(encoding="utf-8")
    for name, rest in re.findall(r"\$\{(\w*(?:TOKEN|PASSWORD)\w*)(:?[-?])?", text):
        assert rest == ":?", name


def test_only_the_server_and_prometheus_can_be_reached_and_prometheus_from_here_alone():
    ports = {name: one.get("ports", []) for name, one in document()["services"].items()}
    assert {name for name, some in ports.items() if some} == {"server", "prometheus"}
    assert ports["prometheus"][0].startswith("127.0.0.1:")
    assert ports["server"][0].startswith("${ASSAY_BIND:-127.0.0.1}:")


def test_everything_that_must_outlive_a_container_lies_in_a_volume():
    file = document()
    named = set(file["volumes"])
    for name in ("postgresql", "redis", "server", "prometheus", "agent"):
        sources = {one.split(":")[0] for one in file["services"][name]["volumes"]}
        assert sources & named, name


def test_images_have_versions_and_ours_is_that_of_the_package():
    for name, one in document()["services"].items():
        image = re.sub(r"^\$\{\w+:-(.*)\}$", r"\1", one["image"])
        tag = image.rpartition(":")[2]
        assert tag, name
        assert tag not in ("latest", image), name
        if "assay" in image:
            assert tag == __version__


@pytest.mark.parametrize(("there", "expected"), [
    (["docker"], ("docker", "compose")),
    (["docker-compose"], ("docker-compose",)),
])  # fmt: skip
def test_compose_is_found_as_a_plug_in_or_a_program(programs, there, expected):
    for name in there:
        programs.add(name, [VERSION])
    assert compose_command("docker") == expected


def test_a_runtime_without_compose_is_reported(programs):
    programs.add("podman", [(["compose"], 125, "")])
    with pytest.raises(UsageError) as wrong:
        compose_command("podman")
    assert wrong.value.problem.code == "no-compose"
    assert "podman-compose" in wrong.value.problem.try_


def test_one_that_cannot_be_given_the_secrets_in_a_file_is_none(programs):
    programs.add("podman", [(["compose"], 125, "")])
    programs.add("podman-compose", [(["--env-file"], 2, "unrecognized arguments: --env-file"), VERSION])
    with pytest.raises(UsageError, match="no Compose for podman on this machine that knows --env-file"):
        compose_command("podman")


def test_it_is_brought_up_checked_and_taken_down_without_a_trace(place, programs, told, healthy):
    programs.add("docker", [VERSION])
    status = compose.create(InfraOptions("two", "docker", "127.0.0.1"), told.append)
    assert status.word == "healthy"
    folder = folder_of("local", "two")
    (call,) = programs.called("up", "--detach", "--build")
    assert call[call.index("--project-name") + 1] == "assay-two"
    assert (folder / "compose.env").stat().st_mode & 0o777 == 0o600
    secrets = make_keys(folder)
    assert not any(secrets.admin in word or secrets.database in word for one in programs.calls for word in one)
    assert is_there("two", "compose")

    compose.destroy("two", told.append, keep_data=False)
    (call,) = programs.called("down", "--volumes")
    assert programs.called("image", "rm", f"localhost/assay-server:{__version__}")
    assert not place.parent.exists()
    assert compose.status("two") == Status("local", "two", "absent")


def test_an_installed_package_without_a_tree_says_so(place, programs, told, tmp_path, monkeypatch):
    programs.add("docker", [VERSION])
    monkeypatch.setattr(compose, "deploy_folder", lambda: tmp_path / "assay" / "deploy")
    with pytest.raises(UsageError, match="built from a checkout"):
        compose.create(InfraOptions("two", "docker", "127.0.0.1"), told.append)
    assert not place.exists()


def test_what_compose_leaves_behind_is_reported_and_the_record_stays(place, programs, told, healthy):
    programs.add("docker", [VERSION, (["status=created"], 0, ""), (["container", "ls"], 0, "c0ffee\n")])
    compose.create(InfraOptions("two", "docker", "127.0.0.1"), told.append)
    with pytest.raises(MeasureError, match="container of the system is still there: c0ffee"):
        compose.destroy("two", told.append, keep_data=False)
    assert programs.called("container", "rm", "--force", "--volumes", "c0ffee")
    assert is_there("two", "compose")


def test_a_container_that_was_made_and_never_started_is_reported_at_once(place, programs, told, healthy):
    programs.add("docker", [VERSION, (["status=created"], 0, "assay-two_redis_1\nassay-two_server_1\n")])
    with pytest.raises(MeasureError, match="docker did not start assay-two_redis_1, assay-two_server_1"):
        compose.create(InfraOptions("two", "docker", "127.0.0.1"), told.append)
    assert is_there("two", "compose"), "so that it can be looked at, and destroyed"


def test_data_can_be_kept(place, programs, told, healthy):
    programs.add("docker", [VERSION])
    compose.create(InfraOptions("two", "docker", "127.0.0.1"), told.append)
    before = kept(folder_of("local", "two"), "compose.json", ComposeRecord)
    compose.destroy("two", told.append, keep_data=True)
    assert programs.called("down")
    assert not programs.called("down", "--volumes")
    compose.create(InfraOptions("two", "docker", "127.0.0.1"), told.append)
    assert kept(folder_of("local", "two"), "compose.json", ComposeRecord) == before


def test_one_that_does_not_get_healthy_is_reported_with_what_it_said(place, programs, told, monkeypatch):
    programs.add("docker", [VERSION])
    monkeypatch.setattr(compose, "_POLL_S", 0.0)
    monkeypatch.setattr(compose, "page", lambda url: "503 starting")
    monkeypatch.setattr(compose, "agent", lambda url, token, tag: None)
    with pytest.raises(MeasureError, match="server was not healthy within 0 s: 503 starting"):
        compose.create(InfraOptions("two", "docker", "127.0.0.1", within_s=0.0), told.append)
    assert compose.status("two").word == "unhealthy"


def test_a_compose_that_fails_is_quoted(place, programs, told):
    programs.add("docker", [VERSION, (["up"], 17, "no space left")])
    with pytest.raises(MeasureError) as problem:
        compose.create(InfraOptions("two", "docker", "127.0.0.1"), told.append)
    assert problem.value.problem.code == "compose"
    assert "code 17" in str(problem.value)
