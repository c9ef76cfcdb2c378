"""The size of an installation: packages and megabytes beyond torch and what torch itself requires.

    python benchmarks/install.py [--output FILE]

Makes two virtual environments in a temporary folder. Into the first it installs torch, then ELE without extras, then
ELE with every extra but those of developers; into the second torch and the dependencies of version 0.1.0. After each
step it counts the distributions and the bytes of their files. Needs an index of packages and some gigabytes of disk.
"""

from __future__ import annotations

import argparse
import json
import platform
import subprocess
import sys
import tempfile
import venv
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
OURS = "explicit-loss-embedding"
EXTRAS = "full,qm9,baselines,tune,tensorboard"
BEFORE = [
    "numpy",
    "scipy",
    "pydantic",
    "pluggy",
    "click",
    "rich",
    "safetensors",
    "tokenizers",
    "tomli-w",
    "filelock",
    "scikit-learn",
    "matplotlib",
    "jinja2",
    "rdkit",
    "networkx",
    "numba",
    "lazy-loader",
]
"""What `pip install .` brought at version 0.1.0, besides torch."""
LIST = """
import json
from importlib.metadata import distributions

found = {}
for distribution in distributions():
    files = [file.locate() for file in distribution.files or ()]
    found[distribution.name.lower()] = sum(file.stat().st_size for file in files if file.is_file())
print(json.dumps(found))
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, help="write the result as JSON")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        now = measured(Path(folder) / "now", {"plain": [str(ROOT)], "extras": [f"{ROOT}[{EXTRAS}]"]})
    with tempfile.TemporaryDirectory() as folder:
        before = measured(Path(folder) / "before", {"0.1.0": BEFORE})
    results = [{"install": name, **counted(own)} for name, own in (before | now).items()]
    old, plain = results[0], results[1]
    shares = {name: plain[name] / old[name] for name in ("packages", "megabytes")}
    for result in results:
        print(f"{result['install']:<8}{result['packages']:>5} packages{result['megabytes']:>8.0f} MB")
    print(f"plain, of 0.1.0: {shares['packages']:.0%} of the packages, {shares['megabytes']:.0%} of the megabytes")
    if arguments.output:
        record = {**conditions(), "shares_of_0.1.0": shares, "results": results}
        arguments.output.write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")


def measured(folder: Path, steps: dict[str, Sequence[str]]) -> dict[str, dict[str, int]]:
    """Install torch, then each step into the same environment; return the distributions beyond torch after each."""
    venv.create(folder, with_pip=True)
    python = folder / "bin" / "python"
    install(python, ["torch"])
    base, found = listed(python), {}
    for name, requirements in steps.items():
        install(python, requirements)
        found[name] = {each: size for each, size in listed(python).items() if each not in base and each != OURS}
    return found


def install(python: Path, requirements: Sequence[str]) -> None:
    """Install with the pinned versions; files that Python compiles later do not count."""
    options = ["--quiet", "--no-compile", "--constraint", str(ROOT / "constraints.txt")]
    subprocess.run([python, "-I", "-m", "pip", "install", *options, *requirements], check=True)


def listed(python: Path) -> dict[str, int]:
    """The distributions of an environment and the bytes of their files."""
    done = subprocess.run([python, "-I", "-c", LIST], check=True, capture_output=True, text=True)
    return json.loads(done.stdout)


def counted(distributions: dict[str, int]) -> dict[str, Any]:
    """The number of distributions, their megabytes, and each of them."""
    megabytes = {name: round(size / 1e6, 2) for name, size in sorted(distributions.items())}
    return {"packages": len(megabytes), "megabytes": round(sum(megabytes.values()), 1), "each": megabytes}


def conditions() -> dict[str, Any]:
    """What the numbers depend on besides the code."""
    return {
        "command": "python benchmarks/install.py",
        "date": datetime.now(UTC).date().isoformat(),
        "python": platform.python_version(),
        "platform": f"{sys.platform} {platform.machine()}",
        "extras": EXTRAS,
    }


if __name__ == "__main__":
    main()
