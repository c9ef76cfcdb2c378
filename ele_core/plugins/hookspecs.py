"""The hooks, one for each kind of component: each yields records, in any order.

A plugin is a module with some of these hooks. Its package declares it in pyproject.toml:

    [project.entry-points.ele]
    mine = "my_package.plugin"

`ele plugins` then lists it, and its names can be used in every configuration. The module names its classes as strings,
so listing plugins imports nothing heavy. `register(module)` adds a plugin without installing it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

import pluggy

from ele_core.plugins.records import Record

if TYPE_CHECKING:
    from ele_core.types import Kind

GROUP = "ele"
"""The entry-point group, and pluggy's project name."""

hookspec = pluggy.HookspecMarker(GROUP)
hookimpl = pluggy.HookimplMarker(GROUP)


@dataclasses.dataclass(frozen=True)
class Hook:
    """The hook of a kind, and the class of `ele_core` that its components derive from."""

    name: str
    base: str

    @property
    def plural(self) -> str:
        """The name of the kind in a sentence, such as `output spaces`."""
        return self.name.removeprefix("ele_").replace("_", " ")

    @property
    def singular(self) -> str:
        """The name of one component in a sentence, such as `output space`."""
        return self.plural.removesuffix("es" if self.plural.endswith("xes") else "s")


HOOKS: Mapping[Kind, Hook] = {
    "output": Hook("ele_output_spaces", "OutputSpace"),
    "encoder": Hook("ele_encoders", "Encoder"),
    "surrogate": Hook("ele_surrogates", "Surrogate"),
    "input": Hook("ele_input_spaces", "InputSpace"),
    "backbone": Hook("ele_backbones", "Backbone"),
    "regressor": Hook("ele_regressors", "Regressor"),
    "proposer": Hook("ele_proposers", "Proposer"),
    "decoder": Hook("ele_decoders", "Decoder"),
    "index": Hook("ele_indexes", "Index"),
    "task": Hook("ele_tasks", "Task"),
    "reader": Hook("ele_file_readers", "FileReader"),
}


@hookspec
def ele_output_spaces() -> Iterable[Record]:
    """Sets of structured outputs, chosen by `output = "ranking"`.

    .. code-block:: python

        from ele_core import Record, hookimpl


        @hookimpl
        def ele_output_spaces():
            yield Record("ranking", "my_package.space:RankingSpace", "Orderings of n things.")
    """
    return ()


@hookspec
def ele_encoders() -> Iterable[Record]:
    """Networks on relaxed structures, chosen inside a surrogate by `surrogate.encoder = "deep-sets"`.

    .. code-block:: python

        from ele_core import Record, hookimpl


        @hookimpl
        def ele_encoders():
            yield Record("deep-sets", "my_package.encoders:DeepSets", "A sum over the elements of a set.")
    """
    return ()


@hookspec
def ele_surrogates() -> Iterable[Record]:
    """Losses on outputs, as embeddings, chosen by `surrogate = "kernel"`.

    .. code-block:: python

        from ele_core import Record, hookimpl


        @hookimpl
        def ele_surrogates():
            yield Record("kernel", "my_package.surrogates:KernelSurrogate", "A fixed kernel, nothing learned.")
    """
    return ()


@hookspec
def ele_input_spaces() -> Iterable[Record]:
    """How inputs are read and become tensors, chosen by `input = "spectrum"`.

    .. code-block:: python

        from ele_core import Record, hookimpl


        @hookimpl
        def ele_input_spaces():
            yield Record("spectrum", "my_package.inputs:SpectrumInput", "Peaks of a mass spectrum.")
    """
    return ()


@hookspec
def ele_backbones() -> Iterable[Record]:
    """Networks on inputs, chosen inside a regressor by `regressor.backbone = "convolutions"`.

    .. code-block:: python

        from ele_core import Record, hookimpl


        @hookimpl
        def ele_backbones():
            yield Record("convolutions", "my_package.backbones:Convolutions", "Dilated convolutions over tokens.")
    """
    return ()


@hookspec
def ele_regressors() -> Iterable[Record]:
    """Predictors of queries from inputs, chosen by `regressor = "ridge"`.

    .. code-block:: python

        from ele_core import Record, hookimpl


        @hookimpl
        def ele_regressors():
            yield Record("ridge", "my_package.regression:RidgeRegressor", "Kernel ridge regression.")
    """
    return ()


@hookspec
def ele_proposers() -> Iterable[Record]:
    """Conditional distributions of structures, chosen inside the regressor `joint` by `regressor.writer = "markov"`.

    .. code-block:: python

        from ele_core import Record, hookimpl


        @hookimpl
        def ele_proposers():
            yield Record("markov", "my_package.proposers:Markov", "A chain of labels, each given the one before.")
    """
    return ()


@hookspec
def ele_decoders() -> Iterable[Record]:
    """Searches for the structures of least energy, chosen by `decoder = "beam"`.

    .. code-block:: python

        from ele_core import Record, hookimpl


        @hookimpl
        def ele_decoders():
            yield Record("beam", "my_package.decoding:BeamDecoder", "A beam over single edits.")
    """
    return ()


@hookspec
def ele_indexes() -> Iterable[Record]:
    """Searches for the nearest of many vectors, chosen by `ele index --index trees`.

    .. code-block:: python

        from ele_core import Record, hookimpl


        @hookimpl
        def ele_indexes():
            yield Record("trees", "my_package.indexes:Trees", "A forest of random splits.")
    """
    return ()


@hookspec
def ele_tasks() -> Iterable[Record]:
    """Named data sets with a configuration that suits them, run by `ele train sushi` or `task = "sushi"`.

    .. code-block:: python

        from ele_core import Record, hookimpl


        @hookimpl
        def ele_tasks():
            yield Record("sushi", "my_package.tasks:Sushi", "Preferences of 5,000 people over ten kinds of sushi.")
    """
    return ()


@hookspec
def ele_file_readers() -> Iterable[Record]:
    """Readers of files with pairs, each under the suffix of its files, as in `ele train sushi --data pairs.msp`.

    .. code-block:: python

        from ele_core import Record, hookimpl


        @hookimpl
        def ele_file_readers():
            yield Record(".msp", "my_package.spectra:SpectraReader", "Mass spectra with their fields.")
    """
    return ()
