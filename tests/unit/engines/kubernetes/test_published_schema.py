"""Every object that assay makes is one that the published API of every release knows, field by field."""

import pytest
from tests.support.kube.manifests import FILES, manifests
from tests.support.kube.schema import RELEASES, minor_of, problems

NEWEST = RELEASES[-1]
OLDEST = RELEASES[0]
EACH = [
    release if release in (OLDEST, NEWEST) else pytest.param(release, marks=pytest.mark.nightly) for release in RELEASES
]


def test_old_and_new_releases_are_recorded():
    minors = [minor_of(release) for release in RELEASES]
    assert minors[0] == 20
    assert minors[-1] >= 34
    # The releases in which fields that assay writes came in.
    assert {21, 22, 26, 29} <= set(minors)


@pytest.mark.parametrize("release", EACH)
@pytest.mark.parametrize("name", FILES)
def test_a_release_knows_every_field_of_what_it_is_given(name, release):
    made = manifests(name, minor_of(release))
    assert {(one["kind"], one["metadata"]["name"]): problems(one, release) for one in made} == {
        (one["kind"], one["metadata"]["name"]): [] for one in made
    }
    assert len({(one["kind"], one["metadata"]["name"]) for one in made}) == len(made), "every name is there once"


@pytest.mark.parametrize(
    ("field", "file"),
    [
        ("completionMode", "ranks"),
        ("podFailurePolicy", "plain"),
        ("podReplacementPolicy", "plain"),
        ("namespaceSelector", "plain"),
    ],
)
def test_newer_fields_are_used_where_they_are_known_and_would_be_dropped_by_older_servers(field, file):
    made = [one for one in manifests(file, minor_of(NEWEST)) if one["kind"] == "Job"]
    assert any(field in str(one) for one in made)
    assert any(field in line for one in made for line in problems(one, OLDEST))
    assert not any(field in str(one) for one in manifests(file, minor_of(OLDEST)))


@pytest.mark.parametrize("release", EACH)
def test_what_is_wrong_is_found(release):
    job = next(one for one in manifests("plain", minor_of(release)) if one["kind"] == "Job")
    pod = job["spec"]["template"]["spec"]
    pod["nodeSelektor"] = {"zone": "a"}
    pod["containers"][0]["env"].append({"value": "without a name"})
    job["spec"]["backoffLimit"] = "none"
    told = "\n".join(problems(job, release))
    assert "nodeSelektor" in told
    assert "'name' is a required property" in told
    assert "'none' is not of type" in told
    assert problems({"apiVersion": "batch/v1", "kind": "Jop"}, release) == [f"{release} has no batch/v1 Jop"]
