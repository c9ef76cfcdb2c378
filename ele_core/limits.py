"""How much a configuration may ask for, where nothing else would stop it.

A configuration may be a stranger's, inside a saved model. Widths are compared with the weights before anything is
allocated, but a network must be built to be compared, layer by layer, and a billion layers would never end.
"""

from __future__ import annotations

MOST_LAYERS = 1024
"""Layers of a network, several times what the deepest in use have."""
