"""Heads and chunked bodies, as bytes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.sim.wire.connection import HeadCache, HttpError, dechunk


def head(text):
    return HeadCache().read(text.replace("\n", "\r\n").encode("latin-1") + b"\r\n\r\n")


def test_a_head():
    found = head("POST /v1/x?a=1 HTTP/1.1\nHost: h\nContent-Length: 12\nExpect: 100-continue")
    assert (found.method, found.path, found.query, found.length) == ("POST", "/v1/x", "a=1", 12)
    assert found.keep_alive
    assert found.expects_continue
    assert not found.old
    assert found.headers["host"] == "h"


@pytest.mark.parametrize(
    ("text", "keeps"),
    [
        ("GET / HTTP/1.1\nHost: h", True),
        ("GET / HTTP/1.1\nConnection: close", False),
        ("GET / HTTP/1.0\nHost: h", False),
        ("GET / HTTP/1.0\nConnection: keep-alive", True),
        ("GET / HTTP/1.1\nConnection: Upgrade\nUpgrade: h2c", True),
    ],
)
def test_how_a_connection_continues(text, keeps):
    assert head(text).keep_alive is keeps


def test_a_proxy_s_form_of_the_target():
    assert head("GET http://host:80/v1/models?x=1 HTTP/1.1\nHost: h").path == "/v1/models"
    assert head("GET http://host HTTP/1.1\nHost: h").path == "/"


@pytest.mark.parametrize(
    "text",
    ["HELLO", "GET / HTTP/1.1\nbad header", "POST / HTTP/1.1\nContent-Length: 5\nTransfer-Encoding: chunked",
     "POST / HTTP/1.1\nContent-Length: -1", "POST / HTTP/1.1\nContent-Length: 1\nContent-Length: 2", "\x00\x01"],
)  # fmt: skip
def test_what_is_not_http_is_refused(text):
    with pytest.raises(HttpError) as caught:
        head(text)
    assert caught.value.status == 400


@pytest.mark.parametrize("text", ["GET /", "GET / HTTP/2.0\nHost: h"])
def test_another_version_is_refused(text):
    with pytest.raises(HttpError):
        head(text)


def test_an_unknown_coding_is_refused():
    with pytest.raises(HttpError) as caught:
        head("POST / HTTP/1.1\nTransfer-Encoding: gzip, chunked")
    assert caught.value.status == 501


def test_many_heads_are_not_kept_for_ever():
    heads = HeadCache()
    for number in range(5000):
        assert heads.read(b"GET /%d HTTP/1.1\r\nHost: h\r\n\r\n" % number).path == f"/{number}"
    assert len(heads._kept) <= 4096


@given(st.lists(st.binary(min_size=1, max_size=50), max_size=8), st.binary(max_size=20), st.booleans())
def test_chunks_come_back_wherever_they_are_cut(parts, rest, trailers):
    end = b"0\r\nx-sum: 1\r\n\r\n" if trailers else b"0\r\n\r\n"
    data = b"".join(b"%x;ext=1\r\n%b\r\n" % (len(part), part) for part in parts) + end
    assert dechunk(b"head" + data + rest, 4, 10_000) == (b"".join(parts), 4 + len(data))
    for cut in range(len(data)):
        assert dechunk(data[:cut], 0, 10_000) is None


@pytest.mark.parametrize("data", [b"xyz\r\n", b"\r\n", b"-5\r\n", b"2\r\nabc\r\n", b"1" * 2000])
def test_chunks_that_are_wrong_are_refused(data):
    with pytest.raises(HttpError) as caught:
        dechunk(data, 0, 10_000)
    assert caught.value.status == 400


def test_a_body_that_is_too_long_is_refused_before_it_is_there():
    with pytest.raises(HttpError) as caught:
        dechunk(b"ffffff\r\n", 0, 1000)
    assert caught.value.status == 413
