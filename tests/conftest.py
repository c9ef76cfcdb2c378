"""Fixtures that many tests share: tiny settings, and one small model that is trained once."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import settings as hypothesis_settings

torch.set_num_threads(1)  # the tensors are tiny, and tests may run in parallel
hypothesis_settings.register_profile("ele", deadline=None)  # slow examples on a busy machine are not failures
hypothesis_settings.load_profile("ele")

TINY: dict[str, Any] = {
    "surrogate": {
        "name": "contrastive",
        "dim": 8,
        "spherical": True,
        "encoder": {"name": "sequence", "width": 8, "layers": 1},
        "training": {"epochs": 20, "batch_size": 64, "evaluations": 3, "learning_rate": 0.01},
    },
    "regressor": {
        "name": "neural",
        "backbone": {"name": "gru", "embedding": 8, "layers": 1, "width": 8},
        "training": {"epochs": 2, "batch_size": 32, "evaluations": 2},
    },
}
"""Sections of a configuration that trains in a second, and learns little."""

Pairs = tuple[list[str], list[str]]


@pytest.fixture(scope="session")
def tiny() -> dict[str, Any]:
    """Sections of a configuration that trains in a second."""
    return TINY


@pytest.fixture(scope="session")
def pairs() -> Pairs:
    """Number words and their digits, all different."""
    from ele_sequences.number_words import draw, spell

    numbers = draw(120, seed=0)
    return [spell(number) for number in numbers], [str(number) for number in numbers]


@pytest.fixture(scope="session")
def predictor(tiny: dict[str, Any], pairs: Pairs) -> Any:
    """A predictor fitted on `pairs`. Shared: do not fit it again."""
    from ele_core import StructuredPredictor

    return StructuredPredictor("sequence", **tiny, decoder="candidates").fit(*pairs, validation=20)


@pytest.fixture(scope="session")
def settings(tiny: dict[str, Any]) -> list[str]:
    """`tiny` as options of `ele train`, with a small data set."""
    return ["--set", "task.size=200", "--set", "task.validation=20", "--set", "task.test=20", *overrides(tiny)]


def overrides(sections: Mapping[str, Any], path: str = "") -> list[str]:
    """Convert nested options to `--set a.b=c`."""
    found: list[str] = []
    for name, value in sections.items():
        here = f"{path}.{name}" if path else name
        spelled = str(value).lower() if isinstance(value, bool) else value
        found += overrides(value, here) if isinstance(value, Mapping) else ["--set", f"{here}={spelled}"]
    return found


@pytest.fixture(scope="session")
def trained_run(settings: list[str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a finished run of number-words. Shared: copy it before changing it."""
    from click.testing import CliRunner

    from ele_core.cli import cli

    folder = tmp_path_factory.mktemp("trained") / "run"
    command = ["train", "number-words", "-o", str(folder), "--no-report", *settings]
    result = CliRunner().invoke(cli, command, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return folder


@pytest.fixture
def run_python(tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """`run_python("-m", "ele_core", …)`: run this Python in a separate process, in an empty folder."""

    def run(
        *arguments: str, stdin: str = "", environment: Mapping[str, str] | None = None, check: bool = True
    ) -> subprocess.CompletedProcess[str]:
        result = subprocess.run(
            [sys.executable, *arguments],
            input=stdin,
            cwd=tmp_path,
            env={**os.environ, "OMP_NUM_THREADS": "1", **(environment or {})},
            capture_output=True,
            text=True,
            check=False,
        )
        if check:
            assert result.returncode == 0, result.stderr
        return result

    return run
