"""Plugins from fake installed distributions: good ones work, and each kind of broken one is told apart and named."""

from __future__ import annotations

import inspect
import json
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
from fakes import GOOD, CorePlugin, FakeDecoder, Site, fake_registry, stub

import ele_core.plugin
from ele_core.component import ComponentConfig
from ele_core.errors import ConfigError, PluginError, UnknownComponent
from ele_core.interfaces import Decoder
from ele_core.plugins import HOOKS, Record, Registry, hookimpl, hookspecs
from ele_core.plugins.loader import collect
from ele_core.types import Choice


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    monkeypatch.syspath_prepend(tmp_path)
    site = Site(tmp_path)
    yield site
    site.close()


def module_of(source: str, name: str = "notebook") -> ModuleType:
    module = ModuleType(name)
    exec(source, module.__dict__)
    return module


# -- loading ------------------------------------------------------------------------------------------------------


def test_good_plugin_keeps_its_distribution_and_version(site: Site) -> None:
    site.install("good-dist", GOOD, version="2.3", plugin="good")
    plugin = site.plugin("good")
    assert (plugin.distribution, plugin.version, plugin.status, plugin.installed) == ("good-dist", "2.3", "ok", True)
    assert site.registry().get("decoder", "good") is FakeDecoder
    assert site.registry().provider("decoder", "good") == plugin
    assert str(plugin) == "good (good-dist 2.3)"


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("import not_installed_anywhere", "ModuleNotFoundError: No module named 'not_installed_anywhere'"),
        ("raise SystemExit(3)", "SystemExit: 3"),
        ("def broken(:", "SyntaxError: invalid syntax"),
        (GOOD.replace("ele_decoders", "ele_decoder"), "no hook called 'ele_decoder'; did you mean 'ele_decoders'?"),
        (GOOD.replace("ele_decoders", "something"), "no hook called 'something'; the hooks are ele_output_spaces"),
        (GOOD.replace("@hookimpl", ""), "'ele_decoders' is not marked as a hook; write @hookimpl above it"),
        ("value = 1", "it has no hooks; mark its functions with @hookimpl"),
        (GOOD.replace("ele_decoders()", "ele_decoders(extra)"), "PluginValidationError"),
        (
            GOOD.replace("Record(", "dict(name=").replace('"fakes', 'x="fakes').replace('"Does', 'y="Does'),
            "not {'name'",
        ),
        (GOOD.replace("yield", "return"), "ele_decoders should yield `Record(name, target, summary)`, not Record("),
        (GOOD.replace("yield", "return 3 #"), "ele_decoders should yield `Record(name, target, summary)`, not 3"),
        (GOOD.replace("fakes:", "fakes."), "the target of 'good' should be a class or 'package.module:Class'"),
        (GOOD.replace('"good"', '""'), "a record's name should be a word, not ''"),
        (GOOD.replace("nothing.", "nothing.\\n"), "the summary of 'good' should be one line"),
        (GOOD + '    yield Record("good", "fakes:PlainDecoder")', "ele_decoders yields 'good' 2 times"),
        (GOOD + "    raise ValueError('half way')", "ValueError: half way"),
    ],
)
def test_broken_plugin_is_named_with_its_reason_and_harms_no_other(site: Site, source: str, reason: str) -> None:
    site.install("broken-dist", source, version="0.1", plugin="broken")
    site.install("good-dist", GOOD.replace('"good"', '"sound"'))
    broken = site.plugin("broken")
    assert broken.status == "failed"
    assert reason in broken.reason
    assert "\n" not in broken.reason
    assert broken.records == {}
    assert site.registry().names("decoder") == ["sound"]


def test_two_plugins_of_one_name_are_both_refused_naming_both(site: Site) -> None:
    site.install("first", GOOD, version="1.1", plugin="same")
    site.install("second", GOOD, version="2.2", plugin="same")
    site.install("third", GOOD.replace('"good"', '"other"'))
    refused = [plugin for plugin in site.plugins() if plugin.name == "same"]
    assert [plugin.status for plugin in refused] == ["failed", "failed"]
    assert all("first 1.1 and second 2.2 both bring a plugin called 'same'" in plugin.reason for plugin in refused)
    assert site.registry().names("decoder") == ["other"]


def test_of_two_plugins_of_one_name_one_can_be_disabled_by_distribution(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    site.install("first", GOOD, plugin="same")
    site.install("second", GOOD, plugin="same")
    monkeypatch.setenv("ELE_DISABLED_PLUGINS", "second")
    assert {plugin.distribution: plugin.status for plugin in site.plugins()} == {"first": "ok", "second": "disabled"}


def test_a_plugin_of_ele_itself_keeps_its_name(site: Site) -> None:
    site.install("explicit-loss-embedding", GOOD, plugin="core", version="9")
    site.install("intruder", GOOD, plugin="core")
    assert {plugin.distribution: plugin.status for plugin in site.plugins()} == {
        "explicit-loss-embedding": "ok",
        "intruder": "failed",
    }


def test_disabled_plugins_are_not_imported(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    site.install("broken", "raise RuntimeError")
    site.install("good", GOOD)
    monkeypatch.setenv("ELE_DISABLED_PLUGINS", "broken, good")
    assert [plugin.status for plugin in site.plugins()] == ["disabled", "disabled"]
    assert not {"broken_plugin", "good_plugin"} & set(sys.modules)
    with pytest.raises(UnknownComponent, match=r"Disabled by ELE_DISABLED_PLUGINS: broken \(broken 1.0\), good"):
        site.registry().get("decoder", "good")


# -- finding ------------------------------------------------------------------------------------------------------


def test_a_component_that_two_plugins_bring_is_refused_naming_both_and_the_rest_works(site: Site) -> None:
    site.install("first", GOOD + '    yield Record("one", "fakes:FakeDecoder")', version="1.1")
    site.install("second", GOOD + '    yield Record("two", "fakes:FakeDecoder")', version="2.2")
    registry = site.registry()
    with pytest.raises(PluginError) as error:
        registry.get("decoder", "good")
    assert str(error.value) == (
        "the decoder 'good' is brought by first (first 1.1) and by second (second 2.2); "
        "choose one: first:good or second:good."
    )
    assert registry.get("decoder", "one") is registry.get("decoder", "two") is FakeDecoder
    assert registry.export()["clashes"] == [
        {"kind": "decoder", "name": "good", "plugins": ["first (first 1.1)", "second (second 2.2)"], "used": None}
    ]


def test_unknown_name_says_all_there_is_to_say_in_one_paragraph(site: Site) -> None:
    site.install("broken-dist", "import missing_thing", version="0.1", plugin="broken")
    site.install("good-dist", GOOD + '    yield Record("pgd", "fakes:FakeDecoder")')
    with pytest.raises(UnknownComponent) as error:
        site.registry().get("decoder", "pdg")
    assert str(error.value) == (
        "no decoder is called 'pdg'; did you mean 'pgd'? Installed decoders: good, pgd. Plugins that failed to load: "
        "broken (broken-dist 0.1): ModuleNotFoundError: No module named 'missing_thing'. "
        "Run `ele plugins` to see what is installed."
    )


def test_unknown_name_without_a_close_one(site: Site) -> None:
    with pytest.raises(UnknownComponent, match=r"no task is called 'x'\. Installed tasks: none\. Run `ele plugins`"):
        site.registry().record("task", "x")


def test_unknown_name_that_another_kind_has() -> None:
    with pytest.raises(UnknownComponent, match="'deep' is the name of another kind: encoder"):
        fake_registry().get("decoder", "deep")


def test_name_of_no_kind_at_all() -> None:
    with pytest.raises(UnknownComponent, match=r"no component is called 'dep'; did you mean 'deep'\? Run"):
        fake_registry().unknown("dep")


@pytest.mark.parametrize(
    ("target", "complaint"),
    [
        ("no_such_module:Class", "cannot import no_such_module:Class: ModuleNotFoundError"),
        ("fakes:NoSuchClass", "cannot import fakes:NoSuchClass: AttributeError"),
        ("fakes:FakeEncoder", "fakes:FakeEncoder should be a subclass of ele_core.Decoder"),
        ("fakes:GOOD", "fakes:GOOD should be a subclass of ele_core.Decoder"),
        ("ele_core.interfaces:Decoder", "does not define decode"),
    ],
)
def test_unfit_target_names_the_plugin_and_what_was_expected(site: Site, target: str, complaint: str) -> None:
    site.install("odd-dist", GOOD.replace("fakes:FakeDecoder", target), plugin="odd")
    with pytest.raises(PluginError) as error:
        site.registry().get("decoder", "good")
    assert str(error.value).startswith("plugin odd (odd-dist 1.0), decoder 'good': ")
    assert complaint in str(error.value)


class NamedConfig(ComponentConfig):
    """Options that clash with the word for the component itself."""

    name: str = ""


@pytest.mark.parametrize(
    ("config", "complaint"),
    [(dict, "a Config that does not derive from"), (NamedConfig, "an option called 'name'")],
)
def test_config_that_could_not_be_checked_is_refused(config: type, complaint: str) -> None:
    registry = Registry()
    registry.register(plugin_with(stub(Decoder, Config=config)))
    with pytest.raises(PluginError, match=complaint):
        registry.get("decoder", "mine")


# -- creating -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("choice", [Choice(name="fake", steps=5), {"name": "fake", "steps": 5}])
def test_create_builds_the_component_from_its_checked_options(choice: Choice | dict[str, object]) -> None:
    decoder = fake_registry().create("decoder", choice)
    assert isinstance(decoder, FakeDecoder)
    assert decoder.config == FakeDecoder.Config(steps=5)


def test_create_takes_a_bare_name() -> None:
    assert fake_registry().create("decoder", "fake").config.steps == 100


def test_create_reports_options_with_their_path() -> None:
    with pytest.raises(ConfigError, match=r"^first\.step: unknown option; did you mean 'steps'\?$"):
        fake_registry().create("decoder", {"name": "fake", "step": 5}, path="first")
    with pytest.raises(UnknownComponent):
        fake_registry().create("decoder", "fka")
    with pytest.raises(ConfigError, match="decoder: should be a name or a table with a name"):
        fake_registry().create("decoder", {"steps": 5})


# -- registering by hand ------------------------------------------------------------------------------------------


def plugin_with(decoder: type) -> object:
    class Plugin:
        @hookimpl
        def ele_decoders(self) -> list[Record]:
            return [Record("mine", decoder)]

    return Plugin()


def test_running_a_notebook_cell_again_replaces_what_it_registered() -> None:
    registry = fake_registry()
    first, second = stub(Decoder), stub(Decoder)
    registry.register(plugin_with(first))
    added = registry.register(plugin_with(second))
    assert registry.get("decoder", "mine") is second
    assert not added.installed
    assert [plugin.name for plugin in registry.plugins()] == ["core", "Plugin"]


def test_a_module_registers_under_its_own_name() -> None:
    registry = Registry()
    assert registry.register(module_of(GOOD)).name == "notebook"
    assert registry.get("decoder", "good") is FakeDecoder


def test_registering_what_is_wrong_raises_at_once_and_changes_nothing() -> None:
    registry = fake_registry()
    with pytest.raises(PluginError, match="plugin notebook: there is no hook called 'ele_decoder'"):
        registry.register(module_of(GOOD.replace("ele_decoders", "ele_decoder")))
    taken = GOOD.replace('"good"', '"fake"')
    with pytest.raises(PluginError, match=r"the decoder 'fake' is already brought by core \(registered by hand\)"):
        registry.register(module_of(taken))
    assert [plugin.name for plugin in registry.plugins()] == ["core"]


# -- the hooks and the built-in plugin ----------------------------------------------------------------------------


@pytest.mark.parametrize("kind", HOOKS)
def test_the_example_in_each_hooks_docstring_runs(kind: str) -> None:
    documentation = inspect.getdoc(getattr(hookspecs, HOOKS[kind].name))
    _, _, example = documentation.partition(".. code-block:: python\n")
    records = collect(module_of(textwrap.dedent(example)))
    assert list(records) == [kind]


def test_the_built_in_plugin_yields_records_of_import_strings() -> None:
    records = collect(ele_core.plugin)
    assert [record.name for record in records["decoder"]] == ["candidates", "pgd", "search"]
    assert all(isinstance(record.target, str) and record.summary for each in records.values() for record in each)


def test_listing_plugins_imports_nothing_heavy() -> None:
    code = "import sys, ele_core.plugin; assert not {'torch', 'numpy', 'pydantic'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_plugins_export_as_json(site: Site) -> None:
    site.install("good-dist", GOOD, plugin="good")
    exported = json.loads(json.dumps(site.registry().export()))
    assert exported["plugins"][0].pop("seconds") >= 0
    assert exported["plugins"] == [
        {
            "name": "good",
            "distribution": "good-dist",
            "version": "1.0",
            "status": "ok",
            "reason": "",
            "details": "",
            "records": [
                {
                    "kind": "decoder",
                    "name": "good",
                    "target": "fakes:FakeDecoder",
                    "summary": "Does nothing.",
                    "unavailable": "",
                }
            ],
        }
    ]
    registry = Registry()
    registry.register(CorePlugin())
    assert registry.export()["plugins"][0]["records"][0]["target"] == "fakes:FakeOutput"
