"""`$(NAME)` as Kubernetes puts values in: what is not known stays, and a doubled dollar is one."""

from __future__ import annotations

import pytest

from assay.spec.importers.benchmark_ai_descriptor import expanded


@pytest.mark.parametrize(
    ("text", "becomes"),
    [
        ("$(A)/x", "1/x"),
        ("$(A)$(B)", "1two"),
        ("$(C)", "$(C)"),
        ("$$(A)", "$(A)"),
        ("$$$(A)", "$1"),
        ("$A ${A} $(A", "$A ${A} $(A"),
        ("$$", "$"),
        ("", ""),
    ],
)
def test_references(text: str, becomes: str) -> None:
    assert expanded(text, {"A": "1", "B": "two"}) == becomes
