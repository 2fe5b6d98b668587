"""Names and labels that Kubernetes takes, whatever the parts are called, and that are found again."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.engines.kubernetes.objects import names
from assay.engines.kubernetes.objects.names import Part
from assay.errors import MeasureError

LABEL = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
VALUE = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?")
WORDS = st.text(min_size=1, max_size=80)


@given(st.lists(WORDS, min_size=1, max_size=4))
def test_every_name_is_a_name_also_with_an_index_behind_it(parts):
    made = names.name("c0ffee12", *parts)
    assert LABEL.fullmatch(made)
    assert len(f"{made}-1023") <= 63


@given(st.tuples(WORDS, WORDS), st.tuples(WORDS, WORDS))
def test_different_services_have_different_names(one, other):
    first, second = (names.service_name("c0ffee12", *parts) for parts in (one, other))
    same = "-".join(one) == "-".join(other)  # groups are named by assay itself, so that these never meet
    assert (first == second) == (one == other) or same


@given(WORDS)
def test_every_text_becomes_a_value_of_a_label(text):
    made = names.value(text)
    assert VALUE.fullmatch(made)
    assert 0 < len(made) <= 63


@given(WORDS, WORDS)
def test_different_texts_become_different_values(one, other):
    assert (names.value(one) == names.value(other)) == (one == other)


def test_names_that_people_read():
    assert names.job_name("c0ffee12", 7) == "assay-c0ffee12-job-7"
    assert names.job_name("c0ffee12", 7, attempt=2) == "assay-c0ffee12-job-7-a2"
    assert names.job_name("c0ffee12", 7, rank=3) == "assay-c0ffee12-job-7-r3"
    assert names.service_name("c0ffee12", "point-0000", "llm") == "assay-c0ffee12-point-0000-llm"
    assert names.service_name("c0ffee12", "point-0000", "My_LLM").startswith("assay-c0ffee12-point-0000-my-llm-")
    assert names.host_of("assay-x", "bench") == "assay-x.bench.svc"


@pytest.mark.parametrize(
    "part",
    [
        Part("c0ffee12", "job", "jobs", 0, 1),
        Part("c0ffee12", "job", "ranks-0003", 3, 2, rank=1),
        Part("c0ffee12", "service", "point-0000", service="llm"),
        Part("c0ffee12", "secrets"),
    ],
)
def test_a_part_is_read_back_from_its_labels(part):
    assert names.part_of({"metadata": {"labels": part.labels()}}) == part
    assert part.selector().startswith("app.kubernetes.io/managed-by=assay,assay/campaign=c0ffee12,assay/role=")


@pytest.mark.parametrize(
    "labels",
    [
        {},
        {"app.kubernetes.io/managed-by": "assay"},
        {"app.kubernetes.io/managed-by": "helm", "assay/campaign": "c", "assay/role": "job"},
        {"app.kubernetes.io/managed-by": "assay", "assay/campaign": "c", "assay/role": "something"},
    ],
)
def test_objects_of_others_are_no_parts(labels):
    assert names.part_of({"metadata": {"labels": labels}}) is None
    assert names.part_of({}) is None


def test_a_campaign_is_found_by_its_labels():
    assert names.of_campaign("c0ffee12") == "app.kubernetes.io/managed-by=assay,assay/campaign=c0ffee12"
    assert names.of_campaign("c0ffee12", role="job").endswith(",assay/role=job")


def test_an_object_of_another_else_is_not_taken_for_ours():
    wanted = {"kind": "Job", "metadata": {"name": "x", "labels": Part("c1", "job").labels()}}
    names.refuse_foreign(wanted, wanted)
    for labels in (Part("c2", "job").labels(), {}, {"assay/campaign": "c1"}):
        with pytest.raises(MeasureError, match="already a Job x") as caught:
            names.refuse_foreign({"metadata": {"labels": labels}}, wanted)
        assert caught.value.problem.code == "kubernetes-exists"
