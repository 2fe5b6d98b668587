"""What a campaign on Kubernetes is, written down beside its results: any later process can go on from it alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from assay.engines.kubernetes.client.api import Version
from assay.engines.kubernetes.folder import PodFolder, folder_of, is_on_kubernetes
from assay.engines.kubernetes.objects.plan import Group
from assay.engines.kubernetes.objects.pods import Setting
from assay.errors import UsageError
from assay.spec.kubernetes import Kubernetes
from assay.store.store import Store


@dataclass(frozen=True, slots=True)
class PodCampaign:
    """The document of a campaign on Kubernetes."""

    campaign: str
    benchmark: str
    created_at: str
    section: Kubernetes
    """The section of the file."""
    groups: tuple[Group, ...]
    namespace: str
    address: str
    """Of the API server that it was submitted to."""
    version: Version
    """Of that server, by which its objects were made."""
    env: Mapping[str, str] = field(default_factory=dict)
    """What every pod must know of how `assay run` was called."""
    schema: Literal["assay.engines.kubernetes/1"] = "assay.engines.kubernetes/1"

    def setting(self) -> Setting:
        """What all its objects share."""
        return Setting(self.campaign, self.section, self.version, self.namespace, self.env)

    def group_of(self, index: int) -> Group:
        return next(one for one in self.groups if index in one.jobs)


def read_document(folder: PodFolder) -> PodCampaign:
    """The document of a campaign.

    Raises:
        UsageError: if there is none.
    """
    return folder.read_campaign(PodCampaign)


def known_folder(store: Store, campaign: str) -> PodFolder:
    """The folder of a campaign of a store.

    Raises:
        UsageError: if it was not submitted to Kubernetes from this store.
    """
    if not is_on_kubernetes(store.folder, campaign):
        raise UsageError(
            f"campaign {campaign} was not submitted to Kubernetes from this store",
            code="no-cluster",
            at=str(store.folder),
            try_="give the store that it was submitted with, by --store or ASSAY_STORE",
        )
    return folder_of(store.folder, campaign)
