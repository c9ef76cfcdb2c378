"""A plugin written for an earlier version is refused when it is defined: nothing would call what it defines."""

import pytest
from mistakes.bases import Labels

from ele_core import TextInput
from ele_core.errors import PluginError
from ele_core.plugins.contained import blamed, remember


def test_a_replaced_method_is_refused_and_the_error_names_all_of_them_and_the_page():
    with pytest.raises(PluginError) as caught:

        class Drawn(Labels):
            def render(self, obj, against=None):
                return None

            def losses(self, objects):
                return ""

    said = str(caught.value)
    assert "Drawn" in said
    assert "`render` (now the same method of a nested class `Show`)" in said
    assert "`losses` (now `dropped_note` of a nested class `Show`)" in said
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


def test_an_error_of_a_part_names_the_plugin_of_its_space():
    class Drawn(Labels):
        class Show(Labels.Show):
            def render(self, obj, against=None):
                raise KeyError("ink")

    remember(Drawn, "plugin ele-ink 1.0, output space 'drawn'")
    with pytest.raises(PluginError, match="ele-ink"), blamed():
        Drawn(Drawn.Config(labels=("a", "b"))).show.render(["a"])
