"""What the words of a service mean: ports, programs, names, and what servers say of a taken port."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.errors import MeasureError
from assay.run.services.launch import steps
from assay.run.services.plan import (
    Ports,
    ServiceSpec,
    environment,
    named,
    program_and_words,
    refuse_meaningless,
    speaks_of_a_taken_port,
    words,
)

BASE = Path("/bench")


def nowhere(name: str, path: str | None = None) -> str | None:
    return None


def test_ports_are_put_in():
    ports = Ports(8000, {"db": 5432}, "services.web")
    assert ports.fill("--port={port} --db=127.0.0.1:{port:db}") == "--port=8000 --db=127.0.0.1:5432"
    with pytest.raises(MeasureError, match="started: db"):
        ports.fill("{port:cache}")


def test_hosts_are_put_in():
    ports = Ports(8000, {"db": 5432, "old": 1}, "services.web", "10.0.0.7", {"db": "10.0.0.9"})
    text = "--host {host} --port {port} --db {host:db}:{port:db} --old {host:old}"
    assert ports.fill(text) == "--host 10.0.0.7 --port 8000 --db 10.0.0.9:5432 --old 127.0.0.1"
    with pytest.raises(MeasureError, match="names no service"):
        ports.fill("{host:cache}")
    with pytest.raises(MeasureError, match="did you mean") as caught:
        Ports(1, {}, "").fill("{hosts}")
    assert caught.value.problem.try_ == "did you mean {host}?"


def test_the_address_is_in_the_environment():
    found = environment(
        ServiceSpec("web", command=("x",), env={"LISTEN": "{host}:{port}"}), Ports(81, {}, "", "10.0.0.7")
    )
    assert found == {
        "PORT": "81",
        "ASSAY_PORT": "81",
        "HOST": "10.0.0.7",
        "ASSAY_HOST": "10.0.0.7",
        "LISTEN": "10.0.0.7:81",
    }


def test_a_service_names_those_that_it_needs():
    wanted = ServiceSpec(
        "web",
        command=("x", "{port}", "{port:a}"),
        ready_http="/{port:b}",
        ready_command=("{host:c}",),
        env={"K": "{host:d}:{port:d}", "L": "{other:e}"},
    )
    assert named(wanted) == {"a", "b", "c", "d"}


@given(st.text().filter(lambda text: "{" not in text))
def test_other_braces_stay(text):
    assert Ports(1, {}, "").fill(text) == text


def test_a_command_is_split_as_a_shell_would():
    assert words("serve --name 'two words' \"$HOME\" a\\ b", "") == ("serve", "--name", "two words", "$HOME", "a b")
    assert words(("serve", "two words"), "") == ("serve", "two words")
    assert words(None, "") is None


def test_python_is_our_own_where_there_is_none():
    assert program_and_words(("python", "x.py"), BASE, None, nowhere) == [sys.executable, "x.py"]
    assert program_and_words(("assay", "sim"), BASE, None, nowhere) == [sys.executable, "-m", "assay", "sim"]
    assert program_and_words(("python", "x.py"), BASE, None, lambda *_, **__: "/usr/bin/python") == ["python", "x.py"]
    assert program_and_words(("ollama", "serve"), BASE, None, nowhere) == ["ollama", "serve"]


def test_a_path_starts_at_the_folder_of_the_file():
    assert program_and_words(("./serve",), BASE, None) == ["/bench/serve"]
    assert program_and_words(("bin/serve", "a/b"), BASE, None) == ["/bench/bin/serve", "a/b"]
    assert program_and_words(("/opt/serve",), BASE, None) == ["/opt/serve"]


@pytest.mark.parametrize("name", ["a/b", "", "..", "-x", "a b", "a\nb"])
def test_a_name_must_be_fit_for_a_file(name):
    with pytest.raises(MeasureError, match="cannot be the name"):
        refuse_meaningless(ServiceSpec(name, command=("serve",)))


def test_a_relative_folder_means_nothing_in_a_container():
    with pytest.raises(MeasureError, match="its own folders"):
        refuse_meaningless(ServiceSpec("web", image="x", cwd="here"))
    refuse_meaningless(ServiceSpec("web", image="x", cwd="/srv"))


@pytest.mark.parametrize(
    "line",
    [
        "OSError: [Errno 98] Address already in use",
        "[Errno 48] error while attempting to bind on address ('127.0.0.1', 8000): address already in use",
        "Error: listen tcp 127.0.0.1:11434: bind: address already in use",
        "Error: listen EADDRINUSE: address already in use :::3000",
        "couldn't bind HTTP server socket, hostname: 127.0.0.1, port: 8080",
        "ERROR: Port 8000 is in use",
        "[WinError 10048] Only one usage of each socket address",
        "nginx: [emerg] bind() to 0.0.0.0:80 failed (98: Address already in use)",
    ],
)
def test_a_taken_port_is_reported_in_many_words(line):
    assert speaks_of_a_taken_port(["some line", line])


def test_other_failures_are_not_a_taken_port():
    assert not speaks_of_a_taken_port(["CUDA out of memory", "model not found", "port 8000", "binding weights"])


def test_looks_are_close_together_at_first():
    first = [step for step, _ in zip(steps(), range(6), strict=False)]
    assert first == [0.02, 0.04, 0.08, 0.16, 0.2, 0.2]
