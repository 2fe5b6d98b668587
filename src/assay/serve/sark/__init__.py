"""SARK's surface under /api: the paths, fields and codes that its clients and workers already use."""

from __future__ import annotations

from fastapi import APIRouter

from assay.serve.sark import campaigns, system, workers

router = APIRouter()
for part in (system, workers, campaigns):
    router.include_router(part.router)
