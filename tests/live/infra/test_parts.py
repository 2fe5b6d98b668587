"""How the parts of a system are started: in order, with no secret where others can read it."""

from __future__ import annotations

import signal
from itertools import chain, combinations
from pathlib import Path

import pytest

from assay.infra.processes.parts import OPTIONAL, PREPARE, LocalRecord, parts_of
from assay.infra.processes.setup import prometheus_settings, redis_conf
from assay.infra.processes.supervisor import inherited
from assay.infra.record import make_keys

SUBSETS = list(chain.from_iterable(combinations(OPTIONAL, size) for size in range(len(OPTIONAL) + 1)))


def local(without=(), **changes):
    ports = {"server": 8080, "postgresql": 5433, "redis": 6380, "prometheus": 9091}
    programs = {
        "postgresql": "/usr/lib/postgresql/15/bin/postgres",
        "redis": "/usr/bin/redis-server",
        "prometheus": "/usr/bin/prometheus",
    }
    given = {
        "version": "0",
        "created_at": 0.0,
        "tag": "t4g",
        "host": "127.0.0.1",
        "accounts": {},
        "ports": {part: port for part, port in ports.items() if part not in without},
        "programs": {part: path for part, path in programs.items() if part not in without},
        "agent": "agent" not in without,
    }
    return LocalRecord(**{**given, **changes})


@pytest.fixture
def keys(tmp_path):
    return make_keys(tmp_path)


@pytest.mark.parametrize("without", SUBSETS, ids=lambda names: "+".join(names) or "nothing")
def test_every_part_comes_after_those_that_it_needs(tmp_path, keys, without):
    names = [one.name for one in parts_of(tmp_path, local(without), keys)]
    assert set(names) == {PREPARE, "server", *OPTIONAL} - set(without)
    order = ["postgresql", "redis", PREPARE, "server", "agent"]
    assert [name for name in names if name in order] == [name for name in order if name in names]


@pytest.mark.parametrize("without", SUBSETS, ids=lambda names: "+".join(names) or "nothing")
def test_no_secret_is_a_word_of_a_command(tmp_path, keys, without):
    for part in parts_of(tmp_path, local(without), keys):
        said = " ".join(part.command)
        for secret in (keys.admin, keys.agent, keys.reader, keys.database, keys.redis):
            assert secret not in said
            assert secret not in repr(part)


def test_the_server_gets_the_address_of_its_database_and_queue_or_uses_neither(tmp_path, keys):
    server = next(one for one in parts_of(tmp_path, local(), keys) if one.name == "server")
    assert server.env["ASSAY_SERVER_DATABASE_URL"] == f"postgresql://assay:{keys.database}@127.0.0.1:5433/assay"
    assert server.env["ASSAY_SERVER_REDIS_URL"] == f"redis://:{keys.redis}@127.0.0.1:6380/0"
    assert "--closed" in server.command
    small = next(one for one in parts_of(tmp_path, local(("postgresql", "redis")), keys) if one.name == "server")
    assert "ASSAY_SERVER_DATABASE_URL" not in small.env
    assert "ASSAY_SERVER_REDIS_URL" not in small.env


def test_the_step_before_the_server_has_the_same_database_and_the_tokens(tmp_path, keys):
    parts = {one.name: one for one in parts_of(tmp_path, local(), keys)}
    step = parts[PREPARE]
    assert step.once
    assert step.env["ASSAY_SERVER_DATABASE_URL"] == parts["server"].env["ASSAY_SERVER_DATABASE_URL"]
    assert step.env["ASSAY_INFRA_TOKEN_AGENT"] == keys.agent
    assert not any(name.startswith("ASSAY_INFRA_TOKEN") for name in parts["server"].env)


def test_postgresql_sends_its_clients_away_when_it_is_asked_to_end(tmp_path, keys):
    parts = {one.name: one for one in parts_of(tmp_path, local(), keys)}
    assert parts["postgresql"].stop == signal.SIGINT
    assert "listen_addresses=127.0.0.1" in parts["postgresql"].command


def test_what_an_agent_fetches_and_writes_lies_in_the_folder(tmp_path, keys):
    record = local(allow=("command",))
    agent = next(one for one in parts_of(tmp_path, record, keys) if one.name == "agent")
    for name in ("ASSAY_CACHE", "TMPDIR"):
        assert Path(agent.env[name]).is_relative_to(tmp_path)
    assert agent.command[agent.command.index("--state") + 1] == str(tmp_path / "agent")
    assert agent.command[-2:] == ("--allow", "command")
    assert "infra=t4g" in agent.command


def test_only_our_own_parts_see_the_environment_of_the_user(tmp_path, keys):
    for part in parts_of(tmp_path, local(), keys):
        assert part.inherits == (part.name in (PREPARE, "server", "agent"))
        assert part.env["ASSAY_INFRA_TAG"] == "t4g"


def test_settings_of_another_server_are_not_inherited():
    given = {
        "PATH": "/bin",
        "ASSAY_SERVER": "http://other",
        "ASSAY_SERVER_PORT": "1",
        "ASSAY_TOKEN": "x",
        "ASSAY_TOKEN_FILE": "y",
        "ASSAY_STORE": "z",
        "ASSAY_INFRA": "i",
        "ASSAY_AGENT_ALLOW": "command",
        "HF_HOME": "/models",
    }
    assert inherited(given) == {"PATH": "/bin", "HF_HOME": "/models"}


@pytest.mark.parametrize(("host", "url"), [("0.0.0.0", "http://127.0.0.1:8080"), ("10.0.0.5", "http://10.0.0.5:8080"),
                                           ("::1", "http://[::1]:8080"), ("::", "http://127.0.0.1:8080")])  # fmt: skip
def test_the_address_of_the_server_is_one_that_can_be_reached(host, url):
    assert local(host=host).server_url == url


def test_addresses_for_people_hold_no_secret(keys):
    record = local()
    for part in ("postgresql", "redis", "prometheus", "server", "agent"):
        assert keys.database not in record.address(part)
        assert keys.redis not in record.address(part)
    assert record.address("prometheus") == "http://127.0.0.1:9091"


def test_redis_is_closed_and_loses_no_job_to_a_full_memory(tmp_path, keys):
    text = redis_conf(tmp_path, local(), keys)
    assert f"requirepass {keys.redis}\n" in text
    assert "bind 127.0.0.1\n" in text
    assert "maxmemory-policy noeviction\n" in text


def test_prometheus_reads_its_token_from_a_file(tmp_path, keys):
    settings = prometheus_settings(tmp_path, local())
    assert keys.reader not in str(settings)
    server = settings["scrape_configs"][0]
    assert server["static_configs"] == [{"targets": ["127.0.0.1:8080"]}]
    assert server["authorization"]["credentials_file"] == str(tmp_path / "reader.token")
