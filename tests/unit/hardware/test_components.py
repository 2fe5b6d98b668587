"""File systems of folders: their kind, their room, and whether a network lies between."""

from __future__ import annotations

from pathlib import Path

from tests.unit.hardware import recorded

from assay.hardware.components import file_systems, mounts
from assay.hardware.source import FactSource

TABLE = (
    "25 1 8:1 / / rw - ext4 /dev/sda1 rw\n"
    "26 25 0:40 / /srv rw - nfs4 server:/export rw\n"
    "27 25 0:41 / /srv/fast\\040disk rw - xfs /dev/nvme0n1 rw\n"
    "28 25 0:42 / /run/memory rw shared:2 master:1 - tmpfs tmpfs rw\n"
    "29 25 0:43 / /shared rw - virtiofs host rw\n"
    "half a line\n"
)


def look(tmp_path, place, usage=lambda _: (100, 40)):
    source = FactSource(recorded.plant(tmp_path, {"proc/self/mountinfo": TABLE}), "linux")
    return file_systems(source, {"results": Path(place)}, usage)["results"], source.absent


def test_a_network_file_system_says_so(tmp_path):
    found, absent = look(tmp_path, "/srv/results")
    assert found == {
        "folder": "/srv/results",
        "type": "nfs4",
        "device": "server:/export",
        "mounted_at": "/srv",
        "network": True,
        "size_bytes": 100,
        "free_bytes": 40,
    }
    assert absent == {}


def test_the_nearest_mount_holds_a_folder(tmp_path):
    assert look(tmp_path, "/srv/fast disk/store")[0]["type"] == "xfs"
    assert look(tmp_path, "/srvother")[0]["type"] == "ext4"


def test_memory_and_folders_of_the_host_say_so(tmp_path):
    assert look(tmp_path, "/run/memory/x")[0]["in_memory"] is True
    assert look(tmp_path, "/shared/x")[0]["of_the_host"] is True


def test_a_folder_whose_room_is_not_reported_keeps_the_rest(tmp_path):
    def stale(_):
        raise OSError(116, "Stale file handle")

    found, absent = look(tmp_path, "/srv/results", stale)
    assert found["type"] == "nfs4"
    assert "free_bytes" not in found
    assert "Stale file handle" in absent["file_systems.results.free_bytes"]


def test_without_a_table_the_room_is_still_reported(tmp_path):
    source = FactSource(tmp_path, "linux")
    found = file_systems(source, {"results": tmp_path / "not" / "yet" / "made"})["results"]
    assert found["free_bytes"] > 0
    assert "file_systems.results.type" in source.absent


def test_of_two_mounts_at_one_point_the_later_counts(tmp_path):
    table = "1 0 8:1 / /data rw - ext4 /dev/sda1 rw\n2 0 0:9 / /data rw - nfs server:/x rw\n"
    source = FactSource(recorded.plant(tmp_path, {"proc/self/mountinfo": table}), "linux")
    assert [one.kind for one in mounts(source)] == ["ext4", "nfs"]
    assert file_systems(source, {"d": Path("/data")}, lambda _: (1, 1))["d"]["type"] == "nfs"
