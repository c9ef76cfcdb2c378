"""The convex sets that relaxed structures live in: their vertices, projections, samples and moves between vertices."""

from ele_core.numerics.sets.base import ConvexSet
from ele_core.numerics.sets.birkhoff import Birkhoff
from ele_core.numerics.sets.box import Box
from ele_core.numerics.sets.simplex import Simplex, SymmetricSimplex
from ele_core.numerics.sets.switches import all_switches

__all__ = ["Birkhoff", "Box", "ConvexSet", "Simplex", "SymmetricSimplex", "all_switches"]
