"""HTTP as it should be, and as bad servers speak it: every end of a request has its name, and the run ends in time."""

import socket
import ssl
import struct
import threading
import time

import numpy as np
import pytest
from tests.support.certificate import self_signed
from tests.support.ports import free_port
from tests.unit.run.load.loads import drive, outcomes, rate, users
from tests.unit.run.load.raw_server import chunked, plain, raw_server, request_of

from assay.errors import MeasureError
from assay.run.load.http.origin import origin_of
from assay.spec.target import Tls

GOOD = plain(b'{"ok": true}')


def say(*pieces: bytes, pause_s: float = 0.0, close: bool = False):
    def answer(connection, request, number):
        for piece in pieces:
            connection.sendall(piece)
            time.sleep(pause_s)
        return not close

    return answer


def test_answers_are_kept_whole_with_times_and_headers(tmp_path):
    with raw_server(say(plain(b"hello", headers="X-Request-Id: r1\r\n"))) as (url, seen):
        recording = drive(url, tmp_path, requests=5)
    assert outcomes(recording) == {"ok": 5}
    assert [bytes(recording.body_of(row)) for row in range(5)] == [b"hello"] * 5
    assert recording.header_of(0, "x-request-id") == "r1"
    assert (recording.due_ns <= recording.sent_ns).all()
    assert (recording.sent_ns < recording.first_ns).all()
    assert (recording.first_ns <= recording.end_ns).all()
    assert recording.fresh.tolist() == [True, False, False, False, False], "the connection is used again"
    assert seen[0].startswith(b"POST /x HTTP/1.1\r\nHost: 127.0.0.1:")


@pytest.mark.quiet
def test_pieces_of_a_chunked_answer_are_timed_apart(tmp_path):
    head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    with raw_server(say(head + b"3\r\nabc\r\n", b"2\r\nde\r\n", b"0\r\nX-Trailer: 1\r\n\r\n", pause_s=0.05)) as (
        url,
        _,
    ):
        recording = drive(url, tmp_path, requests=2)
    assert outcomes(recording) == {"ok": 2}
    for row in range(2):
        at_ns, ends = recording.pieces_of(row)
        assert bytes(recording.body_of(row)) == b"abcde"
        assert ends.tolist() == [3, 5]
        assert np.diff(at_ns)[0] / 1e6 == pytest.approx(50, abs=25)


@pytest.mark.parametrize("cut", range(1, 60, 7))
def test_an_answer_may_come_in_any_pieces(tmp_path, cut):
    whole = chunked([b"one", b"two", b"three"], "T: x\r\n")
    with raw_server(say(whole[:cut], whole[cut:], pause_s=0.01)) as (url, _):
        recording = drive(url, tmp_path, requests=2)
    assert outcomes(recording) == {"ok": 2}
    assert bytes(recording.body_of(1)) == b"onetwothree"


def test_many_chunks_in_one_arrival_are_one_piece(tmp_path):
    with raw_server(say(chunked([b"x"] * 40))) as (url, _):
        recording = drive(url, tmp_path, requests=1)
    assert len(recording.pieces_of(0)[0]) == 1
    assert recording.pieces_of(0)[1].tolist() == [40]


def test_interim_answers_are_passed_over(tmp_path):
    with raw_server(say(b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n" + GOOD)) as (url, _):
        recording = drive(url, tmp_path, requests=3)
    assert outcomes(recording) == {"ok": 3}
    assert recording.status.tolist() == [200] * 3


def test_a_body_without_a_length_ends_with_its_connection(tmp_path):
    with raw_server(say(b"HTTP/1.1 200 OK\r\n\r\npart one, ", b"part two", pause_s=0.02, close=True)) as (url, _):
        recording = drive(url, tmp_path, requests=2)
    assert outcomes(recording) == {"ok": 2}
    assert bytes(recording.body_of(1)) == b"part one, part two"
    assert recording.fresh.all()


def test_connection_close_is_honoured(tmp_path):
    with raw_server(say(plain(b"x", headers="Connection: close\r\n"), close=True)) as (url, _):
        recording = drive(url, tmp_path, requests=3)
    assert outcomes(recording) == {"ok": 3}
    assert recording.fresh.all()


def test_an_idle_connection_that_the_server_closed_costs_no_request(tmp_path):
    def answer(connection, request, number):
        connection.sendall(GOOD)
        return False  # closed without a word, although the answer did not say so

    with raw_server(answer) as (url, _):
        recording = drive(url, tmp_path, users(1, think_s=0.05), requests=4)
    assert outcomes(recording) == {"ok": 4}


def reset(connection, request, number):
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    return False


BAD = {
    "truncated": say(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nonly this", close=True),
    "malformed": say(b"SSH-2.0-OpenSSH_9.2\r\n\r\n"),
    "redirect": say(b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n"),
    "status": say(plain(b'{"error": {"message": "no such model"}}', "404 Not Found")),
    "reset": reset,
}


@pytest.mark.parametrize("kind", BAD)
def test_every_bad_end_has_its_name(tmp_path, kind):
    with raw_server(BAD[kind]) as (url, _):
        recording = drive(url, tmp_path, requests=4)
    assert outcomes(recording) == {kind: 4}
    assert (recording.end_ns > 0).all()
    if kind == "status":
        assert bytes(recording.body_of(0)) == b'{"error": {"message": "no such model"}}'
        assert recording.status.tolist() == [404] * 4


@pytest.mark.parametrize(
    "broken",
    [
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
        b"HTTP/9.9 200 OK\r\n\r\n",
        b"\x00\x01\x02\x03\r\n\r\n",
        b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\nbytes",
    ],
)
def test_broken_http_never_passes_for_an_answer_and_never_hangs(tmp_path, broken):
    with raw_server(say(broken)) as (url, _):
        began = time.perf_counter()
        recording = drive(url, tmp_path, requests=2, timeout_s=1.0)
    assert not set(outcomes(recording)) & {"ok"}
    assert time.perf_counter() - began < 120


def test_more_than_was_requested_does_not_spoil_the_next_answer(tmp_path):
    with raw_server(say(plain(b"first") + plain(b"unasked"))) as (url, _):
        recording = drive(url, tmp_path, requests=3)
    assert outcomes(recording)["ok"] >= 1
    assert {bytes(recording.body_of(row))[:5] for row in range(3) if recording.outcome[row] == 0} == {b"first"}


def test_silence_ends_at_the_timeout(tmp_path):
    ending = threading.Event()
    with raw_server(lambda *_: ending.wait(250)) as (url, _):
        began = time.perf_counter()
        recording = drive(url, tmp_path, users(3), requests=3, timeout_s=0.5)
        assert time.perf_counter() - began < 120
        ending.set()
    assert outcomes(recording) == {"timeout": 3}


def test_a_stream_that_never_ends_is_cut_and_what_came_is_kept(tmp_path):
    def forever(connection, request, number):
        connection.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        while True:
            connection.sendall(b"2\r\nhi\r\n")
            time.sleep(0.02)

    with raw_server(forever) as (url, _):
        recording = drive(url, tmp_path, users(2), duration_s=0.3, timeout_s=2.0)
    assert outcomes(recording).keys() <= {"timeout", "unfinished"}
    assert len(recording.pieces_of(0)[0]) > 5
    assert bytes(recording.body_of(0)).startswith(b"hihihi")


def test_a_closed_port_is_refused_and_the_run_ends_by_itself(tmp_path):
    port = free_port()
    began = time.perf_counter()
    recording = drive(f"http://127.0.0.1:{port}", tmp_path, users(4), duration_s=250)
    assert outcomes(recording) == {"refused": len(recording)}
    assert recording.stopped.startswith("errors: none of the first")
    assert time.perf_counter() - began < 120


def test_a_server_that_dies_leaves_what_was_answered(tmp_path):
    state = {"answered": 0}

    def answer(connection, request, number):
        if number >= 30:
            return reset(connection, request, number)
        connection.sendall(GOOD)
        return True

    with raw_server(answer) as (url, _):
        recording = drive(url, tmp_path, users(2), duration_s=30, errors=0.5)
    assert state is not None
    assert outcomes(recording)["ok"] == 30
    assert recording.stopped.startswith("errors:")


def test_large_requests_are_sent_whole(tmp_path):
    from assay.run.load.http.driver import Repeat

    def slow(connection, request, number):
        connection.sendall(GOOD)

    body = b"x" * 5_000_000
    with raw_server(slow) as (url, seen):
        wire = origin_of(url).request("POST", "/", {}, body)
        recording = drive(url, tmp_path, supply=Repeat((wire,)), requests=2, timeout_s=120)
    assert outcomes(recording) == {"ok": 2}
    assert all(request.endswith(body) for request in seen)


def test_hosts_that_are_not_known_and_urls_that_are_none():
    with pytest.raises(MeasureError, match="not known"):
        origin_of("http://no-such-host.invalid/v1")
    for bad in ("ftp://host", "host:80", "http://", "http://host:99999"):
        with pytest.raises(MeasureError, match="not an http or https URL"):
            origin_of(bad)
    with pytest.raises(MeasureError, match="line break"):
        origin_of("http://127.0.0.1:1").request("POST", "/", {"X": "a\r\nEvil: 1"}, b"")


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tls")
    self_signed(folder)
    return folder


def tls_server(folder):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "cert.pem", folder / "key.pem")
    return context


def test_tls_with_a_certificate_of_ones_own(tmp_path, certificate):
    with raw_server(say(chunked([b"a" * 30_000, b"b" * 30_000])), tls_server(certificate)) as (url, _):
        origin = origin_of(url, tls=Tls(ca="cert.pem"), base=certificate)
        recording = drive(url, tmp_path, users(3), origin=origin, requests=12)
    assert outcomes(recording) == {"ok": 12}
    assert len(recording.body_of(0)) == 60_000
    assert recording.fresh.sum() == 3


def test_a_certificate_that_nobody_vouches_for_is_refused_unless_set_otherwise(tmp_path, certificate):
    with raw_server(say(GOOD), tls_server(certificate)) as (url, _seen):
        refused = drive(url, tmp_path / "a", origin=origin_of(url), requests=2)
        taken = drive(url, tmp_path / "b", origin=origin_of(url, tls=Tls(verify=False)), requests=2)
    assert outcomes(refused) == {"tls": 2}
    assert outcomes(taken) == {"ok": 2}


def test_tls_spoken_to_a_plain_server(tmp_path):
    with raw_server(lambda connection, *_: connection.sendall(GOOD)) as (url, _):
        recording = drive(url, tmp_path, origin=origin_of(url.replace("http:", "https:")), requests=1, timeout_s=1.0)
    assert set(outcomes(recording)) <= {"tls", "timeout"}


def test_a_plain_proxy_gets_the_whole_url(tmp_path):
    with raw_server(say(GOOD)) as (proxy, seen):
        origin = origin_of("http://127.0.0.1:9/v1", proxy=proxy.replace("http://", "http://me:secret@"))
        recording = drive("", tmp_path, origin=origin, requests=1)
    assert outcomes(recording) == {"ok": 1}
    assert seen[0].startswith(b"POST http://127.0.0.1:9/v1/x HTTP/1.1\r\n")
    assert b"Proxy-Authorization: Basic bWU6c2VjcmV0" in seen[0]


def test_an_https_server_is_reached_through_a_tunnel(tmp_path, certificate):
    import threading

    def tunnel(connection, request, number):
        host, port = request.split(b" ")[1].split(b":")
        connection.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
        with socket.create_connection((host.decode(), int(port))) as onward:

            def back():
                while data := onward.recv(65536):
                    connection.sendall(data)

            threading.Thread(target=back, daemon=True).start()
            while data := connection.recv(65536):
                onward.sendall(data)

    with raw_server(say(GOOD), tls_server(certificate)) as (url, seen), raw_server(tunnel) as (proxy, asked):
        origin = origin_of(url, proxy=proxy, tls=Tls(ca=str(certificate / "cert.pem")))
        recording = drive(url, tmp_path, origin=origin, requests=3)
    assert outcomes(recording) == {"ok": 3}
    assert asked[0].startswith(b"CONNECT 127.0.0.1:")
    assert len(seen) == 3


def test_a_proxy_that_refuses_is_named(tmp_path, certificate):
    with raw_server(say(plain(b"", "407 Proxy Authentication Required"))) as (proxy, _):
        origin = origin_of("https://127.0.0.1:9", proxy=proxy, tls=Tls(verify=False))
        recording = drive("", tmp_path, origin=origin, requests=1)
    assert outcomes(recording) == {"proxy": 1}


def test_open_loops_use_as_few_connections_as_they_can(tmp_path):
    with raw_server(say(GOOD)) as (url, _):
        recording = drive(url, tmp_path, rate(100), duration_s=0.5)
    assert set(outcomes(recording)) == {"ok"}
    assert recording.fresh.sum() <= 5


def test_request_of_reads_what_was_sent():
    ours, theirs = socket.socketpair()
    ours.sendall(b"POST / HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc")
    assert request_of(theirs).endswith(b"abc")
