"""What happens in the course of the demo's year: code, drivers, kernels, fans, and how far each moves the numbers."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from assay.demo.machines import Machine

What = Literal["step", "drift", "span"]


@dataclass(frozen=True, slots=True)
class Change:
    """Something that moves numbers, or only stands beside them."""

    at: float
    """When, as a share of the whole time."""
    what: What = "step"
    until: float = 1.0
    """When a drift has come to its end, or a span is over."""
    study: str = ""
    """The benchmark that it moves; any when empty."""
    machine: str = ""
    """The machine that it happens to; any when empty."""
    slower: float = 0.0
    """By how much longer things take, as a share."""
    heavier: float = 0.0
    """By how much more memory is taken, as a share."""
    commit: bool = False
    """Whether it came with new code."""
    driver: str = ""
    kernel: str = ""
    packages: Mapping[str, str] = field(default_factory=dict)
    hot: bool = False
    """Whether the machine holds its clocks down meanwhile."""
    note: str = ""

    def share(self, now: float) -> float:
        """How much of it is there at a moment."""
        if now < self.at or (self.what == "span" and now > self.until):
            return 0.0
        return min(1.0, (now - self.at) / (self.until - self.at)) if self.what == "drift" else 1.0


CHANGES: tuple[Change, ...] = (
    Change(0.16, study="demo image classifier", slower=0.07, commit=True, note="a lock around the cache of tensors"),
    Change(0.27, study="demo image classifier", slower=-0.065, commit=True, note="the lock is gone again"),
    Change(0.33, machine="demo-h100-01", driver="575.51.03", note="a new driver"),
    Change(0.33, study="demo chat capacity", machine="demo-h100-01", slower=0.12, note="which the chat does not like"),
    Change(0.38, "drift", 0.62, study="demo training throughput", machine="demo-workstation-01", slower=0.11,
           note="slower and slower, and nothing that is recorded says why"),
    Change(0.45, machine="demo-server-01", kernel="6.1.0-31-amd64", note="a new kernel without effect"),
    Change(0.52, study="demo vector search", slower=-0.14, heavier=0.1, commit=True, note="vectors are quantised"),
    Change(0.58, study="demo chat capacity", slower=-0.16, commit=True, note="prefixes are kept"),
    Change(0.66, "span", 0.71, machine="demo-server-01", study="demo image classifier", slower=0.09, hot=True,
           note="a broken fan"),
    Change(0.74, machine="demo-server-01", packages={"onnxruntime": "1.23.0", "numpy": "2.3.1"},
           study="demo image classifier", slower=-0.05, note="a new runtime"),
    Change(0.80, machine="demo-xeon-01", kernel="6.1.0-32-amd64", note="a new kernel"),
    Change(0.86, study="demo resnet50 on a GPU", slower=0.06, commit=True, note="a transpose too many"),
    Change(0.90, study="demo vector search", slower=0.11, commit=True, note="a filter is applied twice"),
    Change(0.93, study="demo chat capacity", slower=0.13, commit=True, note="the tokenizer is called twice"),
    Change(0.95, study="demo image classifier", slower=0.055, heavier=0.04, commit=True, note="a copy too many"),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Moment:
    """How things stand for one benchmark on one machine at one time."""

    slower: float
    """Times are this many times as long."""
    heavier: float
    hot: bool
    commit: str
    machine: Machine
    """With the software of the day."""


def moment(study: str, machine: Machine, now: float, seed: int) -> Moment:
    """How things stand."""
    slower, heavier, hot, commits = 1.0, 1.0, False, int(now * 90)
    for change in CHANGES:
        here = change.machine in ("", machine.name)
        if change.share(now) <= 0:
            continue
        commits += 1000 * change.commit
        if here and change.study in ("", study):
            slower *= 1 + change.share(now) * change.slower
            heavier *= 1 + change.share(now) * change.heavier
            hot = hot or change.hot
        if here and change.machine:
            packages = {**machine.packages, **change.packages}
            machine = replace(
                machine,
                driver=change.driver or machine.driver,
                kernel=change.kernel or machine.kernel,
                packages=packages,
            )
    commit = hashlib.sha1(f"{seed}/{study}/{commits}".encode(), usedforsecurity=False).hexdigest()
    return Moment(slower, heavier, hot, commit, machine)
