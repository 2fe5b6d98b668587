"""Errors of the library are read: what a server answered, and why none did."""

import pytest

from assay.store.objects.s3 import read_answer

NOT_THERE = """Generic S3 error: Error performing PUT http://127.0.0.1:1/results/k in 15.8ms, after 1 retries, \
max_retries: 1, retry_timeout: 2s  - HTTP error: error sending request

Debug source:
Generic {
    store: "S3",
    source: ConnectError(
        "tcp connect error",
        Os { code: 111, kind: ConnectionRefused, message: "Connection refused", },
    ),
}"""
REFUSED = """Generic S3 error: Error performing list request: Error performing GET https://s3.here/results?prefix=k in \
9.5ms - Server returned non-2xx status code: 403 Forbidden: <?xml version="1.0" encoding="UTF-8"?>
<Error><Code>SignatureDoesNotMatch</Code><Message>The signature
is another.</Message></Error>

Debug source:
status: 403, message: "not this"
"""


def answered(status, body=""):
    return read_answer(
        f"x: Error performing HEAD http://h/b/k in 1ms - Server returned non-2xx status code: {status}: "
        f"{body}\n\nDebug source:\nx"
    )


def test_why_nobody_answered_is_found():
    found = read_answer(NOT_THERE)
    assert (found.status, found.code, found.said, found.server) == (
        None,
        "",
        "Connection refused",
        "http://127.0.0.1:1",
    )
    assert not found.is_refusal


def test_a_certificate_that_nobody_knows_is_named():
    insides = "kind: InvalidData,\n    error: InvalidCertificate(\n        UnknownIssuer,\n    ),"
    text = NOT_THERE.partition("Generic {")[0] + insides
    assert read_answer(text).said == "InvalidCertificate: UnknownIssuer"


def test_what_a_server_answered_is_found():
    found = read_answer(REFUSED)
    assert (found.status, found.code, found.server) == (403, "SignatureDoesNotMatch", "https://s3.here")
    assert found.said == "403 Forbidden: SignatureDoesNotMatch: The signature is another."
    assert found.is_refusal


@pytest.mark.parametrize(
    ("status", "refusal"),
    [("301 Moved Permanently", True), ("400 Bad Request", True), ("404 Not Found", True),
     ("408 Request Timeout", False), ("429 Too Many Requests", False), ("503 Service Unavailable", False)],
)  # fmt: skip
def test_what_may_pass_is_no_refusal(status, refusal):
    found = answered(status)
    assert (found.said, found.is_refusal, found.has_no_bucket) == (status, refusal, False)


def test_a_bucket_that_is_not_there_is_distinguished_from_an_object_that_is_not():
    assert answered("404 Not Found", "<Error><Code>NoSuchBucket</Code></Error>").has_no_bucket
    assert not answered("404 Not Found", "<Error><Code>NoSuchKey</Code></Error>").has_no_bucket


def test_a_machine_without_an_identity_has_no_credentials():
    text = "Generic S3 error: Error performing PUT http://169.254.169.254/latest/api/token in 1s - HTTP error: no"
    assert read_answer(text).has_no_credentials
    assert not read_answer(NOT_THERE).has_no_credentials


def test_anything_else_is_reported_as_it_came_and_not_at_length():
    assert read_answer("odd").said == "odd"
    assert len(read_answer("odd " * 1000).said) <= 300
