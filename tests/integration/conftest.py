"""The small run that these tests kill, stop and resume; trained once undisturbed, to compare with."""

from __future__ import annotations

from pathlib import Path

import pytest
from commands import CONFIG, here


@pytest.fixture(scope="session")
def config(tmp_path_factory) -> Path:
    file = tmp_path_factory.mktemp("config") / "run.toml"
    file.write_text(CONFIG)
    return file


@pytest.fixture(scope="session")
def undisturbed(config) -> Path:
    """The run that was never stopped, and that kept no state before its end. Copy it to change it."""
    folder = config.parent / "undisturbed"
    done = here("train", config, "-o", folder)
    assert done.returncode == 0, done.stderr
    return folder
