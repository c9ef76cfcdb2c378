"""What a report is made of: chosen, measured once, escaped, and never in the way of a training."""

from __future__ import annotations

import json
import re
import shutil
import tomllib
from pathlib import Path

import pytest
import torch
from click.testing import CliRunner

import ele_core.report
from ele_core import config as configuration
from ele_core.cli import cli
from ele_core.errors import Interrupted, ModelError
from ele_core.report import COUNTS, FILE, Wanted, split_for, write_report
from ele_core.report.comparison import Comparison, compare, decided, short_names
from ele_core.report.decoding import Affordable, Ranks, interleaved, ranks
from ele_core.report.drawings import Drawings, as_plain, choose, maps, principal
from ele_core.report.headline import advice
from ele_core.report.learning_curves import Curve, curves, deciding, duration
from ele_core.report.measured import Measured, worst_first
from ele_core.report.page import as_json, render
from ele_core.runs.measurements import StoredEvaluation, digest_of, load_all
from ele_core.runs.run import Run
from ele_core.runtime.context import Context
from ele_core.runtime.monitor import Monitor
from ele_core.types import Choice, Drawing, Metric, Reference
from ele_sequences.number_words import NumberWords, draw, spell
from ele_sequences.space import SequenceSpace

ROOT = Path(__file__).parents[3]


@pytest.fixture
def copy(trained_run, tmp_path):
    return Path(shutil.copytree(trained_run, tmp_path / "run"))


def ele(*arguments: object) -> str:
    result = CliRunner().invoke(cli, [str(argument) for argument in arguments], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


def data_of(page: Path) -> dict:
    return json.loads(re.search(r'id="data">(.*?)</script>', page.read_text(), re.DOTALL)[1])


# -- the page -----------------------------------------------------------------------------------------------------


def test_a_report_holds_every_prediction_and_says_where_it_is(copy):
    assert f"Report: {copy / FILE}" in ele("report", copy, "--examples", 9)
    data = data_of(copy / FILE)
    assert len(data["rows"]["input"]) == 20
    assert sum(map(len, data["groups"].values())) == len(data["drawn"]) == 9
    assert {way["decoder"] for way in data["trajectories"]} == {"pgd", "search"}
    assert [curve["stage"] for curve in data["curves"]] == ["embedding", "regression"]
    assert data["properties"].keys() == {"length"}


def test_a_second_report_decodes_nothing_again(copy, monkeypatch):
    ele("report", copy)
    first = data_of(copy / FILE)
    monkeypatch.setattr(Run, "evaluate", lambda *_, **__: pytest.fail("was evaluated before"))
    ele("report", copy, "-o", copy / "again.html")
    assert data_of(copy / "again.html") == first


@pytest.mark.parametrize("change", [["--limit", 5], ["--split", "validation"], ["--decoder", "candidates"]])
def test_other_options_are_another_evaluation(copy, change):
    ele("report", copy)
    before = (copy / "predictions" / "test-pgd.csv").read_text()
    ele("report", copy, *change, "-o", copy / "other.html")
    assert data_of(copy / "other.html")["rows"] != data_of(copy / FILE)["rows"]
    assert ((copy / "predictions" / "test-pgd.csv").read_text() == before) == (change[0] != "--limit")


def test_a_table_that_was_edited_is_not_believed(copy):
    ele("report", copy)
    table = copy / "predictions" / "test-pgd.csv"
    original = table.read_text()
    table.write_text(original.replace("\n", "\nforged,1,1,0,1,0\n", 1))
    assert len(load_all(copy)) == 1, "the oracle's"
    ele("report", copy)
    assert table.read_text() == original


def test_damage_beside_a_table_is_named(copy):
    ele("evaluate", copy)
    file = copy / "predictions" / "test-pgd.json"
    content = json.loads(file.read_text())
    file.write_text(json.dumps({**content, "metrics": ["nonsense"]}))
    assert load_all(copy) == [], "it is not what was written"
    content = {**content, "metrics": ["nonsense"]}
    content["digest"] = digest_of(content)
    file.write_text(json.dumps(content))
    with pytest.raises(ModelError, match=r"test-pgd.json: damaged"):
        load_all(copy)
    file.write_text(json.dumps({**content, "format": 99}))
    assert load_all(copy) == []


def test_other_decoders_that_were_evaluated_stand_beside_the_one_shown(copy):
    ele("evaluate", copy, "--decoder", "candidates")
    ele("evaluate", copy, "--decoder", "search", "--limit", 3)
    ele("report", copy)
    page = (copy / FILE).read_text()
    assert page.count('<tr class="ours">') == 4, "candidates, the oracle, two baselines; not the one on other pairs"


def test_without_test_pairs_the_validation_pairs_are_shown(copy):
    assert split_for(Run(copy)) == "test"
    content = json.loads((copy / "data.json").read_text())
    (copy / "data.json").write_text(json.dumps({**content, "test": []}))
    assert split_for(Run(copy)) == "validation"


@pytest.mark.parametrize(
    ("file", "content"),
    [("data.json", "[]"), ("data.json", '{"test": 3}'), ("identity.json", "[]"), ("metrics.jsonl", "1\n")],
)
def test_damaged_files_of_a_run_are_named(copy, file, content):
    ele("report", copy)
    (copy / file).write_text(content)
    with pytest.raises(ModelError, match=file):
        write_report(Run(copy), Wanted(split_for(Run(copy)), examples=0), Monitor())


def test_a_picture_that_fails_is_shown_as_text(copy, monkeypatch):
    monkeypatch.setattr(SequenceSpace.Show, "render", lambda *_: 1 / 0)
    ele("report", copy, "--examples", 3)
    data = data_of(copy / FILE)
    assert all(set(drawing) == {"text"} for drawing in data["drawings"])


# -- training ends with a report ----------------------------------------------------------------------------------


def test_a_report_that_fails_does_not_fail_the_training(settings, tmp_path, monkeypatch):
    monkeypatch.setattr(ele_core.report, "write_report", lambda *_: 1 / 0)
    run = tmp_path / "run"
    result = CliRunner().invoke(cli, ["train", "number-words", "-o", str(run), *settings])
    assert result.exit_code == 0
    assert f"Write it with: ele report {run}" in result.stderr
    assert f"Next: ele evaluate {run}" in result.stdout
    assert not (run / FILE).exists()


def test_a_report_that_is_stopped_leaves_a_trained_run(settings, tmp_path, monkeypatch):
    def stopped(*_):
        raise Interrupted("stopped during pgd.", signal=2, fix="Continue with the same command.")

    monkeypatch.setattr(ele_core.report, "evaluate_for_report", stopped)
    run = tmp_path / "run"
    error = CliRunner().invoke(cli, ["train", "number-words", "-o", str(run), *settings]).exception
    assert isinstance(error, Interrupted)
    assert error.exit_code == 130
    assert f"the run is trained. Write it with: ele report {run}" in str(error)
    assert Run(run).config.seed == 0


@pytest.mark.parametrize("wanted", [True, False])
def test_training_writes_a_report_unless_told_not_to(settings, tmp_path, wanted):
    run = tmp_path / "run"
    words = ele("train", "number-words", "-o", run, *([] if wanted else ["--no-report"]), *settings)
    assert (f"Report: {run / FILE}" in words) == (run / FILE).exists() == wanted


# -- its parts ----------------------------------------------------------------------------------------------------


def test_the_first_metric_orders_then_the_next_then_the_energy():
    def metric(name, direction):
        return Metric(name, direction, lambda predicted, _: predicted)

    values = {"exact": [0.0, 1.0, 0.0, 0.0, float("nan")], "distance": [2.0, 0.0, 5.0, 2.0, 0.0]}
    measured = Measured(None, None, {}, [0.1, 0.9, 0.1, 0.3, 0.0], values, {})
    metrics = {"exact": metric("exact", "max"), "distance": metric("distance", "min")}
    assert worst_first(measured, metrics) == [4, 2, 3, 0, 1]


def test_examples_are_the_ends_and_the_middle_of_the_order():
    groups = choose(list(range(100)), 9)
    assert (groups["worst"], groups["best"]) == ([0, 1, 2], [99, 98, 97])
    assert sorted(groups["typical"]) == [48, 49, 50]
    assert groups["typical"][0] == 49, "the very middle comes first"


@pytest.mark.parametrize("count", [0, 1, 2, 5, 7, 20])
def test_no_example_is_chosen_twice_and_all_where_there_are_few(count):
    chosen = [row for group in choose(list(range(7)), count).values() for row in group]
    assert len(chosen) == len(set(chosen)) == min(count, 7)


def test_the_same_drawing_is_stored_once():
    drawings = Drawings(SequenceSpace(SequenceSpace.Config(alphabet=tuple("ab"), length=3)))
    assert drawings.number("ab", "aa") == drawings.number("ab", "aa") == 0
    assert drawings.number("ab") == 1
    assert drawings.stored == [{"text": "ab", "pieces": [["a", 0], ["b", 1]]}, {"text": "ab"}]


def test_a_picture_that_is_too_large_is_left_out():
    assert as_plain(Drawing("text", "x" * 1_000_000)) == {"text": "text"}


def test_the_first_axis_has_the_largest_variance_and_queries_are_seen_along_it():
    points = torch.randn(40, 5, generator=torch.Generator().manual_seed(0)) * torch.tensor([9.0, 1, 4, 1, 1])
    found = principal(points, points + 1)
    assert torch.tensor(found.x).var() > torch.tensor(found.y).var() > 0
    shift = {round(q - x, 2) for q, x in zip(found.query_x, found.x, strict=True)}
    assert max(shift) - min(shift) < 0.05, "a common shift stays one"
    assert "%" in found.note


def test_maps_follow_the_seed_and_small_sets_have_none():
    points = torch.randn(40, 5, generator=torch.Generator().manual_seed(0))
    assert [found.name for found in maps(points, None, 0)] == ["principal components", "t-SNE"]
    assert maps(points, None, 0) == maps(points, None, 0)
    assert maps(points[:2], None, 0) == []
    assert maps(points[:, :1], None, 0)[0].y == [0.0] * 40


def test_curves_mark_the_weights_that_were_kept(tmp_path):
    lines = [
        {"stage": "embedding", "step": step, "best": step < 3, "loss": 1 / step, "validation_loss": float("nan")}
        for step in (1, 2, 3)
    ]
    (tmp_path / "metrics.jsonl").write_text("\n".join(map(json.dumps, lines)))
    (curve,) = curves(tmp_path, {"embedding": "validation_loss"})
    assert (curve.steps, curve.kept, curve.decides) == ([1, 2, 3], 2, "validation_loss")
    assert curve.series["validation_loss"] == [None] * 3
    (tmp_path / "metrics.jsonl").write_text("[]\n")
    with pytest.raises(ModelError, match="damaged"):
        curves(tmp_path, {})


@pytest.mark.parametrize("decides", [{}, {"embedding": "no_such_metric"}, {"regression": "validation_loss"}])
def test_in_a_stage_that_nobody_declares_nothing_decides(tmp_path, decides):
    line = {"stage": "embedding", "step": 1, "best": True, "loss": 1.0, "validation_loss": 2.0}
    (tmp_path / "metrics.jsonl").write_text(json.dumps(line))
    (curve,) = curves(tmp_path, decides)
    assert (curve.decides, curve.kept) == (None, 1)
    assert decided([[curve]]) == []


def test_what_decides_is_what_the_learners_of_the_run_declare(copy):
    config = Run(copy).config
    assert deciding(config) == {
        "pretraining": "validation_loss",
        "embedding": "validation_loss",
        "decisions": "validation_loss",
        "regression": "validation_error",
    }
    gone = config.model_copy(update={"regressor": Choice(name="not-installed")})
    assert deciding(gone) == dict.fromkeys(("pretraining", "embedding", "decisions"), "validation_loss")


@pytest.mark.parametrize(
    ("seconds", "text"), [(None, "not recorded"), (4.25, "4.2 s"), (75, "1 min 15 s"), (7260, "2 h 1 min")]
)
def test_times_are_told_in_words(seconds, text):
    assert duration(seconds) == text


def test_data_in_a_page_cannot_end_its_element():
    hostile = {"</script>": ["<!--", "\u2028\u2029&", float("nan")]}
    text = as_json(hostile)
    assert not set("<>&\u2028\u2029") & set(text)
    assert json.loads(text) == {"</script>": ["<!--", "\u2028\u2029&", None]}


def test_everything_a_template_writes_is_escaped():
    hostile = Comparison(["<script>alert(1)</script>"], [], ['"><img src=x>'], [])
    page = render("compare.html", {"comparison": hostile}, {"curves": []})
    assert "<script>alert" not in page
    assert "<img" not in page
    assert "default-src &#39;none&#39;" in page


def test_a_page_names_no_other_place(copy):
    write_report(Run(copy), Wanted(examples=3), Monitor())
    addresses = set(re.findall(r"https?://[\w./]+", (copy / FILE).read_text()))
    assert addresses <= {"http://www.w3.org/2000/svg"}, "a name, which nobody loads"


def test_a_wheel_carries_templates_styles_and_scripts():
    patterns = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["package-data"]
    folder = ROOT / "ele_core" / "report"
    carried = {file for pattern in patterns["ele_core.report"] for file in folder.glob(pattern)}
    beside = {file for file in folder.rglob("*") if file.is_file() and file.suffix not in (".py", ".pyc")}
    assert beside
    assert beside <= carried


# -- runs side by side --------------------------------------------------------------------------------------------


def test_runs_are_compared_by_what_was_evaluated_and_where_they_differ(copy, settings, tmp_path):
    other = tmp_path / "other"
    ele("train", "number-words", "-o", other, "--no-report", *settings, "--set", "regressor.training.epochs=1")
    ele("evaluate", copy, "--decoder", "candidates")
    words = ele("compare", copy, other, "-o", tmp_path / "page.html")
    assert re.search(r"regressor.training.epochs +2 +1", words)
    assert "surrogate.dim" not in words, "that is the same in both"
    assert "other was not evaluated: ele evaluate other" in words
    assert re.search(r"edit distance +\d[\d.]* +–", words)
    ele("evaluate", other, "--decoder", "candidates")
    (block,) = [block for block in compare([copy, other]).blocks if block.title == "test: candidates"]
    (line,) = [line for line in block.lines if line.name == "regression error"]
    values = [float(text) for text in line.texts]
    assert line.best == {values.index(min(values))}
    assert "<title>run, other" in (tmp_path / "page.html").read_text()


def test_different_data_are_said_and_nobody_is_best_then(copy, settings, tmp_path):
    other = tmp_path / "other"
    ele("train", "number-words", "-o", other, "--no-report", *settings, "--set", "task.seed=5")
    for run in (copy, other):
        ele("evaluate", run, "--decoder", "candidates")
    comparison = compare([copy, other])
    assert any("different data" in warning for warning in comparison.warnings)
    assert not any(line.best for block in comparison.blocks for line in block.lines)


def test_runs_of_the_same_name_are_told_apart():
    assert short_names([Path("/a/one/run"), Path("/a/two/run")]) == ["one/run", "two/run"]


def test_one_run_is_not_compared(copy):
    result = CliRunner().invoke(cli, ["compare", str(copy)])
    assert result.exit_code == 2
    assert "at least two" in result.output


def test_the_report_of_a_run_trained_in_this_process_loads_neither_model_nor_data(settings, tmp_path, monkeypatch):
    overrides = [word for word in settings if word != "--set"]
    run = Run.start(configuration.load("number-words", overrides), tmp_path / "run")
    monkeypatch.setattr("ele_core.runs.run.load_model", lambda *_: pytest.fail("the model was loaded"))
    monkeypatch.setattr("ele_core.runs.run.prepare", lambda *_: pytest.fail("the data were read"))
    monkeypatch.setattr(SequenceSpace, "parse", classmethod(lambda *_: pytest.fail("a prediction was parsed")))
    page = write_report(run, Wanted(examples=0), Monitor())
    assert len(data_of(page)["rows"]["truth"]) == 20


# -- what a run without exact predictions is told -----------------------------------------------------------------


def without_exact(exact=0.0, oracle=0.0, unseen=1.0):
    def stored(metrics):
        return StoredEvaluation(Path("x.csv"), "key", {}, {"name": "nearest"}, {}, metrics, "2026-01-01")

    return Measured(stored({"exact": exact, "unseen": unseen}), stored({"exact": oracle}), {}, [], {}, {})


def regression_curve(loss, error):
    return Curve("fitting", [1, 2], {"loss": [9.0, loss], "error": [9.0, error]}, "error", 2, None)


def test_a_run_with_exact_predictions_needs_no_advice():
    assert advice(without_exact(exact=0.01), 10, regression_curve(0.01, 1.0), ["other"]) == []


def test_few_pairs_are_named_first():
    fact, first, *_ = advice(without_exact(), 999, None, [])
    assert fact == "No prediction is exact."
    assert "trained on 999 pairs" in first
    assert not any("pairs" in sentence for sentence in advice(without_exact(), 1000, None, []))


def test_an_oracle_that_fails_points_at_embedding_and_decoder():
    told = " ".join(advice(without_exact(oracle=0.1), 5000, None, ["climb", "walk"]))
    assert "Even decoded from the true embedding, 10 % are exact" in told
    assert "another decoder (climb, walk)" in told
    assert "not among the candidates" not in told
    told = " ".join(advice(without_exact(oracle=0.0, unseen=0.98), 5000, None, []))
    assert "98 % of the truths are not among the candidates: a decoder that only chooses" in told


def test_an_oracle_that_succeeds_points_at_the_regression():
    told = " ".join(advice(without_exact(oracle=0.9), 5000, regression_curve(0.02, 0.1), ["climb"]))
    assert "90 % are exact: the regression is what fails" in told
    assert "0.1, is 5.0 times the training loss, 0.02: the regressor memorises its pairs" in told
    assert "another decoder" not in told
    told = " ".join(advice(without_exact(oracle=0.9), 5000, regression_curve(0.3, 0.4), []))
    assert "has not learned its pairs" in told


@pytest.mark.parametrize(("loss", "error"), [(None, 1.0), (1.0, None), (0.0, 1.0)])
def test_without_both_values_nothing_is_said_about_the_regressor(loss, error):
    assert len(advice(without_exact(oracle=0.9), 5000, regression_curve(loss, error), [])) == 2


# -- the first answers, and the title -----------------------------------------------------------------------------


def test_the_truth_is_counted_among_the_first_answers(copy):
    run = Run(copy)
    model, context, counts = run.model(["decoder=candidates"]), Context(), Affordable(copy / COUNTS, "")
    truths = model.candidates.batch[:30]
    queries = model.surrogate.embed(truths)
    assert ranks(model, queries, truths, counts, context) == Ranks(30, 10, [(k, 1.0) for k in (1, 2, 3, 5, 10)])
    second = model.decode(queries, top_k=2, context=context).structures[torch.arange(1, 60, 2)]
    found = dict(ranks(model, queries, second, counts, context).shares)
    assert (found[1], found[2], found[10]) == (0.0, 1.0, 1.0)


def test_a_slow_decoder_is_followed_for_fewer_inputs(copy, monkeypatch):
    monkeypatch.setattr("ele_core.report.decoding.SECONDS", 0.0)
    data = data_of(write_report(Run(copy), Wanted(examples=9), Monitor()))
    ways = [way for way in data["trajectories"] if way["decoder"] == "pgd"]
    assert [way["group"] for way in ways] == ["worst", "typical"], "the first of the first two groups"
    assert [way["row"] for way in ways] == [data["groups"]["worst"][0], data["groups"]["typical"][0]]


def test_the_next_page_shows_the_same_on_a_busier_machine(copy, monkeypatch):
    first = data_of(write_report(Run(copy), Wanted(examples=9), Monitor()))
    monkeypatch.setattr("ele_core.report.decoding.SECONDS", 0.0)
    assert data_of(write_report(Run(copy), Wanted(examples=9), Monitor())) == first


@pytest.mark.parametrize("content", ["[]", "{", '{"a": 1}', '{"a": {"b": "c"}}', '{"a": {"b": 1e999}}'])
def test_damaged_numbers_of_inputs_are_measured_again(tmp_path, content):
    (tmp_path / COUNTS).write_text(content)
    assert not Affordable(tmp_path / COUNTS, "a").known


def test_rows_of_groups_are_taken_in_turn():
    assert interleaved([[1, 2, 3], [4], [5, 6]]) == [1, 4, 5, 2, 6, 3]


def test_first_answers_need_at_least_two_candidates(copy):
    model = Run(copy).model(["candidates.share=0.00001"])
    counts = Affordable(copy / COUNTS, "")
    assert ranks(model, model.candidates.embeddings[:4], model.candidates.batch[:4], counts, Context()) is None


@pytest.mark.parametrize("own", [True, False])
def test_own_data_give_the_title_and_hide_published_results(own, tiny, tmp_path, monkeypatch):
    file = tmp_path / "my pairs.csv"
    file.write_text("words,digits\n" + "".join(f"{spell(number)},{number}\n" for number in draw(120, seed=1)))
    data = {"data": {"file": str(file), "test": 20, "validation": 20}} if own else {}
    task = {"name": "number-words"} if own else {"name": "number-words", "size": 120, "test": 20, "validation": 20}
    monkeypatch.setattr(NumberWords, "references", (Reference("Somebody", {"exact": 0.5}, "a paper"),))
    run = Run.start(configuration.load({"task": task, **data, **tiny}), tmp_path / "run")
    page = write_report(run, Wanted(examples=0), Monitor()).read_text()
    assert f"<title>{'my pairs.csv' if own else 'number-words'} – ELE report" in page
    assert ("Somebody" in page) == ("a paper" in page) == (not own)
    assert ("settings of number-words" in page) == own


def test_a_long_input_is_shown_by_its_beginning_and_length():
    vector = " ".join(["0.25"] * 2048)
    texts = {"input": [vector, "CCO"], "prediction": ["C", "C"], "truth": ["C", "C"]}
    shown = Measured(None, None, texts, [0.0, 0.0], {}, {}).columns()
    assert len(shown["input"][0]) < 350
    assert shown["input"][0].endswith("… (10,239 characters)")
    assert shown["input"][1] == "CCO"
    assert texts["input"][0] == vector
