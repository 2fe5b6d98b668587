"""Files by content: whole or not at all, never by name, never beyond the limit."""

import hashlib
import logging
import socket

import httpx
import pytest
from tests.live.serve.setups import is_problem
from tests.support.running_server import wait_for

pytestmark = pytest.mark.live

CONTENT = b"some content of a file" * 1000
DIGEST = hashlib.sha256(CONTENT).hexdigest()


def leftovers(server):
    return [path for path in (server.state.folder / "artefacts").rglob("*") if path.is_file()]


def test_a_file_is_uploaded_once_and_read_in_parts(server):
    client = server.client
    assert client.head(f"/artefacts/{DIGEST}").status_code == 404
    first = client.put(f"/artefacts/{DIGEST}", params={"name": "../../a model.onnx"}, content=CONTENT)
    assert (first.status_code, first.json()["name"], first.json()["size_bytes"]) == (201, "a model.onnx", len(CONTENT))
    assert client.put(f"/artefacts/{DIGEST}", content=CONTENT).status_code == 200
    head = client.head(f"/artefacts/{DIGEST}")
    assert head.status_code == 200
    assert head.headers["content-length"] == str(len(CONTENT))
    whole = client.get(f"/artefacts/{DIGEST}")
    assert whole.content == CONTENT
    assert whole.headers["content-disposition"].startswith("attachment")
    part = client.get(f"/artefacts/{DIGEST}", headers={"Range": "bytes=5-"})
    assert (part.status_code, part.content) == (206, CONTENT[5:])
    same = client.get(f"/artefacts/{DIGEST}", headers={"If-None-Match": f'"{DIGEST}"'})
    assert same.status_code == 304
    assert len(leftovers(server)) == 1


def test_another_content_is_refused_and_leaves_nothing(server):
    is_problem(server.client.put(f"/artefacts/{DIGEST}", content=b"something else"), 422, "mismatch")
    assert leftovers(server) == []


def test_a_chunked_upload_is_counted(serve):
    server = serve(max_artefact_mb=0.1)

    def chunks():
        for _ in range(400):
            yield b"x" * 1000

    is_problem(server.client.put(f"/artefacts/{DIGEST}", content=chunks()), 413, "too-large")
    assert leftovers(server) == []
    assert server.client.put(f"/artefacts/{DIGEST}", content=CONTENT).status_code == 201


def test_an_announced_size_beyond_the_limit_is_refused_before_it_is_read(serve):
    server = serve(max_artefact_mb=0.01)
    is_problem(server.client.put(f"/artefacts/{DIGEST}", content=CONTENT), 413, "too-large")
    assert leftovers(server) == []


def test_a_broken_upload_leaves_nothing(server):
    def breaks():
        yield b"the beginning"
        raise OSError("the cable was pulled")

    with pytest.raises(OSError, match="cable"):
        server.client.put(f"/artefacts/{DIGEST}", content=breaks())
    wait_for(lambda: leftovers(server) == [], what="an empty folder")


@pytest.mark.parametrize(
    "name", ["..%2F..%2Fassay.db", "../../assay.db", "%2e%2e%2f%2e%2e%2fassay.db", "a" * 63, "A" * 64, "..", "%00" * 64]
)
def test_a_download_never_leaves_its_folder(server, name):
    answer = httpx.get(f"{server.url}/api/v1/artefacts/{name}", trust_env=False, timeout=60)
    assert answer.status_code in (404, 422)
    assert b"SQLite" not in answer.content


def test_a_client_that_leaves_during_an_upload_is_no_error(server, caplog):
    caplog.set_level(logging.DEBUG, logger="assay.serve")
    head = f"PUT /api/v1/artefacts/{DIGEST} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 1000000\r\n"
    with socket.create_connection(("127.0.0.1", server.port)) as connection:
        connection.sendall(head.encode() + b"Connection: close\r\n\r\nsome of it")
    told = wait_for(lambda: [one for one in caplog.records if getattr(one, "fields", {}).get("method") == "PUT"])
    assert told[0].fields["status"] == 499
    assert [one for one in caplog.records if one.levelno > logging.INFO or one.exc_info] == []
