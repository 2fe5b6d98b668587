"""The parts of a load that several machines shared, put together: samples are joined, percentiles never averaged."""

from assay.analyse.merge.overlap import Overlap, PartRun, overlap_of
from assay.analyse.merge.run import PartResult, merge_point, merge_run

__all__ = ["Overlap", "PartResult", "PartRun", "merge_point", "merge_run", "overlap_of"]
