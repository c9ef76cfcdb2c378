"""Hints that install an extra from where ELE, or a plugin, was installed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ele_core import extras


class Distribution:
    """An installed distribution, with what pip kept of its origin."""

    def __init__(self, kept: str | None) -> None:
        self.kept = kept

    def read_text(self, name: str) -> str | None:
        assert name == "direct_url.json"
        return self.kept


def installed_from(monkeypatch: pytest.MonkeyPatch, origin: object) -> None:
    kept = origin if origin is None or isinstance(origin, str) else json.dumps(origin)
    monkeypatch.setattr(extras, "distribution", lambda _name: Distribution(kept))


def test_in_a_clone_an_extra_is_installed_from_there(monkeypatch, tmp_path):
    installed_from(monkeypatch, {"url": tmp_path.as_uri(), "dir_info": {}})
    assert extras.pip_install("molecules") == f"pip install '{tmp_path}[molecules]'"
    monkeypatch.chdir(tmp_path)
    assert extras.how_to_install("molecules") == "Install it with: pip install '.[molecules]'"
    installed_from(monkeypatch, {"url": tmp_path.as_uri(), "dir_info": {"editable": True}})
    assert extras.pip_install("molecules") == "pip install -e '.[molecules]'"


def test_from_a_wheel_an_extra_is_installed_with_the_same_wheel(monkeypatch, tmp_path):
    wheel = Path(tmp_path / "ele.whl")
    wheel.touch()
    installed_from(monkeypatch, {"url": wheel.as_uri(), "archive_info": {}})
    assert extras.pip_install("qm9") == f"pip install 'explicit-loss-embedding[qm9] @ {wheel.as_uri()}'"
    wheel.unlink()
    assert extras.pip_install("qm9") == "pip install 'explicit-loss-embedding[qm9]'"


@pytest.mark.parametrize("origin", [None, "no JSON", "[]", {"url": "https://example.org/ele.whl"}])
def test_otherwise_an_extra_is_installed_by_name(monkeypatch, origin):
    installed_from(monkeypatch, origin)
    assert extras.pip_install("x", "ele-mine") == "pip install 'ele-mine[x]'"


def test_a_distribution_that_is_not_installed_is_installed_by_name():
    assert extras.pip_install("x", "no-such-distribution") == "pip install 'no-such-distribution[x]'"
