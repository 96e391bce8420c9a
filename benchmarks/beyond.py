"""docs/beyond-the-paper.md and its pictures from the rows in benchmarks/results/studies.

python -m benchmarks.beyond           writes the page and draws docs/images/study-*.svg
python -m benchmarks.beyond --rows    runs every study on its default grid first
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from benchmarks.picture import ROOT, sheet
from reconstruct.studies import STUDIES, Study, run_study
from reconstruct.studies.study import ROWS, Rows, read_rows

RESULTS = ROOT / "benchmarks" / "results" / "studies"
PAGE = ROOT / "docs" / "beyond-the-paper.md"
SIZE = (10.0, 3.4)  # inches of a picture

HEAD = """# Beyond the paper

Questions about norm tuning that the paper leaves open, each answered by one command with rows, a
plot and a page. The sentences and pictures here are made from the rows under
`benchmarks/results/studies/` by `python -m benchmarks.beyond`; each says how it is known:
**proved**, **exact per trial** (a certainty about every trial that was run, and about no other), or
**measured**. What others found is on the page about [related work](related-work.md).

Run one yourself, with a grid of your own (`--resume` goes on with one that was stopped):

    reconstruct study stacked -o out --grid layers=2,3 --grid ratio=1.1,1.3 --seeds 2 --jobs 2
    mpiexec -n 8 reconstruct study stacked -o more --grid d=12 --seeds 20  # shared by ranks

"""

CONSTRUCTIONS = """## Two constructions that come out of it

`--construction stacked --layers L` rebuilds each map in L hidden layers without skip connections,
`--construction fitted --ratio C` fits it on data below m·k neurons:

    reconstruct run mine.onnx -o fit --domain 0,1 --construction fitted --ratio 0.75  # exit code 1

A stack is certified like any other result: how its gammas were found is of no matter to the proof,
which bounds the difference of the two networks as they are. When Gauss-Newton does not reach W, the
run says so with the numbers and fails. A fitted network is an approximation: its rows say how much
of each map is left out, the certificate bounds the error where it can, and nothing is called
certified beyond that bound. From Python, `rc.reconstruct(…, data=x)` says on which inputs to fit.
"""


LIMITS = """## What can no norms do?

With fewer than m·k hidden units some maps are out of reach, even for units that bend. Averaged
over a box, the derivatives of f = M2 σ(s∘(M1 x) + t) + t2 are M2 diag(s̄) M1 for one s̄; if f is
within e of W x + b on a box of half-widths r, then |M2 diag(s̄) M1 − W|_ij ≤ e/r_j
([averaged-derivatives](proofs.md#averaged-derivatives)). The least such e is a linear program,
and a solution of its dual, put into the null space over the rationals, proves it by a few sums:

```python
import numpy as np
import reconstruct as rc

rng = np.random.default_rng(0)
W = rng.normal(size=(3, 4))
target, tuned = (rc.Network.mlp([x]) for x in (W, W + 0.1 * rng.normal(size=(3, 4))))
rc.save(target, "affine.npz")
rc.save(tuned, "tuned.npz")
rc.save(rc.draw(target, rc.Fitted(ratio=11 / 12), seed=0).network, "frozen.onnx")
```

    reconstruct reach frozen.onnx affine.npz --domain -1,1 --update tuned.npz -o limit
    reconstruct check limit

One unit less than m·k = 12, and no γ, β of the hidden units (nor any β behind them) bring the
error below what is printed; with 12 units the bound is 0 and the exit code 3, for nothing is
excluded. Beside it stands what a least-squares fit with all units active reaches, a number and no
bound. The γ of the last norm stays as it is in the file: it has m − 1 more degrees of freedom, so
that up to m − 1 units that are wanting may be made up for by tuning it, too. The target has to be
affine and the frozen network one hidden layer (of any activation that acts unit by unit) between
two linear ones, because the mean of a product of several layers is no product; others are
refused.

`--update TUNED` says which part of an update W_tuned − W the norms of a given network, perhaps a
pre-trained one, cannot express: what is left of it beside the range of s ↦ M2 diag(s) M1, against
√(1 − n/mk) for random weights ([exact-loss](proofs.md#exact-loss)).

"""


def page() -> str:
    """The page as Markdown text."""
    parts = [HEAD]
    for study in STUDIES.values():
        rows = read_rows(RESULTS / study.name)
        parts.append("\n".join(_section(study, rows)))
    return "\n".join([*parts, LIMITS + CONSTRUCTIONS])


def _section(study: Study, rows: Rows) -> Iterator[str]:
    yield f"## {study.question}\n"
    if study.about:
        yield f"{study.about}\n"
    for finding in study.findings(rows):
        yield f"- **{finding.sentence}** {finding.evidence.value.capitalize()}."
        yield f"  Refuted by: {finding.refuted_by}."
    yield f"\n![{study.question}](images/{_picture(study).name})\n"
    where = f"../benchmarks/results/studies/{study.name}/{ROWS}"
    yield f"`reconstruct study {study.name} -o out`: {len(rows)} trials, [a row each]({where}).\n"


def _picture(study: Study) -> Path:
    return PAGE.parent / "images" / f"study-{study.name}.svg"


def measure() -> None:
    """Run every study on its default grid and keep its rows."""
    for study in STUDIES.values():
        with tempfile.TemporaryDirectory() as folder:
            run_study(study, Path(folder) / "out")
            (RESULTS / study.name).mkdir(parents=True, exist_ok=True)
            shutil.copy(Path(folder) / "out" / ROWS, RESULTS / study.name / ROWS)


if __name__ == "__main__":
    if "--rows" in sys.argv[1:]:
        measure()
    PAGE.write_text(page(), encoding="utf-8")
    for one in STUDIES.values():
        trials = read_rows(RESULTS / one.name)
        picture = sheet(partial(one.draw, trials), SIZE)
        _picture(one).write_text(picture, encoding="utf-8")
