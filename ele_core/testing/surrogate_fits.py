"""Checks of how a surrogate learns, and `check_surrogate`, which runs all checks of a surrogate."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from ele_core.interfaces import Surrogate
from ele_core.runtime.context import Context
from ele_core.testing import surrogates as laws
from ele_core.testing.common import COMMON
from ele_core.testing.fitting import require_anew, require_data_left_alone, same_state
from ele_core.testing.results import CheckResult, after, require, run_checks
from ele_core.testing.samples import SEED, repeated, structures
from ele_core.testing.saving import check_model_saves_and_loads
from ele_core.testing.surrogates import STRUCTURES, check_surrogate_fit_is_seeded, fitted_surrogate, fresh_surrogate


@after(check_surrogate_fit_is_seeded)
def check_surrogate_fit_leaves_its_data_alone(surrogate: Surrogate) -> None:
    """`fit` changes neither the outputs nor the validation nor the extra outputs; with extra ones, it works."""
    outputs, fresh = structures(surrogate.space, STRUCTURES), fresh_surrogate(surrogate)
    given = {"outputs": outputs, "validation outputs": outputs[:8], "extra outputs": outputs[8:]}
    copies = {name: batch.map(torch.clone) for name, batch in given.items()}
    require_data_left_alone(lambda train, held, extra: fresh.fit(train, held, extra, Context(SEED)), copies)
    require(fresh.embed(outputs).isfinite().all(), "an embedding is not finite after `fit` with extra outputs")


@after(check_surrogate_fit_leaves_its_data_alone)
def check_surrogate_fits_anew(surrogate: Surrogate) -> None:
    """A second `fit` gives the same as the first. A learner with `stages` may start from its restored `state`."""
    outputs = structures(surrogate.space, STRUCTURES)
    arguments = outputs, outputs[: STRUCTURES // 3], None
    require_anew(fresh_surrogate(surrogate), lambda learner: learner.fit(*arguments, Context(SEED)))


@after(check_surrogate_fit_leaves_its_data_alone)
def check_surrogate_fits_any_outputs(surrogate: Surrogate) -> None:
    """`fit` on copies of one structure gives finite embeddings, and `fit` depends on all outputs if on any."""
    outputs = structures(surrogate.space, STRUCTURES)

    def learned(batch: Any) -> Surrogate:
        fresh = fresh_surrogate(surrogate)
        fresh.fit(batch, outputs[:4], None, Context(SEED))
        return fresh

    constant = learned(repeated(outputs[:1], STRUCTURES))
    finite = constant.embed(outputs).isfinite().all()
    require(finite, "an embedding is not finite after `fit` on copies of one structure: guard divisions by zero")
    usual = learned(outputs)
    if same_state(usual.state(), constant.state()):
        other = learned(outputs[torch.arange(len(outputs)).roll(1)])
        require(same_state(usual.state(), other.state()), "`fit` learns only from the first output")


SURROGATE_CHECKS = (
    laws.check_surrogate_gives_embeddings,
    laws.check_surrogate_tells_structures_apart,
    laws.check_surrogate_energy_is_a_distance,
    laws.check_surrogate_energies_agree,
    laws.check_surrogate_energy_at_vertices,
    laws.check_surrogate_energy_at_has_a_slope,
    laws.check_surrogate_takes_many_rows,
    laws.check_surrogate_rows_are_independent,
    laws.check_surrogate_leaves_all_alone,
    laws.check_surrogate_state_is_complete,
    laws.check_surrogate_fit_is_seeded,
    check_surrogate_fit_leaves_its_data_alone,
    check_surrogate_fits_anew,
    check_surrogate_fits_any_outputs,
    *COMMON,
    check_model_saves_and_loads,
)


def check_surrogate(surrogate: Surrogate, expected_failures: Mapping[str, str] | None = None) -> list[CheckResult]:
    """Run every check of a surrogate, on a copy fitted on a few structures. `expected_failures`: check → reason."""
    return run_checks(SURROGATE_CHECKS, (fitted_surrogate(surrogate),), expected_failures)
