"""Machines of a cloud for the system: the Terraform files of deploy/, always shown as a plan first.

Terraform keeps what it made in a state file. It lies in the folder of the system on this machine, unless a file
`backend.tf` of the user's says otherwise; if it is lost, what was made must be removed by hand.
"""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass, replace
from pathlib import Path

from assay.errors import UsageError
from assay.infra.commands import call, deploy_folder, find, show
from assay.infra.record import InfraOptions, Notify, PartState, Status, find_system, keep, make_folder, remove_folder
from assay.version import __version__

RECORD = "terraform.json"
FILES = "terraform/aws"
_WORK, _PLAN, _VALUES = "work", "plan.bin", "values.auto.tfvars.json"
_TRY = "install Terraform 1.5 or newer (https://developer.hashicorp.com/terraform/install)"


@dataclass(frozen=True, slots=True)
class AwsRecord:
    """What Terraform was asked to make."""

    version: str
    variables: tuple[str, ...]
    """The words that gave it its variables; the same are needed to remove it."""
    applied: bool = False
    """Whether a plan was ever carried out."""
    made: tuple[str, ...] = ()


def create(options: InfraOptions, notify: Notify) -> Status:
    """Show what would be made, and make it if that was asked for."""
    _program()
    folder, existing = find_system("aws", options.name, RECORD, AwsRecord)
    made = make_folder(folder)
    words = variables(options)
    if existing is None:
        record = AwsRecord(__version__, words, made=made)
    else:
        record = replace(existing, version=__version__, variables=words or existing.variables)
    work = _work(folder, options.name)
    keep(folder, RECORD, record)
    _show(work, "init", "-input=false")
    _show(work, "plan", "-input=false", f"-out={_PLAN}", *record.variables)
    if not options.yes:
        notify("this is only the plan: nothing was made")
        notify("the same command with --yes carries it out; from then on it costs money")
        return status(options.name)
    keep(folder, RECORD, replace(record, applied=True))
    _show(work, "apply", "-input=false", _PLAN)
    (work / _PLAN).unlink(missing_ok=True)  # it holds every value, and can be carried out only once
    return status(options.name)


def status(name: str) -> Status:
    """What was made, as Terraform's state tells it; the cloud itself is not asked."""
    folder, record = find_system("aws", name, RECORD, AwsRecord)
    if record is None:
        return Status("aws", name, "absent")
    if not record.applied:
        return Status.of("aws", name, (PartState("plan", "planned", detail="nothing was made yet"),), folder, {})
    work = folder / _WORK
    made = _resources(work)
    answer = json.loads(call([_program(), "output", "-json"], cwd=work, code="terraform"))
    outputs = {key: str(output["value"]) for key, output in answer.items() if not output.get("sensitive")}
    values = folder / "values.yaml"
    if "chart_values" in outputs:
        values.write_text(outputs["chart_values"], encoding="utf-8")
    state, endpoint = "healthy" if made else "absent", outputs.get("cluster_endpoint", "")
    part = PartState("resources", state, endpoint, detail=f"{len(made)} in Terraform's state")
    return Status.of("aws", name, (part,), folder, _then(outputs, values))


def destroy(name: str, notify: Notify, *, keep_data: bool, yes: bool) -> None:
    """Remove everything that was made, after it was shown.

    Args:
        keep_data: refused; the bucket alone cannot be left by Terraform.
    """
    folder, record = find_system("aws", name, RECORD, AwsRecord)
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
        work = folder / _WORK
        _show(work, "plan", "-destroy", "-input=false", f"-out={_PLAN}", *record.variables)
        if not yes:
            raise UsageError(
                "this is only the plan: nothing was removed",
                code="not-confirmed",
                try_="the same command with --yes carries it out",
            )
        _show(work, "apply", "-input=false", _PLAN)
        if left := _resources(work):
            raise UsageError(
                f"{len(left)} resources are still there, such as {left[0]}",
                code="infra",
                at=str(work),
                try_="destroy again; the folder with the state is kept",
            )
    remove_folder(folder, record.made)
    notify(f"everything is removed, and so is {folder}")


def variables(options: InfraOptions) -> tuple[str, ...]:
    """The words that give Terraform its variables."""
    for path in options.values:
        if not path.is_file():
            raise UsageError("there is no such file of variables", code="no-file", at=str(path))
    for setting in options.settings:
        if "=" not in setting:
            raise UsageError(f"{setting!r} gives no value", code="set", at="--set", try_="write name=value")
    files = (f"-var-file={path.absolute()}" for path in options.values)
    return (*files, *(f"-var={setting}" for setting in options.settings))


def _program() -> str:
    return find("terraform", "the provider aws", _TRY)


def _show(work: Path, *words: str) -> None:
    show([_program(), *words], cwd=work, code="terraform")


def _resources(work: Path) -> list[str]:
    return call([_program(), "state", "list"], cwd=work, code="terraform").split()


def _work(folder: Path, name: str) -> Path:
    """A copy of the files of deploy/, beside which Terraform keeps its state; own files of the user's stay in it."""
    work, source = folder / _WORK, deploy_folder() / FILES
    work.mkdir(exist_ok=True)
    for path in sorted(source.glob("*.tf")):
        shutil.copyfile(path, work / path.name)
    (work / _VALUES).write_text(json.dumps({"name": f"assay-{name}" if name != "default" else "assay"}) + "\n")
    lock = source / ".terraform.lock.hcl"
    if lock.is_file() and not (work / lock.name).exists():
        shutil.copyfile(lock, work / lock.name)
    return work


def _then(outputs: dict[str, str], values: Path) -> dict[str, str]:
    """What to type next, from what Terraform made."""
    then = {
        "kubeconfig_command": ("reach the cluster", outputs.get("kubeconfig_command", "")),
        "registry": ("push images to", outputs.get("registry", "")),
        "chart_values": ("install", f"assay infra create --provider kubernetes --values {values}"),
        "bucket": ("bucket", f"s3://{outputs.get('bucket', '')}"),
    }
    return dict(then[name] for name in then if name in outputs)
