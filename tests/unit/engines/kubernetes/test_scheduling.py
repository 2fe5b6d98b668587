"""The scheduler's words: why no node was found, whether to wait, and what to change."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.engines.kubernetes.objects.pods import unplaced

TAINT = "node(s) had taint {node-role.kubernetes.io/master: }, that the pod didn't tolerate"


@pytest.mark.parametrize(
    ("message", "reasons", "outlook", "hint"),
    [
        ("0/1 nodes are available: 1 Insufficient cpu.", [(1, "Insufficient cpu")], "unsure", "needs.cpus"),
        (
            f"0/3 nodes are available: 1 {TAINT}, 2 Insufficient nvidia.com/gpu.",
            [(1, TAINT), (2, "Insufficient nvidia.com/gpu")],
            "unsure",
            "needs.gpus",
        ),
        (
            (
                "0/2 nodes are available: 1 node(s) had untolerated taint {gpu: a100}, 1 node(s) didn't match Pod's "
                "node affinity/selector. preemption: 0/2 nodes are available: 2 Preemption is not helpful for "
                "scheduling.."
            ),
            [
                (1, "node(s) had untolerated taint {gpu: a100}"),
                (1, "node(s) didn't match Pod's node affinity/selector"),
            ],
            "lasting",
            "'gpu=a100'",
        ),
        (
            "0/2 nodes are available: 2 node(s) didn't match node selector.",
            [(2, "node(s) didn't match node selector")],
            "lasting",
            "node_selector",
        ),
        (
            (
                "0/3 nodes are available: 1 node(s) didn't match pod anti-affinity rules, 2 node(s) had untolerated "
                "taint {gpu: a100}."
            ),
            [(1, "node(s) didn't match pod anti-affinity rules"), (2, "node(s) had untolerated taint {gpu: a100}")],
            "busy",
            "one_per_node",
        ),
        (
            (
                "0/1 nodes are available: 1 node(s) had taint {node.kubernetes.io/unreachable: }, that the pod didn't "
                "tolerate."
            ),
            [(1, "node(s) had taint {node.kubernetes.io/unreachable: }, that the pod didn't tolerate")],
            "unsure",
            "node.kubernetes.io/unreachable",
        ),
        (
            "0/3 nodes are available: pod has unbound immediate PersistentVolumeClaims.",
            [(None, "pod has unbound immediate PersistentVolumeClaims")],
            "lasting",
            "kubectl get pvc",
        ),
        ('claim "data" not found', [(None, 'claim "data" not found')], "lasting", "describe"),
        ('persistentvolumeclaim "a" not found', [(None, 'persistentvolumeclaim "a" not found')], "lasting", "pvc"),
        ("no nodes available to schedule pods", [(None, "no nodes available to schedule pods")], "unsure", "describe"),
        ("0/1 nodes are available: 1 node(s) were unschedulable.", [(1, "node(s) were unschedulable")], "unsure",
         "uncordon"),
    ],
)  # fmt: skip
def test_the_reasons_are_distinguished(message, reasons, outlook, hint):
    found = unplaced(message)
    assert list(found.reasons) == reasons
    assert found.outlook == outlook
    assert hint in found.try_
    assert "preemption" not in found.message.lower()


def test_every_short_resource_has_its_own_key():
    found = unplaced("0/2 nodes are available: 1 Insufficient memory, 2 Insufficient ephemeral-storage.")
    assert "needs.memory" in found.try_
    assert "place.kubernetes.storage" in found.try_


@given(st.text(max_size=200))
def test_words_that_nobody_knows_are_kept_and_break_nothing(text):
    found = unplaced(text)
    assert found.outlook in ("busy", "unsure", "lasting")
    assert found.try_
