"""The few types everything here is made of: a statement, its checks, what they found.

A *statement* carries its own *subject*: the functions (an index law, a product, a draw of
weights, a choice of shift) that the claim speaks about. A *check* takes the subject and either
returns a finding or raises a counterexample. A *negative* is the same statement with its subject
changed (a hypothesis dropped, a term missing); the same checks must then refute it. So nothing is
refuted by a test written for the occasion, and a reader may inject a subject of their own:

    judge(replace(statement, subject=broken))
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import Enum
from typing import Generic, TypeVar

Subject = TypeVar("Subject")


class Outcome(Enum):
    """What became of a check or a statement; how much a pass is worth, its level says."""

    PASSED = "passed"
    REFUTED = "refuted"
    INCONCLUSIVE = "inconclusive"

    @property
    def explanation(self) -> str:
        return _OUTCOMES[self]


_OUTCOMES = {
    Outcome.PASSED: "no check found a counterexample, and one of them is exact",
    Outcome.REFUTED: "a check found a counterexample, which is given",
    Outcome.INCONCLUSIVE: "a check could not run, or none of those that passed is exact",
}


class Method(Enum):
    """How a check works; `explanation` says what it shows and what it does not."""

    COQ = "coq"
    WHOLE = "whole"
    STEP = "step"
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
    Method.COQ: "a theorem of `proofs_check/coq`, each step checked by the proof assistant",
    Method.WHOLE: "all that the claim says: the sizes themselves are symbols, one unit stands "
    "apart from all others, or every case of a finite claim is visited",
    Method.STEP: "the decisive step of the written proof (the docstring of its file), executed at "
    "the sizes listed",
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


class Level(Enum):
    """What a pass is worth: how far the run itself is the proof."""

    COMPLETE = "complete"
    DECISIVE = "decisive step run"
    TEXTBOOK = "textbook"

    @property
    def explanation(self) -> str:
        return _LEVELS[self]


_LEVELS = {
    Level.COMPLETE: "the run itself is a proof of the whole claim, for all sizes",
    Level.DECISIVE: "a written proof, whose decisive step the run executes at small sizes",
    Level.TEXTBOOK: "a written proof of a standard fact, which the run samples",
}


def level(methods: Iterable[Method]) -> Level:
    """The level that passed checks of these methods reach."""
    used = set(methods)
    if used & {Method.COQ, Method.WHOLE}:
        return Level.COMPLETE
    return Level.DECISIVE if Method.STEP in used else Level.TEXTBOOK


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
class Formal(Generic[Subject]):
    """A theorem of `proofs_check/coq/<file>.v`, and the subject that it was written down for.

    Coq knows nothing of the Python functions of a subject: theorem and subject say the same because
    whoever reads both sees it. So the theorem counts for this subject and for no changed one.
    """

    file: str
    theorem: str
    subject: Subject


@dataclass(frozen=True)
class Statement(Generic[Subject]):
    """One link of the chain.

    name         short, unique, used by `--only`
    claim        one sentence
    hypotheses   what the claim needs
    paper        where Giannou, Rajput and Papailiopoulos (arXiv 2302.07937) have it
    depends_on   names of the statements its proof uses
    formal       the same as a theorem in Coq, where there is one

    The code that rests on it names it, `proofs_check: NAME` in a docstring (see `chain.relied_on`).
    """

    name: str
    claim: str
    hypotheses: tuple[str, ...]
    paper: str
    depends_on: tuple[str, ...]
    subject: Subject
    checks: tuple[Check[Subject], ...]
    negatives: tuple[Negative[Subject], ...]
    formal: Formal[Subject] | None = None


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
    """A statement judged: its outcome, the level of a pass, the evidence, and its negatives."""

    name: str
    outcome: Outcome
    level: Level
    evidence: tuple[Evidence, ...]
    negatives: tuple[Refutation, ...]
    seconds: float

    @property
    def holds(self) -> bool:
        """Passed, and every negative caught."""
        return self.outcome is Outcome.PASSED and all(n.caught for n in self.negatives)
