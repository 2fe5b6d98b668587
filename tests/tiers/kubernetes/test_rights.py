"""What a person needs to be allowed is what the shipped Role allows: no more, and no less."""

from __future__ import annotations

import json

from tests.tiers.kubernetes.kubernetes_cluster import PERSON
from tests.tiers.kubernetes.site import ROLE, Site
from tests.tiers.kubernetes.test_services import served

# What only some campaigns need: results that are too large for a log (newer servers want `create` for it), a pod whose
# node is lost, what a killed process had made already, and what mostly goes by itself with its owner.
RARE = {("create", "pods/exec"), ("get", "pods/exec"), ("delete", "pods"), ("get", "configmaps"), ("get", "services"),
        ("get", "deployments"), ("get", "jobs"),
        ("delete", "services"), ("delete", "deployments"), ("delete", "configmaps")}  # fmt: skip


def granted(site: Site) -> set[tuple[str, str]]:
    """Every right of the Role, as verb and resource."""
    (role,) = site.cluster.admin.listed("roles", site.namespace)
    return {(verb, resource) for rule in role["rules"] for resource in rule["resources"] for verb in rule["verbs"]}


def used(site: Site) -> set[tuple[str, str]]:
    """Everything that this person asked the server for in the namespace, as its own record has it."""
    found = set()
    for line in site.cluster.audit_log.read_text().splitlines():
        event = json.loads(line)
        thing = event.get("objectRef") or {}
        if event["user"]["username"] == PERSON and thing.get("namespace") == site.namespace:
            part = f"/{thing['subresource']}" if thing.get("subresource") else ""
            found.add((event["verb"], f"{thing['resource']}{part}"))
    return found


def test_the_check_says_that_everything_needed_is_allowed(site):
    assert site.assay("kubernetes", "check").wait(60) == 0, site.said()
    assert "v1.20.2" in site.said()
    assert site.namespace in site.said()


def test_the_check_names_what_is_missing_and_where_to_get_it(new_site):
    site = new_site(granted=False)
    assert site.assay("kubernetes", "check").wait(60) != 0
    assert "jobs" in site.said()
    assert "role.yaml" in site.said()


def test_without_rights_nothing_is_begun(new_site):
    site = new_site(granted=False)
    assert site.start(site.document()).wait(60) == 3, site.said()
    assert "kubernetes-forbidden" in site.said()
    assert site.left() == []


def test_a_missing_namespace_is_reported(site):
    assert site.start(site.document(kubernetes={"namespace": "nowhere"})).wait(60) == 3, site.said()
    assert "nowhere" in site.said()


def test_every_right_of_the_role_is_used_and_no_other_is_requested(site):
    assert site.start(served(site, kubernetes={"clients": 2}), "--fail-on", "never").wait(180) == 0, site.said()
    process = site.start(site.points(2, kubernetes={"secrets": {"TOKEN": "${env:HOME}"}}))
    site.begun(2)
    campaign = site.newest()
    assert site.assay("logs", campaign).wait(60) == 0, site.said()
    site.go()
    assert process.wait(90) == 0, site.said()
    assert site.assay("kubernetes", "check").wait(60) == 0, site.said()
    site.start(site.document(), "--detach").wait(60)
    site.begun()
    assert site.assay("campaigns", "cancel", site.newest()).wait(90) == 0, site.said()
    site.until_nothing_left()
    assert used(site) - granted(site) == set()
    unused = granted(site) - used(site) - RARE
    assert unused == set(), f"{ROLE} allows more than is needed: {sorted(unused)}"
