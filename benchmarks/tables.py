"""Write the tables of README.md and of pages in docs from the recorded results: no number is typed by hand.

    python benchmarks/tables.py [--check]

A table is written between `<!-- table: NAME -->` and `<!-- end of table -->`. Tables of plain rows are declared in
tables.toml, the others are functions here. With --check nothing is written, and the exit code is 1 if a table is out of
date.
"""

import argparse
import json
import re
import string
import sys
import tomllib
from collections.abc import Callable, Iterable, Sequence
from functools import cache, partial
from pathlib import Path
from statistics import mean, stdev
from typing import Any

from ele_core import Reference, Table
from ele_core.experiments.reproduce.tables import ComparisonTable, read_records, up_to_date
from ele_core.model.evaluate import COPYING, ECHOING
from ele_graphs.coloring.task import Coloring
from ele_graphs.fp2mol import QM9_TABLE, FingerprintToMolecule
from ele_graphs.smi2mol.studies import TABLE1
from ele_graphs.smi2mol.task import SmilesToMolecule
from ele_sequences.g2p.task import TABLE as G2P
from ele_sequences.g2p.task import GraphemesToPhonemes

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "docs" / "results"
PAGES = (ROOT / "README.md", *sorted(page for page in (ROOT / "docs").rglob("*.md") if "_build" not in page.parts))
MISSING = "No result is recorded yet."
BLOCK = re.compile(r"<!-- table: ([\w-]+) -->\n.*?<!-- end of table -->", re.DOTALL)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing; exit with 1 if a table is out of date")
    check = parser.parse_args().check
    stale = [page for page in PAGES if (text := page.read_text("utf-8")) != renewed(text)]
    for page in stale:
        print(f"{page.relative_to(ROOT)}: {'out of date, run python benchmarks/tables.py' if check else 'written'}")
        if not check:
            page.write_text(renewed(page.read_text("utf-8")), "utf-8")
    sys.exit(1 if check and stale else 0)


def renewed(text: str) -> str:
    """A page with all its tables generated again."""
    return BLOCK.sub(lambda found: f"<!-- table: {found[1]} -->\n{made(found[1])}\n<!-- end of table -->", text)


# -- tables of tables.toml ----------------------------------------------------------------------------------------

FORMATS: dict[str, Callable[[Any], str]] = {
    "number": lambda value: f"{value:.3f}",
    "count": lambda value: f"{value:,.0f}",
    "share": lambda value: f"{100 * value:.1f} %",
    "share0": lambda value: f"{100 * value:.0f} %",
    "share2": lambda value: f"{100 * value:.2f} %",
    "percent": lambda value: f"{100 * value:.1f}",
    "s": lambda value: f"{value:.0f} s",
    "minutes": lambda value: f"{value / 60:.0f} min",
    "ms": lambda value: f"{1000 * value:.0f} ms",
    "ms1": lambda value: f"{1000 * value:.1f} ms",
    "three": lambda value: f"{value:,.0f}" if value >= 100 else f"{value:.3g}",
    "day": lambda value: value[:10],
}
number, share = FORMATS["number"], FORMATS["share"]
NOTHING = "–"


class Cells(string.Formatter):
    """Formats `{a.b:FORMAT}` over a row: a dotted path, perhaps with a default after `|`."""

    def get_field(self, field_name: str, args: Any, kwargs: Any) -> tuple[Any, str]:
        path, _, default = field_name.partition("|")
        value: Any = kwargs
        for key in path.split("."):
            value = value[int(key)] if isinstance(value, list) else value.get(key) if value is not None else None
        if value is None and default:
            value = float(default) if default.isdigit() else default
        return value, path

    def format_field(self, value: Any, format_spec: str) -> str:
        if value is None:
            return NOTHING
        if isinstance(value, bool):
            return format_spec.split("|")[not value]
        if isinstance(value, str) and format_spec != "day":
            return value
        return FORMATS[format_spec](value) if format_spec in FORMATS else format(value, format_spec)


def declared(name: str, **other: Any) -> str:
    """A table of tables.toml, perhaps with other sources or columns."""
    spec = declarations()[name] | other
    found = [(place, row) for place, source in enumerate(spec["of"]) for row in rows_of(source)]
    if not found:
        return "" if "text" in spec else MISSING
    if "sort" in spec:
        found.sort(key=lambda each: each[1][spec["sort"]])
    fill, first = Cells().vformat, found[0][1]
    if "text" in spec:
        return fill(spec["text"], (), first)
    headings = [fill(heading, (), first) for heading, *_ in spec["columns"]]
    rows = [[fill(cells[min(at, len(cells) - 1)], (), row) for _, *cells in spec["columns"]] for at, row in found]
    below = f"\n\n{fill(spec['below'], (), first)}" if "below" in spec else ""
    return f"{table(headings, rows)}{below}"


@cache
def declarations() -> dict[str, Any]:
    return tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))


def rows_of(source: str) -> Iterable[dict[str, Any]]:
    """The rows of a source, each with the scalars of its file."""
    if source.startswith("@"):
        return SOURCES[source[1:]]()
    if source.endswith("/"):
        return records(source[:-1])
    file, _, key = source.partition(":")
    if not (RESULTS / file).is_file():
        return []
    found = loaded(file)
    if not key:
        return found if isinstance(found, list) else [found]
    rows = found[key]
    rows = [{"key": name, **row} for name, row in rows.items()] if isinstance(rows, dict) else rows
    return [{**scalars(found), **row} for row in rows]


def scalars(found: dict[str, Any]) -> dict[str, Any]:
    """The values of a file that are neither lists nor tables."""
    return {name: value for name, value in found.items() if not isinstance(value, list | dict)}


# -- sources of rows ----------------------------------------------------------------------------------------------


def published(references: Sequence[Reference]) -> list[dict[str, Any]]:
    return [vars(each) for each in references]


def ms2mol(kind: str) -> list[dict[str, Any]]:
    """The recorded measurements of ms2mol of one kind, oracles last, the weakest first."""
    found = [json.loads(file.read_text("utf-8")) for file in sorted((RESULTS / "ms2mol").glob("*.json"))]
    chosen = [run for run in found if run.get("kind") == kind]
    for run in chosen:
        run["label"] = f"**{run['name']}**" if run["name"].startswith("ELE") else run["name"]
        run["run"] = run["command"].split()[2]
        run["answered"] = run["found"] / run["spectra"] if "found" in run else None
    weight = (lambda own: own["all"]["top_1"]) if kind == "retrieval" else (lambda own: own["tanimoto"])
    return sorted(chosen, key=lambda run: (run["oracle"], weight(run["metrics"])))


def coloring() -> Iterable[dict[str, Any]]:
    """The published result, then ours, on up to 10 and on up to 20 cells."""
    for cells, reference in zip((10, 20), Coloring.references, strict=True):
        yield {"cells": cells, "method": reference.name.split(",")[0], "metrics": reference.values}
        for run in of_cells(cells):
            metrics = {"ged_with_edges_not_proven": 0, **run["metrics"]}
            yield {**run, "cells": cells, "method": f"**ours: {run['label']}**", "metrics": metrics}


def of_cells(cells: int) -> list[dict[str, Any]]:
    """The evaluations of `coloring` on pictures of up to so many cells."""
    return [run for run in records("coloring") if run["config"]["output"]["max_nodes"] == cells]


def ged_by_size() -> Iterable[dict[str, Any]]:
    """Rows with the ratio to each peer; a lower bound if the peer did not finish all pairs."""
    for row in loaded("ged-by-size.json")["results"]:
        pairs, peers = row["on_the_same_pairs"]["pairs"], {}
        for name in ("networkx", "pygmtools"):
            peer = row[name]
            wrong = ", another value" if peer["differ"] else ""
            peers[name] = f"{'' if peer['finished'] == pairs else '> '}{peer['ratio']:,.0f} ×{wrong}"
        yield {**row, "peers": peers}


def regression() -> Iterable[dict[str, Any]]:
    for run in loaded("regression.json"):
        yield {**run, "options": ", ".join(f"`{change}`" for change in run["overrides"][1:]) or None}


def install() -> Iterable[dict[str, Any]]:
    found = loaded("install.json")
    names = {"0.1.0": "`pip install .` at 0.1.0", "plain": "`pip install .`", "extras": f"`.[{found['extras']}]`"}
    return ({**scalars(found), **row, "called": names[row["install"]]} for row in found["results"])


def measured_curves() -> list[dict[str, Any]]:
    """The results of learning curves in which ELE was measured."""
    return [each for each in loaded("learning-curves.json")["results"] if "model" in each]


def learning_curves() -> Iterable[dict[str, Any]]:
    """The defaults on a user's own file, by the number of pairs: means over seeds."""
    groups: dict[tuple[str, int], list[dict[str, Any]]] = {}
    for each in measured_curves():
        if not each["options"]:
            groups.setdefault((each["set"], each["pairs"]), []).append(each)
    for (name, pairs), runs in groups.items():
        metric = runs[0]["metric"]
        copied = [run["baselines"][COPYING] for run in runs]
        yield {
            "set": name,
            "pairs": pairs,
            "seeds": ", ".join(str(run["seed"]) for run in runs),
            "called": metric.replace("_", " "),
            "exact": spread_of([100 * run["model"]["exact"] for run in runs]),
            "distance": mean([run["model"][metric] for run in runs]),
            "oracle": mean([run["oracle"]["exact"] for run in runs]),
            "energy": mean([run["lost"]["energy"] for run in runs]),
            "search": mean([run["lost"]["search"] for run in runs]),
            "copied": {
                "distance": mean([each[metric] for each in copied]),
                "exact": mean([e["exact"] for e in copied]),
            },
            "cpu": mean([run["seconds"]["training_cpu"] for run in runs]),
            "date": max(run["date"] for run in runs),
        }


def embeddings() -> Iterable[dict[str, Any]]:
    """The same pairs with other embeddings: means over seeds."""
    groups: dict[tuple[str, int, str], list[dict[str, Any]]] = {}
    for each in loaded("embeddings.json")["results"]:
        groups.setdefault((each["set"], each["pairs"], each["embedding"]), []).append(each)
    for (name, pairs, embedding), runs in groups.items():
        yield {
            **{"set": name, "pairs": pairs, "embedding": embedding},
            "exact": spread_of([100 * run["model"]["exact"] for run in runs]),
            "oracle": mean([run["oracle"]["exact"] for run in runs]),
            "cpu": mean([run["seconds"]["training_cpu"] for run in runs]),
            "seeds": ", ".join(str(run["seed"]) for run in runs),
            "date": max(run["date"] for run in runs),
        }


def against_rivals() -> Iterable[dict[str, Any]]:
    """The defaults on a user's own file beside the best of what somebody would take instead, over the same seeds."""
    groups: dict[tuple[str, int], list[dict[str, Any]]] = {}
    for each in measured_curves():
        if not each["options"]:
            groups.setdefault((each["set"], each["pairs"]), []).append(each)
    for (name, pairs), every in groups.items():
        runs = [run for run in every if "rivals" in run] or every
        ours = [run["model"]["exact"] for run in runs]
        others = [{**run["baselines"], **run.get("rivals", {})} for run in runs]
        common = [method for method in others[0] if all(method in each for each in others)]
        best = max(common, key=lambda method: mean([each[method]["exact"] for each in others]))
        theirs = [each[best]["exact"] for each in others]
        seconds = [each[best].get("cpu_seconds", 0) for each in others]
        measured = all("rivals" in run for run in runs)
        yield {
            "set": name,
            "pairs": pairs,
            "exact": spread_of([100 * value for value in ours]),
            "cpu": mean([run["seconds"]["training_cpu"] for run in runs]),
            "rival": best if measured else None,
            "rival exact": spread_of([100 * value for value in theirs]) if measured else None,
            "rival cpu": mean(seconds) if measured else None,
            "wins": winner(ours, theirs, runs[0]["test"]) if measured else None,
            "others": listed(
                {m: mean([each[m]["exact"] for each in others]) for m in common if m != best or not measured}
            ),
            "seeds": ", ".join(str(run["seed"]) for run in runs),
            "date": max(run.get("rivals_date", run["date"]) for run in runs),
        }


def briefly_against_rivals() -> Iterable[dict[str, Any]]:
    """The same in few words, where rivals were measured and echoing the input does not answer everything."""
    for row in against_rivals():
        if row["rival"] and (row["rival"], row["rival exact"]) != (ECHOING, "100.0 %"):
            seeds = len(row["seeds"].split(", "))
            yield {**row, "rival": BRIEFLY.get(row["rival"], row["rival"].partition(" (")[0]), "seeds": seeds}


BRIEFLY = {COPYING: "copying", "an attention network": "attention"}


def compared() -> Iterable[dict[str, Any]]:
    """ELE beside every rival that was trained on the same pairs, each with the winner."""
    groups: dict[tuple[str, int, str], list[dict[str, Any]]] = {}
    for run in measured_curves():
        for method in run.get("rivals", {}) if not run["options"] else ():
            groups.setdefault((run["set"], run["pairs"], method), []).append(run)
    for (name, pairs, method), runs in groups.items():
        theirs = [run["rivals"][method] for run in runs]
        yield {
            **{"set": name, "pairs": pairs, "rival": method},
            **versus([run["model"]["exact"] for run in runs], [each["exact"] for each in theirs], runs[0]["test"]),
            "cpu": mean([run["seconds"]["training_cpu"] for run in runs]),
            "rival cpu": mean([each["cpu_seconds"] for each in theirs]),
            "seeds": ", ".join(str(run["seed"]) for run in runs),
            "date": max(run.get("rivals_date", run["date"]) for run in runs),
        }
    words = {record["row"]: record for record in read_records(RESULTS / "g2p-full")}
    for method, record in words.items():
        if not method.startswith("ELE") and "ELE" in words:
            exact = [[each["metrics"]["exact"]] for each in (words["ELE"], record)]
            row = {"set": "g2p, all of CMUdict", "pairs": words["ELE"]["sizes"]["train"], "rival": method}
            yield {
                **scalars(record),
                **row,
                **versus(*exact, round(record["metrics"]["examples"])),
                "seeds": record["seed"],
            }


def versus(ours: Sequence[float], theirs: Sequence[float], test: int) -> dict[str, str]:
    """The shares of both over the seeds, and the winner."""
    spreads = [spread_of([100 * value for value in values]) for values in (ours, theirs)]
    return {"exact": spreads[0], "rival exact": spreads[1], "wins": winner(ours, theirs, test)}


def listed(shares: dict[str, float]) -> str:
    """Methods with their shares, the best first."""
    return ", ".join(f"{name} {share(value)}" for name, value in sorted(shares.items(), key=lambda own: -own[1]))


def winner(ours: Sequence[float], theirs: Sequence[float], test: int) -> str:
    """Whose mean is higher; level if they differ by less than the standard error of the difference.

    The error is that over the seeds, which draw the pairs of both, but at least that of so many test pairs of each.
    """
    differences = [own - other for own, other in zip(ours, theirs, strict=True)]
    sampled = sum(p * (1 - p) for p in (mean(ours), mean(theirs))) / (test * len(ours))
    seeded = stdev(differences) ** 2 / len(ours) if len(ours) > 1 else 0.0
    ahead = mean(differences)
    return "level" if abs(ahead) <= max(sampled, seeded) ** 0.5 else "ELE" if ahead > 0 else "the rival"


def gradients() -> Iterable[dict[str, Any]]:
    found = loaded("gradients.json")
    return ({**row, "date": found["date"]} for row in found["results"])


def spread_of(values: Sequence[float]) -> str:
    """The mean, and the standard deviation if there are several values."""
    return f"{mean(values):.1f} ± {stdev(values):.1f} %" if len(values) > 1 else f"{values[0]:.1f} %"


def round_trip() -> Iterable[dict[str, Any]]:
    for row in loaded("round-trip.json")["results"]:
        kinds = (f"{each['kind']} {each['count']:,}, such as `{each['example']}`" for each in row["did not"])
        of = f"`{row['source']}`" + (f", the first {row['limit']:,}" if row["limit"] else "")
        yield {**row, "of": of, "kinds": "; ".join(kinds) or None}


def same_results() -> Iterable[dict[str, Any]]:
    found = loaded("same-results.json")
    return ({**row, "files": row["equal"] + len(row["different"]), "date": found["date"]} for row in found["runs"])


def search_size() -> Iterable[dict[str, Any]]:
    found = loaded("search-size.json")
    growth = ", ".join(f"{power:.2f} for `{name}`" for name, power in found["exponent"].items())
    for row in found["rows"]:
        slow = row["every_move_ms"]
        own = {} if slow is None else {"every_move": f"{slow:,.0f} ms", "ratio": slow / row["ranked_ms"]}
        yield {**row, **own, "same_best": row["same_best"] or None, "growth": growth, "date": found["date"]}


def cost() -> Iterable[dict[str, Any]]:
    """Each stage with its time and memory by the number of outputs, and the exponents of both."""
    if not (RESULTS / "cost.json").is_file():
        return
    found = loaded("cost.json")
    for growth in found["exponents"]:
        own = {str(row["outputs"]): row for row in found["results"] if row["stage"] == growth["stage"]}
        cells = {
            size: f"{FORMATS['three'](row['cpu_seconds'])} s, {row['megabytes']:,} MB" for size, row in own.items()
        }
        yield {**scalars(found), "stage": growth["stage"], "at": cells, "growth": growth}


TRUSTED = {"search": "`search`"}
"""The records of trust, by file, and how their decoders are called."""


def trust(name: str = "search") -> dict[str, Any] | None:
    """A record of benchmarks/trust.py; None if there is none."""
    file = RESULTS / "trust" / f"{name}.json"
    return json.loads(file.read_text("utf-8")) if file.is_file() else None


def trusted() -> list[tuple[str, dict[str, Any]]]:
    return [(label, found) for name, label in TRUSTED.items() if (found := trust(name)) is not None]


def trust_accepted() -> Iterable[dict[str, Any]]:
    test = (trust() or {"test": {"accepted": []}})["test"]
    return ({**row, "wrong": row["accepted"] - row["exact"], "examples": test["examples"]} for row in test["accepted"])


def set_row(row: dict[str, Any]) -> dict[str, Any]:
    """A promise of prediction sets, and how often it was kept."""
    if "refused" in row:
        return {"coverage": row["coverage"], "held": "cannot be promised"}
    return {**row, "held": f"{row['covered']:.3f} ({row['standard_error']:.3f})"}


def trust_library() -> Iterable[dict[str, Any]]:
    for each in (trust() or {"library": []})["library"]:
        for own in each["sets"]:
            yield {**scalars(each), **set_row(own)}


SOURCES: dict[str, Callable[[], Iterable[dict[str, Any]]]] = {
    "published-smi2mol": partial(published, SmilesToMolecule.references),
    "published-fp2mol": partial(published, FingerprintToMolecule.references),
    "ms2mol-retrieval": partial(ms2mol, "retrieval"),
    "ms2mol-de-novo": partial(ms2mol, "de novo"),
    "coloring": coloring,
    "g2p": lambda: read_records(RESULTS / f"{G2P.name}-full"),
    "ged-by-size": ged_by_size,
    "regression": regression,
    "install": install,
    "embeddings": embeddings,
    "learning-curves": learning_curves,
    "learning-curves-rivals": against_rivals,
    "learning-curves-short": briefly_against_rivals,
    "compared": compared,
    "gradients": gradients,
    "round-trip": round_trip,
    "same-results": same_results,
    "search-size": search_size,
    "cost": cost,
    "trust-accepted": trust_accepted,
    "trust-library": trust_library,
    "trust-sets": lambda: [{"decoder": name, **set_row(s)} for name, own in trusted() for s in own["test"]["sets"]],
    "trust-divisions": lambda: [{"decoder": name, **row} for name, own in trusted() for row in own["divisions"]],
}


def loaded(name: str) -> Any:
    """Load a file of the recorded results."""
    return json.loads((RESULTS / name).read_text("utf-8"))


def records(task: str) -> list[dict[str, Any]]:
    """The evaluations of a task: real queries first, then oracles; the weakest decoder first."""
    found = [json.loads(file.read_text("utf-8")) for file in sorted((RESULTS / task).glob("*.json"))]
    order = {"candidates": 0, "pgd": 1, "search": 2}
    for run in found:
        given = f" with the {' and '.join(run['given'])} given" if run.get("given") else ""
        oracle = " from the true embedding (oracle)" if run["oracle"] else ""
        run["label"] = f"`{run['decoder']['name']}`{given}{oracle}"
    return sorted(found, key=lambda run: (run["oracle"], order[run["decoder"]["name"]]))


# -- tables of their own ------------------------------------------------------------------------------------------


def exact_by(task: str, name: str, runs: list[dict[str, Any]] | None = None) -> str:
    """The share of exact predictions for each value of a property of the truths, and its figure if it was drawn."""
    runs = records(task) if runs is None else runs
    if not runs:
        return MISSING
    groups = [{group["value"]: group for group in run["by_property"][name]} for run in runs]
    rows = []
    for value in sorted(set().union(*groups)):
        own = [each.get(value) for each in groups]
        counts = sorted({each["examples"] for each in own if each})
        shares = [share(each["metrics"]["exact"]) if each else "–" for each in own]
        rows.append(
            [f"{value:g}", " to ".join(f"{count:,}" for count in dict.fromkeys((counts[0], counts[-1]))), *shares]
        )
    made = table([name.replace("_", " "), "examples", *(run["label"] for run in runs)], rows)
    picture = RESULTS / task / "sizes.svg"
    return f"{made}\n\n![Exact predictions by {name}]({task}/{picture.name})" if picture.exists() else made


def study_table(study: Table, scale: str) -> str:
    """The table of a study at one scale, from its records."""
    known = up_to_date(read_records(RESULTS / "reproduction" / f"{study.name}-{scale}"), {})
    if not known:
        return MISSING
    first, *others = (made := ComparisonTable(study, scale, known, {})).notes()
    return "\n\n".join([first, made.markdown_table(), *others])


def without_a_parser() -> str:
    """One line for each task whose inputs no program reads: the best result of ours, and what to compare it with."""
    rows = [
        [f"[{name}]({page})", what, found, beside]
        for name, page, what, found, beside in (
            (
                "fp2mol",
                "../tasks/fp2mol.md",
                "Morgan fingerprint, also as a constraint → molecule, QM9",
                exact_of("fp2mol/search-fingerprint.json"),
                f"Any2Graph {100 * FingerprintToMolecule.references[0].values['exact']:g} %, by a looser measure",
            ),
            (
                "fp2mol",
                "../tasks/fp2mol.md",
                "the same on MOSES, new scaffolds",
                exact_of("fp2mol-moses/search-fingerprint.json"),
                "–",
            ),
            ("g2p", "../tasks/g2p.md", "spelling → phonemes, CMUdict", *g2p_and_rivals()),
            (
                "ms2mol",
                "../tasks/ms2mol.md",
                "mass spectrum → molecule, of all in the file",
                *ms2mol_and_rivals("all", "top_1"),
            ),
            (
                "ms2mol",
                "../tasks/ms2mol.md",
                "the same, of several within 10 ppm",
                *ms2mol_and_rivals("10 ppm", "top_1_of_several"),
            ),
            *(
                (
                    "coloring",
                    "../tasks/coloring.md",
                    f"picture → graph of up to {cells} cells",
                    *best_of_cells(cells),
                    f"{reference.name.split(',')[0]} {share(reference.values['exact'])}",
                )
                for cells, reference in zip((10, 20), Coloring.references, strict=True)
            ),
        )
    ]
    return table(["task", "from → to", "exact (test examples)", "beside it"], rows)


def exact_of(file: str) -> str:
    """The share of exact predictions of a record, with the number of test examples."""
    if not (RESULTS / file).exists():
        return "–"
    found = loaded(file)["metrics"]
    return f"**{share(found['exact'])}** ({found['examples']:,.0f})"


def best_of_cells(cells: int) -> list[str]:
    """The best share of exact graphs that was measured on pictures of up to so many cells."""
    runs = [run for run in of_cells(cells) if not run["oracle"]]
    if not runs:
        return ["–"]
    best = max(runs, key=lambda run: run["metrics"]["exact"])["metrics"]
    return [f"**{share(best['exact'])}** ({best['examples']:,.0f})"]


def g2p_and_rivals() -> list[str]:
    """The share of right words, and that of the rivals."""
    records = {record["row"]: record["metrics"] for record in read_records(RESULTS / "g2p-full")}
    ours = records.pop("ELE", None)
    rivals = ", ".join(
        f"{name} {share(found['exact'])}" for name, found in records.items() if not name.startswith("ELE")
    )
    published = ", ".join(
        f"{each.name} {share(1 - each.values['wer'])}"
        for each in GraphemesToPhonemes.references
        if "wer" in each.values
    )
    beside = f"{rivals or 'none measured'}; published: {published}"
    return ["–" if ours is None else f"**{share(ours['exact'])}** ({ours['examples']:,.0f})", beside]


def ms2mol_and_rivals(candidates: str, measure: str) -> list[str]:
    """The share of true molecules that are ranked first among some candidates, and that of the rivals."""
    runs = [run for run in ms2mol("retrieval") if not run["oracle"]]
    runs = [run for run in runs if run["config"]["task"]["split"] == "molecule"]
    first = {run["name"]: run["metrics"][candidates][measure] for run in runs}
    ours = {name: value for name, value in first.items() if name.startswith("ELE")}
    rivals = ", ".join(f"{name} {share(value)}" for name, value in first.items() if name not in ours)
    spectra = runs[0]["metrics"][candidates]["several"] if runs else 0
    return [f"**{share(max(ours.values()))}** ranked first ({spectra:,})" if ours else "–", rivals or "–"]


def g2p() -> str:
    """Spelling to phonemes, beside its rivals."""
    known = up_to_date(read_records(RESULTS / f"{G2P.name}-full"), {})
    references = {reference.name: reference for reference in GraphemesToPhonemes.references}
    made = ComparisonTable(G2P, "full", known, references)
    return "\n\n".join([made.markdown_table(), *made.notes()])


def sweep() -> str:
    """Our version of the paper's Figure 3: a share of the candidates, four ways to decode."""
    found = loaded("sweep/sweep.json")
    shares = sorted({record["share"] for record in found})
    rows = []
    for line in dict.fromkeys(record["line"] for record in found):
        own = {record["share"]: record["metrics"] for record in found if record["line"] == line}
        cells = [f"{number(own[s]['ged_with_edges'])}, {share(own[s]['exact'])}" if s in own else "–" for s in shares]
        rows.append([f"`{line}`", *cells])
    return table(["decoder", *(f"{100 * s:g} % of the candidates" for s in shares)], rows)


def regression_curves() -> str:
    """The squared validation error along two full trainings."""
    curves = loaded("regression-curves.json")["curves"]
    errors = [dict(map(tuple, curve["validation_error"])) for curve in curves]
    common = sorted(set.intersection(*map(set, errors)))
    steps = [*common[1::4], *(common[-1:] if common[-1] not in common[1::4] else [])]
    rows = [[curve["change"], *(f"{e[step]:.4f}" for step in steps)] for curve, e in zip(curves, errors, strict=True)]
    return table(["change", *(f"step {step:,}" for step in steps)], rows)


def drill_commands() -> str:
    """What came of commands that were killed, stopped, and given on disks without room."""
    found = loaded("drill.json")
    parts = {"kills": {}, "stops": {}, "disk": {}}
    for part, rows in parts.items():
        rows |= {row["command"]: row for row in found[part]}
    lines = []
    for command in dict.fromkeys(name for rows in parts.values() for name in rows):
        kills, stops, disk = (parts[part].get(command) for part in parts)
        lines.append(
            [
                command,
                f"{kills['times']}" if kills else "–",
                f"{kills['equal']} of {kills['rounds']}" if kills else "–",
                f"{stops['equal']} of {stops['rounds']}" if stops else "–",
                f"{disk['sentences']} of {disk['disks']}" if disk else "–",
                f"{disk['equal']} of {disk['disks']}" if disk else "–",
            ]
        )
    total = sum(row["times"] for row in found["kills"])
    lines.append(["all", f"{total} of {found['asked_for']['kills']} asked for", *["" for _ in range(4)]])
    heads = [
        "command",
        "kills",
        "equal after kills",
        "equal after SIGSTOP",
        "full disk: a sentence",
        "equal once there is room",
    ]
    return table(heads, lines)


def table1(scale: str) -> str:
    """The paper's table, reproduced at one scale."""
    known = up_to_date(read_records(RESULTS / "reproduction" / f"{TABLE1.name}-{scale}"), {})
    known += ours_elsewhere() if scale == "full" and not any(r["row"] == "ours" for r in known) else []
    references = {reference.name: reference for reference in SmilesToMolecule.references}
    made = ComparisonTable(TABLE1, scale, known, references)
    first, *others = made.notes()
    return "\n\n".join([first, made.markdown_table(), *others])


def ours_elsewhere() -> list[dict[str, Any]]:
    """The row *ours* at full scale, from the evaluation of `ele train smi2mol` with its default options."""
    return [
        {**record, "row": "ours"}
        for record in records("smi2mol")
        if record["decoder"]["name"] == "search" and not record["oracle"]
    ]


def table1_oracle(scale: str) -> str:
    """Rows decoded from the true embedding as well: the error that the embedding and the decoder leave."""
    rows = []
    for file in sorted((RESULTS / "reproduction" / f"oracle-{scale}").glob("*.json")):
        own, oracle = loaded(f"reproduction/table1-{scale}/{file.stem}-seed0.json"), json.loads(file.read_text("utf-8"))
        distances = [number(each["metrics"]["ged_with_edges"]) for each in (own, oracle)]
        rows.append([own["row"], *distances, share(oracle["metrics"]["exact"])])
    return table(
        ["method, seed 0", "GED with edges", "from the true embedding", "exact, from the true embedding"], rows
    )


def trust_confidence() -> str:
    """Area under the curve and calibration error of confidence, and of each signal alone."""
    if (found := trust()) is None:
        return MISSING
    test = found["test"]
    head = f"Of {test['examples']:,} test molecules {share(test['exact'])} are exact.\n\n"
    rows = [["**confidence**", f"{test['auc']:.3f}", f"{test['calibration_error']:.3f}"]]
    rows += [[f"{name} alone", f"{value:.3f}", "–"] for name, value in test["signals"].items()]
    expected = test["expected"]
    tail = f"Mean expected `{expected['metric']}` {expected['expected']:.3f}, measured {expected['measured']:.3f}."
    return f"{head}{table(['', 'area under the curve', 'calibration error'], rows)}\n\n{tail}"


def trust_sizes() -> str:
    """Coverage for each size at 0.9, with one threshold and with one for each group."""
    if (found := trust()) is None:
        return MISSING
    plain = next(own for own in found["test"]["sets"] if own["coverage"] == 0.9)
    (name,) = list(plain["by_property"])[:1]
    own = next(s for s in found["by_property"] if s["promise"] == f"coverage 0.9 for each {name}")
    each = {row["value"]: row["covered"] for row in own.get("by_property", {}).get(name, [])}
    rows = [
        [f"{row['value']:g}", f"{row['examples']:,}", f"{row['covered']:.3f}", f"{each.get(row['value'], 0):.3f}"]
        for row in plain["by_property"][name]
    ]
    rows.append(["mean set size", "", f"{plain['mean_size']:.2f}", f"{own.get('mean_size', 0):.2f}"])
    shown = table([name, "test pairs", "coverage 0.9", f"coverage 0.9, `--by {name}`"], rows)
    groups = [
        f"{row['from']:g} to {row['to']:g} {name} {row['mean']:.3f} ± {row['deviation']:.3f}"
        for row in found["divisions_by_property"][name]
    ]
    return f"{shown}\n\nOver 1,000 divisions, with a threshold for each group: {', '.join(groups)}."


def mistakes() -> str:
    """The mistakes of plugin authors that the checks find, by kind, and those that they do not."""
    record = loaded("mistakes.json")
    listed, earlier = record["mistakes"], set(record["earlier"])
    kinds = list(dict.fromkeys(each["kind"] for each in listed))
    rows = []
    for kind in (*kinds, None):
        own = [each for each in listed if kind in (None, each["kind"])]
        counts = (len(own), sum(each["name"] in earlier for each in own), sum(bool(each["caught_by"]) for each in own))
        rows.append([kind or "**all**", *map(str, counts)])
    missed = [f"- `{each['name']}`: {each['what']}" for each in listed if not each["caught_by"]]
    header = ["mistakes in", "on the list", "found before these checks", "found"]
    return "\n".join([table(header, rows), "", "Not found:", "", *missed])


def learned_distance() -> str:
    """Rank correlations of distances with the edit distance, for each kind of pairs."""
    if not (RESULTS / "learned-distance.json").exists():
        return MISSING
    found = loaded("learned-distance.json")
    names = {
        "random": "two test molecules",
        "moves": "a test molecule, and 1 to 6 random moves from it",
        "nearest": "a test molecule, and one of its ten nearest training molecules",
    }
    measures = list(found["kinds"]["random"]["spearman"])
    rows = [
        [
            names[kind],
            f"{pairs['pairs']:,}",
            f"{pairs['mean_ged']:.1f}",
            *(f"{pairs['spearman'][name]['rho']:.3f} ± {pairs['spearman'][name]['error']:.3f}" for name in measures),
        ]
        for kind, pairs in found["kinds"].items()
    ]
    header = ["pairs", "number", "mean GED", *measures]
    return f"{table(header, rows)}\n\n`{found['command']}` ({found['date']}, seed {found['seed']})"


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


COMMANDS = ("number-words", "smi2mol", "moses", "fp2mol", "fp2mol-moses", "coloring")
"""Tasks whose evaluations have a table of commands and times."""

TABLES: dict[str, Callable[[], str]] = {
    "trust-confidence": trust_confidence,
    "trust-sizes": trust_sizes,
    "drill-commands": drill_commands,
    "moses-atoms": partial(exact_by, "moses", "atoms"),
    "fp2mol-study": partial(study_table, QM9_TABLE, "full"),
    "fp2mol-atoms": partial(exact_by, "fp2mol", "atoms"),
    "coloring-nodes": lambda: exact_by("coloring", "nodes", of_cells(10)),
    "coloring-20-nodes": lambda: exact_by("coloring", "nodes", of_cells(20)),
    "without-a-parser": without_a_parser,
    "g2p": g2p,
    "mistakes": mistakes,
    "sweep": sweep,
    "regression-curves": regression_curves,
    "learned-distance": learned_distance,
    **{f"{task}-commands": partial(declared, "commands", of=[f"{task}/"]) for task in COMMANDS},
    **{f"table1-{scale}": partial(table1, scale) for scale in TABLE1.scales},
    **{f"oracle-{scale}": partial(table1_oracle, scale) for scale in TABLE1.scales},
}
"""The tables that are not declared in tables.toml."""


def made(name: str) -> str:
    """The table called `name`."""
    return TABLES[name]() if name in TABLES else declared(name)


if __name__ == "__main__":
    main()
