"""Graph kernels as surrogates: Weisfeiler-Lehman and core Weisfeiler-Lehman, sketched, as in DSOKR and SISOKR."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from ele_core import ComponentConfig, ConfigError, OutputSpace, SketchedKernelSurrogate, SparseRows
from ele_graphs.graphs.batch import Graphs
from ele_graphs.graphs.wl import core_wl_features, wl_features


class WLKernelSurrogate(SketchedKernelSurrogate):
    """ψ̃ of the Weisfeiler-Lehman subtree kernel, or of its sum over all k-cores, normalised to k(y, y) = 1."""

    class Config(SketchedKernelSurrogate.Config):
        """The graph kernel, and how it is sketched."""

        iterations: int = Field(5, ge=0, le=64)
        """Number of colour refinements: the radius of the neighbourhoods that are compared."""
        cores: bool = True
        """Whether to sum the kernel over all k-cores (the core framework), or to use only the graphs themselves."""
        edge_labels: bool = False
        """Whether colours depend on edge labels; those of the published kernels do not."""

    config: Config

    def __init__(self, config: ComponentConfig | None, space: OutputSpace[Any, Any]) -> None:
        super().__init__(config, space)
        if not issubclass(space.Batch, Graphs):
            what = f"surrogate wl-kernel compares graphs, and {type(space).__name__} is not a space of graphs."
            raise ConfigError(what, where="surrogate.name", fix="Use 'sketched-kernel', which takes any output space.")

    def features(self, batch: Graphs) -> SparseRows:
        """Counts of colours."""
        extract = core_wl_features if self.config.cores else wl_features
        return extract(batch, self.config.iterations, edge_labels=self.config.edge_labels)
