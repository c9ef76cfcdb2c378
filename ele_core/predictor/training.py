"""The training behind `StructuredPredictor.fit`: pairs in memory, with or without a run folder."""

from __future__ import annotations

import dataclasses
import hashlib
from pathlib import Path
from typing import Any

from ele_core.config import RunConfig, recipe_line
from ele_core.data.prepare import Pairs, Prepared, prepare
from ele_core.errors import ConfigError, InvalidObject
from ele_core.model.files import load_model
from ele_core.model.model import Model
from ele_core.model.pretrained import model_folder
from ele_core.model.train import assemble, fit
from ele_core.model.warm_start import adopt_output, digest, shared_inputs
from ele_core.plugins import Registry
from ele_core.runs.run import Run
from ele_core.runs.training import fit_in
from ele_core.runtime.context import Context
from ele_core.runtime.monitor import Callbacks


def train(
    config: RunConfig,
    pairs: Pairs,
    context: Context,
    monitor: Callbacks,
    *,
    run: Path | None,
    every: float,
    donor: Model | None,
) -> Model:
    """Train on `pairs`, in the folder `run` if it is given, from the weights of `donor` if there is one."""
    context = dataclasses.replace(context, monitor=monitor)
    try:
        prepared = prepared_for(config, pairs, context, donor)
    except InvalidObject as error:
        error.where = error.where and pairs.place(error.noun, error.index)
        if donor is not None and error.fix is None:
            error.fix = f"The {error.noun}s must be in the spaces of the model to start from."
        raise
    for note in (*prepared.data.notes, recipe_line(prepared.config)):
        monitor.message(note)
    if run is not None:
        return fit_in(run, prepared, context, every=every, donor=donor)
    with monitor.training():
        return fit(assemble(prepared, context, donor), prepared, context)


def prepared_for(config: RunConfig, pairs: Pairs, context: Context, donor: Model | None) -> Prepared:
    """Prepare the pairs; for a `donor` in its spaces, with its weights as a part of the fingerprint of the data."""
    if donor is None:
        return prepare(config, context, pairs)
    prepared = prepare(adopt_output(config, donor), context, pairs, fitted=shared_inputs(config, donor))
    both = hashlib.sha256(f"{prepared.data.fingerprint} {digest(donor)}".encode()).hexdigest()
    return dataclasses.replace(prepared, data=dataclasses.replace(prepared.data, fingerprint=both))


def donor_model(source: Any, context: Context, registry: Registry | None) -> Model:
    """Return the model of a run, of a folder that holds a run or a model, or the model itself."""
    if isinstance(source, Run):
        return source.model()
    if isinstance(source, str | Path):
        return load_model(model_folder(source), context.device, registry)
    if isinstance(source, Model):
        return source
    what = f"got {type(source).__name__}; give a fitted StructuredPredictor, a Run, or the folder of one."
    raise ConfigError(what, where="warm_start")
