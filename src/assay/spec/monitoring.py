"""The section for monitoring: what Prometheus watches beside a campaign, and how."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from assay.spec.section import Duration, Section

Port = Annotated[int, Field(ge=1, le=65_535)]


class Monitoring(Section):
    """How nodes and services are watched while a campaign runs."""

    interval: Annotated[Duration, Field(ge=0.1, le=300)] = 1.0
    """Time between two scrapes."""
    keep: Literal["chosen", "all"] = "chosen"
    """What is kept with the results: all of services and GPUs and the main figures of nodes, or everything."""
    program: str | None = None
    """The program `prometheus`; from ASSAY_PROMETHEUS, else from the PATH, when left out."""
    image: str | None = None
    """Container image with Prometheus, where there is no program."""
    container: Literal["auto", "apptainer", "podman", "charliecloud", "docker"] = "auto"
    """What runs the image; whichever is present when left out."""
    listen: str = Field(default="127.0.0.1", pattern=r"^[0-9A-Za-z.:\-]+$")
    """Address on which Prometheus answers; anybody who reaches it can read it, so only its own machine by default."""
    port: Port | None = None
    """Port of Prometheus; a free one when left out."""
    retention: Annotated[Duration, Field(ge=3600)] = 7 * 86_400.0
    """How long Prometheus itself keeps what it scraped; what is kept with results stays."""
    node_exporter: Port | None = None
    """Port of a node exporter that already runs on the nodes; assay's own is started when left out."""
    dcgm_exporter: Port | None = None
    """Port of a DCGM exporter that already runs on the nodes; assay's own reads GPUs by NVML when left out."""
    within: Annotated[Duration, Field(gt=0, le=600)] = 30.0
    """How long to wait for the first scrape before going on without it."""
    required: bool = True
    """Whether a campaign that cannot be monitored fails before it begins, or goes on with a note."""

    @model_validator(mode="after")
    def _one_source(self) -> Monitoring:
        if self.program is not None and self.image is not None:
            raise ValueError("program and image both say what to start; keep one of them")
        if self.image is None and self.container != "auto":
            raise ValueError(f"container: {self.container} would do nothing without an image; remove it")
        return self


def monitoring_of(given: bool | Monitoring) -> Monitoring | None:
    """The settings of the section `monitoring: true | {…}`; None where nothing is to be watched."""
    if isinstance(given, Monitoring):
        return given
    return Monitoring() if given else None
