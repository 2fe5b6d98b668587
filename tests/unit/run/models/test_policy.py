"""Where models may be fetched from: addresses, names, redirects, and names that change their mind."""

from __future__ import annotations

import shutil
import ssl
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import httpx
import pytest
from tests.support.certificate import self_signed

from assay.errors import MeasureError, UsageError
from assay.run.execute import CERTAIN
from assay.run.models.download import Fetcher
from assay.run.policy import URL_POLICY, UrlPolicy, checked_transport

PUBLIC = UrlPolicy()
ALL_BUT_ANY = (PUBLIC, UrlPolicy(private=True), UrlPolicy(loopback=True), UrlPolicy(private=True, loopback=True))


@pytest.mark.parametrize(
    ("text", "policy"),
    [
        ("public", PUBLIC),
        ("any", UrlPolicy(anything=True)),
        ("public,loopback", UrlPolicy(loopback=True)),
        (" Private , loopback", UrlPolicy(private=True, loopback=True)),
    ],
)
def test_a_policy_is_read_and_written(text, policy):
    assert UrlPolicy.parse(text) == policy
    assert UrlPolicy.parse(str(policy)) == policy
    assert UrlPolicy.from_environment({URL_POLICY: text}) == policy


def test_a_policy_that_cannot_be_read_opens_nothing():
    for text in ("", "everything", "public,,"):
        with pytest.raises(UsageError, match="no URL policy"):
            UrlPolicy.from_environment({URL_POLICY: text})
    assert UrlPolicy.from_environment({}) == UrlPolicy(anything=True)


@pytest.mark.parametrize(
    "address", ["93.184.216.34", "8.8.8.8", "2606:4700::1111", "64:ff9b::8.8.8.8", "::ffff:8.8.8.8", "2002:808:808::1"]
)
def test_public_addresses_are_open_to_all(address):
    assert [policy.why_refused(address) for policy in ALL_BUT_ANY] == [None] * 4


@pytest.mark.parametrize(
    "address",
    ["10.1.2.3", "172.16.0.1", "172.31.255.255", "192.168.1.1", "100.64.0.1", "fc00::1", "fd12::1", "::ffff:10.0.0.1",
     "2002:c0a8:101::1", "64:ff9b::10.0.0.1", "::192.168.0.1"],
)  # fmt: skip
def test_private_addresses_need_leave(address):
    allowed = [policy.why_refused(address) is None for policy in ALL_BUT_ANY]
    assert allowed == [False, True, False, True]
    assert "private" in PUBLIC.why_refused(address)


@pytest.mark.parametrize(
    "address", ["127.0.0.1", "127.8.9.1", "::1", "::ffff:127.0.0.1", "64:ff9b::127.0.0.1", "2002:7f00:1::"]
)
def test_loopback_addresses_need_leave(address):
    allowed = [policy.why_refused(address) is None for policy in ALL_BUT_ANY]
    assert allowed == [False, False, True, True]


NEVER = {
    "cloud metadata": ["169.254.169.254", "fd00:ec2::254", "100.100.100.200", "168.63.129.16", "169.254.170.2",
                       "::ffff:169.254.169.254", "64:ff9b::169.254.169.254", "2002:a9fe:a9fe::1", "fd20:ce::254"],
    "link-local": ["169.254.1.1", "fe80::1", "fe80::1%eth0", "febf::1", "::ffff:169.254.1.1"],
    "unspecified": ["0.0.0.0", "0.1.2.3", "::", "::ffff:0.0.0.0"],
    "multicast": ["224.0.0.1", "239.1.1.1", "ff02::1"],
    "reserved": ["240.0.0.1", "255.255.255.255", "192.0.2.1", "198.18.0.1", "203.0.113.9", "2001:db8::1", "100::1",
                 "64:ff9b:1::1", "2001::1", "4000::1", "192.0.0.8"],
    "not an address": ["localhost", ""],
}  # fmt: skip


@pytest.mark.parametrize(("rule", "address"), [(rule, one) for rule, found in NEVER.items() for one in found])
def test_some_addresses_are_refused_by_every_policy(rule, address):
    assert all(rule in policy.why_refused(address) for policy in ALL_BUT_ANY)
    assert UrlPolicy(anything=True).why_refused(address) is None


def client(policy, resolve=None, inner=None):
    return httpx.Client(transport=checked_transport(policy, resolve, inner=inner), trust_env=False, timeout=60)


class Seen(httpx.BaseTransport):
    """Stands where the connecting would begin."""

    def __init__(self, dead=()):
        self.requests = []
        self.dead = dead

    def handle_request(self, request):
        self.requests.append(request)
        if request.url.host in self.dead:
            raise httpx.ConnectError("nobody there")
        return httpx.Response(200, text="ok")


class Changing:
    """A name server whose answers change."""

    def __init__(self, *answers):
        self.answers = list(answers)
        self.asked = 0

    def __call__(self, host, port):
        self.asked += 1
        return self.answers.pop(0)


def test_the_connection_goes_to_the_address_that_was_checked():
    resolve, inner = Changing(["93.184.216.34"], ["127.0.0.1"]), Seen()
    with client(PUBLIC, resolve, inner) as asking:
        assert asking.get("https://models.example:8443/m.onnx").text == "ok"
        assert resolve.asked == 1
        (request,) = inner.requests
        assert str(request.url) == "https://93.184.216.34:8443/m.onnx"
        assert request.headers["host"] == "models.example:8443"
        assert request.extensions["sni_hostname"] == "models.example"
        with pytest.raises(MeasureError) as caught:
            asking.get("https://models.example:8443/m.onnx")
    problem = caught.value.problem
    assert problem.code == "url-policy"
    assert "models.example (127.0.0.1) is a loopback address" in problem.message
    assert "--allow-private-urls" in problem.try_
    assert len(inner.requests) == 1
    assert "url-policy" in CERTAIN


def test_one_bad_address_among_good_ones_is_enough():
    inner = Seen()
    with client(PUBLIC, Changing(["93.184.216.34", "10.0.0.1"]), inner) as asking, pytest.raises(MeasureError):
        asking.get("http://models.example/")
    assert inner.requests == []


def test_the_next_address_is_tried_when_one_does_not_answer():
    inner = Seen(dead=["2606:4700::1111"])
    with client(PUBLIC, Changing(["2606:4700::1111", "8.8.8.8"]), inner) as asking:
        assert asking.get("http://models.example/").text == "ok"
    assert [request.url.host for request in inner.requests] == ["2606:4700::1111", "8.8.8.8"]


@pytest.mark.parametrize("host", ["metadata.google.internal", "METADATA.google.internal.", "metadata", "instance-data"])
def test_names_of_cloud_metadata_are_not_even_resolved(host):
    resolve = Changing()
    with (
        client(UrlPolicy(private=True, loopback=True), resolve, Seen()) as asking,
        pytest.raises(MeasureError) as caught,
    ):
        asking.get(f"http://{host}/computeMetadata/v1/")
    assert "cloud metadata" in caught.value.problem.message
    assert resolve.asked == 0


@pytest.mark.live
@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "127.1", "2130706433", "0x7f000001"])
def test_no_spelling_of_loopback_gets_through(site, tmp_path, host):
    url = site.url.replace("127.0.0.1", host)
    with pytest.raises(MeasureError) as caught:
        Fetcher(tmp_path, policy=PUBLIC).fetch(url)
    assert caught.value.problem.code == "url-policy"
    assert site.asked == []


@pytest.mark.live
def test_the_environment_decides(site, tmp_path, monkeypatch):
    site.content = b"model"
    monkeypatch.setenv(URL_POLICY, "public")
    with pytest.raises(MeasureError, match="loopback"):
        Fetcher(tmp_path).fetch(site.url)
    monkeypatch.setenv(URL_POLICY, "public,loopback")
    assert Fetcher(tmp_path).fetch(site.url).path.read_bytes() == b"model"
    assert site.asked[0][1]["host"] == site.base.removeprefix("http://")


@pytest.mark.live
def test_a_redirect_is_checked_like_the_first_address(site, tmp_path):
    for target in ("http://169.254.169.254/latest/meta-data/", "http://10.0.0.1/x", "http://[fe80::1]/x"):
        site.redirects = {"/model.onnx": target}
        with pytest.raises(MeasureError) as caught:
            Fetcher(tmp_path, policy=UrlPolicy(loopback=True)).fetch(site.url)
        assert caught.value.problem.code == "url-policy"
    site.redirects = {"/model.onnx": "/far.onnx"}
    site.content = b"model"
    assert Fetcher(tmp_path, policy=UrlPolicy(loopback=True)).fetch(site.url).path.read_bytes() == b"model"


@pytest.mark.live
def test_a_name_that_changes_its_mind_between_redirects_is_caught(site):
    site.redirects = {"/model.onnx": "http://models.example/again"}
    port = int(site.base.rpartition(":")[2])
    resolve = Changing(["127.0.0.1"], ["10.0.0.1"])
    with client(UrlPolicy(loopback=True), resolve) as asking, pytest.raises(MeasureError, match=r"10\.0\.0\.1"):
        asking.get(f"http://models.example:{port}/model.onnx", follow_redirects=True)
    assert [headers["host"] for _, headers in site.asked] == [f"models.example:{port}"]


@pytest.mark.live
def test_a_proxy_of_the_environment_is_not_used(site, tmp_path, monkeypatch):
    site.content = b"model"
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, site.base)
    with pytest.raises(MeasureError, match="private"):
        Fetcher(tmp_path, policy=PUBLIC).fetch("http://10.0.0.1/model.onnx")
    assert site.asked == []


@pytest.mark.live
@pytest.mark.parametrize("policy", [UrlPolicy(loopback=True), UrlPolicy(anything=True)])
@pytest.mark.parametrize("url", ["http://a..b/m.onnx", "http://no-such-host.invalid/m.onnx"])
def test_a_host_that_does_not_exist_is_an_ordinary_failure(tmp_path, policy, url):
    with pytest.raises(MeasureError) as caught:
        Fetcher(tmp_path, policy=policy, pause=lambda _: None).fetch(url)
    assert caught.value.problem.code == "model-url"


@pytest.fixture
def certificate(tmp_path, monkeypatch):
    """A key and a certificate for models.example, trusted by this process."""
    if shutil.which("openssl") is None:
        pytest.skip("openssl is needed to make a certificate")
    cert, key = self_signed(tmp_path, "models.example")
    monkeypatch.setenv("SSL_CERT_FILE", str(cert))
    return key, cert


class Secure(BaseHTTPRequestHandler):
    def log_message(self, *_):
        pass

    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Length", "5")
        self.end_headers()
        self.wfile.write(b"model")


@pytest.mark.live
def test_the_certificate_is_checked_against_the_name(certificate):
    names = []
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate[1], certificate[0])
    context.sni_callback = lambda socket, name, _: names.append(name)
    with ThreadingHTTPServer(("127.0.0.1", 0), Secure) as server:
        server.socket = context.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            with client(UrlPolicy(loopback=True), lambda host, port: ["127.0.0.1"]) as asking:
                assert asking.get(f"https://models.example:{server.server_port}/m").content == b"model"
                with pytest.raises(httpx.ConnectError, match="Hostname mismatch"):
                    asking.get(f"https://models.other:{server.server_port}/m")
        finally:
            server.shutdown()
            thread.join()
    assert names == ["models.example", "models.other"]
