"""What programs need from elsewhere: fetched once, checked, put where they look for it, and gone after the job."""

from __future__ import annotations

from assay.run.fetch.layout import fetched_inputs, fetched_service
from assay.run.fetch.source import FetchedFile, fetch, is_here
from assay.spec.fetch import in_folders

__all__ = ["FetchedFile", "fetch", "fetched_inputs", "fetched_service", "in_folders", "is_here"]
