"""What a notebook shows of results: tables with pictures, in which a hostile text stays text."""

import base64
import re
from html.parser import HTMLParser
from xml.etree import ElementTree

import pytest
import torch

from ele_core.display.pictures import SHOWN, Html, curve, picture, table
from ele_core.errors import DataError
from ele_core.experiments.sweep import Sweep
from ele_core.model.evaluate import Evaluation
from ele_core.model.results import Prediction, Predictions
from ele_core.types import Choice, Decoding, Drawing, Trace
from ele_sequences.space import SequenceSpace

HOSTILE = "<script>alert(1)</script>\"'><img src=x onerror=alert(1)>"
SVG = '<svg xmlns="http://www.w3.org/2000/svg"><script>alert(1)</script></svg>'


class Parsed(HTMLParser):
    """The tags, attributes and words of a page; what is opened must be closed."""

    def __init__(self, page):
        super().__init__()
        self.tags, self.attributes, self.words, self.open = [], [], "", []
        self.feed(page)
        assert not self.open, f"not closed: {self.open}"

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs
        if tag not in ("img", "br"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.words += data

    @property
    def harmless(self):
        return "script" not in self.tags and not [name for name, _ in self.attributes if name.startswith("on")]


class DrawnSpace(SequenceSpace):
    """Sequences with a picture, hostile on purpose."""

    class Show(SequenceSpace.Show):
        def render(self, obj, against=None):
            return Drawing(f"{obj} after {against}", SVG)


@pytest.fixture
def space():
    return DrawnSpace(DrawnSpace.Config(alphabet=("a", "b", "<"), length=3))


def predictions(space, inputs=("one", "two"), trace=None):
    structures = space.pack(["ab", "a", "b<", "b"])
    return Predictions(space, inputs, Decoding(structures, torch.tensor([[0.25, 0.5], [0.1, float("inf")]]), trace))


def test_predictions_are_a_row_an_input_with_a_picture_an_object(space):
    shown = Parsed(predictions(space)._repr_html_())
    assert shown.tags.count("tr") == 1 + 2
    assert shown.tags.count("img") == 3, "an object of infinite energy is none"
    assert "one" in shown.words
    assert "energy 0.25" in shown.words


def test_one_prediction_is_shown_alone(space):
    shown = Parsed(predictions(space)[1]._repr_html_())
    assert shown.tags.count("img") == 1
    assert "two" in shown.words
    assert shown.tags.count("tr") == 2


def test_a_prediction_without_a_space_is_shown_as_text():
    assert "('a', 'b')" in Parsed(Prediction(1, [("a", "b")], [0.5])._repr_html_()).words


def test_a_hostile_input_and_a_hostile_object_stay_text(space):
    shown = Parsed(predictions(space, (HOSTILE, HOSTILE))._repr_html_())
    assert shown.harmless
    assert HOSTILE in shown.words
    assert Parsed(Prediction(HOSTILE, [HOSTILE], [0.5])._repr_html_()).harmless


def test_a_script_in_a_picture_is_shut_in_an_image():
    page = picture(Drawing(HOSTILE, SVG))
    shown = Parsed(page)
    assert shown.harmless
    source = dict(shown.attributes)["src"]
    assert base64.b64decode(source.removeprefix("data:image/svg+xml;base64,")).decode() == SVG


def test_the_path_of_a_decoder_shows_each_change_marked_against_the_one_before(space):
    batches = [space.pack([first, "b"]) for first in ("a", "a", "ab", "ab")]
    energies = [torch.tensor([energy, 0.0]) for energy in (0.9, 0.9, 0.4, 0.4)]
    path = predictions(space, trace=Trace(range(4), batches, energies)).trace(0)
    assert [step.object for step in path] == ["a", "a", "ab", "ab"]
    assert [(step.step, step.object) for step in path.changes()] == [(0, "a"), (2, "ab")]
    assert [drawing.text for drawing in path.drawings()] == ["a after None", "ab after a"]
    shown = Parsed(path._repr_html_())
    assert shown.tags.count("img") == 2
    assert "step 2, energy 0.4" in shown.words
    assert str(path).splitlines()[1:] == ["     0    0.9000  a", "     2    0.4000  ab"]


def test_a_path_of_an_input_that_is_not_there_is_an_index_error(space):
    trace = Trace([0], [space.pack(["a", "b"])], [torch.tensor([1.0, 2.0])])
    found = predictions(space, trace=trace)
    assert found.trace(-1).input == "two"
    with pytest.raises(IndexError):
        found.trace(2)


def test_without_a_trace_it_is_said_how_to_get_one(space):
    with pytest.raises(DataError, match="trace=True"):
        predictions(space).trace(0)


def test_search_records_a_path_that_ends_at_its_answer(predictor, pairs):
    found = predictor.decode(pairs[0][:3], decoder={"name": "search", "trace": True})
    for index, prediction in enumerate(found):
        path = found.trace(index)
        assert path[-1].object == prediction.best
        assert path[-1].energy == pytest.approx(prediction.energies[0], abs=1e-5)
        assert Parsed(path._repr_html_()).words


def test_an_evaluation_is_a_table_of_its_metrics(space):
    decoding = predictions(space).decoding
    result = Evaluation({"exact": 0.5, "<b>": 1.0}, {}, decoding, None, Choice(name="search"), torch.zeros(0))
    shown = Parsed(result._repr_html_())
    assert shown.tags.count("tr") == 3
    assert "b" not in shown.tags
    assert "decoder search" in shown.words
    assert "0.5" in shown.words


def test_a_sweep_is_a_table_of_its_measurements():
    record = {"line": "search", "share": 0.5, "metrics": {"exact": 0.75}, "seconds": 2.0}
    shown = Parsed(Sweep([record], ["exact"], [])._repr_html_())
    assert shown.tags.count("td") == 4
    assert "0.7500" in shown.words


def test_a_long_table_is_cut_and_says_so():
    shown = Parsed(table(["a"], [[str(row)] for row in range(SHOWN + 3)]))
    assert shown.tags.count("td") == SHOWN
    assert "and 3 more" in shown.words


def test_only_what_is_marked_as_html_is_html():
    assert Parsed(table(["<i>"], [["<b>", Html("<em>x</em>")]], "<u>")).tags.count("em") == 1
    assert not {"i", "b", "u"} & set(Parsed(table(["<i>"], [["<b>"]], "<u>")).tags)


def test_a_bare_decoding_shows_its_energies_and_a_trace_its_curve():
    energies = torch.tensor([[0.5, 1.0], [0.25, float("inf")]])
    html = Decoding(None, energies)._repr_html_()
    assert [text in html for text in ("rank 2", ">0.25<", ">inf<", "rank 3")] == [True, True, True, False]
    svg = Trace([0, 5, 9], [None] * 3, [torch.tensor([2.0, 4.0]), torch.tensor([1.0, 2.0]), torch.tensor([0.5, 1.0])])
    root = ElementTree.fromstring(svg._repr_svg_())
    words = [node.text for node in root.iter() if node.tag.endswith("text")]
    assert words == ["mean energy of 2 inputs, by step", "3", "0", "0.75", "9"]
    assert Trace([], [], [])._repr_svg_() is None


def test_a_curve_of_one_step_or_of_equal_values_can_be_drawn():
    for steps, values in (([3], [1.0]), ([0, 1], [2.0, 2.0])):
        points = re.search(r'points="([^"]*)"', curve(steps, values, "energy"))[1].split()
        assert len(points) == len(steps)
        assert all("nan" not in point and "inf" not in point for point in points)


def test_predictions_print_a_line_an_input_and_a_missing_input_is_named():
    space = SequenceSpace(SequenceSpace.Config(alphabet=("a", "b"), length=2))
    found = Predictions(space, ["x", "y"], Decoding(space.pack(["ab", "b"]), torch.tensor([[0.5], [0.25]])))
    assert str(found).splitlines() == ["x → ab  (energy 0.5)", "y → b  (energy 0.25)"]
    traced = Predictions(space, ["x"], Decoding(space.pack(["ab"]), torch.tensor([[0.5]]), Trace([], [], [])))
    with pytest.raises(IndexError, match="there is no input 9: these are the predictions for 1 input"):
        traced.trace(9)
