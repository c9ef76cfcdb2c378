"""The drill: kills, stops, full disks, hostile folders and random inputs, and a record of what came of them.

    python benchmarks/drill [--kills N] [--inputs N] [--only PART ...] [--summary] [--work FOLDER] [--output FILE]

- `kills`: every long command is killed with SIGKILL at random moments and given again; it must end with the same bytes
  as without a kill, and leave no temporary file.
- `stops`: the same with SIGSTOP and SIGCONT; of two processes one is stopped.
- `disk`: files that may not grow, a full and a read-only file system (the last two need the right to mount).
- `folders`: a run is damaged in about a thousand ways, with the old and with a new manifest, and read.
- `inputs`: random SMILES, CSV, JSONL, TOML and `--set` for the parsers.

Results are appended to FOLDER/journal.jsonl; the same command continues after a stop. FILE gets the summary.
"""

import argparse
import datetime
import json
import os
import platform
import shlex
import sys
from pathlib import Path

import torch
from common import Journal
from disk import disk_all
from folders import folders_all
from inputs import inputs_all
from kills import kill_all, stop_all
from summary import summary

from ele_core import __version__
from ele_core.files.atomic import write_text

PARTS = ("inputs", "folders", "disk", "stops", "kills")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=200, help="kills over all commands (default 200)")
    parser.add_argument("--stops", type=int, default=1, help="stops of each command (default 1)")
    parser.add_argument("--inputs", type=int, default=1_000_000, help="random inputs (default 1,000,000)")
    parser.add_argument("--only", choices=PARTS, action="append", help="this part only; may be repeated")
    parser.add_argument(
        "--work", type=Path, default=Path("runs/drill"), help="a folder to work in (default runs/drill)"
    )
    parser.add_argument("--summary", action="store_true", help="run nothing: only the summary of the results so far")
    parser.add_argument("--output", type=Path, help="write the summary as JSON")
    options = parser.parse_args()
    work, parts = options.work.resolve(), () if options.summary else options.only or PARTS
    journal = Journal(work / "journal.jsonl")
    if "inputs" in parts:
        inputs_all(journal, options.inputs)
    if "folders" in parts:
        folders_all(work, journal)
    if "disk" in parts:
        disk_all(work, journal)
    if "stops" in parts:
        stop_all(work, journal, options.stops)
    if "kills" in parts:
        kill_all(work, journal, options.kills)
    result = {
        "command": shlex.join(["python", "benchmarks/drill", *sys.argv[1:]]),
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "versions": {"ele": __version__, "python": platform.python_version(), "torch": str(torch.__version__)},
        "machine": {"processor": platform.machine(), "cores": os.cpu_count(), "system": platform.system()},
        "asked_for": {"kills": options.kills, "inputs": options.inputs},
        **summary(journal),
    }
    print(json.dumps(result, indent=2))
    if options.output:
        write_text(options.output, json.dumps(result, indent=2) + "\n")
    sys.exit(0 if result["failures"] == 0 else 1)


if __name__ == "__main__":
    main()
