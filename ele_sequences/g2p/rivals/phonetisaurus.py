"""Phonetisaurus: joint n-grams of letters and phonemes as a transducer (Novak et al. 2016), by its own programs."""

from __future__ import annotations

import dataclasses
import importlib.util
import os
import platform
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from torch import Tensor

from ele_core import ConfigError, Context, EleError, Prepared, Rival
from ele_sequences.g2p.rivals.words import Words, packed

EXTRA = "phonetisaurus"


@dataclasses.dataclass(frozen=True)
class Phonetisaurus(Rival):
    """Its own aligner, then an n-gram model of letters with their phonemes, searched by a transducer."""

    order: int = 8
    """The length of the longest n-grams."""
    beam: int = 500
    """The width of its search."""

    def predict(self, prepared: Prepared, rows: Tensor, context: Context) -> Any:
        """Train on the training pairs, and apply the model to the words at `rows`."""
        train, asked = Words.at(prepared, prepared.data.train), prepared.data.inputs_at(rows)
        with tempfile.TemporaryDirectory() as folder:
            return packed(prepared, self.answers(train, asked, Path(folder)))

    def answers(self, train: Words, asked: Sequence[str], folder: Path) -> list[list[str]]:
        """The phonemes of each word; none if it finds none."""
        lines = [f"{word}\t{' '.join(spoken)}\n" for word, spoken in zip(train.words, train.phonemes, strict=True)]
        (folder / "lexicon").write_text("".join(lines), encoding="utf-8")
        (folder / "words").write_text("".join(f"{word}\n" for word in dict.fromkeys(asked)), encoding="utf-8")
        run(["phonetisaurus-train", "--lexicon", "lexicon", "--seq2_del", "--ngram_order", str(self.order)], folder)
        apply = ["phonetisaurus-apply", "--model", "train/model.fst", "--word_list", "words", "--beam", str(self.beam)]
        found: dict[str, list[str]] = {}
        for line in run(apply, folder).splitlines():
            word, *spoken = line.split()
            found.setdefault(word, spoken)
        return [found.get(word, []) for word in asked]


def run(command: Sequence[str], folder: Path) -> str:
    """The output of one of its programs."""
    specification = importlib.util.find_spec("phonetisaurus")
    homes = (specification.submodule_search_locations if specification else None) or []
    if not homes:
        what = "this row needs the package phonetisaurus, which is not installed."
        raise ConfigError(what, fix=f"pip install explicit-loss-embedding[{EXTRA}]")
    programs, libraries = (Path(homes[0]) / kind / platform.machine() for kind in ("bin", "lib"))
    paths = {"PATH": f"{programs}:{os.environ.get('PATH', '')}", "LD_LIBRARY_PATH": str(libraries)}
    done = subprocess.run(command, cwd=folder, env={**os.environ, **paths}, capture_output=True, text=True, check=False)
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise EleError(f"{command[0]} failed: {last}", fix="Run it by hand to see more.")
    return done.stdout
