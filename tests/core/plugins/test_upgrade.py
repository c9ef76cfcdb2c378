"""A plugin written for an earlier version is refused when it is defined: nothing would call what it defines."""

import pytest
from mistakes.bases import Labels

from ele_core.errors import PluginError


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
