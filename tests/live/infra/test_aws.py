"""The cloud: a plan is always shown, and nothing is made or removed without --yes."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from assay.errors import MeasureError, UsageError
from assay.infra import aws
from assay.infra.aws import FILES
from assay.infra.commands import deploy_folder
from assay.infra.record import InfraOptions, folder_of

ROOT = Path(__file__).resolve().parents[3]
OUTPUT = json.dumps(
    {
        "bucket": {"value": "b"},
        "chart_values": {"value": "registry: r\n"},
        "secret": {"value": "s3cr3t", "sensitive": True},
    }
)


def terraform(programs, *more, state="aws_vpc.this\n"):
    programs.add("terraform", [*more, (["state", "list"], 0, state), (["output"], 0, OUTPUT)])


def test_without_yes_only_the_plan_is_shown(place, programs, told, capfd):
    terraform(programs, (["plan"], 0, "Plan: 40 to add"))
    status = aws.create(InfraOptions("default"), told.append)
    assert [call[1] for call in programs.calls] == ["init", "plan"]
    assert "Plan: 40 to add" in capfd.readouterr().out
    assert (status.word, status.parts[0].state) == ("unhealthy", "planned")
    assert any("--yes" in line for line in told)


def test_with_yes_exactly_the_plan_that_was_shown_is_carried_out(place, programs, told):
    terraform(programs)
    status = aws.create(InfraOptions("default", settings=("region=eu-west-1",), yes=True), told.append)
    plan = next(call for call in programs.calls if call[1] == "plan")
    assert "-var=region=eu-west-1" in plan
    (apply,) = programs.called("terraform", "apply")
    assert apply == ["terraform", "apply", "-input=false", "plan.bin"]
    assert "-out=plan.bin" in plan
    assert status.word == "healthy"
    folder = folder_of("aws", "default")
    assert (folder / "values.yaml").read_text() == "registry: r\n"
    assert status.then["install"].endswith(str(folder / "values.yaml"))
    assert "s3cr3t" not in str(status)


def test_removing_shows_a_plan_and_needs_yes_too(place, programs, told):
    terraform(programs)
    aws.create(InfraOptions("default", yes=True, settings=("region=x",)), told.append)
    with pytest.raises(UsageError) as wrong:
        aws.destroy("default", told.append, keep_data=False, yes=False)
    assert wrong.value.problem.code == "not-confirmed"
    assert len(programs.called("terraform", "apply")) == 1
    terraform(programs, state="")
    aws.destroy("default", told.append, keep_data=False, yes=True)
    assert programs.called("terraform", "plan", "-destroy")[-1][-1] == "-var=region=x", "the same variables as then"
    assert len(programs.called("terraform", "apply")) == 2
    assert not place.parent.exists()


def test_what_stays_keeps_its_state(place, programs, told):
    terraform(programs)
    aws.create(InfraOptions("default", yes=True), told.append)
    with pytest.raises(UsageError, match="1 resources are still there"):
        aws.destroy("default", told.append, keep_data=False, yes=True)
    assert (folder_of("aws", "default") / "work").is_dir()


def test_a_plan_that_was_never_carried_out_is_removed_without_asking_the_cloud(place, programs, told):
    terraform(programs)
    aws.create(InfraOptions("default"), told.append)
    before = len(programs.calls)
    aws.destroy("default", told.append, keep_data=False, yes=False)
    assert len(programs.calls) == before
    assert not place.parent.exists()


def test_an_apply_that_fails_is_not_forgotten(place, programs, told):
    terraform(programs, (["apply"], 1, "quota"))
    with pytest.raises(MeasureError, match="ended with code 1"):
        aws.create(InfraOptions("default", yes=True), told.append)
    assert aws.status("default").parts[0].name == "resources", "something may have been made"


def test_the_state_of_terraform_outlives_a_second_create(place, programs, told):
    terraform(programs)
    aws.create(InfraOptions("default", settings=("region=x",), yes=True), told.append)
    work = folder_of("aws", "default") / "work"
    (work / "terraform.tfstate").write_text("{}")
    (work / "backend.tf").write_text("# mine")
    aws.create(InfraOptions("default", yes=True), told.append)
    assert (work / "terraform.tfstate").is_file()
    assert (work / "backend.tf").read_text() == "# mine"
    assert "-var=region=x" in [call for call in programs.calls if call[1] == "plan"][-1]


@pytest.mark.parametrize(
    "wish", [InfraOptions("default", settings=("region",)), InfraOptions("default", values=(Path("nothing"),))]
)
def test_variables_that_are_none_are_reported_before_anything_is_done(place, programs, told, wish):
    terraform(programs)
    with pytest.raises(UsageError):
        aws.create(wish, told.append)
    assert programs.calls == []


def test_keeping_data_is_refused_and_says_what_to_do(place, programs, told):
    terraform(programs)
    aws.create(InfraOptions("default", yes=True), told.append)
    with pytest.raises(UsageError, match="--keep-data"):
        aws.destroy("default", told.append, keep_data=True, yes=True)


# The files themselves, by Terraform itself


@pytest.fixture
def real_terraform():
    found = shutil.which("terraform", path=os.pathsep.join((str(ROOT / ".venv-deploy/bin"), os.environ["PATH"])))
    if found is None:
        from tests.support.lacking import lacking

        lacking("DEPLOY", "no terraform found")
    return found


@pytest.mark.live
def test_the_files_are_formatted_as_terraform_formats_them(real_terraform):
    command = [real_terraform, "fmt", "-check", "-diff", "-recursive", str(deploy_folder() / "terraform")]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.live
def test_the_files_are_valid_where_the_providers_are_at_hand(real_terraform, tmp_path):
    """Without a mirror of the providers on this machine there is nothing to check against."""
    work = tmp_path / "aws"
    shutil.copytree(deploy_folder() / FILES, work)
    begun = subprocess.run(
        [real_terraform, "init", "-backend=false", "-input=false"], cwd=work, capture_output=True, text=True
    )
    if begun.returncode:
        assert "provider" in begun.stderr.lower(), begun.stderr
        pytest.skip("the providers of Terraform cannot be reached from here")
    done = subprocess.run([real_terraform, "validate"], cwd=work, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
