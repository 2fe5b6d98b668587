"""Frameworks for machine learning: which are installed, and a proof of each that it works.

known.py    the frameworks that are looked for, and their versions
trial.py    one framework tried in a process of its own, device by device
proofs.py   what that process does
kept.py     proofs of earlier calls
"""

from __future__ import annotations

from assay.hardware.frameworks.trial import frameworks, installed

__all__ = ["frameworks", "installed"]
