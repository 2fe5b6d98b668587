"""What a process may use: affinity, cpusets, quotas and memory limits over all parents."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.hardware import recorded

from assay.hardware.limits import container, limits, parse_quota
from assay.hardware.source import FactSource


def source(root, **environ) -> FactSource:
    return FactSource(root, "linux", "x86_64", environ=environ)


def test_a_container_with_two_of_64_cores_says_two(tmp_path):
    found = limits(source(recorded.container_v2(tmp_path)))
    assert found.usable_cores == 2
    assert found.record() == {
        "usable_cores": 2,
        "affinity_cores": 64,
        "cgroups": "v2",
        "cpuset_cores": 64,
        "cpuset_set_by": "/sys/fs/cgroup/kubepods/burstable/pod1/c1/cpuset.cpus.effective",
        "quota_cores": 2.0,
        "quota_set_by": "/sys/fs/cgroup/kubepods/burstable/pod1/cpu.max",
        "memory_bytes": 4 * 2**30,
        "memory_set_by": "/sys/fs/cgroup/kubepods/burstable/pod1/c1/memory.max",
    }


def test_a_container_that_sees_its_own_cgroup_as_the_top(tmp_path):
    root = recorded.plant(
        tmp_path,
        {
            "proc/self/cgroup": "0::/\n",
            "proc/self/mountinfo": "40 39 0:30 / /sys/fs/cgroup ro - cgroup2 cgroup rw\n",
            "proc/self/status": "Cpus_allowed_list:\t0-63\n",
            "sys/fs/cgroup/cpu.max": "350000 100000\n",
        },
    )
    assert limits(source(root)).usable_cores == 4


def test_cgroups_of_version_1(tmp_path):
    found = limits(source(recorded.container_v1(tmp_path)))
    assert (found.version, found.usable_cores) == ("v1", 2)
    assert found.quota.value == 1.5
    assert found.memory.value == 2 * 2**30
    assert found.cpuset.value == 8


def test_no_limit_of_version_1_is_no_limit(tmp_path):
    root = recorded.container_v1(tmp_path)
    (root / "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us").write_text("-1\n")
    (root / "sys/fs/cgroup/memory/memory.limit_in_bytes").write_text("9223372036854771712\n")
    found = limits(source(root))
    assert (found.quota, found.memory, found.usable_cores) == (None, None, 8)


def test_a_system_whose_mounts_cannot_be_read_is_asked_where_cgroups_are_by_custom(tmp_path):
    root = recorded.container_v2(tmp_path)
    (root / "proc/self/mountinfo").unlink()
    assert limits(source(root)).usable_cores == 2


def test_a_cgroup_outside_of_what_is_seen_leaves_the_top(tmp_path):
    root = recorded.container_v2(tmp_path)
    (root / "proc/self/cgroup").write_text("0::/../../other\n")
    (root / "sys/fs/cgroup/cpu.max").write_text("800000 100000\n")
    assert limits(source(root)).usable_cores == 8


def test_garbage_in_a_quota_is_named_and_the_others_hold(tmp_path):
    root = recorded.container_v2(tmp_path)
    (root / "sys/fs/cgroup/kubepods/burstable/pod1/cpu.max").write_text("many 1\n")
    here = source(root)
    assert limits(here).usable_cores == 60
    assert "pod1/cpu.max" in here.absent["limits.quota_cores"]


def test_less_than_a_core_is_one(tmp_path):
    root = recorded.container_v2(tmp_path)
    (root / "sys/fs/cgroup/kubepods/burstable/pod1/c1/cpu.max").write_text("25000 100000\n")
    assert limits(source(root)).usable_cores == 1


@given(
    quotas=st.lists(st.one_of(st.none(), st.integers(1_000, 10_000_000)), min_size=1, max_size=5),
    affinity=st.integers(1, 128),
    cpuset=st.integers(1, 128),
)
def test_usable_is_the_least_of_all(tmp_path_factory, quotas, affinity, cpuset):
    """Whatever stands at which level of the tree, the tightest one counts."""
    names = [f"level{i}" for i in range(len(quotas))]
    files = {
        "proc/self/cgroup": f"0::/{'/'.join(names)}\n",
        "proc/self/mountinfo": "40 39 0:30 / /sys/fs/cgroup ro - cgroup2 cgroup rw\n",
        "proc/self/status": f"Cpus_allowed_list:\t0-{affinity - 1}\n",
        f"sys/fs/cgroup/{'/'.join(names)}/cpuset.cpus.effective": f"0-{cpuset - 1}\n",
    }
    for i, quota in enumerate(quotas):
        files[f"sys/fs/cgroup/{'/'.join(names[: i + 1])}/cpu.max"] = f"{quota or 'max'} 100000\n"
    root = recorded.plant(tmp_path_factory.mktemp("root"), files)
    expected = min(affinity, cpuset, *(math.ceil(quota / 100_000) for quota in quotas if quota))
    assert limits(source(root)).usable_cores == expected


@given(st.integers(1, 10**9), st.integers(1, 10**7))
def test_quotas_are_cores(quota, period):
    assert parse_quota(f"{quota} {period}") == pytest.approx(quota / period)


@given(st.text(max_size=30))
def test_any_text_is_a_quota_or_a_reason(text):
    try:
        cores = parse_quota(text)
    except ValueError:
        return
    assert cores is None or cores > 0


@pytest.mark.parametrize(
    ("files", "environ", "kind"),
    [
        ({".dockerenv": ""}, {}, "docker"),
        ({"run/.containerenv": 'engine="podman-4.9.3"'}, {}, "podman"),
        ({".singularity.d/runscript": ""}, {}, "apptainer"),
        ({}, {"APPTAINER_CONTAINER": "/x.sif"}, "apptainer"),
        ({}, {"KUBERNETES_SERVICE_HOST": "10.0.0.1"}, "kubernetes"),
        ({"run/systemd/container": "lxc\n"}, {}, "lxc"),
        ({"proc/self/cgroup": "1:name=systemd:/lxc/box\n"}, {}, "lxc"),
        ({"proc/self/cgroup": "0::/system.slice/docker-abc.scope\n"}, {}, "docker"),
    ],
)
def test_containers_are_known_by_their_own_marks(tmp_path, files, environ, kind):
    assert [*container(source(recorded.plant(tmp_path, files), **environ))] == [kind]


def test_outside_of_containers_there_is_no_mark(tmp_path):
    root = recorded.plant(tmp_path, {"proc/self/cgroup": "0::/user.slice/user-1000.slice/session-1.scope\n"})
    assert container(source(root)) == {}
