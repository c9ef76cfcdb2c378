"""What came of a drill, from its journal."""

from collections import Counter

from common import Journal

FINE = ("refused", "named", "no effect", "changed")
"""What may come of reading a damaged folder; `changed` only if there is no key."""


def summary(journal: Journal) -> dict:
    """All parts, and the number of results that are not as they should be."""
    parts = {
        "kills": by_command(journal.of("kills"), "kills"),
        "stops": by_command(journal.of("stops"), "stopped"),
        "disk": disks(journal.of("disk")),
        "folders": folders(journal.of("folders")),
        "inputs": inputs(journal.of("inputs")),
    }
    return {**parts, "failures": sum(row["failures"] for rows in parts.values() for row in rows)}


def by_command(results: list[dict], counted: str) -> list[dict]:
    """Rounds of each command: how often it was struck, how many rounds ended equal and clean."""
    rows = []
    for command in dict.fromkeys(each["command"] for each in results):
        own = [each for each in results if each["command"] == command]
        bad = [each["name"] for each in own if not each["equal"] or each["leftovers"]]
        rows.append(
            {
                "command": command,
                "times": sum(int(each[counted]) for each in own),
                "rounds": len(own),
                "equal": sum(each["equal"] for each in own),
                "clean": sum(not each["leftovers"] for each in own),
                "failures": len(bad),
            }
        )
    return rows


def disks(results: list[dict]) -> list[dict]:
    """Each command on disks without room: how often it failed, with a sentence, and ended equal once there was room."""
    rows = []
    for command in dict.fromkeys(each["command"] for each in results):
        own = [each for each in results if each["command"] == command]
        rows.append(
            {
                "command": command,
                "disks": len(own),
                "failed": sum(each["failed"] for each in own),
                "sentences": sum(each["sentence"] for each in own),
                "equal": sum(each["equal"] for each in own),
                "failures": sum(not (each["sentence"] and each["equal"]) for each in own),
            }
        )
    return rows


def folders(results: list[dict]) -> list[dict]:
    """Damaged folders by whether the manifest was written anew and a key given."""
    rows = []
    for way in dict.fromkeys(each["way"] for each in results):
        own = [each for each in results if each["way"] == way]
        counts = Counter(each["result"] for each in own)
        bad = sum(count for result, count in counts.items() if result not in FINE)
        changed = Counter(each["file"] for each in own if each["result"] == "changed")
        row = {"way": way, "folders": len(own), **{name.replace(" ", "_"): counts[name] for name in FINE}}
        failures = bad + (counts["changed"] if way.endswith("a key") else 0)
        rows.append({**row, "errors": bad, "code_ran": counts["code ran"], "changed_by": changed, "failures": failures})
    return rows


def inputs(results: list[dict]) -> list[dict]:
    """Random inputs by format."""
    rows = []
    for name in dict.fromkeys(each["format"] for each in results):
        own = [each for each in results if each["format"] == name]
        totals = {key: sum(each[key] for each in own) for key in ("inputs", "read", "refused", "failed")}
        slowest = max(each["slowest_seconds"] for each in own)
        rows.append({"format": name, **totals, "slowest_seconds": slowest, "failures": totals["failed"]})
    return rows
