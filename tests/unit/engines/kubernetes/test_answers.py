"""What the server's answers mean, and which of them may pass by themselves."""

import json

import pytest

from assay.engines.kubernetes.client.api import (
    Answer,
    Expired,
    Right,
    Version,
    change_in,
    document_of,
    is_not_begun,
    read_version,
    refuse_failed,
    retry_after,
)
from assay.errors import MeasureError


def status(code, message, reason=""):
    return Answer(code, json.dumps({"kind": "Status", "message": message, "reason": reason, "code": code}).encode())


@pytest.mark.parametrize(
    ("code", "message", "expected"),
    [
        (401, "Unauthorized", "kubernetes-token"),
        (403, 'jobs.batch is forbidden: User "x" cannot create resource "jobs"', "kubernetes-forbidden"),
        (403, "exceeded quota: small, requested: pods=1", "kubernetes-refused"),
        (403, 'pods "x" is forbidden: violates PodSecurity "restricted"', "kubernetes-refused"),
        (404, 'pods "x" not found', "kubernetes-not-found"),
        (409, 'jobs.batch "x" already exists', "kubernetes-exists"),
        (410, "too old resource version", "kubernetes-gone"),
        (422, "Job.batch is invalid: spec.template", "kubernetes-refused"),
        (429, "too many requests", "kubernetes-silent"),
        (500, "etcdserver: request timed out", "kubernetes-silent"),
        (503, "apiserver is shutting down", "kubernetes-silent"),
    ],
)
def test_a_refusal_has_a_code_and_the_servers_own_words(code, message, expected):
    with pytest.raises(MeasureError) as caught:
        document_of(status(code, message), "https://k8s", "Job x")
    assert caught.value.problem.code == expected
    assert message in caught.value.problem.message
    assert caught.value.problem.at == "https://k8s"
    assert isinstance(caught.value, Expired) == (code == 410)


def test_an_answer_that_is_no_document_is_reported():
    with pytest.raises(MeasureError, match="no document"):
        document_of(Answer(200, b"<html>"), "a", "b")
    with pytest.raises(MeasureError, match="bad gateway"):
        document_of(Answer(502, b"bad gateway"), "a", "b")
    assert document_of(Answer(200, b'{"a": 1}'), "a", "b") == {"a": 1}


def test_a_line_of_a_watch_is_a_change_or_the_end():
    line = json.dumps({"type": "ADDED", "object": {"metadata": {"name": "x", "resourceVersion": "7"}}}).encode()
    assert (change_in(line, "a").what, change_in(line, "a").version) == ("ADDED", "7")
    gone = json.dumps({"type": "ERROR", "object": {"code": 410, "reason": "Expired", "message": "too old"}}).encode()
    with pytest.raises(Expired, match="too old"):
        change_in(gone, "a")
    for odd in (
        b"{}",
        b"nonsense",
        b'{"type": "ERROR", "object": {"message": "x"}}',
        b'{"type": "ADDED", "object": 1}',
    ):
        with pytest.raises(MeasureError) as caught:
            change_in(odd, "a")
        assert caught.value.problem.code == "kubernetes-silent"


def test_a_log_that_has_not_begun_is_no_failure():
    message = 'container "job" in pod "x" is waiting to start: ContainerCreating'
    assert is_not_begun(400, status(400, message).content)
    assert not is_not_begun(404, status(404, message).content)
    assert not is_not_begun(400, status(400, "container x is not valid for pod y").content)


@pytest.mark.parametrize(("given", "waits"), [({"Retry-After": "3"}, 3.0), ({"Retry-After": "soon"}, 0.5), ({}, 0.5)])
def test_the_server_says_when_to_ask_again(given, waits):
    assert retry_after(given, 0.5) == waits


def test_a_command_that_failed_is_reported_with_its_last_words():
    refuse_failed("tar", "p", b'{"status": "Success"}', b"warning", "a")
    failed = json.dumps({"status": "Failure", "message": "command terminated with exit code 2"}).encode()
    with pytest.raises(MeasureError, match="exit code 2; it wrote: no such file") as caught:
        refuse_failed("tar", "p", failed, b"no such file\n", "a")
    assert caught.value.problem.code == "kubernetes-exec"
    with pytest.raises(MeasureError, match="the connection was cut") as caught:
        refuse_failed("tar", "p", b"", b"", "a")
    assert caught.value.problem.code == "kubernetes-silent"


@pytest.mark.parametrize(
    ("told", "expected"),
    [
        ({"major": "1", "minor": "20", "gitVersion": "v1.20.2"}, (1, 20)),
        ({"major": "1", "minor": "31+", "gitVersion": "v1.31.4-eks-2d5f260"}, (1, 31)),
        ({"major": "", "minor": "", "gitVersion": "v1.27.3-gke.100"}, (1, 27)),
        ({}, (1, 0)),
    ],
)
def test_versions_of_clouds_are_read(told, expected):
    found = read_version(told)
    assert (found.major, found.minor) == expected
    assert found.has(20) == (expected[1] >= 20)


def test_versions_are_compared_by_their_numbers():
    assert Version(1, 9) < Version(1, 20)
    assert str(Version(1, 20, "v1.20.2")) == "v1.20.2"
    assert Right("get", "pods") == Right("get", "pods")
