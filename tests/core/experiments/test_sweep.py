"""`ele sweep`: what it measures, writes and draws, how it goes on after an interruption, and how it fails."""

from __future__ import annotations

import json
import shutil
from itertools import product
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from click.testing import CliRunner, Result

from ele_core.cli import cli
from ele_core.errors import ConfigError, DataError
from ele_core.experiments import sweep as module
from ele_core.experiments.sweep import SHARES, figure, installed_lines, lines_for, look, percent, written
from ele_core.interfaces import Surrogate
from ele_core.plugins import registry
from ele_core.runs.run import Run
from ele_core.runtime.monitor import Monitor
from ele_core.types import Variant

LINES = ("candidates", "pgd-random", "pgd-best", "search")
"""The lines that ship for a differentiable surrogate."""
SMALL = ("--decoder", "candidates", "--decoder", "search", "--share", "0.1", "--share", "1", "--limit", "4")


def ele(*arguments: str | Path) -> Result:
    return CliRunner().invoke(cli, ["sweep", *map(str, arguments)])


def records(folder: Path) -> list[dict[str, Any]]:
    return json.loads((folder / "sweep.json").read_text("utf-8"))


def measure(run: Path, folder: Path, **options: Any) -> module.Sweep:
    settings = {"lines": ["candidates"], "shares": [0.1, 1.0], "limit": 4, "monitor": Monitor(), **options}
    return module.sweep(Run(run), folder, **settings)


@pytest.fixture(scope="module")
def run(trained_run: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of this module's own, in which a sweep was made."""
    folder = tmp_path_factory.mktemp("swept") / "run"
    shutil.copytree(trained_run, folder)
    result = ele(folder, *SMALL)
    assert result.exit_code == 0, result.output
    return folder


@pytest.fixture
def swept(run: Path, tmp_path: Path) -> Path:
    """What the sweep wrote, to be changed at will."""
    return Path(shutil.copytree(run / "sweep", tmp_path / "sweep"))


@pytest.fixture
def no_measuring(monkeypatch: pytest.MonkeyPatch) -> None:
    """From now on nothing is loaded and nothing is measured."""

    def refuse(*_: Any, **__: Any) -> None:
        raise AssertionError("measured, or loaded data, though all is there")

    monkeypatch.setattr(module, "evaluate", refuse)
    monkeypatch.setattr(Run, "data", refuse)


def test_each_line_is_measured_on_each_share_and_described_in_full(run):
    found = records(run / "sweep")
    assert [(r["line"], r["share"]) for r in found] == list(product(["candidates", "search"], [0.1, 1.0]))
    for record in found:
        assert record["metrics"]["examples"] == record["pairs"] == 4
        assert record["overrides"] == [f"decoder={record['line']}", f"candidates.share={record['share']}"]
        assert record["decoder"]["name"] == record["line"]
        about = ("command", "date", "seed", "split", "sizes", "machine", "versions", "seconds", "fingerprint", "model")
        assert set(about) <= set(record)


def test_the_numbers_are_those_of_an_evaluation_with_the_same_overrides(run):
    for record in records(run / "sweep"):
        result = Run(run).evaluate(limit=4, overrides=record["overrides"], monitor=Monitor())
        assert record["metrics"] == pytest.approx(result.metrics, abs=1e-6)
        assert record["decoder"] == result.decoder.model_dump(mode="json")


def test_every_line_decodes_by_the_decoder_and_the_start_it_is_named_for(run, tmp_path):
    result = measure(run, tmp_path, lines=(), shares=[0.05])
    assert [record["line"] for record in result.records] == list(LINES)
    decoders = {record["line"]: record["decoder"] for record in result.records}
    assert [decoders[name]["name"] for name in LINES] == ["candidates", "pgd", "pgd", "search"]
    assert (decoders["pgd-random"]["start"], decoders["pgd-best"]["start"]) == ("random", "best")


def test_lines_that_need_a_gradient_are_left_out_where_there_is_none(run, monkeypatch):
    model = Run(run).model()
    assert list(lines_for(model)) == list(LINES)
    monkeypatch.setattr(type(model.surrogate), "embed_at", Surrogate.embed_at)
    assert list(lines_for(model)) == ["candidates", "search"]


def test_a_line_that_the_surrogate_refuses_is_installed_but_left_out(run):
    installed = ["candidates", "fgw-barycenter", "pgd-random", "pgd-best", "search"]
    assert list(installed_lines(registry())) == installed
    assert "fgw-barycenter" not in lines_for(Run(run).model())
    error = ele(run, "--decoder", "fgw-barycenter").exception
    assert isinstance(error, ConfigError)
    assert "weighted graphs" in str(error)


def test_the_overrides_of_the_shipped_lines_are_those_of_earlier_sweeps():
    lines = installed_lines(registry())
    assert lines["candidates"].overrides == ["decoder=candidates"]
    assert lines["pgd-random"].overrides == ["decoder=pgd", "decoder.start=random"]
    assert lines["pgd-best"].overrides == ["decoder=pgd", "decoder.start=best"]
    assert lines["search"].overrides == ["decoder=search"]


@pytest.mark.parametrize(
    ("value", "text"), [("best", "a=best"), ("true", 'a="true"'), (3, "a=3"), (None, "a=none"), (True, "a=true")]
)
def test_an_option_of_a_variant_is_written_as_one_would_type_it(value, text):
    assert written("a", value) == text


def test_two_decoders_with_a_variant_of_the_same_name_are_both_named(monkeypatch):
    from ele_core.components.decoders.candidates import CandidatesDecoder

    monkeypatch.setattr(CandidatesDecoder, "variants", (Variant("search"),))
    with pytest.raises(ConfigError, match="the decoders 'candidates' and 'search' both declare a variant 'search'"):
        installed_lines(registry())


def test_the_table_has_a_row_for_each_measurement_under_the_metrics_of_the_space(run):
    lines = ele(run, *SMALL).stdout.splitlines()
    assert lines[0].split() == ["decoder", "candidates", "exact", "edit_distance", "seconds"]
    assert [line.split()[:3] for line in lines[1:5]] == [
        [name, share, "%"] for name, share in product(["candidates", "search"], ["10", "100"])
    ]
    assert lines[5] == f"Figure: {run / 'sweep' / 'sweep.svg'}"


# -- the files ----------------------------------------------------------------------------------------------------


def test_the_figure_is_a_real_svg_and_a_real_png(run):
    root = ElementTree.parse(run / "sweep" / "sweep.svg").getroot()
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    assert len(list(root.iter("{http://www.w3.org/2000/svg}path"))) > 10
    png = (run / "sweep" / "sweep.png").read_bytes()
    width, height = (int.from_bytes(png[at : at + 4], "big") for at in (16, 20))
    assert png.startswith(b"\x89PNG\r\n\x1a\n")
    assert png.endswith(b"IEND\xaeB`\x82")
    assert width > height > 300
    assert {file.name for file in (run / "sweep").iterdir()} == {"sweep.json", "sweep.svg", "sweep.png"}


def test_the_figure_has_a_line_for_each_decoder_over_a_logarithmic_share(run, tmp_path):
    result = measure(run, tmp_path, lines=["candidates", "pgd-best"])
    (panel,) = figure(result.records, result.panels, result.lines).axes
    assert panel.get_xscale() == "log"
    assert [line.get_label() for line in panel.get_lines()[:2]] == [
        "candidates",
        "pgd from the best candidates",
    ]
    assert [tick.get_text() for tick in panel.get_xticklabels()] == ["10", "100"]
    for line, name in zip(panel.get_lines()[:2], ("candidates", "pgd-best"), strict=True):
        own = [record for record in result.records if record["line"] == name]
        assert list(line.get_xdata()) == [0.1, 1.0]
        assert list(line.get_ydata()) == [record["metrics"]["exact"] for record in own]


def test_a_space_whose_first_metric_is_another_gets_a_panel_for_it_and_one_for_exact(run, tmp_path, monkeypatch):
    space = type(Run(run).model().space)
    exact, distance = Run(run).model().space.metrics
    monkeypatch.setattr(space, "metrics", (distance,))
    result = measure(run, tmp_path)
    assert [metric.name for metric in result.panels] == result.columns == ["edit_distance", "exact"]
    labels = [panel.get_ylabel() for panel in figure(result.records, result.panels, result.lines).axes]
    assert labels == ["edit_distance (lower is better)", f"{exact.name} (higher is better)"]


@pytest.mark.usefixtures("no_measuring")
def test_equal_results_give_equal_figures(swept, run):
    drawn = (swept / "sweep.svg").read_bytes()
    (swept / "sweep.svg").unlink()
    assert ele(run, *SMALL, "-o", swept).exit_code == 0
    assert (swept / "sweep.svg").read_bytes() == drawn


def test_shares_as_text():
    assert [percent(share) for share in (*SHARES, 0.001, 0.07, 0.125)] == [
        *("1 %", "10 %", "50 %", "100 %", "0.1 %", "7 %", "12.5 %")
    ]


# -- going on -----------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("no_measuring")
def test_what_is_there_already_is_neither_loaded_nor_measured_again(run, swept):
    before = (swept / "sweep.json").read_bytes()
    result = ele(run, *SMALL, "-o", swept)
    assert result.exit_code == 0, result.output
    assert "4 of 4 measurements already in" in result.stderr
    assert (swept / "sweep.json").read_bytes() == before


def test_an_interrupted_sweep_goes_on_where_it_stopped(run, tmp_path, monkeypatch):
    evaluate, done = module.evaluate, []

    def interrupted(*arguments: Any, **keywords: Any) -> Any:
        if len(done) == 2:
            raise KeyboardInterrupt
        done.append(evaluate(*arguments, **keywords))
        return done[-1]

    monkeypatch.setattr(module, "evaluate", interrupted)
    with pytest.raises(KeyboardInterrupt):
        measure(run, tmp_path, shares=[0.1, 0.5, 1.0])
    monkeypatch.undo()
    first = records(tmp_path)
    assert [record["share"] for record in first] == [0.1, 0.5]
    measure(run, tmp_path, shares=[0.1, 0.5, 1.0])
    assert records(tmp_path)[:2] == first
    assert [record["share"] for record in records(tmp_path)] == [0.1, 0.5, 1.0]


def test_a_measurement_with_other_options_is_made_anew_in_its_place(run, swept):
    changed = records(swept)
    changed[2]["decoder"]["width"] = 99
    changed[2]["metrics"]["exact"] = 17
    (swept / "sweep.json").write_text(json.dumps(changed))
    assert ele(run, *SMALL, "-o", swept).exit_code == 0
    found = {(record["line"], record["share"]): record for record in records(swept)}
    assert len(found) == len(records(swept)) == 4
    again, original = found["search", 0.1], records(run / "sweep")[2]
    assert (again["decoder"], again["metrics"]) == (original["decoder"], original["metrics"])


@pytest.mark.parametrize("other", [{"limit": 3}, {"split": "validation"}])
def test_measurements_on_other_pairs_are_kept_but_not_shown_beside_these(run, tmp_path, other):
    first = measure(run, tmp_path)
    second = measure(run, tmp_path, **other)
    assert len(records(tmp_path)) == len(first.records) + len(second.records) == 4
    assert measure(run, tmp_path).records == first.records


def test_the_figure_shows_what_was_measured_before_beside_what_is_measured_now(run, tmp_path):
    measure(run, tmp_path, shares=[1.0])
    result = measure(run, tmp_path, lines=["search"], shares=[0.1])
    assert [(record["line"], record["share"]) for record in result.records] == [("candidates", 1.0), ("search", 0.1)]


def test_the_results_of_another_model_are_not_taken_for_this_ones(run, tmp_path):
    first = measure(run, tmp_path)
    other = [{**record, "model": "another"} for record in records(tmp_path)]
    (tmp_path / "sweep.json").write_text(json.dumps(other))
    again = measure(run, tmp_path)
    assert [r["metrics"] for r in again.records] == [r["metrics"] for r in first.records]
    assert records(tmp_path) == [*other, *again.records]


# -- failing ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("share", ["0", "10", "-0.5", "nan"])
def test_what_is_no_share_is_refused_in_one_sentence(run, tmp_path, share):
    error = ele(run, "--share", share, "-o", tmp_path / "new").exception
    assert isinstance(error, ConfigError)
    expected = f"--share: {share} is not a share of the candidates: give a number above 0 and up to 1, "
    assert str(error) == expected + "such as 0.1 for 10 %."
    assert not (tmp_path / "new").exists()


def test_a_line_that_there_is_not_is_answered_with_those_there_are(run):
    error = ele(run, "--decoder", "pgd-bset").exception
    assert isinstance(error, ConfigError)
    assert "did you mean 'pgd-best'?" in str(error)
    assert all(name in str(error) for name in LINES)


@pytest.mark.parametrize(("text", "message"), [("[{", "damaged.*Remove it"), ("{}", "not the results.*another folder")])
def test_a_file_that_is_no_sweep_is_named_and_left_alone(run, tmp_path, text, message):
    (tmp_path / "sweep.json").write_text(text)
    with pytest.raises(DataError, match=message) as caught:
        measure(run, tmp_path)
    assert caught.value.where == str(tmp_path / "sweep.json")
    assert (tmp_path / "sweep.json").read_text() == text


def test_the_help_names_every_share():
    text = " ".join(ele("--help").output.split())
    assert ", ".join(f"{share:g}" for share in SHARES) in text


def test_every_line_is_told_from_the_others_without_its_colour():
    looks = [look(place) for place in range(8)]
    assert len({own[1:] for own in looks}) == len(looks)
    assert len({own[0] for own in looks}) == len(looks)


def test_the_shipped_lines_look_as_they_always_did(run, tmp_path):
    result = measure(run, tmp_path, lines=(), shares=[0.05])
    (panel,) = figure(result.records, result.panels, result.lines).axes
    looks = [
        (line.get_label(), line.get_color(), line.get_marker(), line.get_linestyle(), line.get_zorder())
        for line in panel.get_lines()[:4]
    ]
    assert looks == [
        ("candidates", "#000000", "o", "-", 2),
        ("pgd from random candidates", "#E69F00", "^", ":", 3),
        ("pgd from the best candidates", "#0072B2", "s", "--", 3),
        ("search", "#009E73", "D", "-", 2),
    ]


def test_a_line_keeps_its_look_where_it_is_measured_alone(run, tmp_path):
    result = measure(run, tmp_path, lines=["search"])
    (panel,) = figure(result.records, result.panels, result.lines).axes
    assert panel.get_lines()[0].get_color() == "#009E73"
