"""Which probes work here, and the command that would bring the missing ones."""

from __future__ import annotations

import pytest

from assay.hardware.gpu.detect import Detection
from assay.hardware.gpu.record import Gpu
from assay.hardware.probes import probes
from assay.hardware.source import FactSource

PROC = {f"proc/{name}": "x" for name in ("stat", "meminfo", "diskstats", "net/dev")}
RAPL = {"sys/class/powercap/intel-rapl:0/energy_uj": "123", "sys/class/powercap/intel-rapl:0/name": "package-0"}
RAPL_FILE = "/sys/class/powercap/intel-rapl:0/energy_uj"


def detected(*vendors):
    return Detection(tuple(Gpu(0, "a board", one, "nvml") for one in vendors), "nvml", {"nvml": "none"})


def by_name(found):
    return {one.name: one for one in found}


def test_what_works_is_reported_with_its_source(tree, boards):
    found = by_name(probes(boards(), detected("nvidia"), tree(PROC | RAPL), "linux"))
    assert found["processor time"].works
    assert (found["energy of the processor"].works, found["energy of the processor"].detail) == (True, "package-0")
    assert (found["energy of GPU 0"].works, found["energy of GPU 0"].detail) == (True, "by its counter")


def test_what_a_machine_does_not_have_has_a_reason_and_no_remedy(tree, boards):
    found = by_name(probes(boards(absent="pynvml is not installed"), detected(), tree(PROC), "linux"))
    assert (found["energy of the processor"].works, found["energy of the processor"].fix) == (False, ())
    assert "energy of the GPUs" not in found
    assert (found["GPUs"].detail, found["GPUs"].sources) == ("no GPU found", {"nvml": "none"})
    assert all(one.detail for one in found.values())


def test_no_permission_for_the_energy_counter_has_a_command(tree, boards, monkeypatch):
    real = FactSource.bytes

    def denied(self, path, *words):
        if path == RAPL_FILE:
            raise PermissionError(13, "Permission denied", path)
        return real(self, path, *words)

    monkeypatch.setattr(FactSource, "bytes", denied)
    found = by_name(probes(boards(), detected(), tree(PROC | RAPL), "linux"))["energy of the processor"]
    assert found.works is False
    assert RAPL_FILE in found.detail
    assert found.fix[0].startswith("sudo chmod a+r /sys/class/powercap/")


def test_a_gpu_without_its_library_has_a_command(tree, boards):
    found = by_name(probes(boards(absent="pynvml is not installed"), detected("nvidia"), tree(PROC), "linux"))
    assert found["energy of the GPUs"].fix == ("pip install 'assay-bench[gpu]'",)


@pytest.mark.parametrize(
    ("left", "works", "words"), [({"power_w": 70.0}, True, "samples of its power"), ({}, False, "neither its energy")]
)
def test_how_the_energy_of_a_board_is_known(tree, boards, left, works, words):
    reader = boards()
    reader.readings = [{"gpu_util_pct": 1.0, **left}]
    found = by_name(probes(reader, detected("nvidia"), tree(PROC), "linux"))["energy of GPU 0"]
    assert found.works is works
    assert words in found.detail


def test_a_lost_board_does_not_hide_the_others(tree, boards):
    reader = boards({}, {}, falls_off=frozenset({0}))
    found = by_name(probes(reader, detected("nvidia", "nvidia"), tree(PROC), "linux"))
    assert (found["energy of GPU 0"].works, found["energy of GPU 1"].works) == (False, True)
    assert "GPU is lost" in found["energy of GPU 0"].detail
