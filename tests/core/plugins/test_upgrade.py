"""A plugin written for an earlier version is refused when it is defined: nothing would call what it defines."""

import importlib
from pathlib import Path

import pytest
from mistakes.bases import Labels

import ele_core
from ele_core import CandidatesDecoder, Decoder, Regressor, Surrogate, TextInput
from ele_core.errors import PluginError
from ele_core.plugins.contained import blamed, remember
from ele_core.upgrade import MOVED, PAGE, REPLACED


def test_a_replaced_method_is_refused_and_the_error_names_all_of_them_and_the_page():
    with pytest.raises(PluginError) as caught:

        class Drawn(Labels):
            def render(self, obj, against=None):
                return None

            def losses(self, objects):
                return ""

    said = str(caught.value)
    assert "Drawn" in said
    assert "`render` (now the same of a nested class `Show(OutputSpace.Show)`)" in said
    assert "`losses` (now `dropped_note` of a nested class `Show(OutputSpace.Show)`)" in said
    assert "docs/reference/upgrade.md" in said


def test_a_mixin_is_looked_at_too():
    class Described:
        def describe(self):
            return "tags"

    with pytest.raises(PluginError, match="`describe`"):
        type("Mixed", (Described, Labels), {})


def test_a_method_that_became_an_object_is_refused_and_the_object_is_not():
    with pytest.raises(PluginError, match=r"`moves` \(now `list`"):

        class Old(Labels):
            def moves(self, batch, gradient=None):
                return super().moves(batch, gradient)

    class New(Labels):
        class Moves(Labels.Moves):
            def list(self, batch):
                moved, row = super().list(batch)
                return moved[:1], row[:1]

    space = New(New.Config(labels=("a", "b")))
    assert len(space.moves.list(space.pack([["a"]]))[0]) == 1


def test_the_flags_of_an_input_space_are_refused():
    with pytest.raises(PluginError, match=r"`takes_vectors` \(now the attribute `reads`\)"):
        type("Numbers", (TextInput,), {"takes_vectors": True})


def test_an_old_name_inside_of_a_part_is_refused():
    with pytest.raises(PluginError, match=r"`Show.losses` \(now `dropped_note`\)"):

        class Noted(Labels):
            class Show(Labels.Show):
                def losses(self, objects):
                    return ""


def test_a_method_with_the_parameters_of_old_is_refused_and_one_with_the_new_is_not():
    def decode(self, queries, problem, *, top_k=1, context): ...
    def accepts(self, surrogate): ...
    def fit(self, outputs, validation, extra, context): ...
    def fit_pairs(self, train, validation, context): ...
    def energy(self, queries, batch): ...

    with pytest.raises(
        PluginError, match=r"`decode\(queries, problem\)` \(now `decode\(energy, problem, …\)`\).*`accepts"
    ):
        type("Walk", (Decoder,), {"decode": decode, "accepts": accepts})
    with pytest.raises(PluginError, match=r"`fit\(outputs, .*now `fit\(data, context\)`.*`energy\(queries, batch\)`"):
        type("Old", (Surrogate,), {"fit": fit, "energy": energy})
    with pytest.raises(PluginError, match=r"`fit\(train, .*`ways` \(now `modes`"):
        type("Old", (Regressor,), {"fit": fit_pairs, "ways": ("one", "two")})

    def fit_new(self, data, context, again=None): ...
    def energy_new(self, queries): ...
    def accepts_new(self, energy): ...

    type("New", (Surrogate,), {"fit": fit_new, "energy": energy_new})
    type("New", (CandidatesDecoder,), {"accepts": accepts_new})


def test_a_name_that_is_no_longer_public_is_refused_with_its_module_and_the_page():
    with pytest.raises(ImportError, match=r"from ele_core.numerics.keys import mix.*docs/reference/upgrade.md"):
        from ele_core import mix  # noqa: F401
    with pytest.raises(ImportError, match="cannot import name 'mixed'"):
        from ele_core import mixed  # noqa: F401
    assert not hasattr(ele_core, "mixed")


@pytest.mark.parametrize("name", MOVED)
def test_a_moved_name_is_in_its_module(name):
    assert name not in ele_core.__all__
    assert hasattr(importlib.import_module(MOVED[name]), name)


def test_the_page_lists_all_that_is_refused():
    page = (Path(ele_core.__file__).parents[1] / PAGE).read_text(encoding="utf-8")
    names = {name.partition("(")[0] for replaced in REPLACED.values() for name in replaced}
    assert [name for name in names if name not in page] == []
    assert [name for name, module in MOVED.items() if f"`{name}`" not in page or f"`{module}`" not in page] == []


def test_an_error_of_a_part_names_the_plugin_of_its_space():
    class Drawn(Labels):
        class Show(Labels.Show):
            def render(self, obj, against=None):
                raise KeyError("ink")

    remember(Drawn, "plugin ele-ink 1.0, output space 'drawn'")
    with pytest.raises(PluginError, match="ele-ink"), blamed():
        Drawn(Drawn.Config(labels=("a", "b"))).show.render(["a"])
