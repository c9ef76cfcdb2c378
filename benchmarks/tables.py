"""Write the tables of README.md and docs/results/index.md from the recorded results, so that no figure is typed.

    python benchmarks/tables.py [--check]

A table stands between `<!-- table: NAME -->` and `<!-- end of table -->`. With --check nothing is written, and the exit
code says whether every table is what the records say.
"""

import argparse
import json
import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from ele_graphs.smi2mol import SmilesToMolecule

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "docs" / "results"
PAGES = (ROOT / "README.md", RESULTS / "index.md")
BLOCK = re.compile(r"<!-- table: ([\w-]+) -->\n.*?<!-- end of table -->", re.DOTALL)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing; fail where a table is out of date")
    check = parser.parse_args().check
    stale = [page for page in PAGES if (text := page.read_text("utf-8")) != renewed(text)]
    for page in stale:
        print(f"{page.relative_to(ROOT)}: {'out of date, run python benchmarks/tables.py' if check else 'written'}")
        if not check:
            page.write_text(renewed(page.read_text("utf-8")), "utf-8")
    sys.exit(1 if check and stale else 0)


def renewed(text: str) -> str:
    """A page with each of its tables made anew."""
    return BLOCK.sub(lambda found: f"<!-- table: {found[1]} -->\n{TABLES[found[1]]()}\n<!-- end of table -->", text)


def smi2mol() -> str:
    """Our rows on QM9, the paper's beside them."""
    runs = records("smi2mol")
    rows = [
        [
            f"paper: {row.name}",
            number(row.values.get("ged_with_edges")),
            number(row.values["ged_without_edges"]),
            "–",
            "–",
        ]
        for row in SmilesToMolecule.references
    ]
    rows += [
        [
            f"**ours: {name_of(run)}**",
            number(run["metrics"]["ged_with_edges"]),
            number(run["metrics"]["ged_without_edges"]),
            share(run["metrics"]["exact"]),
            share(run["metrics"]["exact_unseen"]),
        ]
        for run in runs
    ]
    header = ["decoder", "GED with edges", "GED without edges", "exact", "exact, not in training"]
    return table(header, rows)


def number_words() -> str:
    """The toy task: no test output occurs in training."""
    rows = [
        [name_of(run), share(run["metrics"]["exact"]), number(run["metrics"]["edit_distance"])]
        for run in records("number-words")
    ]
    return table(["decoder", "exact", "edit distance"], rows)


def commands() -> str:
    """Where each of our figures comes from."""
    rows = [
        [
            f"`{run['command']}`",
            run["date"],
            str(run["seed"]),
            " / ".join(f"{run['sizes'][part]:,}" for part in ("train", "validation", "test")),
            f"{run['training_seconds'] / 60:.0f} min",
            f"{run['seconds']:.0f} s",
        ]
        for task in ("number-words", "smi2mol")
        for run in records(task)
    ]
    return table(["command", "date", "seed", "training / validation / test", "training", "evaluation"], rows)


def ruler() -> str:
    """The bound on what candidates can reach."""
    found = json.loads((RESULTS / "ruler.json").read_text("utf-8"))
    rows = [[number(found["ged_with_edges"]), number(found["ged_without_edges"]), str(found["sample"]), found["date"]]]
    return table(["GED with edges", "GED without edges", "test molecules", "date"], rows)


def speed() -> str:
    """Ratios against named peers."""
    projection = json.loads((RESULTS / "projection.json").read_text("utf-8"))
    ged = json.loads((RESULTS / "ged.json").read_text("utf-8"))
    rows = [
        [
            f"projection of {row['rows']:,} rows of {row['size']} on the simplex",
            "`torch.sort`, as in Duchi et al.",
            f"{row['textbook_ms']:.1f} ms / {row['ours_ms']:.1f} ms",
            f"{row['ratio']:.1f} ×",
            projection["date"][:10],
        ]
        for row in projection["results"]
    ]
    few = ged["ours_on_the_same_pairs"]
    rows.append(
        [
            f"edit distance of {ged['networkx']['pairs']} random QM9 pairs, equal values",
            "networkx",
            f"{ged['networkx']['seconds']:.1f} s / {1000 * few['seconds']:.1f} ms",
            f"{ged['ratio']:,.0f} ×",
            ged["date"][:10],
        ]
    )
    return table(["what", "peer", "time of the peer / ours", "ratio", "date"], rows)


def records(task: str) -> list[dict[str, Any]]:
    """The evaluations of a task: real queries first, then oracles; the weakest decoder first."""
    found = [json.loads(file.read_text("utf-8")) for file in sorted((RESULTS / task).glob("*.json"))]
    order = {"candidates": 0, "pgd": 1, "search": 2}
    return sorted(found, key=lambda run: (run["oracle"], order[run["decoder"]["name"]]))


def name_of(run: dict[str, Any]) -> str:
    """The decoder, and whether its query was the true embedding."""
    return f"`{run['decoder']['name']}`" + (" from the true embedding (oracle)" if run["oracle"] else "")


def number(value: float | None) -> str:
    return "–" if value is None else f"{value:.3f}"


def share(value: float) -> str:
    return f"{100 * value:.1f} %"


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


TABLES: dict[str, Callable[[], str]] = {
    "smi2mol": smi2mol,
    "number-words": number_words,
    "commands": commands,
    "ruler": ruler,
    "speed": speed,
}

if __name__ == "__main__":
    main()
