"""The configuration of a run: its schema, how choices are resolved, and how options are described and compared.

Inside ELE, use it as a module: `from ele_core import config as configuration`, then `configuration.load("smi2mol")`.
The public name of `load` is `ele_core.load_config`.
"""

from ele_core.config.describe import Option, describe_options
from ele_core.config.resolve import as_table, resolve
from ele_core.config.schema import (
    CalibrationConfig,
    CandidatesConfig,
    DataConfig,
    RunConfig,
    SelectionConfig,
    components,
    dump,
    load,
    override,
    parse_overrides,
    task_sections,
    with_output,
)
from ele_core.config.suggest import calibration_pairs, suited

__all__ = [
    "CalibrationConfig",
    "CandidatesConfig",
    "DataConfig",
    "Option",
    "RunConfig",
    "SelectionConfig",
    "as_table",
    "calibration_pairs",
    "components",
    "describe_options",
    "dump",
    "load",
    "load_config",
    "override",
    "parse_overrides",
    "resolve",
    "suited",
    "task_sections",
    "with_output",
]

load_config = load
