"""Graphs and molecules as structured outputs: a plugin of ele_core.

The public names are listed in `__init__.pyi`. Each is imported when it is first used: neither torch nor rdkit is loaded
before.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
