"""The report as one HTML file that needs nothing else: no network, no script, no fonts."""

from assay.report.html.page import fragment_html, render_html

__all__ = ["fragment_html", "render_html"]
