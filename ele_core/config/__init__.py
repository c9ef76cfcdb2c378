"""The configuration of a run: its schema, its recipes, how it is planned, and how options are described and compared.

Inside ELE, use it as a module: `from ele_core import config as configuration`, then `configuration.load("smi2mol")`.
The public name of `load` is `ele_core.load_config`.
"""

from ele_core.config.describe import Option, describe_options
from ele_core.config.plan import Overrides, as_changes, at, continued, load, plan, read_source, template
from ele_core.config.recipes import OWN_DATA, RECIPES, Facts, calibration_pairs, own_data, recipe_line, task_sections
from ele_core.config.resolve import as_table, merge, resolve
from ele_core.config.schema import (
    CalibrationConfig,
    CandidatesConfig,
    DataConfig,
    RunConfig,
    SelectionConfig,
    StartConfig,
    components,
    dump,
    with_output,
)

__all__ = [
    "OWN_DATA",
    "RECIPES",
    "CalibrationConfig",
    "CandidatesConfig",
    "DataConfig",
    "Facts",
    "Option",
    "Overrides",
    "RunConfig",
    "SelectionConfig",
    "StartConfig",
    "as_changes",
    "as_table",
    "at",
    "calibration_pairs",
    "components",
    "continued",
    "describe_options",
    "dump",
    "load",
    "load_config",
    "merge",
    "own_data",
    "plan",
    "read_source",
    "recipe_line",
    "resolve",
    "task_sections",
    "template",
    "with_output",
]

load_config = load
