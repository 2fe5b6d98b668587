"""Clusters by name."""

from __future__ import annotations

import pytest

from assay.engines.slurm.draft import add, cluster, clusters, registry_file, remove, resolved
from assay.errors import UsageError
from assay.spec.slurm import Batch, Slurm


@pytest.fixture(autouse=True)
def _own_file(tmp_path, monkeypatch):
    monkeypatch.setenv("ASSAY_CLUSTERS", str(tmp_path / "clusters.yaml"))


def test_what_is_added_is_read_back_and_can_be_removed():
    add("big", {"partition": "gpu", "time": "2h", "modules": ["CUDA/12.4"], "each": {"monitor": {"cpus": 1}}})
    add("small", {})
    assert set(clusters()) == {"big", "small"}
    assert (cluster("big").partition, cluster("big").time, cluster("big").modules) == ("gpu", 7200.0, ("CUDA/12.4",))
    remove("small")
    assert set(clusters()) == {"big"}
    assert registry_file().stat().st_mode & 0o777 == 0o600


def test_a_file_takes_the_settings_of_its_cluster_where_it_is_silent():
    add("big", {"partition": "gpu", "account": "p1", "each": {"monitor": {"cpus": 2}}})
    own = Slurm(cluster="big", account="p2", each={"llm": Batch(cpus=8)})
    found = resolved(own)
    assert (found.partition, found.account) == ("gpu", "p2")
    assert {name: one.cpus for name, one in found.each.items()} == {"monitor": 2, "llm": 8}
    assert resolved(None) == Slurm()


@pytest.mark.parametrize("text", ["yes", "a: b", "#1", "null", "  x", "é", "1e3"])
def test_no_value_is_read_as_something_else(text):
    add("x", {"constraint": text})
    assert cluster("x").constraint == text


@pytest.mark.parametrize(
    ("section", "words"),
    [
        ({"partitio": "p"}, "partitio"),
        ({"cluster": "y"}, "another cluster"),
        ({"rest": "http://h", "rest_token": "secret-token"}, "holds the token itself"),
        ({"nodes": 0}, "nodes"),
    ],
)
def test_a_wrong_section_is_refused_and_nothing_is_written(section, words):
    with pytest.raises(UsageError, match=words) as caught:
        add("x", section)
    assert "secret-token" not in str(caught.value)
    assert not registry_file().exists()


def test_names_and_files_that_are_none():
    with pytest.raises(UsageError, match="not a valid name for a cluster"):
        add("../x", {})
    with pytest.raises(UsageError, match="no cluster is called 'x'"):
        cluster("x")
    registry_file().write_text("x: 3\n")
    with pytest.raises(UsageError, match="is no section"):
        clusters()
