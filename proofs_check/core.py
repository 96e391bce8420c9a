"""The few types everything here is made of: a statement, its checks, what they found.

A *statement* carries its own *subject*: the functions (an index law, a product, a draw of
weights, a choice of shift) that the claim speaks about. A *check* takes the subject and either
returns a finding or raises a counterexample. A *negative* is the same statement with its subject
changed (a hypothesis dropped, a term missing); the same checks must then refute it. So nothing is
refuted by a test written for the occasion, and a reader may inject a subject of their own:

    judge(replace(statement, subject=broken))
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Generic, TypeVar

Subject = TypeVar("Subject")


class Outcome(Enum):
    """What became of a statement."""

    PROVED = "proved"
    REFUTED = "refuted"
    INCONCLUSIVE = "inconclusive"

    @property
    def explanation(self) -> str:
        return _OUTCOMES[self]


_OUTCOMES = {
    Outcome.PROVED: "every check passed, and among them one that proves what the scope claims",
    Outcome.REFUTED: "a check found a counterexample, which is given",
    Outcome.INCONCLUSIVE: "a check could not run, or none of those that passed proves the scope",
}


class Method(Enum):
    """How a check works; `explanation` says what it shows and what it does not."""

    GENERAL = "general"
    SYMBOLIC = "symbolic"
    RATIONAL = "rational"
    MODULAR = "modular"
    MATCHING = "matching"
    EXHAUSTIVE = "exhaustive"
    NUMERICAL = "numerical"

    @property
    def explanation(self) -> str:
        return _METHODS[self]


_METHODS = {
    Method.GENERAL: "an argument for every size, written in the docstring, whose finite steps are "
    "run: identities with symbolic sizes, witnesses and index maps at many sizes",
    Method.SYMBOLIC: "an identity between polynomials in independent symbols: true for all values, "
    "at the sizes listed",
    Method.RATIONAL: "exact rational arithmetic, compared by ==, at the instances listed",
    Method.MODULAR: "exact arithmetic modulo a prime. Full rank found at one point proves generic "
    "full rank, without error; rank lost at a random point is evidence only, wrong with at most "
    "the Schwartz-Zippel probability degree / prime",
    Method.MATCHING: "maximum bipartite matching of a 0/1 pattern: a combinatorial upper bound on "
    "rank, exact for the pattern given",
    Method.EXHAUSTIVE: "every case of a finite set: a proof for that set, and for no larger one",
    Method.NUMERICAL: "floating point or sampling: it supports, and never counts as proof",
}


class Scope(Enum):
    """What the claim quantifies over; `proved` means no more than this."""

    EVERY_SIZE = "every size"
    THESE_SIZES = "these sizes"


class Effort(Enum):
    """How large the sizes are."""

    DEFAULT = "default"
    THOROUGH = "thorough"

    def choose(self, default: T, thorough: T) -> T:
        return thorough if self is Effort.THOROUGH else default


T = TypeVar("T")


class Counterexample(Exception):
    """Raised by a check; the message is the counterexample, complete enough to redo by hand."""


@dataclass(frozen=True)
class Finding:
    """What a check that met no counterexample reports.

    error_probability: 0 for a proof, a bound for a probabilistic check, None where no bound is
    claimed (numerical support only).
    """

    sizes: str
    detail: str
    error_probability: float | None = 0.0


@dataclass(frozen=True)
class Check(Generic[Subject]):
    """One way to test a statement: a method and the function that carries it out."""

    method: Method
    run: Callable[[Subject, Effort], Finding]


def by(
    method: Method,
) -> Callable[[Callable[[Subject, Effort], Finding]], Check[Subject]]:
    """Turn `run(subject, effort) -> Finding` into a check, its method beside its name."""

    def wrap(run: Callable[[Subject, Effort], Finding]) -> Check[Subject]:
        return Check(method, run)

    return wrap


@dataclass(frozen=True)
class Negative(Generic[Subject]):
    """The statement with a hypothesis dropped or a term changed: it must be refuted."""

    change: str
    subject: Subject


@dataclass(frozen=True)
class Statement(Generic[Subject]):
    """One link of the chain.

    name         short, unique, used by `--only`
    claim        one sentence
    hypotheses   what the claim needs
    scope        what it quantifies over
    paper        where Giannou, Rajput and Papailiopoulos (arXiv 2302.07937) have it
    depends_on   names of the statements its proof uses

    The code that rests on it names it, `proofs_check: NAME` in a docstring (see `chain.relied_on`).
    """

    name: str
    claim: str
    hypotheses: tuple[str, ...]
    scope: Scope
    paper: str
    depends_on: tuple[str, ...]
    subject: Subject
    checks: tuple[Check[Subject], ...]
    negatives: tuple[Negative[Subject], ...]


@dataclass(frozen=True)
class Evidence:
    """What one check showed; the same fields whether it passed or not."""

    method: Method
    outcome: Outcome
    sizes: str
    detail: str
    error_probability: float | None
    counterexample: str | None
    seconds: float


@dataclass(frozen=True)
class Refutation:
    """What became of one negative: caught, or not."""

    change: str
    caught: bool
    method: Method | None
    counterexample: str
    seconds: float


@dataclass(frozen=True)
class Verdict:
    """A statement judged: its outcome, the evidence for it, and its negatives."""

    name: str
    outcome: Outcome
    evidence: tuple[Evidence, ...]
    negatives: tuple[Refutation, ...]
    seconds: float

    @property
    def holds(self) -> bool:
        """Proved, and every negative caught."""
        return self.outcome is Outcome.PROVED and all(n.caught for n in self.negatives)
