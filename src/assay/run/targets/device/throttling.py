"""Which tests were measured while a device held its clocks down: their figures say less than they seem to."""

from __future__ import annotations

from collections.abc import Mapping

from assay.run.records import MachineTelemetry


def throttled_tests(seen: MachineTelemetry | None) -> dict[str, tuple[str, ...]]:
    """Test → the reasons for which a device held its clocks down during it, such as `gpu:0: power cap`.

    Tests that were not throttled, or that nobody looked at, are left out.
    """
    found: dict[str, tuple[str, ...]] = {}
    for test, span in (seen.spans if seen is not None else {}).items():
        by_device = span.get("throttled")
        if not isinstance(by_device, Mapping):
            continue
        reasons = tuple(
            f"{device}: {reason}"
            for device, told in by_device.items()
            if isinstance(told, list | tuple)
            for reason in told
        )
        if reasons:
            found[test] = reasons
    return found
