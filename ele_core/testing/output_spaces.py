"""`check_output_space`: every law of an output space."""

from __future__ import annotations

from collections.abc import Mapping

from ele_core.testing import output_constraints as constraints
from ele_core.testing import output_measures as measures
from ele_core.testing import output_options as options
from ele_core.testing import output_packing as packing
from ele_core.testing import output_relaxation as relaxation
from ele_core.testing import output_structures as structures
from ele_core.testing import output_views as views
from ele_core.testing.common import COMMON
from ele_core.testing.output_sets import SET_CHECKS
from ele_core.testing.results import CheckResult, run_checks
from ele_core.testing.samples import Space
from ele_core.testing.saving import check_model_saves_and_loads

OUTPUT_CHECKS = (
    packing.check_examples_are_different,
    packing.check_pack_gives_labels,
    packing.check_keys_tell_structures_apart,
    packing.check_unpack_inverts_pack,
    packing.check_keys_ignore_the_packing,
    packing.check_parse_inverts_format,
    packing.check_parse_refuses_politely,
    packing.check_foreign_objects_are_refused,
    packing.check_infer_holds_the_objects,
    packing.check_infer_obeys_options,
    packing.check_configuration_is_the_whole_state,
    relaxation.check_relax_gives_vertices,
    relaxation.check_unrelax_inverts_relax,
    relaxation.check_unrelax_gives_structures,
    relaxation.check_project_is_feasible,
    relaxation.check_project_keeps_dtype_and_device,
    relaxation.check_project_leaves_its_input_alone,
    relaxation.check_project_is_idempotent,
    relaxation.check_project_is_nearest,
    relaxation.check_project_works_at_all_scales,
    views.check_augment_stays_inside,
    views.check_augment_leaves_its_input_alone,
    views.check_augment_is_seeded,
    views.check_augment_changes_something,
    views.check_neighbours_are_inside,
    views.check_neighbours_belong_to_their_rows,
    views.check_neighbours_are_different,
    views.check_neighbours_respect_the_limit,
    views.check_neighbours_follow_the_gradient,
    measures.check_metrics_give_a_number_a_row,
    measures.check_metrics_are_best_on_equals,
    measures.check_properties_give_a_number_a_row,
    measures.check_render_gives_a_drawing,
    measures.check_features_are_those_of_the_structure,
    measures.check_defaults_are_a_configuration,
    measures.check_empty_batches_work,
    measures.check_rows_are_independent,
    measures.check_batches_are_left_alone,
    constraints.check_constraints_judge_structures,
    structures.check_structures_survive_packing,
    structures.check_keys_differ_with_structures,
    structures.check_texts_survive,
    structures.check_relaxing_loses_nothing,
    structures.check_metrics_hold_for_every_pair,
    structures.check_properties_are_finite,
    structures.check_features_are_finite,
    structures.check_every_pair_can_be_drawn,
    structures.check_objects_are_left_alone,
    structures.check_views_are_drawn_for_each_row,
    structures.check_nothing_draws_globally,
    structures.check_other_processes_agree,
    options.check_infer_obeys_each_option,
    options.check_counterexamples_are_refused,
    *SET_CHECKS,
    *COMMON,
    check_model_saves_and_loads,
)


def check_output_space(space: Space, expected_failures: Mapping[str, str] | None = None) -> list[CheckResult]:
    """Run every check of an output space. `expected_failures`: check → reason."""
    return run_checks(OUTPUT_CHECKS, (space,), expected_failures)
