"""Waiting for services of other nodes: until they are there, have failed, or can no longer come."""

from __future__ import annotations

import itertools

import pytest

from assay.engines.node import service_patience_s
from assay.engines.slurm.folder import SharedFolder
from assay.engines.slurm.node import publication as published
from assay.engines.slurm.node.publication import await_services, publish, publish_failure, read_published
from assay.errors import MeasureError, Problem
from assay.run.services import RunningService
from assay.spec.benchmark import Service


@pytest.fixture
def folder(tmp_path) -> SharedFolder:
    made = SharedFolder(tmp_path)
    made.make()
    return made


def running(folder: SharedFolder, name: str = "llm") -> RunningService:
    logs = [folder.service_log("g", name, stream) for stream in ("out", "err")]
    return RunningService(
        name,
        "10.0.0.7",
        8000,
        "http://10.0.0.7:8000",
        100,
        2_000_000_100,
        4711,
        "apptainer",
        *logs,
        facts={"image": "x"},
        secrets=("KEY",),
    )


def web(within: float = 5.0) -> Service:
    return Service(command="serve", ready={"within": within})


def test_what_is_published_comes_back_without_a_process_of_this_machine(folder):
    publish(folder, "g", running(folder), node="n7", slurm_job="12", metrics="http://10.0.0.7:8000/metrics")
    one = read_published(folder, "g", "llm")
    assert one.metrics == "http://10.0.0.7:8000/metrics"
    found = one.running()
    assert found.pid is None
    assert found.start_to_ready_s == 2.0
    assert (found.host, found.port, found.how, found.secrets) == ("10.0.0.7", 8000, "apptainer", ("KEY",))
    assert found.facts == {"image": "x", "node": "n7", "start_to_ready_s": "2.000"}


def test_services_are_waited_for_in_any_order(folder):
    coming = iter(["llm", "db"])

    def come(_: float) -> None:
        publish(folder, "g", running(folder, next(coming)), node="n", slurm_job="", metrics=None)

    found = await_services(folder, "g", {"db": web(), "llm": web()}, notify=lambda _: None, sleep=come)
    assert list(found) == ["db", "llm"]


def test_a_failure_ends_the_waiting_with_its_own_words(folder):
    publish_failure(folder, "g", "llm", Problem("image", "no such image", "services.llm.image", "fetch it"))
    with pytest.raises(MeasureError) as caught:
        await_services(folder, "g", {"db": web(), "llm": web()}, notify=lambda _: None)
    assert caught.value.problem == Problem("image", "no such image", "services.llm.image", "fetch it")


def test_one_that_says_nothing_is_given_up_after_its_own_bound(folder, monkeypatch):
    assert service_patience_s(web(100.0)) == 360.0
    clock = itertools.count(0.0, 20.0)
    monkeypatch.setattr(published.time, "monotonic", lambda: next(clock))
    told: list[str] = []
    with pytest.raises(MeasureError, match="neither ready nor failed within 75 s") as caught:
        await_services(folder, "g", {"llm": web()}, notify=told.append, sleep=lambda _: None)
    assert caught.value.problem.code == "service-not-ready"
    assert told == [f"waiting for llm since {seconds} s" for seconds in (20, 40, 60)]


def test_a_file_that_is_no_such_document_is_reported(folder):
    folder.services("g").mkdir(parents=True)
    folder.service("g", "llm").write_text("{}")
    with pytest.raises(MeasureError, match="cannot be read"):
        await_services(folder, "g", {"llm": web()}, notify=lambda _: None)
