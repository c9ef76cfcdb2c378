"""Mistakes that authors of plugins make, one small class each, and how each is checked.

The list was written before the checks that it tests. `MISTAKES` holds all of them; `CORRECT` the components that they
spoil, in which no check may find anything.
"""

from __future__ import annotations

from mistakes import counterexamples, fitting, gradients, inputs, laws, randomness, sets, tasks  # noqa: F401
from mistakes.bases import CORRECT
from mistakes.listing import MISTAKES, Mistake, checked

__all__ = ["CORRECT", "MISTAKES", "Mistake", "checked"]
