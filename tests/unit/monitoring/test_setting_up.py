"""What is written before anything runs: the section, Prometheus' configuration, target files, dashboards, tunnels."""

from __future__ import annotations

import json
import os
import shlex

import pytest
from typer.testing import CliRunner

from assay.cli.main import app
from assay.errors import MeasureError, SpecError, UsageError
from assay.monitoring import discovery
from assay.monitoring.grafana import grafana_files
from assay.monitoring.prometheus import Tunnel, configuration, find_program, prometheus_service
from assay.monitoring.scraper import MonitorOrder, order_for, read_order, write_order
from assay.run.services import RunningService
from assay.run.services.discovery import VARIABLE, ServiceDiscovery, announced, metrics_url
from assay.spec.benchmark import Monitoring, monitoring_of
from assay.spec.load import load

PLAIN = {"benchmark": "b", "target": {"command": "true"}}


def settings_in(section):
    return monitoring_of(load({**PLAIN, "monitoring": section}).benchmark.monitoring)


def test_the_section_is_a_switch_or_more():
    assert monitoring_of(load(PLAIN).benchmark.monitoring) is None
    assert settings_in(False) is None
    assert settings_in(True) == Monitoring()
    assert settings_in(True).interval == 1.0
    assert settings_in({"interval": "500ms", "keep": "all"}).interval == 0.5


@pytest.mark.parametrize(
    "section",
    [{"intervall": "1s"}, {"interval": "1ms"}, {"program": "p", "image": "i"}, {"container": "podman"}, "yes",
     {"listen": "a b"}, {"port": 0}],
)  # fmt: skip
def test_what_means_nothing_is_refused(section):
    with pytest.raises(SpecError):
        settings_in(section)


def test_monitoring_does_not_change_what_a_job_is():
    from assay.run.inputs import plan_of

    digests = {plan_of(load({**PLAIN, "monitoring": one})).jobs[0].digest for one in (False, True)}
    assert len(digests) == 1


def test_a_missing_program_is_reported_with_what_to_do(tmp_path):
    with pytest.raises(MeasureError) as told:
        find_program(Monitoring(), {"PATH": str(tmp_path)})
    assert told.value.problem.code == "no-prometheus"
    assert "apt-get install prometheus" in told.value.problem.try_


def test_the_program_is_the_files_then_the_environments_then_the_paths(tmp_path):
    for name in ("prometheus", "mine", "theirs"):
        (tmp_path / name).write_text("#!/bin/sh\n")
        (tmp_path / name).chmod(0o755)
    env = {"PATH": str(tmp_path)}
    assert find_program(Monitoring(), env) == str(tmp_path / "prometheus")
    assert find_program(Monitoring(), {**env, "ASSAY_PROMETHEUS": "mine"}) == str(tmp_path / "mine")
    both = {**env, "ASSAY_PROMETHEUS": "mine"}
    assert find_program(Monitoring(program=str(tmp_path / "theirs")), both) == str(tmp_path / "theirs")
    assert find_program(Monitoring(image="prom/prometheus"), {"PATH": ""}) is None


def test_an_image_sees_its_folders_and_may_write_its_data(tmp_path):
    found = tmp_path / "discovery"
    found.mkdir()
    service = prometheus_service(Monitoring(image="docker://prom/prometheus:v3", container="podman"), tmp_path, found)
    assert service.command[0] == "prometheus"
    assert "--storage.tsdb.path=/assay-monitoring/data" in service.command
    assert service.mounts == {str(tmp_path): "/assay-monitoring", str(found): "/assay-monitoring/discovery"}
    assert (tmp_path / "data").stat().st_mode & 0o777 == 0o777
    told = json.loads((tmp_path / "prometheus.yml").read_text())
    assert told["scrape_configs"][0]["file_sd_configs"][0]["files"] == ["/assay-monitoring/discovery/*.json"]


def test_prometheus_listens_on_the_loopback_alone_unless_set(tmp_path):
    for listen in ("127.0.0.1", "0.0.0.0"):
        words = prometheus_service(Monitoring(listen=listen, program="true"), tmp_path, tmp_path).command
        assert f"--web.listen-address={listen}:{{port}}" in words


def test_the_interval_is_that_of_the_file():
    told = configuration("/d", Monitoring(interval="250ms"))
    assert told["global"] == {"scrape_interval": "250ms", "scrape_timeout": "250ms"}


def test_a_target_file_says_where_and_whose(tmp_path):
    target = discovery.ScrapeTarget("a", "host:8443", {"node": "n1", "job": ""}, "/m?x=1", "https")
    discovery.add_target(tmp_path, target)
    (told,) = json.loads((tmp_path / "a.json").read_text())
    assert told == {
        "targets": ["host:8443"],
        "labels": {"node": "n1", "__metrics_path__": "/m?x=1", "__scheme__": "https"},
    }
    assert discovery.names(tmp_path) == {"a"}
    discovery.remove_target(tmp_path, "a")
    discovery.remove_target(tmp_path, "a")
    assert discovery.names(tmp_path) == set()


def test_waiting_for_a_first_scrape_ends(tmp_path):
    discovery.note_scraped(tmp_path, {"a", "b"})
    assert discovery.wait_until_scraped(tmp_path, ["a"], 5.0) == set()
    assert discovery.wait_until_scraped(tmp_path, ["a", "c"], 0.0) == {"c"}


def running(tmp_path, port=8000):
    log = tmp_path / "service-llm.out"
    return RunningService("llm", "127.0.0.1", port, f"http://127.0.0.1:{port}", 1, 2, None, "process", log, log)


def test_a_service_is_announced_for_as_long_as_it_lives(tmp_path, monkeypatch):
    relay, lives = tmp_path / "relay", tmp_path / "lives"
    where = ServiceDiscovery(relay, lives, {"job": "j", "node": "n1"}, {"llm": "/m"})
    monkeypatch.setenv(VARIABLE, where.text())
    assert ServiceDiscovery.of(os.environ) == where
    with announced({"llm": running(tmp_path)}):
        assert json.loads((relay / "llm.json").read_text()) == {"url": "http://127.0.0.1:8000/m"}
        (life,) = discovery.lives(tmp_path)
        assert life.end_s is None
    assert not (relay / "llm.json").exists()
    (life,) = discovery.lives(tmp_path)
    assert (life.service, life.labels) == ("llm", {"job": "j", "node": "n1"})
    assert life.begin_s <= life.end_s
    assert life.belongs({"service": "llm", "node": "n1"})
    assert not life.belongs({"service": "llm", "node": "n2"})
    assert not life.belongs({"service": "db", "node": "n1"})


def test_without_monitoring_nothing_is_announced(tmp_path, monkeypatch):
    monkeypatch.delenv(VARIABLE, raising=False)
    with announced({"llm": running(tmp_path)}) as same:
        assert set(same) == {"llm"}
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_is_gone_never_costs_a_run(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv(VARIABLE, ServiceDiscovery(tmp_path / "file", tmp_path / "file").text())
    with announced({"llm": running(tmp_path)}) as same:
        assert set(same) == {"llm"}


def test_metrics_are_at_the_servers_root_or_where_the_file_says():
    assert metrics_url(None, "http://h:1/v1/") == "http://h:1/metrics"
    assert metrics_url("/m", "http://h:1/v1") == "http://h:1/m"
    assert metrics_url("http://o:2/x", "http://h:1") == "http://o:2/x"


def test_the_order_of_a_cluster_knows_the_exporter_of_its_nodes():
    place = {"engine": "slurm", "slurm": {"node_exporter": 9100}}
    asked = load({**PLAIN, "place": place, "monitoring": True}).benchmark
    assert order_for("c1", asked) == MonitorOrder("c1", Monitoring(node_exporter=9100))
    own = load({**PLAIN, "place": place, "monitoring": {"node_exporter": 9200}}).benchmark
    assert order_for("c1", own).settings.node_exporter == 9200
    assert order_for("c1", load({**PLAIN, "place": place}).benchmark) is None


def test_an_order_travels_through_the_folder(tmp_path):
    order = MonitorOrder("c1", Monitoring(interval="2s"))
    assert read_order(tmp_path) is None
    write_order(tmp_path, order)
    assert read_order(tmp_path) == order


def test_the_dashboards_are_there_and_ask_for_what_there_is(tmp_path):
    files = grafana_files(tmp_path, "http://p:9090", "/d")
    boards = {name: json.loads(text) for name, text in files.items() if name.startswith("dashboards/")}
    assert set(boards) == {
        f"dashboards/{name}.json" for name in ("overview", "service-nodes", "client-nodes", "gpus", "tokens")
    }
    assert len({one["uid"] for one in boards.values()}) == len(boards)
    for board in boards.values():
        assert board["panels"]
        assert len({panel["id"] for panel in board["panels"]}) == len(board["panels"])
        assert all(
            target["expr"] and target["legendFormat"] for panel in board["panels"] for target in panel["targets"]
        )
    source = json.loads(files["provisioning/datasources/assay.yaml"])["datasources"][0]
    assert (source["type"], source["url"]) == ("prometheus", "http://p:9090")
    provider = json.loads(files["provisioning/dashboards/assay.yaml"])["providers"][0]
    assert provider["options"]["path"] == str(tmp_path / "dashboards")
    assert "prometheus.yml" not in grafana_files(tmp_path, "http://p:9090")


def test_the_files_are_written_where_grafana_can_read_them(tmp_path):
    done = CliRunner().invoke(app, ["monitoring", "files", str(tmp_path / "g")])
    assert done.exit_code == 0
    assert (tmp_path / "g/dashboards/gpus.json").stat().st_mode & 0o444 == 0o444


def test_a_tunnel_is_a_command_that_is_only_printed():
    assert shlex.split(Tunnel("me@login", "n12", 9090).text().splitlines()[0]) == [
        "ssh",
        "-N",
        "-J",
        "me@login",
        "-L",
        "9090:127.0.0.1:9090",
        "n12",
    ]
    assert Tunnel("login", "n12", 9090, 8080, "0.0.0.0").words() == ["ssh", "-N", "-L", "8080:n12:9090", "login"]
    done = CliRunner().invoke(app, ["monitoring", "tunnel", "me@login", "n12", "--port", "4321"])
    assert done.output.splitlines()[0] == "ssh -N -J me@login -L 9090:127.0.0.1:4321 n12"


@pytest.mark.parametrize("name", ["-oProxyCommand=sh", "a;b", "a b", "", "$(x)", "me@-x"])
def test_a_tunnel_to_no_host_is_refused(name):
    with pytest.raises(UsageError):
        Tunnel(name, "n1", 1).words()
    with pytest.raises(UsageError):
        Tunnel("login", name, 1).words()


def test_a_tunnel_finds_the_monitor_of_a_campaign(tmp_path):
    (tmp_path / "services/monitor").mkdir(parents=True)
    runner = CliRunner()
    assert isinstance(runner.invoke(app, ["monitoring", "tunnel", "login", str(tmp_path)]).exception, UsageError)
    (tmp_path / "services/monitor/monitor.json").write_text('{"node": "n7", "port": 5555, "listen": "127.0.0.1"}')
    done = runner.invoke(app, ["monitoring", "tunnel", "login", str(tmp_path)])
    assert "9090:127.0.0.1:5555 n7" in done.output


def endpoint_job(**more):
    from assay.run.inputs import plan_of

    target = {"endpoint": "http://127.0.0.1:8000/v1", "api": "openai-chat", "model": "m", **more}
    document = {"benchmark": "b", "target": target, "load": {"concurrency": 1, "requests": 1}}
    return plan_of(load(document)).submitted_as("c1").jobs[0]


def test_an_endpoint_of_another_else_is_watched_where_the_file_says_so(tmp_path):
    from assay.monitoring.monitor import _Here, _names

    where = ServiceDiscovery(tmp_path / "relay", tmp_path / "lives", {"campaign": "c1", "node": "n1"})
    told = endpoint_job(metrics="/metrics")
    assert _names([told]) == ["endpoint"]
    with _Here(None, where, tmp_path, print).job(told):
        assert json.loads((tmp_path / "relay/endpoint.json").read_text()) == {"url": "http://127.0.0.1:8000/metrics"}
        assert ServiceDiscovery.of(os.environ).labels["job"] == told.id
    assert VARIABLE not in os.environ
    assert discovery.lives(tmp_path)[0].end_s is not None
    assert _names([endpoint_job()]) == []
    assert _names([endpoint_job(metrics="http://h/${env:KEY}")]) == []  # an address with a secret is never written
