"""What happens to a live test whose component is not on the machine: skipped, or failed where it must be there."""

from __future__ import annotations

import os
from typing import NoReturn

import pytest


def lacking(component: str, why: str) -> NoReturn:
    """Skip a test, or fail it where ASSAY_REQUIRE_<component> is 1, as in continuous integration.

    Args:
        component: `CONTAINERS`, `SLURM`, …
        why: what is missing, in words.
    """
    if os.environ.get(f"ASSAY_REQUIRE_{component}") == "1":
        pytest.fail(why)
    pytest.skip(why)
