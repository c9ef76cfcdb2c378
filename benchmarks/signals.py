"""What reading vectors as signals brings: the defaults on simulated tones, with the input space `signal` and `vector`.

    python benchmarks/signals.py [--pairs N] [--seed N] [--folder FOLDER]

An input is a series of 256 numbers: three to eight notes of five pitches, 16 to 32 numbers each, of random phases, then
silence, all with noise. The output is the notes in their order. Both are trained with `ele train` and the same seed;
the share of exact answers on the held-out pairs is printed.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

PITCHES = dict(zip("ABCDE", (0.05, 0.08, 0.12, 0.17, 0.23), strict=True))
"""Waves per number, of each note."""
LENGTH, NOISE = 256, 0.3


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--folder", type=Path, help="where to train [default: a temporary folder]")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = given.folder or Path(temporary)
        folder.mkdir(exist_ok=True)
        np.savez(folder / "tones.npz", **tones(given.pairs, given.seed))
        for space in ("signal", "vector"):
            print(f"{space}: exact {measured(folder, space, given.seed):.3f}")


def tones(count: int, seed: int) -> dict[str, np.ndarray]:
    """Signals (N, LENGTH), and their notes."""
    random, signals, notes = np.random.default_rng(seed), [], []
    for _ in range(count):
        melody = "".join(random.choice(list(PITCHES), random.integers(3, 9)))
        parts = [
            np.sin(2 * np.pi * PITCHES[note] * np.arange(random.integers(16, 33)) + random.uniform(0, 6.28))
            for note in melody
        ]
        wave = np.concatenate(parts)
        wave = np.pad(wave, (0, LENGTH - len(wave)))
        signals.append((wave + NOISE * random.standard_normal(LENGTH)).astype(np.float32))
        notes.append(melody)
    return {"signal": np.stack(signals), "notes": np.array(notes)}


def measured(folder: Path, space: str, seed: int) -> float:
    """The share of held-out pairs that a default training gets right with an input space."""
    run, file = folder / space, folder / "tones.npz"
    columns = ["--input", "signal", "--output", "notes", "--seed", str(seed)]
    ele("train", str(file), *columns, "--set", f"input={space}", "--no-report", "-o", str(run))
    return float(json.loads(ele("evaluate", str(run), "--json"))["exact"])


def ele(*arguments: str) -> str:
    """What a command prints."""
    return subprocess.run(
        [sys.executable, "-m", "ele_core", *arguments], check=True, stdout=subprocess.PIPE, text=True
    ).stdout


if __name__ == "__main__":
    main()
