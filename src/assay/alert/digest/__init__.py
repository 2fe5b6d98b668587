"""A digest: what moved, what failed, what is noisy, what was dealt with and what is silent, since a moment."""

from assay.alert.digest.build import build
from assay.alert.digest.records import Digest, DigestMaterial, Movement, SeriesHealth, SeriesLabel
from assay.alert.digest.wording import digest_markdown

__all__ = ["Digest", "DigestMaterial", "Movement", "SeriesHealth", "SeriesLabel", "build", "digest_markdown"]
