"""The dashboard: the files of its web pages, served at `/` under a strict policy."""

from assay.serve.dashboard.pages import router

__all__ = ["router"]
