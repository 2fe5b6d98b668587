"""Files are fetched once, checked against their digest, and not asked for again while that is right."""

from __future__ import annotations

import hashlib
import json
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from assay.errors import MeasureError
from assay.plan.job import Job
from assay.run.fetch import fetched_inputs, fetched_service
from assay.run.fetch.__main__ import main
from assay.run.fetch.source import fetch, is_here
from assay.spec.benchmark import Definition, Service
from assay.spec.target import Fetch, in_folders

CONTENT = b"a file of some size " * 100
MD5 = hashlib.md5(CONTENT).hexdigest()
SHA256 = hashlib.sha256(CONTENT).hexdigest()


class Files:
    """A server of files that remembers what it was asked for."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.headers: list[str | None] = []
        self.content = {"/x.bin": CONTENT}
        outer = self

        class Answer(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                outer.asked.append(self.path)
                outer.headers.append(self.headers.get("Authorization"))
                body = outer.content.get(self.path.partition("?")[0])
                self.send_response(200 if body is not None else 404)
                self.send_header("Content-Length", str(len(body or b"")))
                self.end_headers()
                self.wfile.write(body or b"")

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Answer)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def files() -> Iterator[Files]:
    server = Files()
    yield server
    server.close()


def spec(src: str, path: str = "/data/x.bin", **keys: str) -> Fetch:
    return Fetch(src=src, path=path, **keys)  # type: ignore[arg-type]


def test_a_file_with_its_digest_is_fetched_once(files: Files, tmp_path: Path) -> None:
    wanted = spec(f"{files.url}/x.bin", md5=MD5)
    for _ in range(2):
        (one,) = fetch(wanted, "target.fetch[0]", tmp_path, tmp_path / "cache")
        assert (one.here.read_bytes(), one.sha256, one.checked) == (CONTENT, SHA256, "md5")
    assert files.asked == ["/x.bin"]
    assert one.facts() == {
        "src": f"{files.url}/x.bin",
        "path": "/data/x.bin",
        "sha256": SHA256,
        "size_bytes": len(CONTENT),
        "checked": "md5",
    }


def test_one_that_was_damaged_is_fetched_again(files: Files, tmp_path: Path) -> None:
    wanted = spec(f"{files.url}/x.bin", sha256=SHA256)
    (one,) = fetch(wanted, "", tmp_path, tmp_path / "cache")
    one.here.write_bytes(b"changed by a program that was given it")
    (again,) = fetch(wanted, "", tmp_path, tmp_path / "cache")
    assert again.here.read_bytes() == CONTENT
    assert len(files.asked) == 2


def test_without_a_digest_the_server_is_asked_each_time_and_not_needed(files: Files, tmp_path: Path) -> None:
    wanted = spec(f"{files.url}/x.bin")
    fetch(wanted, "", tmp_path, tmp_path / "cache")
    files.content["/x.bin"] = b"newer"
    (one,) = fetch(wanted, "", tmp_path, tmp_path / "cache")
    assert (one.here.read_bytes(), one.checked) == (b"newer", "")
    files.close()
    (kept,) = fetch(wanted, "", tmp_path, tmp_path / "cache")
    assert "could not be asked" in kept.note


@pytest.mark.parametrize("keys", [{"md5": "0" * 32}, {"sha256": "0" * 64}])
def test_another_file_than_its_digest_says_is_refused(files: Files, tmp_path: Path, keys: dict[str, str]) -> None:
    with pytest.raises(MeasureError) as caught:
        fetch(spec(f"{files.url}/x.bin", **keys), "target.fetch[3]", tmp_path, tmp_path / "cache")
    assert (caught.value.problem.code, caught.value.problem.at) == ("checksum", "target.fetch[3]")
    assert "target.sha256" not in caught.value.problem.message + caught.value.problem.try_


def test_headers_carry_secrets_and_errors_name_the_key(
    files: Files, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOKEN", "sesame")
    wanted = Fetch(src=f"{files.url}/x.bin", path="/x", headers={"Authorization": "Bearer ${env:TOKEN}"})
    fetch(wanted, "", tmp_path, tmp_path / "cache")
    assert files.headers == ["Bearer sesame"]
    with pytest.raises(MeasureError) as caught:
        fetch(spec(f"{files.url}/none.bin"), "target.fetch[0]", tmp_path, tmp_path / "cache")
    assert caught.value.problem.at == "target.fetch[0]"


def test_a_local_file_is_checked_and_a_folder_has_no_digest(tmp_path: Path) -> None:
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "x.bin").write_bytes(CONTENT)
    (one,) = fetch(spec("d/x.bin", md5=MD5), "", tmp_path, tmp_path / "cache")
    assert one.here == tmp_path / "d" / "x.bin"
    (folder,) = fetch(spec("d", "/data"), "", tmp_path, tmp_path / "cache")
    assert (folder.sha256, folder.note) == ("", "a folder has no checksum")
    with pytest.raises(MeasureError, match="a folder, which has no digest"):
        fetch(spec("d", md5=MD5), "", tmp_path, tmp_path / "cache")
    with pytest.raises(MeasureError, match="is not there"):
        fetch(spec("nowhere"), "", tmp_path, tmp_path / "cache")


def test_a_path_that_is_a_folder_holds_the_file_under_its_name(files: Files, tmp_path: Path) -> None:
    (one,) = fetch(spec(f"{files.url}/x.bin?version=2", "/data/"), "", tmp_path, tmp_path / "cache")
    assert one.path == "/data/x.bin"
    pair = tuple(in_folders((spec("a", "/data"), spec("b", "/data"), spec("c", "/else"), spec("s3://b/p/", "/p"))))
    assert [one.path for one in pair] == ["/data/", "/data/", "/else", "/p/"]


def test_whether_it_is_here_is_known_without_a_network(files: Files, tmp_path: Path) -> None:
    wanted = spec(f"{files.url}/x.bin")
    assert not is_here(wanted, tmp_path, tmp_path / "cache")
    fetch(wanted, "", tmp_path, tmp_path / "cache")
    files.close()
    assert is_here(wanted, tmp_path, tmp_path / "cache")
    assert not is_here(spec("nowhere"), tmp_path, tmp_path / "cache")
    assert not is_here(spec("s3://bucket/key"), tmp_path, tmp_path / "cache")


def test_a_job_finds_its_files_for_as_long_as_it_is_measured(files: Files, tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "train.py").write_text("print(1)")
    sections = {
        "services": {"web": {"command": "serve /m", "fetch": [{"src": f"{files.url}/x.bin", "path": "/m"}]}},
        "target": {
            "command": "python {code}/src/train.py /d",
            "code": "src",
            "fetch": [{"src": f"{files.url}/x.bin", "path": "/d", "md5": MD5}],
        },
    }
    job = Job("b", "d", 0, Definition.model_validate_json(json.dumps(sections)), base=str(tmp_path))
    told: list[str] = []
    with fetched_inputs(job, tmp_path / "cache", begin=lambda: told.append("begun")) as (found, facts):
        place = Path(found.definition.target.command[-1])  # type: ignore[union-attr]
        assert place.read_bytes() == CONTENT
        assert Path(found.definition.services["web"].command[-1]).read_bytes() == CONTENT  # type: ignore[index]
        assert Path(found.definition.target.code).suffix == ".tar"  # type: ignore[union-attr]
        assert facts["code"]["files"] == 1  # type: ignore[index, call-overload]
        assert facts["fetched"]["target"][0]["checked"] == "md5"  # type: ignore[index, call-overload]
        assert (found.digest, told) == (job.digest, ["begun"])
    assert not place.exists()
    with fetched_inputs(job, tmp_path / "cache", running=["web"]) as (found, facts):
        assert found.definition.services["web"].command == "serve /m"
        assert set(facts["fetched"]) == {"target"}  # type: ignore[arg-type]


def test_a_job_that_needs_nothing_is_left_alone(tmp_path: Path) -> None:
    job = Job("b", "d", 0, Definition.model_validate({"target": {"command": "true"}}))
    with fetched_inputs(job, tmp_path / "cache") as (found, facts):
        assert found is job
        assert facts == {}
    service = Service(command="serve")
    with fetched_service("web", service, tmp_path, tmp_path / "cache") as same:
        assert same is service
    assert not (tmp_path / "cache").exists()


def test_files_for_another_else_to_mount_are_copies(
    files: Files, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = json.dumps([{"src": f"{files.url}/x.bin", "path": "/models/x.bin", "md5": MD5}])
    assert main([asked, str(tmp_path / "volume")]) == 0
    place = tmp_path / "volume" / "models" / "x.bin"
    assert (place.read_bytes(), place.is_symlink()) == (CONTENT, False)
    assert SHA256 in capsys.readouterr().out
    (tmp_path / "asked.json").write_text(asked.replace(MD5, "0" * 32))
    assert main([str(tmp_path / "asked.json"), str(tmp_path / "other")]) == 3
    assert "error[checksum]" in capsys.readouterr().err
    assert main(["[{}]", str(tmp_path)]) == 2


def test_a_bucket_needs_its_library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "obstore", None)
    monkeypatch.setitem(sys.modules, "obstore.store", None)
    with pytest.raises(MeasureError) as caught:
        fetch(spec("s3://bucket/key"), "target.fetch[0]", tmp_path, tmp_path / "cache")
    assert "assay-bench[s3]" in caught.value.problem.try_
