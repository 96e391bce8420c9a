"""Branch and bound over the input box, shared by all values of a network of few inputs.

`search` looks for a tree of cuts, and nothing depends on how it does so. `leaves` bounds every
value on the leaves of a tree, rounded outward: whatever tree it is given, the bounds hold.
"""

from reconstruct.bounds.adaptive.leaves import Leaves, bound_leaves
from reconstruct.bounds.adaptive.search import find_cuts
from reconstruct.bounds.adaptive.tree import Cuts

__all__ = ["Cuts", "Leaves", "bound_leaves", "find_cuts"]
