"""A digest: what moved, what failed, what is noisy, what was dealt with and what is silent, since a moment."""

from assay.report.digest.build import build
from assay.report.digest.markdown import digest_markdown
from assay.report.digest.records import Digest, Material, Movement, Named, Watched

__all__ = ["Digest", "Material", "Movement", "Named", "Watched", "build", "digest_markdown"]
