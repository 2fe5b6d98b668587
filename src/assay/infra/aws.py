"""Machines of a cloud for the system: the Terraform files of deploy/, always shown as a plan first.

Terraform keeps what it made in a state file. It lies in the folder of the system on this machine, unless a file
`backend.tf` of the user's says otherwise; if it is lost, what was made must be removed by hand.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from assay.errors import UsageError
from assay.infra.commands import call, deploy_folder, find, show
from assay.infra.record import PartState, Status, folder_of, keep, kept, make_folder, remove_folder
from assay.version import __version__

RECORD = "terraform.json"
FILES = "terraform/aws"
_WORK, _PLAN, _VALUES = "work", "plan.bin", "values.auto.tfvars.json"
_TRY = "install Terraform 1.5 or newer (https://developer.hashicorp.com/terraform/install)"

Tell = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class AwsOptions:
    """What is asked for."""

    name: str
    values: tuple[Path, ...] = ()
    """Files of variables, as Terraform reads them."""
    settings: tuple[str, ...] = ()
    """Single variables, as `name=value`."""
    yes: bool = False
    """Whether the plan is carried out after it was shown."""


@dataclass(frozen=True, slots=True)
class AwsRecord:
    """What Terraform was asked to make."""

    version: str
    variables: tuple[str, ...]
    """The words that gave it its variables; the same are needed to remove it."""
    applied: bool = False
    """Whether a plan was ever carried out."""
    made: tuple[str, ...] = ()


def create(wish: AwsOptions, tell: Tell) -> Status:
    """Show what would be made, and make it if that was said.

    Raises:
        UsageError: if Terraform or a file is missing.
        MeasureError: if Terraform fails, with its own words.
    """
    program = find("terraform", "the provider aws", _TRY)
    folder = folder_of("aws", wish.name)
    known = kept(folder, RECORD, AwsRecord)
    made = make_folder(folder)
    record = AwsRecord(
        __version__,
        variables(wish) or (known.variables if known else ()),
        bool(known and known.applied),
        known.made if known else made,
    )
    work = _work(folder, wish.name)
    keep(folder, RECORD, record)
    show([program, "init", "-input=false"], cwd=work, code="terraform")
    show([program, "plan", "-input=false", f"-out={_PLAN}", *record.variables], cwd=work, code="terraform")
    if not wish.yes:
        tell("this is only the plan: nothing was made")
        tell("the same command with --yes carries it out; from then on it costs money")
        return status(wish.name)
    keep(folder, RECORD, AwsRecord(record.version, record.variables, applied=True, made=record.made))
    show([program, "apply", "-input=false", _PLAN], cwd=work, code="terraform")
    (work / _PLAN).unlink(missing_ok=True)  # it holds every value, and can be carried out only once
    return status(wish.name)


def status(name: str) -> Status:
    """What was made, as Terraform's state tells it; the cloud itself is not asked."""
    folder = folder_of("aws", name)
    record = kept(folder, RECORD, AwsRecord)
    if record is None:
        return Status("aws", name, "absent")
    if not record.applied:
        part = PartState("plan", "planned", detail="nothing was made yet")
        return Status("aws", name, "unhealthy", (part,), str(folder))
    program, work = find("terraform", "the provider aws", _TRY), folder / _WORK
    made = call([program, "state", "list"], cwd=work, code="terraform").split()
    told = json.loads(call([program, "output", "-json"], cwd=work, code="terraform"))
    outputs = {key: str(one["value"]) for key, one in told.items() if not one.get("sensitive")}
    values = folder / "values.yaml"
    if "chart_values" in outputs:
        values.write_text(outputs["chart_values"], encoding="utf-8")
    part = PartState(
        "resources",
        "healthy" if made else "absent",
        outputs.get("cluster_endpoint", ""),
        detail=f"{len(made)} in Terraform's state",
    )
    return Status("aws", name, "healthy" if made else "unhealthy", (part,), str(folder), _then(outputs, values))


def destroy(name: str, tell: Tell, *, keep_data: bool, yes: bool) -> None:
    """Remove everything that was made, after it was shown.

    Args:
        keep_data: refused; the bucket alone cannot be left by Terraform.

    Raises:
        UsageError: if it cannot be done as asked.
        MeasureError: if Terraform fails.
    """
    folder = folder_of("aws", name)
    record = kept(folder, RECORD, AwsRecord)
    if record is None:
        return
    if keep_data:
        raise UsageError(
            "--keep-data has no meaning for aws",
            code="option",
            at="--keep-data",
            try_="copy the bucket first: aws s3 sync s3://BUCKET FOLDER",
        )
    if record.applied:
        program, work = find("terraform", "the provider aws", _TRY), folder / _WORK
        show(
            [program, "plan", "-destroy", "-input=false", f"-out={_PLAN}", *record.variables],
            cwd=work,
            code="terraform",
        )
        if not yes:
            raise UsageError(
                "this is only the plan: nothing was removed",
                code="not-confirmed",
                try_="the same command with --yes carries it out",
            )
        show([program, "apply", "-input=false", _PLAN], cwd=work, code="terraform")
        if left := call([program, "state", "list"], cwd=work, code="terraform").split():
            raise UsageError(
                f"{len(left)} resources are still there, such as {left[0]}",
                code="infra",
                at=str(work),
                try_="destroy again; the folder with the state is kept",
            )
    remove_folder(folder, record.made)
    tell(f"everything is removed, and so is {folder}")


def variables(wish: AwsOptions) -> tuple[str, ...]:
    """The words that give Terraform its variables.

    Raises:
        UsageError: for a file that is not there, or a setting without a value.
    """
    words = []
    for path in wish.values:
        if not path.is_file():
            raise UsageError("there is no such file of variables", code="no-file", at=str(path))
        words.append(f"-var-file={path.absolute()}")
    for one in wish.settings:
        if "=" not in one:
            raise UsageError(f"{one!r} gives no value", code="set", at="--set", try_="write name=value")
        words.append(f"-var={one}")
    return tuple(words)


def _work(folder: Path, name: str) -> Path:
    """A copy of the files of deploy/, beside which Terraform keeps its state; own files of the user's stay in it."""
    work = folder / _WORK
    work.mkdir(exist_ok=True)
    for path in sorted((deploy_folder() / FILES).glob("*.tf")):
        shutil.copyfile(path, work / path.name)
    (work / _VALUES).write_text(json.dumps({"name": f"assay-{name}" if name != "default" else "assay"}) + "\n")
    lock = deploy_folder() / FILES / ".terraform.lock.hcl"
    if lock.is_file() and not (work / lock.name).exists():
        shutil.copyfile(lock, work / lock.name)
    return work


def _then(outputs: dict[str, str], values: Path) -> dict[str, str]:
    """What to type next, from what Terraform made."""
    then: dict[str, str] = {}
    if "kubeconfig_command" in outputs:
        then["reach the cluster"] = outputs["kubeconfig_command"]
    if "registry" in outputs:
        then["push images to"] = outputs["registry"]
    if "chart_values" in outputs:
        then["install"] = f"assay infra create --provider kubernetes --values {values}"
    if "bucket" in outputs:
        then["bucket"] = f"s3://{outputs['bucket']}"
    return then
