"""Plugins that clash, print, exit, interrupt or fail: the others work, and the one at fault is named."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest
import torch
from click.testing import CliRunner
from fakes import GOOD, FakeDecoder, Site, fake_registry, stub
from mistakes.bases import Labels

import ele_core.cli
from ele_core.cli.plugins import plugins as plugins_command
from ele_core.errors import ConfigError, PluginError, UnknownComponent
from ele_core.experiments.sweep import installed_lines
from ele_core.interfaces import Decoder, Encoder, InputSpace, OutputSpace, Regressor, Surrogate
from ele_core.networks import Backbone
from ele_core.plugins import Record, Registry, hookimpl
from ele_core.plugins.contained import blamed, contained, noted, remember
from ele_core.sources import Task
from ele_core.testing.common import section_of
from ele_core.types import Variant

OURS = "explicit-loss-embedding"


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    monkeypatch.syspath_prepend(tmp_path)
    site = Site(tmp_path)
    yield site
    site.close()


def listing(registry: Registry, *arguments: str) -> str:
    return CliRunner().invoke(plugins_command, arguments, obj=registry, catch_exceptions=False).output


# -- names that two plugins bring ---------------------------------------------------------------------------------


def test_a_component_of_ele_itself_keeps_its_name_and_the_other_is_chosen_by_its_plugin(site: Site) -> None:
    site.install(OURS, GOOD, plugin="core")
    site.install("intruder", GOOD.replace("FakeDecoder", "PlainDecoder"), version="3.1")
    registry = site.registry()
    assert registry.get("decoder", "good") is FakeDecoder
    assert registry.get("decoder", "core:good") is FakeDecoder
    assert registry.get("decoder", "intruder:good").__name__ == "PlainDecoder"
    assert registry.names("decoder") == ["good", "intruder:good"]
    assert registry.create("decoder", {"name": "core:good", "steps": 7}).config.steps == 7
    clash = "The decoder 'good' is brought by core (explicit-loss-embedding 1.0) and by intruder (intruder 3.1); "
    assert f"{clash}'good' is that of core (explicit-loss-embedding 1.0), the other is chosen by intruder:good." in (
        listing(registry)
    )


def test_the_checks_call_a_component_with_a_name_of_ours_by_its_plugin(site: Site) -> None:
    site.install(OURS, GOOD, plugin="core")
    site.install("intruder", GOOD.replace("FakeDecoder", "PlainDecoder"))
    registry = site.registry()
    names = {name: section_of(registry.create("decoder", name))["name"] for name in registry.names("decoder")}
    assert names == {"good": "good", "intruder:good": "intruder:good"}


def test_of_two_other_plugins_each_is_chosen_by_its_own_name(site: Site) -> None:
    site.install("first", GOOD)
    site.install("second", GOOD.replace("FakeDecoder", "PlainDecoder"))
    registry = site.registry()
    assert registry.names("decoder") == ["first:good", "second:good"]
    assert registry.get("decoder", "first:good") is FakeDecoder
    with pytest.raises(PluginError, match=r"choose one: first:good or second:good\.$"):
        registry.get("decoder", "good")
    with pytest.raises(UnknownComponent, match=r"no decoder is called 'third:good'.*first:good, second:good"):
        registry.get("decoder", "third:good")
    assert "choose one: first:good or second:good." in listing(registry)
    assert "decoder first:good: Does nothing." in listing(registry, "good")


def test_variants_of_a_decoder_with_a_name_of_ours_have_names_of_their_own() -> None:
    def plugin(name: str, distribution: str) -> Any:
        from ele_core.plugins.records import PluginInfo

        varied = stub(Decoder, variants=(Variant("fast"), Variant("slow")))
        return PluginInfo(name, distribution, "1.0", records={"decoder": (Record("same", varied),)})

    registry = Registry([plugin("core", OURS), plugin("mine", "mine-dist")])
    assert list(installed_lines(registry)) == ["mine:fast", "mine:slow", "fast", "slow"]


def test_a_component_that_cannot_be_imported_is_left_out_of_what_can_be_used(site: Site) -> None:
    site.install("broken", GOOD.replace("fakes:", "not_there:"))
    site.install("sound", GOOD.replace('"good"', '"sound"'))
    assert list(site.registry().usable("decoder")) == ["sound"]


# -- imports that print, exit and interrupt -----------------------------------------------------------------------


def test_what_a_plugin_prints_at_import_goes_to_standard_error(site: Site, capsys: pytest.CaptureFixture[str]) -> None:
    site.install("loud", "print('the plugin')\n" + GOOD.replace("fakes:FakeDecoder", "loud_parts:Loud"))
    (site.folder / "loud_parts.py").write_text("print('the class')\nfrom fakes import FakeDecoder as Loud\n")
    site.modules.append("loud_parts")
    site.registry().get("decoder", "good")
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err == "the plugin\nthe class\n"


@pytest.mark.parametrize("raised", ["KeyboardInterrupt", "SystemExit('bye')", "GeneratorExit", "BaseException('odd')"])
def test_a_plugin_that_ends_the_process_at_import_only_fails(site: Site, raised: str) -> None:
    site.install("ending", f"raise {raised}")
    site.install("sound", GOOD)
    site.install("late", GOOD.replace('"good"', '"late"').replace("fakes:", "late_parts:"))
    (site.folder / "late_parts.py").write_text(f"raise {raised}")
    registry = site.registry()
    failed = site.plugin("ending")
    assert failed.status == "failed"
    assert failed.reason.startswith(raised.partition("(")[0])
    assert registry.get("decoder", "good") is FakeDecoder
    with pytest.raises(PluginError, match=f"cannot import late_parts:FakeDecoder: {raised.partition('(')[0]}"):
        registry.get("decoder", "late")


def test_an_interrupt_of_the_user_while_a_plugin_is_imported_stops() -> None:
    with pytest.raises(KeyboardInterrupt), contained():
        signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_plugin_cannot_take_the_signal_handler_or_standard_output(
    site: Site, capsys: pytest.CaptureFixture[str]
) -> None:
    site.install("greedy", "import signal, sys\nsignal.signal(2, signal.SIG_IGN)\nsys.stdout = None\n" + GOOD)
    assert site.plugin("greedy").status == "ok"
    print("still here")
    assert capsys.readouterr().out == "still here\n"
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


# -- what `ele plugins` says --------------------------------------------------------------------------------------


def test_the_list_says_how_long_each_import_took_and_where_it_failed(site: Site) -> None:
    site.install("broken", "def load():\n    raise ValueError('first line\\nsecond line')\nload()\n")
    site.install("sound", GOOD)
    registry = site.registry()
    shown = listing(registry)
    assert "broken (broken 1.0): failed, imported in 0.0" in shown
    assert "sound (sound 1.0): ok, imported in 0.0" in shown
    assert 'broken_plugin.py", line 3, in <module>' in shown
    assert "ValueError: first line\n" in shown
    assert "second line" in shown
    assert "importlib" not in shown
    (failed, sound) = registry.export()["plugins"]
    assert "second line" in failed["details"]
    assert sound["details"] == ""
    assert sound["seconds"] >= 0


# -- errors at use ------------------------------------------------------------------------------------------------


class Failing(stub(Decoder)):  # type: ignore[misc]  # made at run time
    """A decoder whose own code fails, in a function below a method."""

    def decode(self, *_: object) -> Any:
        return deep_below()

    @classmethod
    def prepared(cls) -> None:
        deep_below()


def deep_below() -> None:
    raise ZeroDivisionError("no weights.\nmore")


class FailingPlugin:
    """Brings the failing decoder."""

    @hookimpl
    def ele_decoders(self) -> list[Record]:
        return [Record("failing", Failing, "Fails.")]


@pytest.fixture
def failing() -> Decoder:
    registry = fake_registry()
    registry.register(FailingPlugin(), "colours")
    decoder: Decoder = registry.create("decoder", "failing")
    return decoder


WHERE = "plugin colours (registered by hand), decoder 'failing'"


def test_an_error_in_a_component_names_plugin_version_and_component(failing: Any) -> None:
    for call in (failing.decode, type(failing).prepared):
        with pytest.raises(PluginError) as caught, blamed():
            call()
        assert str(caught.value).startswith(f"{WHERE}: ZeroDivisionError: no weights. This is a mistake in the plugin")


def test_from_python_the_error_stays_what_it_is_with_a_note(failing: Any) -> None:
    with pytest.raises(ZeroDivisionError) as caught, noted(), noted():
        failing.decode()
    assert caught.value.__notes__ == [f"Raised in {WHERE}."]


def test_an_error_outside_of_plugins_and_one_on_purpose_stay_as_they_are() -> None:
    with pytest.raises(ZeroDivisionError), blamed():
        deep_below()
    with pytest.raises(ConfigError, match=r"^on purpose$"), blamed(), noted():
        raise ConfigError("on purpose")


def test_the_command_line_prints_it_as_one_sentence(
    failing: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(ele_core.cli, "cli", lambda **_: failing.decode())
    with pytest.raises(SystemExit) as ended:
        ele_core.cli.run()
    assert ended.value.code == 1
    assert capsys.readouterr().err.startswith(f"Error: {WHERE}: ZeroDivisionError: no weights. ")


class Rude(stub(Decoder)):  # type: ignore[misc]
    """A decoder that prints, and one that ends the process."""

    def decode(self, *_: Any, **__: Any) -> Any:
        """Print."""
        print("debugging")

    def accepts(self, *_: Any) -> None:
        """End the process as if all were well."""
        sys.exit(0)


class RudePlugin:
    """Brings the rude decoder."""

    @hookimpl
    def ele_decoders(self) -> list[Record]:
        return [Record("rude", Rude)]


@pytest.fixture
def rude() -> Decoder:
    registry = fake_registry()
    registry.register(RudePlugin(), "colours")
    decoder: Decoder = registry.create("decoder", "rude")
    return decoder


def test_a_component_that_exits_is_an_error_and_no_success(
    rude: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(ele_core.cli, "cli", lambda **_: rude.accepts())
    with pytest.raises(SystemExit) as ended:
        ele_core.cli.run()
    assert ended.value.code == 1
    said = "plugin colours (registered by hand), decoder 'rude': SystemExit: 0."
    assert capsys.readouterr().err.startswith(f"Error: {said}")
    with pytest.raises(PluginError, match="SystemExit: 0"), noted():
        rude.accepts()
    with pytest.raises(SystemExit), blamed(), noted():
        sys.exit(3)


def test_what_a_component_prints_is_no_part_of_the_output(
    rude: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def command(**_: Any) -> None:
        rude.decode()
        rude.decode()
        click.echo("a,b")

    monkeypatch.setattr(ele_core.cli, "cli", command)
    with pytest.raises(SystemExit) as ended:
        ele_core.cli.run()
    assert ended.value.code == 0
    found = capsys.readouterr()
    assert found.out == "a,b\n"
    assert found.err == "plugin colours (registered by hand), decoder 'rude' prints:\ndebugging\ndebugging\n"


def test_a_plugin_that_changes_the_type_of_all_numbers_fails_and_others_keep_theirs(site: Site) -> None:
    site.install("double", f"import torch; torch.set_default_dtype(torch.float64)\n{GOOD}")
    try:
        (info,) = site.registry().plugins()
        assert torch.get_default_dtype() == torch.float32
    finally:
        torch.set_default_dtype(torch.float32)
    assert info.status == "failed"
    assert info.reason.startswith("it sets torch's default type of numbers to float64, for all other code too;")


# -- an __init__ that does not fit --------------------------------------------------------------------------------

BASES = {
    "output": OutputSpace,
    "input": InputSpace,
    "encoder": Encoder,
    "backbone": Backbone,
    "surrogate": Surrogate,
    "regressor": Regressor,
    "decoder": Decoder,
    "task": Task,
}


@pytest.mark.parametrize("kind", BASES)
def test_a_component_that_could_not_be_created_is_refused_when_it_is_looked_up(kind: Any) -> None:
    def plain(self: Any) -> None:
        """Takes no configuration."""

    def greedy(self: Any, config: Any, a: Any, b: Any, c: Any) -> None:
        """Wants more than anybody gives."""

    def generous(self: Any, config: Any, *others: Any, more: int = 0) -> None:
        """Takes whatever is given."""

    from ele_core.plugins.records import PluginInfo

    for unfit in (plain, greedy):
        record = Record("mine", stub(BASES[kind], __init__=unfit))
        with pytest.raises(PluginError, match=r"has an __init__\(.*\) that cannot be called with \(config"):
            Registry([PluginInfo("mine", records={kind: (record,)})]).get(kind, "mine")
    fitting = Record("mine", stub(BASES[kind], __init__=generous))
    assert Registry([PluginInfo("mine", records={kind: (fitting,)})]).get(kind, "mine") is fitting.target


def test_it_is_refused_when_the_configuration_is_read() -> None:
    from ele_core.config.resolve import resolve

    def wrong(self: Any, config: Any, space: Any) -> None:
        """Wants a space that a decoder is not given."""

    class Plugin:
        @hookimpl
        def ele_decoders(self) -> list[Record]:
            return [Record("wrong", stub(Decoder, __init__=wrong))]

    registry = fake_registry()
    registry.register(Plugin(), "wrong")
    with pytest.raises(PluginError, match=r"__init__\(config, space\) that cannot be called with \(config\): missing"):
        resolve("decoder", "wrong", "decoder", registry)


def test_an_error_of_a_part_names_the_plugin_of_its_space() -> None:
    class Drawn(Labels):
        class Show(Labels.Show):
            def render(self, obj: Any, against: Any = None) -> Any:
                raise KeyError("ink")

    remember(Drawn, "plugin ele-ink 1.0, output space 'drawn'")
    with pytest.raises(PluginError, match="ele-ink"), blamed():
        Drawn(Drawn.Config(labels=("a", "b"))).show.render(["a"])
