"""How many of the mistakes on the list of tests/helpers/mistakes the checks of `ele_core.testing` find.

    python benchmarks/mistakes.py [--earlier FILE] [-o docs/results/mistakes.json]

The list was written before the checks that it tests. With --earlier, the record of another version of the checks is
counted beside.
"""

import argparse
import datetime
import json
import sys
import time
import warnings
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests" / "helpers"))

from mistakes import CORRECT, MISTAKES, ONE_LAW, checked  # noqa: E402  # the list is beside the tests


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--earlier", type=Path, help="the record of an earlier version, to count beside")
    parser.add_argument("-o", "--output", type=Path, default=ROOT / "docs" / "results" / "mistakes.json")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    began = time.process_time()
    found = [
        {"kind": mistake.kind, "name": mistake.name, "what": mistake.what, **outcome(mistake.cls)}
        for mistake in MISTAKES
        if mistake.kind != ONE_LAW  # written before the checks
    ]
    record = {
        "command": "python benchmarks/mistakes.py",
        "date": datetime.date.today().isoformat(),
        "seconds": round(time.process_time() - began),
        "false_alarms": [cls.__name__ for cls in CORRECT if outcome(cls)["caught_by"]],
        "mistakes": found,
    }
    if options.earlier is not None:
        earlier = json.loads(options.earlier.read_text("utf-8"))
        record["earlier"] = [each["name"] for each in earlier["mistakes"] if each["caught_by"]]
    options.output.write_text(json.dumps(record, indent=1, ensure_ascii=False) + "\n", "utf-8")
    caught = sum(bool(each["caught_by"]) for each in found)
    print(f"{caught} of {len(found)} mistakes caught; false alarms: {record['false_alarms'] or 'none'}")


def outcome(cls: type) -> dict[str, object]:
    """The checks that fail on a class, and what the first of them says."""
    failed = [result for result in checked(cls) if not result.ok]
    message = " ".join(failed[0].explanation.split()) if failed else ""
    return {"caught_by": [result.name for result in failed], "message": message}


if __name__ == "__main__":
    main()
