"""Energy counters of processors in made-up trees with known joules."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.run.probes.readers.energy import Rapl, Zone

S = 1_000_000_000
RANGE_UJ = 262_143_328_850


def zone(root: Path, name: str, kind: str, energy_uj: int = 0) -> Path:
    folder = root / "sys/class/powercap" / name
    folder.mkdir(parents=True)
    (folder / "name").write_text(f"{kind}\n")
    (folder / "max_energy_range_uj").write_text(f"{RANGE_UJ}\n")
    (folder / "energy_uj").write_text(f"{energy_uj}\n")
    return folder / "energy_uj"


def at(*moments_s: float):
    """A clock that tells these moments, one after the other."""
    moments = iter(moments_s)
    return lambda: round(next(moments) * S)


def test_packages_memory_and_system_are_taken_and_parts_of_packages_are_not(tmp_path):
    for name, kind in (
        ("intel-rapl:0", "package-0"),
        ("intel-rapl:0:0", "core"),
        ("intel-rapl:0:1", "uncore"),
        ("intel-rapl:0:2", "dram"),
        ("intel-rapl:1", "package-1"),
        ("intel-rapl:1:0", "dram"),
        ("intel-rapl:2", "psys"),
        ("intel-rapl-mmio:0", "package-0"),
    ):
        zone(tmp_path, name, kind)
    (tmp_path / "sys/class/powercap/intel-rapl").mkdir()
    rapl = Rapl(tmp_path)
    assert [(one.source, one.scope) for one in rapl.zones] == [
        ("rapl:package-0", "package"),
        ("rapl:package-0-dram", "dram"),
        ("rapl:package-1", "package"),
        ("rapl:package-1-dram", "dram"),
        ("rapl:psys", "system"),
    ]
    assert rapl.absent == {}


def test_joules_are_counted_from_the_first_look(tmp_path):
    file = zone(tmp_path, "intel-rapl:0", "package-0", 5_000_000)
    rapl = Rapl(tmp_path)
    (first,) = rapl.read(at(0))
    file.write_text("47500000\n")
    (second,) = rapl.read(at(0.5))
    assert (first.joules, first.since_ns) == (0.0, None)
    assert (second.joules, second.grown_j) == (pytest.approx(42.5), pytest.approx(42.5))
    assert (second.since_ns, second.at_ns) == (0, S // 2)


def test_a_counter_that_begins_again_continues(tmp_path):
    file = zone(tmp_path, "intel-rapl:0", "package-0", RANGE_UJ - 30_000_000)
    rapl = Rapl(tmp_path)
    rapl.read(at(0))
    file.write_text("20000000\n")
    (found,) = rapl.read(at(0.1))
    assert found.joules == pytest.approx(50.0)
    assert rapl.unsure("rapl:package-0", (0, S)) == ""


def test_a_gap_in_which_it_may_have_gone_round_twice_is_reported(tmp_path):
    file = zone(tmp_path, "intel-rapl:0", "package-0", 1_000_000)
    rapl = Rapl(tmp_path)
    rapl.read(at(0))
    file.write_text("2000000\n")
    rapl.read(at(400))
    assert "no reading for 400 s" in rapl.unsure("rapl:package-0", (100 * S, 200 * S))
    assert "package-0 may have gone round more than once" in rapl.unsure("rapl:package-0", (0, 500 * S))
    assert rapl.unsure("rapl:package-0", (400 * S, 500 * S)) == ""
    assert rapl.unsure("rapl:psys", (0, 500 * S)) == ""


class Playback:
    """A file whose numbers are known."""

    def __init__(self, numbers):
        self._numbers = iter(numbers)

    def number(self) -> float:
        return next(self._numbers)


@given(st.lists(st.integers(0, 150_000_000), min_size=1, max_size=50), st.integers(0, 10**9))
def test_any_ramp_comes_out_as_it_is_however_often_it_wraps(steps_uj, first_uj):
    most_uj = 200_000_000
    total, shown = first_uj, [first_uj % most_uj]
    for step in steps_uj:
        total += step
        shown.append(total % most_uj)
    one = Zone("rapl:package-0", "package", Playback(shown), most_uj / 1e6)
    for number in range(len(shown)):
        joules = one.read(number * S // 100)
    assert joules == pytest.approx(sum(steps_uj) / 1e6, abs=1e-6)


def test_no_permission_says_which_file_and_what_helps(tmp_path):
    zone(tmp_path, "intel-rapl:0", "package-0")

    def refused(path):
        raise PermissionError(13, "Permission denied", str(path))

    rapl = Rapl(tmp_path, refused)  # root, who runs tests in a container, may read every file
    assert rapl.zones == []
    assert rapl.absent == {
        "rapl:package-0": "/sys/class/powercap/intel-rapl:0/energy_uj may not be read by this user; "
        "try: sudo chmod a+r /sys/class/powercap/intel-rapl:*/energy_uj"
    }


def test_a_machine_without_counters_says_so(tmp_path):
    rapl = Rapl(tmp_path)
    assert rapl.read() == []
    assert "no intel-rapl in /sys/class/powercap" in rapl.absent["rapl"]


def test_a_counter_that_is_lost_in_the_middle_leaves_the_others(tmp_path):
    file = zone(tmp_path, "intel-rapl:0", "package-0")
    zone(tmp_path, "intel-rapl:1", "package-1")
    rapl = Rapl(tmp_path)
    rapl.read(at(0, 0))
    file.write_text("gone")
    assert [step.source for step in rapl.read(at(1, 1))] == ["rapl:package-1"]
    assert "lost in the middle" in rapl.absent["rapl:package-0"]


def test_the_driver_of_amd_never_wraps(tmp_path):
    chip = tmp_path / "sys/class/hwmon/hwmon3"
    chip.mkdir(parents=True)
    (chip / "name").write_text("amd_energy\n")
    for number, label, energy in ((1, "Ecore000", 5), (2, "Esocket0", 7_000_000)):
        (chip / f"energy{number}_label").write_text(f"{label}\n")
        (chip / f"energy{number}_input").write_text(f"{energy}\n")
    rapl = Rapl(tmp_path)
    rapl.read(at(0))
    (chip / "energy2_input").write_text("12000000\n")
    (found,) = rapl.read(at(900))
    assert (found.source, found.joules) == ("rapl:package-0", pytest.approx(5.0))
    assert rapl.unsure("rapl:package-0", (0, 900 * S)) == ""
