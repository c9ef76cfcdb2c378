"""The package that `ele new-plugin` of 0.1.0 wrote, as it wrote it: its imports have moved since, and still work."""

import os
from pathlib import Path

FOLDER = Path(__file__).with_name("plugin_of_0_1_0")
PROGRAM = """
import ele_colours.plugin
from ele_core import Context, register, registry

register(ele_colours.plugin)
space = registry().create("output", {"name": "colours", "colours": ["red", "green", "blue", "gold"], "length": 4})
data = registry().create("task", {"name": "colours", "size": 200}).load(space, Context(0))
print(len(data), len(data.outputs), len(data.train), type(data).__module__)
"""


def load_its_task(run_python, *flags):
    path = os.pathsep.join([str(FOLDER), *filter(None, [os.environ.get("PYTHONPATH")])])
    return run_python(*flags, "-c", PROGRAM, environment={"PYTHONPATH": path})


def test_it_registers_and_its_task_loads_without_a_word(run_python):
    done = load_its_task(run_python)
    assert done.stdout.split() == ["200", "200", "160", "ele_core.data.dataset"]
    assert done.stderr == ""


def test_whoever_wants_warnings_is_told_what_to_import_instead(run_python):
    told = load_its_task(run_python, "-W", "default::DeprecationWarning").stderr
    assert "`Context` has moved from ele_core.context: write `from ele_core import Context`." in told
    for name in ("DataSet", "fingerprint", "pack_all", "split"):
        assert f"`{name}` has moved from ele_core.data: write `from ele_core import {name}`." in told
    assert "task.py" in told
    assert "space.py" not in told, "its imports have not moved"
