"""`rc.verify`: two networks from anywhere, one verdict, and a directory if one is asked for.

What is asked is a domain with a tolerance, or a property in VNN-LIB 2.0, which has both; properties
are also taken as VNN-COMP lists them.
"""

from __future__ import annotations

import ast
import csv
import io
import time
from collections.abc import Iterator, Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from reconstruct.bounds import Method
from reconstruct.certificates.certify import conclude
from reconstruct.certificates.document import Source
from reconstruct.certificates.verdicts import Certificate, Verdict
from reconstruct.errors import InputError, ReconstructError
from reconstruct.formats.files import as_path, naming, read_bytes, write_atomically
from reconstruct.formats.vnnlib import PairProperty, read_pair
from reconstruct.networks import Network
from reconstruct.networks.graph import require_same_ends
from reconstruct.numbers.given import at_least
from reconstruct.progress import Progress, listener, silent
from reconstruct.reports.document import build_comparison
from reconstruct.reports.folder import ROLES, OutputFolder, as_output
from reconstruct.reports.page import card
from reconstruct.reports.words import verdict_line
from reconstruct.runs import given
from reconstruct.runs.files import copies_before, take_along, write_documents
from reconstruct.runs.given import Given, PathLike, Where


@dataclass(frozen=True, eq=False)
class VerifyOutcome:
    """The certificate, the report as it was written, or would have been, and what was `asked`."""

    certificate: Certificate
    report: Mapping[str, Any]
    output: Path | None
    asked: PairProperty | None = None

    @property
    def answer(self) -> str | None:
        """Of a property: unsat (the networks agree), sat or unknown."""
        if self.asked is None:
            return None
        if self.certificate.verdict is Verdict.CERTIFIED:
            return "unsat"
        witness = self.certificate.witness
        found = witness and self.asked.broken_by(witness.point, witness.difference)
        return "sat" if found else "unknown"

    def __repr__(self) -> str:
        return f"VerifyOutcome({verdict_line(self.report)})"

    def _repr_html_(self) -> str:
        return card(self.report)


def verify(
    target: Given,
    candidate: Given | None = None,
    *,
    domain: Where | None = None,
    property: PathLike | None = None,
    radius: float | None = None,
    bounds: Method | None = None,
    tolerance: float | None = None,
    samples: int | None = None,
    time_limit: float | None = None,
    nnet_header: bool = False,
    output: PathLike | None = None,
    force: bool = False,
    progress: Progress = silent,
) -> VerifyOutcome:
    """`reconstruct verify`: certify, refute or leave undecided that two networks agree.

    A `property` in VNN-LIB has domain and tolerance; where it is about one network, the difference
    of two, that one is the target and compared with 0. With `output` a certificate, a report and
    both networks are written into that directory.
    """
    options = {
        **given.words(target=target, candidate=candidate, domain=domain, property=property),
        **given.words(radius=radius, bounds=bounds, tolerance=tolerance, samples=samples),
        **given.words(nnet_header=nnet_header, output=output),
    }
    asked = None if property is None else _asked(as_path(property, "the property"))
    if (asked is None) == (domain is None):
        raise InputError(
            "verify needs the inputs that the claim is about, as a domain or by a property, but "
            f"{'neither' if asked is None else 'both'} came; give --domain LO,HI or --property "
            "FILE.vnnlib"
        )
    if asked is not None:
        domain, tolerance = asked.box, asked.limit
        if (candidate is None) != (not asked.networks):
            raise InputError(
                f"the property is about {'two networks' if asked.networks else 'one network'}, but "
                f"{'one' if candidate is None else 'two'} came; give what it speaks of"
            )
        if candidate is None:
            zero = np.zeros((asked.outputs, len(asked.lo)))
            target, candidate = Network.mlp([zero]), target
    assert domain is not None  # one of the two was given
    # a header is put around whichever is a .nnet file
    headed = [nnet_header and str(given.path(v)).endswith(".nnet") for v in (target, candidate)]
    if nnet_header and not any(headed):
        told = (given.words(network=value)["network"] for value in (target, candidate))
        raise InputError(
            f"only .nnet files have a header to fold in, but these are "
            f"{' and '.join(str(word).rpartition('.')[2] for word in told)} files"
        )
    near = given.nearby(domain, radius)
    ours = given.network(target, "the target", headed[0], near=near)
    theirs = given.network(candidate, "the candidate", headed[1], near=near)
    if asked is not None:
        names = asked.networks or ("0", "the difference")
        for name, network in zip(names, (ours, theirs), strict=True):
            sizes = network.size_in, network.size_out
            if sizes != (len(asked.lo), asked.outputs):
                raise InputError(
                    f"the property declares {name} with {len(asked.lo)} inputs and {asked.outputs} "
                    f"outputs, but the network has {sizes[0]} and {sizes[1]}; give the one it is "
                    f"about"
                )
    require_same_ends(ours, theirs)
    given.check_numbers(samples, tolerance, time_limit)
    place, method = given.domain(domain, ours, radius), given.method(bounds, theirs)
    home = None if output is None else as_output(output)
    with nullcontext() if home is None else OutputFolder(home, force=force) as folder:
        pair = zip((ours, theirs), map(given.path, (target, candidate)), ROLES, strict=True)
        first, second = (
            Source(network, path) if folder is None else take_along(network, path, folder, role)
            for network, path, role in pair
        )
        found = conclude(
            first.network,
            second.network,
            domain=place,
            bounds=method,
            tolerance=tolerance,
            samples=samples,
            time_limit=time_limit,
            progress=listener(progress),
        )
        report = build_comparison(
            first.network,
            second.network,
            found.certificate,
            found.search,
            options=options,
            paths=[None if home is None else source.path_from(home) for source in (first, second)],
        )
        if folder is not None:
            write_documents(folder, found.certificate, (first, second), report)
            folder.publish(earlier=copies_before(folder.path))
    return VerifyOutcome(found.certificate, report, home, asked)


# --- properties in VNN-LIB, and lists of them as VNN-COMP publishes them --------------------------

SUFFIXES = (".onnx", ".onnx.gz", ".npz", ".nnet")
SHARE = 0.95  # of the time of an instance, for the proofs: reading and writing take the rest
CATEGORY = "equivalence"
NEVER = (
    "the property can never hold as it is written: it wants an output to be larger and smaller at "
    "once; decided is what was probably meant, that some output differs by more than the tolerance"
)


@dataclass(frozen=True)
class Instance:
    """A line of results.csv: `result` is unsat (the networks agree), sat, unknown or error."""

    networks: str
    property: str
    result: str
    seconds: float
    note: str


def _asked(path: Path) -> PairProperty:
    with naming(path):
        return read_pair(read_bytes(path))


def verify_instances(
    path: PathLike,
    output: PathLike,
    *,
    time_limit: float,
    force: bool = False,
    progress: Progress = silent,
) -> Iterator[Instance]:
    """Every line of an instances.csv, one after the other; results.csv and the certificates are
    written into `output`. A line that cannot be run is an error, and the others go on."""
    place = as_path(path, "the instances")
    at_least(time_limit, "the timeout", 0)
    try:
        with naming(place):
            rows = list(csv.reader(io.StringIO(read_bytes(place).decode("utf-8", "replace"))))
    except csv.Error as error:
        raise InputError(f"{place}: lines of a csv file are needed, but {error}") from None
    with OutputFolder(output, force=force) as folder:
        folder.publish()
    done: list[Instance] = []
    for number, row in enumerate(row for row in rows if row):
        start = time.perf_counter()
        home = folder.path / f"{number:03d}"
        words = [*row, "", ""][:2]
        try:
            result, note = _one(place.parent, row, home, time_limit, force, progress)
        except ReconstructError as error:
            result, note = "error", str(error)
        done.append(Instance(words[0], words[1], result, time.perf_counter() - start, note))
        text = io.StringIO()
        csv.writer(text).writerows(
            [CATEGORY, i.networks, i.property, "0.0", i.result, f"{i.seconds:.3f}"] for i in done
        )
        write_atomically(folder.path / "results.csv", text.getvalue().encode())
        yield done[-1]


def _one(
    folder: Path, row: list[str], home: Path, limit: float, force: bool, progress: Progress
) -> tuple[str, str]:
    """The result of a line: two networks by name or the file of their difference, a property,
    perhaps seconds of its own."""
    try:
        files = {"": folder / row[0]}
        if not row[0].endswith(SUFFIXES):
            (first, one), (second, other) = ast.literal_eval(row[0])
            files = {str(first): folder / str(one), str(second): folder / str(other)}
        seconds = min(limit, float(row[2])) if len(row) > 2 and row[2].strip() else limit
    except (ValueError, SyntaxError, TypeError, IndexError):
        raise InputError(
            f"a line of instances.csv needs [('f', FILE), ('g', FILE)] or the FILE of a "
            f"difference, a property and perhaps seconds, but is {','.join(row)[:80]!r}"
        ) from None
    name = row[1] if len(row) > 1 else ""
    asked = _asked(folder / name)
    if set(asked.networks or ("",)) != set(files):
        wanted, names = (" and ".join(n) or "a difference" for n in (asked.networks, files))
        raise InputError(
            f"the property speaks of {wanted}, but the instance has {names}; name the networks as "
            "the property does, or give the file of their difference"
        )
    ours, *other = (files[network] for network in asked.networks or ("",))
    theirs = other[0] if other else None
    found = verify(
        ours,
        theirs,
        property=folder / name,
        time_limit=SHARE * seconds,
        output=home,
        force=force,
        progress=progress,
    )
    return str(found.answer), NEVER if asked.never else ""
