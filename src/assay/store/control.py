"""The control plane: agents, leases, endings and the history that explains them.

Every method is one short transaction. On PostgreSQL several servers may share the tables: jobs are taken with
SKIP LOCKED, so that two never give out the same one. On SQLite transactions take turns.
"""

from __future__ import annotations

from assay.store.fleet.agents import Agents
from assay.store.fleet.campaigns import ExternalCampaigns
from assay.store.fleet.leases import Leases
from assay.store.fleet.transactions import JobHistory


class Control(Agents, Leases, ExternalCampaigns, JobHistory):
    """Who may measure what, and what came of it."""
