"""What Kubernetes tells, and what it means to a user: whether a job ended, why, what to change, what it waits for."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.engines.kubernetes.objects.plan import PodResources
from assay.engines.kubernetes.observation import moment, observe, read_event, read_job, read_pod
from assay.engines.kubernetes.phases import (
    digest_of,
    facts_of,
    failure_of,
    phase_of,
    service_failure_of,
    waiting_words,
)

NOW = datetime(2026, 11, 15, 12, 0, tzinfo=UTC)
ASKED = PodResources(memory=2**30, deadline_s=90.0)


def at(ago_s: float) -> str:
    return (NOW - timedelta(seconds=ago_s)).strftime("%Y-%m-%dT%H:%M:%SZ")


def job(uid="j-1", **status):
    meta = {"name": "assay-c1-job-0", "uid": uid, "creationTimestamp": at(600), "labels": status.pop("labels", {})}
    return {"metadata": meta, "spec": status.pop("spec", {}), "status": status}


def pod(name="p", uid="u-1", node="n1", phase="Running", meta=None, containers=(), conditions=(), **status):
    return {
        "metadata": {"name": name, "uid": uid, "creationTimestamp": at(500), **(meta or {})},
        "spec": {"nodeName": node} if node else {},
        "status": {
            "phase": phase,
            "startTime": at(400) if node else None,
            "conditions": list(conditions),
            "containerStatuses": list(containers),
            **status,
        },
    }


def container(state, name="job", **more):
    return {"name": name, "image": "assay:1", "imageID": "", "restartCount": 0, "state": state, **more}


def running(name="job", **more):
    return container({"running": {"startedAt": at(300)}}, name, ready=True, **more)


def ended(code, reason="Error", name="job", ago_s=10.0, message="", **more):
    told = {"exitCode": code, "reason": reason, "message": message, "startedAt": at(300), "finishedAt": at(ago_s)}
    return container({"terminated": told}, name, **more)


def waiting(reason, message="", name="job", **more):
    return container({"waiting": {"reason": reason, "message": message}}, name, **more)


def event(reason, message="", uid="u-1", ago_s=5.0, kind="Pod"):
    return {
        "reason": reason,
        "message": message,
        "type": "Warning",
        "lastTimestamp": at(ago_s),
        "involvedObject": {"kind": kind, "name": "x", "uid": uid},
    }


def unscheduled(message, ago_s=480.0):
    condition = {
        "type": "PodScheduled",
        "status": "False",
        "reason": "Unschedulable",
        "message": message,
        "lastTransitionTime": at(ago_s),
    }
    return pod(node="", phase="Pending", conditions=[condition])


def look(pods, events=(), of=None, resources=ASKED):
    return observe("assay-c1-job-0", job() if of is None else of, pods, events, resources)


def told(*pods, events=(), of=None, **more):
    return failure_of(look(pods, events, of), NOW, **more)


def disrupted(reason, message=""):
    return {"type": "DisruptionTarget", "status": "True", "reason": reason, "message": message}


DELETED = {"deletionTimestamp": at(-10), "deletionGracePeriodSeconds": 30}  # asked for 20 s ago
FAILED = {"phase": "Failed"}


@pytest.mark.parametrize(
    ("state", "events", "code", "said", "change"),
    [
        (
            pod(containers=[waiting("ErrImagePull", "rpc error: code = NotFound desc = not found")], phase="Pending"),
            [],
            "kubernetes-image-pull",
            "the image assay:1 cannot be fetched on n1 (ErrImagePull: rpc error: code = NotFound",
            "pull_secret",
        ),
        (
            pod(containers=[waiting("ImagePullBackOff", 'Back-off pulling image "assay:1"')], phase="Pending"),
            [event("Failed", 'Failed to pull image "assay:1": manifest unknown')],
            "kubernetes-image-pull",
            'Failed to pull image "assay:1": manifest unknown',
            "tag",
        ),
        (
            pod(containers=[waiting("ErrImageNeverPull")], phase="Pending"),
            [],
            "kubernetes-image-pull",
            "(ErrImageNeverPull)",
            "never",
        ),
        (
            pod(containers=[waiting("InvalidImageName", "couldn't parse image reference")], phase="Pending"),
            [],
            "kubernetes-image-pull",
            "couldn't parse",
            "name and tag",
        ),
        (
            pod(containers=[ended(137, "OOMKilled")], **FAILED),
            [],
            "kubernetes-oom",
            "on n1 because its memory ran out: 1.0 GiB was asked for",
            "place.kubernetes.memory",
        ),
        (
            pod(containers=[ended(137)], reason="Evicted", message="The node was low on resource: memory.", **FAILED),
            [],
            "kubernetes-evicted",
            "The node was low on resource: memory.",
            "storage",
        ),
        (
            pod(containers=[ended(143)], conditions=[disrupted("EvictionByEvictionAPI", "drain")], meta=DELETED),
            [],
            "kubernetes-evicted",
            "the node is being drained (drain)",
            "when the node is back",
        ),
        (
            pod(containers=[ended(137)], conditions=[disrupted("PreemptionByScheduler", "for a/b")], **FAILED),
            [],
            "kubernetes-preempted",
            "was preempted on n1 by a higher-priority pod (for a/b)",
            "priority_class",
        ),
        (
            pod(containers=[ended(143)], meta=DELETED),
            [event("Preempted", "Preempted by bench/big on node n1")],
            "kubernetes-preempted",
            "by bench/big",
            "priority_class",
        ),
        (
            pod(containers=[running()], reason="NodeLost", message="Node n1 is unresponsive", meta=DELETED),
            [],
            "kubernetes-node-lost",
            "because n1 failed or was shut down (Node n1 is unresponsive)",
            "kubectl cordon n1",
        ),
        (
            pod(containers=[running()], conditions=[disrupted("DeletionByTaintManager", "taint")], meta=DELETED),
            [],
            "kubernetes-node-lost",
            "n1 failed",
            "run it again",
        ),
        (
            pod(containers=[running()], meta=DELETED),
            [event("TaintManagerEviction", "Marking for deletion Pod a/b")],
            "kubernetes-node-lost",
            "n1 failed",
            "run it again",
        ),
        (
            pod(containers=[ended(143)], reason="Terminated", message="imminent node shutdown", **FAILED),
            [],
            "kubernetes-node-lost",
            "imminent node shutdown",
            "run it again",
        ),
        (
            pod(containers=[ended(137)], reason="DeadlineExceeded", **FAILED),
            [],
            "kubernetes-deadline",
            "at its time limit of 1 min 30 s",
            "place.kubernetes.deadline",
        ),
        (
            pod(containers=[ended(143)], meta=DELETED),
            [],
            "kubernetes-deleted",
            "was deleted on n1 before it had ended",
            "run it again",
        ),
        (
            pod(containers=[running()], meta=DELETED),
            [],
            "kubernetes-deleted",
            "was deleted on n1",
            "run it again",
        ),
        (
            pod(containers=[ended(3, message="no result")], **FAILED),
            [],
            "kubernetes-failed",
            "the container job of the pod p ended on n1 with exit code 3 (no result)",
            "assay logs",
        ),
        (
            pod(containers=[ended(139)], **FAILED),
            [],
            "kubernetes-failed",
            "with signal 11",
            "assay logs",
        ),
        (
            pod(containers=[ended(128, "StartError", message='exec: "python3": not found')], **FAILED),
            [],
            "kubernetes-start",
            'could not be started on n1: exec: "python3": not found',
            "place.kubernetes.python",
        ),
        (
            pod(containers=[waiting("CreateContainerConfigError", 'secret "hf" not found')], phase="Pending"),
            [],
            "kubernetes-start",
            'secret "hf" not found',
            "Secrets",
        ),
        (
            pod(containers=[waiting("ContainerCreating")], phase="Pending"),
            [event("FailedMount", 'configmap "x" not found')],
            "kubernetes-volume",
            'configmap "x" not found',
            "volumes",
        ),
        (
            pod(reason="OutOfcpu", message="Node didn't have enough resource", **FAILED),
            [],
            "kubernetes-failed",
            "the node n1 did not take the pod p (OutOfcpu",
            "run it again",
        ),
        (
            pod(reason="Weird", message="who knows", **FAILED),
            [],
            "kubernetes-failed",
            "(Weird: who knows)",
            "assay logs",
        ),
    ],
)
def test_each_failure_has_a_code_the_reason_and_what_to_change(state, events, code, said, change):
    failure = told(state, events=events)
    assert failure is not None
    assert failure.code == code
    assert said in failure.message
    assert change in failure.try_
    if code != "kubernetes-image-pull":
        assert " p" in failure.message


@pytest.mark.parametrize(
    "state",
    [
        pod(containers=[running()]),
        pod(containers=[waiting("ContainerCreating")], phase="Pending"),
        pod(containers=[waiting("ErrImagePull", "dial tcp: i/o timeout")], phase="Pending", startTime=at(20)),
        pod(containers=[waiting("CreateContainerConfigError", "late")], phase="Pending", startTime=at(5)),
        pod(containers=[ended(0, "Completed")], phase="Succeeded"),
        pod(containers=[ended(0, "Completed")], phase="Succeeded", meta=DELETED),
        pod(containers=[ended(0, "Completed", "program"), running()]),
        pod(containers=[running()], conditions=[{"type": "Ready", "status": "False", "reason": "NodeNotReady"}]),
        pod(node="", phase="Pending"),
    ],
)
def test_what_may_still_give_a_result_or_ended_well_has_not_failed(state):
    assert told(state) is None


def test_a_network_that_is_away_for_a_moment_is_no_missing_image():
    slow = pod(containers=[waiting("ErrImagePull", "dial tcp: i/o timeout")], phase="Pending")
    assert told(slow).code == "kubernetes-image-pull", "after minutes it is"


def test_a_failure_before_a_deletion_is_the_cause_and_one_after_it_is_not():
    before = pod(containers=[ended(1, ago_s=60)], meta=DELETED, **FAILED)
    after = pod(containers=[ended(1, ago_s=5)], meta=DELETED, **FAILED)
    assert told(before).code == "kubernetes-failed"
    assert told(after).code == "kubernetes-deleted"
    memory = pod(containers=[ended(137, "OOMKilled", ago_s=5)], meta=DELETED, **FAILED)
    assert told(memory).code == "kubernetes-oom", "nobody else does that"


def test_of_several_pods_the_one_that_failed_first_is_reported():
    first = pod("rank-1", "u-2", containers=[ended(137, "OOMKilled", ago_s=60)], **FAILED)
    other = pod("rank-0", "u-1", containers=[ended(143, ago_s=20)], meta=DELETED, **FAILED)
    third = pod("rank-2", "u-3", containers=[ended(1, ago_s=30)], **FAILED)
    for pods in ([first, other, third], [third, other, first], [other, third, first]):
        failure = told(*pods)
        assert failure.code == "kubernetes-oom"
        assert "rank-1" in failure.message


def test_a_program_that_cannot_be_fetched_is_reported_while_we_wait_for_it():
    state = pod(containers=[running(), waiting("ErrImagePull", "not found", "program")])
    assert told(state).code == "kubernetes-image-pull"


def test_a_job_that_is_gone_is_reported():
    gone = observe("assay-c1-job-0", None, [])
    assert phase_of(gone) == "ended"
    assert failure_of(gone, NOW).code == "kubernetes-deleted"
    assert "the Job assay-c1-job-0 is gone" in failure_of(gone, NOW).message


@pytest.mark.parametrize(
    ("reason", "code", "said"),
    [
        ("BackoffLimitExceeded", "kubernetes-deleted", "was deleted before it had ended"),
        ("DeadlineExceeded", "kubernetes-deadline", "at its time limit"),
    ],
)
def test_a_job_that_was_given_up_without_its_pods_is_reported(reason, code, said):
    failed = job(conditions=[{"type": "Failed", "status": "True", "reason": reason, "message": "too often"}])
    failure = told(of=failed)
    assert (failure.code, said in failure.message) == (code, True)
    assert phase_of(look([], of=failed)) == "ended"


def test_a_job_that_was_given_up_beside_a_pod_that_runs_is_reported():
    failed = job(conditions=[{"type": "Failed", "status": "True", "reason": "PodFailurePolicy", "message": "rule 1"}])
    failure = told(pod(containers=[running()]), of=failed)
    assert failure.code == "kubernetes-failed"
    assert "PodFailurePolicy: rule 1" in failure.message


def test_a_complete_job_saw_nothing_wrong():
    done = job(conditions=[{"type": "Complete", "status": "True"}])
    assert told(of=done) is None
    assert phase_of(look([], of=done)) == "ended"


@pytest.mark.parametrize(
    ("message", "hint"),
    [
        ('Error creating: pods "x" is forbidden: no PriorityClass with name high was found', "priority_class"),
        ('Error creating: pods "x" is forbidden: error looking up service account a/b: serviceaccount "b" not found',
         "service_account"),
        ('Error creating: pods "x" is forbidden: violates PodSecurity "restricted:latest"', "restricted: true"),
        ('Error creating: pods "x" is forbidden: maximum memory usage per Pod is 1Gi', "limit range"),
        ("Error creating: Internal error", "change place.kubernetes"),
    ],
)  # fmt: skip
def test_a_pod_that_is_never_made_is_reported_at_once(message, hint):
    failure = told(events=[event("FailedCreate", message, uid="j-1", kind="Job")])
    assert failure.code == "kubernetes-not-created"
    assert hint in failure.try_
    assert "Error creating" not in failure.message


def test_a_quota_may_get_free():
    short = event("FailedCreate", 'pods "x" is forbidden: exceeded quota: small', uid="j-1", kind="Job")
    assert told(events=[short]) is None, "another pod of the campaign may be in the way"
    assert told(events=[short], free_since=NOW - timedelta(minutes=5)) is None
    failure = told(events=[short], free_since=NOW - timedelta(hours=1))
    assert failure.code == "kubernetes-not-created"
    assert "quota" in failure.try_


def test_a_pod_that_no_node_takes_fails_after_a_while():
    gpus = unscheduled("0/3 nodes are available: 3 Insufficient nvidia.com/gpu.")
    assert told(gpus) is None, "others of the campaign hold the nodes"
    assert told(gpus, free_since=NOW - timedelta(minutes=5)) is None
    assert told(gpus, free_since=NOW - timedelta(hours=1)) is None, "it has waited for 8 minutes only"
    failure = told(gpus, free_since=NOW - timedelta(hours=1), patience_s=300.0)
    assert failure.code == "kubernetes-unschedulable"
    assert "within 5 min: 0/3 nodes are available: 3 Insufficient nvidia.com/gpu." in failure.message
    assert "needs.gpus" in failure.try_
    assert told(gpus, free_since=NOW - timedelta(minutes=4), patience_s=300.0) is None, "the nodes got free 4 min ago"


def test_a_pod_that_no_node_will_ever_take_does_not_wait_for_others():
    wrong = unscheduled("0/3 nodes are available: 3 node(s) didn't match Pod's node affinity/selector.")
    assert told(wrong, patience_s=300.0).code == "kubernetes-unschedulable"
    assert told(wrong, patience_s=3600.0) is None


def test_a_pod_behind_another_measuring_pod_waits_for_its_turn():
    busy = unscheduled("0/1 nodes are available: 1 node(s) didn't match pod anti-affinity rules.", ago_s=480)
    assert told(busy, free_since=NOW - timedelta(days=1), patience_s=1.0) is None
    assert "waiting: other measuring pods come first" in waiting_words(look([busy]))


def test_a_pod_that_only_its_own_siblings_keep_from_a_node_is_not_waited_for():
    busy = unscheduled("0/2 nodes are available: 2 node(s) didn't match pod anti-affinity rules.", ago_s=480)
    sibling = pod("q", "u-2", containers=[running()])
    free = {"free_since": NOW - timedelta(seconds=400), "patience_s": 300.0}
    assert told(sibling, busy, **free).code == "kubernetes-unschedulable"
    assert told(sibling, busy, **free | {"free_since": None}) is None  # other jobs of the campaign may be in the way
    assert told(sibling, busy, **free | {"patience_s": 500.0}) is None
    over = pod("q", "u-2", containers=[ended(0)], phase="Succeeded")
    assert told(over, busy, **free) is None


@pytest.mark.parametrize(
    ("state", "of", "events", "said"),
    [
        (unscheduled("0/1 nodes are available: 1 Insufficient cpu."), None, [], "no node has room (0/1 nodes"),
        (pod(node="", phase="Pending"), None, [], "the scheduler has not looked at it yet"),
        (pod(containers=[waiting("ContainerCreating")], phase="Pending"), None, [], "its image is fetched"),
        (pod(containers=[waiting("ErrImagePull", "slow")], phase="Pending"), None, [], "ErrImagePull (slow) on n1"),
        (pod(phase="Pending"), None, [], "its node takes it on n1, since 8 min 20 s"),
        (None, None, [], "its pod is not made yet"),
        (None, None, [event("FailedCreate", "quota", uid="j-1")], "cannot be made yet (quota)"),
        (None, job(spec={"suspend": True}, labels={"kueue.x-k8s.io/queue-name": "lane"}), [], "the queue lane has not"),
    ],
)
def test_a_wait_is_reported_in_words(state, of, events, said):
    assert said in waiting_words(look([] if state is None else [state], events, of), NOW)


def test_the_phase_follows_the_pods():
    assert phase_of(look([])) == "waiting"
    assert phase_of(look([pod(containers=[waiting("ContainerCreating")], phase="Pending")])) == "waiting"
    assert phase_of(look([pod(containers=[running()])])) == "running"
    assert phase_of(look([pod(containers=[ended(0)], phase="Succeeded")])) == "ended"
    assert (
        phase_of(look([pod(containers=[running()]), pod("q", "u-2", containers=[ended(0)], phase="Succeeded")]))
        == "running"
    )
    one_without_a_node = [pod(containers=[running()]), pod("q", "u-2", node="", phase="Pending")]
    assert phase_of(look(one_without_a_node)) == "waiting"


@pytest.mark.parametrize(
    ("state", "events", "code", "said"),
    [
        (pod(containers=[running("service", restartCount=1, lastState={"terminated": {"exitCode": 1}})]), [],
         "kubernetes-failed", "Kubernetes started it again (1 times)"),
        (pod(containers=[waiting("CrashLoopBackOff", name="service", restartCount=3,
                                 lastState={"terminated": {"exitCode": 137, "reason": "OOMKilled"}})]), [],
         "kubernetes-oom", "memory ran out"),
        (pod(containers=[ended(2, name="service")]), [], "kubernetes-failed", "with exit code 2"),
        (pod(containers=[running("service", restartCount=1, lastState={"terminated": {"exitCode": 137}})]),
         [event("Killing", "Container service failed startup probe, will be restarted"),
          event("Unhealthy", "Startup probe failed: HTTP probe failed with statuscode: 503")],
         "service-not-ready", "statuscode: 503"),
        (pod(containers=[waiting("ErrImagePull", "not found", "service")], phase="Pending"), [],
         "kubernetes-image-pull", "assay:1"),
        (pod(containers=[running("service")], meta=DELETED), [], "kubernetes-deleted", "was deleted"),
    ],
)  # fmt: skip
def test_a_service_that_ended_or_was_started_again_has_failed(state, events, code, said):
    failure = service_failure_of("llm", observe("s", None, [state], events, ASKED), NOW)
    assert failure is not None
    assert failure.code == code
    assert failure.message.startswith("the service llm: ")
    assert said in failure.message


def test_a_service_that_runs_as_it_was_started_has_not():
    assert service_failure_of("llm", observe("s", None, [pod(containers=[running("service")])]), NOW) is None
    assert service_failure_of("llm", observe("s", None, []), NOW) is None


def test_the_facts_of_an_attempt_are_those_that_were_reported():
    state = pod(containers=[ended(0, "Completed", imageID="registry/assay@sha256:abc")], phase="Succeeded")
    facts = facts_of(look([state]))
    assert (facts["pod"], facts["node"], facts["state"], facts["exit_code"]) == ("p", "n1", "Succeeded", 0)
    assert facts["image_digest"] == "sha256:abc"
    assert facts["waited_s"] == 100.0
    assert "restarts" not in facts
    assert (facts["limit_memory_bytes"], "limit_cpus" in facts, "gpus" in facts) == (2**30, False, False)
    free = facts_of(look([state], resources=PodResources(cpus=0.5, memory=1, gpus=2, limited=False)))
    assert (free["gpus"], [name for name in free if name.startswith("limit_")]) == (2, []), "asked for, not held to it"
    assert facts_of(look([])) == {"job": "assay-c1-job-0", "state": "not told"}
    bare = read_pod(pod(containers=[running(imageID="docker://abc")]))
    assert digest_of(bare.containers[0]) == ""


def test_events_of_others_are_passed_over():
    other = event("FailedMount", "not ours", uid="someone-else")
    state = pod(containers=[waiting("ContainerCreating")], phase="Pending")
    assert told(state, events=[other]) is None


def test_moments_are_read_and_never_made_up():
    assert moment("2026-11-15T12:00:00Z") == NOW
    assert moment("2026-11-15T12:00:00.123456Z").microsecond == 123456
    assert moment("yesterday") is None
    assert moment(None) is None


def test_the_end_of_a_pod_was_requested_before_its_time_was_over():
    found = read_pod(pod(meta=DELETED))
    assert found.deleted_at == NOW - timedelta(seconds=20)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
KEYS = ("metadata", "spec", "status", "involvedObject", "reason", "message")


@given(st.fixed_dictionaries({}, optional=dict.fromkeys(KEYS, JSON)))
def test_documents_of_any_shape_are_read(document):
    read_pod(document)
    read_job(document)
    read_event(document)
    found = observe("x", document, [document], [document])
    failure_of(found, NOW, free_since=NOW)
    waiting_words(found, NOW)
    facts_of(found)


def fetching(status):
    """A pod of a service whose files are fetched first."""
    return pod(phase="Pending", containers=[waiting("PodInitializing", name="service")], initContainerStatuses=[status])


def test_files_that_cannot_be_fetched_are_reported_after_some_tries_with_the_last_words():
    last = {"terminated": {"exitCode": 2, "reason": "Error", "message": "fetch[0]: 404", "finishedAt": at(5)}}

    def failed(tries):
        return waiting("CrashLoopBackOff", "back-off", name="fetch", restartCount=tries - 1, lastState=last)

    assert service_failure_of("llm", look([fetching(failed(2))]), NOW) is None, "networks fail now and then"
    found = service_failure_of("llm", look([fetching(failed(3))]), NOW)
    assert found.code == "kubernetes-failed"
    assert found.message.startswith("the service llm: the container fetch of the pod p ended on n1 with exit code 2")
    assert "fetch[0]: 404" in found.message
    assert "tried 3 times" in found.message
    assert "`fetch`" in found.try_


def test_files_that_came_at_last_are_no_trouble():
    done = ended(0, "Completed", name="fetch", restartCount=5, lastState={"terminated": {"exitCode": 1}})
    one = pod(containers=[running(name="service")], initContainerStatuses=[done])
    assert service_failure_of("llm", look([one]), NOW) is None


def test_the_image_that_fetches_is_missed_like_any_other():
    found = told(fetching(waiting("ErrImageNeverPull", "not present with pull policy of Never", name="fetch")))
    assert found.code == "kubernetes-image-pull"
    words = waiting_words(look([fetching(running(name="fetch"))]))
    assert words == "waiting: its files are fetched on n1"


def test_a_volume_that_could_not_be_mounted_for_a_while_ends_nothing():
    """A busy node says so and tries again; what it has not said for minutes is over."""
    starting = pod(containers=[waiting("ContainerCreating")], phase="Pending")
    busy = "failed to sync configmap cache: timed out waiting for the condition"
    assert told(starting, events=[event("FailedMount", busy, ago_s=200.0)]) is None
    young = pod(containers=[waiting("ContainerCreating")], phase="Pending", startTime=at(200))
    assert told(young, events=[event("FailedMount", busy)]) is None
    placed = {"type": "PodScheduled", "status": "True", "lastTransitionTime": at(10)}
    queued = pod(containers=[waiting("ContainerCreating")], phase="Pending", conditions=[placed], startTime=None)
    assert told(queued, events=[event("FailedMount", busy)]) is None  # it waited for a node until now
    lasting = told(starting, events=[event("FailedMount", busy)])
    assert lasting is not None
    assert lasting.code == "kubernetes-volume"
