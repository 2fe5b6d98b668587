"""Everything together in made-up machines: boards that play back a known ramp, counters that wrap, parts that fail."""

from __future__ import annotations

import csv
import gzip
import os
import sys
import time
from pathlib import Path

import pytest
from tests.unit.hardware.gpu.recorded import Nvml, board

from assay.hardware.gpu.nvml import GpuReader
from assay.run.probes.sampler import Sampler

pytestmark = [pytest.mark.simulated, pytest.mark.skipif(sys.platform != "linux", reason="/proc is Linux's")]


class Boards:
    """Boards whose energy grows by known watts, by the clock; one may be lost, hang or tell nothing."""

    absent = ""

    def __init__(self, *watts: float, counter: bool = True, pids: tuple[int, ...] = ()) -> None:
        self.watts, self.counter, self.pids = list(watts), counter, pids
        self.lost: dict[int, str] = {}
        self.bits = 0.0
        self.hang_s = 0.0
        self.fails: set[int] = set()
        self._begin = time.perf_counter()

    @property
    def count(self) -> int:
        return len(self.watts)

    def read(self, index: int) -> dict[str, float]:
        time.sleep(self.hang_s)
        if index in self.fails:
            raise RuntimeError(f"GPU {index} is lost")
        told = {"gpu_util_pct": 90.0, "power_w": self.watts[index], "throttle_bits": self.bits}
        if self.counter:
            told["energy_j"] = 7e6 + self.watts[index] * (time.perf_counter() - self._begin)
        return told

    def throttle_reasons(self, bits: float) -> tuple[str, ...]:
        return ("power cap",) if int(bits) & 4 else ()

    def processes(self, index: int) -> tuple[tuple[int, int | None], ...]:
        return tuple((pid, None) for pid in self.pids)


def machine(root: Path, *, driver: bool = True) -> Path:
    """A tree with the real /proc and a driver of NVIDIA."""
    (root / "proc").symlink_to("/proc")
    if driver:
        (root / "dev").mkdir()
        (root / "dev" / "nvidia0").touch()
    return root


def sampled(sampler: Sampler, root: Path, seconds: float = 0.5, *, pid: int | None = None, during=lambda: None):
    """Look for a while at this process, and give back what was seen."""
    sampler.begin(os.getpid() if pid is None else pid)
    begin = time.perf_counter_ns()
    for number in range(round(seconds / 0.02)):
        sampler.read()
        time.sleep(0.02)
        if number == round(seconds / 0.04):
            during()
    end = time.perf_counter_ns()
    told = sampler.finish([("measure", begin, end)], {}, root / "out.csv.gz")
    return told, (end - begin) / 1e9


@pytest.fixture
def looked(tmp_path):
    made = []

    def make(boards: Boards, **more) -> Sampler:
        sampler = Sampler(0.02, (), machine(tmp_path), lambda: boards, **more)
        made.append(sampler)
        return sampler

    yield make
    for one in made:
        one.close()


def test_a_known_ramp_of_energy_comes_out(tmp_path, looked):
    sampler = looked(Boards(300.0, 500.0))
    sampler.settle()
    told, seconds = sampled(sampler, tmp_path)
    first, second = told["energy"]
    assert (first["grade"], second["grade"]) == ("counter", "counter")
    assert first["joules"] == pytest.approx(300 * seconds, rel=0.08)
    assert second["joules"] == pytest.approx(500 * seconds, rel=0.08)
    assert first["idle_w"] == pytest.approx(300, rel=0.05)
    assert told["statistics"]["gpu:1.power_w"] == {"mean": 500.0, "min": 500.0, "max": 500.0}
    assert told["throttled"]["gpu:0"] == ()
    with gzip.open(tmp_path / "out.csv.gz", "rt") as file:
        assert {("gpu:0", "energy_j"), ("gpu:1", "throttle_bits")} <= {
            (r["source"], r["name"]) for r in csv.DictReader(file)
        }


def test_a_board_without_a_counter_is_sampled_and_its_idle_power_is_what_it_reported(tmp_path, looked):
    sampler = looked(Boards(250.0, counter=False))
    sampler.settle()
    told, seconds = sampled(sampler, tmp_path)
    (found,) = told["energy"]
    assert (found["grade"], found["idle_w"]) == ("sampled", 250.0)
    assert found["joules"] == pytest.approx(250 * seconds, rel=0.1)


def test_a_board_that_is_lost_in_the_middle_leaves_the_others(tmp_path, looked):
    boards = Boards(300.0, 500.0)
    sampler = looked(boards)
    sampler.settle()
    told, seconds = sampled(sampler, tmp_path, 0.6, during=lambda: boards.fails.add(0))
    assert told["absent"]["gpu:0"] == "lost in the middle: GPU 0 is lost"
    by_source = {one["source"]: one for one in told["energy"]}
    assert by_source["NVML energy counter of GPU 1"]["joules"] == pytest.approx(500 * seconds, rel=0.08)
    # What it told before stands for the part of the window that it covers, or for nothing.
    of_lost = by_source.get("NVML energy counter of GPU 0")
    assert of_lost is None or of_lost["seconds"] < seconds * 0.95
    assert "gpu:1.power_w" in told["statistics"]
    assert "machine.cpu_pct" in told["statistics"]


def test_a_driver_that_hangs_holds_nothing_up(tmp_path, looked):
    boards = Boards(300.0)
    told, _ = sampled(looked(boards), tmp_path, 0.4, during=lambda: setattr(boards, "hang_s", 20.0))
    assert "did not answer within" in told["absent"]["gpu"]
    assert told["looks"] >= 5
    assert "job.cpu_pct" in told["statistics"]


def test_reasons_for_throttling_are_those_of_the_window(tmp_path, looked):
    boards = Boards(300.0)
    sampler = looked(boards)
    told, _ = sampled(sampler, tmp_path, during=lambda: setattr(boards, "bits", 4.0))
    assert told["throttled"]["gpu:0"] == ("power cap",)
    boards.bits = 0.0
    sampler._read_gpus()
    sampler._gpus.taken()
    again, _ = sampled(sampler, tmp_path)
    assert again["throttled"]["gpu:0"] == ()


def test_processes_of_others_on_a_board_are_named(tmp_path, looked):
    sampler = looked(Boards(300.0, pids=(os.getpid(), 1)))
    told, _ = sampled(sampler, tmp_path)
    (name,) = told["foreign"]["gpu:0"]
    assert name.endswith("(pid 1)")
    assert told["statistics"]["gpu:0.job_processes"]["max"] == 1.0


def test_numbers_of_another_container_are_not_taken_for_strangers(tmp_path, looked):
    boards = Boards(300.0)
    sampler = looked(boards)
    sampler._read_gpus()

    def comes() -> None:
        boards.pids = (4_000_000,)

    told, _ = sampled(sampler, tmp_path, 1.2, during=comes)
    assert told["foreign"] == {"gpu:0": ()}
    assert "another container" in told["absent"]["gpu:0.processes"]
    assert "gpu:0.job_processes" not in told["statistics"]


def test_a_machine_without_a_driver_never_requests_boards(tmp_path):
    def never():
        raise AssertionError("there is no driver")

    sampler = Sampler(0.02, (), machine(tmp_path, driver=False), never)
    told, _ = sampled(sampler, tmp_path, 0.1)
    assert not [name for name in told["absent"] if name.startswith("gpu")]


def test_a_driver_whose_library_is_missing_says_so(tmp_path):
    def missing():
        raise ImportError("no module named pynvml")

    sampler = Sampler(0.02, (), machine(tmp_path), missing)
    told, _ = sampled(sampler, tmp_path, 0.1)
    assert told["absent"]["gpu"] == "NVML cannot be loaded: no module named pynvml"


def test_an_h200_played_back_through_the_reader_of_the_house(tmp_path):
    told_by_board = board("h200")
    sampler = Sampler(0.02, (), machine(tmp_path), lambda: GpuReader(Nvml(told_by_board).load))
    try:
        told, _ = sampled(sampler, tmp_path, 0.3)
    finally:
        sampler.close()
    assert told["statistics"]["gpu:0.sm_mhz"]["mean"] == 345.0
    assert told["throttled"]["gpu:0"] == ()
    (found,) = told["energy"]
    assert (found["grade"], found["joules"]) == ("sampled", pytest.approx(81.911 * found["seconds"]))


class Clock:
    """A package that uses known watts, by the clock, and whose counter wraps."""

    RANGE_UJ = 400_000_000

    def __init__(self, root: Path, watts: float) -> None:
        self.folder = root / "sys/class/powercap/intel-rapl:0"
        self.folder.mkdir(parents=True)
        (self.folder / "name").write_text("package-0\n")
        (self.folder / "max_energy_range_uj").write_text(f"{self.RANGE_UJ}\n")
        self.watts, self._begin = watts, time.perf_counter()
        self.tick()

    def tick(self) -> None:
        used_uj = round(self.watts * 1e6 * (time.perf_counter() - self._begin)) % self.RANGE_UJ
        path = self.folder / "energy_uj"
        with path.open("r+" if path.exists() else "w") as file:
            file.write(f"{used_uj:>20}\n")


def test_a_package_whose_counter_wraps_within_the_window(tmp_path):
    package = Clock(machine(tmp_path, driver=False), watts=1000.0)
    sampler = Sampler(0.02, (), tmp_path)
    sampler.begin(os.getpid())
    begin = time.perf_counter_ns()
    for _ in range(50):
        package.tick()
        sampler.read()
        time.sleep(0.02)
    package.tick()
    end = time.perf_counter_ns()
    told = sampler.finish([("measure", begin, end)], {"all": (begin, end)}, tmp_path / "out.csv.gz")
    seconds = (end - begin) / 1e9
    (found,) = told["energy"]
    assert 1000.0 * seconds > 2 * package.RANGE_UJ / 1e6  # it went round at least twice, a little at a time
    assert found["joules"] == pytest.approx(1000 * seconds, rel=0.05)
    assert (found["source"], found["scope"], found["grade"]) == ("RAPL counter of package-0", "package", "counter")
    assert told["spans"]["all"]["energy"][0]["joules"] == found["joules"]
    assert told["statistics"]["rapl:package-0.power_w"]["mean"] == pytest.approx(1000, rel=0.1)


def test_a_machine_that_shows_nothing_still_gives_an_answer(tmp_path):
    sampler = Sampler(0.02, (os.getpid(),), tmp_path)
    told, _ = sampled(sampler, tmp_path, 0.1)
    assert told["statistics"] == {}
    assert told["energy"] == []
    assert {"machine.cpu_pct", "machine.memory_available_bytes", "rapl"} <= told["absent"].keys()
    assert told["looks"] > 0


def test_what_fails_in_a_look_is_reported_and_the_next_is_tried(tmp_path):
    sampler = Sampler(0.02, (), machine(tmp_path, driver=False))
    real = sampler._own.read
    sampler._own.read = lambda: 1 / 0
    sampler.read()
    sampler._own.read = real
    told, _ = sampled(sampler, tmp_path, 0.1)
    assert told["absent"]["looking"] == "ZeroDivisionError: division by zero"
    assert "machine.cpu_pct" in told["statistics"]


def test_a_run_of_hours_is_checked_less_often(tmp_path):
    sampler = Sampler(0.1, (), tmp_path)
    assert sampler.wait_s() == 0.1
    sampler._run.at_ns = [0] * 36_000
    assert sampler.wait_s() == 0.2
    sampler._run.at_ns = [0] * 108_000
    assert sampler.wait_s() == 0.8


def test_the_window_that_a_target_counted_in_goes_before_its_phase(tmp_path, looked):
    """A load waits for its last answers in its phase `measure`; nothing of that is in its rates."""
    sampler = looked(Boards(300.0))
    sampler.begin(os.getpid())
    begin = time.perf_counter_ns()
    for _ in range(20):
        sampler.read()
        time.sleep(0.02)
    middle, end = begin + (time.perf_counter_ns() - begin) // 2, time.perf_counter_ns()
    told = sampler.finish([("measure", begin, end), ("window", begin, middle)], {}, tmp_path / "out.csv.gz")
    assert tuple(told["window_ns"]) == (begin, middle)
    assert told["energy"][0]["joules"] == pytest.approx(300 * (middle - begin) / 1e9, rel=0.15)
    with gzip.open(tmp_path / "out.csv.gz", "rt") as file:
        phases = {row["name"] for row in csv.DictReader(file) if row["source"] == "phase"}
    assert phases == {"measure"}, "it is no phase of the run"
