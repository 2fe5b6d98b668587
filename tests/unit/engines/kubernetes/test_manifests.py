"""The objects of a campaign: what a Job and its pod say, by the version of the server."""

import base64
import hashlib
import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.documents import from_json
from assay.engines.kubernetes.client.api import Version
from assay.engines.kubernetes.objects import manifests
from assay.engines.kubernetes.objects.manifests import (
    PART_BYTES,
    JobSubmission,
    document,
    file_names,
    file_objects,
    job_objects,
    owner_reference,
    secret,
)
from assay.engines.kubernetes.objects.plan import group
from assay.engines.kubernetes.objects.pods import Setting, literal, meeting_service, with_secrets
from assay.errors import UsageError
from assay.plan.job import Job
from assay.plan.plan import make_plan
from assay.spec.load import load

COMMAND = {"command": "true", "metrics": [{"name": "x", "pattern": "(.*)"}]}
ENDPOINT = {"endpoint": "http://h:1", "api": "openai-chat", "model": "m"}
OLD, NEW = Version(1, 20), Version(1, 31)


def made(kubernetes=None, version=NEW, place=0, files=(), attempt=1, **more):
    """The setting, the submission and the Jobs of one job."""
    section = {"image": "assay:1", **(kubernetes or {})}
    loaded = load(
        {"benchmark": "b", "target": COMMAND, "place": {"engine": "kubernetes", "kubernetes": section}, **more}
    )
    jobs = [replace(job, campaign="c0ffee12") for job in make_plan(loaded, lambda _: {}).jobs]
    (one,) = group(jobs, loaded.benchmark)
    setting = Setting("c0ffee12", loaded.benchmark.place.kubernetes, version, "bench", {"ASSAY_LOCK": "try"})
    submission = JobSubmission(one, jobs[one.jobs[place]], attempt, tuple(files))
    return setting, submission, job_objects(setting, submission)


def pod_of(job):
    return job["spec"]["template"]["spec"]


def environment(job, container=0):
    return {one["name"]: one.get("value", one.get("valueFrom")) for one in pod_of(job)["containers"][container]["env"]}


def mounted(job):
    return {one["name"]: one["mountPath"] for one in pod_of(job)["containers"][0]["volumeMounts"]}


def test_a_job_is_one_pod_that_is_never_tried_twice():
    _, _, (job,) = made(version=OLD)
    assert (job["apiVersion"], job["kind"], job["metadata"]["name"]) == ("batch/v1", "Job", "assay-c0ffee12-job-0")
    assert {key: value for key, value in job["spec"].items() if key != "template"} == {
        "backoffLimit": 0,
        "completions": 1,
        "parallelism": 1,
    }
    pod = pod_of(job)
    assert pod["restartPolicy"] == "Never"
    assert pod["automountServiceAccountToken"] is False
    assert pod["enableServiceLinks"] is False
    (container,) = pod["containers"]
    assert container["name"] == "job"
    assert container["command"] == ["python3", "-m", "assay.engines.kubernetes.pod.task"]
    assert container["terminationMessagePolicy"] == "File"
    assert "resources" not in container, "nothing is asked for, so nothing is said"
    assert "activeDeadlineSeconds" not in pod


def test_newer_servers_get_more_fields():
    _, _, (job,) = made({"keep": "2h"})
    spec = job["spec"]
    assert spec["ttlSecondsAfterFinished"] == 7200
    assert spec["podReplacementPolicy"] == "Failed"
    actions = {rule["action"] for rule in spec["podFailurePolicy"]["rules"]}
    assert actions == {"FailJob"}, "whatever ends a pod ends its attempt"
    for minor, fields in (
        (20, set()),
        (21, {"ttlSecondsAfterFinished"}),
        (25, {"ttlSecondsAfterFinished"}),
        (26, {"ttlSecondsAfterFinished", "podFailurePolicy"}),
    ):
        _, _, (older,) = made(version=Version(1, minor))
        assert set(older["spec"]) - {"backoffLimit", "completions", "parallelism", "template"} == fields


def test_no_two_measuring_pods_share_a_node_unless_the_file_lets_them():
    _, _, (job,) = made()
    (term,) = pod_of(job)["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert term["topologyKey"] == "kubernetes.io/hostname"
    assert term["labelSelector"]["matchLabels"] == {"assay/measures": "yes"}
    assert term["namespaceSelector"] == {}, "also not with those of other namespaces"
    assert job["spec"]["template"]["metadata"]["labels"]["assay/measures"] == "yes"
    for kubernetes, version in (({"one_per_node": "namespace"}, NEW), ({}, OLD)):
        _, _, (job,) = made(kubernetes, version)
        (term,) = pod_of(job)["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
        assert "namespaceSelector" not in term
    _, _, (job,) = made({"one_per_node": False})
    assert "affinity" not in pod_of(job)
    assert job["spec"]["template"]["metadata"]["labels"]["assay/measures"] == "yes", "others still keep away from it"


def test_everything_that_can_be_requested_stands_where_kubernetes_reads_it():
    _, _, (job,) = made(
        {
            "pull": "never",
            "pull_secret": "login",
            "node_selector": {"zone": "a"},
            "priority_class": "high",
            "tolerations": ["gpu=a100:NoSchedule", {"key": "spot", "effect": "NoExecute", "within": "90s"}, "any"],
            "cpus": 2,
            "memory": "1GiB",
            "gpus": 1,
            "shm": "2GiB",
            "runtime_class": "nvidia",
            "scheduler": "volcano",
            "service_account": "bench",
            "volumes": {"data": "/data"},
            "labels": {"team": "ml"},
            "queue": "lane",
            "annotations": {"a/b": "c d"},
            "privileged": True,
            "deadline": "90.2s",
        },
        needs={"labels": {"gpu": "h200"}},
    )
    pod = pod_of(job)
    assert pod["nodeSelector"] == {"zone": "a", "gpu": "h200"}
    assert pod["tolerations"] == [
        {"key": "gpu", "operator": "Equal", "value": "a100", "effect": "NoSchedule"},
        {"key": "spot", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 90},
        {"key": "any", "operator": "Exists"},
    ]
    assert (pod["priorityClassName"], pod["runtimeClassName"], pod["schedulerName"]) == ("high", "nvidia", "volcano")
    assert (pod["serviceAccountName"], pod["automountServiceAccountToken"]) == ("bench", True)
    assert pod["imagePullSecrets"] == [{"name": "login"}]
    assert pod["activeDeadlineSeconds"] == 91, "never less than was asked for"
    (container,) = pod["containers"]
    assert container["imagePullPolicy"] == "Never"
    assert container["securityContext"] == {"privileged": True}
    assert container["resources"]["limits"] == {"cpu": "2", "memory": str(2**30), "nvidia.com/gpu": "1"}
    volumes = {one["name"]: one for one in pod["volumes"]}
    assert volumes["shm"]["emptyDir"] == {"medium": "Memory", "sizeLimit": str(2 * 2**30)}
    assert volumes["claim-0"]["persistentVolumeClaim"] == {"claimName": "data"}
    assert (mounted(job)["shm"], mounted(job)["claim-0"]) == ("/dev/shm", "/data")
    assert job["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] == "lane"
    template = job["spec"]["template"]["metadata"]
    assert (template["labels"]["team"], template["annotations"]) == ("ml", {"a/b": "c d"})


def test_a_namespace_with_restricted_pods_takes_them():
    _, _, (job,) = made({"restricted": True})
    pod = pod_of(job)
    assert pod["securityContext"] == {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}
    assert pod["containers"][0]["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
    }


def test_shared_memory_without_a_limit_has_none():
    _, _, (job,) = made({"shm": "unlimited"})
    assert {"name": "shm", "emptyDir": {"medium": "Memory"}} in pod_of(job)["volumes"]


def test_a_pod_knows_where_its_documents_are_and_who_it_is():
    _, _, (job,) = made({"env": {"MODE": "a$b $(c)"}}, files=["assay-c0ffee12-file-1"])
    told = environment(job)
    assert (told["ASSAY_POD_JOB"], told["ASSAY_POD_WORK"], told["ASSAY_POD_FILES"]) == (
        mounted(job)["job"],
        mounted(job)["work"],
        mounted(job)["files"],
    )
    assert told["ASSAY_POD_NODE"] == {"fieldRef": {"fieldPath": "spec.nodeName"}}
    assert told["ASSAY_LOCK"] == "try"
    assert told["MODE"] == "a$$b $$(c)", "as the file has it, and not what Kubernetes would put in"
    _, _, (bare,) = made()
    assert "ASSAY_POD_FILES" not in environment(bare)
    assert "ASSAY_POD_RANK" not in environment(bare)
    volumes = {one["name"]: one for one in pod_of(job)["volumes"]}
    assert volumes["job"]["configMap"]["name"] == "assay-c0ffee12-job-0-document"
    assert volumes["files"]["projected"]["sources"] == [{"configMap": {"name": "assay-c0ffee12-file-1"}}]


def test_secrets_are_references_and_never_values():
    setting, submission, (job,) = made({"secrets": {"HF": "hf/token", "OWN": "${env:MINE}"}})
    told = environment(job)
    assert told["HF"] == {"secretKeyRef": {"name": "hf", "key": "token"}}
    assert told["OWN"] == {"secretKeyRef": {"name": "assay-c0ffee12-secrets", "key": "MINE"}}
    held = secret(setting, {"MINE": "s3cret"})
    assert held["metadata"]["name"] == "assay-c0ffee12-secrets"
    assert base64.b64decode(held["data"]["MINE"]) == b"s3cret"
    assert "s3cret" not in json.dumps([job, document(setting, submission)])


def test_the_document_is_the_job_itself():
    setting, submission, _ = made(needs={"agent": "node-7"})
    held = document(setting, submission, also={"program.sh": "exec"})
    assert held["metadata"]["name"] == "assay-c0ffee12-job-0-document"
    job = from_json(Job, held["data"]["job.json"], source="test")
    assert (job.digest, job.campaign, job.definition.needs.agent) == (submission.job.digest, "c0ffee12", None)
    assert json.loads(held["data"]["services.json"]) == {}
    assert held["data"]["program.sh"] == "exec"
    assert "ranks.json" not in held["data"]
    long = replace(submission.job, labels={"why": "x" * PART_BYTES})
    with pytest.raises(UsageError, match="more than Kubernetes takes"):
        document(setting, replace(submission, job=long))


def test_services_are_reached_by_their_names_or_as_set():
    services = {"llm": {"command": "serve", "port": 9000}, "db": {"command": "db"}}
    target = {"service": "llm", "api": "openai-chat", "model": "m"}
    setting, submission, _ = made(services=services, target=target, load={"concurrency": 8, "duration": "4s"})
    held = document(setting, submission)
    assert json.loads(held["data"]["services.json"]) == {
        "llm": {"host": "assay-c0ffee12-point-0000-llm.bench.svc", "port": 9000},
        "db": {"host": "assay-c0ffee12-point-0000-db.bench.svc", "port": 8000},
    }
    elsewhere = document(setting, submission, {"llm": {"host": "10.0.0.1", "port": 1}})
    assert json.loads(elsewhere["data"]["services.json"]) == {"llm": {"host": "10.0.0.1", "port": 1}}


def test_an_attempt_has_a_name_of_its_own():
    setting, submission, (job,) = made(attempt=2)
    assert job["metadata"]["name"] == "assay-c0ffee12-job-0-a2"
    assert document(setting, submission)["metadata"]["name"] == "assay-c0ffee12-job-0-a2-document"
    assert job["metadata"]["labels"]["assay/attempt"] == "2"
    assert job["metadata"]["annotations"]["assay/digest"] == submission.job.digest


def test_an_owner_is_named_by_its_uid():
    _, _, (job,) = made()
    reference = owner_reference({**job, "metadata": {**job["metadata"], "uid": "u-1"}})
    assert reference == {"apiVersion": "batch/v1", "kind": "Job", "name": "assay-c0ffee12-job-0", "uid": "u-1"}


@given(st.binary(max_size=3000), st.integers(min_value=1, max_value=1000))
def test_a_file_is_whole_again_from_its_parts(content, size):
    setting, _, _ = _PLAIN
    digest = hashlib.sha256(content).hexdigest()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(manifests, "PART_BYTES", size)
        parts = file_objects(setting, {digest: content})[digest]
    assert all(len(base64.b64decode(next(iter(part["binaryData"].values())))) <= size for part in parts)
    held = {key: base64.b64decode(text) for part in parts for key, text in part["binaryData"].items()}
    assert b"".join(held[f"{digest}.{number}"] for number in range(len(parts))) == content
    assert len(set(file_names(parts))) == len(parts) >= 1


_PLAIN = made()


def test_files_that_do_not_belong_into_a_database_are_refused(monkeypatch):
    monkeypatch.setattr(manifests, "MOST_BYTES", 10)
    with pytest.raises(UsageError, match="Kubernetes carries at most 10 B"):
        file_objects(_PLAIN[0], {"a": b"12345", "b": b"678901"})


def test_ranks_are_one_indexed_job_with_names_for_each_other():
    setting, submission, (job,) = made({"distributed": {"pods": 3, "ranks": 2, "port": 1234}})
    spec, told = job["spec"], environment(job)
    assert (spec["completions"], spec["parallelism"], spec["completionMode"]) == (3, 3, "Indexed")
    assert spec["backoffLimit"] == 0
    pod = pod_of(job)
    assert pod["subdomain"] == "assay-c0ffee12-ranks-0000"
    assert "hostname" not in pod, "Kubernetes itself gives each rank its name"
    peers = [f"assay-c0ffee12-job-0-{rank}.assay-c0ffee12-ranks-0000.bench.svc" for rank in range(3)]
    assert told["ASSAY_POD_PEERS"].split(",") == peers
    assert told["ASSAY_POD_RANK"]["fieldRef"]["fieldPath"].endswith("['batch.kubernetes.io/job-completion-index']")
    assert (told["MASTER_ADDR"], told["MASTER_PORT"], told["NNODES"], told["WORLD_SIZE"]) == (
        peers[0],
        "1234",
        "3",
        "6",
    )
    assert (told["PET_NPROC_PER_NODE"], told["PET_NODE_RANK"]) == ("2", "$(ASSAY_POD_RANK)")
    assert "RANK" not in told, "with several processes in a pod each has a number of its own"
    order = [one["name"] for one in pod["containers"][0]["env"]]
    assert order.index("ASSAY_POD_RANK") < order.index("NODE_RANK"), "Kubernetes puts in only what stands above"
    held = document(setting, submission)["data"]
    assert json.loads(held["ranks.json"]) == {
        "peers": peers,
        "port": 7443,
        "slots": 2,
        "launch": "each",
        "others": None,
    }
    assert held["hostfile"] == "".join(f"{peer} slots=2\n" for peer in peers)


def test_an_older_server_gets_a_job_for_each_rank_with_the_same_names():
    _, _, jobs = made({"distributed": {"pods": 2}}, OLD)
    assert [job["metadata"]["name"] for job in jobs] == ["assay-c0ffee12-job-0-r0", "assay-c0ffee12-job-0-r1"]
    assert [environment(job)["ASSAY_POD_RANK"] for job in jobs] == ["0", "1"]
    assert [pod_of(job)["hostname"] for job in jobs] == ["assay-c0ffee12-job-0-r0", "assay-c0ffee12-job-0-r1"]
    assert [job["metadata"]["labels"]["assay/rank"] for job in jobs] == ["0", "1"]
    assert {environment(job)["MASTER_ADDR"] for job in jobs} == {
        "assay-c0ffee12-job-0-r0.assay-c0ffee12-ranks-0000.bench.svc"
    }
    assert all("completionMode" not in job["spec"] for job in jobs)
    assert [environment(job)["RANK"] for job in jobs] == ["$(ASSAY_POD_RANK)"] * 2


def test_the_first_of_several_finds_the_others_as_mpirun_searches_them():
    distributed = {"pods": 2, "launch": "first", "others": "/usr/sbin/sshd -D"}
    setting, submission, (job,) = made({"distributed": distributed})
    told = environment(job)
    assert told["ASSAY_POD_LAUNCH"] == "first"
    assert told["OMPI_MCA_orte_default_hostfile"] == told["ASSAY_POD_HOSTFILE"] == "/assay/job/hostfile"
    held = json.loads(document(setting, submission)["data"]["ranks.json"])
    assert (held["launch"], held["others"]) == ("first", ["/usr/sbin/sshd", "-D"])


@pytest.mark.parametrize("version", [OLD, NEW])
def test_clients_are_a_job_each_and_find_each_other_by_name(version):
    more = {"target": ENDPOINT, "load": {"concurrency": 8, "duration": "4s"}}
    setting, submission, (second,) = made({"clients": 3}, version, place=1, **more)
    assert second["metadata"]["name"] == "assay-c0ffee12-job-1"
    pod, told = pod_of(second), environment(second)
    assert (pod["hostname"], pod["subdomain"]) == ("assay-c0ffee12-job-1", "assay-c0ffee12-point-0000")
    assert (told["ASSAY_POD_RANK"], told["ASSAY_POD_RANKS"]) == ("1", "3")
    assert told["ASSAY_POD_PEERS"].split(",")[1].startswith("assay-c0ffee12-job-1.")
    assert "MASTER_ADDR" not in told
    service = meeting_service(setting, submission.group)
    assert service["metadata"]["name"] == pod["subdomain"]
    assert service["spec"]["clusterIP"] == "None"
    assert service["spec"]["publishNotReadyAddresses"] is True
    labels = second["spec"]["template"]["metadata"]["labels"]
    assert service["spec"]["selector"].items() <= labels.items()


def test_who_goes_alone_meets_nobody():
    setting, submission, _ = made()
    assert meeting_service(setting, submission.group) is None


def test_a_program_with_an_image_of_its_own_runs_beside_us():
    _, _, (job,) = made(
        {"memory": "1GiB", "deadline": "1m"}, target={**COMMAND, "image": "docker://team/bench:1", "env": {"N": "1"}}
    )
    pod = pod_of(job)
    ours, program = pod["containers"]
    assert (ours["name"], ours["image"], program["name"], program["image"]) == (
        "job",
        "assay:1",
        "program",
        "team/bench:1",
    )
    assert pod["shareProcessNamespace"] is True
    assert "resources" not in ours
    assert program["resources"]["limits"] == {"memory": str(2**30)}
    assert program["volumeMounts"] == ours["volumeMounts"], "they talk through a folder"
    assert program["command"] == ["/bin/sh", "/assay/job/program.sh"]


def expanded(text: str, values: dict[str, str]) -> str:
    """What Kubernetes makes of a text: `$(NAME)` is put in where it is known, `$$` is a dollar."""
    made, at = [], 0
    while at < len(text):
        rest = text[at:]
        end = rest.find(")")
        if rest.startswith("$$"):
            made.append("$")
            at += 2
        elif rest.startswith("$(") and end > 0:
            name = rest[2:end]
            made.append(values.get(name, rest[: end + 1]))
            at += end + 1
        else:
            made.append(rest[0])
            at += 1
    return "".join(made)


@given(st.text(alphabet="$()ab{}:env ", max_size=30))
def test_a_text_reaches_the_process_as_it_is(text):
    assert expanded(literal(text), {"a": "1", "": "2", "ab": "3"}) == text


@given(st.lists(st.sampled_from(["${env:KEY}", "$", "$(KEY)", "a", "(", ")", " ", "$$"]), max_size=8))
def test_only_references_to_secrets_are_put_in(pieces):
    wanted = "".join("s3cret" if piece == "${env:KEY}" else piece for piece in pieces)
    assert expanded(with_secrets("".join(pieces), {}), {"KEY": "s3cret"}) == wanted
    assert expanded(with_secrets("".join(pieces), {"KEY": "OTHER"}), {"OTHER": "s3cret"}) == wanted
