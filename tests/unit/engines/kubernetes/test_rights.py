"""The Role that is shipped grants what the engine asks for, and nothing else."""

from pathlib import Path

import pytest
from ruamel.yaml import YAML
from tests.support.kube.schema import RELEASES, problems

from assay.engines.kubernetes.client.api import NEEDED, WANTED

ROLE = Path(__file__).parents[4] / "deploy" / "kubernetes" / "role.yaml"


def documents():
    return [dict(one) for one in YAML(typ="safe").load_all(ROLE.read_text(encoding="utf-8"))]


def granted():
    (role,) = [one for one in documents() if one["kind"] == "Role"]
    for rule in role["rules"]:
        for group in rule["apiGroups"]:
            for resource in rule["resources"]:
                for verb in rule["verbs"]:
                    plain, slash, part = resource.partition("/")
                    yield verb, plain + (f".{group}" if group else "") + slash + part


def test_the_role_grants_exactly_what_is_needed():
    assert sorted(granted()) == sorted((right.verb, right.resource) for right in (*NEEDED, *WANTED))


def test_nothing_reaches_beyond_the_namespace():
    assert [one["kind"] for one in documents()] == ["ServiceAccount", "Role", "RoleBinding"]
    assert not any("*" in (verb, resource) for verb, resource in granted())


@pytest.mark.parametrize("release", RELEASES)
def test_every_release_takes_the_role_as_it_is(release):
    assert [problems(one, release) for one in documents()] == [[], [], []]


def test_no_secret_is_ever_read():
    assert not {verb for verb, resource in granted() if resource == "secrets"} & {"get", "list", "watch"}
