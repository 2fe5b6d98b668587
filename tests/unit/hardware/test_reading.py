"""Readers of single files, and the small notations of the kernel."""

from __future__ import annotations

import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.hardware import recorded

from assay.hardware.components import module
from assay.hardware.cpu import cores_by_part, instructions
from assay.hardware.source import FactSource, cpu_set, size_of


def as_list(cpus: set[int]) -> str:
    """CPUs as the kernel writes them."""
    parts, rest = [], sorted(cpus)
    while rest:
        end = 0
        while end + 1 < len(rest) and rest[end + 1] == rest[end] + 1:
            end += 1
        parts.append(f"{rest[0]}-{rest[end]}" if end else f"{rest[0]}")
        rest = rest[end + 1 :]
    return ",".join(parts)


@given(st.sets(st.integers(0, 5000), max_size=200))
def test_lists_of_cpus_come_back_as_they_were(cpus):
    assert cpu_set(as_list(cpus) + "\n") == cpus


@given(st.text(alphabet="0123456789-,: x\u0663", max_size=20))
def test_any_text_is_a_list_of_cpus_or_refused(text):
    try:
        found = cpu_set(text)
    except ValueError:
        return
    assert all(0 <= one < 65_536 for one in found)


@pytest.mark.parametrize("text", ["0-99999999999", "3-1", "-1", "a", "1-", "0-3:2/4"])
def test_what_is_no_list_of_cpus_is_refused(text):
    with pytest.raises(ValueError, match="no range"):
        cpu_set(text)


@given(st.integers(0, 10**9), st.sampled_from([("", 1), ("K", 2**10), ("M", 2**20), ("G", 2**30)]))
def test_sizes_of_caches(number, unit):
    assert size_of(f"{number}{unit[0]}\n") == number * unit[1]


@given(st.text(max_size=12))
def test_any_text_is_a_size_or_refused(text):
    try:
        found = size_of(text)
    except ValueError:
        return
    assert found >= 0


@given(st.binary(max_size=200))
def test_any_bytes_are_a_memory_module_or_refused(raw):
    try:
        found = module(raw)
    except ValueError:
        return
    assert found is None or all(value not in (None, "") for value in found.values())


@given(st.integers(0x15, 0x5C))
def test_older_firmware_reports_less_of_a_module(length):
    found = module(recorded.memory_module(8192, 0x1A, 3200, 2933, length=length))
    assert (found["size_bytes"], found["type"]) == (8 * 2**30, "DDR4")
    assert found.get("rated_mts") == (3200 if length >= 0x17 else None)
    assert found.get("speed_mts") == (2933 if length >= 0x22 else None)


def test_a_module_of_a_type_that_is_not_known_keeps_its_number():
    assert module(recorded.memory_module(1024, 0x7F, 0, 0))["type"] == "type 0x7f"


def test_why_a_file_cannot_be_read_is_kept_once(tmp_path):
    source = FactSource(tmp_path)
    assert source.text("/sys/none", "fact") == ""
    source.lack("fact", "a later reason")
    assert source.absent == {"fact": "/sys/none is not there"}


def test_a_file_that_may_not_be_read_says_so(tmp_path, monkeypatch):
    def refuse(*_):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("os.open", refuse)
    source = FactSource(tmp_path)
    assert source.number("/sys/secret", "fact") is None
    assert source.absent == {"fact": "/sys/secret may not be read by this user"}


@pytest.mark.parametrize(
    ("problem", "words"),
    [
        (FileNotFoundError("x"), "the command x is not there"),
        (subprocess.TimeoutExpired("x", 10), "did not answer"),
        (subprocess.CalledProcessError(3, "x"), "ended with 3"),
        (PermissionError("x"), "cannot be run"),
    ],
)
def test_why_a_command_reports_nothing_is_kept(tmp_path, problem, words):
    def run(_):
        raise problem

    source = FactSource(tmp_path, run=run)
    assert source.command("x", fact="fact") == ""
    assert words in source.absent["fact"]


def test_long_files_of_the_kernel_come_whole(tmp_path):
    text = "line\n" * 100_000
    assert FactSource(recorded.plant(tmp_path, {"proc/long": text})).text("/proc/long") == text.strip()


@pytest.mark.live
def test_files_that_refuse_large_reads_are_read():
    """Some files of /proc answer a read of many megabytes with an error."""
    source = FactSource()
    if not source.exists("/proc/sys/kernel/osrelease"):
        pytest.skip("no such file on this system")
    assert source.text("/proc/sys/kernel/osrelease", "kernel")
    assert source.absent == {}


def test_instructions_are_those_that_every_core_has(tmp_path):
    blocks = [{"flags": "avx avx2 fma"}, {"flags": "avx fma"}, {}]
    assert instructions(FactSource(tmp_path), blocks) == ["avx", "fma"]


def test_risc_v_reports_its_vectors_by_letters(tmp_path):
    blocks = [{"isa": "rv64imafdcv_zicbom_zvfh"}, {"isa": "rv64imafdcv_zicbom_zvfh"}]
    assert instructions(FactSource(tmp_path), blocks) == ["rvv", "zvfh"]
    assert instructions(FactSource(tmp_path), [{"isa": "rv64imafdc_zicsr"}]) == []


def test_a_core_that_nobody_lists_keeps_its_number():
    blocks = [{"CPU implementer": "0x41", "CPU part": "0xd08"}, {"CPU implementer": "0x61", "CPU part": "0x032"}]
    assert cores_by_part(blocks) == {"Cortex-A72": 1, "implementer 0x61, part 0x032": 1}
