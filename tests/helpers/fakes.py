"""Fake installed distributions, and small components for tests of plugins and configurations."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, Field

from ele_core.component import ComponentConfig
from ele_core.interfaces import Decoder, Encoder, InputSpace, OutputSpace, Regressor, Surrogate
from ele_core.plugins import PluginInfo, Record, Registry, hookimpl
from ele_core.plugins.loader import load_installed
from ele_core.sources import Task
from ele_core.types import Choice, Takes

HEADER = "from ele_core.plugins import Record, hookimpl\n"

GOOD = (
    HEADER
    + """
@hookimpl
def ele_decoders():
    yield Record("good", "fakes:FakeDecoder", "Does nothing.")
"""
)


class Site:
    """A folder on sys.path into which distributions are installed as pip would."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.distributions: list[str] = []
        self.modules: list[str] = []

    def install(self, distribution: str, source: str, *, version: str = "1.0", plugin: str | None = None) -> None:
        """Install a distribution with one module, of code `source`, declared as the plugin `plugin`."""
        module = distribution.replace("-", "_") + "_plugin"
        (self.folder / f"{module}.py").write_text(source)
        info = self.folder / f"{distribution.replace('-', '_')}-{version}.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {distribution}\nVersion: {version}\n")
        (info / "entry_points.txt").write_text(f"[ele]\n{plugin or distribution} = {module}\n")
        self.distributions.append(distribution)
        self.modules.append(module)

    def plugins(self) -> list[PluginInfo]:
        """The fakes as the loader finds them, without other installed plugins."""
        return [plugin for plugin in load_installed() if plugin.distribution in self.distributions]

    def plugin(self, name: str) -> PluginInfo:
        """The plugin `name`."""
        (found,) = [plugin for plugin in self.plugins() if plugin.name == name]
        return found

    def registry(self) -> Registry:
        """A registry of the fakes alone."""
        return Registry(self.plugins())

    def close(self) -> None:
        """Unload the modules, so that the next test may reuse their names."""
        for module in self.modules:
            sys.modules.pop(module, None)


def stub(base: type, **members: Any) -> type:
    """A class that defines all abstract methods of its base, returning None."""
    missing = {name: lambda *_, **__: None for name in getattr(base, "__abstractmethods__", ())}
    return type(f"Stub{base.__name__}", (base,), {**missing, **members})


class Training(BaseModel):
    """A table of options inside a component, as a plain pydantic model."""

    epochs: int = 10
    rates: list[float] = [0.1]
    patience: int | None = 3


class FakeDecoder(stub(Decoder)):  # type: ignore[misc]
    """A decoder with options of several types."""

    class Config(ComponentConfig):
        """Its options."""

        steps: int = Field(default=100, gt=0)
        """How many steps."""
        start: str | int = "best"
        limit: int | None = None


class PlainDecoder(stub(Decoder)):  # type: ignore[misc]
    """A decoder without options."""


class FakeEncoder(stub(Encoder)):  # type: ignore[misc]
    """An encoder with a width."""

    class Config(ComponentConfig):
        """Its options."""

        width: int = 64


class DeepEncoder(stub(Encoder)):  # type: ignore[misc]
    """An encoder with a depth."""

    class Config(ComponentConfig):
        """Its options."""

        depth: int = 2


class FakeSurrogate(stub(Surrogate)):  # type: ignore[misc]
    """A surrogate that chooses an encoder, and perhaps a second one."""

    class Config(ComponentConfig):
        """Its options."""

        dim: int = 32
        encoder: Annotated[Choice, Takes("encoder")] = Choice(name="wide", width=128)
        second: Annotated[Choice, Takes("encoder")] | None = None
        training: Training = Training(epochs=20)


class FakeOutput(stub(OutputSpace)):  # type: ignore[misc]
    """A space whose labels come from data."""

    class Config(ComponentConfig):
        """Its options."""

        labels: list[str]
        size: int = 9
        limit: int | None = 5


class FakeTask(stub(Task)):  # type: ignore[misc]
    """A task with options in two levels."""

    class Config(ComponentConfig):
        """Its options."""

        rows: int = 1000

    @classmethod
    def defaults(cls) -> dict[str, Any]:
        """A configuration that differs from every default."""
        return {
            "output": {"name": "labels", "labels": ["a", "b"]},
            "surrogate": {"name": "fake", "dim": 8, "encoder": {"name": "deep", "depth": 5}},
            "decoder": {"name": "fake", "steps": 7},
        }


class CorePlugin:
    """The fakes above under the names that recipes use, and others."""

    @hookimpl
    def ele_decoders(self) -> Any:
        yield Record("fake", FakeDecoder)
        yield Record("candidates", PlainDecoder)
        yield Record("search", PlainDecoder)

    @hookimpl
    def ele_encoders(self) -> Any:
        return [Record("wide", FakeEncoder), Record("deep", DeepEncoder)]

    @hookimpl
    def ele_surrogates(self) -> Any:
        return [Record(name, FakeSurrogate) for name in ("contrastive", "fake", "parts")]

    @hookimpl
    def ele_regressors(self) -> Any:
        return [Record("neural", stub(Regressor)), Record("joint", stub(Regressor))]

    @hookimpl
    def ele_input_spaces(self) -> Any:
        return [Record("text", stub(InputSpace))]

    @hookimpl
    def ele_output_spaces(self) -> Any:
        return [Record("labels", FakeOutput)]

    @hookimpl
    def ele_tasks(self) -> Any:
        return [Record("number-words", FakeTask)]


def fake_registry() -> Registry:
    """A registry of the fakes above."""
    registry = Registry()
    registry.register(CorePlugin(), "core")
    return registry
