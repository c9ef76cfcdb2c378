"""The documentation builds without warnings, says something of everything public, and its code runs."""

import re
import subprocess
import sys
import tomllib
import zlib
from collections.abc import Iterator

import click
import pytest
import yaml
from pages import ROOT, blocks, ele_commands, run_python, wrong_with

import ele_core
from ele_core.cli import cli
from ele_core.config.describe import describe_options
from ele_core.plugins import HOOKS, registry

DOCS = ROOT / "docs"
PAGES = sorted(page for page in DOCS.rglob("*.md") if not {"_build", "results"} & set(page.relative_to(DOCS).parts))


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """The folder of HTML pages, built as `make docs` does."""
    folder = tmp_path_factory.mktemp("docs")
    command = [sys.executable, "-m", "sphinx", "--fail-on-warning", "--keep-going", "--quiet"]
    done = subprocess.run(
        [*command, "-d", folder / "doctrees", DOCS, folder / "html"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return folder / "html"


@pytest.fixture(scope="module")
def documented(built):
    """The names of everything the pages define, from Sphinx's inventory."""
    header_lines = 4
    body = (built / "objects.inv").read_bytes().split(b"\n", header_lines)[header_lines]
    return {line.split(" ", 1)[0] for line in zlib.decompress(body).decode().splitlines()}


@pytest.mark.pages
def test_every_public_name_is_documented(documented):
    missing = [name for name in [*ele_core.__all__, "__version__"] if f"ele_core.{name}" not in documented]
    assert not missing, f"docs/reference/api.md says nothing of {missing}"


@pytest.mark.pages
def test_every_hook_is_documented(documented):
    missing = [h.name for h in HOOKS.values() if f"ele_core.plugins.hookspecs.{h.name}" not in documented]
    assert not missing, f"docs/reference/hooks.md says nothing of {missing}"


@pytest.mark.pages
def test_every_component_is_documented(documented):
    ours = [plugin for plugin in registry().plugins() if plugin.distribution == "explicit-loss-embedding"]
    labels = [f"component-{kind}-{r.name}" for p in ours for kind, records in p.records.items() for r in records]
    assert labels, "no component of ELE itself is installed"
    missing = [label for label in labels if label.lower() not in documented]
    assert not missing, f"docs/reference/components.md says nothing of {missing}"


@pytest.mark.pages
def test_every_command_and_option_is_documented(built, documented):
    page = (built / "reference" / "cli.html").read_text(encoding="utf-8")
    for path, command in commands(cli, ("ele",)):
        anchor = "-".join(path)
        assert f'id="{anchor}"' in page, f"docs/reference/cli.md says nothing of `{' '.join(path)}`"
        assert command.help, f"`{' '.join(path)}` has no help"
        for option in (p for p in command.params if isinstance(p, click.Option)):
            assert f"{anchor}.{option.opts[-1]}" in documented, f"`{' '.join(path)} {option.opts[-1]}`"


@pytest.mark.pages
def test_formulas_are_shown_without_a_network(built):
    for name in ("method", "rivals", "rivals-fgw"):
        page = (built / "explanation" / f"{name}.html").read_text(encoding="utf-8")
        assert "<math " in page
        assert not re.search(r'<script[^>]*src="https?:', page)
        assert not re.search(r"\\(frac|sum|lVert|psi)", page)


@pytest.mark.pages
def test_examples_in_the_help_of_a_command_are_code_blocks(built):
    page = (built / "reference" / "cli.html").read_text(encoding="utf-8")
    assert "<pre><span></span>ele evaluate run --decoder pgd\nele evaluate run --decoder pgd --oracle\n" in page
    assert 'class="line-block"' not in page


def test_every_option_of_every_command_has_help():
    bare = [
        f"{' '.join(path)} {parameter.opts[-1]}"
        for path, command in commands(cli, ("ele",))
        for parameter in command.params
        if isinstance(parameter, click.Option) and not (parameter.help or "").strip()
    ]
    assert not bare, f"no help text: {bare}"


def test_every_command_is_shown_at_work_on_some_page():
    shown = {words[0] for page in [*PAGES, ROOT / "README.md"] for _, words in ele_commands(page) if words}
    missing = set(cli.commands) - shown
    assert not missing, f"no console block of any page has `ele {sorted(missing)[0]}`"


def test_every_option_of_every_component_says_what_it_is_for():
    bare = [
        f"{kind} {record.name}: {option.path}"
        for plugin in registry().plugins()
        for kind, records in plugin.records.items()
        for record in records
        if plugin.distribution == "explicit-loss-embedding"
        for option in describe_options(registry().get(kind, record.name))
        if not option.description.strip()
    ]
    assert not bare, f"no string below: {bare}"


def test_every_component_has_a_summary_for_lists():
    bare = [record.name for kind in HOOKS for record in registry().records(kind) if not record.summary.strip()]
    assert not bare


def test_each_hook_stands_for_a_kind_with_a_documented_base_class():
    from ele_core import types
    from ele_core.plugins import hookspecs

    declared = {name for name in vars(hookspecs) if name.startswith("ele_")}
    assert declared == {hook.name for hook in HOOKS.values()}
    assert set(HOOKS) == set(types.KINDS)
    for hook in HOOKS.values():
        assert hook.base in ele_core.__all__


def commands(command: click.Command, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    yield path, command
    if isinstance(command, click.Group):
        for name, inner in command.commands.items():
            yield from commands(inner, (*path, name))


@pytest.mark.pages
def test_the_first_output_space_trains_and_builds_unseen_sets(tmp_path):
    # What the page says in words: no candidate is right, pgd is right more often than not, the oracle nearly always.
    claims = """
assert nearest.metrics["exact"] == 0
assert built.metrics["exact"] > 0.5
assert oracle.metrics["exact"] > 0.9
from ele_core import EleError
try:
    predictor.save("weather")
except EleError as error:
    assert "registered by hand" in str(error)
else:
    raise AssertionError("the page says that it refuses")
"""
    done = run_python(DOCS / "tutorial" / "first-output-space.md", tmp_path, then=claims)
    assert done.returncode == 0, done.stderr


CLAIMS = {
    "own-input-space": "assert result.metrics['exact'] > 0.8",
    "own-encoder": "assert oracle.metrics['exact'] > 0.5",
    "own-backbone": "assert result.metrics['regression_error'] < 1",
    "own-decoder": """
assert nearest.metrics["exact"] == 0 < short.metrics["exact"] < long.metrics["exact"]
assert nearest.decoding.energies.mean() > short.decoding.energies.mean() > long.decoding.energies.mean()
""",
    "own-rival": """
from ele_core.experiments.reproduce import make_plan
plan = make_plan("number-rivals", TABLE)
assert [job.name for job in plan.jobs][::2] == ["ours, seed 0", "pair kernel, nearest, seed 0", "pair kernel, seed 1"]
from ele_core.runtime.context import Context
from ele_core.data.prepare import prepare
from ele_core.model.train import assemble, fit
for job in plan.jobs[:3]:
    context = Context(job.seed)
    prepared = prepare(job.config, context)
    assert len(fit(assemble(prepared, context), prepared, context).candidates) == 600
""",
    "own-proposer": """
assert {result.status for result in results} == {"passed", "skipped"}
assert "writer" in predictor.model_.regressor.proposers
assert predictor.model_.regressor.joint is not None
""",
    "own-convex-set": """
assert {result.status for result in results} == {"passed", "skipped"}
assert not {"gains", "idle", "shares"} & set(vars(AtMost))
labels = convex.sample_labels(50, torch.Generator().manual_seed(0))
gradient = torch.randn(50, 4)
idle = convex.idle(labels)
assert idle.any()
assert torch.equal((gradient * (1 - 2 * labels))[~idle], convex.gains(labels, gradient)[~idle])
""",
    "rules-of-structures": """
assert {result.status for result in results} == {"passed", "skipped"}
gradient = space.relax(batch).map(lambda heads: torch.randn(heads.shape, generator=torch.Generator().manual_seed(0)))
ahead, _ = space.moves.neighbours(batch, gradient)
steps = ((space.relax(ahead).heads - space.relax(batch).heads) * gradient.heads).sum(dim=(1, 2))
assert torch.equal(steps, steps.sort().values)
""",
}
"""What the pages on components say in words."""


@pytest.mark.parametrize("page", CLAIMS)
@pytest.mark.pages
def test_a_component_of_ones_own_keeps_its_laws_and_trains(page, tmp_path):
    done = run_python(DOCS / "how-to" / f"{page}.md", tmp_path, then=CLAIMS[page])
    assert done.returncode == 0, done.stderr


@pytest.mark.pages
def test_the_estimator_page_runs_as_it_says(tmp_path):
    done = run_python(DOCS / "how-to" / "estimator.md", tmp_path)
    assert done.returncode == 0, done.stderr
    printed = done.stdout
    assert "output 3: got int; the output space 'sequence' takes a text or a list of tokens." in printed
    assert "{'regressor__backbone__width': " in printed
    assert "(5, 16)" in printed


@pytest.mark.pages
def test_the_page_on_pictures_runs_as_it_says(tmp_path):
    claims = """
assert ["".join(word) for word in predictor.predict([*bright[:2], *dark[:2]])] == ["day", "day", "night", "night"]
"""
    done = run_python(DOCS / "how-to" / "pictures.md", tmp_path, then=claims)
    assert done.returncode == 0, done.stderr


@pytest.mark.pages
def test_the_page_on_the_learned_loss_trains_a_network_with_it(tmp_path):
    claims = """
assert right > 0.8
assert nodes.grad.any() and edges.grad.any()
"""
    done = run_python(DOCS / "how-to" / "learned-loss.md", tmp_path, then=claims)
    assert done.returncode == 0, done.stderr
    assert "(2, 3)" in done.stdout
    assert "new numbers are right" in done.stdout


@pytest.mark.pages
def test_the_callbacks_follow_log_and_stop_a_training(tmp_path):
    claims = """
import json
from pathlib import Path
assert [step for step, _ in tracker.rows] == [2, 4, 6, 6, 12, 18]
assert {name.split("/")[0] for _, metrics in tracker.rows for name in metrics} == {"embedding", "regression"}
written = [json.loads(line) for line in Path("run/metrics.jsonl").read_text().splitlines()]
assert written and len(written) == len(followed.rows)
for row, (step, metrics) in zip(written, followed.rows):
    assert row.pop("step") == step
    stage = row.pop("stage")
    row.pop("best")
    assert metrics == {f"{stage}/{name}": value for name, value in row.items()}
assert list(Path("logged/tensorboard").glob("events.out.tfevents.*"))
assert len(limited.predict(words[:3])) == 3
"""
    done = run_python(DOCS / "how-to" / "callbacks.md", tmp_path, then=claims)
    assert done.returncode == 0, done.stderr
    assert "stopped: embedding, step 1" in done.stdout


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(DOCS)))
def test_commands_on_the_pages_exist(page):
    wrong = [f"line {line}: {problem}" for line, words in ele_commands(page) if (problem := wrong_with(cli, words))]
    assert not wrong, f"{page.relative_to(ROOT)}: {wrong}"


def test_the_recipes_for_clusters_are_whole():
    page = DOCS / "how-to" / "many-processes.md"
    (slurm,), recipes = blocks(page, "bash"), [yaml.safe_load(block.code) for block in blocks(page, "yaml")]
    sky = next(recipe for recipe in recipes if "run" in recipe)
    job = next(recipe for recipe in recipes if recipe.get("kind") == "PyTorchJob")
    assert sky["num_nodes"] > 1
    assert {"name", "mode"} <= sky["file_mounts"]["/runs"].keys()
    replicas = job["spec"]["pytorchReplicaSpecs"]
    assert set(replicas) == {"Master", "Worker"}
    pods = [replica["template"]["spec"]["containers"][0] for replica in replicas.values()]
    assert {pod["name"] for pod in pods} == {"pytorch"}  # the name that the operator looks for
    mounted = {mount["name"] for mount in pods[0]["volumeMounts"]}
    assert mounted == {volume["name"] for volume in replicas["Master"]["template"]["spec"]["volumes"]}
    array = next(block.code for block in blocks(DOCS / "how-to" / "command-line.md", "bash") if "--array" in block.code)
    for script in (slurm.code, array, sky["setup"], sky["run"]):
        done = subprocess.run(["bash", "-n"], input=script, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
    scripts = [script.replace("\\\n", " ").replace("-m ele_core", "ele") for script in (slurm.code, sky["run"])]
    commands = [
        line.partition(" ele ")[2].split() for script in scripts for line in script.splitlines() if " ele " in line
    ]
    commands += [pod["command"][1:] for pod in pods]
    assert len(commands) == 4
    for words in commands:
        assert {"train", "-o", "--resume"} <= set(words)
        assert not wrong_with(cli, words)
    assert not wrong_with(cli, array.splitlines()[-1].split()[1:])


def test_the_architecture_page_lists_the_layers_that_are_enforced():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    contract = next(c for c in project["tool"]["importlinter"]["contracts"] if c["type"] == "layers")
    page = (DOCS / "explanation" / "architecture.md").read_text(encoding="utf-8")
    listed = [line.split("  ")[0] for line in page.splitlines() if "  " in line.strip()]
    assert [line for line in listed if line in contract["layers"]] == contract["layers"]
