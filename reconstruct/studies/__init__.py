"""Studies: questions about norm tuning, each answered by rows, a plot and a page."""

from reconstruct.studies.blocks import BLOCKS
from reconstruct.studies.conditioning import CONDITIONING
from reconstruct.studies.depth import DEPTH
from reconstruct.studies.live import LIVE
from reconstruct.studies.sparsity import SPARSITY
from reconstruct.studies.stacked import STACKED
from reconstruct.studies.study import Finding, Parameter, Study, run_study
from reconstruct.studies.width import WIDTH

_ALL = SPARSITY, WIDTH, DEPTH, CONDITIONING, STACKED, BLOCKS, LIVE
STUDIES = {study.name: study for study in _ALL}
