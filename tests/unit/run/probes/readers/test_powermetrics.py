"""Reports of powermetrics, made up as macOS writes them."""

from __future__ import annotations

import io
import plistlib

import pytest

from assay.run.probes.readers.energy import Powermetrics, parse, reports


def report(watts_m: float | None = 7500.0, elapsed_ns: int = 503_000_000, **more) -> bytes:
    processor = {"cpu_power": 4000.0, "gpu_power": 3000.0, **more}
    processor |= {"combined_power": watts_m} if watts_m is not None else {}
    return plistlib.dumps({"is_delta": True, "elapsed_ns": elapsed_ns, "hw_model": "Mac14,2", "processor": processor})


def test_the_power_of_all_parts_together_is_read():
    assert parse(report()) == (0.503, 7.5)


def test_a_mac_with_an_intel_processor_reports_watts():
    assert parse(report(None, package_watts=21.5)) == (0.503, 21.5)


@pytest.mark.parametrize("text", [b"", b"Machine model: x", report(None), report(elapsed_ns=0), b"<plist><dict>"])
def test_what_is_no_report_is_none(text):
    assert parse(text) is None


def test_a_stream_is_cut_at_zero_bytes_wherever_its_blocks_end():
    class Slow(io.BytesIO):
        def read1(self, size: int = -1) -> bytes:
            return super().read1(100)

    stream = Slow(b"\0".join([report(1000.0), b"junk", report(2000.0)]))
    assert [watts for _, watts in reports(stream)] == [1.0, 2.0]


def test_each_report_is_the_stretch_before_it_came():
    moments = iter((10_000_000_000, 11_000_000_000))
    stream = io.BytesIO(report(1000.0) + b"\0" + report(2000.0) + b"\0")
    meter = Powermetrics(lambda: stream, system="darwin", root=True, now_ns=lambda: next(moments))
    meter._thread.join(60)
    assert meter.take() == [(9_497_000_000, 10_000_000_000, 1.0), (10_497_000_000, 11_000_000_000, 2.0)]
    assert meter.take() == []
    assert meter.absent == "powermetrics has ended"


def no_program():
    raise FileNotFoundError(2, "No such file or directory")


@pytest.mark.parametrize(
    ("meter", "says"),
    [
        (lambda: Powermetrics(system="linux"), "macOS alone"),
        (lambda: Powermetrics(system="darwin", root=False), "needs root"),
        (lambda: Powermetrics(no_program, system="darwin", root=True), "cannot be started: No such file"),
    ],
)
def test_where_it_cannot_be_started_it_says_why(meter, says):
    one = meter()
    assert says in one.absent
    assert one.take() == []
    one.close()
