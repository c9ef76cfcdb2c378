"""Make a release: set the version, move the fragments to the changelog, commit and tag.

    python .ci/release.py VERSION

`make release VERSION=0.2.0` calls it. Nothing is pushed.
"""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VERSIONS = {
    "pyproject.toml": r'(?m)^version = "(.+)"$',
    "ele_core/__init__.py": r'(?m)^__version__ = "(.+)"$',
    "CITATION.cff": r"(?m)^version: (.+)$",
}
"""File → the line that holds the version."""


def main() -> None:
    """Check everything first, then change files, then commit."""
    version = sys.argv[1] if len(sys.argv) == 2 else ""
    if not re.fullmatch(r"\d+\.\d+\.\d+", version):
        sys.exit("Which version? make release VERSION=0.2.0")
    if git("status", "--porcelain"):
        sys.exit("There are changes that are not committed. Commit or stash them first.")
    if git("tag", "--list", f"v{version}"):
        sys.exit(f"There is a tag v{version} already. Choose another version.")
    if not [file for file in (ROOT / "changelog.d").iterdir() if file.name != "README.md"]:
        sys.exit("There is no change to release: changelog.d holds no fragment.")
    run(sys.executable, "-m", "towncrier", "build", "--yes", "--version", version)
    for name, line in VERSIONS.items():
        set_version(ROOT / name, line, version)
    git("commit", "--all", "--message", f"Release {version}")
    git("tag", "--annotate", f"v{version}", "--message", f"Version {version}")
    print(f"Released {version}, tagged v{version}. To publish it: git push --follow-tags")


def set_version(file: Path, line: str, version: str) -> None:
    """Put `version` in the place of the one that the only match of `line` holds."""
    text = file.read_text(encoding="utf-8")
    (match,) = re.finditer(line, text)
    file.write_text(text[: match.start(1)] + version + text[match.end(1) :], encoding="utf-8")


def git(*arguments: str) -> str:
    """What git answers."""
    return run("git", *arguments)


def run(*command: str) -> str:
    """The output of a command in the root of the project; the end of everything if it fails."""
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(command)} failed:\n{done.stdout}{done.stderr}")
    return done.stdout.strip()


if __name__ == "__main__":
    main()
