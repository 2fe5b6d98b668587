"""HTTP as real servers speak it: uvicorn with both of its parsers, nginx, and Go's server in Caddy.

Every request has its answer, byte for byte, connections are used again as long as the server wants, and what is sent
in parts arrives in parts.
"""

import signal
import threading
import time

import numpy as np
import pytest
from tests.unit.run.load.loads import drive, outcomes, rate, users
from tests.unit.run.load.real_servers import EVENTS, PAUSE_S, caddy_server, content, nginx_server, uvicorn_server

from assay.run.load.http.driver import LoadCallbacks, Repeat
from assay.run.load.http.origin import origin_of
from assay.spec.target import Tls

pytestmark = pytest.mark.live
STREAM = b"".join(EVENTS)
SIZES = (0, 1, 1000, 70_000)


@pytest.fixture(scope="module", params=["h11", "httptools"])
def uvicorn(request, tmp_path_factory):
    with uvicorn_server(tmp_path_factory.mktemp("uvicorn"), request.param) as server:
        yield server


@pytest.fixture(scope="module")
def behind(tmp_path_factory):
    """The application that stands behind a proxy."""
    with uvicorn_server(tmp_path_factory.mktemp("behind"), "httptools") as server:
        yield server


@pytest.fixture(scope="module")
def nginx(tmp_path_factory, behind):
    with nginx_server(tmp_path_factory.mktemp("nginx"), behind.url) as server:
        yield server


@pytest.fixture(scope="module")
def caddy(tmp_path_factory, behind):
    with caddy_server(tmp_path_factory.mktemp("caddy"), behind.url) as server:
        yield server


def ask(server, folder, paths, shape=None, *, url=None, method="GET", body=b"", **settings):
    """Ask for paths in turn; a path stands for itself, or for a method, a path and a body."""
    url = url or server.url
    origin = origin_of(url, tls=Tls(ca="cert.pem") if url.startswith("https:") else None, base=server.folder)
    asked = [path if isinstance(path, tuple) else (method, path, body) for path in paths]
    supply = Repeat(tuple(origin.request(verb, path, {}, sent) for verb, path, sent in asked))
    settings.setdefault("timeout_s", 15.0)
    return drive(url, folder, shape, supply=supply, origin=origin, **settings)


def assert_bodies(recording, expected):
    """Every answer is that of its request, to the byte."""
    for row in range(len(recording)):
        assert bytes(recording.body_of(row)) == expected[int(recording.session[row]) % len(expected)], f"row {row}"


def assert_parts_arrive_apart(recording, parts, pause_s=PAUSE_S):
    """Each part has its own time, and the gaps are the pauses between them; a busy machine may join a few."""
    bounds = np.cumsum([len(part) for part in parts])
    gaps = []
    for row in range(len(recording)):
        at_ns, ends = recording.pieces_of(row)
        # A part may come in two; what counts is when its last byte was there.
        reached = at_ns[np.searchsorted(ends, bounds)]
        assert ends[-1] == bounds[-1]
        assert recording.first_ns[row] == at_ns[0]
        gaps.append(np.diff(reached) / 1e9)
    assert np.quantile(gaps, 0.1) > 0.3 * pause_s, "parts came together"
    assert np.median(gaps) == pytest.approx(pause_s, abs=0.3 * pause_s)


# -- uvicorn -----------------------------------------------------------------------------------------------------------


def test_uvicorn_answers_of_every_form_share_connections(uvicorn, tmp_path):
    paths = [f"/{form}/{size}" for size in SIZES for form in ("fixed", "chunked")] + ["/empty", "/slow/9000"]
    expected = [content(size) for size in SIZES for _ in range(2)] + [b"", content(9000)]
    recording = ask(uvicorn, tmp_path, paths, users(4), requests=200)
    assert outcomes(recording) == {"ok": 200}
    assert_bodies(recording, expected)
    assert recording.fresh.sum() == 4, "one connection per user, whatever the form of the answer"
    assert {int(status) for status in recording.status} == {200, 204}


def test_uvicorn_hears_every_request_whole_and_answers_that_one(uvicorn, tmp_path):
    bodies = [content(size)[::-1] for size in (0, 1, 5, 300, 4096, 65_536, 200_000)]
    bodies += [b"%d" % number * 20 for number in range(57)]
    recording = ask(uvicorn, tmp_path, [("POST", "/echo", body) for body in bodies], users(7), requests=320)
    assert outcomes(recording) == {"ok": 320}
    assert_bodies(recording, bodies)
    assert recording.fresh.sum() == 7
    assert sorted(recording.session.tolist()) == list(range(320)), "each was asked once"


def test_uvicorn_large_bodies_both_ways(uvicorn, tmp_path):
    big = content(5_000_000)
    recording = ask(
        uvicorn, tmp_path, [("POST", "/echo", big), "/fixed/5000000", "/chunked/5000000"], users(2), requests=6
    )
    assert outcomes(recording) == {"ok": 6}
    assert_bodies(recording, [big])
    assert recording.fresh.sum() == 2
    assert all(len(recording.pieces_of(row)[0]) > 10 for row in range(6)), "arrivals are timed as they come"


def test_uvicorn_streams_arrive_in_their_parts(uvicorn, tmp_path):
    recording = ask(uvicorn, tmp_path, ["/stream"], users(6), method="POST", body=b"{}", requests=30)
    assert outcomes(recording) == {"ok": 30}
    assert_bodies(recording, [STREAM])
    assert_parts_arrive_apart(recording, EVENTS)
    assert np.median(recording.first_ns - recording.sent_ns) / 1e9 == pytest.approx(PAUSE_S, abs=0.02)
    assert recording.fresh.sum() == 6


def test_uvicorn_slow_bodies_of_a_reported_length_arrive_in_their_parts(uvicorn, tmp_path):
    recording = ask(uvicorn, tmp_path, ["/slow/9000"], users(3), requests=12)
    assert outcomes(recording) == {"ok": 12}
    assert_parts_arrive_apart(recording, [content(3000)] * 3)


def test_uvicorn_that_wants_no_second_request_gets_none(uvicorn, tmp_path):
    recording = ask(uvicorn, tmp_path, ["/close/1000", "/fixed/1000"], users(1), requests=20)
    assert outcomes(recording) == {"ok": 20}
    assert_bodies(recording, [content(1000)])
    assert recording.fresh.tolist() == [True] + [True, False] * 9 + [True], "new after each that was ended"
    assert recording.clients[0].resent == 0, "it was told, so no request had to find out"


def test_uvicorn_refusals_keep_their_words_and_their_connection(uvicorn, tmp_path):
    recording = ask(uvicorn, tmp_path, ["/status/503", "/fixed/10", "/status/429"], users(2), requests=30)
    assert outcomes(recording) == {"status": 20, "ok": 10}
    for row in range(30):
        status = int(recording.status[row])
        if status != 200:
            assert bytes(recording.body_of(row)) == b'{"error": {"message": "not now"}}'
            assert recording.header_of(row, "x-request-id") == f"r{status}"
            assert recording.header_of(row, "retry-after") == "1"
    assert recording.fresh.sum() == 2


def test_uvicorn_that_breaks_inside_an_answer_is_never_taken_for_an_answer(uvicorn, tmp_path):
    recording = ask(uvicorn, tmp_path, ["/breaks", "/fixed/1000"], users(2), requests=20)
    assert outcomes(recording) == {"truncated": 10, "ok": 10}
    broken = recording.session % 2 == 0
    assert (recording.outcome[broken] != 0).all()
    assert_bodies(recording, [content(1000)])  # what had come is kept


def test_uvicorn_closes_idle_connections_and_no_request_is_lost(tmp_path):
    with uvicorn_server(tmp_path, "httptools", keep_alive_s=1) as server:
        # Every request comes when the server is about to give the connection up, or just has.
        recording = ask(server, tmp_path / "load", ["/fixed/1000"], users(8, think_s=1.0), requests=24)
    assert outcomes(recording) == {"ok": 24}
    assert_bodies(recording, [content(1000)])


# -- nginx -------------------------------------------------------------------------------------------------------------


def test_nginx_ends_a_connection_after_five_requests_and_the_sixth_makes_a_new_one(nginx, tmp_path):
    recording = ask(nginx, tmp_path, [f"/{size}" for size in SIZES], users(1), requests=23)
    assert outcomes(recording) == {"ok": 23}
    assert_bodies(recording, [content(size) for size in SIZES])
    assert np.flatnonzero(recording.fresh).tolist() == [0, 5, 10, 15, 20]
    assert recording.clients[0].resent == 0


@pytest.mark.parametrize("shape", [users(8), rate(400)], ids=["closed", "open"])
@pytest.mark.parametrize("secure", [False, True], ids=["plain", "tls"])
def test_nginx_loses_no_request_while_it_ends_connections(nginx, tmp_path, shape, secure):
    recording = ask(
        nginx, tmp_path, [f"/{size}" for size in SIZES], shape, requests=400, url=nginx.secure if secure else nginx.url
    )
    assert outcomes(recording) == {"ok": 400}
    assert_bodies(recording, [content(size) for size in SIZES])
    assert sorted(recording.session.tolist()) == list(range(400))
    assert recording.fresh.sum() >= 80, "five each"


def test_nginx_gives_up_connections_that_rest_just_when_they_are_used_again(nginx, tmp_path):
    # Each request comes after a rest of exactly the time that nginx keeps an idle connection.
    recording = ask(nginx, tmp_path, ["/rests/1000"], users(20, think_s=0.15), requests=300)
    assert outcomes(recording) == {"ok": 300}
    assert_bodies(recording, [content(1000)])
    assert sorted(recording.session.tolist()) == list(range(300))
    assert 20 < recording.fresh.sum() <= 300


@pytest.mark.quiet
def test_nginx_takes_new_settings_under_load(nginx, tmp_path):
    reloads = 3

    def reload():
        for _ in range(reloads):
            time.sleep(0.4)
            nginx.process.send_signal(signal.SIGHUP)

    thread = threading.Thread(target=reload)
    thread.start()
    try:
        recording = ask(nginx, tmp_path, ["/rests/70000"], users(4, think_s=0.002), duration_s=1.6)
    finally:
        thread.join()
    # A request that comes between a worker's decision to end a connection and the end is met by a reset. It cannot be
    # told from a server that broke off what it was asked, so it counts as one: never more than one per connection.
    ended = outcomes(recording)
    assert set(ended) <= {"ok", "reset"}
    assert ended.get("reset", 0) <= reloads * 4
    assert ended["ok"] > 500
    for row in np.flatnonzero(recording.outcome == 0):
        assert bytes(recording.body_of(row)) == content(70_000)
    assert recording.fresh.sum() >= 4 * (1 + reloads) - ended.get("reset", 0), "the old workers ended their connections"


def test_nginx_files_over_both_versions_of_tls(nginx, tmp_path):
    newer = ask(nginx, tmp_path / "newer", ["/5000000", "/1"], users(2), url=nginx.secure, requests=8)
    older = ask(nginx, tmp_path / "older", ["/5000000", "/1"], users(2), url=nginx.older, requests=8)
    for recording in (newer, older):
        assert outcomes(recording) == {"ok": 8}
        assert_bodies(recording, [content(5_000_000), content(1)])
    assert older.fresh.sum() == 2


@pytest.mark.parametrize("secure", [False, True], ids=["plain", "tls"])
def test_nginx_passes_streams_on_in_their_parts(nginx, tmp_path, secure):
    recording = ask(
        nginx,
        tmp_path,
        ["/app/stream"],
        users(5),
        method="POST",
        body=b"{}",
        requests=20,
        url=nginx.secure if secure else nginx.url,
    )
    assert outcomes(recording) == {"ok": 20}
    assert_bodies(recording, [STREAM])
    assert_parts_arrive_apart(recording, EVENTS)
    assert recording.fresh.sum() == 5


def test_nginx_passes_a_broken_stream_on_as_broken(nginx, tmp_path):
    recording = ask(nginx, tmp_path, ["/app/breaks", "/1000"], users(2), requests=10)
    assert outcomes(recording) == {"truncated": 5, "ok": 5}


def test_nginx_refuses_a_body_that_is_too_large_before_it_has_all_of_it(nginx, tmp_path):
    recording = ask(nginx, tmp_path, [("POST", "/app/echo", content(5_000_000)), "/1000"], users(1), requests=6)
    assert outcomes(recording) == {"status": 3, "ok": 3}
    assert [int(status) for status in recording.status] == [413, 200] * 3
    assert b"Request Entity Too Large" in bytes(recording.body_of(0))


def test_nginx_errors_and_redirects_have_their_names(nginx, tmp_path):
    recording = ask(nginx, tmp_path, ["/none", "/moved", "/refused", ("POST", "/1000", b"x")], users(1), requests=8)
    assert outcomes(recording) == {"status": 6, "redirect": 2}
    assert recording.status.tolist() == [404, 302, 502, 405] * 2


def test_nginx_is_loaded_by_several_processes_without_one_request_twice(nginx, tmp_path):
    recording = ask(nginx, tmp_path, [f"/{size}" for size in SIZES], users(4), requests=200, clients=2)
    assert outcomes(recording) == {"ok": 200}
    assert_bodies(recording, [content(size) for size in SIZES])
    assert sorted(recording.session.tolist()) == list(range(200))


# -- Caddy -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("secure", [False, True], ids=["plain", "tls"])
def test_caddy_files_are_whole_and_connections_stay(caddy, tmp_path, secure):
    sizes = (*SIZES, 5_000_000)
    recording = ask(
        caddy,
        tmp_path,
        [f"/{size}" for size in sizes],
        users(4),
        requests=50,
        url=caddy.secure if secure else caddy.url,
    )
    assert outcomes(recording) == {"ok": 50}
    assert_bodies(recording, [content(size) for size in sizes])
    assert recording.fresh.sum() == 4


@pytest.mark.parametrize("secure", [False, True], ids=["plain", "tls"])
def test_caddy_passes_streams_on_in_their_parts(caddy, tmp_path, secure):
    recording = ask(
        caddy,
        tmp_path,
        ["/app/stream"],
        users(5),
        method="POST",
        body=b"{}",
        requests=20,
        url=caddy.secure if secure else caddy.url,
    )
    assert outcomes(recording) == {"ok": 20}
    assert_bodies(recording, [STREAM])
    assert_parts_arrive_apart(recording, EVENTS)
    assert recording.fresh.sum() == 5


def test_caddy_passes_chunks_refusals_and_breaks_on(caddy, tmp_path):
    paths = ["/app/chunked/70000", "/app/status/503", "/app/breaks", "/none", ("POST", "/app/echo", content(300_000))]
    recording = ask(caddy, tmp_path, paths, users(1), requests=20)
    assert outcomes(recording) == {"ok": 8, "status": 8, "truncated": 4}
    expected = [content(70_000), b'{"error": {"message": "not now"}}', content(1000), b"", content(300_000)]
    assert_bodies(recording, expected)
    assert recording.status.tolist()[:5] == [200, 503, 200, 404, 200]


def test_caddy_that_ends_under_load_leaves_what_was_answered(tmp_path, behind):
    told = []

    def end_it(_share, _note):
        told.append(_note)
        if len(told) == 10:  # half a second into the load
            server.process.send_signal(signal.SIGTERM)

    with caddy_server(tmp_path, behind.url) as server:
        recording = ask(
            server,
            tmp_path / "load",
            ["/1000"],
            users(4),
            duration_s=10,
            errors=0.5,
            asks=LoadCallbacks(progress=end_it),
        )
    ended = outcomes(recording)
    assert ended["ok"] > 50
    assert set(ended) <= {"ok", "refused", "reset"}
    assert recording.stopped.startswith("errors")
