"""What a third party declares is swept, followed, pruned and reproduced like what ships: the core has no favourites."""

from __future__ import annotations

import ast
import itertools
import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import pytest
import torch
from click.testing import CliRunner
from mistakes.of_decoders import Plain

from ele_core import ComponentConfig, Decoder, Decoding, Record, Regressor, Variant, hookimpl
from ele_core.cli import cli
from ele_core.components.decoders.candidates import CandidatesDecoder
from ele_core.experiments.ranges import Range
from ele_core.experiments.study import Row, Scale, Table
from ele_core.experiments.sweep import sweep
from ele_core.experiments.tune import TuningSearch
from ele_core.plugins import PluginInfo, registry
from ele_core.plugins.loader import collect
from ele_core.report import Wanted, write_report
from ele_core.report.learning_curves import deciding
from ele_core.runs.run import Run
from ele_core.runtime.context import Context
from ele_core.runtime.monitor import Monitor
from ele_core.types import Choice, Stage, Trace
from ele_sequences.number_words import NumberWords

ROOT = Path(__file__).parents[2]
TINY = (
    *("task.size=120", "task.validation=20", "task.test=20", "decoder=candidates", "regressor=means"),
    *("surrogate.dim=8", "surrogate.encoder.width=8", "surrogate.training.epochs=1"),
)


class LadderDecoder(Decoder):
    """The best candidate, reached rung by rung from a worse one."""

    traces = True
    variants = (Variant("ladder-short", {"rungs": 2}, "a short ladder"), Variant("ladder-long", {"rungs": 4}))

    class Config(ComponentConfig):
        """Its length."""

        rungs: int = 3
        """Candidates on the way."""

    def decode(self, energy, problem, *, top_k=1, trace=False, context):
        count = max(top_k, self.config.rungs)
        found = CandidatesDecoder().decode(energy, problem, top_k=count, context=context)
        ranked = torch.arange(len(found.structures)).view(-1, count)
        answer = Decoding(found.structures[ranked[:, :top_k].flatten()], found.energies[:, :top_k])
        if not trace:
            return answer
        ranks = list(reversed(range(count)))
        structures = [found.structures[ranked[:, rank]] for rank in ranks]
        path = Trace(range(count), structures, [found.energies[:, rank] for rank in ranks])
        return Decoding(answer.structures, answer.energies, path)


class MeansRegressor(Regressor):
    """The mean embedding for every input; each fit reports a greater mismatch than the one before."""

    stages = (Stage("matching", decides="mismatch"),)
    mismatches: ClassVar[Iterator[int]] = itertools.count(1)

    class Config(ComponentConfig):
        """An option to tune."""

        scale: float = 1.0
        """What the mean is multiplied with."""

    def __init__(self, config, inputs, surrogate):
        super().__init__(config, inputs, surrogate)
        self.mean = torch.zeros(surrogate.dim)

    def fit(self, data, context):
        self.mean = self.config.scale * self.surrogate.embed(data.train.outputs[:]).mean(dim=0)
        metrics = {"coverage": 0.5, "mismatch": float(next(self.mismatches))}
        context.monitor.evaluation("matching", 1, metrics, best=True)

    def predict(self, inputs):
        return self.mean.expand(len(inputs), -1)

    def state(self):
        return {"mean": self.mean}

    def restore(self, state):
        self.mean = state["mean"]


STUDY = Table(
    "ours",
    "Numbers of our own",
    [Row("listed", TINY, files=("wordlist",)), Row("drawn", TINY)],
    {"small": Scale("a few numbers.", limit=5)},
    files={"wordlist": "task.wordlist"},
    metrics=["exact"],
)


class ListedNumbers(NumberWords):
    """Number words with a study that takes a file."""

    studies = (STUDY,)

    class Config(NumberWords.Config):
        """As number words, and a file."""

        wordlist: str | None = None
        """A list of words."""


class ThirdParty:
    """Everything above."""

    @hookimpl
    def ele_decoders(self) -> Any:
        yield Record("ladder", LadderDecoder, "From worse candidates to the best.")
        yield Record("old", Plain, "Written for 0.1.0, before `decode` had an argument `trace`.")

    @hookimpl
    def ele_regressors(self) -> Any:
        yield Record("means", MeansRegressor, "The mean of all.")

    @hookimpl
    def ele_tasks(self) -> Any:
        yield Record("listed-numbers", ListedNumbers, "Number words with a study of its own.")


@pytest.fixture(autouse=True)
def third_party(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    """The plugin is there during a test, as if a distribution had brought it, and gone afterwards."""
    site = tmp_path_factory.mktemp("site")
    (site / "ele_third_party-1.0.dist-info").mkdir()
    metadata = "Metadata-Version: 2.1\nName: ele-third-party\nVersion: 1.0\n"
    (site / "ele_third_party-1.0.dist-info" / "METADATA").write_text(metadata)
    monkeypatch.syspath_prepend(site)
    installed = PluginInfo("third-party", "ele-third-party", "1.0", records=collect(ThirdParty()))
    monkeypatch.setattr(registry(), "_plugins", [*registry().plugins(), installed])


@pytest.fixture
def run(trained_run: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(trained_run, tmp_path / "run"))


# -- what is declared is used -------------------------------------------------------------------------------------


def test_its_decoder_is_a_line_of_a_sweep_for_each_variant(run, tmp_path):
    result = sweep(Run(run), tmp_path / "sweep", shares=[1.0], limit=4, monitor=Monitor())
    ladder = {record["line"]: record for record in result.records if record["decoder"]["name"] == "ladder"}
    assert [record["line"] for record in result.records] == [
        *("candidates", "ladder-short", "ladder-long", "old", "pgd-random", "pgd-best", "search")
    ]
    assert {line: record["decoder"]["rungs"] for line, record in ladder.items()} == {
        "ladder-short": 2,
        "ladder-long": 4,
    }
    assert ladder["ladder-short"]["overrides"] == ["decoder=ladder", "decoder.rungs=2", "candidates.share=1.0"]
    assert "a short ladder" in [line.label for line in result.lines]


def test_its_variant_can_be_asked_for_by_name(run):
    arguments = ["sweep", str(run), "--decoder", "ladder-long", "--share", "1", "--limit", "3"]
    result = CliRunner().invoke(cli, arguments, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    assert result.stdout.splitlines()[1].split()[0] == "ladder-long"


def test_its_decoder_is_followed_in_the_report(run):
    page = write_report(Run(run), Wanted(examples=6), Monitor()).read_text()
    data = json.loads(re.search(r'id="data">(.*?)</script>', page, re.DOTALL)[1])
    ways = [way for way in data["trajectories"] if way["decoder"] == "ladder"]
    assert {way["decoder"] for way in data["trajectories"]} == {"ladder", "pgd", "search"}
    assert ways
    assert all(way["energies"] == sorted(way["energies"], reverse=True) for way in ways)


def test_a_decoder_written_before_traces_still_decodes(run):
    model = Run(run).model()
    queries = model.queries(["one", "two"])
    found = model.decode(queries, Choice(name="old"), trace=True, context=Context())
    assert (found.trace, len(found.energies)) == (None, 2)


def test_a_trial_is_pruned_by_the_stage_of_its_regressor(tmp_path, monkeypatch):
    monkeypatch.setattr(MeansRegressor, "mismatches", itertools.count(1))
    ranges = {"regressor.scale": Range(low=0.5, high=2.0)}
    search = TuningSearch("number-words", TINY, ranges, tmp_path / "trials", limit=4, prune=True)
    search.run(7, Monitor())
    found = search.open(search.metric(Monitor())).get_trials()
    assert [trial.state.name for trial in found] == ["COMPLETE"] * 5 + ["PRUNED"] * 2
    assert [list(trial.intermediate_values.values()) for trial in found] == [[-float(n)] for n in range(1, 8)]
    assert deciding(search.config({}))["matching"] == "mismatch"


@pytest.mark.parametrize("spelling", [["--file", "wordlist={}"], ["--wordlist", "{}"]])
def test_its_study_gets_its_file(tmp_path, spelling):
    file = tmp_path / "words.txt"
    file.write_text("one\n")
    words = [word.format(file) for word in spelling]
    target = tmp_path / "out"
    result = CliRunner().invoke(cli, ["reproduce", "ours", *words, "--row", "listed", "-o", str(target)])
    assert result.exit_code == 0, result.output
    record = json.loads((target / "ours-small" / "listed-seed0.json").read_text())
    command = "ele reproduce ours --scale small --seeds 0 --row listed --file wordlist=words.txt"
    assert record["command"] == command
    (trained,) = (target / "runs").iterdir()
    assert Run(trained).config.task.options["wordlist"] == str(file)


def test_without_its_file_the_row_says_what_it_needs(tmp_path):
    result = CliRunner().invoke(cli, ["reproduce", "ours", "--dry-run", "-o", str(tmp_path / "out")])
    assert "listed: skipped, needs --file wordlist=PATH." in result.output


# -- what ships has no other way in -------------------------------------------------------------------------------

MAY_NAME = (
    Path("ele_core/components"),
    Path("ele_core/plugin.py"),
    Path("ele_core/config/recipes.py"),
)
"""The components themselves, the plugin that lists them, and the recipes, which hold all defaults."""
OTHER_MEANING = {
    "blocks": "parts of a page, and of a source of pairs",
    "candidates": "the structures that decoders choose from: a section of every configuration and a column",
    "columns": "of a table: an option, and what an input space reads",
    "embedding": "the space of the surrogate, and an option of a backbone",
    "exact": "a metric: the share of predictions that are the truth",
    "fingerprint": "the SHA-256 of a data set: a key of runs and records",
}
"""Words of the core that are also the name of something that ships → what they mean there."""
EXCEPTIONS = {
    "ele_core/testing/input_spaces.py": ({"sketched-ridge", "kernel"}, "the regressor whose options are suggested"),
    "ele_core/testing/common.py": (
        {"flat", "contrastive", "neural", "joint", "writer", "gru", "mlp", "text"},
        "a small model around the component that is checked",
    ),
    "ele_core/report/drawings.py": ({"text"}, "a key of a drawing"),
    "ele_core/model/export.py": ({"text"}, "a key of a line of candidates.jsonl"),
    "ele_core/model/index.py": ({"faiss"}, "the index from a million structures on"),
    "ele_core/experiments/rivals.py": ({"parts"}, "the embedding whose parts kernel ridge predicts"),
    "ele_core/runs/resumable.py": ({"parts"}, "the folder of the parts of a prediction"),
    "ele_core/runtime/distributed.py": ({"text"}, "a key of a failure that a process publishes"),
}
"""Files of the core that name something that ships → the names, and why."""


def shipped_names() -> set[str]:
    """Components of ELE itself, their variants, stages and deciding metrics, and the files of their studies."""
    ours = [plugin for plugin in registry().plugins() if plugin.distribution == "explicit-loss-embedding"]
    names: set[str] = set()
    for kind, record in ((kind, record) for p in ours for kind, records in p.records.items() for record in records):
        component = registry().get(kind, record.name)
        names.add(record.name)
        names |= {variant.name for variant in getattr(component, "variants", ())}
        names |= {word for stage in getattr(component, "stages", ()) for word in (stage.name, stage.decides)}
        names |= {file for study in getattr(component, "studies", ()) for file in study.files}
    return names


def named_in(source: str, names: set[str]) -> set[str]:
    """The names that are a whole string of a module, or the value in one such as `decoder=NAME`; not its docstrings."""
    tree = ast.parse(source)
    bare = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    texts = (n.value for n in ast.walk(tree) if isinstance(n, ast.Constant) and id(n) not in bare)
    words = {word for text in texts if isinstance(text, str) for word in (text, text.rpartition("=")[2])}
    options = {word.removeprefix("--") for word in words}
    return (words | options) & names


def test_no_source_of_the_core_names_what_ships():
    names = shipped_names()
    assert {"pgd", "pgd-best", "search", "regression", "validation_error", "gdb11", "rgcn", "molecule"} <= names
    found = {}
    for file in sorted((ROOT / "ele_core").rglob("*.py")):
        path = file.relative_to(ROOT)
        if not any(path.is_relative_to(place) for place in MAY_NAME):
            found[path.as_posix()] = named_in(file.read_text("utf-8"), names - set(OTHER_MEANING))
    assert {path: own for path, own in found.items() if own} == {path: own for path, (own, _) in EXCEPTIONS.items()}


def test_a_favourite_would_be_seen():
    code = [
        '"""pgd"""',
        'FOLLOWED = ("search", f"decoder=pgd")',
        '@option("--gdb11", help="not rgcn")',
        'def f(): "mlp"',
    ]
    source = "\n".join(code)
    assert named_in(source, {"pgd", "search", "gdb11", "rgcn", "mlp"}) == {"pgd", "search", "gdb11"}
