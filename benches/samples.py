"""How long a million samples take to store, to read back and to summarise."""

from __future__ import annotations

import tempfile

from benches.figures import median_of
from benches.page import Page, Table
from benches.processes import BUILD, contest

STORE_S = SUMMARISE_S = 1.0


def bench(*, quick: bool = False) -> Page:
    """Store other samples in every round, each in a fresh process."""
    rounds = 3 if quick else 9
    BUILD.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=BUILD) as folder:
        answers = [contest("samples", folder, seed) for seed in range(rounds)]
    store, read, summarise, size = (
        median_of([answer[key] for answer in answers]) for key in ("store_s", "read_s", "summarise_s", "size_bytes")
    )
    rows = [
        ["store: encode, write, fsync", f"{store.text(3)} s", f"< {STORE_S:g} s", store.below(STORE_S)],
        ["read back, hash checked", f"{read.text(3)} s", "", ""],
        ["summarise, 5 runs × 200,000", f"{summarise.text(3)} s", f"< {SUMMARISE_S:g} s", summarise.below(SUMMARISE_S)],
        ["file", f"{size.text(2, 1e-6)} MB, {size.value / 1e6:.1f} bytes per sample", "", ""],
    ]
    notes = [
        (
            f"Median of {rounds} rounds with its 95 % interval; each is a fresh process, so importing pyarrow "
            "is in the time to store. What is read back is checked to be what was stored."
        ),
        "Samples are log-normal times of about 1 ms in whole nanoseconds, with the moment each began.",
    ]
    table = Table("1,000,000 samples", ["step", "figure", "target", "kept"], rows, notes)
    return Page("samples", "A million samples", _ABOUT, [table])


_ABOUT = "Every sample is kept. This is what keeping and summarising them costs, beside the measuring itself."
