"""The parts of a load that several machines shared, put together: samples are joined, percentiles never averaged."""

from assay.analyse.merge.overlap import Overlap, PartRun, overlap_of
from assay.analyse.merge.point import Part, merge_point
from assay.analyse.merge.run import merge_run

__all__ = ["Overlap", "Part", "PartRun", "merge_point", "merge_run", "overlap_of"]
