"""Marabou's answer on a pair of ReLU networks: python marabou_client.py PAIR.npz SECONDS

Runs in whatever Python has maraboupy and needs nothing of this package. PAIR.npz holds weights and
biases of both networks, lo, hi and the tolerance. Each output and each sign is a query of its own
(one linear condition, no disjunction), with the difference as a variable. Prints JSON: the result
(sat, unsat, timeout) and the input of a counterexample.
"""

from __future__ import annotations

import importlib
import json
import sys
import time
import warnings
from typing import Any

import numpy as np

warnings.simplefilter("ignore")  # of parsers that are not needed
Marabou: Any = importlib.import_module("maraboupy.Marabou")
Core: Any = importlib.import_module("maraboupy.MarabouCore")


def query(pair: Any, output: int, sign: float) -> Any:
    """sign·(f_j − g_j) ≥ tolerance for an input of the box."""
    found = Core.InputQuery()
    size = len(pair["lo"])
    ends = []
    count = size
    equations, relus = [], []
    for role in ("target", "candidate"):
        values = list(range(size))
        for layer in range(int(pair[f"{role}_layers"])):
            weight, bias = pair[f"{role}_weight{layer}"], pair[f"{role}_bias{layer}"]
            if layer:
                active = list(range(count, count + len(values)))
                relus += list(zip(values, active, strict=True))
                values, count = active, count + len(active)
            sums = list(range(count, count + len(weight)))
            count += len(sums)
            equations += [
                ([*zip(row.tolist(), values, strict=True), (-1.0, var)], -float(constant))
                for row, constant, var in zip(weight, bias, sums, strict=True)
            ]
            values = sums
        ends.append(values[output])
    equations.append(([(sign, ends[1]), (-sign, ends[0]), (-1.0, count)], 0.0))
    found.setNumberOfVariables(count + 1)
    for place in range(size):
        found.setLowerBound(place, float(pair["lo"][place]))
        found.setUpperBound(place, float(pair["hi"][place]))
        found.markInputVariable(place, place)
    found.setLowerBound(count, float(pair["tolerance"]))
    found.markOutputVariable(count, 0)
    for addends, scalar in equations:
        equation = Core.Equation()
        for factor, variable in addends:
            if factor:
                equation.addAddend(factor, variable)
        equation.setScalar(scalar)
        found.addEquation(equation)
    for before, after in relus:
        Core.addReluConstraint(found, before, after)
        found.setLowerBound(after, 0.0)
    return found


def main() -> None:
    pair, seconds = np.load(sys.argv[1]), float(sys.argv[2])
    start, size, result, point = time.perf_counter(), len(pair["lo"]), "unsat", None
    for output in range(int(pair["outputs"])):
        for sign in (1.0, -1.0):
            left = seconds - (time.perf_counter() - start)
            if left < 1:
                result = "timeout"
                break
            options = Marabou.createOptions(timeoutInSeconds=int(left), verbosity=0)
            word, values, _ = Core.solve(query(pair, output, sign), options, "")
            if word != "unsat":
                result, point = (
                    str(word).lower(),
                    [values[i] for i in range(size)] if values else None,
                )
                break
        if result != "unsat":
            break
    print(json.dumps({"result": result, "point": point}))


if __name__ == "__main__":
    main()
