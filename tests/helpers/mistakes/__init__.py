"""The catalogue of mistakes that authors of plugins make: one small class each, and the law that finds it.

`MISTAKES` holds all of them; `CORRECT` the components that they spoil, in which no check may find anything.
Those of the kind `ONE_LAW` were written with the laws; the others before them, to measure how many the laws find.
"""

from __future__ import annotations

from mistakes import (  # noqa: F401
    counterexamples,
    fitting,
    gradients,
    inputs,
    laws,
    of_decoders,
    of_learners,
    of_proposers,
    of_spaces,
    planted,
    randomness,
    sets,
    tasks,
)
from mistakes.bases import CORRECT
from mistakes.listing import MISTAKES, ONE_LAW, Mistake, checked, found_by

__all__ = ["CORRECT", "MISTAKES", "ONE_LAW", "Mistake", "checked", "found_by"]
