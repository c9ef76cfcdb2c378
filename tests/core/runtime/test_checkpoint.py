"""What a checkpoint says about the work in it; that it survives is tested in tests/integration."""

from __future__ import annotations

from pathlib import Path

import torch

from ele_core.runtime.checkpoint import Checkpoints
from ele_core.runtime.work import Snapshot


def loaded(folder: Path) -> Checkpoints:
    work = Checkpoints(folder, advice="")
    assert work.load()
    return work


def test_a_checkpoint_names_the_work_that_goes_on(tmp_path: Path) -> None:
    state = Snapshot({"weights": torch.zeros(2)}, {"step": 3})
    work = Checkpoints(tmp_path / "checkpoints", advice="", every=0)
    work.finish("embedding", lambda: state)
    assert loaded(tmp_path / "checkpoints").current == "embedding"
    work.step("regression", lambda: state)
    again = loaded(tmp_path / "checkpoints")
    assert (again.number, again.current) == (2, "regression")
