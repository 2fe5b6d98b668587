"""The barrier: all begin at one moment or none does, whatever order they come in, and late ones are told."""

from __future__ import annotations

import json
import threading
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from assay.errors import MeasureError
from assay.run.load.barrier import BarrierOutcome, Meeting, forget_absences, give_up, meet


def together(
    folder: Path, delays: list[float], *, within_s: float = 120.0, lead_s: float = 0.2
) -> list[BarrierOutcome | Exception]:
    """Let as many threads as there are delays meet, each after its own."""
    found: list[BarrierOutcome | Exception] = [ValueError()] * len(delays)

    def come(who: int) -> None:
        time.sleep(delays[who])
        try:
            found[who] = meet(folder, who, len(delays), within_s, lead_s=lead_s)
        except MeasureError as problem:
            found[who] = problem

    threads = [threading.Thread(target=come, args=(who,)) for who in range(len(delays))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found


@settings(max_examples=8)
@given(st.lists(st.floats(0, 0.15), min_size=2, max_size=8))
def test_all_learn_the_same_moment_after_the_last_has_come(tmp_path_factory, delays):
    folder = tmp_path_factory.mktemp("barrier") / "run-0"
    before_ns = time.time_ns()
    met = together(folder, delays)
    assert all(isinstance(one, BarrierOutcome) for one in met), met
    assert len({one.start_at_ns for one in met}) == 1
    assert met[0].start_at_ns >= before_ns + int((max(delays) + 0.2) * 1e9)
    assert all(one.arrived == len(delays) for one in met)
    assert met[0].clock_offset_s is None
    for one in met[1:]:
        low, high = one.clock_offset_s
        assert low <= 0 <= high, "one clock is never apart from itself"
        assert high - low < 20


def test_bounds_of_clocks_come_from_who_saw_what_when(tmp_path):
    """Host 0's file says that it saw this one before it came by its own clock: this clock is ahead by that."""
    folder = tmp_path / "run-0"
    result: list[BarrierOutcome] = []
    thread = threading.Thread(target=lambda: result.append(meet(folder, 1, 2, 120.0)))
    thread.start()
    while not (folder / "host-1.json").exists():
        time.sleep(0.01)
    came_ns = json.loads((folder / "host-1.json").read_text())["at_ns"]
    slow_ns = came_ns - 5_000_000_000  # host 0's clock is five seconds behind
    start = {"start_at_ns": slow_ns + 10**9, "written_at_ns": slow_ns + 100, "seen_ns": {"0": slow_ns, "1": slow_ns}}
    (folder / "part").write_text(json.dumps(start))
    (folder / "part").replace(folder / "start.json")
    thread.join()
    took_s = (time.time_ns() - came_ns) / 1e9
    low, high = result[0].clock_offset_s
    assert low == pytest.approx(5.0)
    assert 5.0 <= high < 5.0 + took_s
    assert 4.0 - 1e-3 <= result[0].late_s <= 4.0 + took_s, "it knows that the moment has passed for it"
    assert result[0].facts()["clock_offset_from_host_0_s"] == [low, high]


def test_one_who_does_not_come_is_named(tmp_path):
    (tmp_path / "host-2.json").write_text("{}")
    with pytest.raises(MeasureError, match=r"clients 1, 3 of 4 did not come within 0\.3 s") as caught:
        meet(tmp_path, 0, 4, 0.3)
    assert caught.value.problem.code == "barrier-incomplete"
    assert not (tmp_path / "start.json").exists()


def test_one_who_cannot_come_says_so_and_nobody_waits(tmp_path):
    give_up(tmp_path, 1, "its model is missing")
    begin = time.monotonic()
    with pytest.raises(MeasureError, match="client 1 cannot take part in this run: its model is missing") as caught:
        meet(tmp_path, 0, 2, 250.0)
    assert time.monotonic() - begin < 120
    assert caught.value.problem.code == "barrier-absent"


def test_one_who_came_may_fail_afterwards_without_a_word(tmp_path):
    assert all(isinstance(one, BarrierOutcome) for one in together(tmp_path, [0, 0]))
    give_up(tmp_path, 1, "too late")
    assert not (tmp_path / "absent-1.json").exists()


def test_one_who_came_and_leaves_before_the_others_is_no_longer_waited_for(tmp_path):
    (tmp_path / "host-1.json").write_text("{}")
    give_up(tmp_path, 1, "its job was ended")
    with pytest.raises(MeasureError, match="client 1 cannot take part in this run: its job was ended"):
        meet(tmp_path, 0, 2, 120.0)


def test_one_who_gave_up_may_come_after_all(tmp_path):
    give_up(tmp_path, 0, "its job was ended")
    give_up(tmp_path, 1, "its job was ended")
    forget_absences(tmp_path)
    assert all(isinstance(one, BarrierOutcome) for one in together(tmp_path, [0, 0.1]))


def test_one_who_comes_again_does_not_load_alone(tmp_path):
    together(tmp_path, [0, 0])
    with pytest.raises(MeasureError, match="began this run without client 1") as caught:
        meet(tmp_path, 1, 2, 120.0)
    assert caught.value.problem.code == "barrier-missed"


def test_a_folder_that_cannot_be_used_is_reported(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(MeasureError, match="where clients meet cannot be used"):
        meet(tmp_path / "file" / "run-0", 0, 1, 1.0)


def test_each_run_has_a_folder_of_its_own():
    meeting = Meeting("/shared/barrier/g", 0, 2)
    assert meeting.of_run(3) == Path("/shared/barrier/g/run-3")
    assert meeting.of_jobs() == Path("/shared/barrier/g/jobs")
