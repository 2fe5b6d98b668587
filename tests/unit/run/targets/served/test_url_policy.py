"""Where a job may connect on an agent: endpoint, metrics, proxy and everything else that a target asks."""

from __future__ import annotations

import http.server
import threading
from pathlib import Path
from time import perf_counter_ns

import pytest

from assay.errors import MeasureError
from assay.run.endpoint import reach
from assay.run.load.http.origin import origin_of
from assay.run.policy import URL_POLICY
from assay.run.probes import service_probe
from assay.run.services import RunningService
from assay.run.targets.vector.http import JsonClient
from assay.run.targets.vector.pgvector import checked_dsn
from assay.run.tokens.sources import server_tokenizer
from assay.spec.target import EndpointTarget, ServiceTarget

METADATA = [
    "169.254.169.254", "169.254.170.2", "169.254.170.23", "[fd00:ec2::254]", "[fd00:ec2::23]", "100.100.100.200",
    "168.63.129.16", "metadata.google.internal", "[fe80::a9fe:a9fe]", "[::ffff:169.254.169.254]", "2852039166",
]  # fmt: skip
EVERYTHING = "public,private,loopback"


@pytest.fixture
def site():
    """A server that notes the headers of every request."""
    seen: list[dict[str, str]] = []

    class Page(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self):
            seen.append(dict(self.headers))
            body = b"open 3\n"
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_POST = do_GET  # noqa: N815

        def log_message(self, *_): ...

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Page)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    server.seen = seen
    server.url = f"http://127.0.0.1:{server.server_port}"
    yield server
    server.shutdown()
    server.server_close()


def endpoint(**keys):
    return EndpointTarget(**{"endpoint": "http://203.0.113.7:8000", "api": "openai-chat", **keys})


@pytest.mark.parametrize("address", ["127.0.0.1", "localhost", "10.1.2.3", "192.168.0.7", "0x7f000001", "[::1]"])
def test_an_agent_refuses_private_endpoints_and_names_the_option(monkeypatch, address):
    monkeypatch.setenv(URL_POLICY, "public")
    with pytest.raises(MeasureError) as caught:
        reach(endpoint(endpoint=f"http://{address}:8000/v1"), {}, Path())
    problem = caught.value.problem
    assert (problem.code, problem.at) == ("url-policy", "target.endpoint")
    assert "--allow-private-urls" in problem.try_


@pytest.mark.parametrize("address", METADATA)
def test_metadata_addresses_are_refused_whatever_the_agent_allows(monkeypatch, address):
    monkeypatch.setenv(URL_POLICY, EVERYTHING)
    with pytest.raises(MeasureError) as caught:
        reach(endpoint(endpoint=f"http://{address}/latest"), {}, Path())
    assert caught.value.problem.code == "url-policy"
    assert "--allow-private-urls" not in caught.value.problem.try_  # it would not help


def test_an_agent_that_allows_them_reaches_private_endpoints(monkeypatch):
    monkeypatch.setenv(URL_POLICY, EVERYTHING)
    for address in ("127.0.0.1", "10.1.2.3"):
        assert reach(endpoint(endpoint=f"http://{address}:8000"), {}, Path()).origin.addresses[0][1] == (address, 8000)


def test_a_person_at_an_own_machine_reaches_everything(monkeypatch):
    monkeypatch.delenv(URL_POLICY, raising=False)
    assert origin_of("http://169.254.169.254").addresses[0][1] == ("169.254.169.254", 80)


def test_every_address_of_a_name_is_checked_and_kept(monkeypatch):
    """The name is asked for once: what it says later changes nothing."""
    answers = iter([["93.184.216.34"], ["169.254.169.254"], ["93.184.216.34", "10.0.0.1"]])
    monkeypatch.setattr(
        "socket.getaddrinfo", lambda host, port, **_: [(2, 1, 6, "", (ip, port)) for ip in next(answers)]
    )
    monkeypatch.setenv(URL_POLICY, "public")
    assert origin_of("http://turning.example").addresses == ((2, ("93.184.216.34", 80)),)
    for _ in range(2):
        with pytest.raises(MeasureError, match=r"turning\.example \("):
            origin_of("http://turning.example")


def test_the_proxy_is_checked_and_so_is_what_it_is_requested(monkeypatch):
    monkeypatch.setenv(URL_POLICY, "public")
    monkeypatch.setattr("socket.getaddrinfo", lambda host, port, **_: [(2, 1, 6, "", (host, port))])
    with pytest.raises(MeasureError) as caught:
        origin_of("http://93.184.216.34", proxy="http://127.0.0.1:3128")
    assert (caught.value.problem.code, caught.value.problem.at) == ("url-policy", "target.proxy")
    with pytest.raises(MeasureError) as caught:
        origin_of("http://169.254.169.254", proxy="http://93.184.216.34:3128")
    assert (caught.value.problem.code, caught.value.problem.at) == ("url-policy", "target.endpoint")


def test_the_metrics_are_checked(monkeypatch):
    monkeypatch.setenv(URL_POLICY, "public,private")
    with pytest.raises(MeasureError) as caught:
        reach(endpoint(endpoint="http://10.0.0.1", metrics="http://127.0.0.1:9100/metrics"), {}, Path())
    assert (caught.value.problem.code, caught.value.problem.at) == ("url-policy", "target.metrics")


def test_a_service_of_the_job_is_reached_on_loopback_and_nothing_else_there(monkeypatch):
    monkeypatch.setenv(URL_POLICY, "public")
    running = RunningService("llm", "127.0.0.1", 8123, "http://127.0.0.1:8123", 0, 0, None, "process", Path(), Path())
    place = reach(ServiceTarget(service="llm", api="openai-chat", metrics="/metrics"), {"llm": running}, Path())
    assert place.metrics_url == "http://127.0.0.1:8123/metrics"
    with pytest.raises(MeasureError) as caught:
        reach(ServiceTarget(service="llm", api="openai-chat", metrics="http://127.0.0.1:1/"), {"llm": running}, Path())
    assert caught.value.problem.at == "target.metrics"


def test_clients_beside_the_load_connect_nowhere_else(monkeypatch, site):
    monkeypatch.setenv(URL_POLICY, "public")
    with pytest.raises(MeasureError) as caught:
        JsonClient("Qdrant", site.url, headers={}, timeout_s=60).send_json("GET", "/")
    assert caught.value.problem.code == "url-policy"
    with pytest.raises(MeasureError):
        JsonClient("Qdrant", "http://93.184.216.34", headers={}, timeout_s=60, proxy=site.url).send_json("GET", "/")
    with pytest.raises(MeasureError):
        server_tokenizer(site.url, {}, "m")
    assert not site.seen


def test_clients_beside_the_load_reach_a_service_of_the_job(monkeypatch, site):
    monkeypatch.setenv(URL_POLICY, "public")
    rest = JsonClient("Qdrant", site.url, headers={}, timeout_s=60, own=True)
    assert rest.send("GET", "/", None).status_code == 200
    rest.close()


def test_metrics_are_read_from_the_address_that_was_checked(monkeypatch, site, tmp_path):
    url = f"http://no-such-name.invalid:{site.server_port}/metrics"
    with service_probe(
        scratch=tmp_path, scrapes={"service": url}, addresses={"service": "127.0.0.1"}, gpus=False
    ) as probe:
        seen = probe.finish((0, perf_counter_ns()))
    assert not seen.absent
    assert site.seen[0]["Host"] == f"no-such-name.invalid:{site.server_port}"


def test_secrets_of_the_target_do_not_go_to_metrics_of_another_host(monkeypatch):
    monkeypatch.setenv("KEY", "hush-hush")
    headers = {"Authorization": "Bearer ${env:KEY}", "X-Plain": "1"}
    same = reach(endpoint(endpoint="http://127.0.0.1:1", headers=headers, metrics="http://127.0.0.1:2/m"), {}, Path())
    assert same.metrics_headers == headers
    other = reach(endpoint(endpoint="http://127.0.0.1:1", headers=headers, metrics="http://127.0.0.2:2/m"), {}, Path())
    assert other.metrics_headers == {"X-Plain": "1"}


def test_secrets_do_not_pass_through_a_plain_proxy_of_an_agent(monkeypatch):
    monkeypatch.setenv(URL_POLICY, EVERYTHING)
    monkeypatch.setenv("KEY", "hush-hush")
    target = endpoint(endpoint="http://10.0.0.1", proxy="http://10.0.0.2:3128", headers={"Authorization": "${env:KEY}"})
    with pytest.raises(MeasureError, match="KEY") as caught:
        reach(target, {}, Path())
    assert caught.value.problem.code == "secret"
    monkeypatch.delenv(URL_POLICY)
    assert reach(target, {}, Path()).headers == {"Authorization": "hush-hush"}


@pytest.mark.parametrize(
    ("dsn", "at"),
    [
        ("postgresql://u@127.0.0.1/db", "url-policy"),
        ("postgresql://u@93.184.216.34,10.0.0.1/db", "url-policy"),
        ("postgresql://u@93.184.216.34/db?hostaddr=169.254.169.254", "url-policy"),
        ("postgresql:///db?host=/var/run/postgresql", "url-policy"),
        ("postgresql:///db", "url-policy"),
        ("postgresql://u@93.184.216.34/db?sslkey=/etc/secret.key", "endpoint"),
        ("postgresql://u@93.184.216.34/db?service=own", "endpoint"),
        ("postgresql://u@93.184.216.34/db?passfile=/home/a/.pgpass", "endpoint"),
    ],
)
def test_a_database_is_checked_like_every_endpoint(monkeypatch, dsn, at):
    pytest.importorskip("psycopg")
    monkeypatch.setenv(URL_POLICY, "public")
    with pytest.raises(MeasureError) as caught:
        checked_dsn(dsn)
    assert caught.value.problem.code == at


def test_a_database_is_reached_at_the_checked_address_without_passwords_of_the_agent(monkeypatch):
    conninfo = pytest.importorskip("psycopg.conninfo")
    dsn = "postgresql://u@db.example:5433/x"
    monkeypatch.delenv(URL_POLICY, raising=False)
    assert checked_dsn(dsn) == dsn
    monkeypatch.setenv(URL_POLICY, "public")
    monkeypatch.setattr("socket.getaddrinfo", lambda host, port, **_: [(2, 1, 6, "", ("93.184.216.34", port))])
    found = conninfo.conninfo_to_dict(checked_dsn(dsn))
    assert (found["host"], found["hostaddr"], found["port"]) == ("db.example", "93.184.216.34", "5433")
    assert (found["password"], found["passfile"]) == ("", "/dev/null")
