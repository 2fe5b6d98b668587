"""The pages about Slurm and team9 say what is there: every code of a failure, every option, every field."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from assay.engines.slurm import scheduler
from assay.spec.importers import team9
from assay.spec.slurm import Batch, Slurm

PAGES = Path(__file__).resolve().parents[3] / "docs" / "how-to"
SOURCES = Path(scheduler.__file__).parent


def page(name: str) -> str:
    return (PAGES / f"{name}.md").read_text(encoding="utf-8")


def codes_in(text: str, pattern: str) -> set[str]:
    return set(re.findall(pattern, text))


def test_every_reason_why_a_job_failed_is_explained_and_exists() -> None:
    listed = codes_in(page("use-a-slurm-cluster"), r"\| (?:`slurm-[a-z-]+`(?:, )?)+")
    named = {code for row in listed for code in re.findall(r"slurm-[a-z-]+", row)}
    made = codes_in((SOURCES / "scheduler.py").read_text(encoding="utf-8"), r'"(slurm-[a-z-]+)"')
    anywhere = {
        code
        for path in SOURCES.glob("*.py")
        for code in codes_in(path.read_text(encoding="utf-8"), r'"(slurm-[a-z-]+)"')
    }
    assert made <= named
    assert named <= anywhere


@pytest.mark.parametrize("key", sorted(Batch.model_fields))
def test_every_option_of_a_batch_job_is_on_the_page_for_users(key: str) -> None:
    assert re.search(rf"`{key}[`:]", page("use-a-slurm-cluster"))


@pytest.mark.parametrize("key", sorted(set(Slurm.model_fields) - set(Batch.model_fields)))
def test_every_other_key_is_on_one_of_the_pages(key: str) -> None:
    both = page("use-a-slurm-cluster") + page("slurm-for-administrators")
    assert re.search(rf"`(?:place\.slurm\.)?{key}[`:]|^ +{key}:", both, re.MULTILINE)


@pytest.mark.parametrize(
    "field",
    ["job.name", "job.scenario", "partition", "account", "time", "mem_gb", "nodes", "client_partition", "client_time",
     "client_mem_gb", "model", "n_clients", "n_requests_per_client", "type", "precision", "prompt", "gpus",
     "processing-unit", "cpus_per_task", "max_tokens", "temperature", "context_length", "prompt_len", "batchSize",
     "n_services", "test_duration", "request_rate", "notes", "--no-monitoring"],
)  # fmt: skip
def test_every_field_of_a_recipe_is_in_the_table(field: str) -> None:
    theirs = [row.split("|")[1] for row in page("from-team9").splitlines() if row.startswith("| ")]
    assert any(re.search(rf"[`.]{re.escape(field)}`", cell) for cell in theirs), field


def test_the_defaults_of_recipes_are_listed() -> None:
    text = " ".join(page("from-team9").split())
    assert f"partition `{team9.PARTITION}`, 5 minutes, {team9.MEMORY_GB} GB" in text
    assert f"`{team9.CLIENT_PARTITION}`, 30 minutes, {team9.CLIENT_MEMORY_GB} GB" in text
    assert (team9.TIME, team9.CLIENT_TIME) == ("00:05:00", "00:30:00")
    assert f"`{team9.MODEL}`, {team9.CLIENTS} client, {team9.REQUESTS} requests" in text
