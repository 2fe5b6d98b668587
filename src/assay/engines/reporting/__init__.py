"""A campaign that is measured elsewhere, told to a server while it goes on: whoever follows it is the bridge."""

from assay.engines.reporting.record import remembered_server
from assay.engines.reporting.relay import Nobody, Relay, Telling, relaying

__all__ = ["Nobody", "Relay", "Telling", "relaying", "remembered_server"]
