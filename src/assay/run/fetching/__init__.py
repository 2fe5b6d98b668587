"""What programs need from elsewhere: fetched once, checked, put where they look for it, and gone after the job."""

from __future__ import annotations

from assay.run.fetching.having import Had, have, is_here
from assay.run.fetching.holding import at_hand, service_at_hand
from assay.spec.fetching import in_folders

__all__ = ["Had", "at_hand", "have", "in_folders", "is_here", "service_at_hand"]
